# SPDX-License-Identifier: Apache-2.0
"""The builder of kernels for single ops, which are no fusions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ....ir.core import Op, Value
from ....ir.literals import item_bytes
from ....ir.types import MemRefType, Type, VectorType, element_type, i64, shape_of, tile_type, ui32, ui64
from ....ops.builder import Builder
from ....support.target import Target
from ...schedule.programs import flat_width, grid_for, part_of, steps_of, tile_width
from .finished import Finished
from .kernel_builder import KernelBuilder
from .tiling import Span, positions


class OpKernelBuilder(KernelBuilder):
    """The builder of a kernel for one op. `sizes` is the iteration space, `operand_shapes` and `result_shapes` are the shapes of the
    buffers (dimensions that the op does not distinguish may be merged), `width` and `rows` are those of a tile."""

    def __init__(
        self,
        op: Op,
        target: Target,
        sizes: Sequence[int],
        operand_shapes: Sequence[Sequence[int]] | None = None,
        result_shapes: Sequence[Sequence[int]] | None = None,
        width: int | None = None,
        rows: int = 1,
    ):
        self.op = op
        self.operand_shapes = tuple(
            tuple(s) for s in operand_shapes or [shape_of(o.type) for o in op.operands]
        )
        self.result_shapes = tuple(tuple(s) for s in result_shapes or [shape_of(r.type) for r in op.results])
        self.sizes = tuple(sizes)
        item = max(item_bytes(element_type(v.type)) for v in (*op.operands, *op.results))
        self.width, self.rows = width or tile_width(target, item), rows
        part = 0 if target.has_thread_blocks else part_of(self.sizes, self.width)
        grid = grid_for(target, self.sizes, self.width, part, rows)
        inputs = [
            MemRefType(s, element_type(o.type)) for s, o in zip(self.operand_shapes, op.operands, strict=True)
        ]
        outputs = [
            MemRefType(s, element_type(r.type)) for s, r in zip(self.result_shapes, op.results, strict=True)
        ]
        super().__init__(target, grid, inputs, outputs, op.location, part)

    def done(self, threads: int | None = None) -> Finished:
        """The finished kernel."""
        return Finished(self.finish(threads), tuple(enumerate(self.operand_shapes)), self.result_shapes)

    def visited(self, body: Callable[[list[Span]], None]) -> Finished:
        """The finished kernel, which runs `body` on every tile of this program's part of `sizes`."""
        self.visit(self.sizes, self.width, body, self.rows)
        return self.done()

    def each_row(self, body: Callable[[Span], None]) -> None:
        """Runs `body` on this program's iterations of the outermost loop. `sizes` determine how many programs there are."""
        rows = self.sizes[0]
        if not self.programs:
            self.emit_loops((rows,), lambda spans: body(spans[0]))
        else:
            block = steps_of(self.part, self.sizes, self.width)
            self.each_of_block(self.programs[0], block, rows, lambda i: body(Span(i)))

    def scalar(self, buffer: Value, indices: Sequence[Value]) -> Value:
        """Loads one element of a buffer."""
        return self.b.load(buffer, indices, type=element_type(buffer.type))


def flat_builder(
    op: Op, target: Target, size: int, operand_shapes: Sequence[Sequence[int]] | None = None
) -> OpKernelBuilder:
    """For a result of `size` elements seen as one dimension, so that a warp writes contiguous elements across its rows."""
    width = flat_width(target, size, item_bytes(element_type(op.results[0].type)))
    return OpKernelBuilder(op, target, (size,), operand_shapes, [(size,)], width=width)


def positions_in(b: Builder, span: Span, shape: Sequence[int]) -> list[Value]:
    """The positions in `shape` of a tile of linear indices. Masked-off elements have the last position."""
    wide = VectorType((span.size,), i64)
    return [b.cast(place, type=wide) for place in unsigned_positions_in(b, span, shape)]


def unsigned_positions_in(b: Builder, span: Span, shape: Sequence[int], most: int = 0) -> list[Value]:
    """The same as unsigned numbers, of 32 bits if they can hold the size of the shape and `most`."""
    size = prod(shape)
    number = VectorType((span.size,), ui32 if max(size, most) < 1 << 31 else ui64)
    left = b.minimum(positions(b, span.start, number), b.number(size - 1, number))
    places: list[Value] = []
    for extent in reversed(shape):
        whole = b.number(extent, number)
        places.insert(0, b.remainder(left, whole))
        left = b.floor_divide(left, whole)
    return places


def vector(size: int, element: Type) -> Type:
    """The type of a tile of one dimension; of a scalar for size 0."""
    return tile_type((size,) if size else (), element)
