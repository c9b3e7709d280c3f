# SPDX-License-Identifier: Apache-2.0
"""Matrix products of few rows whose operands are both contiguous along the depth: each element of the result is a dot product of two
contiguous rows. A tile holds partial sums in vector lanes for a few rows and columns; the lanes are added at the end. Nothing is packed,
and the right operand is read once, in memory order.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.core import Op, Value
from ....ir.types import FloatType, MemRefType, Type, VectorType
from ....ops.schedules import Along
from ....support.lengths import is_multiple, is_open
from ....support.target import Target
from ...analysis.loop_nest import LoopNest
from ...analysis.product import Product
from .epilogue import store_epilogue
from .finished import Finished
from .fusion_kernel import Kernel
from .reading import Matrix
from .tiling import Span, several, share


class AlongKernel:
    """Builds the kernel of one product. Its extra inputs are the two operands."""

    def __init__(
        self,
        nest: LoopNest,
        target: Target,
        schedule: Along,
        dot: Op,
        product: Product,
        sides: Sequence[MemRefType],
    ):
        self.dot, self.product = dot, product
        self.columns, self.width = schedule.tile
        self.block, self.batch_block = schedule.block, schedule.batch
        programs = -(-product.columns // self.block)
        sizes = (-(-product.batch // self.batch_block), programs)
        self.kernel = Kernel(nest, target, several(sizes), sides)
        self.b = self.kernel.b
        self.first, self.place = self.kernel.program_indices(sizes)
        self.batch: list[Value] = []
        self.lhs, self.rhs = self.kernel.extra

    def build(self) -> Finished:
        self.kernel.each_product(self.first, self.batch_block, self.product.batch, self.share)
        return self.kernel.done()

    def share(self, batch: list[Value]) -> None:
        """This program's columns of one product, a few at a time."""
        self.batch = batch
        b, columns = self.b, self.product.columns
        self.left = Matrix(b, self.lhs, self.batch, self.product.lhs)
        self.right = Matrix(b, self.rhs, self.batch, self.product.rhs)
        start, stop = share(b, self.place, self.block, columns)
        if is_open((columns,)):
            full = b.index(columns // self.columns * self.columns)
            last = b.minimum(stop, full)
            b.loop(start, last, self.columns, (), lambda j, _: self.tile(j, self.columns))
            b.loop(b.maximum(start, full), stop, 1, (), lambda j, _: self.tile(j, 1))
        else:
            self.kernel.tiles_between(
                start, stop, columns, self.columns, lambda span: self.tile(span.start, span.size)
            )

    def tile(self, column: Value, columns: int) -> None:
        """Computes a few columns of all rows."""
        b, product = self.b, self.product
        rows, depth, width = product.rows, product.depth, self.width
        shape = (rows, columns, width)
        sums = VectorType(shape, product.accumulator)

        def step(k: Value, carried: Sequence[Value]) -> list[Value]:
            left = self.side(self.left, product.lhs_element, b.index(0), rows, k, product.lhs_depth_first)
            right = self.side(self.right, product.rhs_element, column, columns, k, product.rhs_depth_first)
            left = b.broadcast(left, type=sums, dimensions=[0, 2])
            right = b.broadcast(right, type=sums, dimensions=[1, 2])
            if isinstance(product.accumulator, FloatType):
                return [b.fma(left, right, carried[0])]
            return [b.add(b.multiply(left, right), carried[0])]

        (total,) = b.loop(0, depth, width, [b.number(0, sums)], step, name="k")
        place = Span(b.index(0), rows), Span(column, columns)
        store_epilogue(self.kernel, self.dot, product, self.batch, place, b.sum(total, axes=[2]))

    def side(
        self, matrix: Matrix, element: Type, across: Value, size: int, k: Value, depth_first: bool
    ) -> Value:
        """Loads rows of one operand along the depth. Elements beyond its end are 0."""
        b = self.b
        masked = not is_multiple(self.product.depth, self.width)
        tile = matrix.along(across, k, VectorType((size, self.width), element), depth_first, masked)
        if element is self.product.accumulator:
            return tile
        return b.cast(tile, type=VectorType((size, self.width), self.product.accumulator))
