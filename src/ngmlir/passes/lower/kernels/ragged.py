# SPDX-License-Identifier: Apache-2.0
"""Kernels of segments on a CPU: loops over rows whose bounds are read from offsets. Each program has a range of segments."""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.core import Op, Value
from ....ir.literals import item_bytes
from ....ir.types import FloatType, Type, VectorType, element_type, index, shape_of, with_element
from ....ops.fields import get_enum, get_i64
from ....support.lengths import usual
from ....support.target import Target
from ...analysis.indices import within
from ...analysis.reduction import Accumulation, merged
from .cumulative import PrefixScan
from .finished import Finished
from .single import OpKernelBuilder, vector
from .tiling import Span, positions, share


def segment_reduce_kernel(op: Op, target: Target) -> Finished:
    """Reduces the rows of each segment in one pass."""
    return _Reduction(op, target).build()


def segment_cumulative_kernel(op: Op, target: Target) -> Finished:
    """Cumulative results along each segment, forwards or in reverse."""
    return _Cumulative(op, target).build()


def segment_expand_kernel(op: Op, target: Target) -> Finished:
    """Reads a row once for each segment and writes it to all rows of the segment."""
    return _Expansion(op, target).build()


#: Registers that accumulate the elements of a long segment independently.
_TOGETHER = 4


class _Segments:
    """The base of these kernels. `rows` are along one axis, with `before` outer iterations around it and `after` elements in each row."""

    def __init__(self, op: Op, target: Target):
        self.op, axis = op, get_i64(op, "axis")
        source, result = (merged(shape_of(v.type), axis) for v in (op.operands[0], op.results[0]))
        (count,) = shape_of(op.operands[1].type)
        self.before, self.rows, self.after = result if op.name == "ng.segment_expand" else source
        self.element = element_type(op.results[0].type)
        self.lanes = target.lanes(max(4, item_bytes(self.element)))
        # Programs are balanced as if all segments had the same number of rows. This affects speed only.
        sizes = (count - 1, self.before * max(1, -(-usual(self.rows) // (usual(count) - 1))), self.after)
        self.builder = OpKernelBuilder(op, target, sizes, [source, (count,)], [result])
        self.b = self.builder.b
        self.source, self.offsets = self.builder.sources
        (self.result,) = self.builder.results

    def build(self) -> Finished:
        builder, b = self.builder, self.b
        count = builder.sizes[0]
        start, stop = b.index(0), b.index(count)
        if builder.programs:
            start, stop = share(b, builder.programs[0], builder.part, count)
        self.limit = self.bound(stop)
        b.loop(start, stop, 1, [self.bound(start)], self.segment, name="segment")
        return builder.done()

    def segment(self, segment: Value, carried: Sequence[Value]) -> Sequence[Value]:
        """Computes one segment for all outer iterations, from where the one before ends. Rows of one element are one contiguous run."""
        b, (first,) = self.b, carried
        end = b.maximum(first, self.bound(b.add(segment, b.index(1))))

        def line(spans: list[Span]) -> None:
            (before,) = spans
            if self.after == 1:
                self.elements(before.start, segment, first, end)
            else:
                self.builder.tiles(
                    self.after,
                    self.builder.width,
                    (),
                    lambda span, _: self.columns(before.start, segment, span, first, end),
                    masks=False,
                )

        self.builder.emit_loops((self.before,), line)
        return [end]

    def bound(self, place: Value) -> Value:
        """An offset as a position, clamped to the operand."""
        b = self.b
        return within(b, b.cast(self.builder.scalar(self.offsets, [place]), type=index), self.rows)

    def columns(self, before: Value, segment: Value, span: Span, first: Value, end: Value) -> None:
        """A tile of columns, of rows of several elements."""
        raise NotImplementedError

    def elements(self, before: Value, segment: Value, first: Value, end: Value) -> None:
        """Rows of one element."""
        raise NotImplementedError

    def whole(self, first: Value, end: Value, step: int) -> Value:
        """Where the last full tile of `step` rows, a power of two, ends."""
        b = self.b
        return b.add(first, b.bitwise_and(b.subtract(end, first), b.index(-step)))


class _Reduction(_Segments):
    def __init__(self, op: Op, target: Target):
        super().__init__(op, target)
        self.combine = get_enum(op, "combine")
        self.picks = self.combine in ("first", "last")
        self.joins = Accumulation("sum" if self.picks else self.combine, self.element, target)

    def begin(self, type: Type, first: Value, end: Value) -> Value:
        """The initial value of a reduction. Sums start from -0.0, but the sum of no rows is 0."""
        b, joins = self.b, self.joins
        element = element_type(type)
        start = b.number(joins.start, element)
        if joins.kind == "sum" and isinstance(element, FloatType):
            start = b.select(b.less(first, end), start, b.number(0, element))
        return b.splat(start, type)

    def columns(self, before: Value, segment: Value, span: Span, first: Value, end: Value) -> None:
        self.tile(before, segment, span.start, vector(span.size, self.element), first, end)

    def tile(
        self, before: Value, segment: Value, column: Value, type: Type, first: Value, end: Value
    ) -> None:
        """Reduces a tile of columns row by row."""
        b, joins = self.b, self.joins
        gathered = vector(shape_of(type)[0], joins.accumulator) if shape_of(type) else joins.accumulator
        start = self.begin(gathered, first, end)
        if self.picks:
            one = b.index(1)
            if self.combine == "first":
                end = b.minimum(b.add(first, one), end)
            else:
                first = b.maximum(b.subtract(end, one), first)

        def row(k: Value, carried: Sequence[Value]) -> list[Value]:
            new = joins.enter(b, b.load(self.source, [before, k, column], type=type))
            return [new if self.picks else joins.combine(b, carried[0], new)]

        (total,) = b.loop(first, end, 1, [start], row, name="row")
        b.store(joins.leave(b, total), self.result, [before, segment, column])

    def elements(self, before: Value, segment: Value, first: Value, end: Value) -> None:
        """Reduces a register of rows at a time. The remainder is filled up with neutral elements."""
        b, joins = self.b, self.joins
        if self.picks:
            self.tile(before, segment, b.index(0), self.element, first, end)
            return
        type = VectorType((self.lanes,), self.element)
        nothing = b.number(joins.start, VectorType((self.lanes,), joins.accumulator))
        whole = self.whole(first, end, self.lanes)

        def load(k: Value, masked: bool) -> Value:
            return b.load(self.source, [before, k, b.index(0)], type=type, dims=[1], masked=masked)

        def some(k: Value, carried: Sequence[Value]) -> list[Value]:
            return [joins.combine(b, carried[0], joins.enter(b, load(k, False)))]

        def rest(k: Value, carried: Sequence[Value]) -> list[Value]:
            place = positions(b, k, VectorType((self.lanes,), index))
            inside = b.less(place, b.splat(end, place.type))
            new = b.select(inside, joins.enter(b, load(k, True)), nothing)
            return [joins.combine(b, carried[0], new)]

        start = self.begin(VectorType((self.lanes,), joins.accumulator), first, end)
        tall = VectorType((_TOGETHER, self.lanes), self.element)

        def many(k: Value, carried: Sequence[Value]) -> list[Value]:
            new = b.reshape(b.load(self.source, [before, k, b.index(0)], type=flat, dims=[1]), type=tall)
            return [joins.combine(b, carried[0], joins.enter(b, new))]

        flat, step = VectorType((_TOGETHER * self.lanes,), self.element), _TOGETHER * self.lanes
        tiles = self.whole(first, end, step)

        def long() -> list[Value]:
            """Several registers at once, which hides the latency of the operation."""
            nothing = b.number(joins.start, with_element(tall, joins.accumulator))
            (found,) = b.loop(first, tiles, step, [nothing], many, name="row")
            return [joins.combine(b, start, joins.across(b, found, [0]))]

        carried = b.branch(b.less(first, tiles), long, lambda: [start])
        carried = b.loop(tiles, whole, self.lanes, carried, some, name="row")
        (total,) = b.loop(whole, end, self.lanes, carried, rest, name="row")
        b.store(joins.leave(b, joins.across(b, total, [0])), self.result, [before, segment, b.index(0)])


class _Cumulative(_Segments):
    def __init__(self, op: Op, target: Target):
        super().__init__(op, target)
        self.run = PrefixScan(self.builder, op)

    def columns(self, before: Value, segment: Value, span: Span, first: Value, end: Value) -> None:
        self.step_by_step(
            [before, span.start],
            vector(span.size, self.element),
            first,
            end,
            [self.run.carried((span.size,))],
        )

    def step_by_step(
        self, at: Sequence[Value], type: Type, first: Value, end: Value, carried: Sequence[Value]
    ) -> Sequence[Value]:
        """One row after the other, forwards or from `end` backwards; returns what the next row continues from."""
        b, run = self.b, self.run
        before, column = at

        def row(k: Value, carried: Sequence[Value]) -> list[Value]:
            if run.reverse:
                k = b.subtract(b.subtract(b.add(first, end), b.index(1)), k)
            return [run.element_at([before, k, column], type, carried[0])]

        return b.loop(first, end, 1, carried, row, name="row")

    def elements(self, before: Value, segment: Value, first: Value, end: Value) -> None:
        """A register of rows at a time, then the remainder one by one."""
        b, run = self.b, self.run
        type = VectorType((self.lanes,), self.element)
        whole = self.whole(first, end, self.lanes)

        def some(k: Value, carried: Sequence[Value]) -> list[Value]:
            if run.reverse:
                k = b.subtract(b.subtract(b.add(first, whole), b.index(self.lanes)), k)
            at = [before, k, b.index(0)]
            new = run.enter(b, b.load(self.source, at, type=type, dims=[1]))
            shown, carry = run.joined(new, 0, carried[0])
            b.store(run.leave(b, shown), self.result, at, dims=[1])
            return [carry]

        def tiles(carried: Sequence[Value]) -> Sequence[Value]:
            return b.loop(first, whole, self.lanes, carried, some, name="row")

        def rest(carried: Sequence[Value]) -> Sequence[Value]:
            return self.step_by_step([before, b.index(0)], self.element, whole, end, carried)

        start = [run.carried(())]
        tiles(rest(start)) if run.reverse else rest(tiles(start))


class _Expansion(_Segments):
    """The segments of a program are in order: what is written beyond the end of one is overwritten by the next."""

    def columns(self, before: Value, segment: Value, span: Span, first: Value, end: Value) -> None:
        b = self.b
        row = b.load(self.source, [before, segment, span.start], type=vector(span.size, self.element))
        b.loop(first, end, 1, (), lambda k, _: b.store(row, self.result, [before, k, span.start]), name="row")

    def elements(self, before: Value, segment: Value, first: Value, end: Value) -> None:
        b = self.b
        one = self.builder.scalar(self.source, [before, segment, b.index(0)])
        type = VectorType((self.lanes,), self.element)
        several = b.splat(one, type)
        # Full registers are written where they end within the program's rows; the remainder is written one by one.
        most = b.maximum(b.subtract(self.limit, b.index(self.lanes - 1)), first)
        whole = b.minimum(end, most)
        rest = self.whole(first, b.add(whole, b.index(self.lanes - 1)), self.lanes)

        def write(k: Value, value: Value) -> None:
            b.store(value, self.result, [before, k, b.index(0)], dims=[1] if value is several else None)

        b.loop(first, whole, self.lanes, (), lambda k, _: write(k, several), name="row")
        b.loop(rest, end, 1, (), lambda k, _: write(k, one), name="row")
