# SPDX-License-Identifier: Apache-2.0
"""Reverse-mode derivatives: more graph, made from the graph. Nothing is computed here.

All derivatives of one dependent share one backward graph. Gradients follow data only: never a control
dependency, an assignment, or the earlier members of a sequence.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ..ir.types import FloatType
from ..ops.fields import attributes_of
from ..ops.gradients import GRADIENTS, NO_GRADIENT, Applied
from ..support.spelling import counted
from .attributes import resolved
from .building import BUILDING, seen_from
from .control_gradients import CONTROL_GRADIENTS
from .errors import IncompatibleAxesError, NotDifferentiable, OutsideRegion, UserError, fail
from .functions.coerce import broadcast, check_lengths
from .functions.composed import StopGradientOp
from .node import Op, closure, sources_first
from .regions import ControlOp, ResultOp
from .schemas import Schema, derivative_of
from .state import HeldOp, SequentialOp, followed
from .stating import AliasOp, in_family, stating
from .tensor import Tensor, as_tensor
from .user_ops import OpaqueOp
from .values import ConstantOp, FollowingOp, as_op
from .verbs import VERBS, cast
from .writes import ReadOp, read_by


class Spread:
    """Accumulates the gradients of ops from those of their readers. Only ops of `active` get one."""

    def __init__(self, active: Collection[Op]):
        self.active = active
        self.sums: dict[Op, Tensor] = {}
        self.unstated: list[OpaqueOp] = []  # ops that a gradient reached and that propagate none

    def add(self, op: Op, delta: Tensor) -> None:
        if isinstance(op, Tensor):
            delta = in_family(delta, op.axes)
        known = self.sums.get(op)
        self.sums[op] = delta if known is None else VERBS.add(known, delta)

    def spread(self, op: Op, delta: Tensor) -> None:
        """Hands the gradient of an op on to what it is computed from."""
        own = derivative_of(op)
        if own is not None:
            self.own(as_tensor(op), own, delta)
            return
        if isinstance(op, OpaqueOp):
            self.unstated.append(op)
        if isinstance(op, (AliasOp, HeldOp, ReadOp, SequentialOp)):
            for source in data(op):
                self.add(source, delta)
            return
        if isinstance(op, StopGradientOp) or op.operation is None or op.operation.name in NO_GRADIENT:
            return
        wanted = [arg.forwarded in self.active for arg in op.args]
        if not any(wanted):
            return
        assert isinstance(op, Tensor)
        args = [read_by(op, as_tensor(a.forwarded)) for a in op.args]
        attributes = attributes_of(op.operation, resolved(op.attributes))
        applied = Applied(op.operation, args, [op], attributes, wanted, op.attributes)
        gradients = GRADIENTS[op.operation.name](VERBS, applied, delta)
        for arg, made, use in zip(op.args, gradients, wanted, strict=True):
            if made is not None and use:
                self.add(arg.forwarded, made)

    def own(self, op: Tensor, schema: Schema, delta: Tensor) -> None:
        """Hands the gradient on as a schema says."""
        operands = [as_tensor(operand.forwarded) for operand in schema.operands]
        if not any(operand in self.active for operand in operands):
            return
        given: Any = schema.on([read_by(op, operand) for operand in operands]).gradient(op, delta)
        made: Sequence[Any] = [given] if isinstance(given, Tensor) or given is None else [*given]
        if len(made) != len(operands):
            fail(
                UserError,
                f"the gradient of {op.called} gives {counted(len(made), 'value')} for {counted(len(operands), 'operand')}",
                "return one gradient for each tensor argument, in order; None for no gradient",
            )
        for operand, gradient in zip(operands, made, strict=True):
            if gradient is None or operand not in self.active:
                continue
            gradient = as_op(gradient)
            if gradient.axes and not gradient.axes.is_equal_set(operand.axes):
                fail(
                    IncompatibleAxesError,
                    f"the gradient of {op.called} by {operand.called} has axes ({', '.join(gradient.axes.names)}), "
                    f"the operand ({', '.join(operand.axes.names)})",
                    "sum over the other axes: ng.sum(gradient, out_axes=x.axes)",
                )
            self.add(operand, broadcast(cast(gradient, operand.element), operand.axes))

    def control(self, op: ControlOp, deltas: Sequence[Tensor | None]) -> None:
        wanted = [arg.forwarded in self.active for arg in op.args]
        if not any(wanted):
            return
        gradients = CONTROL_GRADIENTS[op.kind](op, deltas, wanted, _sums)
        for arg, made, use in zip(op.args, gradients, wanted, strict=True):
            if made is not None and use:
                self.add(arg.forwarded, followed(made, op.writes))


class Adjoints(Spread):
    """The gradients of dependents, each weighted with an error and added up, with respect to everything below them, down to
    the ops of `stop`."""

    def __init__(
        self,
        dependents: Sequence[tuple[Tensor, Tensor]],
        stop: Collection[Op] = (),
        independent: Op | None = None,
    ):
        ops = sources_first([d for d, _ in dependents], lambda op: () if op in stop else data(op))
        # Only ops that a float storage, parameter or array (or what is asked for) reaches can have a gradient of any use.
        super().__init__(_active(ops, stop, independent))
        for dependent, error in dependents:
            if isinstance(dependent.element, FloatType):
                self.add(dependent.forwarded, error)
        pending: dict[ControlOp, list[Tensor | None]] = {}
        for op in reversed(ops):
            if isinstance(op, ControlOp):
                if op in pending:
                    self.control(op, pending[op])
                continue
            delta = self.sums.get(op)
            if delta is None or op in stop:
                continue
            if isinstance(op, ResultOp):
                deltas = pending.setdefault(op.control, [None] * len(op.control.results))
                deltas[op.index] = delta
            else:
                self.spread(op, delta)


def _sums(dependents: Sequence[tuple[Tensor, Tensor]], stop: Collection[Op]) -> Mapping[Op, Tensor]:
    adjoints = Adjoints(dependents, stop)
    for op in adjoints.unstated:
        if any(arg.forwarded in adjoints.active for arg in op.args):
            op.refuse_derivative()
    return adjoints.sums


def data(op: Op) -> Iterable[Op]:
    """What the value of an op is computed from."""
    if isinstance(op, SequentialOp):
        return (op.last.forwarded,) if op.has_value else ()
    if isinstance(op, HeldOp):
        return (op.held.forwarded,)
    own = derivative_of(op)
    if own is not None:
        return tuple([operand.forwarded for operand in own.operands])
    if isinstance(op, AliasOp):
        return (op.aliased.forwarded,)
    return tuple([arg.forwarded for arg in op.args])


def _active(ops: Sequence[Op], stop: Collection[Op], independent: Op | None) -> set[Op]:
    active: set[Op] = set()
    for op in ops:
        below = () if op in stop else tuple(data(op))
        is_source = op is independent or (not below and not isinstance(op, (ConstantOp, FollowingOp)))
        is_array = isinstance(op, ConstantOp) and op.value.ndim > 0
        flat = derivative_of(op) is None and (
            isinstance(op, StopGradientOp) or (op.operation is not None and op.operation.name in NO_GRADIENT)
        )
        is_number = isinstance(op, ControlOp) or (
            isinstance(op, Tensor) and isinstance(op.element, FloatType)
        )
        if is_number and (is_source or is_array or (not flat and any(b in active for b in below))):
            active.add(op)
    return active


@stating
def deriv(dependent: Tensor, independent: Tensor, error: Tensor | None = None) -> Tensor:
    """The derivative of `dependent` with respect to `independent`, weighted with `error`.

    `error` has the axes of `dependent`. It may be left out (1) if that is a single number, or one for each sample of the
    batch axis N, as losses are: then it is the derivative of their sum. The result has the axes of `independent`; it is 0
    where there is no dependence. What is assigned to storage between the dependent and the derivative changes neither. Raises NotDifferentiable where either holds no floats, the independent is a constant
    number, or the dependent has other axes and there is no error; OutsideRegion for a value of a loop or branch that is
    not being built.
    """
    if isinstance(independent, (list, tuple)):
        fail(
            UserError,
            "ng.deriv takes one tensor to differentiate by",
            "use [ng.deriv(y, x) for x in ...], which shares intermediate results",
        )
    given, independent = independent, as_op(independent)
    dependent = as_op(dependent)
    for op in (dependent, independent):
        if not isinstance(op.element, FloatType):
            fail(NotDifferentiable, f"{op.called} holds {op.element}; only floats have derivatives")
    target = independent.forwarded
    if isinstance(target, ConstantOp) and (target.is_scalar or given is not independent):
        kind = "number" if target.is_scalar else "array"
        hint = "make it a placeholder or a variable"
        fail(NotDifferentiable, f"{target.called} is a constant {kind}", hint)
    if not seen_from(BUILDING.region, target.region):
        fail(
            OutsideRegion,
            f"{target.called} belongs to a loop or branch, and its derivative is taken outside",
            "take it inside the body, or with respect to a value that the body captures",
        )
    adjoints = adjoints_of(dependent, error)
    if target not in adjoints.active and target in closure([dependent], data):
        # What nothing trainable reaches, such as a draw of random numbers.
        adjoints = adjoints_of(dependent, error, target)
    for op in adjoints.unstated:
        if target in closure([op], data):
            op.refuse_derivative()
    made = adjoints.sums.get(target)
    if made is None:
        return VERBS.number_like(0, independent)
    return broadcast(cast(made, independent.element), independent.axes)


def adjoints_of(dependent: Tensor, error: Tensor | None = None, independent: Op | None = None) -> Adjoints:
    """The backward graph of a dependent; made once for each error (and each region that asks)."""
    if error is None and dependent.axes - dependent.axes.batch_axes():
        fail(
            NotDifferentiable,
            f"the differentiated tensor has axes ({', '.join(dependent.axes.names)}), so ng.deriv needs error=",
            "pass error= with the same axes, or reduce it to a scalar with ng.sum(x, out_axes=())",
        )
    key = (error, BUILDING.region, independent)
    cache: dict[object, Adjoints] = dependent.__dict__.setdefault("_adjoints", {})
    found = cache.get(key)
    if found is None:
        found = cache[key] = Adjoints([(dependent, _seed(dependent, error))], (), independent)
    return found


def _seed(dependent: Tensor, error: Tensor | None) -> Tensor:
    if error is None:
        return VERBS.number_like(1, dependent)
    error = as_op(error)
    if error.axes and not error.axes.is_equal_set(dependent.axes):
        fail(
            IncompatibleAxesError,
            f"the error has axes ({', '.join(error.axes.names)}), the dependent ({', '.join(dependent.axes.names)})",
        )
    check_lengths(error.axes, dependent.axes)
    return broadcast(cast(error, dependent.element), dependent.axes)
