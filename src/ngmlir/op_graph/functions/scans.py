# SPDX-License-Identifier: Apache-2.0
"""Loops over the positions of an axis: along an ordinary one, and along a ragged one, whose sequences are gone through all at once.

Where the body of a loop along a ragged axis computes each row by itself, the sequences are packed into lanes, several in one: there are few
places without a row. Otherwise a step has a row for each sequence, and one that has ended keeps its state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from ...ops import ng
from ...ops.lengths import Length
from ...ops.rows import MixesRows
from ...support.spelling import counted
from ..axes import Axes, Axis, DerivedAxis, FlattenedAxis
from ..bodies import Body, Shape, States, entered
from ..by_rows import by_rows
from ..calls import takes
from ..errors import AxisLengthError, UserError, fail
from ..node import Op
from ..ragged import RaggedAxis
from ..regions import ControlOp, GraphRegion, build_region
from ..replay import Replay, replayed
from ..tensor import Tensor
from ..values import constant
from .coerce import broadcast
from .composed import where
from .control import fitting, tensors_of, values_of
from .elementwise import equal
from .segments import segment_first, segment_last, segment_lengths
from .shape import axes_with_order
from .steps import BySteps, InLanes


def scan(
    body: Callable[..., Any], initial: Any, sequences: Any, axis: Axis | str, reverse: bool = False
) -> tuple[Any, Any]:
    """Runs `body(carried, slices) -> (carried, outputs)` once per position along an axis.

    `initial`, `sequences` and what the body gives are tensors or tuples of them. Gives the last carried values and the
    outputs, stacked along the axis, which becomes their first one. `reverse` goes from the last position to the first.
    What the body writes at one position the next one reads; afterwards the storage holds what the last one wrote.

    Along a ragged axis each sequence is gone through by itself, all at once: carried values and slices have the axis of the sequences
    (`N` of `N$T`), and the last carried values are those at the end of each sequence, or, of an empty one, the initial ones. The body may
    write nothing there: UserError.
    """
    along = _along(body, sequences, axis)
    if isinstance(along, RaggedAxis):
        return _Sequences(body, initial, sequences, along).run(reverse, by_rows=False)
    return _scan(body, initial, sequences, along, reverse)


def scan_rows(
    body: Callable[..., Any], initial: Any, sequences: Any, axis: Axis, reverse: bool = False
) -> tuple[Any, Any]:
    """`scan`, whose body computes each row by itself; along a ragged axis UserError where it does not."""
    if isinstance(axis, RaggedAxis):
        return _Sequences(body, initial, sequences, axis).run(reverse, by_rows=True)
    return scan(body, initial, sequences, axis, reverse)


def _along(body: Callable[..., Any], sequences: Any, axis: Axis | str) -> Axis:
    takes(body, 2, "the body of a scan")
    given = tensors_of(sequences)
    if not given:
        fail(UserError, "ng.scan needs a sequence")
    return given[0].axes[given[0].axes.index(axis)]


def _pair(given: Any) -> tuple[Any, Any]:
    """The results of the body of a scan: the next states, and its outputs."""
    if not isinstance(given, (tuple, list)) or len(cast("Sequence[Any]", given)) != 2:
        fail(
            UserError,
            "the body of ng.scan must return (carried, outputs)",
            "use an empty tuple for none",
        )
    carried, outputs = cast("Sequence[Any]", given)
    return carried, outputs


def _packed(values: Sequence[Tensor], like: Any) -> Any:
    return tuple(values) if isinstance(like, (tuple, list)) else values[0]


class _Written:
    """The body of a scan as its author wrote it: a function of tensors, the carried ones first."""

    def __init__(self, body: Callable[..., Any], initial: Any, sequences: Any):
        self.body, self.initial, self.sequences = body, initial, sequences
        self.single_output = False

    def results(
        self, values: Sequence[Tensor], count: int, shapes: Sequence[Shape]
    ) -> tuple[list[Tensor], tuple[Tensor, ...]]:
        """The carried values, with these axes and elements, and the outputs."""
        given = _packed(values[:count], self.initial), _packed(values[count:], self.sequences)
        after, made = _pair(self.body(*given))
        carried, outputs = values_of(after), values_of(made)
        self.single_output = not isinstance(made, (tuple, list)) and len(outputs) == 1
        if len(carried) != count:
            fail(UserError, f"the body hands on {counted(len(carried), 'value')}, but takes {count}")
        return [fitting(c, s, "a carried value") for c, s in zip(carried, shapes, strict=True)], outputs

    def given(self, carried: Sequence[Tensor], outputs: Sequence[Tensor]) -> tuple[Any, Any]:
        """What the user gets."""
        return _packed(carried, self.initial), outputs[0] if self.single_output else tuple(outputs)


def _scan(
    body: Callable[..., Any], initial: Any, sequences: Any, along: Axis, reverse: bool
) -> tuple[Any, Any]:
    """A scan along an axis that is not ragged."""
    start, given = tensors_of(initial), tensors_of(sequences)
    lengths = {a.length for s in given for a in s.axes.find_by_name(along.name) if a.length is not None}
    if len(lengths) > 1:
        fail(
            AxisLengthError,
            f"the sequences have different lengths along {along.name}: {sorted(lengths)}",
        )
    ordered = [
        axes_with_order(s, s.axes.like((s.axes[s.axes.index(along)], *(s.axes - along)))) for s in given
    ]
    written, count = _Written(body, initial, sequences), len(start)
    types: list[Shape] = [(s.axes, s.element) for s in start]
    output_types: list[Shape] = []

    def step(*values: Tensor) -> Sequence[Tensor]:
        carried, outputs = written.results(values, count, types)
        output_types.extend((o.axes.like((along, *o.axes)), o.element) for o in outputs)
        return [*carried, *outputs]

    one = Body([*types, *((s.axes[1:], s.element) for s in ordered)], step)
    states = States([one])
    end = count + len(states.storages)
    operands, region = [*start, *states.before, *ordered], states.region(one, count)
    fields = {"carried": end, "reverse": reverse}
    made = entered(ControlOp(ng.ScanOp, operands, [region], [*types, *states.shapes, *output_types], fields))
    values = states.written(made, count)
    return written.given(values[:count], values[count:])


class _Sequences:
    """A scan along a ragged axis. Its body is built once, of a row for each sequence."""

    def __init__(self, body: Callable[..., Any], initial: Any, sequences: Any, along: RaggedAxis):
        self.along, self.outer = along, along.outer
        self.written = _Written(body, initial, sequences)
        self.initial, self.sequences = tensors_of(initial), tensors_of(sequences)
        self.count = len(self.initial)
        states: list[Shape] = [(self._with_outer(s.axes), s.element) for s in self.initial]
        slices: list[Shape] = [
            (Axes(self.outer if i == s.axes.index(along) else a for i, a in enumerate(s.axes)), s.element)
            for s in self.sequences
        ]

        def step(*values: Tensor) -> Sequence[Tensor]:
            carried, outputs = self.written.results(values, self.count, states)
            return [*carried, *[broadcast(o, self._with_outer(o.axes)) for o in outputs]]

        self.shapes = [*states, *slices]
        one = Body(self.shapes, step)
        if one.written:
            fail(
                UserError,
                f"the body of a scan along the ragged axis {along.name} writes {next(iter(one.written)).called}: a step has rows of several "
                "sequences, of which some have ended",
                "hand it on as a carried value, or scan along an axis that is not ragged",
            )
        self.region = one.region

    def _with_outer(self, axes: Axes) -> Axes:
        return axes if self.outer in axes else axes.like((self.outer, *axes))

    def run(self, reverse: bool, by_rows: bool) -> tuple[Any, Any]:
        """The last carried values, and the outputs as rows. With `by_rows` UserError where a step mixes rows."""
        try:
            return self._in_lanes(_Rows(self.region, self.outer, self.along.lanes.axes[1]), reverse)
        except MixesRows as mixed:
            if by_rows:
                fail(
                    UserError,
                    f"not each row of a step along the ragged axis {self.along.name} is computed by itself: these are rows of several sequences, at different places",
                    "a recurrent layer computes each row by itself; the body of ng.scan may do more",
                    mixed.location,
                )
        return self._by_steps(reverse)

    def _by_steps(self, reverse: bool) -> tuple[Any, Any]:
        """A step has a row for each sequence."""
        steps = BySteps(self.along)
        start = [broadcast(s, axes) for s, (axes, _) in zip(self.initial, self.shapes, strict=False)]

        def step(carried: tuple[Tensor, ...], fed: tuple[Tensor, ...]) -> Any:
            goes_on, *rows = fed
            made = replayed(self.region, [*carried, *rows])
            kept = [where(goes_on, m, s) for m, s in zip(made, carried, strict=False)]
            return tuple(kept), tuple(made[self.count :])

        fed = (steps.running, *map(steps.of, self.sequences))
        last, outputs = _scan(step, tuple(start), fed, steps.axes[0], reverse)
        return self.written.given(last, [steps.rows(each) for each in outputs])

    def _in_lanes(self, rows: _Rows, reverse: bool) -> tuple[Any, Any]:
        """A step has a row for each lane. Where a sequence begins, its lane begins again with the states before the first step."""
        lanes = InLanes(self.along, reverse)
        own = [s if self.outer in s.axes else None for s in self.initial]
        start = [
            broadcast(s if mine is None else constant(0, dtype=element), axes)
            for s, mine, (axes, element) in zip(self.initial, own, rows.shapes(self.shapes), strict=False)
        ]
        by_sequence = [s for s in own if s is not None]
        unique = [*dict.fromkeys(rows.region.results)]

        def step(carried: tuple[Tensor, ...], fed: tuple[Tensor, ...]) -> Any:
            begins, *others = fed
            left = iter(others)
            first = [s if mine is None else next(left) for s, mine in zip(start, own, strict=True)]
            before = [
                axes_with_order(where(begins, f, s), s.axes) for f, s in zip(first, carried, strict=True)
            ]
            made = replayed(rows.region, [*before, *left])
            held = dict(zip(rows.region.results, made, strict=True))
            return tuple(made[: self.count]), tuple([held[each] for each in unique])

        given = [lanes.of_sequences(each) for each in by_sequence]
        given += [lanes.of(each) for each in self.sequences]
        given += [lanes.of_sequences(each) for each in rows.captured]
        fed = (lanes.begins, *given)
        _, outputs = _scan(step, tuple(start), fed, lanes.axes[0], reverse)
        held = dict(zip(unique, map(lanes.rows, outputs), strict=True))
        made = [held[each] for each in rows.region.results]
        return self.written.given(
            [
                self._last(each, s, axes, reverse)
                for each, s, (axes, _) in zip(made, self.initial, self.shapes, strict=False)
            ],
            made[self.count :],
        )

    def _last(self, rows: Tensor, initial: Tensor, axes: Axes, reverse: bool) -> Tensor:
        """The state at the end of each sequence, of those after each row; of an empty one the initial one."""
        last = (segment_first if reverse else segment_last)(rows, axis=self.along)
        is_empty = equal(segment_lengths(self.along.offsets, self.outer), 0)
        return axes_with_order(where(is_empty, initial, last), axes)


#: How many rows the other axis is taken to have where that is not known: not as many as the first.
_OTHERS = 7


class _Rows:
    """A region that computes each row along an axis by itself, for rows along another one: its `region` takes behind the parameters
    what is `captured`, values from around that have a row for each. MixesRows where it does not."""

    def __init__(self, region: GraphRegion, axis: Axis, other: Axis):
        self.axis, self.other = axis, other
        how = by_rows(region, _place_of(axis))
        self.captured = how.beside
        self._check(region)
        taken = [*region.parameters, *self.captured]
        shapes = self.shapes([(p.axes, p.element) for p in taken])

        def again(*values: Tensor) -> Sequence[Tensor]:
            replay = _Renamed(dict(zip(taken, values, strict=True)), self)
            replay.run(region.inside())
            return replay.results(region.results)

        self.region = build_region(shapes, again)
        try:
            form = by_rows(self.region, _place_of(other), _OTHERS).form
        except UserError:  # a length is that of the sequences
            form = None
        if form != how.form:
            raise MixesRows("depends on the number of rows")

    def of(self, axes: Axes) -> Axes:
        return axes.like(map(self.renamed, axes))

    def shapes(self, shapes: Iterable[Shape]) -> list[Shape]:
        return [(self.of(axes), element) for axes, element in shapes]

    def renamed(self, value: Any) -> Any:
        """An axis, a length or an attribute, which has the other axis where it had this one."""
        if isinstance(value, tuple):
            return tuple(map(self.renamed, cast("tuple[Any, ...]", value)))
        if isinstance(value, Length):
            return Length(value.function, *map(self.renamed, value.parts))
        if not isinstance(value, Axis) or self.axis not in value.roots:
            return value
        if isinstance(value, FlattenedAxis):
            return FlattenedAxis(self.of(value.axes))
        return self.other if value == self.axis else DerivedAxis(value.name, *map(self.renamed, value.parts))

    def _check(self, region: GraphRegion) -> None:
        """MixesRows where something with the axis follows neither from rows nor from what is the same in each."""
        rows: set[Op] = {*region.parameters, *self.captured}
        alike: set[Op] = set()
        for op in region.inside():
            if not isinstance(op, Tensor) or op in rows:
                continue
            given = {a for a in op.args if isinstance(a, Tensor) and self._has_axis(a)}
            if not given <= rows | alike or (given & alike and not self._has_axis(op)):
                raise MixesRows("makes one result of all rows")
            if self._has_axis(op):
                (rows if given & rows else alike).add(op)

    def _has_axis(self, op: Tensor) -> bool:
        return any(self.axis in a.roots for a in op.axes)


def _place_of(axis: Axis) -> Callable[[Tensor], int | None]:
    return lambda x: x.axes.index(axis) if axis in x.axes else None


class _Renamed(Replay):
    """A replay in which tensors have other axes."""

    def __init__(self, copies: Mapping[Op, Op], rows: _Rows):
        super().__init__(copies)
        self.rows = rows

    def _again(self, op: Op) -> Op | None:
        made = super()._again(op)
        if isinstance(made, Tensor):
            made.axes = self.rows.of(made.axes)
            made.attributes = {n: self.rows.renamed(v) for n, v in made.attributes.items()}
        return made
