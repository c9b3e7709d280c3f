# SPDX-License-Identifier: Apache-2.0
"""Tracks where the elements of a matrix come from through data movement ops: indices as sums of digits of its row and column."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from ....ir.core import Op
from ....ir.types import shape_of
from ....ops.fields import get_i64s
from ....support.diagnostics import Bug

#: The data movement ops that can be tracked.
PLACING = frozenset({"ng.reshape", "ng.transpose", "ng.broadcast", "ng.slice"})


class Digit(NamedTuple):
    """The term `index // divisor % size * stride` of an index along one dimension of the matrix."""

    dimension: int
    divisor: int
    size: int
    stride: int


#: For each dimension of a value the digits whose sum is the index along it.
Places = tuple[tuple[Digit, ...], ...]


def of_matrix(shape: Sequence[int]) -> Places:
    """The places of the matrix itself: row and column."""
    return tuple([(Digit(d, 1, size, 1),) if size > 1 else () for d, size in enumerate(shape)])


def before(op: Op, places: Places, shape: Sequence[int]) -> Places | None:
    """The places in the operand of an op of `PLACING`, from those in its result, for a matrix of `shape`; None where they cannot be
    written as digits."""
    (operand,) = op.operands
    match op.name:
        case "ng.reshape":
            return _reshaped(flat(places, shape_of(op.result.type)), shape_of(operand.type), shape)
        case "ng.transpose":
            found = list(places)
            for i, d in enumerate(get_i64s(op, "permutation")):
                found[d] = places[i]
            return tuple(found)
        case "ng.broadcast":
            return tuple([places[d] for d in get_i64s(op, "dimensions")])
        case _:
            usual = not any(get_i64s(op, "starts")) and set(get_i64s(op, "steps")) <= {1}
            return places if usual else None


def flat(places: Places, shape: Sequence[int]) -> list[Digit]:
    """The digits of the linear index of an element, in ascending order of strides."""
    found: list[Digit] = []
    for d, digits in enumerate(places):
        inner = prod(shape[d + 1 :])
        found += [digit._replace(stride=digit.stride * inner) for digit in digits]
    return sorted(found, key=lambda digit: digit.stride)


def _reshaped(digits: list[Digit], shape: Sequence[int], matrix: Sequence[int]) -> Places | None:
    found: list[tuple[Digit, ...]] = []
    for d in reversed(range(len(shape))):
        inner, end = prod(shape[d + 1 :]), prod(shape[d:])
        own: list[Digit] = []
        while digits and digits[0].stride < end:
            dimension, divisor, size, stride = digits.pop(0)
            if stride % inner:
                return None
            if stride * size > end and stride * (size - 1) >= end:
                # The digit extends into outer dimensions: split it.
                count, rest = divmod(end, stride)
                if rest or (size % count and divisor * size < matrix[dimension]):
                    return None
                outer = Digit(dimension, divisor * count, -(-size // count), end)
                digits = sorted([outer, *digits], key=lambda digit: digit.stride)
                size = count
            own.append(Digit(dimension, divisor, size, stride // inner))
        if sum(digit.stride * (digit.size - 1) for digit in own) >= max(1, shape[d]):
            raise Bug("a place whose digits overlap")
        found.insert(0, tuple(own))
    return None if digits else tuple(found)
