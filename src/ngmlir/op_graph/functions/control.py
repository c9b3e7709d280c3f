# SPDX-License-Identifier: Apache-2.0
"""Branches and loops from Python functions: they are called once, to build the graph of the body."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from ...ir.types import i1
from ...ops import ng
from ...ops.rows import MixesRows
from ...support.spelling import counted
from ..axes import Axes, Axis
from ..bodies import Body, States, entered
from ..building import BUILDING
from ..by_rows import by_rows as row_by_row
from ..calls import takes
from ..errors import AxisLengthError, IncompatibleAxesError, UserError, fail
from ..node import Op
from ..ragged import RaggedAxis
from ..regions import ControlOp, GraphRegion, build_region
from ..state import doall
from ..tensor import Tensor
from ..values import as_op, constant
from ..verbs import cast as cast_elements
from .coerce import broadcast
from .composed import where
from .shape import axes_with_order
from .steps import InLanes, by_rows, by_steps, running

#: What a body gives: a value, or several.
Outputs = Tensor | float | tuple[Any, ...] | list[Any]


def _tuple(value: Outputs) -> tuple[Tensor, ...]:
    return tuple(as_op(v) for v in value) if isinstance(value, (tuple, list)) else (as_op(value),)


def _values(value: Outputs | Op | None) -> tuple[Tensor, ...]:
    """The values among what a body gives. None is no value, nor are writes and groups, which run with the body."""
    region = BUILDING.region
    assert isinstance(region, GraphRegion)
    given = value if isinstance(value, (tuple, list)) else () if value is None else (value,)
    region.groups += [v for v in given if isinstance(v, Op) and not v.is_tensor_op]
    return tuple(as_op(v) for v in given if v not in region.groups)


def _like(made: Any, wanted: Tensor, what: str) -> Tensor:
    """A result of a body with the axes and elements that it must have."""
    made = as_op(made)
    if not made.axes.is_sub_set(wanted.axes):
        fail(
            IncompatibleAxesError,
            f"{what} has axes ({', '.join(made.axes.names)}), but ({', '.join(wanted.axes.names)}) are needed",
        )
    return broadcast(cast_elements(made, wanted.element), wanted.axes)


def _truth(condition: Any, what: str) -> Tensor:
    condition = as_op(condition)
    if condition.axes:
        fail(
            IncompatibleAxesError,
            f"{what} must be a scalar, not a tensor with axes ({', '.join(condition.axes.names)})",
            "reduce it with ng.any or ng.all",
        )
    return condition if condition.element is i1 else condition.family.not_equal(condition, 0)


def cond(condition: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
    """The result of `then()` if the condition is true, otherwise that of `otherwise()`; only one runs.

    What a branch writes is written where that branch is taken. Branches that only write give a group of their writes.
    """
    takes(then, 0, "the first branch")
    takes(otherwise, 0, "the other branch")
    several = False

    def first() -> Sequence[Tensor]:
        nonlocal several
        value = then()
        several = isinstance(value, (tuple, list))
        return _values(value)

    one = Body((), first)

    def second() -> Sequence[Tensor]:
        values, wanted = _values(otherwise()), one.region.results
        if len(values) != len(wanted):
            fail(UserError, f"one branch gives {_count(wanted)}, the other {len(values)}")
        return [_like(v, w, "the other branch") for v, w in zip(values, wanted, strict=True)]

    other = Body((), second)
    states = States((one, other))
    truth = _truth(condition, "the condition")
    if not one.region.results and not states.storages:
        fail(UserError, "the branches return no value and assign nothing")
    types = [*((r.axes, r.element) for r in one.region.results), *states.shapes]

    def branch(body: Body) -> GraphRegion:
        def again() -> Sequence[Tensor]:
            results, after = body.again((), states.of(states.before))
            return [*results, *states.values(after)]

        return build_region((), again) if states.storages else body.region

    made = entered(ControlOp(ng.IfOp, [truth], [branch(one), branch(other)], types))
    return _handed_over(states, made, len(one.region.results), several)


def while_loop(condition: Callable[..., Any], body: Callable[..., Any], initial: Any) -> Any:
    """Repeats `body` on its own results while `condition` of them is true; both take the values as separate
    arguments.

    A loop of no values, that only writes, gives a group of its writes.
    """
    start = _tuple(initial)
    takes(condition, len(start), "the condition")
    takes(body, len(start), "the body")
    types = [(s.axes, s.element) for s in start]

    def step(*values: Tensor) -> Sequence[Tensor]:
        made = _values(body(*values))
        if len(made) != len(start):
            fail(UserError, f"the body gives {_count(made)}, but takes {len(start)}")
        return [_like(m, s, "a result of the body") for m, s in zip(made, start, strict=True)]

    asked = Body(types, lambda *values: [_truth(condition(*values), "the condition")])
    repeated = Body(types, step)
    states = States((asked, repeated))
    count, several = len(start), isinstance(initial, (tuple, list))
    if not asked.written:
        regions = [_asking(asked, states), states.region(repeated, count)]
        made = ControlOp(ng.WhileOp, [*start, *states.before], regions, [*types, *states.shapes])
        return _handed_over(states, made, count, several)

    # A condition that writes is asked before the loop and at the end of each iteration; its answer is carried too.
    (first,), entered = asked.again(start, states.of(states.before))

    def iteration(*values: Tensor) -> Sequence[Tensor]:
        results, after = repeated.again(values[:count], states.of(values[count:-1]))
        (answer,), after = asked.again(results, after)
        return [*results, *states.values(after), answer]

    operands = [*start, *states.values(entered), first]
    types = [(o.axes, o.element) for o in operands]
    regions = [build_region(types, lambda *values: values[-1:]), build_region(types, iteration)]
    made = ControlOp(ng.WhileOp, operands, regions, types)
    return _handed_over(states, made, count, several)


def _asking(asked: Body, states: States) -> GraphRegion:
    """The region of a condition that writes nothing, but may read what the body writes."""
    count = len(asked.shapes)

    def again(*values: Tensor) -> Sequence[Tensor]:
        return asked.again(values[:count], states.of(values[count:]))[0]

    return build_region([*asked.shapes, *states.shapes], again) if states.storages else asked.region


def _count(values: Sequence[Any]) -> str:
    return f"{len(values)} value{'s' * (len(values) != 1)}"


def _handed_over(states: States, op: ControlOp, count: int, several: bool) -> Any:
    """What the user gets: the first `count` results, each with the writes that come with it, or the writes alone."""
    values = states.written(op, count)[:count]
    return values if several else values[0] if values else doall(op.writes)


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
    takes(body, 2, "the body of a scan")
    given = _tuple(sequences)
    if not given:
        fail(UserError, "ng.scan needs a sequence")
    along = given[0].axes[given[0].axes.index(axis)]
    if isinstance(along, RaggedAxis):
        return _scan_of_sequences(body, initial, sequences, along, reverse)
    return _scan(body, initial, sequences, along, reverse)


def _scan_of_sequences(
    body: Callable[..., Any], initial: Any, sequences: Any, along: RaggedAxis, reverse: bool
) -> tuple[Any, Any]:
    """A scan over steps, in which each sequence takes part as long as it has rows; one that has ended keeps its state."""
    start = [
        broadcast(s, s.axes if along.outer in s.axes else (along.outer, *s.axes)) for s in _tuple(initial)
    ]
    given = [by_steps(s, along) for s in _tuple(sequences)]

    def step(carried: tuple[Tensor, ...], fed: tuple[Tensor, ...]) -> Any:
        *rows, goes_on = fed
        after, outputs = _pair(body(_packed(carried, initial), _packed(rows, sequences)))
        made = _values(after)
        kept = [
            where(goes_on, _like(m, s, "a carried value"), s) for m, s in zip(made, carried, strict=False)
        ]
        return (*kept, *made[len(kept) :]), outputs

    steps = along.steps.axes[0]
    last, outputs = _scan(step, tuple(start), (*given, running(along)), steps, reverse, along)
    rows = [by_rows(_for_each(each, along), along) for each in _tuple(outputs)]
    return _packed(last, initial), _packed(rows, outputs)


def scan_in_lanes(
    body: Callable[..., Any],
    initial: Sequence[Tensor | None],
    sequence: Tensor,
    along: RaggedAxis,
    reverse: bool,
    state: Axes,
) -> tuple[Tensor, ...]:
    """What `body(states, row)` makes of the states, for each row: the states after it, the ragged axis first. A lane holds several
    sequences, so `body` must compute each row independently (UserError otherwise). States have the axes `state`, with the lanes in place of the sequences; they start as 0, or as
    the sequence's row of `initial`."""
    lanes = InLanes(along)
    zero = broadcast(constant(0, dtype=sequence.element), state)
    given = [None if each is None else lanes.of_sequences(each) for each in initial]

    def step(carried: tuple[Tensor, ...], fed: tuple[Tensor, ...]) -> Any:
        row, begins, *others = fed
        left = iter(others)
        before = [
            where(begins, zero if each is None else next(left), s)
            for each, s in zip(given, carried, strict=True)
        ]
        made = body(tuple([axes_with_order(s, state) for s in before]), row)
        return made, made

    fed = [lanes.of(sequence), lanes.begins(reverse), *[each for each in given if each is not None]]
    steps = along.lanes.axes[0]
    _, outputs = _scan(step, (zero,) * len(initial), tuple(fed), steps, reverse, along)
    _check_rows(as_op(outputs[0]).args[0], along)
    return tuple([lanes.rows(each) for each in outputs])


def _check_rows(control: Op, along: RaggedAxis) -> None:
    """UserError where something of a step is computed of the rows of several lanes."""
    lanes = along.lanes.axes[1]
    assert isinstance(control, ControlOp)
    try:
        row_by_row(control.regions[0], lambda x: x.axes.index(lanes) if lanes in x.axes else None)
    except MixesRows as mixed:
        fail(
            UserError,
            f"not each row of a step along the ragged axis {along.name} is computed by itself: these are rows of several sequences, at different places",
            "a recurrent layer computes each row by itself; the body of ng.scan may do more",
            mixed.location,
        )


def _for_each(stacked: Tensor, along: RaggedAxis) -> Tensor:
    """What was stacked, for each sequence."""
    return stacked if along.outer in stacked.axes else broadcast(stacked, (*stacked.axes, along.outer))


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


def _scan(
    body: Callable[..., Any],
    initial: Any,
    sequences: Any,
    along: Axis,
    reverse: bool,
    ragged: RaggedAxis | None = None,
) -> tuple[Any, Any]:
    """A scan along an axis; of the steps of a ragged one, where there is one."""
    start, given = _tuple(initial), _tuple(sequences)
    lengths = {a.length for s in given for a in s.axes.find_by_name(along.name) if a.length is not None}
    if len(lengths) > 1:
        fail(
            AxisLengthError,
            f"the sequences have different lengths along {along.name}: {sorted(lengths)}",
        )
    ordered = [
        axes_with_order(s, s.axes.like((s.axes[s.axes.index(along)], *(s.axes - along)))) for s in given
    ]
    single_output = False
    output_types: list[Any] = []

    def step(*values: Tensor) -> Sequence[Tensor]:
        nonlocal single_output
        after, made = _pair(
            body(_packed(values[: len(start)], initial), _packed(values[len(start) :], sequences))
        )
        carried, outputs = _values(after), _values(made)
        single_output = not isinstance(made, (tuple, list)) and len(outputs) == 1
        if len(carried) != len(start):
            fail(UserError, f"the body hands on {counted(len(carried), 'value')}, but takes {len(start)}")
        output_types.extend((o.axes.like((along, *o.axes)), o.element) for o in outputs)
        return [*(_like(c, s, "a carried value") for c, s in zip(carried, start, strict=True)), *outputs]

    parameters = [*((s.axes, s.element) for s in start), *((s.axes[1:], s.element) for s in ordered)]
    one = Body(parameters, step)
    states, count = States([one]), len(start)
    if ragged is not None and states.storages:
        fail(
            UserError,
            f"the body of a scan along the ragged axis {ragged.name} writes {next(iter(states.storages)).called}: a step has rows of several "
            "sequences, of which some have ended",
            "hand it on as a carried value, or scan along an axis that is not ragged",
        )
    end = count + len(states.storages)
    types = [*((s.axes, s.element) for s in start), *states.shapes, *output_types]
    operands, region = [*start, *states.before, *ordered], states.region(one, count)
    made = entered(ControlOp(ng.ScanOp, operands, [region], types, {"carried": end, "reverse": reverse}))
    values = states.written(made, count)
    outputs = values[count:]
    return _packed(values[:count], initial), outputs[0] if single_output else outputs
