# SPDX-License-Identifier: Apache-2.0
"""Floats of 8 bits and fewer: the values of their codes. Everything else about them follows from this table."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from math import copysign, inf, isnan, nan


@dataclass(frozen=True)
class NarrowFormat:
    """A sign (of all but powers of two), `exponent` bits, `fraction` bits: 1.fraction * 2^(exponent - bias), and below
    the least exponent 0.fraction * 2^(1 - bias). `greatest` is the code of the greatest finite number; `infinity` and
    `nan` are codes without the sign, None where the format has none."""

    exponent: int
    fraction: int
    bias: int
    greatest: int
    infinity: int | None = None
    nan: int | None = None
    #: One zero and one NaN, whose code would otherwise be the negative zero.
    unsigned_zero: bool = False
    #: Powers of two without a sign and without a zero.
    powers: bool = False

    @property
    def sign(self) -> int:
        """The sign bit as a mask; 0 if there is none."""
        return 0 if self.powers else 1 << (self.exponent + self.fraction)

    @property
    def width(self) -> int:
        return self.exponent + self.fraction + (not self.powers)

    def magnitude(self, code: int) -> float:
        """The value of a code without its sign, as if all codes were finite numbers."""
        field, fraction = code >> self.fraction, code & ((1 << self.fraction) - 1)
        if field == 0 and not self.powers:
            return fraction * 2.0 ** (1 - self.bias - self.fraction)
        return (1 + fraction / (1 << self.fraction)) * 2.0 ** (field - self.bias)

    def value(self, code: int) -> float:
        """The value of a code."""
        rest = code & (self.sign - 1) if self.sign else code
        if self.unsigned_zero and code == self.sign:
            return nan
        if rest > self.greatest:
            return copysign(inf, -1 if code & self.sign else 1) if rest == self.infinity else nan
        return -self.magnitude(rest) if code & self.sign else self.magnitude(rest)

    @cached_property
    def values(self) -> tuple[float, ...]:
        """The value of each code."""
        return tuple(self.value(code) for code in range(1 << self.width))

    @cached_property
    def middles(self) -> tuple[float, ...]:
        """The midpoints between adjacent non-negative numbers; after the greatest, that to the next number if there were one."""
        codes = range(self.greatest + 1)
        return tuple((self.magnitude(c) + self.magnitude(c + 1)) / 2 for c in codes)

    def code(self, value: float) -> int:
        """The code of the nearest number of the format; on ties the even code (for powers of two the greater one). Numbers beyond the
        greatest become infinity, NaN or the greatest, the first of these that exists; NaN becomes 0 if there is none."""
        size = abs(value)
        negative = copysign(1, value) < 0
        if isnan(value) or (self.powers and (negative or size < self.magnitude(0))):
            return self.invalid(negative)
        at = bisect_left(self.middles, size)
        if at < len(self.middles) and size == self.middles[at] and (self.powers or at & 1):
            at += 1
        if at > self.greatest:
            if self.infinity is None and self.nan is not None:
                return self.invalid(negative)
            at = self.greatest if self.infinity is None else self.infinity
        return at if not negative or (self.unsigned_zero and not at) else at | self.sign

    def invalid(self, negative: bool) -> int:
        """The code of NaN."""
        if self.nan is None:
            return 0
        return self.nan | self.sign if negative else self.nan


#: By their names in MLIR.
NARROW: dict[str, NarrowFormat] = {
    "f8E4M3FN": NarrowFormat(4, 3, 7, greatest=0x7E, nan=0x7F),
    "f8E4M3FNUZ": NarrowFormat(4, 3, 8, greatest=0x7F, nan=0x80, unsigned_zero=True),
    "f8E5M2": NarrowFormat(5, 2, 15, greatest=0x7B, infinity=0x7C, nan=0x7E),
    "f8E5M2FNUZ": NarrowFormat(5, 2, 16, greatest=0x7F, nan=0x80, unsigned_zero=True),
    "f8E8M0FNU": NarrowFormat(8, 0, 127, greatest=0xFE, nan=0xFF, powers=True),
    "f4E2M1FN": NarrowFormat(2, 1, 1, greatest=0x7),
}
#: The names of these types, and of the integers of 2 and 4 bits, in the package ml_dtypes, which adds them to NumPy.
NUMPY_NAMES: dict[str, str] = {
    "f8E4M3FN": "float8_e4m3fn",
    "f8E4M3FNUZ": "float8_e4m3fnuz",
    "f8E5M2": "float8_e5m2",
    "f8E5M2FNUZ": "float8_e5m2fnuz",
    "f8E8M0FNU": "float8_e8m0fnu",
    "f4E2M1FN": "float4_e2m1fn",
    "i4": "int4",
    "ui4": "uint4",
    "i2": "int2",
    "ui2": "uint2",
}
