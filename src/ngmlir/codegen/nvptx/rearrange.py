# SPDX-License-Identifier: Apache-2.0
"""Tiles that are made of nothing or of other elements' places: constants, iotas, broadcasts, transposes, reshapes, slices."""

from __future__ import annotations

from math import gcd, prod

from ...ir.attributes import Attribute, FloatAttr, IntegerAttr
from ...ir.elements import ElementsAttr
from ...ir.literals import item_bytes
from ...ir.types import MemRefType, element_type, shape_of
from ...ir.types import i32 as i32_type
from ...llvm.types import Type as LlvmType
from ...llvm.types import Value, constant, from_bits, i32, i64
from ...ops import ng, tile
from .. import elementwise
from ..layouts import Layout, padded
from .access import WIDEST, Access, Bound, alignment, is_shared, is_tile, memory_of, rows
from .block import Tile
from .facts import Facts
from .memory import Buffer, Memory
from .values import Values

#: Sectors that a load along rows asks for, for each that it needs, from which on it is read as one line.
_WASTED = 1.1


def make_constant(values: Values, memory: Memory, op: ng.ConstantOp) -> None:
    literal, kind = op.attributes["value"], elementwise.llvm_element(element_type(op.result.type))
    if not isinstance(literal, ElementsAttr):
        values[op.result] = number(kind, literal)
    elif literal.splat:
        values[op.result] = from_bits(kind, literal.bits)
    else:
        _make_table(values, memory, op, literal)


def _make_table(values: Values, memory: Memory, op: ng.ConstantOp, literal: ElementsAttr) -> None:
    """A constant whose elements differ: read from memory like any tile."""
    b = memory.b
    name = f"{b.name}.constant{len(values)}"
    data = "".join(f"\\{byte:02X}" for byte in literal.data)
    kind = f"[{len(literal.data)} x i8]"
    place = b.module.variable(name, kind, f'c"{data}"', align=16, constant=True, space=1)
    element = literal.type.element
    type = MemRefType(literal.type.shape, element)
    access = rows(type.shape, element)
    layout, pad = values.layout(op.result), constant(elementwise.llvm_element(element), 0)
    origin = [constant(i64, 0)] * type.rank
    loaded = memory.load(access, Buffer(place, type, True), origin, layout, pad)
    values[op.result] = Tile(layout, type.shape, element, loaded)


def make_iota(values: Values, op: ng.IotaOp) -> None:
    b, element, layout = values.block.b, element_type(op.result.type), values.layout(op.result)
    kind = elementwise.llvm_element(element)
    shape = shape_of(op.result.type)
    if not shape:
        values[op.result] = constant(kind, 0)
        return
    counted: list[Value] = []
    for register in range(layout.registers):
        at = values.block.coordinates(layout, register)[op.dimension]
        position = constant(i32, at.constant)
        if at.thread is not None:
            position = b.add(at.thread, at.constant) if at.constant else at.thread
        counted.append(elementwise.cast(b, position, i32_type, element))
    values[op.result] = Tile(layout, shape, element, tuple(counted))


def broadcast(values: Values, op: ng.BroadcastOp) -> None:
    found = values[op.operands[0]]
    if isinstance(found, Value):
        values[op.result] = found
        return
    layout, shape = values.layout(op.result), shape_of(op.result.type)
    kept = op.dimensions
    narrow = layout.drop(d for d in range(len(shape)) if d not in kept)
    source = values.tile(op.operands[0], narrow)
    where = {at: value for at, value in zip(narrow.held, source.values, strict=True)}
    spread = tuple(where[tuple(at[d] for d in kept)] for at in layout.held)
    values[op.result] = Tile(layout, shape, source.element, spread)


def transpose(values: Values, op: ng.TransposeOp) -> None:
    found = values[op.operands[0]]
    if isinstance(found, Tile):
        moved = found.layout.transpose(op.permutation)
        values.enter(op.result, Tile(moved, shape_of(op.result.type), found.element, found.values))
    else:
        values[op.result] = found


def rearrange(values: Values, memory: Memory, op: ng.ReshapeOp | ng.SliceOp) -> None:
    """Reshapes and slices: within threads where the sizes are powers of two, else through shared memory."""
    block, found = values.block, values[op.operands[0]]
    if not isinstance(found, Tile) or not is_tile(op.result):
        found = values.tile(op.operands[0])
        values[op.result] = found.values[0]
        return
    shape = shape_of(op.result.type)
    if isinstance(op, ng.ReshapeOp) and padded(found.shape) == found.shape and padded(shape) == shape:
        values.enter(op.result, Tile(found.layout.reshape(shape), shape, found.element, found.values))
        return
    source, start = rows(found.shape, found.element), 0
    result = rows(shape, found.element)
    if isinstance(op, ng.SliceOp):
        start = sum(s * at for s, at in zip(source.strides, op.starts, strict=True))
        result = result.with_strides(s * step for s, step in zip(source.strides, op.steps, strict=True))
    flat = MemRefType((prod(found.shape),), found.element, None, 0, 3)
    scratch = Buffer(block.scratch(flat.size * item_bytes(flat.element)), flat, False)
    memory.store(source, scratch, [constant(i64, 0)], found)
    block.barrier()
    layout, pad = values.layout(op.result), constant(elementwise.llvm_element(flat.element), 0)
    loaded = memory.load(result, scratch, [constant(i64, start)], layout, pad)
    block.scratch_done()
    values[op.result] = Tile(layout, shape, found.element, loaded)


def in_one_line(op: tile.LoadOp, access: Access, layout: Layout, facts: Facts) -> Access | None:
    """The line of memory that a load of whole rows is, where threads that read along each row would ask for sectors twice:
    rows that begin off a sector, of a matrix that lies in one piece."""
    buffer, memory = op.buffer, memory_of(op.buffer, op)
    if len(access.shape) != 2 or memory.rank != 2 or is_shared(buffer):
        return None
    rows_at, start = map(facts.of, op.indices)
    columns = memory.shape[1]
    inside = start.constant and start.low == 0 and access.shape[1] >= columns
    whole = inside and access.strides == (columns, 1)
    # Of rows that are shorter than a request, a warp reads several that lie together.
    if not whole or columns < 32 or access.waste(layout) < _WASTED:
        return None
    if any(bound.dimension == 0 and not bound.positive for bound in access.bounds):
        return None
    size = access.shape[0] * columns
    aligned = gcd(alignment(buffer, facts), rows_at.divisor * columns, size, WIDEST // access.item)
    width = aligned & -aligned
    return Access((size,), access.item, (1,), (), 0, width) if width > access.width else None


def load_rows(
    values: Values, memory: Memory, op: tile.LoadOp, access: Access, line: Access, layout: Layout, pad: Value
) -> tuple[Value, ...]:
    """A tile of whole rows: read as one line and taken apart in shared memory; the last rows, of which some are not there,
    as they lie."""
    b, indices = memory.b, values.scalars(op.indices)
    buffer = values.buffer(op.buffer)

    def at_once() -> tuple[Value, ...]:
        return _load_line(values, memory, op, line, layout, pad)

    def as_they_lie() -> tuple[Value, ...]:
        return memory.load(access, buffer, indices, layout, pad)

    if not any(bound.dimension == 0 for bound in access.bounds):
        return at_once()
    ways = [(b.label("whole"), at_once), (b.label("last"), as_they_lie)]
    after = b.label("loaded")
    most = buffer.type.shape[0] - access.shape[0]
    b.branch_if(b.icmp("sle", indices[0], most), *(label for label, _ in ways))
    ends: list[tuple[tuple[Value, ...], str]] = []
    for label, load in ways:
        b.place(label)
        with values.block.region():
            ends.append((load(), b.block))
        b.branch(after)
    b.place(after)
    (first, one), (second, other) = ends
    return tuple(b.phi(v.type, (v, one), (w, other)) for v, w in zip(first, second, strict=True))


def _load_line(
    values: Values, memory: Memory, op: tile.LoadOp, line: Access, layout: Layout, pad: Value
) -> tuple[Value, ...]:
    block, source, element = values.block, values.buffer(op.buffer), element_type(op.result.type)
    columns, (rows, across) = source.type.shape[1], shape_of(op.result.type)
    first = block.b.mul(values.scalar(op.indices[0]), columns)
    flat = Buffer(source.pointer, MemRefType((source.type.size,), element), source.steady)
    spread = line.layout(block.threads)
    found = Tile(spread, line.shape, element, memory.load(line, flat, [first], spread, pad))
    place = block.scratch(rows * columns * line.item)
    zero = constant(i64, 0)
    memory.store(line, Buffer(place, MemRefType(line.shape, element, None, 0, 3), False), [zero], found)
    block.barrier()
    ends = (Bound(1, columns, 1, 1, True),) if across > columns else ()
    taken = Access((rows, across), line.item, (columns, 1), ends, None, 1)
    kept = Buffer(place, MemRefType((rows, columns), element, None, 0, 3), False)
    loaded = memory.load(taken, kept, [zero, zero], layout, pad)
    block.scratch_done()
    return loaded


def number(kind: LlvmType, literal: Attribute) -> Value:
    if isinstance(literal, FloatAttr):
        return from_bits(kind, literal.bits)
    assert isinstance(literal, IntegerAttr)
    return constant(kind, literal.value)
