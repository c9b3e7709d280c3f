# SPDX-License-Identifier: Apache-2.0
"""Arithmetic that NumPy lacks: one rounding into narrow floats, and the fused multiply-add.

Rounding to odd (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008): an inexact result
is the neighbour whose last bit is set, so a second rounding to at least two bits fewer cannot go wrong.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]

#: Splits a float64 into two halves of 26 bits (Dekker).
_SPLITTER = 2.0**27 + 1.0


def is_half(dtype: np.dtype[Any]) -> bool:
    """Whether arithmetic of this type is done in f32 and rounded: f16, bf16."""
    return dtype.itemsize == 2 and is_float(dtype)


def is_float(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "fV"  # to NumPy, bfloat16 is a type of its own


def widened(array: Array) -> Array:
    """f16 and bf16 as f32; everything else as it is."""
    return array.astype(np.float32) if is_half(array.dtype) else array


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and its exact error."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded product and its exact error, where nothing overflows or underflows."""
    product = a * b
    a_high = a * _SPLITTER - (a * _SPLITTER - a)
    b_high = b * _SPLITTER - (b * _SPLITTER - b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _to_odd(nearest: Array, error: Array) -> Array:
    """The result rounded to odd, from the one rounded to nearest and the sign of what is missing."""
    nearest = np.asarray(nearest)
    bits = nearest.view(np.int64 if nearest.itemsize == 8 else np.int32)
    wrong = (error != 0) & (bits & 1 == 0) & np.isfinite(nearest)
    outwards = np.where((error > 0) != np.signbit(nearest), 1, -1)
    return (bits + np.where(wrong, outwards, 0).astype(bits.dtype)).view(nearest.dtype)


def narrowed(array: Array, dtype: np.dtype[Any]) -> Array:
    """Floats rounded once, to nearest even, into another float type."""
    array = np.asarray(array)
    if dtype.name == "bfloat16" and array.dtype == np.float64:
        # bfloat16 is reached by way of f32; that first step must leave the second one its choice.
        nearest = np.asarray(array.astype(np.float32))
        array = _to_odd(nearest, array - nearest.astype(np.float64))
    return array.astype(dtype)


def fma(a: Array, b: Array, c: Array) -> Array:
    """a * b + c, rounded once."""
    if a.dtype == np.float64:
        return _fma64(a, b, c)
    # The product of two narrower floats is exact in float64.
    product = a.astype(np.float64) * b.astype(np.float64)
    total, error = two_sum(product, c.astype(np.float64))
    return narrowed(_to_odd(total, error), a.dtype)


def _fma64(a: Array, b: Array, c: Array) -> Array:
    a, b, c = np.broadcast_arrays(a, b, c)
    product, low = _two_product(a, b)
    high_total, high_error = two_sum(c, low)
    total, error = two_sum(product, high_total)
    rest, missing = two_sum(high_error, error)
    out = np.array(total + _to_odd(rest, missing))
    magnitude = np.abs(product)
    safe = (magnitude > 2.0**-900) & (magnitude < 2.0**1000) & (np.abs(c) < 2.0**1000)
    safe &= (np.abs(a) < 2.0**990) & (np.abs(b) < 2.0**990)
    for at in np.argwhere(~safe):
        place = tuple(at)
        out[place] = _fma_exact(float(a[place]), float(b[place]), float(c[place]))
    return out


def _fma_exact(a: float, b: float, c: float) -> float:
    if not (math.isfinite(a) and math.isfinite(b)) or math.isnan(c) or a == 0 or b == 0:
        return float(np.float64(a) * np.float64(b) + np.float64(c))
    if math.isinf(c):
        return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return 0.0  # of x + -x; the product is not zero
    try:
        rounded = exact.numerator / exact.denominator
    except OverflowError:
        rounded = math.inf
        return math.copysign(rounded, 1 if exact > 0 else -1)
    return rounded if rounded else math.copysign(0.0, 1 if exact > 0 else -1)
