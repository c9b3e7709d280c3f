# SPDX-License-Identifier: Apache-2.0
"""Elementwise kernels: every element of the outputs is computed on its own."""

from __future__ import annotations

from ....ir.core import Op
from ....ops.schedules import Tiles
from ....support.target import Target
from ...analysis.plan import plan
from ...schedule.programs import grid_for
from .finished import Finished
from .fusion_kernel import Kernel, Tile


def map_kernel(fusion: Op, target: Target, schedule: Tiles) -> Finished:
    """The kernel of a `map` fusion."""
    planned = plan(fusion)
    width, part = schedule.tile, schedule.part
    rows = min(schedule.rows, planned.most_rows) if schedule.rows > 1 else 1
    kernel = Kernel(planned, target, grid_for(target, planned.sizes, width, part, rows), part=part)
    outputs = list(zip(planned.outputs, kernel.results, strict=True))
    cuts = planned.cuts(target)
    kernel.visit(planned.sizes, width, lambda spans: Tile(kernel, spans).store(outputs), rows, cuts)
    return kernel.done(schedule.threads)
