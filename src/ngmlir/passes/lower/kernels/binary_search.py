# SPDX-License-Identifier: Apache-2.0
"""Binary search by each thread of a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....ir.core import Value
from ....ops.builder import Builder


def binary_search(b: Builder, low: Value, high: Value, size: int, more: Callable[[Value], Value]) -> Value:
    """For each element of a tile: the number of positions for which `more` holds, at least `low` and at most `high`. `more` must hold for
    all positions before some position and for none after it."""
    one = b.number(1, low.type)

    def halve(_: Value, between: Sequence[Value]) -> list[Value]:
        low, high = between
        middle = b.shift_right_logical(b.add(low, high), one)
        further, unknown = more(middle), b.less(low, high)
        above, below = b.bitwise_and(further, unknown), b.bitwise_and(b.bitwise_not(further), unknown)
        return [b.select(above, b.add(middle, one), low), b.select(below, middle, high)]

    return b.loop(0, size.bit_length(), 1, [low, high], halve, name="step")[0]
