# SPDX-License-Identifier: Apache-2.0
"""Kernels for argmax and argmin: the best value so far and where it was, lane by lane."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.core import Op, Value
from ...ir.literals import item_bytes
from ...ir.types import FloatType, VectorType, element_type, i32, i64, shape_of, with_element
from ...ops.fields import get_i64s
from ...support.target import Target
from .frame import Span, positions, power_of_two
from .reduction import extreme
from .single import Single, SingleFrame, merged, vector


def arg_kernel(op: Op, target: Target) -> Single:
    """The reduced axes stand together (the shape pass sees to it)."""
    axes = get_i64s(op, "axes")
    shape = merged(shape_of(op.operands[0].type), min(axes), len(axes))
    return _Search(op, target, shape).build()


class _Search:
    def __init__(self, op: Op, target: Target, shape: tuple[int, int, int]):
        self.op, self.target = op, target
        self.before, self.size, self.after = shape
        self.greatest = op.name == "ng.argmax"
        self.element = element_type(op.operands[0].type)
        self.result = element_type(op.results[0].type)
        #: Positions while searching; `nowhere` is greater than all of them.
        self.count = i32 if self.size < 1 << 31 else i64
        self.nowhere = (1 << (self.count.width - 1)) - 1

    def build(self) -> Single:
        shape = (self.before, self.size, self.after)
        space = (self.before, self.after)
        if not self.target.shares_tiles:
            space = (self.before, self.size * self.after)  # what one step of the outermost loop costs
        frame = SingleFrame(self.op, self.target, space, [shape], [(self.before, self.after)])
        self.frame, self.b = frame, frame.b
        if self.after == 1:
            frame.each_row(self.row)
        elif frame.masks:
            frame.visit(space, frame.width, lambda spans: self.column(*spans))
        else:
            frame.each_row(self.columns)
        return frame.done()

    def better(self, new: Value, old: Value) -> Value:
        """Whether `new` takes the place of an earlier `old`: it is beyond it, or the first NaN."""
        b = self.b
        if not isinstance(self.element, FloatType):
            return b.greater(new, old) if self.greatest else b.less(new, old)
        behind = b.less_equal(new, old) if self.greatest else b.greater_equal(new, old)
        return b.bitwise_and(b.bitwise_not(behind), b.equal(old, old))

    def columns(self, row: Span) -> None:
        """All results that stand side by side."""
        self.frame.tiles(self.after, self.frame.width, (), lambda span, _: self.column(row, span) or ())

    def column(self, row: Span, span: Span) -> None:
        """Neighbouring results side by side."""
        b = self.b
        type = vector(span.size, self.element)
        counts = with_element(type, self.count)

        def load(k: Value) -> Value:
            return b.load(self.frame.sources[0], [row.start, k, span.start], type=type, masked=span.masked)

        def step(k: Value, carried: Sequence[Value]) -> list[Value]:
            new = load(k)
            taken = self.better(new, carried[0])
            position = b.broadcast(b.cast(k, type=self.count), type=counts, dimensions=())
            return [b.select(taken, new, carried[0]), b.select(taken, position, carried[1])]

        start = [load(b.index(0)), b.number(0, counts)]
        _, where = b.loop(1, self.size, 1, start, step)
        self.store(where, [row.start, span.start], span.masked)

    def store(self, where: Value, at: Sequence[Value], masked: bool) -> None:
        b = self.b
        found = (
            where if self.result is self.count else b.cast(where, type=with_element(where.type, self.result))
        )
        b.store(found, self.frame.results[0], at, masked=masked)

    def row(self, row: Span) -> None:
        """Lanes search on their own; then the first position of the best lane value wins."""
        b, frame = self.b, self.frame
        if frame.masks:
            width = min(frame.width, power_of_two(self.size))
        else:
            # The best values and their positions stay in half of the registers; the others are for what is compared.
            item = max(item_bytes(self.element), item_bytes(self.count))
            width = min(self.target.lanes(item) * (self.target.vector_registers // 4), self.size)
        lanes = VectorType((width,), self.element)
        worst = extreme(self.element, self.greatest)
        # A lane that never finds better stays at the start of the row, where its first element is as bad.
        lane_starts = [b.number(worst, lanes), b.number(0, with_element(lanes, self.count))]
        scalars = [b.number(worst, self.element), b.number(self.nowhere, self.count)]

        def body(span: Span, carried: Sequence[Value]) -> Sequence[Value]:
            type = VectorType((span.size,), self.element)
            new = b.load(
                frame.sources[0], [row.start, span.start, b.index(0)], type=type, dims=[1], masked=span.masked
            )
            start = b.cast(span.start, type=self.count)
            if span.masked:
                inside = b.less(
                    self.places(start, span.size), b.number(self.size, with_element(type, self.count))
                )
                new = b.select(inside, new, b.number(worst, type))
            if type is not lanes:
                return [*carried[:2], *self.best(new, self.places(start, span.size), *carried[2:])]
            value, where = carried[:2]
            taken = self.better(new, value)
            start = b.broadcast(start, type=where.type, dimensions=())
            return [b.select(taken, new, value), b.select(taken, start, where), *carried[2:]]

        value, where, *rest = frame.tiles(self.size, width, [*lane_starts, *scalars], body)
        where = b.add(where, b.iota(type=where.type, dimension=0))
        _, where = self.best(value, where, *rest)
        self.store(where, [row.start, b.index(0)], False)

    def places(self, start: Value, size: int) -> Value:
        """Positions in the row."""
        return positions(self.b, start, VectorType((size,), self.count))

    def best(self, values: Value, places: Value, value: Value, position: Value) -> tuple[Value, Value]:
        """The first position of the best of a tile and of one more candidate."""
        b = self.b
        reduce = b.max if self.greatest else b.min
        join = b.maximum if self.greatest else b.minimum
        top = join(reduce(values, axes=[0]), value)
        wide = b.broadcast(top, type=values.type, dimensions=())
        first = b.min(
            b.select(self.same(values, wide), places, b.number(self.nowhere, places.type)), axes=[0]
        )
        alone = b.select(self.same(value, top), position, b.number(self.nowhere, self.count))
        return top, b.minimum(first, alone)

    def same(self, x: Value, y: Value) -> Value:
        """Equal, or both NaN."""
        b = self.b
        equal = b.equal(x, y)
        if not isinstance(self.element, FloatType):
            return equal
        return b.bitwise_or(equal, b.bitwise_and(b.not_equal(x, x), b.not_equal(y, y)))
