# SPDX-License-Identifier: Apache-2.0
"""Matrix product kernels: selects the builder by schedule; and the kernel of a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....ir.core import Op, Value
from ....ir.types import MemRefType, VectorType, i64, shape_of
from ....ops.builder import Builder
from ....ops.schedules import Along, Blocks, Panels
from ....support.target import Target
from ...analysis.loop_nest import LoopNest, loop_nest
from ...analysis.product import Product, in_words, oriented, product_of
from ...analysis.sides import Implicit
from ...schedule.staging import can_stage
from .along import AlongKernel
from .epilogue import store_epilogue
from .finished import Finished
from .fusion_kernel import Kernel
from .implicit import ImplicitKernel
from .packing import Packing, left_side, right_side
from .panels import PanelKernel
from .reading import Matrix, gathered
from .staging import StagedOperands
from .tiling import Span


def dot_kernel(fusion: Op, target: Target, schedule: Panels | Along | Blocks) -> Finished:
    """The kernel of a `dot` fusion."""
    nest = loop_nest(fusion)
    dot = next(op for op in nest.ops if op.name == "ng.dot")
    product, order = oriented(product_of(dot, nest.sides), target)
    elements = (product.lhs_element, product.rhs_element)
    read = [nest.side(dot.operands[i]) for i in order]
    types = [MemRefType(shape, e) for (_, shape), e in zip(read, elements, strict=True)]
    packed: tuple[Packing | None, Packing | None] = (None, None)
    match schedule:
        case Blocks():
            made = _for_threads(nest, target, schedule, dot, product, types)
        case Along():
            made = AlongKernel(nest, target, schedule, dot, product, types).build()
        case Panels():
            product, packed = packed_sides(product, schedule, target)
            types = [p.type if p else type for p, type in zip(packed, types, strict=True)]
            family = ImplicitKernel if any(product.implicit) else PanelKernel
            made = family(nest, target, schedule, dot, product, types).build()
    sides = zip(read, packed, strict=True)
    return replace(made, sides=tuple([(number, shape, packing) for (number, shape), packing in sides]))


def packed_sides(
    product: Product, schedule: Panels, target: Target
) -> tuple[Product, tuple[Packing | None, Packing | None]]:
    """The product as its panels are multiplied, and how each operand is packed by its own kernel, if it is."""
    product = in_words(product, target, schedule.packed)
    left = left_side(product, target) if "left" in schedule.pack else None
    right = right_side(product, schedule.tile[1], target) if "right" in schedule.pack else None
    return product, (left, right)


# ---- the GPU kernel ----------------------------------------------------------------------------------------


def _for_threads(
    nest: LoopNest,
    target: Target,
    schedule: Blocks,
    dot: Op,
    product: Product,
    sides: Sequence[MemRefType],
) -> Finished:
    """One block of threads for each tile of the result. Tiles that extend beyond the ends are masked."""
    rows, columns = schedule.tile
    depth = schedule.step
    grid_rows, grid_columns = -(-product.rows // rows), -(-product.columns // columns)
    kernel = Kernel(nest, target, (grid_columns, grid_rows, max(1, product.batch)), sides)
    b = kernel.b
    batch = [kernel.programs[2]] if product.batch else []
    row = b.multiply(kernel.programs[1], b.index(rows))
    column = b.multiply(kernel.programs[0], b.index(columns))
    lhs = Matrix(b, kernel.extra[0], batch, product.lhs)
    rhs = Matrix(b, kernel.extra[1], batch, product.rhs)

    # Whether a tile may extend beyond the left operand, and beyond the right one.
    beyond = [size % tile != 0 or product.depth % depth != 0
              for size, tile in ((product.rows, rows), (product.columns, columns))]  # fmt: skip

    def side(matrix: Matrix, across: Value, size: int, k: Value, depth_first: bool, left: bool) -> Value:
        place = (k, across) if depth_first else (across, k)
        shape = (size, depth) if left else (depth, size)
        element, masked = (product.lhs_element if left else product.rhs_element), beyond[not left]
        implicit = product.lhs if left else product.rhs
        if isinstance(implicit, Implicit):
            starts = (across, k) if left else (k, across)
            turned = implicit.depth < implicit.across
            if turned == left:
                starts, shape = starts[::-1], shape[::-1]
            tile = gathered(b, implicit, matrix.buffer, batch, starts, VectorType(shape, element), not masked)
            return b.transpose(tile, permutation=[1, 0]) if turned == left else tile
        return matrix.load(*place, VectorType(shape, element), depth_first == left, masked)

    atom = product.atom(target)
    once = atom.depth if atom else depth
    staged = schedule.stages > 1 and can_stage(product, target)
    waiting = StagedOperands(b, product, schedule.tile, depth) if staged else None

    def step(k: Value, values: Sequence[Value]) -> list[Value]:
        if waiting is not None:
            waiting.copy_in([*zip((lhs, rhs), (row, column), (k, k), beyond, strict=True)])
            (total,) = values
            # Each slice is read just before it is multiplied: the accumulators leave no registers for all of them.
            for first in range(0, depth, once):
                left, right = waiting.read(first, once)
                total = b.dot_tile(left, right, total, tf32=product.tf32)
            b.barrier()
            return [total]
        left = side(lhs, row, rows, k, product.lhs_depth_first, True)
        right = side(rhs, column, columns, k, product.rhs_depth_first, False)
        return [b.dot_tile(left, right, values[0], tf32=product.tf32)]

    start = b.number(0, VectorType((rows, columns), product.accumulator))
    (total,) = b.loop(0, product.depth, depth, [start], step, name="k", stages=schedule.stages)
    for axis, size in ((1, product.columns), (0, product.rows)):
        if size == 1:
            total = _first(b, total, axis)
    place = Span(row, rows, product.rows % rows != 0), Span(column, columns, product.columns % columns != 0)
    store_epilogue(kernel, dot, product, batch, place, total)
    return kernel.done(schedule.threads)


def _first(b: Builder, tile: Value, axis: int) -> Value:
    """The first row or column of a tile. The others are not 0 where the other operand is not finite."""
    places = VectorType(shape_of(tile.type), i64)
    here = b.equal(b.iota(type=places, dimension=axis), b.number(0, places))
    return b.sum(b.select(here, tile, b.number(0, tile.type)), axes=[axis])
