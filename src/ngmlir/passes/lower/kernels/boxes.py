# SPDX-License-Identifier: Apache-2.0
"""Transposes on GPUs: each block of threads moves a box, as long as may be in memory on both sides."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ....ir.core import Op
from ....ir.literals import item_bytes
from ....ir.types import VectorType, element_type
from ....support.lengths import power_of_two
from ....support.machines import SECTOR_BYTES
from ....support.target import Target
from ...schedule.programs import tile_width
from .single import Single, SingleFrame

#: Elements of a row that a box takes at least, and of one that begins off a sector.
_RUN, _LONG_RUN = 32, 64


def transpose_in_boxes(op: Op, target: Target, shape: Sequence[int], order: Sequence[int]) -> Single:
    """Of an operand of this shape: parts of long rows, several short ones, many matrices of a few elements."""
    element = element_type(op.operands[0].type)
    result = [shape[d] for d in order]
    box = _box(target, shape, order, item_bytes(element))
    counts = [-(-size // side) for size, side in zip(shape, box, strict=True)]
    # What one block leaves of a page of either side, the next ones take.
    near = [*range(len(shape))[-1:], *order[-1:]]
    loops = [*(d for d in order if d not in near), *dict.fromkeys(near)]
    frame = SingleFrame(op, target, (prod(counts), 1), [shape], [result])
    b = frame.b
    numbers = frame.apart(frame.programs[0], [counts[d] for d in loops])
    starts = {d: b.multiply(at.start, b.index(box[d])) for d, at in zip(loops, numbers, strict=True)}
    tiled = [d for d in range(len(shape)) if box[d] > 1]
    type = VectorType(tuple(box[d] for d in tiled), element) if tiled else element
    masked = any(size % side for size, side in zip(shape, box, strict=True))
    source, place = ([starts[d] for d in dims] for dims in (range(len(shape)), order))
    tile = b.load(frame.sources[0], source, type=type, dims=tiled or None, masked=masked)
    dims = [order.index(d) for d in tiled] or None
    b.store(tile, frame.results[0], place, dims=dims, masked=masked)
    return frame.done()


def _box(target: Target, shape: Sequence[int], order: Sequence[int], item: int) -> list[int]:
    """The extents of a box: those of a run of neighbours in the rows of either side, and then so much more of the shorter run
    that threads have enough to do."""
    box = [1] * len(shape)
    sides = [[*reversed(range(len(shape)))], [*reversed(order)]]

    def growing(side: Sequence[int]) -> int | None:
        """The innermost dimension that a box does not have as a whole."""
        return next((d for d in side if box[d] < shape[d]), None)

    def run(side: Sequence[int]) -> int:
        """Neighbours in the memory of a side."""
        end = growing(side)
        return prod(box) if end is None else prod(box[d] for d in side[: side.index(end) + 1])

    def grow(side: Sequence[int]) -> None:
        d = growing(side)
        assert d is not None
        box[d] = min(2 * box[d], shape[d])

    for side in sides:
        least = _least_run(target, prod(shape), shape[side[0]], item) if side else 0
        while growing(side) is not None and run(side) < least:
            grow(side)
    # Of little, there are blocks for all multiprocessors rather than much in each.
    enough = min(tile_width(target, item), power_of_two(prod(shape) // (2 * target.multiprocessors)))
    while prod(map(power_of_two, box)) < enough:
        grow(min((side for side in sides if growing(side) is not None), key=run))
    return box


def _least_run(target: Target, elements: int, size: int, item: int) -> int:
    """Of rows that begin off a sector a run asks for one sector more: it is all of a short one, and longer where there are
    blocks for all multiprocessors nevertheless. Of single bytes instructions bind, and no sectors."""
    many = 16 * elements >= _LONG_RUN**2 * target.multiprocessors
    off = item > 1 and size * item % SECTOR_BYTES != 0 and size > _RUN
    return _LONG_RUN if off and (many or size <= _LONG_RUN) else _RUN
