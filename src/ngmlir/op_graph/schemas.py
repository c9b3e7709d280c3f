# SPDX-License-Identifier: Apache-2.0
"""What a function knows about the op that it returns, beside how that is computed: `op.schemas`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .node import Op


class Schema:
    """Something known about an op. Subclasses add what they know; one that has a `gradient` says the op's derivative.

    `operands` are the tensors that the derivative is handed on to. `gradient(op, delta)` gives, for each of them, what
    reaches it of `delta`, the gradient of `op`: a tensor with its axes, or None. `ng.deriv` asks it instead of following the
    ops that the value is computed from.
    """

    operands: Sequence[Any] = ()
    gradient: Any = None

    @property
    def is_derivative(self) -> bool:
        """Whether it says a derivative."""
        return self.gradient is not None

    def on(self, operands: Sequence[Any]) -> Schema:
        """The same about an op that was made again from other operands."""
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
