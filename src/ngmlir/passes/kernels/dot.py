# SPDX-License-Identifier: Apache-2.0
"""Matrix product kernels: which kind suits a product; and the one of a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...ir.core import Op, Value
from ...ir.types import MemRefType, VectorType, i64, shape_of
from ...ops.builder import Builder
from ...support.target import Target
from .along import AlongKernel, suits
from .blocking import LEFT_WIDTH, blocking
from .frame import power_of_two
from .packing import Packing, left_side, right_side
from .panels import PanelKernel
from .plan import Kernel, Plan, plan
from .product import Product, product_of, store_epilogue


@dataclass(frozen=True)
class DotKernel:
    """A finished kernel. Its extra inputs are `sides` of the product: each the number of an operand, and how that
    is packed before."""

    kernel: Op
    plan: Plan
    sides: tuple[tuple[int, Packing | None], ...]


def dot_kernel(fusion: Op, target: Target, name: str) -> DotKernel:
    """The kernel of a `dot` fusion."""
    dot = next(op for op in fusion.block.ops if op.name == "ng.dot")
    planned = plan(fusion, lambda op: op is dot)
    product = product_of(dot)
    types = [MemRefType(shape_of(side.type), product.element) for side in dot.operands]
    if target.execution == "warps":
        return DotKernel(
            _for_threads(planned, target, name, dot, product, types), planned, ((0, None), (1, None))
        )
    order = (0, 1)
    if product.columns == 1:
        # Both results have the same elements in the same order, and kernels know how to do with few rows.
        product, order = product.turned, (1, 0)
        types.reverse()
    if suits(product):
        kernel = AlongKernel(planned, target, dot, product, types).build(name)
        return DotKernel(kernel, planned, tuple((i, None) for i in order))
    blocks = blocking(product, target)
    packings = (left_side(product, LEFT_WIDTH), right_side(product, blocks.tile_columns))
    chosen = [p if packed else None for p, packed in zip(packings, blocks.pack, strict=True)]
    types = [p.type if p else type for p, type in zip(chosen, types, strict=True)]
    kernel = PanelKernel(planned, target, dot, product, types, blocks).build(name)
    return DotKernel(kernel, planned, tuple(zip(order, chosen, strict=True)))


# ---- the GPU kernel ----------------------------------------------------------------------------------------

#: A block of threads computes a square tile of this many rows and columns at most, in depth steps of `STEP`.
BLOCK, STEP = 64, 16


def _for_threads(
    planned: Plan, target: Target, name: str, dot: Op, product: Product, sides: Sequence[MemRefType]
) -> Op:
    """One block of threads per tile of the result; tiles reaching beyond the ends are masked."""
    rows = min(BLOCK, max(16, power_of_two(product.rows)))
    columns = min(BLOCK, max(16, power_of_two(product.columns)))
    grid_rows, grid_columns = -(-product.rows // rows), -(-product.columns // columns)
    kernel = Kernel(planned, target, (grid_columns, grid_rows, max(1, product.batch)), sides)
    b = kernel.b
    lhs, rhs = kernel.extra
    batch = [kernel.programs[2]] if product.batch else []
    row = b.multiply(kernel.programs[1], b.index(rows))
    column = b.multiply(kernel.programs[0], b.index(columns))
    first = len(batch)

    def side(buffer: Value, across: Value, size: int, k: Value, depth_first: bool, left: bool) -> Value:
        indices = [*batch, k, across] if depth_first else [*batch, across, k]
        shape = (size, STEP) if left else (STEP, size)
        swapped = [first + 1, first] if depth_first == left else None
        extent = product.rows if left else product.columns
        masked = extent % size != 0 or product.depth % STEP != 0
        return b.load(buffer, indices, type=VectorType(shape, product.element), dims=swapped, masked=masked)

    def step(k: Value, values: Sequence[Value]) -> list[Value]:
        left = side(lhs, row, rows, k, product.lhs_depth_first, True)
        right = side(rhs, column, columns, k, product.rhs_depth_first, False)
        return [b.dot_tile(left, right, values[0])]

    start = b.number(0, VectorType((rows, columns), product.accumulator))
    (total,) = b.loop(0, product.depth, STEP, [start], step)
    for axis, size in ((1, product.columns), (0, product.rows)):
        if size == 1:
            total = _first(b, total, axis)
    masked = (product.rows % rows != 0, product.columns % columns != 0)
    store_epilogue(kernel, dot, product, batch, row, rows, column, columns, total, masked)
    return kernel.finish(name, target.threads)


def _first(b: Builder, tile: Value, axis: int) -> Value:
    """The first row or column of a tile. What stands beside it is not 0 where the other side is not finite."""
    places = VectorType(shape_of(tile.type), i64)
    here = b.equal(b.iota(type=places, dimension=axis), b.number(0, places))
    return b.sum(b.select(here, tile, b.number(0, tile.type)), axes=[axis])
