# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions under NumPy's names. Which types they compute in, and give, NumPy's own ufuncs say."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ..ir.literals import dtype_of, type_of_dtype
from ..ir.types import FloatType, IntegerType, Type, i1, ui64
from ..op_graph.errors import UserError, fail
from ..op_graph.tensor import Tensor
from ..op_graph.verbs import VERBS
from .arrays import aligned, as_array, as_type, element, expand, joined, known, of_type, shape, truth, weak

#: What a verb of numbers is called for truth values, where NumPy has it for them.
_OF_TRUTH = {
    "add": "bitwise_or", "maximum": "bitwise_or", "multiply": "bitwise_and", "minimum": "bitwise_and",
}  # fmt: skip


class Unary(Protocol):
    """An elementwise function of one array."""

    def __call__(self, x: Any, /, *, dtype: Any = None) -> Tensor: ...


class Binary(Protocol):
    """An elementwise function of two arrays, broadcast together."""

    def __call__(self, x1: Any, x2: Any, /, *, dtype: Any = None) -> Tensor: ...


def types_in(ufunc: np.ufunc, dtype: Any, *xs: Any) -> list[Type]:
    """The types that NumPy computes in: of the operands, and of the result."""
    wanted = None if dtype is None else dtype_of(element(dtype))
    try:
        # With dtype=, as with `signature`: the loop is that of the result.
        given = [weak(x) for x in xs] if wanted is None else [wanted] * len(xs)
        if all(isinstance(k, type) for k in given):
            given = [np.dtype(k) for k in given]
        found = ufunc.resolve_dtypes((*given, *[None] * ufunc.nout))
    except TypeError:
        of = ", ".join(k.__name__ if isinstance(k, type) else k.name for k in map(weak, xs))
        fail(UserError, f"{ufunc.__name__} is not defined for {of}")
    try:
        return [type_of_dtype(d) for d in found]
    except TypeError:
        fail(UserError, f"{ufunc.__name__} has a result type that ngmlir does not have: {found[-1]}")


def inexact(x: Any) -> Tensor:
    """An operand with elements of a float, as `exp` computes in: NumPy's own choice where it had others."""
    return of_type(x, types_in(np.exp, None, x)[0])


def named(function: Any, ufunc: np.ufunc, more: str = "") -> Any:
    function.__name__ = function.__qualname__ = ufunc.__name__
    function.__doc__ = (
        f"`numpy.{ufunc.__name__}` of {'arrays, broadcast together' if ufunc.nin > 1 else 'an array'}.{more}"
    )
    return function


def _unary(
    ufunc: np.ufunc,
    verb: str = "",
    of_others: Callable[[Tensor], Tensor] | None = None,
    of_all: Callable[[Tensor], Tensor] | None = None,
) -> Unary:
    """An op of floats; of other elements it is `of_others` (by itself, the same op). Or `of_all`."""
    name = verb or ufunc.__name__

    def function(x: Any, /, *, dtype: Any = None) -> Tensor:
        source, _ = types_in(ufunc, dtype, x)
        x = of_type(x, source)
        other = of_all or (None if isinstance(source, FloatType) else of_others)
        if other is not None:
            return other(x)
        return getattr(VERBS, name)(x)

    return named(function, ufunc)


def _binary(ufunc: np.ufunc, verb: str = "") -> Binary:
    name = verb or ufunc.__name__

    def function(x1: Any, x2: Any, /, *, dtype: Any = None) -> Tensor:
        one, other, _ = types_in(ufunc, dtype, x1, x2)
        x, y = aligned(of_type(x1, one), of_type(x2, other))
        return getattr(VERBS, _OF_TRUTH.get(name, name) if one is i1 else name)(x, y)

    return named(function, ufunc)


def _held(x: Any, beside: Any) -> Any:
    """An operand of a comparison. A Python integer has the type of the other operand, unless only a wider one holds it."""
    if type(x) is int and isinstance(beside, Tensor) and isinstance(beside.element, IntegerType):
        limits = np.iinfo(np.int64 if beside.element is i1 else beside.dtype)
        if not limits.min <= x <= limits.max and -(2**63) <= x < 2**64:
            return np.asarray(x)
    return x


def _compare(ufunc: np.ufunc, below: bool) -> Binary:
    """`below` is the result for a negative and an unsigned number, where no type holds both."""
    name = ufunc.__name__

    def function(x1: Any, x2: Any, /, *, dtype: Any = None) -> Tensor:
        x1, x2 = _held(x1, x2), _held(x2, x1)
        one, other, _ = types_in(ufunc, None, x1, x2)
        x, y = aligned(of_type(x1, one), of_type(x2, other))
        verb = getattr(VERBS, name)
        if one is other:
            made = verb(x, y)
        else:
            signed, kind = (x, one) if isinstance(one, IntegerType) and not one.unsigned else (y, other)
            negative = VERBS.less(signed, expand(known(0, dtype_of(kind)), shape(signed)))
            answer = below if signed is x or name in ("equal", "not_equal") else not below
            fixed = expand(known(answer), shape(signed))
            made = VERBS.select(negative, fixed, verb(as_type(x, ui64), as_type(y, ui64)))
        return made if dtype is None else as_type(made, element(dtype))

    return named(function, ufunc)


def _itself(x: Tensor) -> Tensor:
    return x


def like(value: Any, x: Tensor) -> Tensor:
    return expand(known(value, x.dtype), shape(x))


def _negative(x: Tensor) -> Tensor:
    unsigned = isinstance(x.element, IntegerType) and x.element.unsigned
    return VERBS.subtract(like(0, x), x) if unsigned else VERBS.negative(x)


def _absolute(x: Tensor) -> Tensor:
    return x if x.element is i1 else VERBS.absolute(x)


def _sign(x: Tensor) -> Tensor:
    if isinstance(x.element, FloatType):  # that of -0.0 is 0.0
        return VERBS.add(VERBS.sign(x), like(0, x))
    unsigned = isinstance(x.element, IntegerType) and x.element.unsigned
    return VERBS.minimum(x, like(1, x)) if unsigned else VERBS.sign(x)


def _reciprocal(x: Tensor) -> Tensor:
    # 1 and -1 are their own; of every other integer nothing is left. (A square may be 1 too: 127 of 8 bits has it.)
    return VERBS.select(VERBS.equal(_absolute(x), like(1, x)), x, like(0, x))


negative, absolute, sign = _unary(np.negative, of_others=_negative), _unary(np.absolute, of_others=_absolute), _unary(np.sign, of_all=_sign)  # fmt: skip
reciprocal, square, sqrt = _unary(np.reciprocal, of_others=_reciprocal), _unary(np.square), _unary(np.sqrt)
exp, exp2, expm1 = _unary(np.exp), _unary(np.exp2), _unary(np.expm1)
log, log2, log10, log1p = _unary(np.log), _unary(np.log2), _unary(np.log10), _unary(np.log1p)
sin, cos, tan = _unary(np.sin), _unary(np.cos), _unary(np.tan)
arcsin, arccos, arctan = _unary(np.arcsin, "asin"), _unary(np.arccos, "acos"), _unary(np.arctan, "atan")
sinh, cosh, tanh = _unary(np.sinh), _unary(np.cosh), _unary(np.tanh)
arcsinh, arccosh, arctanh = (
    _unary(np.arcsinh, "asinh"),
    _unary(np.arccosh, "acosh"),
    _unary(np.arctanh, "atanh"),
)
floor, ceil, trunc = (_unary(f, of_others=_itself) for f in (np.floor, np.ceil, np.trunc))
rint, fabs = _unary(np.rint, "round"), _unary(np.fabs, "absolute")
invert = bitwise_not = _unary(np.invert, "bitwise_not")

add, subtract, multiply, divide = (
    _binary(np.add),
    _binary(np.subtract),
    _binary(np.multiply),
    _binary(np.divide),
)
remainder, power, floored_quotient = _binary(np.remainder), _binary(np.power), _binary(np.floor_divide)
maximum, minimum, arctan2, copysign = _binary(np.maximum), _binary(np.minimum), _binary(np.arctan2, "atan2"), _binary(np.copysign)  # fmt: skip
bitwise_and, bitwise_or, bitwise_xor = (
    _binary(np.bitwise_and),
    _binary(np.bitwise_or),
    _binary(np.bitwise_xor),
)
left_shift, right_shift = (
    _binary(np.left_shift, "shift_left"),
    _binary(np.right_shift, "shift_right_arithmetic"),
)
equal, not_equal = _compare(np.equal, False), _compare(np.not_equal, True)
less, less_equal = _compare(np.less, True), _compare(np.less_equal, True)
greater, greater_equal = _compare(np.greater, False), _compare(np.greater_equal, False)

abs, acos, asin, atan, acosh, asinh, atanh, atan2 = (
    absolute,
    arccos,
    arcsin,
    arctan,
    arccosh,
    arcsinh,
    arctanh,
    arctan2,
)
true_divide, mod, pow, bitwise_left_shift, bitwise_right_shift, bitwise_invert = divide, remainder, power, left_shift, right_shift, invert  # fmt: skip


# ---- of truth values


def logical_and(x1: Any, x2: Any, /) -> Tensor:
    """Where both are not zero."""
    return VERBS.bitwise_and(*aligned(truth(x1), truth(x2)))


def logical_or(x1: Any, x2: Any, /) -> Tensor:
    """Where one or both are not zero."""
    return VERBS.bitwise_or(*aligned(truth(x1), truth(x2)))


def logical_xor(x1: Any, x2: Any, /) -> Tensor:
    """Where one of them is not zero."""
    return VERBS.bitwise_xor(*aligned(truth(x1), truth(x2)))


def logical_not(x: Any, /) -> Tensor:
    """Where it is zero."""
    return VERBS.bitwise_not(truth(x))


def isnan(x: Any, /) -> Tensor:
    """Where it is no number."""
    x = as_array(x)
    return VERBS.not_equal(x, x)


def isfinite(x: Any, /) -> Tensor:
    """Where it is neither infinite nor NaN."""
    x = as_array(x)
    if not isinstance(x.element, FloatType):
        return expand(known(True), shape(x))
    return VERBS.less(VERBS.absolute(x), like(math.inf, x))


def isinf(x: Any, /) -> Tensor:
    """Where it is infinite."""
    x = as_array(x)
    if not isinstance(x.element, FloatType):
        return expand(known(False), shape(x))
    return VERBS.equal(VERBS.absolute(x), like(math.inf, x))


def isposinf(x: Any, /) -> Tensor:
    """Where it is plus infinity."""
    return logical_and(isinf(x), greater(x, 0))


def isneginf(x: Any, /) -> Tensor:
    """Where it is minus infinity."""
    return logical_and(isinf(x), less(x, 0))


def signbit(x: Any, /) -> Tensor:
    """Where the sign is minus; -0.0 has one."""
    source, _ = types_in(np.signbit, None, x)
    x = of_type(x, source)
    return VERBS.less(VERBS.copysign(like(1, x), x), like(0, x))


def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Where two arrays are equal within tolerances: a differs from b by `atol + rtol * |b|` at most. Integers are compared as floats."""
    b = float(b) if isinstance(b, (int, float)) else of_type(b, joined(b, 1.0))
    near = less_equal(absolute(subtract(a, b)), add(atol, multiply(rtol, absolute(b))))
    made = logical_or(logical_and(near, isfinite(b)), equal(a, b))
    return logical_or(made, logical_and(isnan(a), isnan(b))) if equal_nan else made
