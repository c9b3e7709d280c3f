# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions under NumPy's names that are composed of others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from ml_dtypes import finfo

from ..ir.types import FloatType, f32, f64, i1
from ..op_graph.errors import UserError, fail
from ..op_graph.tensor import Tensor
from ..op_graph.verbs import VERBS
from .arrays import aligned, as_array, as_type, element, joined, of_type, truth
from .elementwise import (
    Binary,
    add,
    copysign,
    divide,
    equal,
    floored_quotient,
    greater,
    isfinite,
    isinf,
    isnan,
    isneginf,
    isposinf,
    less,
    like,
    logical_and,
    logical_or,
    maximum,
    minimum,
    multiply,
    named,
    negative,
    not_equal,
    power,
    remainder,
    rint,
    sin,
    sqrt,
    square,
    subtract,
    trunc,
    types_in,
)


def where(condition: Any, x: Any = None, y: Any = None, /) -> Tensor:
    """x where the condition holds, else y. With a condition alone its size would depend on data, which is refused."""
    if x is None or y is None:
        fail(
            UserError,
            "where(condition) returns positions, whose number depends on data",
            "use where(condition, x, y); nonzero(condition, size=n) gives n places",
        )
    kind = joined(x, y)
    return VERBS.select(*aligned(truth(condition), of_type(x, kind), of_type(y, kind)))


def positive(x: Any, /) -> Tensor:
    """x itself."""
    return as_array(x)


def clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Tensor:
    """Held between two bounds; None is no bound."""
    low, high = a_min if min is None else min, a_max if max is None else max
    made = as_array(a)
    made = made if low is None else maximum(made, _held(low, made))
    return made if high is None else minimum(made, _held(high, made))


def _held(bound: Any, x: Tensor) -> Any:
    """A bound of integers, the nearest that their type has."""
    if type(bound) is not int or x.element is i1 or isinstance(x.element, FloatType):
        return bound
    limits = np.iinfo(x.dtype)
    return int(np.clip(bound, int(limits.min), int(limits.max)))


def round(a: Any, decimals: int = 0) -> Tensor:
    """To so many decimals, ties to even."""
    x = as_array(a)
    if not isinstance(x.element, FloatType):
        if x.element is i1:
            return as_type(x, element("float16"))
        if decimals >= 0:
            return x
        return as_type(multiply(rint(divide(x, 10.0**-decimals)), 10.0**-decimals), x.element)
    if decimals == 0:
        return rint(x)
    scale = 10.0 ** (decimals if decimals > 0 else -decimals)
    return (
        divide(rint(multiply(x, scale)), scale) if decimals > 0 else multiply(rint(divide(x, scale)), scale)
    )


around = round


def fix(x: Any, /) -> Tensor:
    """The integer part, towards zero."""
    return trunc(x)


def floor_divide(x1: Any, x2: Any, /, *, dtype: Any = None) -> Tensor:
    """`numpy.floor_divide` of arrays, broadcast together: an infinity by any number but 0 is NaN."""
    made = floored_quotient(x1, x2, dtype=dtype)
    if not isinstance(made.element, FloatType):
        return made
    return where(logical_and(isinf(x1), not_equal(x2, 0)), math.nan, made)


def divmod(x1: Any, x2: Any, /, *, dtype: Any = None) -> tuple[Tensor, Tensor]:
    """floor_divide and remainder."""
    return floor_divide(x1, x2, dtype=dtype), remainder(x1, x2, dtype=dtype)


def modf(x: Any, /) -> tuple[Tensor, Tensor]:
    """The fraction and the integer part, both with the sign of x."""
    x = of_type(x, types_in(np.modf, None, x)[0])
    whole = trunc(x)
    rest = where(isinf(whole), 0.0, subtract(x, whole))
    return copysign(rest, whole), whole


def fmod(x1: Any, x2: Any, /, *, dtype: Any = None) -> Tensor:
    """The remainder with the sign of x1, as C has it: of floats exact for every quotient."""
    one, other, _ = types_in(np.fmod, dtype, x1, x2)
    x, y = of_type(x1, one), of_type(x2, other)
    if isinstance(x.element, FloatType):
        return remainder(x, copysign(y, x))
    made = remainder(x, y)
    # Where the signs differ, what is left below is as far above the next multiple of x2.
    above = logical_and(not_equal(made, 0), not_equal(less(x, 0), less(y, 0)))
    return where(above, subtract(made, y), made)


def _floating(x: Any) -> Tensor:
    x = as_array(x)
    return x if isinstance(x.element, FloatType) else as_type(x, f64)


def _extreme(ufunc: np.ufunc, extreme: Binary) -> Binary:
    def function(x1: Any, x2: Any, /, *, dtype: Any = None) -> Tensor:
        kind = joined(x1, x2) if dtype is None else element(dtype)
        x, y = aligned(of_type(x1, kind), of_type(x2, kind))
        return where(isnan(x), y, where(isnan(y), x, extreme(x, y)))

    return named(function, ufunc, " Of a NaN and a number the number.")


fmax, fmin = _extreme(np.fmax, maximum), _extreme(np.fmin, minimum)


def hypot(x1: Any, x2: Any, /, *, dtype: Any = None) -> Tensor:
    """The length of (x1, x2), which does not overflow on the way."""
    one, other, kind = types_in(np.hypot, dtype, x1, x2)
    x, y = (VERBS.absolute(v) for v in aligned(of_type(x1, one), of_type(x2, other)))
    big, small = VERBS.maximum(x, y), VERBS.minimum(x, y)
    zero = equal(big, 0)
    ratio = where(zero, small, divide(small, where(zero, 1, big)))
    made = multiply(big, sqrt(add(1, square(ratio))))
    return as_type(where(logical_or(isinf(x), isinf(y)), math.inf, made), kind)


def _log_of_sum(ufunc: np.ufunc, x1: Any, x2: Any, base: float, dtype: Any) -> Tensor:
    """log(base**x1 + base**x2) by the greater and softplus of the distance, whose slope is smooth where both are equal."""
    one, other, _ = types_in(ufunc, dtype, x1, x2)
    x, y = aligned(of_type(x1, one), of_type(x2, other))
    # Of equal infinities the distance would be NaN.
    apart = where(logical_and(equal(x, y), isinf(x)), 0.0, subtract(x, y))
    scale = math.log(base)

    def more(d: Tensor) -> Tensor:
        return divide(VERBS.softplus(multiply(d, scale)), scale)

    return where(greater(apart, 0), add(x, more(negative(apart))), add(y, more(apart)))


def logaddexp(x1: Any, x2: Any, /, *, dtype: Any = None) -> Tensor:
    """log(exp(x1) + exp(x2)) of numbers of any size."""
    return _log_of_sum(np.logaddexp, x1, x2, math.e, dtype)


def logaddexp2(x1: Any, x2: Any, /, *, dtype: Any = None) -> Tensor:
    """log2(2**x1 + 2**x2) of numbers of any size."""
    return _log_of_sum(np.logaddexp2, x1, x2, 2, dtype)


def cbrt(x: Any, /, *, dtype: Any = None) -> Tensor:
    """The cube root."""
    source, _ = types_in(np.cbrt, dtype, x)
    x = of_type(x, source)
    size = as_type(VERBS.absolute(x), f64 if source is f64 else f32)
    root = power(size, 1 / 3)
    # One step of Newton's method takes back what the exponent, which is not quite a third, lost.
    safe = logical_and(greater(root, 0), isfinite(root))
    guess = where(safe, root, 1)
    better = subtract(guess, divide(subtract(guess, divide(where(safe, size, 1), square(guess))), 3))
    return copysign(as_type(where(safe, better, root), source), x)


def float_power(x1: Any, x2: Any, /) -> Tensor:
    """x1 to the power of x2, in float64."""
    return power(x1, x2, dtype=np.float64)


def heaviside(x1: Any, x2: Any, /, *, dtype: Any = None) -> Tensor:
    """0 below zero, 1 above, x2 at zero; NaN of NaN."""
    one, other, _ = types_in(np.heaviside, dtype, x1, x2)
    x, y = aligned(of_type(x1, one), of_type(x2, other))
    return where(isnan(x), x, where(equal(x, 0), y, where(less(x, 0), like(0, x), like(1, x))))


def sinc(x: Any, /) -> Tensor:
    """sin(pi x) / (pi x), which is 1 at 0."""
    x = multiply(_floating(x), math.pi)
    zero = equal(x, 0)
    return where(zero, 1, divide(sin(x), where(zero, 1, x)))


def deg2rad(x: Any, /, *, dtype: Any = None) -> Tensor:
    """Degrees as radians."""
    return multiply(of_type(x, types_in(np.deg2rad, dtype, x)[0]), math.pi / 180)


def rad2deg(x: Any, /, *, dtype: Any = None) -> Tensor:
    """Radians as degrees."""
    return multiply(of_type(x, types_in(np.rad2deg, dtype, x)[0]), 180 / math.pi)


radians, degrees = deg2rad, rad2deg


def nan_to_num(x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Tensor:
    """Numbers in the place of NaN and infinities (by itself, the greatest that the type has)."""
    x = as_array(x)
    if not isinstance(x.element, FloatType):
        return x
    limits = finfo(x.dtype)
    made = where(isposinf(x), float(limits.max) if posinf is None else posinf, x)
    made = where(isneginf(x), float(limits.min) if neginf is None else neginf, made)
    return where(isnan(x), nan, made)
