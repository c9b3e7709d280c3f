# SPDX-License-Identifier: Apache-2.0
"""tile.gather and tile.scatter: one element of a buffer per position of index tiles."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ir.core import Value as IRValue
from ...ir.types import IntegerType, Type, element_type, f32, i1, shape_of, ui8
from ...llvm import types as llvm
from ...llvm.text import Function
from ...llvm.types import Value, constant, i64, vector, with_element, zero
from ...ops import tile
from ...ops.tile_rules import BYTE_TABLE
from ...support.diagnostics import Location
from ..elementwise import JOINS
from . import formats, rules
from .emitter import Buffer, Emitter
from .lanes import vector_mask
from .tiles import resize


def gather(e: Emitter, op: tile.GatherOp) -> None:
    """tile.gather"""
    b, buffer, element = e.b, e.buffer(op.buffer), element_type(op.result.type)
    kind, align = formats.memory(element), formats.item_bytes(formats.memory(element))
    registers: list[Value] = []
    places = _places(e, op.indices, op.result, buffer)
    for (_, chunk), place in zip(e.layout(op.result.type).each(), places, strict=True):
        width = chunk.width
        if e.machine.masks and align >= 4 and width >= 4:
            addresses = b.getelementptr(kind, buffer.pointer, place)
            mask = vector_mask(True, chunk)
            found = b.gather(vector(width, kind), addresses, mask, zero(vector(width, kind)), align=align)
        else:
            found = zero(vector(width, kind))
            held = e.passing(8 * width, op.location) if width > 1 else None
            if held is not None:
                b.store(place, held, align=8)
            for lane in range(chunk.count):
                at = place if held is None else b.load(i64, b.getelementptr(i64, held, lane), align=8)
                address = b.getelementptr(kind, buffer.pointer, at)
                one = b.load(kind, address, align=align)
                found = one if width == 1 else b.insert(found, one, lane)
        registers.append(b.icmp("ne", found, 0) if element is i1 else found)
    e.define(op.result, registers)


def lookup_table(e: Emitter, op: tile.LookupTableOp) -> None:
    """tile.lookup_table"""
    b, element = e.b, element_type(op.table.type)
    entries = shape_of(op.table.type)[-1]
    table, indices = e.registers(op.table), e.registers(op.indices)
    if entries == BYTE_TABLE:
        e.define(op.result, _of_all_bytes(e, table, indices, op.location))
        return
    rows = len(table) * len(e.layout(op.indices.type).chunks) // len(indices)
    registers: list[Value] = []
    for i, (at, chunk) in enumerate(zip(indices, e.layout(op.indices.type).each(), strict=True)):
        row = i // len(e.layout(op.indices.type).chunks) * rows
        whole, width = table[row : row + rows], chunk[1].width
        if element is ui8:
            registers.append(_bytes(e, whole, at))
            continue
        if e.target.can("lookups") and rows == 1 and width == entries and element is f32:
            registers.append(b.call(whole[0].type, "llvm.x86.avx512.permvar.sf.512", whole[0], at))
            continue
        found = zero(vector(width, formats.storage(element)))
        for lane in range(chunk[1].count):
            place = b.and_(b.extract(at, lane) if width > 1 else at, entries - 1)
            one = _entry(b, whole, place)
            found = one if width == 1 else b.insert(found, one, lane)
        registers.append(found)
    e.define(op.result, registers)


def _of_all_bytes(
    e: Emitter, table: Sequence[Value], indices: Sequence[Value], location: Location
) -> list[Value]:
    """The elements of a table of 256 bytes at indices of 8 bits."""
    b, sizes = e.b, [n // 8 for n, (feature, _) in _LOOKUPS.items() if e.target.has(feature)]
    if not sizes:
        return _through_memory(e, table, indices, location)
    size, permutes = sizes[0], e.target.can("byte_permutes")
    rows = _regrouped(b, table, size if permutes else _ROW)
    if not permutes:
        rows = [b.shuffle(x, None, [*range(_ROW)] * (size // _ROW)) for x in rows]
        rows = [b.xor(x, rows[i - 1]) if i % 8 else x for i, x in enumerate(rows)]
    found: list[Value] = []
    for first in range(0, len(indices), _TOGETHER):
        group = [resize(b, x, size) for x in indices[first : first + _TOGETHER]]
        found += _permuted(b, rows, group) if permutes else _shuffled(b, rows, group)
    return [resize(b, x, llvm.lanes_of(at.type)) for x, at in zip(found, indices, strict=True)]


def _permuted(b: Function, table: Sequence[Value], indices: Sequence[Value]) -> list[Value]:
    """Lookups in four registers of 64 bytes: an instruction looks up in two of them."""
    found: list[Value] = []
    for at in indices:
        low, high = (b.call(at.type, _PERMUTES, table[i], at, table[i + 1]) for i in (0, 2))
        found.append(b.select(b.icmp("slt", at, 0), high, low))
    return found


def _shuffled(b: Function, table: Sequence[Value], indices: Sequence[Value]) -> list[Value]:
    """Lookups in 16 rows of 16 bytes, repeated in their registers. The instruction takes the lowest four bits of an index, and gives 0
    where its highest bit is set: so 16 is subtracted from the index until that is set, and each row but the first of a half of the
    table is given as the bits that differ from the row before."""
    lanes = llvm.lanes_of(table[0].type)
    found: list[Value | None] = [None] * len(indices)
    for half in range(2):
        left = [b.xor(at, -128) for at in indices] if half else list(indices)
        for row in range(8):
            for i, at in enumerate(left):
                one = b.call(at.type, _LOOKUPS[8 * lanes][1], table[8 * half + row], at)
                before = found[i]
                found[i] = one if before is None else b.xor(before, one)
                # Saturating: what is below 0 stays there.
                left[i] = b.call(at.type, f"llvm.ssub.sat.v{lanes}i8", at, constant(at.type, 16))
    return [one for one in found if one is not None]


def _through_memory(
    e: Emitter, table: Sequence[Value], indices: Sequence[Value], location: Location
) -> list[Value]:
    """Lookups in a table that is stored, lane by lane."""
    b, held, found = e.b, e.passing(BYTE_TABLE, location), list[Value]()
    for i, part in enumerate(table):
        b.store(part, b.getelementptr(llvm.i8, held, i * llvm.lanes_of(part.type)), align=1)
    for at in indices:
        width = llvm.lanes_of(at.type)
        one = zero(at.type)
        for lane in range(width):
            place = b.zext(b.extract(at, lane) if width > 1 else at, i64)
            byte = b.load(llvm.i8, b.getelementptr(llvm.i8, held, place), align=1)
            one = byte if width == 1 else b.insert(one, byte, lane)
        found.append(one)
    return found


def _regrouped(b: Function, parts: Sequence[Value], width: int) -> list[Value]:
    """The lanes of registers in order, in registers of `width` lanes."""
    have = llvm.lanes_of(parts[0].type)
    if have <= width:
        count = width // have
        return [_joined(b, parts[i : i + count]) for i in range(0, len(parts), count)]
    return [b.shuffle(x, None, [*range(at, at + width)]) for x in parts for at in range(0, have, width)]


#: Bytes of a row in which one instruction looks up.
_ROW = 16
#: Registers of indices that are looked up together: with as many results and a row of the table they fit into 16 registers.
_TOGETHER = 4
#: LLVM's name of the instruction that looks up in two registers of 64 bytes.
_PERMUTES = "llvm.x86.avx512.vpermi2var.qi.512"
#: LLVM's names of the instructions that look bytes up in tables of 16, by the bits of a vector; and the features they need.
_LOOKUPS = {
    512: ("avx512bw", "llvm.x86.avx512.pshuf.b.512"),
    256: ("avx2", "llvm.x86.avx2.pshuf.b"),
    128: ("ssse3", "llvm.x86.ssse3.pshuf.b.128"),
}


def _bytes(e: Emitter, table: Sequence[Value], at: Value) -> Value:
    """The bytes of a table of 16 for each byte of the words of a register."""
    b, words = e.b, llvm.lanes_of(at.type)
    indices = b.and_(b.bitcast(at, vector(4 * words, llvm.i8)), 15)
    size = next((n for n, (feature, _) in _LOOKUPS.items() if e.target.has(feature) and n <= 32 * words), 0)
    if not size:
        found = zero(indices.type)
        for lane in range(4 * words):
            found = b.insert(found, _entry(b, table, b.extract(indices, lane)), lane)
        return b.bitcast(found, at.type)
    count = size // 8
    parts: list[Value] = []
    line = _joined(b, table)
    whole = b.shuffle(line, line, [*range(16)] * (count // 16))
    for first in range(0, 4 * words, count):
        part = b.shuffle(indices, indices, [*range(first, first + count)])
        parts.append(b.call(whole.type, _LOOKUPS[size][1], whole, part))
    return b.bitcast(_joined(b, parts), at.type)


def _joined(b: Function, parts: Sequence[Value]) -> Value:
    """Registers of equal type, a power of two of them, one after the other."""
    while len(parts) > 1:
        width = 2 * llvm.lanes_of(parts[0].type)
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [b.shuffle(low, high, [*range(width)]) for low, high in pairs]
    return parts[0]


def _entry(b: Function, table: Sequence[Value], place: Value) -> Value:
    """The element at `place` of a table row that several registers hold."""
    found, first = b.extract(table[0], 0), 0
    for register in table:
        for lane in range(llvm.lanes_of(register.type)):
            one = b.extract(register, lane)
            found = b.select(b.icmp("eq", place, first + lane), one, found)
        first += llvm.lanes_of(register.type)
    return found


def scatter(e: Emitter, op: tile.ScatterOp) -> None:
    """tile.scatter: a loop over the elements, since their order matters where positions repeat."""
    b, buffer, element = e.b, e.buffer(op.buffer), element_type(op.value.type)
    kind, count = formats.memory(element), prod(shape_of(op.value.type))
    size = formats.item_bytes(kind)
    if not count:
        return
    # The last register may be wider than the rest of the tile.
    room = -(-(count + e.lanes) // 64) * 64
    places = e.passing(room * (8 + size + 1), op.location)
    values, masks = (b.getelementptr(llvm.i8, places, room * n) for n in (8, 8 + size))
    _spill(e, op.value, _in_memory(e, op.value), kind, values)
    _spill(e, op.mask, _in_memory(e, op.mask), llvm.i8, masks)
    _spill(e, op.value, _places(e, op.indices, op.value, buffer), i64, places)
    with b.loop(0, count) as loop:
        wanted = b.load(llvm.i8, b.getelementptr(llvm.i8, masks, loop.index), align=1)
        with b.when(b.icmp("ne", wanted, 0)):
            place = b.load(i64, b.getelementptr(i64, places, loop.index), align=8)
            value = b.load(kind, b.getelementptr(kind, values, loop.index), align=size)
            address = b.getelementptr(kind, buffer.pointer, place)
            if op.combine != "set":
                value = _combined(e, op, b.load(kind, address, align=size), value)
            b.store(value, address, align=size)


def _combined(e: Emitter, op: tile.ScatterOp, old: Value, new: Value) -> Value:
    element = element_type(op.value.type)
    wide = formats.computing(element)
    x, y = (formats.unpack(e.b, e.machine, element, v) for v in (old, new))
    return formats.pack(e.b, e.machine, element, rules.apply(e.b, e.machine, JOINS[op.combine], wide, x, y))


def _places(e: Emitter, indices: Sequence[IRValue], like: IRValue, buffer: Buffer) -> list[Value]:
    """Offsets in the buffer, in elements, in registers distributed like those of the tile `like`."""
    b = e.b
    found: list[Value] = []
    for number, (_, chunk) in enumerate(e.layout(like.type).each()):
        wide, total = vector(chunk.width, i64), None
        for index, stride in zip(indices, buffer.type.row_strides, strict=True):
            registers = e.registers(index)
            whole = shape_of(index.type) == shape_of(like.type)
            part = _extended(e, registers[number if whole else 0], element_type(index.type))
            part = b.splat(part, chunk.width) if part.type != wide else part
            part = part if stride == 1 else b.mul(part, stride)
            total = part if total is None else b.add(total, part)
        found.append(total if total is not None else constant(wide, 0))
    return found


def _extended(e: Emitter, register: Value, element: Type) -> Value:
    wide = with_element(register.type, i64)
    if register.type == wide:
        return register
    unsigned = isinstance(element, IntegerType) and element.unsigned
    return e.b.zext(register, wide) if unsigned else e.b.sext(register, wide)


def _in_memory(e: Emitter, value: IRValue) -> list[Value]:
    registers = e.registers(value)
    if element_type(value.type) is not i1:
        return list(registers)
    return [e.b.zext(x, with_element(x.type, llvm.i8)) for x in registers]


def _spill(e: Emitter, like: IRValue, registers: Sequence[Value], kind: llvm.Type, to: Value) -> None:
    """Stores registers consecutively; lanes beyond a tile are overwritten by the next register."""
    at = 0
    for (_, chunk), register in zip(e.layout(like.type).each(), registers, strict=True):
        e.b.store(register, e.b.getelementptr(kind, to, at), align=formats.item_bytes(kind))
        at += chunk.count
