# SPDX-License-Identifier: Apache-2.0
"""The state of an optimizer: tensors for each variable, and a count of steps."""

from __future__ import annotations

from ...op_graph.node import Op
from ...op_graph.source import assigned_name
from ...op_graph.state import AssignableTensorOp, persistent_tensor
from ...op_graph.tensor import Tensor

__all__ = ["counter", "own_name", "slot", "step_count"]


def own_name(op: Op) -> str:
    """The name of an op within its scope; empty for a generated name."""
    given = op.given_name or (op.automatic_name if isinstance(op, AssignableTensorOp) else "")
    return given.removeprefix(f"{op.scope}/") if op.scope else given


def _called(made: Tensor, name: str) -> Tensor:
    assert isinstance(made, AssignableTensorOp)
    made.automatic_name = name
    return made


def slot(variable: Tensor, kind: str, initial: float = 0.0) -> Tensor:
    """Something kept for a variable, of its axes and elements; checkpoints call it `VARIABLE.kind`."""
    made = persistent_tensor(variable.axes, dtype=variable.element, initial_value=initial)
    own = own_name(variable) or assigned_name(variable.location) or "variable"
    return _called(made, f"{variable.scope}/{own}.{kind}" if variable.scope else f"{own}.{kind}")


def counter(name: str, initial: float = 0.0) -> Tensor:
    """A number that is kept from step to step; checkpoints call it by this name."""
    return _called(persistent_tensor((), initial_value=initial), name)


def step_count() -> Tensor:
    """The number of steps taken, from 0."""
    return counter("step")
