# SPDX-License-Identifier: Apache-2.0
"""Buffers: subviews, allocation, copies, and the loads and stores of tiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...ir.attributes import FloatAttr, IntegerAttr
from ...ir.core import Op
from ...ir.core import Value as IRValue
from ...ir.literals import bytes_of, item_bytes
from ...ir.types import (
    DYNAMIC,
    MemRefType,
    Type,
    as_memref,
    element_type,
    i1,
    shape_of,
    tile_type,
)
from ...llvm import types as llvm
from ...llvm.text import FUNCTION_ATTRIBUTES, Argument, Module
from ...llvm.types import Value, constant, from_bits, i64, ptr, vector, zero
from ...ops import ng, tile
from ...ops.accesses import leaves_its_buffer
from ...support.diagnostics import Limit
from ...support.lengths import at_least, greatest_divisor, is_open, is_same
from . import lanes
from .access import Access, Inside, address
from .emitter import Buffer, Deferred, Emitter
from .formats import memory
from .shapes import permuted_registers
from .tiles import Chunk


@dataclass(frozen=True)
class _DeferredLoad(Deferred):
    """A deferred tile.load: its accesses, and the padding for elements outside the buffer."""

    access: Access
    element: Type
    pad: int  # bits

    def register(self, e: Emitter, row: tuple[int, ...], chunk: Chunk) -> Value:
        return _load_register(e, self.access, self.element, self.pad, self.access.inside(row), row, chunk)

    def scalar(self, e: Emitter, coordinates: tuple[int, ...]) -> Value:
        inside = self.access.inside(coordinates)
        kind = memory(self.element)
        pointer = self.access.pointer(kind, self.access.offset(coordinates)) if inside else self.access.base
        pad, align = from_bits(kind, self.pad), self.access.align
        found = lanes.load(e, kind, pointer, Chunk(0, 1, 1), inside, pad, spare=False, align=align)
        return _to_register(e, self.element, found)


# Loads and stores


def load(e: Emitter, op: tile.LoadOp) -> None:
    """tile.load"""
    buffer, element = e.buffer(op.buffer), element_type(op.result.type)
    shape = shape_of(op.result.type)
    access = Access(e, buffer, op.indices, shape, op.dims, op.steps, bool(op.masked))
    pad = _pad_bits(op)
    if op in e.deferred and _can_wait(access, e.deferred[op], shape):
        e.bind(op.result, _DeferredLoad(access, element, pad))
        return
    order = _flipped(access)
    if order is None:
        e.define(op.result, _load_registers(e, access, element, pad, shape))
        return
    turned = tuple(shape[d] for d in order)
    registers = _load_registers(e, access.permuted(order), element, pad, turned)
    e.define(op.result, permuted_registers(e, registers, turned, order))


def store(e: Emitter, op: tile.StoreOp) -> None:
    """tile.store"""
    buffer, element = e.buffer(op.buffer), element_type(op.value.type)
    shape = shape_of(op.value.type)
    access = Access(e, buffer, op.indices, shape, op.dims, op.steps, bool(op.masked))
    registers = e.registers(op.value)
    if not e.machine.masks and isinstance(op.value.owner, ng.SelectOp):
        # LLVM stores the choice between an element and that which is there by a mask, which takes some 15 cycles on Zen 4 (AVX2).
        registers = [e.b.freeze(register) for register in registers]
    order = _flipped(access)
    if order is not None:
        registers = permuted_registers(e, registers, shape, order)
        access, shape = access.permuted(order), tuple(shape[d] for d in order)
    kind = memory(element)
    conditions: dict[tuple[int, ...], Inside] = {}
    for (row, chunk), register in zip(e.layout(tile_type(shape, element)).each(), registers, strict=True):
        if row not in conditions:
            conditions[row] = access.inside(row)
        mask = access.chunk(conditions[row], chunk)
        if mask is False:
            continue
        offset = access.offset(row) + chunk.offset * access.stride
        pointer = access.pointer(kind, offset)
        value = e.b.zext(register, vector(chunk.width, kind)) if element is i1 else register
        if access.stride == 1 and mask is True and chunk.count == chunk.width and op.buffer in e.streams:
            lanes.stream(e, value, pointer, greatest_divisor(access.divisor, offset))
        elif access.stride == 1:
            lanes.store(e, value, pointer, chunk, mask)
        else:
            lanes.store_apart(e, value, pointer, access.stride, chunk, mask)


def _load_registers(
    e: Emitter, access: Access, element: Type, pad: int, shape: tuple[int, ...]
) -> list[Value]:
    conditions: dict[tuple[int, ...], Inside] = {}
    registers: list[Value] = []
    for row, chunk in e.layout(tile_type(shape, element)).each():
        if row not in conditions:
            conditions[row] = access.inside(row)
        registers.append(_load_register(e, access, element, pad, conditions[row], row, chunk))
    return registers


def _load_register(
    e: Emitter, access: Access, element: Type, pad: int, inside: Inside, row: tuple[int, ...], chunk: Chunk
) -> Value:
    kind, stride, wanted = memory(element), access.stride, chunk
    offset = access.offset(row) + chunk.offset * stride
    if chunk.count > 1 and lanes.is_near(stride) and (dense := access.dense(lanes.masks(e, kind))):
        # The elements between are loaded too: they are inside the buffer wherever elements after them are.
        access, count = dense, (chunk.count - 1) * stride + 1
        chunk = Chunk(chunk.offset * stride, count, 1 << (count - 1).bit_length())
    mask = access.chunk(inside, chunk)
    filler = from_bits(vector(chunk.width, kind), pad)
    pointer = access.pointer(kind, offset) if mask is not False else access.base
    if access.stride == 1:
        spare = bool(at_least(access.spare, offset + chunk.width))
        found = lanes.load(e, kind, pointer, chunk, mask, filler, spare, access.align)
    else:
        found = lanes.load_apart(e, kind, pointer, stride, chunk, mask, filler)
    if chunk is not wanted:
        places = [i * stride if i < wanted.count else -1 for i in range(wanted.width)]
        found = e.b.shuffle(found, None, places)
    return _to_register(e, element, found)


def _to_register(e: Emitter, element: Type, found: Value) -> Value:
    return e.b.icmp("ne", found, 0) if element is i1 else found


def _pad_bits(op: tile.LoadOp) -> int:
    match op.pad:
        case FloatAttr(bits=bits) | IntegerAttr(value=bits):
            return bits
        case _:
            return 0


def _flipped(access: Access) -> tuple[int, ...] | None:
    """The order of dimensions in which the last one is contiguous; None if the last dimension is already, or none is."""
    if access.stride in (1, 0, -1):
        return None
    order = list(range(len(access.dimensions)))
    for d, dimension in enumerate(access.dimensions):
        if dimension.stride == 1 and dimension.size > 1:
            order[d], order[-1] = order[-1], order[d]
            return tuple(order)
    return None


def _can_wait(access: Access, places: frozenset[int], shape: tuple[int, ...]) -> bool:
    """Whether a dot can load this tile itself: as scalars of which it is known whether they are inside, or as
    contiguous rows."""
    if 1 in places and access.stride != 1:
        return False
    if 0 not in places or not access.masked:
        return True
    corners = [(m, k) for m in range(shape[0]) for k in range(shape[1])]
    return all(isinstance(access.known(corner), bool) for corner in corners)


# Buffers


def view(e: Emitter, op: tile.ViewOp) -> None:
    """tile.view"""
    pointer, type = e.buffer(op.arena).pointer, _memref(op.result, op)
    if not is_same(op.offset, 0):
        pointer = e.b.getelementptr(llvm.i8, pointer, op.offset)
    align = min(item_bytes(type.element), item_bytes(element_type(op.arena.type)))
    e.bind(op.result, Buffer(pointer, type, align))


def subview(e: Emitter, op: tile.SubviewOp) -> None:
    """tile.subview"""
    indices = [e.scalar(index) for index in op.indices]
    e.bind(op.result, Buffer(address(e, e.buffer(op.buffer), indices), _memref(op.result, op)))


def alloc(e: Emitter, op: tile.AllocOp) -> None:
    """tile.alloc"""
    type = _memref(op.result, op)
    e.bind(op.result, Buffer(e.scratch(type.extent * item_bytes(type.element)), type))


def prefetch(e: Emitter, op: tile.PrefetchOp) -> None:
    """tile.prefetch"""
    e.b.prefetch(address(e, e.buffer(op.buffer), [e.scalar(index) for index in op.indices]))


#: The most copies in one function that are emitted inline: LLVM expands short ones to loads and stores, and the time to
#: schedule these grows with the square of their number.
COPIES = 64
#: Copies of at least this many bytes test whether source and target are the same buffer, as where a kernel works in
#: place.
LOOKED_AT = 1 << 10
#: The name of the function that copies bytes, for functions with more than COPIES copies.
COPY = "copy.bytes"


def write_copy(text: Module) -> None:
    """Emits the function that copies bytes, for functions with many copies."""
    given = [Argument(ptr, "to"), Argument(ptr, "from"), Argument(i64, "count")]
    b = text.function(COPY, "void", given, linkage="internal", attributes=f"{FUNCTION_ATTRIBUTES} noinline")
    b.memcpy(*b.arguments)
    b.ret()


def copy_by_call(e: Emitter, op: tile.CopyOp) -> None:
    """tile.copy, as a call of the function that `write_copy` emits."""
    copy_apart(e, op, lambda to, source, count: e.b.call("void", COPY, to, source, constant(i64, count)))


def copy(e: Emitter, op: tile.CopyOp) -> None:
    """tile.copy in a kernel; skipped at run time if source and target are the same buffer, as where the kernel works in
    place."""
    size = bytes_of(op.source.type)
    if not is_open((size,)) and size < LOOKED_AT:
        copy_apart(e, op)
        return
    source, target = e.buffer(op.source), e.buffer(op.target)
    with e.b.when(e.b.icmp("ne", source.pointer, target.pointer)):
        copy_apart(e, op)


def copy_apart(
    e: Emitter, op: tile.CopyOp, run_of: Callable[[Value, Value, int], object] | None = None
) -> None:
    """tile.copy: a loop over the dimensions outside those that are contiguous in both buffers."""
    source, target = e.buffer(op.source), e.buffer(op.target)
    shape = source.type.shape
    if 0 in shape:
        return
    if leaves_its_buffer(op.source):
        _copy_what_is_there(e, op, target)
        return
    run, inner = 1, len(shape)
    while inner and all(is_same(t.row_strides[inner - 1], run) for t in (source.type, target.type)):
        inner -= 1
        run *= shape[inner]
    b, kind, size = e.b, memory(source.type.element), item_bytes(source.type.element)

    def rows(here: Value, there: Value, at: int = 0) -> None:
        """Copies the dimensions from `at` on."""
        if at < inner:
            with b.loop(0, shape[at]) as loop:
                here = b.getelementptr(kind, here, b.mul(loop.index, source.type.row_strides[at]))
                there = b.getelementptr(kind, there, b.mul(loop.index, target.type.row_strides[at]))
                rows(here, there, at + 1)
        elif run == 1:
            b.store(b.load(kind, here, align=size), there, align=size)
        else:
            (run_of or b.memcpy)(there, here, run * size)

    rows(source.pointer, target.pointer)


def _copy_what_is_there(e: Emitter, op: tile.CopyOp, target: Buffer) -> None:
    """tile.copy of a masked subview, element by element; elements outside its buffer are 0."""
    b, window = e.b, op.source.owner
    assert isinstance(window, tile.SubviewOp)
    buffer = e.buffer(window.buffer)
    starts = [e.scalar(index) for index in window.indices]
    fixed = len(starts) - target.type.rank
    kind, size = memory(target.type.element), item_bytes(target.type.element)
    first = buffer.pointer if buffer.type.size else target.pointer

    def along(dimension: int, to: Value, offset: Value, inside: Value) -> None:
        if dimension == buffer.type.rank:
            # For an element outside, one that exists is loaded, and the value is discarded.
            place = b.getelementptr(kind, first, b.select(inside, offset, 0))
            b.store(b.select(inside, b.load(kind, place, align=size), zero(kind)), to, align=size)
            return
        stride = buffer.type.row_strides[dimension]

        def one(at: Value, there: Value) -> None:
            here = b.and_(inside, b.icmp("ult", at, buffer.type.shape[dimension]))
            along(dimension + 1, there, b.add(offset, b.mul(at, stride)), here)

        if dimension < fixed:
            one(starts[dimension], to)
            return
        number = dimension - fixed
        with b.loop(0, target.type.shape[number]) as loop:
            there = b.getelementptr(kind, to, b.mul(loop.index, target.type.row_strides[number]))
            one(b.add(starts[dimension], loop.index), there)

    along(0, target.pointer, constant(i64, 0), constant(llvm.i1, 1))


def _memref(value: IRValue, op: Op) -> MemRefType:
    type = as_memref(value.type)
    if not type.static or DYNAMIC in type.row_strides:
        raise Limit(f"{type} has sizes that are not known at compile time", op.location)
    return type
