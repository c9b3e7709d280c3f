# SPDX-License-Identifier: Apache-2.0
"""What the kernels of ops that stand alone share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ....ir.core import Op, Value
from ....ir.literals import item_bytes
from ....ir.types import MemRefType, Type, VectorType, element_type, i64, shape_of, ui32, ui64
from ....ops.builder import Builder
from ....support.target import Target
from ...schedule.programs import flat_width, grid_for, part_of, steps_of, tile_width
from .finished import Finished
from .frame import Frame, Span, positions, share


class SingleFrame(Frame):
    """A frame for one op. `sizes` is the space that is visited, `operand_shapes` and `result_shapes` the
    shapes of the buffers (dimensions that the op treats alike may be merged), `width` and `rows` those of a tile."""

    def __init__(
        self,
        op: Op,
        target: Target,
        sizes: Sequence[int],
        operand_shapes: Sequence[Sequence[int]] | None = None,
        result_shapes: Sequence[Sequence[int]] | None = None,
        parallel: bool = True,
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
        part = 0 if target.shares_tiles else part_of(self.sizes, self.width)
        grid = grid_for(target, self.sizes if parallel else (), self.width, part, rows)
        inputs = [
            MemRefType(s, element_type(o.type)) for s, o in zip(self.operand_shapes, op.operands, strict=True)
        ]
        outputs = [
            MemRefType(s, element_type(r.type)) for s, r in zip(self.result_shapes, op.results, strict=True)
        ]
        super().__init__(target, grid, inputs, outputs, op.location, part)

    def done(self, threads: int | None = None) -> Finished:
        """The kernel."""
        return Finished(self.finish(threads), tuple(enumerate(self.operand_shapes)), self.result_shapes)

    def each_row(self, body: Callable[[Span], None]) -> None:
        """Runs `body` on this program's steps of the outermost loop; `sizes` tell what they cost."""
        b, rows = self.b, self.sizes[0]
        if not self.programs:
            self.nest((rows,), lambda spans: body(spans[0]))
        else:
            start, stop = share(b, self.programs[0], steps_of(self.part, self.sizes, self.width), rows)
            b.loop(start, stop, 1, (), lambda i, _: body(Span(i)))

    def scalar(self, buffer: Value, indices: Sequence[Value]) -> Value:
        """One element of a buffer."""
        return self.b.load(buffer, indices, type=element_type(buffer.type))


def flat_frame(
    op: Op, target: Target, size: int, operand_shapes: Sequence[Sequence[int]] | None = None
) -> SingleFrame:
    """Of a result of `size` elements as one line, across its rows: what a warp writes lies together."""
    width = flat_width(target, size, item_bytes(element_type(op.results[0].type)))
    return SingleFrame(op, target, (size,), operand_shapes, [(size,)], width=width)


def places_in(b: Builder, span: Span, shape: Sequence[int]) -> list[Value]:
    """A tile of a line as tiles of positions in a shape that it runs through. A masked one reaches beyond the end: what
    stands there is the last position."""
    wide = VectorType((span.size,), i64)
    return [b.cast(place, type=wide) for place in unsigned_places_in(b, span, shape)]


def unsigned_places_in(b: Builder, span: Span, shape: Sequence[int], most: int = 0) -> list[Value]:
    """The same, of numbers that are as short as such a shape, and what is at most so large, allow."""
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
    """A tile of one dimension, or a scalar for size 0."""
    return VectorType((size,), element) if size else element
