# SPDX-License-Identifier: Apache-2.0
"""What a value was before ops that only show it in another way."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...ir.core import Op, Value
from ...ir.types import TensorType, element_type, shape_of
from ...ops.builder import Builder


def before(value: Value, names: Collection[str]) -> Value:
    """What ops of these names, one after the other, make a value of: the first operand of the first."""
    while isinstance(value.owner, Op) and value.owner.name in names:
        value = value.owner.operands[0]
    return value


def source(value: Value) -> Value:
    """What a value is another shape of."""
    return before(value, ("ng.reshape",))


def unspread(value: Value) -> Value:
    """What is repeated in a value, and not only in another shape: it has no loops that it is the same along."""
    return before(value, ("ng.reshape", "ng.broadcast"))


def view(b: Builder, value: Value, shape: Sequence[int]) -> Value:
    """A value in another shape. Of views that follow each other only the last one is left: nobody needs the others."""
    value, type = source(value), TensorType(tuple(shape), element_type(value.type))
    return value if shape_of(value.type) == type.shape else b.reshape(value, type=type)
