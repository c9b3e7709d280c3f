# SPDX-License-Identifier: Apache-2.0
"""What is known of an index while compiling: bounds and a divisor. They tell which tiles lie inside a buffer."""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

_FAR = 1 << 62


class Range(NamedTuple):
    """`low <= value <= high`, and `value` is a multiple of `divisor` (0 divides only 0)."""

    low: int = -_FAR
    high: int = _FAR
    divisor: int = 1

    @property
    def constant(self) -> bool:
        return self.low == self.high


UNKNOWN = Range()


def exactly(value: int) -> Range:
    return Range(value, value, abs(value))


def of_loop(lower: Range, upper: Range, step: Range) -> Range:
    """The index of a loop that runs at least once."""
    if step.low < 1:
        return UNKNOWN
    divisor = gcd(lower.divisor, step.divisor)
    high = upper.high - 1
    if lower.constant and step.constant:
        high = lower.low + (high - lower.low) // step.low * step.low
    elif divisor > 1:
        high = high // divisor * divisor
    return Range(lower.low, max(high, lower.low), divisor)


def _clamped(low: int, high: int, divisor: int) -> Range:
    return Range(max(low, -_FAR), min(high, _FAR), divisor)


def add(x: Range, y: Range) -> Range:
    return _clamped(x.low + y.low, x.high + y.high, gcd(x.divisor, y.divisor))


def subtract(x: Range, y: Range) -> Range:
    return _clamped(x.low - y.high, x.high - y.low, gcd(x.divisor, y.divisor))


def multiply(x: Range, y: Range) -> Range:
    corners = [a * b for a in (x.low, x.high) for b in (y.low, y.high)]
    return _clamped(min(corners), max(corners), x.divisor * y.divisor)


def floor_divide(x: Range, y: Range) -> Range:
    if not y.constant or y.low <= 0:
        return UNKNOWN
    exact = x.divisor % y.low == 0
    return Range(x.low // y.low, x.high // y.low, x.divisor // y.low if exact else 1)


def remainder(x: Range, y: Range) -> Range:
    if not y.constant or y.low <= 0:
        return UNKNOWN
    divisor = gcd(x.divisor, y.low)
    if 0 <= x.low and x.high < y.low:
        return x
    return Range(0, y.low - divisor, divisor)


def minimum(x: Range, y: Range) -> Range:
    return Range(min(x.low, y.low), min(x.high, y.high), gcd(x.divisor, y.divisor))


def maximum(x: Range, y: Range) -> Range:
    return Range(max(x.low, y.low), max(x.high, y.high), gcd(x.divisor, y.divisor))


def either(x: Range, y: Range) -> Range:
    """One of both."""
    return Range(min(x.low, y.low), max(x.high, y.high), gcd(x.divisor, y.divisor))


#: Op -> what is known of its result.
RULES = {
    "ng.add": add,
    "ng.subtract": subtract,
    "ng.multiply": multiply,
    "ng.floor_divide": floor_divide,
    "ng.remainder": remainder,
    "ng.minimum": minimum,
    "ng.maximum": maximum,
}
