# SPDX-License-Identifier: Apache-2.0
"""Branches and loops from Python functions: they are called once, to build the graph of the body."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...ir.types import i1
from ...ops import ng
from ..bodies import Body, Shape, States, entered
from ..building import BUILDING
from ..calls import takes
from ..errors import IncompatibleAxesError, UserError, fail
from ..node import Op
from ..regions import ControlOp, GraphRegion, build_region
from ..state import doall
from ..tensor import Tensor
from ..values import as_op
from ..verbs import cast as cast_elements
from .coerce import broadcast

#: What a body gives: a value, or several.
Outputs = Tensor | float | tuple[Any, ...] | list[Any]


def tensors_of(value: Outputs) -> tuple[Tensor, ...]:
    return tuple(as_op(v) for v in value) if isinstance(value, (tuple, list)) else (as_op(value),)


def values_of(value: Outputs | Op | None) -> tuple[Tensor, ...]:
    """The values among what a body gives. None is no value, nor are writes and groups, which run with the body."""
    region = BUILDING.region
    assert isinstance(region, GraphRegion)
    given = value if isinstance(value, (tuple, list)) else () if value is None else (value,)
    region.groups += [v for v in given if isinstance(v, Op) and not v.is_tensor_op]
    return tuple(as_op(v) for v in given if v not in region.groups)


def fitting(made: Any, wanted: Shape, what: str) -> Tensor:
    """A result of a body with the axes and elements that it must have."""
    made, (axes, element) = as_op(made), wanted
    if not made.axes.is_sub_set(axes):
        fail(
            IncompatibleAxesError,
            f"{what} has axes ({', '.join(made.axes.names)}), but ({', '.join(axes.names)}) are needed",
        )
    return broadcast(cast_elements(made, element), axes)


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
        return values_of(value)

    one = Body((), first)

    def second() -> Sequence[Tensor]:
        values, wanted = values_of(otherwise()), one.region.results
        if len(values) != len(wanted):
            fail(UserError, f"one branch gives {_count(wanted)}, the other {len(values)}")
        return [
            fitting(v, (w.axes, w.element), "the other branch") for v, w in zip(values, wanted, strict=True)
        ]

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
    start = tensors_of(initial)
    takes(condition, len(start), "the condition")
    takes(body, len(start), "the body")
    types = [(s.axes, s.element) for s in start]

    def step(*values: Tensor) -> Sequence[Tensor]:
        made = values_of(body(*values))
        if len(made) != len(start):
            fail(UserError, f"the body gives {_count(made)}, but takes {len(start)}")
        return [fitting(m, s, "a result of the body") for m, s in zip(made, types, strict=True)]

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
