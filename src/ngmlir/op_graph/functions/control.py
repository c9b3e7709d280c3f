# SPDX-License-Identifier: Apache-2.0
"""Branches and loops from Python functions: they are called once, to build the graph of the body."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...ir.types import i1
from ...ops import ng
from ..axes import Axes, Axis
from ..calls import takes
from ..errors import AxisLengthError, IncompatibleAxesError, UserError, fail
from ..regions import ControlOp, build_region
from ..tensor import Tensor
from ..values import as_op
from ..verbs import cast as cast_elements
from .coerce import broadcast
from .shape import axes_with_order

#: What a body gives: a value, or several.
Outputs = Tensor | float | tuple[Any, ...] | list[Any]


def _tuple(value: Outputs) -> tuple[Tensor, ...]:
    return tuple(as_op(v) for v in value) if isinstance(value, (tuple, list)) else (as_op(value),)


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
            f"{what} must be one value, not one with axes ({', '.join(condition.axes.names)})",
            "reduce it with ng.any or ng.all",
        )
    return condition if condition.element is i1 else condition.family.not_equal(condition, 0)


def cond(condition: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
    """What `then()` gives if the condition is true, else what `otherwise()` gives; only one is computed."""
    takes(then, 0, "the first branch")
    takes(otherwise, 0, "the other branch")
    single = False

    def first() -> Sequence[Tensor]:
        nonlocal single
        value = then()
        single = not isinstance(value, (tuple, list))
        return _tuple(value)

    one = build_region((), first)

    def second() -> Sequence[Tensor]:
        values = _tuple(otherwise())
        if len(values) != len(one.results):
            fail(UserError, f"one branch gives {len(one.results)} values, the other {len(values)}")
        return [_like(v, w, "the other branch") for v, w in zip(values, one.results, strict=True)]

    other = build_region((), second)
    types = [(r.axes, r.element) for r in one.results]
    made = ControlOp(ng.IfOp, [_truth(condition, "the condition")], [one, other], types)
    return made.results[0] if single else made.results


def while_loop(condition: Callable[..., Any], body: Callable[..., Any], initial: Any) -> Any:
    """Repeats `body` on its own results while `condition` of them is true; both take the values one by one."""
    start = _tuple(initial)
    takes(condition, len(start), "the condition")
    takes(body, len(start), "the body")
    types = [(s.axes, s.element) for s in start]

    def step(*values: Tensor) -> Sequence[Tensor]:
        made = _tuple(body(*values))
        if len(made) != len(start):
            fail(UserError, f"the body gives {len(made)} values, but takes {len(start)}")
        return [_like(m, s, "a result of the body") for m, s in zip(made, start, strict=True)]

    asked = build_region(types, lambda *values: [_truth(condition(*values), "the condition")])
    made = ControlOp(ng.WhileOp, start, [asked, build_region(types, step)], types)
    return made.results if isinstance(initial, (tuple, list)) else made.results[0]


def scan(
    body: Callable[..., Any], initial: Any, sequences: Any, axis: Axis | str, reverse: bool = False
) -> tuple[Any, Any]:
    """Runs `body(carried, slices) -> (carried, outputs)` once per position along an axis.

    `initial`, `sequences` and what the body gives are tensors or tuples of them. Gives the last carried values and the
    outputs, stacked along the axis, which becomes their first one. `reverse` goes from the last position to the first.
    """
    takes(body, 2, "the body of a scan")
    start, given = _tuple(initial), _tuple(sequences)
    if not given:
        fail(UserError, "a scan needs a sequence to run along")
    along = given[0].axes[given[0].axes.index(axis)]
    lengths = {a.length for s in given for a in s.axes.find_by_name(along.name) if a.length is not None}
    if len(lengths) > 1:
        fail(
            AxisLengthError,
            f"the sequences have different lengths along {along.name}: {sorted(lengths)}",
        )
    ordered = [axes_with_order(s, Axes((s.axes[s.axes.index(along)], *(s.axes - along)))) for s in given]
    single_output = False
    output_types: list[Any] = []

    def pack(values: Sequence[Tensor], like: Any) -> Any:
        return tuple(values) if isinstance(like, (tuple, list)) else values[0]

    def step(*values: Tensor) -> Sequence[Tensor]:
        nonlocal single_output
        result: Outputs = body(pack(values[: len(start)], initial), pack(values[len(start) :], sequences))
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            fail(
                UserError,
                "the body of a scan gives (carried, outputs)",
                "give an empty tuple where there is nothing",
            )
        carried, outputs = _tuple(result[0]), _tuple(result[1])
        single_output = not isinstance(result[1], (tuple, list))
        if len(carried) != len(start):
            fail(UserError, f"the body hands on {len(carried)} values, but takes {len(start)}")
        output_types.extend((Axes((along, *o.axes)), o.element) for o in outputs)
        return [*(_like(c, s, "a carried value") for c, s in zip(carried, start, strict=True)), *outputs]

    parameters = [*((s.axes, s.element) for s in start), *((s.axes[1:], s.element) for s in ordered)]
    region = build_region(parameters, step)
    types = [*((s.axes, s.element) for s in start), *output_types]
    made = ControlOp(
        ng.ScanOp, [*start, *ordered], [region], types, {"carried": len(start), "reverse": reverse}
    )
    outputs = made.results[len(start) :]
    return pack(made.results[: len(start)], initial), outputs[0] if single_output else outputs
