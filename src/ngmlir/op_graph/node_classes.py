# SPDX-License-Identifier: Apache-2.0
"""The classes of tensors that are one op of the dialect: one for each op, below those of what ops have in common."""

from __future__ import annotations

from functools import cache

from ..ir import core
from ..ir.definition import OpDefinition
from .tensor import Tensor

#: Slices of storage are views too, though the dialect calls only ops that keep every element so.
_VIEWS_BESIDES = frozenset({"ng.slice"})


class ElementWiseOp(Tensor):
    """One element of the result for one of each operand."""


class UnaryElementWiseOp(ElementWiseOp):
    """An elementwise op of one operand."""


class BinaryElementWiseOp(ElementWiseOp):
    """An elementwise op of two operands."""


class ReductionOp(Tensor):
    """An op that reduces axes."""


def _kind(definition: OpDefinition) -> type[Tensor]:
    """What ops of a definition have in common with others."""
    if "reduction" in definition.traits:
        return ReductionOp
    if "elementwise" not in definition.traits:
        return Tensor
    return {1: UnaryElementWiseOp, 2: BinaryElementWiseOp}.get(len(definition.operands), ElementWiseOp)


@cache
def node_class(operation: type[core.Op]) -> type[Tensor]:
    """The class of the nodes that are one `operation` with one result; it has the operation's name."""
    definition = operation.definition
    assert definition is not None
    view = "view" in definition.traits or operation.name in _VIEWS_BESIDES
    return type(
        operation.__name__,
        (_kind(definition),),
        {
            "operation": operation,
            "is_view": view,
            "__doc__": operation.__doc__,
            "__module__": f"{__package__}.op_graph",  # where `classes` shows it
        },
    )
