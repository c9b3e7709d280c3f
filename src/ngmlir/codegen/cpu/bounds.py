# SPDX-License-Identifier: Apache-2.0
"""Maxima and minima whose second operand is known to be a number that is not NaN: a constant, or a float that was cast
from an integer, like the least code of a dynamic quantisation."""

from __future__ import annotations

from math import copysign
from typing import NamedTuple

import numpy as np

from ...ir.attributes import FloatAttr, IntegerAttr
from ...ir.core import Op, Value
from ...ir.elements import ElementsAttr
from ...ir.literals import dtype_of
from ...ir.types import IntegerType, Type, element_type, f32, i1, i32
from .. import ranges
from ..ranges import Range

#: Ops whose results are elements of their operand.
_MOVES = ("ng.broadcast", "ng.reshape")


class Bound(NamedTuple):
    """One operand of a maximum or minimum limits the other: `low <= bound <= high`, the same number in all lanes if both
    are equal."""

    bound: Value
    x: Value
    low: float
    high: float


def bound_of(op: Op) -> Bound | None:
    """The operand of a maximum or minimum that limits the other one. None if there is none, or if x86's MINPS or MAXPS
    would order zeros or NaNs differently: the caller adds a zero to a maximum that may be one."""
    if op.name not in ("ng.maximum", "ng.minimum"):
        return None
    for value, x in (op.operands, op.operands[::-1]):
        if (found := _interval(value)) is not None:
            low, high = found
            negative_zero = low == 0 and copysign(1, low) < 0
            return None if op.name == "ng.minimum" and negative_zero else Bound(value, x, low, high)
    return None


class Codes(NamedTuple):
    """Floats `x` as integers of a type: rounded to the nearest, limited to `low` to `high`, among which is 0, plus `zero`. NaN gives
    `zero`."""

    x: Value
    low: int
    high: int
    zero: int
    type: IntegerType


def codes_of(op: Op) -> Codes | None:
    """What a cast computes, if it gives codes: of f32 that are rounded and limited by constants. They may be cast to i32, plus a
    constant or not, before the cast to a type that has all of them. None if it computes anything else."""
    target, zero = element_type(op.result.type), 0
    if not isinstance(target, IntegerType) or not (target is i32 or 8 <= target.width < 32):
        return None
    if element_type(op.operands[0].type) is i32 and isinstance(op.operands[0].owner, Op):
        op, zero = _without_sum(op.operands[0].owner)
    if op.name != "ng.cast" or element_type(op.operands[0].type) is not f32:
        return None
    value, limits = op.operands[0], dict[str, float]()
    while isinstance(value.owner, Op) and (bound := bound_of(value.owner)) is not None:
        if bound.low < bound.high or not bound.low.is_integer() or value.owner.name in limits:
            return None
        limits[value.owner.name], value = bound.low, bound.x
    rounding = value.owner
    if len(limits) < 2 or not isinstance(rounding, Op) or rounding.name != "ng.round":
        return None
    low, high = int(limits["ng.maximum"]), int(limits["ng.minimum"])
    ends, words = _ends(target), _ends(i32)
    has_all = (
        words.low <= low <= 0 <= high <= words.high and ends.low <= low + zero <= high + zero <= ends.high
    )
    return Codes(rounding.operands[0], low, high, zero, target) if has_all else None


def _without_sum(op: Op) -> tuple[Op, int]:
    """The op whose result plus a constant is that of `op`, and the constant."""
    for x, y in (op.operands, op.operands[::-1]) if op.name == "ng.add" else ():
        added = _source(y)
        if isinstance(x.owner, Op) and added is not None and (number := _constant(added)) is not None:
            return x.owner, int(number)
    return op, 0


def is_within(value: Value, target: Type) -> bool:
    """Whether floats are NaN or in the range of an i32, `target`: judged by a maximum and a minimum that computed them."""
    seen = set[str]()
    while target is i32 and isinstance(value.owner, Op) and (bound := bound_of(value.owner)) is not None:
        if not -(2.0**31) <= bound.low <= bound.high < 2.0**31:
            break
        seen.add(value.owner.name)
        value = bound.x
    # Whatever their order: the result is x or one of the bounds.
    return len(seen) == 2


def _interval(value: Value) -> tuple[float, float] | None:
    """The least and the greatest number that floats can be, where they cannot be NaN; -0.0 only if it is a constant."""
    op = _source(value)
    if op is None:
        return None
    if (number := _constant(op)) is not None:
        return None if number != number else (number, number)
    source = element_type(op.operands[0].type) if op.name == "ng.cast" else None
    if not isinstance(source, IntegerType):
        return None
    known, dtype = _integers(op.operands[0]), dtype_of(element_type(value.type))
    return float(dtype.type(known.low)), float(dtype.type(known.high))


def _integers(value: Value) -> Range:
    """The range of integers, by the ops that computed them."""
    kind, op = element_type(value.type), _source(value)
    assert isinstance(kind, IntegerType)
    ends = _ends(kind)
    if op is None:
        return ends
    found = ends
    if (number := _constant(op)) is not None:
        found = Range(int(number), int(number))
    elif op.name == "ng.cast" and isinstance(element_type(op.operands[0].type), IntegerType):
        found = _integers(op.operands[0])
    elif op.name == "ng.negative":
        found = ranges.subtract(Range(0, 0), _integers(op.operands[0]))
    elif op.name in ("ng.add", "ng.subtract"):
        found = ranges.RULES[op.name](*map(_integers, op.operands))
    return found if ends.low <= found.low <= found.high <= ends.high else ends


def _ends(kind: IntegerType) -> Range:
    """All numbers of an integer type."""
    if kind is i1:
        return Range(0, 1)
    info = np.iinfo(dtype_of(kind))
    return Range(int(info.min), int(info.max))


def _source(value: Value) -> Op | None:
    """The op that computed the elements of a value."""
    while isinstance(value.owner, Op) and value.owner.name in _MOVES:
        value = value.owner.operands[0]
    return value.owner if isinstance(value.owner, Op) else None


def _constant(op: Op) -> float | None:
    """The number that all elements of a constant equal; None for any other op."""
    literal = op.attributes["value"] if op.name == "ng.constant" else None
    if isinstance(literal, ElementsAttr) and literal.splat:
        return literal.array().flat[0].item()
    return literal.value if isinstance(literal, FloatAttr | IntegerAttr) else None
