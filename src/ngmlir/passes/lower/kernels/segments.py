# SPDX-License-Identifier: Apache-2.0
"""Reductions of rows into the rows of a result on a GPU: by offsets, or by the ascending indices of a scatter.

A block of threads has a tile of some rows and columns of the result. It finds the bounds of the segments of these rows (in the offsets,
or by binary search in the indices). The first few updates of all rows are combined in parallel; then the rest of each long segment,
many updates at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ....ir.core import Op, Value
from ....ir.types import (
    FloatType,
    IntegerType,
    MemRefType,
    Type,
    VectorType,
    element_type,
    i32,
    i64,
    index,
    shape_of,
    with_element,
)
from ....ops.fields import get_i64, get_str
from ....support.lengths import power_of_two
from ....support.target import Target
from ...analysis.indices import wide, within
from ...analysis.loop_nest import Shape
from ...analysis.reduction import Accumulation, merged
from .binary_search import binary_search
from .finished import Finished
from .single import OpKernelBuilder
from .tiling import Span, positions

#: Elements of the result per thread, and updates of a long segment that are combined at once.
_HELD, _AT_ONCE = 8, 16
#: Updates of each row that are combined with those of the other rows in parallel.
_FIRST = 8
_KINDS = {
    "set": "set", "add": "sum", "sum": "sum", "product": "product", "max": "max", "min": "min", "first": "sum", "last": "sum",
}  # fmt: skip


def scatter_in_order(op: Op, target: Target) -> Finished:
    """A scatter with ascending indices. Indices beyond the end have no effect."""
    return _InOrder(op, target).build()


class RowsBetween:
    """Which of the `count` rows of the second operand are reduced into each of the `size` rows of the result, by offsets."""

    def __init__(self, op: Op, target: Target):
        axis = get_i64(op, "axis")
        self.before, self.count, self.after = given = merged(shape_of(op.operands[0].type), axis)
        (offsets,) = shape_of(op.operands[1].type)
        self.start(op, target, offsets - 1, [given, (offsets,)])
        self.updates, self.offsets = self.builder.sources

    def start(self, op: Op, target: Target, size: int, operands: Sequence[Shape]) -> None:
        """Begins the kernel: chooses how many rows and columns a block has."""
        self.size, self.combine = size, get_str(op, "combine")
        shape = (self.before, size, self.after)
        self.width = min(power_of_two(self.after), target.threads)
        self.rows = min(power_of_two(size), _HELD * target.threads // self.width)
        columns = self.before * -(-self.after // self.width)
        # Few rows have long segments: they are shared among more blocks.
        while self.rows > 1 and columns * -(-size // self.rows) < 2 * target.multiprocessors:
            self.rows //= 2
        self.builder = OpKernelBuilder(op, target, shape, operands, [shape], width=self.width, rows=self.rows)
        self.b = self.builder.b
        self.element = element_type(op.results[0].type)
        self.joins = Accumulation(_KINDS[self.combine], self.element)
        # i32 holds the numbers of rows and updates, and one beyond both, which are compared with indices of any type.
        few = max(size, self.count) < 1 << 30 and _is_short(element_type(op.operands[1].type))
        self.number = i32 if few else i64
        self.at_once = _AT_ONCE * target.threads // self.width

    def build(self) -> Finished:
        return self.builder.visited(lambda spans: self.tile(*spans))

    def tile(self, before: Span, rows: Span, columns: Span) -> None:
        b, whole = self.b, VectorType((self.rows, self.width), self.element)
        at, masked = [before.start, rows.start, columns.start], rows.masked or columns.masked
        self.line, self.first_column = before.start, columns.start
        row = positions(b, rows.start, VectorType((self.rows,), self.number))
        # Found once for each row, then broadcast to all threads that have elements of it.
        bounds = [self.bound(row), self.bound(b.add(row, b.number(1, row.type)))]
        first, end = (b.broadcast(x, type=with_element(whole, self.number), dimensions=[0]) for x in bounds)
        total = self.begin(at, whole, masked, b.less(first, end))
        match self.combine:
            case "set" | "last":
                total = self.one(total, first, end, b.subtract(end, b.number(1, end.type)))
            case "first":
                total = self.one(total, first, end, first)
            case _:
                total = self.joined(total, first, end, bounds)
        b.store(self.joins.leave(b, total), self.builder.results[0], at, masked=masked)

    def begin(self, at: Sequence[Value], type: VectorType, masked: bool, some: Value) -> Value:
        """The initial value: of a reduction where `some` rows have any update, otherwise the result. The sum of no rows is 0."""
        b, joins = self.b, self.joins
        gathered, element = with_element(type, joins.accumulator), joins.accumulator
        start = b.number(joins.start, gathered)
        if joins.kind != "sum" or not isinstance(element, FloatType):
            return start
        return b.select(some, start, b.number(0, gathered))

    def bound(self, row: Value) -> Value:
        """The offsets of these segments, clamped to the operand."""
        b, type = self.b, row.type
        found = b.gather_tile(
            self.offsets, [b.minimum(row, b.number(self.size, type))], type=with_element(type, i32)
        )
        found = found if self.number is i32 else b.cast(found, type=type)
        return within(b, found, self.count)

    def read(self, number: Value) -> Value:
        """A tile of the updates with these numbers, in the columns of the block."""
        b, type = self.b, number.type
        assert isinstance(type, VectorType)
        column = positions(b, self.first_column, type, 1)
        places = [
            b.minimum(x, b.number(size - 1, type)) for x, size in ((number, self.count), (column, self.after))
        ]
        found = b.gather_tile(self.updates, [self.line, *places], type=with_element(type, self.element))
        return self.joins.enter(b, found)

    def one(self, total: Value, first: Value, end: Value, number: Value) -> Value:
        """Combines the update with this number, for each row that has so many."""
        b = self.b
        return b.select(b.less(first, end), self.read(b.maximum(number, b.number(0, end.type))), total)

    def joined(self, total: Value, first: Value, end: Value, bounds: Sequence[Value]) -> Value:
        b = self.b
        longest = b.cast(b.max(b.subtract(bounds[1], bounds[0]), axes=[0]), type=index)

        def side_by_side(step: Value, carried: Sequence[Value]) -> list[Value]:
            (total,) = carried
            number = b.add(first, b.splat(b.cast(step, type=self.number), first.type))
            new = self.joins.combine(b, total, self.read(number))
            return [b.select(b.less(number, end), new, total)]

        few = b.index(_FIRST)
        (total,) = b.loop(0, b.minimum(longest, few), 1, [total], side_by_side, name="update")
        (total,) = b.branch(b.less(few, longest), lambda: [self.long(total, bounds)], lambda: [total])
        return total

    def long(self, total: Value, bounds: Sequence[Value]) -> Value:
        """Row by row, the updates of its segment after the first ones."""
        b, (first, end) = self.b, bounds
        ends: list[Value] = []
        for bound in (b.add(first, b.number(_FIRST, first.type)), end):
            ends.append(b.alloc(type=MemRefType((self.rows,), self.number, None, 0, 3)))
            b.store(bound, ends[-1], [b.index(0)])
        b.barrier()
        places = b.iota(type=with_element(total.type, self.number), dimension=0)

        def one(row: Value, carried: Sequence[Value]) -> list[Value]:
            (total,) = carried
            start, stop = (b.load(buffer, [row], type=self.number) for buffer in ends)

            def joined() -> list[Value]:
                line = b.broadcast(self.segment(start, stop), type=total.type, dimensions=[1])
                here = b.splat(b.cast(row, type=self.number), places.type)
                return [b.select(b.equal(places, here), self.joins.combine(b, total, line), total)]

            return [*b.branch(b.less(start, stop), joined, lambda: [total])]

        (total,) = b.loop(0, self.rows, 1, [total], one, name="row")
        return total

    def segment(self, start: Value, stop: Value) -> Value:
        """The columns of the updates from `start` to `stop`, reduced."""
        b, shape = self.b, (self.at_once, self.width)
        nothing = b.number(self.joins.start, VectorType(shape, self.joins.accumulator))
        numbers = VectorType(shape, self.number)
        beyond = b.splat(stop, numbers)

        def some(k: Value, carried: Sequence[Value]) -> list[Value]:
            number = positions(b, k, numbers)
            new = b.select(b.less(number, beyond), self.read(number), nothing)
            return [self.joins.combine(b, carried[0], new)]

        low, high = (b.cast(x, type=index) for x in (start, stop))
        (part,) = b.loop(low, high, self.at_once, [nothing], some, name="update")
        return self.joins.across(b, part, [0])


class _InOrder(RowsBetween):
    """Updates in ascending order of their indices, combined with the operand."""

    def __init__(self, op: Op, target: Target):
        shape = self.before, size, self.after = merged(shape_of(op.operands[0].type), get_i64(op, "axis"))
        self.count = prod(shape_of(op.operands[1].type))
        operands = [shape, (self.count,), (self.before, self.count, self.after)]
        self.start(op, target, size, operands)
        self.source, self.indices, self.updates = self.builder.sources

    def begin(self, at: Sequence[Value], type: VectorType, masked: bool, some: Value) -> Value:
        return self.joins.enter(self.b, self.b.load(self.source, at, type=type, masked=masked))

    def bound(self, row: Value) -> Value:
        """How many updates have indices below these rows."""
        b, type = self.b, row.type
        last = b.number(self.count - 1, type)
        key = with_element(type, element_type(self.indices.type))

        def before(number: Value) -> Value:
            found = b.gather_tile(self.indices, [b.minimum(number, last)], type=key)
            return b.less(b.cast(found, type=type) if self.number is i32 else wide(b, found), row)

        return binary_search(b, b.number(0, type), b.number(self.count, type), self.count, before)


def _is_short(element: Type) -> bool:
    """Whether i32 holds all integers of a type."""
    return isinstance(element, IntegerType) and element.width + element.unsigned <= 32
