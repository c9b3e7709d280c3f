# SPDX-License-Identifier: Apache-2.0
"""tile.gather and tile.scatter: one element of a buffer per position of index tiles."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ir.literals import item_bytes
from ...ir.types import FloatType, IntegerType, MemRefType, Type, i1
from ...ir.types import index as index_type
from ...llvm.types import Value, constant, i32, i64, poison
from ...ops import tile
from ...ops.layouts import Layout
from ...support.diagnostics import Limit
from ..elementwise import JOINS, apply, cast, llvm_element
from .access import rows
from .block import Block, Tile, memory_element
from .memory import Buffer, Memory

#: An index for each element of a tile, or one for all of them; with its type in the IR.
Index = tuple[Tile | Value, Type]
#: The smallest number of bytes that an atomic operation changes.
_WORD = 4


def gather(
    memory: Memory, buffer: Buffer, indices: Sequence[Index], layout: Layout, shape: Sequence[int]
) -> tuple[Value, ...]:
    """One element per position of the index tiles, all in `layout`."""
    block, kind = memory.block, memory_element(buffer.type.element)
    element = llvm_element(buffer.type.element)
    values: list[Value] = []
    for register in range(layout.registers):
        inside = block.alive(layout, register, shape)
        if inside is False:
            values.append(poison(element))
            continue
        place = _address(block, buffer, _position(block, buffer, indices, register))
        got = memory.fetch(buffer, place, kind, 1, inside, constant(kind, 0))
        values.append(block.from_memory(got, element))
    return tuple(values)


def scatter(
    memory: Memory, op: tile.ScatterOp, buffer: Buffer, value: Tile, mask: Tile, indices: Sequence[Index]
) -> None:
    """Positions may repeat. If the order of the elements affects the result, they are combined in that order. So are
    elements that are narrower than the word that atomic operations change, since another block may write its own
    element of the word at the same time."""
    block = memory.block
    inside = [
        block.both(block.alive(value.layout, register, value.shape), mask.values[register])
        for register in range(value.layout.registers)
    ]
    positions = [_position(block, buffer, indices, register) for register in range(value.layout.registers)]
    ordered = op.combine == "set" or (op.combine == "add" and isinstance(value.element, FloatType))
    if ordered or (item_bytes(value.element) < _WORD and value.element is not i1):
        _in_order(memory, buffer, value, inside, positions, JOINS.get(op.combine))
    else:
        _at_once(block, op, buffer, value, inside, positions)


def _at_once(
    block: Block,
    op: tile.ScatterOp,
    buffer: Buffer,
    value: Tile,
    inside: Sequence[Value | bool],
    positions: Sequence[Value],
) -> None:
    """Atomic operations, for combinations whose result does not depend on the order."""
    b, operation = block.b, _atomic(op, value.element)
    speaks = block.is_first_copy(value.layout)
    for position, element, known in zip(positions, value.values, inside, strict=True):
        wanted = block.both(speaks, known)
        if isinstance(wanted, Value):
            with b.when(wanted):
                place = _address(block, buffer, position)
                b.atomic(operation, place, element, 'syncscope("device") monotonic')


def _in_order(
    memory: Memory,
    buffer: Buffer,
    value: Tile,
    inside: Sequence[Value | bool],
    positions: Sequence[Value],
    combine: str | None,
) -> None:
    """Each position is written by the thread that holds the last element for it.

    All threads loop over the positions of the whole tile, which are in shared memory. So each thread finds out whether
    a later element goes to the same position as its own, and the result of combining the elements up to its own by
    `combine`.
    """
    block, b, layout = memory.block, memory.block.b, value.layout
    count = prod(value.shape)
    kind = memory_element(value.element)
    item = item_bytes(value.element)
    nowhere = constant(i64, -1)
    own = [_chosen(block, known, at, nowhere) for known, at in zip(inside, positions, strict=True)]

    base = block.scratch(count * (8 + item if combine else 8))
    sums = b.getelementptr("i8", base, 8 * count)
    _share(memory, base, Tile(layout, value.shape, index_type, tuple(own)))
    if combine:
        _share(memory, sums, value)
    block.barrier()

    last = [constant(i32, 0)] * len(own)
    totals: list[Value] = []
    for known, position in zip(inside, positions, strict=True):
        if combine and known is not False:
            place = _address(block, buffer, position)
            totals.append(memory.fetch(buffer, place, kind, 1, known, constant(kind, 0)))
        elif combine:
            totals.append(constant(kind, 0))
    with b.loop(constant(i32, 0), count, 1, [*last, *totals], certain=True) as loop, block.branch():
        place = b.zext(loop.index, i64)
        position = b.load(i64, b.getelementptr(i64, base, place), align=8)
        same = [b.icmp("eq", position, at) for at in own]
        following = [
            b.select(met, loop.index, at) for met, at in zip(same, loop.carried[: len(own)], strict=True)
        ]
        if combine:
            element = b.load(kind, b.getelementptr(kind, sums, place), align=item)
            for met, total in zip(same, loop.carried[len(own) :], strict=True):
                following.append(b.select(met, apply(b, combine, value.element, total, element), total))
        loop.next(*following)
    if combine:
        block.barrier()  # all threads have read the old elements before the last one overwrites them
    else:
        block.scratch_done()

    results = loop.results[len(own) :] if combine else [block.to_memory(v) for v in value.values]
    speaks = block.is_first_copy(layout)
    for register, result in enumerate(results):
        is_last = b.icmp("eq", loop.results[register], _number(block, layout, register, value.shape))
        wanted = block.both(block.both(speaks, inside[register]), is_last)
        if wanted is not False:
            memory.put(buffer, _address(block, buffer, positions[register]), result, wanted)


def _chosen(block: Block, condition: Value | bool, x: Value, y: Value) -> Value:
    if isinstance(condition, Value):
        return block.b.select(condition, x, y)
    return x if condition else y


def _share(memory: Memory, place: Value, tile: Tile) -> None:
    """Writes a tile to shared memory in row-major order."""
    flat = MemRefType((prod(tile.shape),), tile.element, None, 0, 3)
    memory.store(rows(tile.shape, tile.element), Buffer(place, flat, False), [constant(i64, 0)], tile)


def _number(block: Block, layout: Layout, register: int, shape: tuple[int, ...]) -> Value:
    """The row-major number of an element."""
    coordinates = block.coordinates(layout, register)
    strides = rows(shape, index_type).strides
    known = sum(c.constant * stride for c, stride in zip(coordinates, strides, strict=True))
    moving = block.linear([c.thread for c in coordinates], strides)
    return constant(i32, known) if moving is None else block.b.add(moving, known)


def _position(block: Block, buffer: Buffer, indices: Sequence[Index], register: int) -> Value:
    """The offset in a buffer to which one element of the index tiles points, in elements."""
    wide = [
        cast(block.b, index.values[register] if isinstance(index, Tile) else index, kind, index_type)
        for index, kind in indices
    ]
    return block.linear(wide, buffer.type.row_strides) or constant(i64, 0)


def _address(block: Block, buffer: Buffer, position: Value) -> Value:
    return block.b.getelementptr(memory_element(buffer.type.element), buffer.pointer, position)


def _atomic(op: tile.ScatterOp, element: Type) -> str:
    if isinstance(element, FloatType):
        return {"max": "fmaximum", "min": "fminimum"}[op.combine]
    assert isinstance(element, IntegerType)
    if element.width == 1:
        raise Limit("tile.scatter cannot combine values of type i1 on the GPU", op.location)
    sign = "u" if element.unsigned else ""
    return {"add": "add", "max": f"{sign}max", "min": f"{sign}min"}[op.combine]
