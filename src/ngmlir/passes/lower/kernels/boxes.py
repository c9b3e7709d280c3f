# SPDX-License-Identifier: Apache-2.0
"""Elementwise kernels with a transposed operand: a tile covers a run of the contiguous dimension of both the operand and the result."""

from __future__ import annotations

from math import isqrt, prod

from ....ir.core import Op
from ....ops.schedules import Boxes
from ....support.lengths import is_multiple
from ....support.target import Target
from ...analysis.loop_nest import LoopNest, loop_nest
from ...schedule.moves import box_of, permuted, stripes
from ...schedule.programs import grid_for
from .finished import Finished
from .fusion_kernel import Kernel, Tile
from .tiling import Span, peel_last, tile_at


def boxes_kernel(fusion: Op, target: Target, schedule: Boxes) -> Finished:
    """The kernel of a `map` fusion with such an operand."""
    nest = loop_nest(fusion)
    build = _shared if target.has_thread_blocks else _in_stripes
    return build(nest, target, schedule).done(schedule.threads)


def _in_stripes(nest: LoopNest, target: Target, schedule: Boxes) -> Kernel:
    """Tiles in registers. The loop over blocks of rows (stripes) is innermost, so that consecutive programs read the same pages. A stripe
    uses whole cache lines of the operand: where its rows are a power of two apart, the lines are evicted before the next stripe."""
    across = nest.across
    assert across is not None
    (height, width), side, sizes = schedule.runs, isqrt(schedule.tile), nest.sizes
    last = len(sizes) - 1
    around = [loop for loop in range(last) if loop != across]
    counts = [*(sizes[loop] for loop in around), -(-sizes[across] // height)]
    space = stripes(sizes, across, height)
    kernel = Kernel(nest, target, grid_for(target, space, width, schedule.part), part=schedule.part)
    b = kernel.b
    outputs = list(zip(nest.outputs, kernel.results, strict=True))

    def stripe(spans: list[Span]) -> None:
        *others, number = kernel.delinearize(spans[0].start, counts)
        columns = spans[1]
        start = b.multiply(number.start, b.index(height))
        # Of an open size, what the last stripe has, which may be a full one.
        even = is_multiple(sizes[across], height)
        rest = 0 if even else sizes[across] - (counts[-1] - 1) * height

        def line(rows: Span, _: object) -> None:
            """Adjacent tiles, which together write whole cache lines of the result."""

            def one(part: Span, _: object) -> None:
                at, right = b.add(start, rows.start), b.add(columns.start, part.start)
                here = dict(zip(around, others, strict=True))
                here[across] = rows._replace(start=at)
                here[last] = part._replace(start=right, masked=part.masked or columns.masked)
                Tile(kernel, [here[loop] for loop in range(last + 1)]).store(outputs)

            kernel.tiles(columns.size, side, (), one)

        def all_of(size: int) -> None:
            kernel.tiles(size, side, (), line)

        if even:
            all_of(height)
        else:
            peel_last(b, number.start, counts[-1], lambda: all_of(height), lambda: all_of(rest))

    kernel.visit(space, width, stripe)
    return kernel


def _shared(nest: LoopNest, target: Target, schedule: Boxes) -> Kernel:
    """Tiles that threads share: each block of threads moves a box, which may be a part of long rows, several short rows or many small
    matrices."""
    access, sizes = permuted(nest), nest.sizes
    assert access is not None
    inner = [loop for place in reversed(access.places) for loop in place.terms]
    sides = [inner, [*reversed(range(len(sizes)))]]
    box = box_of(sizes, sides, schedule.runs, schedule.tile)
    counts = [-(-size // step) for size, step in zip(sizes, box, strict=True)]
    kernel = Kernel(nest, target, (prod(counts),))
    # Consecutive blocks continue in the same pages of the operand or of the result.
    near = [*inner[:1], len(sizes) - 1]
    loops = [*(loop for loop in range(len(sizes)) if loop not in near), *dict.fromkeys(near)]
    numbers = kernel.delinearize(kernel.programs[0], [counts[loop] for loop in loops])
    at = {
        loop: tile_at(kernel.b, n.start, box[loop], sizes[loop])
        for loop, n in zip(loops, numbers, strict=True)
    }
    spans = [at[loop] for loop in range(len(sizes))]
    Tile(kernel, spans).store(list(zip(nest.outputs, kernel.results, strict=True)))
    return kernel
