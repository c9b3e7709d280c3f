# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions. Results have float32 elements unless `dtype` says otherwise; operands are matched by
axis name. Comparisons give `bool` tensors, which count as 0 and 1 wherever numbers are needed."""

from __future__ import annotations

import math
from typing import Any

from ...ir.types import FloatType, i1
from ...ops.ng import BitcastOp
from ..errors import UserError, fail
from ..tensor import Tensor
from ..values import as_op, element_of
from ..verbs import VERBS
from ..verbs import cast as cast_elements
from .coerce import align, broadcast, common_element, floating, operand, result_axes, result_element


def unary(name: str, x: Any, dtype: Any = None) -> Tensor:
    return getattr(VERBS, name)(floating(x, dtype))


def _binary(name: str, x: Any, y: Any, dtype: Any) -> Tensor:
    element = result_element(dtype)
    return getattr(VERBS, name)(*align(operand(x, element), operand(y, element)))


def _compare(name: str, x: Any, y: Any, dtype: Any) -> Tensor:
    element = common_element(x, y)
    truth = getattr(VERBS, name)(*align(operand(x, element), operand(y, element)))
    return truth if dtype is None else cast_elements(truth, element_of(dtype))


# ---- one operand


def negative(x: Any, dtype: Any = None) -> Tensor:
    """-x."""
    return unary("negative", x, dtype)


def absolute(x: Any, dtype: Any = None) -> Tensor:
    """The magnitude."""
    return unary("absolute", x, dtype)


def sign(x: Any, dtype: Any = None) -> Tensor:
    """-1, 0 or 1."""
    return unary("sign", x, dtype)


def square(x: Any, dtype: Any = None) -> Tensor:
    """x * x."""
    return unary("square", x, dtype)


def sqrt(x: Any) -> Tensor:
    """The square root."""
    return unary("sqrt", x)


def rsqrt(x: Any) -> Tensor:
    """1 / sqrt(x)."""
    return unary("rsqrt", x)


def reciprocal(x: Any) -> Tensor:
    """1 / x."""
    return unary("reciprocal", x)


def exp(x: Any) -> Tensor:
    """e ** x."""
    return unary("exp", x)


def exp2(x: Any) -> Tensor:
    """2 ** x."""
    return unary("exp2", x)


def expm1(x: Any) -> Tensor:
    """exp(x) - 1, exact near 0."""
    return unary("expm1", x)


def log(x: Any) -> Tensor:
    """The natural logarithm."""
    return unary("log", x)


def log2(x: Any) -> Tensor:
    """The logarithm to base 2."""
    return unary("log2", x)


def log10(x: Any) -> Tensor:
    """The logarithm to base 10."""
    return unary("log10", x)


def log1p(x: Any) -> Tensor:
    """log(1 + x), exact near 0."""
    return unary("log1p", x)


#: Below this, `safelog` does not go.
safelog_cutoff = 50.0


def safelog(x: Any, limit: float = -safelog_cutoff) -> Tensor:
    """The logarithm, held above `limit`: max(log(x + exp(limit)), limit)."""
    return maximum(log(add(x, math.exp(limit))), limit)


def sin(x: Any) -> Tensor:
    """The sine."""
    return unary("sin", x)


def cos(x: Any) -> Tensor:
    """The cosine."""
    return unary("cos", x)


def tan(x: Any) -> Tensor:
    """The tangent."""
    return unary("tan", x)


def asin(x: Any) -> Tensor:
    """The arcsine."""
    return unary("asin", x)


def acos(x: Any) -> Tensor:
    """The arccosine."""
    return unary("acos", x)


def atan(x: Any) -> Tensor:
    """The arctangent."""
    return unary("atan", x)


def sinh(x: Any) -> Tensor:
    """The hyperbolic sine."""
    return unary("sinh", x)


def cosh(x: Any) -> Tensor:
    """The hyperbolic cosine."""
    return unary("cosh", x)


def tanh(x: Any) -> Tensor:
    """The hyperbolic tangent."""
    return unary("tanh", x)


def asinh(x: Any) -> Tensor:
    """The inverse hyperbolic sine."""
    return unary("asinh", x)


def acosh(x: Any) -> Tensor:
    """The inverse hyperbolic cosine."""
    return unary("acosh", x)


def atanh(x: Any) -> Tensor:
    """The inverse hyperbolic tangent."""
    return unary("atanh", x)


def erf(x: Any) -> Tensor:
    """The error function."""
    return unary("erf", x)


def floor(x: Any) -> Tensor:
    """The next integer below."""
    return unary("floor", x)


def ceil(x: Any) -> Tensor:
    """The next integer above."""
    return unary("ceil", x)


def round(x: Any) -> Tensor:
    """The nearest integer, ties to even."""
    return unary("round", x)


def trunc(x: Any) -> Tensor:
    """The integer part."""
    return unary("trunc", x)


# ---- two operands


def add(x: Any, y: Any, dtype: Any = None) -> Tensor:
    """x + y."""
    return _binary("add", x, y, dtype)


def subtract(x: Any, y: Any, dtype: Any = None) -> Tensor:
    """x - y."""
    return _binary("subtract", x, y, dtype)


def multiply(x: Any, y: Any, dtype: Any = None) -> Tensor:
    """x * y."""
    return _binary("multiply", x, y, dtype)


def divide(x: Any, y: Any, dtype: Any = None) -> Tensor:
    """x / y."""
    return _binary("divide", x, y, dtype)


def floordivide(x: Any, y: Any, dtype: Any = None) -> Tensor:
    """The quotient rounded down."""
    return _binary("floor_divide", x, y, dtype)


def mod(x: Any, y: Any, dtype: Any = None) -> Tensor:
    """The remainder, with the sign of y."""
    return _binary("remainder", x, y, dtype)


def power(x: Any, y: Any, dtype: Any = None) -> Tensor:
    """x ** y."""
    return _binary("power", x, y, dtype)


def maximum(x: Any, y: Any, dtype: Any = None) -> Tensor:
    """The greater of two."""
    return _binary("maximum", x, y, dtype)


def minimum(x: Any, y: Any, dtype: Any = None) -> Tensor:
    """The lesser of two."""
    return _binary("minimum", x, y, dtype)


def atan2(x: Any, y: Any, dtype: Any = None) -> Tensor:
    """The angle of the point (y, x)."""
    return _binary("atan2", x, y, dtype)


def copysign(x: Any, y: Any, dtype: Any = None) -> Tensor:
    """The magnitude of x with the sign of y."""
    return _binary("copysign", x, y, dtype)


def equal(x: Any, y: Any, dtype: Any = None) -> Tensor:
    """Whether x and y are equal (`==` compares graph nodes, not their values)."""
    return _compare("equal", x, y, dtype)


def not_equal(x: Any, y: Any, dtype: Any = None) -> Tensor:
    """Whether x and y differ."""
    return _compare("not_equal", x, y, dtype)


def less(x: Any, y: Any, dtype: Any = None) -> Tensor:
    """x < y."""
    return _compare("less", x, y, dtype)


def less_equal(x: Any, y: Any, dtype: Any = None) -> Tensor:
    """x <= y."""
    return _compare("less_equal", x, y, dtype)


def greater(x: Any, y: Any, dtype: Any = None) -> Tensor:
    """x > y."""
    return _compare("greater", x, y, dtype)


def greater_equal(x: Any, y: Any, dtype: Any = None) -> Tensor:
    """x >= y."""
    return _compare("greater_equal", x, y, dtype)


# ---- bits and truth


def _bits(name: str, x: Any, y: Any) -> Tensor:
    element = common_element(x, y)
    if isinstance(element, FloatType):
        fail(
            UserError,
            f"{name} works on integers and bools, not on {element}",
            "cast with ng.cast(x, 'i32'), or compare first",
        )
    return getattr(VERBS, name)(*align(operand(x, element), operand(y, element)))


def _truth(x: Any) -> Tensor:
    x = as_op(x)
    return x if x.element is i1 else not_equal(x, 0)


def bitwise_and(x: Any, y: Any) -> Tensor:
    """Bit by bit: in both."""
    return _bits("bitwise_and", x, y)


def bitwise_or(x: Any, y: Any) -> Tensor:
    """Bit by bit: in one or both."""
    return _bits("bitwise_or", x, y)


def bitwise_xor(x: Any, y: Any) -> Tensor:
    """Bit by bit: in one only."""
    return _bits("bitwise_xor", x, y)


def bitwise_not(x: Any) -> Tensor:
    """Every bit changed."""
    return VERBS.bitwise_not(as_op(x))


def shift_left(x: Any, y: Any) -> Tensor:
    """Bits moved up."""
    return _bits("shift_left", x, y)


def shift_right(x: Any, y: Any) -> Tensor:
    """Bits moved down; the sign is kept, unless the type is unsigned."""
    return _bits("shift_right_arithmetic", x, y)


def shift_right_logical(x: Any, y: Any) -> Tensor:
    """Bits moved down, zeros in."""
    return _bits("shift_right_logical", x, y)


def logical_and(x: Any, y: Any) -> Tensor:
    """Both true (not 0)."""
    return _bits("bitwise_and", _truth(x), _truth(y))


def logical_or(x: Any, y: Any) -> Tensor:
    """One or both true (not 0)."""
    return _bits("bitwise_or", _truth(x), _truth(y))


def logical_not(x: Any) -> Tensor:
    """True where 0 or false."""
    return VERBS.bitwise_not(_truth(x))


# ---- other


def where(condition: Any, x: Any, y: Any, dtype: Any = None) -> Tensor:
    """x where the condition holds, else y."""
    condition = _truth(condition)
    same = isinstance(x, Tensor) and isinstance(y, Tensor) and x.element is y.element
    element = x.element if same and dtype is None else result_element(dtype)
    x, y = align(operand(x, element), operand(y, element))
    axes = result_axes(x.axes, condition.axes)
    return VERBS.select(broadcast(condition, axes), broadcast(x, axes), broadcast(y, axes))


def fma(x: Any, y: Any, z: Any, dtype: Any = None) -> Tensor:
    """x * y + z, rounded once."""
    element = result_element(dtype)
    x, y = align(operand(x, element), operand(y, element))
    z = operand(z, element)
    axes = result_axes(x.axes, z.axes)
    return VERBS.fma(broadcast(x, axes), broadcast(y, axes), broadcast(z, axes))


def bitcast(x: Tensor, dtype: Any) -> Tensor:
    """The same bits as other elements of the same width."""
    return VERBS.stated(BitcastOp, [x], {}, x.axes, element_of(dtype))


class StopGradientOp(Tensor):
    """The value of its argument, to which no gradient flows."""

    is_alias = True


def stop_gradient(x: Any) -> Tensor:
    """x, as a constant for derivatives."""
    x = as_op(x)
    return StopGradientOp([x], None, x.axes, x.element)
