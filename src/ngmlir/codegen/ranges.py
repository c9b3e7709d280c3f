# SPDX-License-Identifier: Apache-2.0
"""What is known of an index at compile time: bounds and a divisor. They decide which tiles are inside a buffer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..support.lengths import NeedsLength, at_least, below, greatest_divisor, is_multiple, is_open, is_same

_FAR = 1 << 62


class Range(NamedTuple):
    """`low <= value <= high`, and `value` is a multiple of `divisor` (0 divides only 0)."""

    low: int = -_FAR
    high: int = _FAR
    divisor: int = 1

    @property
    def constant(self) -> bool:
        return is_same(self.low, self.high)


UNKNOWN = Range()


def exactly(value: int) -> Range:
    return Range(value, value, greatest_divisor(value))


def of_loop(lower: Range, upper: Range, step: Range) -> Range:
    """The range of the index of a loop that runs at least once."""
    if not at_least(step.low, 1):
        return UNKNOWN
    divisor = greatest_divisor(lower.divisor, step.divisor)
    high = upper.high - 1
    if lower.constant and step.constant:
        high = lower.low + (high - lower.low) // step.low * step.low
    elif divisor > 1:
        high = high // divisor * divisor
    return Range(lower.low, lower.low if at_least(lower.low, high) else high, divisor)


# Bounds that depend on open lengths are ordered only if the order is the same for all lengths; else the bound is
# `_FAR`.


def _least(values: Sequence[int]) -> int:
    return _bound(values, lambda a, b: at_least(b, a), -_FAR)


def _greatest(values: Sequence[int]) -> int:
    return _bound(values, at_least, _FAR)


def _bound(values: Sequence[int], before: Callable[[int, int], bool | None], widest: int) -> int:
    found = values[0]
    for value in values[1:]:
        first = before(found, value)
        if first is None:
            return widest
        found = found if first else value
    return found


def _clamped(low: int, high: int, divisor: int) -> Range:
    return Range(
        max(low, -_FAR) if not is_open((low,)) else low,
        min(high, _FAR) if not is_open((high,)) else high,
        divisor,
    )


def add(x: Range, y: Range) -> Range:
    return _clamped(x.low + y.low, x.high + y.high, greatest_divisor(x.divisor, y.divisor))


def subtract(x: Range, y: Range) -> Range:
    return _clamped(x.low - y.high, x.high - y.low, greatest_divisor(x.divisor, y.divisor))


def multiply(x: Range, y: Range) -> Range:
    corners = [a * b for a in (x.low, x.high) for b in (y.low, y.high)]
    return _clamped(_least(corners), _greatest(corners), x.divisor * y.divisor)


def floor_divide(x: Range, y: Range) -> Range:
    if not y.constant or not at_least(y.low, 1):
        return UNKNOWN
    try:
        low, high = x.low // y.low, x.high // y.low
    except NeedsLength:
        return UNKNOWN
    exact = not is_open(y) and is_multiple(x.divisor, y.low)
    return Range(low, high, x.divisor // y.low if exact else 1)


def remainder(x: Range, y: Range) -> Range:
    if not y.constant or not at_least(y.low, 1):
        return UNKNOWN
    divisor = greatest_divisor(x.divisor, y.low)
    if at_least(x.low, 0) and below(x.high, y.low):
        return x
    return Range(0, y.low - divisor, divisor)


def minimum(x: Range, y: Range) -> Range:
    # The minimum is at most either operand, so either upper bound holds. Kernels name the length of a loop second.
    high = x.high if at_least(y.high, x.high) else y.high
    return Range(_least((x.low, y.low)), high, greatest_divisor(x.divisor, y.divisor))


def maximum(x: Range, y: Range) -> Range:
    low = x.low if at_least(x.low, y.low) is not False else y.low
    return Range(low, _greatest((x.high, y.high)), greatest_divisor(x.divisor, y.divisor))


def either(x: Range, y: Range) -> Range:
    """The union of two ranges."""
    return Range(_least((x.low, y.low)), _greatest((x.high, y.high)), greatest_divisor(x.divisor, y.divisor))


#: Op -> the range of its result.
RULES = {
    "ng.add": add,
    "ng.subtract": subtract,
    "ng.multiply": multiply,
    "ng.floor_divide": floor_divide,
    "ng.remainder": remainder,
    "ng.minimum": minimum,
    "ng.maximum": maximum,
}
