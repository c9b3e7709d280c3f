# SPDX-License-Identifier: Apache-2.0
"""The memory accesses of a tile.load or tile.store: strides, bounds, and the width of its vector accesses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import NamedTuple

from ...ir.core import Op, Value
from ...ir.literals import item_bytes
from ...ir.types import MemRefType, Type, VectorType, as_memref, shape_of
from ...ops import tile
from ...ops.accesses import whole_of
from ...ops.fields import find_i64s
from ...ops.layouts import Layout, blocked, padded
from ...support.diagnostics import Limit
from ...support.machines import CHUNK_BYTES, SECTOR_BYTES
from .facts import Facts

#: The widest access of one thread in bytes, to which every buffer is aligned.
WIDEST = CHUNK_BYTES


class Bound(NamedTuple):
    """A bound that a mask checks: buffer dimension `dimension` has `size` elements, and tile dimension `along` (None:
    none) runs along it with stride `step`. `positive`: the tile is known not to begin before the buffer; `low` and
    `high`: range of its first index."""

    dimension: int
    size: int
    along: int | None
    step: int
    positive: bool
    low: int
    high: int

    def known(self, place: int, reach: int) -> bool | None:
        """Whether the elements from `place` to `place + reach` after the tile's first are inside: True if all are,
        False if none is, None if unknown."""
        if self.low + place >= self.size:
            return False
        return True if self.positive and self.high + place + reach < self.size else None


@dataclass(frozen=True)
class Access:
    """`strides`: in elements, per tile dimension. `bounds`: those that a mask must check. `width`: how many neighbours
    along tile dimension `closest` are contiguous and aligned in memory. `ragged`: the end of the buffer may be between
    some of them."""

    shape: tuple[int, ...]
    item: int
    strides: tuple[int, ...]
    bounds: tuple[Bound, ...]
    closest: int | None
    width: int
    ragged: bool = False

    @property
    def inside(self) -> Access:
        """The same access for a tile that is completely inside the buffer."""
        return replace(self, bounds=(), ragged=False)

    @property
    def order(self) -> tuple[int, ...]:
        """Tile dimensions by increasing stride in memory; those of size 1 last."""
        dims = reversed(range(len(self.shape)))
        return tuple(sorted(dims, key=lambda d: (self.shape[d] == 1, abs(self.strides[d]))))

    def layout(self, threads: int) -> Layout:
        """The layout with the least memory traffic."""
        return blocked(self.shape, threads, self.width, self.order)

    def in_line(self, threads: int, many: bool) -> bool:
        """Whether the tile is whole rows of a matrix that are not aligned to sectors, with at least one row per thread,
        and its elements are words or there are `many` blocks."""
        rows, across = (*self.shape, 0, 0)[:2]
        near = len(self.shape) == 2 and self.strides[1] == 1 and 1 < self.strides[0] <= across
        return (
            near
            and (many or self.item >= 4)
            and rows >= threads
            and self.strides[0] * self.item % SECTOR_BYTES != 0
        )

    def by_rows(self, threads: int) -> Layout:
        """The layout in which each thread has whole rows."""
        return replace(self, width=self.shape[1]).layout(threads)

    def piece(self, layout: Layout) -> int:
        """How many consecutive registers of `layout` one instruction can load or store."""
        return 1 if self.closest is None else min(self.width, layout.run(self.closest))

    def waste(
        self, layout: Layout, starts: Iterable[int] = (0,), warps: int = 1, columns: int | None = None
    ) -> float:
        """Sectors that the instructions of `warps` warps touch, divided by the sectors that the moved elements would
        fill; the mean over tiles that begin `starts` bytes after a sector boundary, of whose rows only the first
        `columns` exist."""
        piece, closest = self.piece(layout), self.closest or 0

        def at(coordinates: tuple[int, ...]) -> tuple[int, int]:
            return self._offset(coordinates), coordinates[closest] if coordinates else 0

        lanes = {at(layout.of_thread(lane)) for lane in range(32)}
        # Registers, lanes and warps own different bits of a position, so offsets add up; of the sum of register and
        # warp only the offset in a sector matters.
        places: Counter[tuple[int, int]] = Counter()
        for warp in range(0, min(32 * warps, layout.threads), 32):
            offset, column = at(layout.of_thread(warp))
            for register in range(0, layout.registers, piece):
                further, beside = at(layout.held[register])
                places.update(
                    ((start + offset + further) % SECTOR_BYTES, column + beside) for start in starts
                )
        asked = moved = 0
        for (start, column), count in places.items():
            there = [start + lane for lane, beside in lanes if columns is None or column + beside < columns]
            asked += count * len(
                {(each + k) // SECTOR_BYTES for each in there for k in (0, piece * self.item - 1)}
            )
            moved += count * len(there) * piece
        return asked / max(1, moved * self.item / SECTOR_BYTES)

    def with_strides(self, strides: Iterable[int]) -> Access:
        return replace(self, strides=tuple(strides), closest=None, width=1, ragged=False)

    def _offset(self, coordinates: tuple[int, ...]) -> int:
        return self.item * sum(c * s for c, s in zip(coordinates, self.strides, strict=True))


def rows(shape: tuple[int, ...], element: Type) -> Access:
    """The access of a tile that is stored in row-major order, one element at a time."""
    strides = MemRefType(shape, element).row_strides
    return Access(shape, item_bytes(element), strides, (), None, 1)


def access_of(op: Op, facts: Facts, many: bool) -> Access:
    """The access of a tile.load or tile.store whose indices are known to `facts`; `many`: whether the kernel has many
    blocks."""
    if isinstance(op, tile.LoadOp):
        type, buffer, indices = op.result.type, op.operands[0], op.operands[1:]
    else:
        type, buffer, indices = op.operands[0].type, op.operands[1], op.operands[2:]
    return window(op, type, buffer, indices, facts, many)


def window(op: Op, type: Type, buffer: Value, indices: tuple[Value, ...], facts: Facts, many: bool) -> Access:
    memory = memory_of(buffer, op)
    shape = shape_of(type)
    rank = len(shape)
    dims = find_i64s(op, "dims") or tuple(range(memory.rank - rank, memory.rank))
    steps = find_i64s(op, "steps") or (1,) * rank
    strides = tuple(memory.row_strides[d] * step for d, step in zip(dims, steps, strict=True))
    bounds = bounds_of(indices, memory, dims, steps, shape, facts) if "masked" in op.attributes else ()
    long = [d for d in range(rank) if shape[d] > 1]
    closest = next((d for d in long if strides[d] == 1), None)
    item = item_bytes(memory.element)
    width, ragged = 1, False
    if closest is not None:
        start = alignment(buffer, facts)
        for index, stride in zip(indices, memory.row_strides, strict=True):
            start = gcd(start, facts.of(index).divisor * stride)
        start = gcd(start, *(strides[d] for d in long if d != closest))
        # A vector access must be completely inside the tile, or completely outside. The same holds for the buffer if a
        # tile is wider than it, or if there are few blocks: the extra work of the last block would take longer than all
        # others.
        if padded(shape) != shape:
            start = gcd(start, shape[closest])
        ends = [bound.size for bound in bounds if bound.along == closest]
        start = gcd(start, *(end for end in ends if end < shape[closest] or not many))
        limit = WIDEST // item
        width = min(limit, start & -start) if start else limit
        ragged = any(end % width for end in ends)
    return Access(shape, item, strides, bounds, closest, width, ragged)


def bounds_of(
    indices: Sequence[Value],
    memory: MemRefType,
    dims: Sequence[int],
    steps: Sequence[int],
    shape: Sequence[int],
    facts: Facts,
) -> tuple[Bound, ...]:
    """The bounds that a tile or subview at `indices` of a buffer may cross; tile dimension d runs along dimension
    dims[d] of the buffer."""
    bounds: list[Bound] = []
    for dimension, (index, size) in enumerate(zip(indices, memory.shape, strict=True)):
        along = dims.index(dimension) if dimension in dims else None
        step = steps[along] if along is not None else 1
        span = (shape[along] - 1) * step if along is not None else 0
        known = facts.of(index)
        positive = known.low + min(span, 0) >= 0
        if not positive or known.high + max(span, 0) >= size:
            bounds.append(Bound(dimension, size, along, step, positive, known.low, known.high))
    return tuple(bounds)


def alignment(buffer: Value, facts: Facts) -> int:
    """A divisor of the address of a buffer's first element, in elements."""
    type, owner = as_memref(buffer.type), buffer.owner
    if isinstance(owner, tile.SubviewOp):
        parent = owner.operands[0]
        start = alignment(parent, facts)
        for index, stride in zip(owner.operands[1:], as_memref(parent.type).row_strides, strict=True):
            start = gcd(start, facts.of(index).divisor * stride)
        return start
    return max(1, facts.alignments.get(buffer, WIDEST) // item_bytes(type.element))


def memory_of(buffer: Value, op: Op) -> MemRefType:
    """The type of a buffer; Limit unless all its sizes and strides are known and no stride is negative."""
    type = as_memref(buffer.type)
    if not type.static or any(stride < 0 for stride in type.row_strides):
        raise Limit(f"{type}: on GPUs, sizes and strides must be known at compile time", op.location)
    return type


def is_shared(buffer: Value) -> bool:
    """Whether a buffer is in shared memory."""
    return isinstance(whole_of(buffer).owner, tile.AllocOp)


def is_tile(value: Value) -> bool:
    """Whether a value is distributed over threads, and not the same in all of them."""
    return isinstance(value.type, VectorType)
