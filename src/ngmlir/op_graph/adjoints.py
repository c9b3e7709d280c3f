# SPDX-License-Identifier: Apache-2.0
"""Gradients accumulated op by op in a dictionary `{op: gradient}` that the caller owns, and reductions for them.

`ng.deriv` does the same for a whole graph. These functions are for programs that write the gradients of their ops themselves.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, cast

import numpy as np

from ..ir import core
from ..ir.types import FloatType
from ..ops import ng
from ..ops.fields import attributes_of
from ..ops.gradients import GRADIENTS, Applied
from .axes import Axes, AxesOrNames
from .deriv import Spread, adjoints_of, data
from .errors import NotDifferentiable, UserError, fail
from .functions.coerce import Positions, broadcast, number, one_of
from .functions.reductions import compute_reduction_axes
from .host_ops import HostDefinition, HostOp
from .node import Op
from .node_classes import ReductionOp
from .regions import ResultOp
from .stating import stating
from .tensor import Tensor
from .user_ops import OpaqueOp
from .values import as_op
from .verbs import VERBS
from .verbs import cast as cast_elements

Gradients = MutableMapping[Op, Tensor]


def adjoints(dependent: Tensor, error: Any = None) -> dict[Op, Tensor]:
    """The gradients of a tensor, weighted with `error`, by all that it is computed from and that has one."""
    if not isinstance(dependent.element, FloatType):
        fail(NotDifferentiable, f"{dependent.called} holds {dependent.element}; only floats have derivatives")
    return dict(adjoints_of(dependent, None if error is None else as_op(error)).sums)


def generate_add_delta(op: Tensor, gradients: Gradients, delta: Any) -> None:
    """Adds `delta` to the gradient of an op; both have the same axes, in any order."""
    op = cast("Tensor", op.forwarded)
    delta = broadcast(cast_elements(as_op(delta), op.element), op.axes)
    gradients[op] = VERBS.add(gradients[op], delta) if op in gradients else delta


def generate_adjoints(op: Tensor, gradients: Gradients, delta: Any, args: Sequence[Any]) -> None:
    """Adds to `gradients` what each argument of an op receives of `delta`, the gradient of the op."""
    op = cast("Tensor", op.forwarded)
    if args and [each.forwarded if isinstance(each, Op) else each for each in args] != list(data(op)):
        fail(
            UserError,
            f"{op.called} is not computed from these arguments",
            "op.generate_adjoints(adjoints, delta, *op.args)",
        )
    delta = broadcast(cast_elements(as_op(delta), op.element), op.axes)
    below = op.control.args if isinstance(op, ResultOp) else data(op)
    spread = Spread(
        {a.forwarded for a in below if isinstance(a, Tensor) and isinstance(a.element, FloatType)}
    )
    if isinstance(op, ResultOp):
        deltas: list[Tensor | None] = [None] * len(op.control.results)
        deltas[op.index] = delta
        spread.control(op.control, deltas)
    else:
        spread.spread(op, delta)
    for each in spread.unstated:
        each.refuse_derivative()
    for each, made in spread.sums.items():
        generate_add_delta(cast("Tensor", each), gradients, made)


def effective(op: Tensor) -> Tensor:
    """The op whose value another one has: of a sequence that of its last member, of a read the storage."""
    at = cast("Tensor", op.forwarded)
    while (
        at.operation is None
        and len(below := tuple(data(at))) == 1
        and not isinstance(at, (OpaqueOp, ResultOp))
    ):
        at = cast("Tensor", below[0])
    return at


# ---- reductions


def _rule(operation: type[core.Op]) -> Callable[[Tensor, Gradients, Any, Tensor], None]:
    """What hands the gradient of a reduction on to what it reduces."""

    def adjoints(op: Tensor, adjoints: Gradients, delta: Any, x: Tensor) -> None:
        x = as_op(x)
        kept = x.axes & op.axes
        attributes = {"axes": tuple(d for d, a in enumerate(x.axes) if a not in kept)}
        if not attributes["axes"]:
            generate_add_delta(x, adjoints, delta)
            return
        made, weight = (broadcast(cast_elements(as_op(v), x.element), kept) for v in (op, delta))
        applied = Applied(operation, [x], [made], attributes_of(operation, attributes), [True], attributes)
        (found,) = GRADIENTS[operation.name](VERBS, applied, weight)
        assert found is not None
        generate_add_delta(x, adjoints, found)

    return adjoints


#: `f(op, adjoints, delta, x)`: adds to `adjoints` what x gets of `delta`, the gradient of `op`, the sum (...) of x.
max_adjoints, min_adjoints = _rule(ng.MaxOp), _rule(ng.MinOp)
sum_adjoints, prod_adjoints = _rule(ng.SumOp), _rule(ng.ProductOp)


def create_reduction_op(
    name: str,
    func_name: str,
    adjoints: Callable[[Any, Gradients, Any, Any], Any] | None = None,
    compute: Callable[..., Any] | None = None,
) -> tuple[type[ReductionOp], Callable[..., Tensor]]:
    """(class, function) of a new reduction: `Median, median = ng.create_reduction_op("Median", "median")`.

    Args:
        name: what the class of its ops is called.
        func_name: what the function is called; it takes what `ng.sum` takes.
        adjoints: `adjoints(op, adjoints, delta, x)` hands the gradient on, by `x.generate_add_delta(adjoints, ...)`; without
            it derivatives are NotDifferentiable.
        compute: `compute(array, axis=(0, 2))` gives the value. By default it is what NumPy has under `func_name`.

    The value is computed on the host, as by `ng.host_op`. Raises UserError where nothing says how.
    """
    found: Any = getattr(np, func_name, None) if compute is None else compute
    if not callable(found):
        fail(
            UserError,
            f"NumPy has no function {func_name!r}, so compute= is needed for {name}",
            "compute=function of an array and axis=(...)",
        )

    def reduced(x: Any, places: tuple[int, ...]) -> Any:
        return found(x, axis=places)

    def left(x: Tensor, places: tuple[int, ...]) -> Axes:
        return x.axes.like(a for d, a in enumerate(x.axes) if d not in places)

    def gradient(delta: Tensor, op: Tensor, x: Tensor, places: tuple[int, ...]) -> Tensor | None:
        assert adjoints is not None
        gradients: dict[Op, Tensor] = {}
        adjoints(op, gradients, delta, x)
        return gradients.get(x.forwarded)

    reduced.__name__ = reduced.__qualname__ = func_name
    definition = HostDefinition(reduced, left, None)
    definition.op_class = type(name, (HostOp, ReductionOp), {"definition": definition})
    if adjoints is not None:
        definition.gradient(gradient)

    def function(
        x: Any,
        reduction_axes: AxesOrNames | None = None,
        out_axes: AxesOrNames | None = None,
        dtype: Any = None,
        axis: Positions = None,
    ) -> Tensor:
        x = number(x, dtype)
        gone, kept = compute_reduction_axes(x, one_of(x, reduction_axes, axis), out_axes)
        made = definition.apply(x, tuple(x.axes.index(a) for a in gone)) if gone else x
        return broadcast(made, kept)

    function.__name__ = function.__qualname__ = func_name
    return cast("type[ReductionOp]", definition.op_class), stating(function)


# What tensors have of it as methods.
Tensor.by_hand = sys.modules[__name__]
