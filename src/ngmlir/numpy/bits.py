# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions of the bits of numbers: exponents, neighbours, counts of bits, and divisors of integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.types import f32, f64
from ..op_graph.functions.composed import bitcast
from ..op_graph.functions.control import while_loop
from ..op_graph.tensor import Tensor
from ..op_graph.verbs import VERBS
from .arrays import aligned, as_type, element, of_type
from .composed import where
from .elementwise import (
    absolute,
    add,
    bitwise_and,
    copysign,
    equal,
    floored_quotient,
    greater,
    isfinite,
    left_shift,
    less,
    like,
    logical_and,
    logical_or,
    multiply,
    not_equal,
    remainder,
    right_shift,
    subtract,
    types_in,
)
from .reductions import any as any_of


def _words(x: Tensor) -> tuple[str, int, int, int]:
    """The integers as wide as a float type, its number of fraction bits, greatest exponent field, and bias."""
    about = np.finfo(x.dtype)
    return f"int{about.bits}", about.nmant, 2 * about.maxexp - 1, about.maxexp - 1


def _wide(x: Tensor) -> Tensor:
    """The number in a type whose bits are computed with: f32 or f64."""
    return x if x.element in (f32, f64) else as_type(x, f32)


def _power_of_two(exponent: Tensor, like: Tensor) -> Tensor:
    """2 to a power that is not below the least normal one, and not above the greatest."""
    words, fraction, _, bias = _words(like)
    return bitcast(left_shift(add(exponent, bias).astype(words), fraction), like.dtype)


def ldexp(x1: Any, x2: Any, /) -> Tensor:
    """x1 * 2**x2 for integers x2, rounded once."""
    one, other, kind = types_in(np.ldexp, None, x1, x2)
    x, n = aligned(of_type(x1, one), of_type(x2, other))
    x = _wide(x)
    _, fraction, _, bias = _words(x)
    # Powers are too large for one factor. Small ones keep the number normal until the last, so that only that one rounds.
    n = as_type(n.clip(-4 * bias, 4 * bias), element("int32"))
    for _ in range(2):
        high, low = greater(n, bias), less(n, 1 - bias)
        step = where(high, like(bias, n), where(low, like(fraction + 2 - bias, n), like(0, n)))
        x, n = multiply(x, _power_of_two(step, x)), subtract(n, step)
    x = multiply(x, _power_of_two(n.clip(1 - bias, bias), x))
    return as_type(x, kind)


def frexp(x: Any, /) -> tuple[Tensor, Tensor]:
    """A fraction from 0.5 to 1 (excluded), with the sign of x, and the power of 2, int32, that it is to be multiplied by.
    Zeros, infinities and NaN are their own fraction."""
    kind = types_in(np.frexp, None, x)[0]
    x = of_type(x, kind)
    wide = _wide(x)
    words, fraction, most, bias = _words(wide)
    small = less(absolute(wide), float(np.finfo(wide.dtype).smallest_normal))
    normal = where(small, multiply(wide, 2.0 ** (fraction + 1)), wide)
    field = bitwise_and(right_shift(bitcast(normal, words), fraction), most).astype("int32")
    exponent = subtract(field, where(small, like(bias + fraction, field), like(bias - 1, field)))
    exponent = where(logical_and(isfinite(wide), not_equal(wide, 0)), exponent, 0)
    return as_type(ldexp(wide, VERBS.negative(exponent)), kind), exponent


def nextafter(x1: Any, x2: Any, /) -> Tensor:
    """The number of the type of x1 that follows it in the direction of x2; x2 if both are equal."""
    one, other, _ = types_in(np.nextafter, None, x1, x2)
    x, y = aligned(of_type(x1, one), of_type(x2, other))
    words = _words(x)[0]
    bits = bitcast(x, words)
    outward = equal(greater(y, x), greater(x, 0))
    moved = bitcast(where(outward, add(bits, 1), subtract(bits, 1)), x.dtype)
    least = like(float(np.finfo(x.dtype).smallest_subnormal), x)
    moved = where(equal(x, 0), copysign(least, y), moved)
    unordered = logical_or(not_equal(x, x), not_equal(y, y))
    return where(unordered, add(x, y), where(equal(x, y), y, moved))


def spacing(x: Any, /) -> Tensor:
    """The distance to the neighbour that is farther from 0, with the sign of x; NaN of infinities."""
    x = of_type(x, types_in(np.spacing, None, x)[0])
    return where(
        isfinite(x), subtract(nextafter(x, where(less(x, 0), like(-np.inf, x), like(np.inf, x))), x), np.nan
    )


def bitwise_count(x: Any, /) -> Tensor:
    """How many bits of the absolute value are 1, uint8."""
    x = absolute(of_type(x, types_in(np.bitwise_count, None, x)[0]))
    width = x.dtype.itemsize * 8
    x = x.astype(f"uint{width}")
    step = 1
    while step < width:  # sums of neighbouring fields, which get twice as wide
        mask = sum(((1 << step) - 1) << at for at in range(0, width, 2 * step))
        x = add(bitwise_and(x, mask), bitwise_and(right_shift(x, step), mask))
        step *= 2
    return x.astype("uint8")


def gcd(x1: Any, x2: Any, /) -> Tensor:
    """The greatest common divisor of integers; of 0 and a number the number's absolute value."""
    x, y, _, kind = _magnitudes(np.gcd, x1, x2)
    return as_type(_divisor(x, y), kind)


def lcm(x1: Any, x2: Any, /) -> Tensor:
    """The least common multiple of integers; 0 where one is 0."""
    x, y, zero, kind = _magnitudes(np.lcm, x1, x2)
    divisor = where(zero, 1, _divisor(x, y))
    return as_type(multiply(floored_quotient(x, divisor), y), kind)


def _magnitudes(ufunc: np.ufunc, x1: Any, x2: Any) -> tuple[Tensor, Tensor, Tensor, Any]:
    """Both without sign (that of the least integer fits then too), where one is 0, and the type of the result."""
    one, other, kind = types_in(ufunc, None, x1, x2)
    xs = [absolute(x) for x in aligned(of_type(x1, one), of_type(x2, other))]
    x, y = (x.astype(f"uint{x.dtype.itemsize * 8}") for x in xs)
    return x, y, logical_or(equal(x, 0), equal(y, 0)), kind


def _divisor(x: Tensor, y: Tensor) -> Tensor:
    """By Euclid's algorithm, until no element has a remainder."""

    def step(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        done = equal(y, 0)
        return where(done, x, y), where(done, y, remainder(x, where(done, 1, y)))

    return while_loop(lambda _, y: any_of(not_equal(y, 0)), step, (x, y))[0]
