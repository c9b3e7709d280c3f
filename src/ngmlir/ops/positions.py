# SPDX-License-Identifier: Apache-2.0
"""Folds index arithmetic while kernels are built, so that they contain `%i`, not `0 + %i`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from ..ir.attributes import IntegerAttr
from ..ir.core import Op, Value
from ..ir.types import index
from ..support.lengths import Length, NeedsLength, at_least, is_same
from . import ng

_RESULTS: dict[type[Op], Callable[[int, int], int]] = {
    ng.AddOp: operator.add,
    ng.SubtractOp: operator.sub,
    ng.MultiplyOp: operator.mul,
    ng.FloorDivideOp: operator.floordiv,
    ng.RemainderOp: operator.mod,
    ng.MinimumOp: min,
    ng.MaximumOp: max,
}
#: The neutral element of ops, as right operand (and as left operand of commutative ones).
_NEUTRAL: dict[type[Op], int] = {ng.AddOp: 0, ng.SubtractOp: 0, ng.MultiplyOp: 1, ng.FloorDivideOp: 1}
_LARGEST = 1 << 62


def known(value: Value) -> int | None:
    """The value of a constant index."""
    if value.type is not index or not isinstance(value.owner, ng.ConstantOp):
        return None
    number = value.owner.attributes["value"]
    return number.value if isinstance(number, IntegerAttr) else None


def _computed(op: type[Op], left: int, right: int) -> int | None:
    if op in (ng.FloorDivideOp, ng.RemainderOp) and not at_least(right, 1):
        return None
    if op in (ng.MinimumOp, ng.MaximumOp) and at_least(left, right) is None:
        return None
    try:
        result = _RESULTS[op](left, right)
    except NeedsLength:
        return None
    return result if isinstance(result, Length) or abs(result) < _LARGEST else None


def folded(op: type[Op], operands: Sequence[Value]) -> int | Value | None:
    """The result of an op on indices, if it is known without computing; otherwise None."""
    if op not in _RESULTS or operands[0].type is not index:
        return None
    x, y = operands
    left, right = known(x), known(y)
    if left is not None and right is not None:
        return _computed(op, left, right)
    neutral = _NEUTRAL.get(op)
    if neutral is not None and right is not None and is_same(right, neutral):
        return x
    if (
        neutral is not None
        and left is not None
        and is_same(left, neutral)
        and op in (ng.AddOp, ng.MultiplyOp)
    ):
        return y
    if op is ng.SubtractOp and isinstance(x.owner, ng.AddOp) and y in x.owner.operands:
        first, second = x.owner.operands
        return second if first is y else first
    if op is ng.MultiplyOp and any(side is not None and is_same(side, 0) for side in (left, right)):
        return 0
    return 0 if op is ng.RemainderOp and right is not None and is_same(right, 1) else None
