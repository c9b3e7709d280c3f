# SPDX-License-Identifier: Apache-2.0
"""Facts that a function records about the op that it returns: `op.schemas`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .node import Op


class Schema:
    """A fact about an op. Subclasses add attributes; one with a `gradient` defines the op's derivative.

    `operands` are the tensors that the derivative propagates to. `gradient(op, delta)` returns, for each of them, its part of
    `delta`, the gradient of `op`: a tensor with its axes, or None. `ng.deriv` uses it instead of the derivatives of the ops
    that the value is computed from.
    """

    operands: Sequence[Any] = ()
    gradient: Any = None

    @property
    def is_derivative(self) -> bool:
        """Whether it says a derivative."""
        return self.gradient is not None

    def on(self, operands: Sequence[Any]) -> Schema:
        """The same fact about a copy of the op with other operands."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.operands = tuple(operands)
        return made


class HandledDerivative(Schema):
    """The derivative of a tensor is what a handler says (`op.deriv_handler = handler`): an op, or anything that has `args`
    and `generate_adjoints(adjoints, delta, *args)`."""

    def __init__(self, handler: Any):
        self.handler = handler
        self.operands = tuple(handler.args)

    def on(self, operands: Sequence[Any]) -> Schema:
        return self if isinstance(self.handler, Op) else super().on(operands)  # an op knows what it reads

    def gradient(self, op: Any, delta: Any) -> list[Any]:
        """What the handler adds to the gradients of its arguments."""
        gradients: dict[Op, Any] = {}
        self.handler.generate_adjoints(gradients, delta, *self.operands)
        return [gradients.get(operand.forwarded) for operand in self.operands]


def derivative_of(op: Op) -> Schema | None:
    """The schema that says the derivative of an op, if there is one."""
    for schema in op.schemas:
        if isinstance(schema, Schema) and schema.is_derivative:
            return schema
    return None
