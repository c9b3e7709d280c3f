# SPDX-License-Identifier: Apache-2.0
"""Kernels of segments on a CPU: loops over rows whose bounds are read from offsets. A program has some segments for itself."""

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
from .frame import Span, positions, share
from .single import SingleFrame, vector


def segment_reduce_kernel(op: Op, target: Target) -> Finished:
    """One pass over the rows, which are joined as they come."""
    return _Reduction(op, target).build()


def segment_cumulative_kernel(op: Op, target: Target) -> Finished:
    """From one end of a segment to the other."""
    return _Cumulative(op, target).build()


def segment_expand_kernel(op: Op, target: Target) -> Finished:
    """A row is read once for each segment, and written to all of its rows."""
    return _Expansion(op, target).build()


#: Registers that gather a long line side by side.
_TOGETHER = 4


class _Segments:
    """What these kernels share: `rows` lie along one axis, between `before` lines of them and `after` elements of each."""

    def __init__(self, op: Op, target: Target):
        self.op, axis = op, get_i64(op, "axis")
        source, result = (merged(shape_of(v.type), axis) for v in (op.operands[0], op.results[0]))
        (count,) = shape_of(op.operands[1].type)
        self.before, self.rows, self.after = result if op.name == "ng.segment_expand" else source
        self.element = element_type(op.results[0].type)
        self.lanes = target.lanes(max(4, item_bytes(self.element)))
        # What a program takes is counted in rows, of which all segments have equally many: it is only about time.
        sizes = (count - 1, self.before * max(1, -(-usual(self.rows) // (usual(count) - 1))), self.after)
        self.frame = SingleFrame(op, target, sizes, [source, (count,)], [result])
        self.b = self.frame.b
        self.source, self.offsets = self.frame.sources
        (self.result,) = self.frame.results

    def build(self) -> Finished:
        frame, b = self.frame, self.b
        count = frame.sizes[0]
        start, stop = b.index(0), b.index(count)
        if frame.programs:
            start, stop = share(b, frame.programs[0], frame.part, count)
        self.limit = self.bound(stop)
        b.loop(start, stop, 1, [self.bound(start)], self.segment, name="segment")
        return frame.done()

    def segment(self, segment: Value, carried: Sequence[Value]) -> Sequence[Value]:
        """One segment in all lines, from where the one before ends; single elements of a row are a line of their own."""
        b, (first,) = self.b, carried
        end = b.maximum(first, self.bound(b.add(segment, b.index(1))))

        def line(spans: list[Span]) -> None:
            (before,) = spans
            if self.after == 1:
                self.elements(before.start, segment, first, end)
            else:
                self.frame.tiles(
                    self.after,
                    self.frame.width,
                    (),
                    lambda span, _: self.columns(before.start, segment, span, first, end),
                    masks=False,
                )

        self.frame.nest((self.before,), line)
        return [end]

    def bound(self, place: Value) -> Value:
        """An offset as a position; it lies in the operand, whatever the offsets are."""
        b = self.b
        return within(b, b.cast(self.frame.scalar(self.offsets, [place]), type=index), self.rows)

    def columns(self, before: Value, segment: Value, span: Span, first: Value, end: Value) -> None:
        """Of rows of several elements: a tile of columns."""
        raise NotImplementedError

    def elements(self, before: Value, segment: Value, first: Value, end: Value) -> None:
        """Of rows of one element."""
        raise NotImplementedError

    def whole(self, first: Value, end: Value, step: int) -> Value:
        """Where the last whole tile of so many rows of a line ends, a power of two."""
        b = self.b
        return b.add(first, b.bitwise_and(b.subtract(end, first), b.index(-step)))


class _Reduction(_Segments):
    def __init__(self, op: Op, target: Target):
        super().__init__(op, target)
        self.combine = get_enum(op, "combine")
        self.picks = self.combine in ("first", "last")
        self.joins = Accumulation("sum" if self.picks else self.combine, self.element, target)

    def begin(self, type: Type, first: Value, end: Value) -> Value:
        """What rows are joined to. Sums start from -0.0, but that of nothing is 0."""
        b, joins = self.b, self.joins
        element = element_type(type)
        start = b.number(joins.start, element)
        if joins.kind == "sum" and isinstance(element, FloatType):
            start = b.select(b.less(first, end), start, b.number(0, element))
        return b.broadcast(start, type=type, dimensions=()) if isinstance(type, VectorType) else start

    def columns(self, before: Value, segment: Value, span: Span, first: Value, end: Value) -> None:
        self.tile(before, segment, span.start, vector(span.size, self.element), first, end)

    def tile(
        self, before: Value, segment: Value, column: Value, type: Type, first: Value, end: Value
    ) -> None:
        """Row by row, in tiles of columns."""
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
        """Many rows at once; what is left of them fills a register with elements that change nothing."""
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
            inside = b.less(place, b.broadcast(end, type=place.type, dimensions=()))
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
            """Several registers at once, so that one addition need not wait for another."""
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
        self.run = PrefixScan(self.frame, op)

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
        """One row after the other, from or to `end`; gives what comes before the next one."""
        b, run = self.b, self.run
        before, column = at

        def row(k: Value, carried: Sequence[Value]) -> list[Value]:
            if run.reverse:
                k = b.subtract(b.subtract(b.add(first, end), b.index(1)), k)
            return [run.element_at([before, k, column], type, carried[0])]

        return b.loop(first, end, 1, carried, row, name="row")

    def elements(self, before: Value, segment: Value, first: Value, end: Value) -> None:
        """As many rows at once as a register holds, and one by one what is left of them."""
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
    """The segments of a program come in order: what is written behind the end of one is written again for the next."""

    def columns(self, before: Value, segment: Value, span: Span, first: Value, end: Value) -> None:
        b = self.b
        row = b.load(self.source, [before, segment, span.start], type=vector(span.size, self.element))
        b.loop(first, end, 1, (), lambda k, _: b.store(row, self.result, [before, k, span.start]), name="row")

    def elements(self, before: Value, segment: Value, first: Value, end: Value) -> None:
        b = self.b
        one = self.frame.scalar(self.source, [before, segment, b.index(0)])
        type = VectorType((self.lanes,), self.element)
        several = b.broadcast(one, type=type, dimensions=())
        # A whole register is written where that stays in the program's rows; what is left, one by one.
        most = b.maximum(b.subtract(self.limit, b.index(self.lanes - 1)), first)
        whole = b.minimum(end, most)
        rest = self.whole(first, b.add(whole, b.index(self.lanes - 1)), self.lanes)

        def write(k: Value, value: Value) -> None:
            b.store(value, self.result, [before, k, b.index(0)], dims=[1] if value is several else None)

        b.loop(first, whole, self.lanes, (), lambda k, _: write(k, several), name="row")
        b.loop(rest, end, 1, (), lambda k, _: write(k, one), name="row")
