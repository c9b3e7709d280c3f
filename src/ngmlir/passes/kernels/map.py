# SPDX-License-Identifier: Apache-2.0
"""Elementwise kernels: every element of the outputs is computed on its own."""

from __future__ import annotations

from ...ir.core import Op
from ...support.target import Target
from .frame import grid_for, tile_width
from .plan import Kernel, Plan, Tile, plan, widest_item


def map_kernel(fusion: Op, target: Target, name: str) -> tuple[Op, Plan]:
    """The kernel of a `map` fusion."""
    planned = plan(fusion)
    width = tile_width(target, widest_item(planned), len(planned.ops))
    kernel = Kernel(planned, target, grid_for(target, planned.sizes, width))
    outputs = list(zip(planned.outputs, kernel.results, strict=True))
    kernel.visit(planned.sizes, width, lambda spans: Tile(kernel, spans).store(outputs))
    return kernel.finish(name), planned
