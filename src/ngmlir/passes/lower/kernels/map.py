# SPDX-License-Identifier: Apache-2.0
"""Elementwise kernels: every element of the outputs is computed on its own."""

from __future__ import annotations

from ....ir.core import Op
from ....ops.schedules import Tiles
from ....support.lengths import is_open
from ....support.target import Target
from ...analysis.loop_nest import loop_nest
from ...schedule.programs import grid_for
from .finished import Finished
from .fusion_kernel import Kernel, Tile
from .line_tiles import LineTile, line_spans
from .tiling import Span


def map_kernel(fusion: Op, target: Target, schedule: Tiles) -> Finished:
    """The kernel of a `map` fusion."""
    nest = loop_nest(fusion)
    sizes, width, part, cuts = nest.sizes, schedule.tile, schedule.part, nest.cuts(target)
    rows = min(schedule.rows, nest.most_rows) if schedule.rows > 1 else 1
    # Short rows that programs of several tiles hold at once are met as steps of the loop around them.
    lines = nest.in_line if rows > 1 and part and width >= sizes[-1] and not cuts[-1] else None
    space, step = (sizes, width) if lines is None else (sizes[:-1], rows)
    # One row of open length, in sections of which each begins where the one before ends, is one program.
    one = len(sizes) == 1 and bool(cuts[0]) and is_open(sizes)
    grid = () if one else grid_for(target, space, step, part, rows)
    kernel = Kernel(lines or nest, target, grid, part=part)
    outputs = list(zip(nest.outputs, kernel.results, strict=True))

    def tile(spans: list[Span]) -> None:
        if lines is None:
            Tile(kernel, spans).store(outputs)
        else:
            *outer, near = spans
            LineTile(kernel, [*outer, *line_spans(kernel.b, near, sizes[-1])]).store(outputs)

    kernel.visit(space, step, tile, rows, cuts[: len(space)])
    return kernel.done(schedule.threads)
