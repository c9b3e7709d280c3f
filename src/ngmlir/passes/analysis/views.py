# SPDX-License-Identifier: Apache-2.0
"""Values before reshapes, broadcasts and other views."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ...ir.core import Op, Value
from ...ir.types import TensorType, element_type, shape_of
from ...ops.builder import Builder
from ...support.lengths import are_same


def before(value: Value, names: Collection[str]) -> Value:
    """The value before a chain of ops of these names: the first operand of the first op, or the value itself."""
    while isinstance(value.owner, Op) and value.owner.name in names:
        value = value.owner.operands[0]
    return value


def moved_from(value: Value) -> Value:
    """The value before ops that only move or repeat its elements."""
    while isinstance(op := value.owner, Op) and "moves" in op.traits:
        value = op.operands[0]
    return value


def source(value: Value) -> Value:
    """The value before reshapes."""
    return before(value, ("ng.reshape",))


def without_broadcast(value: Value) -> Value:
    """The value before reshapes and broadcasts."""
    return before(value, ("ng.reshape", "ng.broadcast"))


def dependencies(ends: Iterable[Value], known: Collection[Op] | None = None) -> set[Op]:
    """The ops, if given among `known`, that some values depend on."""
    found, stack = set[Op](), list(ends)
    while stack:
        op = stack.pop().owner
        if isinstance(op, Op) and op not in found and (known is None or op in known):
            found.add(op)
            stack += op.operands
    return found


def needed(ops: Sequence[Op], ends: Sequence[Value]) -> list[Op]:
    """Those of some ops, in their order, that some values depend on."""
    found = dependencies(ends, {*ops})
    return [op for op in ops if op in found]


def view(b: Builder, value: Value, shape: Sequence[int]) -> Value:
    """A value in another shape: a reshape of the value before its reshapes."""
    value, type = source(value), TensorType(tuple(shape), element_type(value.type))
    return value if are_same(shape_of(value.type), type.shape) else b.reshape(value, type=type)
