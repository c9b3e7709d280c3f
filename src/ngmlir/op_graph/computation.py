# SPDX-License-Identifier: Apache-2.0
"""`ng.computation`: what is to be returned, in which structure, from which parameters. Checked when it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .errors import MissingPlaceholder, NotAssignable, UserError, fail
from .node import Op, closure
from .ordered import OrderedSet
from .ragged import with_offsets
from .state import AssignableTensorOp, ComputationOp
from .tensor import Tensor
from .values import as_op


class Computation(ComputationOp):
    """A computation that a transformer can run; `pack` gives the values of `returns` the structure asked for.

    The first `taken` parameters are those that were named; behind them are the offsets of ragged ones.
    """

    def __init__(
        self,
        returns: Sequence[Op],
        parameters: Sequence[Tensor],
        pack: Callable[[Sequence[Any]], Any],
        taken: int | None = None,
    ):
        super().__init__(returns, parameters)
        self.pack = pack
        self.taken = len(parameters) if taken is None else taken


def computation(returns: Any, *parameters: Any, name: str | None = None) -> Computation:
    """A function from values of `parameters` to the values of `returns`.

    An op returns its array, a list or tuple a tuple, a set or dictionary a dictionary, None nothing. The
    parameters must hold every placeholder that is needed and has no initial value; `"all"` stands for all.
    `name` is the name of its function in text. An existing computation (also a raised or loaded one) is returned unchanged;
    UserError if parameters are given too, since it has its own.
    """
    if isinstance(returns, Computation):
        if parameters or name is not None:
            fail(
                UserError,
                f"{returns.called} is already a computation",
                "computation.returns are its ops: ng.computation(made.returns, *parameters)",
            )
        return returns
    ops, pack = _structure(returns)
    used = Op.ordered_ops(ops)
    needed = [op for op in used if isinstance(op, AssignableTensorOp) and op.is_placeholder]
    if "all" in [p for p in parameters if isinstance(p, str)]:
        parameters = tuple(needed)
    inputs: list[Tensor] = []
    for parameter in parameters:
        if not isinstance(parameter, AssignableTensorOp) or not parameter.is_input:
            fail(
                NotAssignable,
                f"{parameter!r} cannot be a parameter",
                "results come first, then their parameters"
                if ops and all(isinstance(op, AssignableTensorOp) and op.is_placeholder for op in ops)
                else "parameters are placeholders, variables and persistent tensors",
            )
        if parameter in inputs:
            fail(UserError, f"{parameter.called} is given twice as a parameter")
        inputs.append(parameter)
    taken = len(inputs)
    axes = {axis for op in used if isinstance(op, Tensor) for axis in op.axes}
    inputs, ops, pack = with_offsets(inputs, ops, pack, axes)
    made = Computation(ops, inputs, pack, taken)
    if name is not None:
        made.name = name
    for op in closure([made]):
        if (
            isinstance(op, AssignableTensorOp)
            and op.is_placeholder
            and op not in inputs
            and op.initial_value is None
        ):
            fail(
                MissingPlaceholder,
                f"the placeholder {op.called} ({', '.join(op.axes.names)}) is used, but is not a parameter",
                f"it was created at {op.location}; add it to the parameters, or give it an initial value",
            )
    return made


#: What may be asked for: an op (or a number), several, or nothing.
Returns = (
    Op
    | float
    | Mapping[Any, Any]
    | set[Any]
    | frozenset[Any]
    | list[Any]
    | tuple[Any, ...]
    | OrderedSet[Any]
    | None
)


def _structure(returns: Returns) -> tuple[list[Op], Callable[[Sequence[Any]], Any]]:
    """The ops to compute, and what makes the answer of their values."""
    if returns is None:
        return [], lambda values: None
    if isinstance(returns, Op):
        return [returns], lambda values: values[0]
    if isinstance(returns, Mapping):
        keys, ops = list(returns), [_op(r) for r in returns.values()]
        return ops, lambda values: dict(zip(keys, values, strict=True))
    if isinstance(returns, (set, frozenset)):
        ops = sorted((_op(r) for r in returns), key=lambda op: op.serial)
        return ops, lambda values: dict(zip(ops, values, strict=True))
    if isinstance(returns, (list, tuple, OrderedSet)):
        return [_op(r) for r in returns], tuple
    return [as_op(returns)], lambda values: values[0]


def _op(value: Any) -> Op:
    return value if isinstance(value, Op) else as_op(value)
