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
from ...ir.types import IntegerType, Type, element_type, i1, i32
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
    ends = Range(0, 1)
    if kind is not i1:
        info = np.iinfo(dtype_of(kind))
        ends = Range(int(info.min), int(info.max))
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
