# SPDX-License-Identifier: Apache-2.0
# Generated from dialects/ng.ngd by `python -m ngmlir.decl.generate`; do not edit.
"""Elementwise functions, one for each op. Results have float32 elements, or the 64-bit ones of an operand, unless
`dtype` says otherwise; operands are matched by axis name. Comparisons give `bool` tensors, which count as 0 and 1 wherever numbers are needed.
"""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor
from .applying import binary, binary_bits, compare, unary, unary_bits

__all__ = [
    "absolute",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "floordivide",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "log",
    "log10",
    "log1p",
    "log2",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "negative",
    "not_equal",
    "power",
    "reciprocal",
    "round",
    "rsqrt",
    "shift_left",
    "shift_right",
    "shift_right_logical",
    "sign",
    "sin",
    "sinh",
    "softplus",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
]


def negative(x: Any, dtype: Any = None) -> Tensor:
    """The negative; integers wrap around."""
    return unary("negative", x, dtype)


def absolute(x: Any, dtype: Any = None) -> Tensor:
    """The absolute value; the smallest signed integer is unchanged."""
    return unary("absolute", x, dtype)


def sign(x: Any, dtype: Any = None) -> Tensor:
    """-1, 0 or 1; -0.0 and NaN are unchanged."""
    return unary("sign", x, dtype)


def square(x: Any, dtype: Any = None) -> Tensor:
    """The square."""
    return unary("square", x, dtype)


def reciprocal(x: Any) -> Tensor:
    """One divided by the operand."""
    return unary("reciprocal", x)


def sqrt(x: Any) -> Tensor:
    """The square root, correctly rounded; NaN below zero; sqrt(-0.0) = -0.0."""
    return unary("sqrt", x)


def rsqrt(x: Any) -> Tensor:
    """One divided by the square root: reciprocal(sqrt(x)), two roundings."""
    return unary("rsqrt", x)


def exp(x: Any) -> Tensor:
    """e to the power of the operand."""
    return unary("exp", x)


def exp2(x: Any) -> Tensor:
    """2 to the power of the operand."""
    return unary("exp2", x)


def expm1(x: Any) -> Tensor:
    """exp(x) - 1 without cancellation near 0."""
    return unary("expm1", x)


def log(x: Any) -> Tensor:
    """The natural logarithm; -inf at zero, NaN below zero."""
    return unary("log", x)


def log2(x: Any) -> Tensor:
    """The logarithm to base 2."""
    return unary("log2", x)


def log10(x: Any) -> Tensor:
    """The logarithm to base 10."""
    return unary("log10", x)


def log1p(x: Any) -> Tensor:
    """log(1 + x) without cancellation near 0."""
    return unary("log1p", x)


def sin(x: Any) -> Tensor:
    """The sine of an angle in radians; NaN at infinity."""
    return unary("sin", x)


def cos(x: Any) -> Tensor:
    """The cosine of an angle in radians; NaN at infinity."""
    return unary("cos", x)


def tan(x: Any) -> Tensor:
    """The tangent of an angle in radians; NaN at infinity."""
    return unary("tan", x)


def asin(x: Any) -> Tensor:
    """The arcsine; NaN outside [-1, 1]."""
    return unary("asin", x)


def acos(x: Any) -> Tensor:
    """The arccosine; NaN outside [-1, 1]."""
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
    """The inverse hyperbolic cosine; NaN below 1."""
    return unary("acosh", x)


def atanh(x: Any) -> Tensor:
    """The inverse hyperbolic tangent; NaN outside [-1, 1]."""
    return unary("atanh", x)


def softplus(x: Any) -> Tensor:
    """log(1 + exp(x)), without overflow."""
    return unary("softplus", x)


def erf(x: Any) -> Tensor:
    """The error function."""
    return unary("erf", x)


def floor(x: Any) -> Tensor:
    """Rounded down to an integer, as a float."""
    return unary("floor", x)


def ceil(x: Any) -> Tensor:
    """Rounded up to an integer, as a float."""
    return unary("ceil", x)


def round(x: Any) -> Tensor:
    """The nearest integer, ties to even, as a float."""
    return unary("round", x)


def trunc(x: Any) -> Tensor:
    """The integer part, as a float."""
    return unary("trunc", x)


def bitwise_not(x: Any) -> Tensor:
    """All bits inverted; of i1 the logical not."""
    return unary_bits("bitwise_not", x)


def add(x: Any, y: Any, dtype: Any = None) -> Tensor:
    """The sum; integers wrap around."""
    return binary("add", x, y, dtype)


def subtract(x: Any, y: Any, dtype: Any = None) -> Tensor:
    """The difference; integers wrap around."""
    return binary("subtract", x, y, dtype)


def multiply(x: Any, y: Any, dtype: Any = None) -> Tensor:
    """The product; integers wrap around."""
    return binary("multiply", x, y, dtype)


def divide(x: Any, y: Any, dtype: Any = None) -> Tensor:
    """The quotient, correctly rounded."""
    return binary("divide", x, y, dtype)


def floordivide(x: Any, y: Any, dtype: Any = None) -> Tensor:
    """The quotient rounded towards minus infinity; an integer divided by zero is 0. Of floats floor(x / y), less 1 where that leaves a remainder of the wrong sign: exact as far as all integers are floats of the type; f16 and bf16 by way of f32."""
    return binary("floor_divide", x, y, dtype)


def mod(x: Any, y: Any, dtype: Any = None) -> Tensor:
    """x - floor(x / y) * y, with the sign of y; of an integer by zero 0. Of floats exact for every quotient, but where |x| < |y| and the signs differ: x + y, rounded once."""
    return binary("remainder", x, y, dtype)


def power(x: Any, y: Any, dtype: Any = None) -> Tensor:
    """x to the power of y. Floats: as pow of C. Integers wrap around; a negative power gives 0, except of 1 and -1."""
    return binary("power", x, y, dtype)


def maximum(x: Any, y: Any, dtype: Any = None) -> Tensor:
    """The maximum of two operands; NaN if either is NaN; +0.0 is greater than -0.0."""
    return binary("maximum", x, y, dtype)


def minimum(x: Any, y: Any, dtype: Any = None) -> Tensor:
    """The minimum of two operands; NaN if either is NaN; -0.0 is less than +0.0."""
    return binary("minimum", x, y, dtype)


def atan2(x: Any, y: Any, dtype: Any = None) -> Tensor:
    """The angle of the point (y, x), in radians: atan(x / y) in the right quadrant."""
    return binary("atan2", x, y, dtype)


def copysign(x: Any, y: Any, dtype: Any = None) -> Tensor:
    """The magnitude of x with the sign of y."""
    return binary("copysign", x, y, dtype)


def bitwise_and(x: Any, y: Any) -> Tensor:
    """Bitwise and; of i1 the logical and."""
    return binary_bits("bitwise_and", x, y)


def bitwise_or(x: Any, y: Any) -> Tensor:
    """Bitwise or; of i1 the logical or."""
    return binary_bits("bitwise_or", x, y)


def bitwise_xor(x: Any, y: Any) -> Tensor:
    """Bitwise xor; of i1 the logical xor."""
    return binary_bits("bitwise_xor", x, y)


def shift_left(x: Any, y: Any) -> Tensor:
    """Bits shifted left, filled with zeros; 0 for a shift by the width or more."""
    return binary_bits("shift_left", x, y)


def shift_right_logical(x: Any, y: Any) -> Tensor:
    """Bits shifted right, filled with zeros; 0 for a shift by the width or more."""
    return binary_bits("shift_right_logical", x, y)


def shift_right(x: Any, y: Any) -> Tensor:
    """Bits shifted right, filled with the sign bit (zeros for unsigned types); all sign bits for a shift by the width or more."""
    return binary_bits("shift_right_arithmetic", x, y)


def equal(x: Any, y: Any, dtype: Any = None) -> Tensor:
    """true where equal; NaN is equal to nothing."""
    return compare("equal", x, y, dtype)


def not_equal(x: Any, y: Any, dtype: Any = None) -> Tensor:
    """true where not equal; NaN differs from everything, also from itself."""
    return compare("not_equal", x, y, dtype)


def less(x: Any, y: Any, dtype: Any = None) -> Tensor:
    """true where x < y; false with NaN."""
    return compare("less", x, y, dtype)


def less_equal(x: Any, y: Any, dtype: Any = None) -> Tensor:
    """true where x <= y; false with NaN."""
    return compare("less_equal", x, y, dtype)


def greater(x: Any, y: Any, dtype: Any = None) -> Tensor:
    """true where x > y; false with NaN."""
    return compare("greater", x, y, dtype)


def greater_equal(x: Any, y: Any, dtype: Any = None) -> Tensor:
    """true where x >= y; false with NaN."""
    return compare("greater_equal", x, y, dtype)
