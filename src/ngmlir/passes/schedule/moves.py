# SPDX-License-Identifier: Apache-2.0
"""Schedules of kernels that read an operand across its rows, or that only move data on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ops.schedules import Boxes, Flat
from ...ops.settings import Given, Schedule
from ...support.lengths import power_of_two, usual
from ...support.machines import SECTOR_BYTES
from ...support.target import Target
from ..analysis.access import Access
from ..analysis.loop_nest import LoopNest, widest_item
from .candidate import Candidate, fixed, fixed_pair
from .programs import flat_width, part_of, tile_width

#: Bytes of a cache line, which is written as a whole, and of two adjacent ones, which are loaded from memory together.
_LINE, _LINES = 64, 128
#: Elements of a row that a box has at least on a GPU, and of a row that does not begin at a sector.
_RUN, _LONG_RUN = 32, 64
#: Bytes that one warp transfers at once.
_REQUEST = 128
#: Bytes of a tile from which on a thread block spends more time on transfers than on indices.
_SHORT = 512


def boxes(nest: LoopNest, target: Target, given: Given) -> Candidate[Boxes] | None:
    """Tiles along the rows of both sides; None if no operand is read across its rows."""
    item = widest_item(nest)
    sizes = usual(nest.sizes)
    if target.has_thread_blocks:
        access = permuted(nest)
        if access is None:
            return None
        runs = fixed_pair(given, "runs") or (
            _least_run(target, prod(sizes), access.shape[-1], item),
            _least_run(target, prod(sizes), sizes[-1], item),
        )
        # With little data, there are blocks for all multiprocessors rather than much data in each.
        enough = min(tile_width(target, item), power_of_two(prod(sizes) // (2 * target.multiprocessors)))
        tile, part = fixed(given, "tile", enough), 0
    else:
        across = nest.across
        if across is None:
            return None
        side = max(4, target.lanes(4))
        runs = fixed_pair(given, "runs") or (max(side, _LINES // item), max(side, _LINE // item))
        tile = fixed(given, "tile", side * side)
        part = part_of(stripes(sizes, across, runs[0]), runs[1])
    made = Boxes(
        tile=tile,
        runs=runs,
        part=fixed(given, "part", part),
        threads=fixed(given, "threads", target.threads if target.has_thread_blocks else 1),
    )
    return Candidate(made, prod(sizes), prod(sizes))


def move_conflicts(family: type[Schedule], nest: LoopNest, target: Target) -> list[str]:
    """Why no kernel of a `map` fusion can be built with boxes, or with collapsed loops."""
    if family is Boxes:
        there = permuted(nest) if target.has_thread_blocks else nest.across
        why = "no operand is contiguous along another loop than the innermost one"
        return [] if there is not None else [why]
    if not target.has_thread_blocks:
        return [f"{target.name} has no threads that could each find a place"]
    whole = tuple(range(len(nest.sizes)))
    if not whole or nest.written or any(nest.loops[v] != whole for v in nest.outputs):
        return ["a result does not have all loops"]
    return []


def stripes(sizes: Sequence[int], across: int, height: int) -> tuple[int, int]:
    """The lengths of the two loops of boxes on a CPU: over stripes of `height` steps of the loop `across`, for each step of those around
    it, and over the innermost loop."""
    around = prod([size for loop, size in enumerate(sizes[:-1]) if loop != across])
    return around * -(-sizes[across] // height), sizes[-1]


def permuted(nest: LoopNest) -> Access | None:
    """The access of the only operand of a kernel that does nothing but permute its dimensions, otherwise None."""
    if nest.ops or len(nest.inputs) != 1:
        return None
    access = nest.accesses.get(nest.inputs[0])
    return access if access is not None and access.reorders and access.transposes else None


def _least_run(target: Target, elements: int, size: int, item: int) -> int:
    """The least elements of a row in a box. Each part of a row that does not begin at a sector needs one more sector: short rows are taken
    whole, and parts are longer if there still are blocks for all multiprocessors. Single bytes are bound by instructions, not sectors."""
    many = 16 * elements >= _LONG_RUN**2 * target.multiprocessors
    off = item > 1 and size * item % SECTOR_BYTES != 0 and size > _RUN
    return _LONG_RUN if off and (many or size <= _LONG_RUN) else _RUN


def box_of(sizes: Sequence[int], sides: Sequence[Sequence[int]], runs: Sequence[int], tile: int) -> list[int]:
    """The steps of each loop in a box: at least `runs` adjacent elements in the rows of each side, then more along the side with fewer, up
    to `tile` elements. `sides`: the loops of each in the order of its memory, the fastest-varying first."""
    box = [1] * len(sizes)

    def growing(side: Sequence[int]) -> int | None:
        """The innermost loop of a side that the box does not contain completely."""
        return next((loop for loop in side if box[loop] < sizes[loop]), None)

    def run(side: Sequence[int]) -> int:
        """The number of elements of a box that are adjacent in the memory of a side."""
        end = growing(side)
        return prod(box) if end is None else prod(box[loop] for loop in side[: side.index(end) + 1])

    def grow(side: Sequence[int]) -> None:
        loop = growing(side)
        assert loop is not None
        box[loop] = min(2 * box[loop], sizes[loop])

    for side, least in zip(sides, runs, strict=True):
        while growing(side) is not None and run(side) < least:
            grow(side)
    wanted = min(tile, prod(map(power_of_two, sizes)))
    while prod(map(power_of_two, box)) < wanted:
        grow(min((side for side in sides if growing(side) is not None), key=run))
    return box


def flat(nest: LoopNest, target: Target, given: Given) -> Candidate[Flat] | None:
    """All loops collapsed into one; None unless a kernel only moves short rows, and would spend more time on indices than on transfers."""
    if move_conflicts(Flat, nest, target) or (given.get("by") != Flat.by and not _is_short(nest, target)):
        return None
    item, size = widest_item(nest), prod(usual(nest.sizes))
    tile = fixed(given, "tile", flat_width(target, size, item))
    made = Flat(tile=tile, threads=fixed(given, "threads", target.threads))
    return Candidate(made, size / target.threads, size / target.threads)


def _is_short(nest: LoopNest, target: Target) -> bool:
    if len(nest.sizes) < 2:
        return False
    sizes, item = usual(nest.sizes), widest_item(nest)
    if len(nest.ops) == 1 and "gathers" in nest.ops[0].traits:
        return exceeds_resident_blocks(target, prod(sizes[:-1])) and sizes[-1] < tile_width(target, item)
    if nest.ops or len(nest.inputs) != 1:
        return False
    access = nest.accesses.get(nest.inputs[0])
    last = len(sizes) - 1
    contiguous = access is None or access.closest.get(last) == 1
    idle = not contiguous or sizes[-1] * item < _REQUEST
    rows = min(rows_together(target, sizes, item), nest.most_rows)
    return (idle and _leaves_lanes_idle(sizes[-1], item)) or _spends_on_finding(target, sizes, item, rows)


def _leaves_lanes_idle(columns: int, item: int) -> bool:
    """Whether rows are so short, or begin at such offsets, that requests of a warp along one row are not full."""
    bytes = columns * item
    return (bytes < 4 * _REQUEST and bytes % _REQUEST != 0) or bytes % SECTOR_BYTES != 0


def exceeds_resident_blocks(target: Target, rows: int) -> bool:
    """Whether there are more blocks of a GPU, with one row each, than its multiprocessors run at once."""
    return target.has_thread_blocks and rows * target.threads > target.gpu.threads * target.multiprocessors


def _spends_on_finding(target: Target, shape: Sequence[int], item: int, rows: int) -> bool:
    """Whether there are more blocks of a GPU, with `rows` rows each, than run at once, and these spend more time on indices
    than on transfers."""
    short = rows * shape[-1] * item < _SHORT
    return short and exceeds_resident_blocks(target, prod(shape[:-1]) // rows)


def rows_together(target: Target, shape: Sequence[int], item: int, blocks: int = 2) -> int:
    """How many short rows a block of a GPU has in one tile. With little data, there are `blocks` blocks for each multiprocessor
    rather than many rows in each."""
    room = tile_width(target, item) // power_of_two(shape[-1])
    share = power_of_two(prod(shape[:-1]) // (blocks * target.multiprocessors))
    return max(1, min(room, share, power_of_two(shape[-2])))
