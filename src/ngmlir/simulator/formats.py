# SPDX-License-Identifier: Apache-2.0
"""Number formats: how each PTX type is stored, and IEEE arithmetic that NumPy alone would round twice.

f16 and bf16 are computed in f32 and rounded once; that is exact for +, -, *, / and the square root because f32 has more
than twice their precision and two bits. Fused multiply-add uses `odd_sum`: a sum rounded to odd keeps enough of the
lost bits that one more rounding, to any narrower format, is correct.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import ldexp

import numpy as np

Array = np.ndarray

#: PTX type -> (NumPy type of one lane, lanes per register). bf16 is stored as its bits.
STORAGE: dict[str, tuple[np.dtype, int]] = {
    name: (np.dtype(kind), lanes)
    for name, kind, lanes in (
        ("b8", "u1", 1), ("u8", "u1", 1), ("s8", "i1", 1),
        ("b16", "u2", 1), ("u16", "u2", 1), ("s16", "i2", 1),
        ("b32", "u4", 1), ("u32", "u4", 1), ("s32", "i4", 1),
        ("b64", "u8", 1), ("u64", "u8", 1), ("s64", "i8", 1),
        ("s16x2", "i2", 2), ("u16x2", "u2", 2),
        ("f16", "f2", 1), ("bf16", "u2", 1), ("f16x2", "f2", 2), ("bf16x2", "u2", 2),
        ("f32", "f4", 1), ("tf32", "u4", 1), ("f64", "f8", 1), ("pred", "?", 1),
    )
}  # fmt: skip

UNSIGNED = {1: np.dtype("u1"), 2: np.dtype("u2"), 4: np.dtype("u4"), 8: np.dtype("u8")}


def from_bf16(bits: Array) -> Array:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def to_bf16(value: Array) -> Array:
    """The nearest bf16 (ties to even), as bits."""
    value = np.ascontiguousarray(value, np.float32)
    bits = value.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(value), np.uint16(0x7FFF), rounded.astype(np.uint16))


def _same(value: Array) -> Array:
    return value


@dataclass(frozen=True)
class Format:
    """A floating-point type: `decode` converts to the type in which NumPy computes, `encode` rounds back to storage."""

    name: str
    compute: np.dtype
    decode: Callable[[Array], Array]
    encode: Callable[[Array], Array]
    precision: int  # bits of the significand, the hidden one included
    least_exponent: int  # of the smallest normal number

    @property
    def direct(self) -> bool:
        """Whether NumPy can compute with registers directly."""
        return self.decode is _same

    def encode_exactly(self, value: Array) -> Array:
        """Storage of f64 values, rounded once to nearest."""
        if self.name == "f64":
            return value
        if self.name == "bf16":
            return to_bf16(round_to(value, self, "rn").astype(np.float32))
        return value.astype(np.float16 if self.name == "f16" else np.float32)


_F32 = np.dtype(np.float32)
FORMATS = {
    "f16": Format("f16", _F32, lambda v: v.astype(_F32), lambda v: v.astype(np.float16), 11, -14),
    "bf16": Format("bf16", _F32, from_bf16, to_bf16, 8, -126),
    "f32": Format("f32", _F32, _same, _same, 24, -126),
    "f64": Format("f64", np.dtype(np.float64), _same, _same, 53, -1022),
}
FORMATS["f16x2"] = FORMATS["f16"]
FORMATS["bf16x2"] = FORMATS["bf16"]
TF32 = Format("tf32", _F32, _same, _same, 11, -126)

_ROUND: dict[str, Callable[[Array], Array]] = {"rn": np.rint, "rz": np.trunc, "rm": np.floor, "rp": np.ceil}


def _away(value: Array) -> Array:
    """Nearest, ties away from zero; exact for |value| < 2**52."""
    whole = np.trunc(value)
    return whole + np.where(np.abs(value - whole) >= 0.5, np.copysign(1.0, value), 0.0)


def round_to(value: Array, target: Format, mode: str) -> Array:
    """f64 `value` rounded to a number of the narrower `target`, by `mode`: rn, rz, rm, rp or rna."""
    exponent = np.maximum(np.frexp(value)[1] - 1, target.least_exponent)
    scale = exponent - (target.precision - 1)
    rounded = np.ldexp(_ROUND.get(mode, _away)(np.ldexp(value, -scale)), scale)
    # f32, bf16 and tf32 overflow at 2**128, f16 at 2**16: the exponent is 2 minus the least exponent.
    limit = ldexp(1.0, 2 - target.least_exponent)
    largest = limit * (1 - 2.0**-target.precision)
    beyond = (np.abs(rounded) >= limit) & np.isfinite(value)
    if beyond.any():
        up = {"rz": np.zeros_like(beyond), "rm": value < 0, "rp": value > 0}.get(mode, np.ones_like(beyond))
        rounded = np.where(beyond, np.copysign(np.where(up, np.inf, largest), value), rounded)
    return np.where(np.isfinite(value), rounded, value)


def odd_sum(a: Array, b: Array) -> Array:
    """a + b in f64, rounded to odd: if the sum is inexact, its last bit is one."""
    total = a + b
    back = total - a
    error = (a - (total - back)) + (b - back)
    bits = total.view(np.int64)
    inexact = (error != 0) & np.isfinite(total) & ((bits & 1) == 0)
    if inexact.any():
        # One step towards the lost part; the magnitude grows when both have the same sign.
        step = np.where((error > 0) == (total > 0), 1, -1)
        total = np.where(inexact, (bits + step).view(np.float64), total)
    return total


_NAN = np.uint32(0x7FFFFFFF).view(np.float32)


def fma(a: Array, b: Array, c: Array, target: Format) -> Array:
    """a * b + c, rounded once; the operands are values of `target` in its compute type, the result is in storage form.
    As on the hardware, an f32 NaN has all bits of its payload set, whatever the operands had."""
    if target.name == "f64":
        return _fma64(a, b, c)
    product = a.astype(np.float64) * b  # exact: at most 48 bits
    total = product + c
    # The second rounding can be wrong only if the first one gave a value half-way between two neighbours of the target,
    # or in the range of the target's denormals.
    dropped = 53 - target.precision
    half = np.int64(1 << (dropped - 1))
    doubtful = (total.view(np.int64) & np.int64((1 << dropped) - 1)) == half
    doubtful |= np.abs(total) < ldexp(1.0, target.least_exponent)
    if doubtful.any():
        at = np.nonzero(np.atleast_1d(doubtful))
        wide = np.atleast_1d(total)
        summand = np.broadcast_to(c, wide.shape)[at].astype(np.float64)
        wide[at] = odd_sum(np.broadcast_to(product, wide.shape)[at], summand)
        total = wide.reshape(np.shape(total))
    if target.name == "bf16":
        # f32 holds an odd-rounded value of bf16's precision and more, once its own rounding is made odd too.
        narrow = total.astype(np.float32)
        lost = narrow.astype(np.float64) != total
        if lost.any():
            return to_bf16(round_to(total, target, "rn").astype(np.float32))
        return to_bf16(narrow)
    result = target.encode_exactly(total)
    if target.name == "f32" and (nan := np.isnan(total)).any():
        result = np.where(nan, _NAN, result)
    return result


def _split(value: Array) -> tuple[Array, Array]:
    """Veltkamp: value = high + low, each of at most 26 bits."""
    scaled = value * 134217729.0
    high = scaled - (scaled - value)
    return high, value - high


def _fma64(a: Array, b: Array, c: Array) -> Array:
    """f64 through error-free transforms; exact fractions where these leave the normal range."""
    product = a * b
    result = product + c
    size_a, size_b, size_c, size_p = (np.abs(v) for v in (a, b, c, product))
    ordinary = (size_a < 2.0**900) & (size_b < 2.0**900) & (size_c < 2.0**1000) & (size_p < 2.0**1000)
    ordinary &= (size_p > 2.0**-900) & ((size_c > 2.0**-900) | (size_c == 0))
    rare = ~ordinary & np.isfinite(a) & np.isfinite(b) & np.isfinite(c) & (a != 0) & (b != 0)
    ah, al = _split(a)
    bh, bl = _split(b)
    low = ((ah * bh - product) + ah * bl + al * bh) + al * bl
    # product + low + c: the sum of the larger two exactly, the remainders rounded to odd, then once to nearest.
    high = product + c
    back = high - product
    error = (product - (high - back)) + (c - back)
    exact = high + odd_sum(error, low)
    result = np.where(ordinary & np.isfinite(exact), exact, result)
    if rare.any():
        flat = result.reshape(-1)
        operands = [np.broadcast_to(v, result.shape).reshape(-1) for v in (a, b, c)]
        for index in np.flatnonzero(rare):
            flat[index] = _fma_exactly(*(float(v[index]) for v in operands))
        result = flat.reshape(result.shape)
    return result


def _fma_exactly(a: float, b: float, c: float) -> float:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c  # keeps the sign of a zero
    try:
        return float(exact)
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")


def flush(value: Array) -> Array:
    """Denormals as zeros of the same sign (`.ftz`)."""
    tiny = np.abs(value) < np.float32(2.0**-126)
    return np.where(tiny, np.copysign(np.zeros((), value.dtype), value), value)


def saturate(value: Array) -> Array:
    """Into [0, 1], NaN as zero (`.sat`)."""
    return np.where(np.isnan(value), 0, np.clip(value, 0, 1)).astype(value.dtype)
