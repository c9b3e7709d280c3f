# SPDX-License-Identifier: Apache-2.0
"""What the elementwise ops mean on NumPy arrays.

f16 and bf16 are computed in f32 and rounded. Transcendental functions are computed in a wider type than their
operand and rounded, so that they are as good as correctly rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.core import Op
from ...ir.definition import is_narrow
from ...ir.literals import dtype_of
from ...ir.types import element_type
from . import narrow
from .numbers import Array, fma, is_float, is_half, narrowed, widened

Plain = Callable[..., Any]
#: Bytes of a float type -> the type in which its transcendental functions are computed.
_WIDER: dict[int, type[np.floating[Any]]] = {4: np.float64, 8: np.longdouble}


def in_f32(function: Plain) -> Plain:
    """Computes f16 and bf16 in f32 and rounds once; other types as they are."""

    def narrow(*arrays: Array) -> Any:
        dtype = arrays[0].dtype
        if not is_half(dtype):
            return function(*arrays)
        return np.asarray(function(*map(widened, arrays))).astype(dtype)

    return narrow


def comparing(function: Plain) -> Plain:
    """Compares f16 and bf16 as f32; the result is not a float."""
    return lambda *arrays: function(*map(widened, arrays))


def transcendental(function: Plain) -> Plain:
    """Computes in a wider type and rounds."""

    def rounded(*arrays: Array) -> Any:
        dtype = arrays[0].dtype
        return np.asarray(function(*[a.astype(_WIDER[dtype.itemsize]) for a in arrays])).astype(dtype)

    return in_f32(rounded)


# ---- arithmetic --------------------------------------------------------------------------------------------


def sign(x: Array) -> Any:
    return np.where(x > 0, np.ones_like(x), np.where(x < 0, -np.ones_like(x), x))


def rsqrt(x: Array) -> Any:
    return reciprocal(in_f32(np.sqrt)(x))


@in_f32
def reciprocal(x: Array) -> Any:
    return np.ones_like(x) / x


@in_f32
def _quotient(lhs: Array, rhs: Array) -> Any:
    """The floored quotient of floats. The sign of the rest is exact for every quotient, whatever was rounded."""
    quotient = np.floor(lhs / rhs)
    rest = np.where(quotient == 0, lhs, fma(-quotient, rhs, lhs))
    # The quotient was rounded before it was floored, and may so have reached the next integer.
    above = ((rest < 0) & (rhs > 0)) | ((rest > 0) & (rhs < 0))
    return np.where(above, quotient - 1, quotient)


def floor_divide(lhs: Array, rhs: Array) -> Any:
    # NumPy too gives 0 for division of integers by zero.
    return _quotient(lhs, rhs) if is_float(lhs.dtype) else np.floor_divide(lhs, rhs)


def remainder(lhs: Array, rhs: Array) -> Any:
    # Of floats what C's fmod leaves, which is exact, and rhs more where that has the other sign.
    return in_f32(np.remainder)(lhs, rhs)


def power(lhs: Array, rhs: Array) -> Any:
    return transcendental(np.power)(lhs, rhs) if is_float(lhs.dtype) else _integer_power(lhs, rhs)


def _integer_power(base: Array, exponent: Array) -> Any:
    result, factor = np.ones_like(base), base
    left = np.where(exponent < 0, np.zeros_like(exponent), exponent)
    while np.any(left):
        result = np.where(left & 1 == 1, result * factor, result)
        factor, left = factor * factor, left >> 1
    # 1 / base^n as an integer: 0, but for bases that are their own inverse.
    odd = exponent & 1 == 1
    inverse = np.where(base == 1, 1, np.where(base + 1 == 0, np.where(odd, -1, 1), 0)).astype(base.dtype)
    return np.where(exponent < 0, inverse, result)


def maximum(lhs: Array, rhs: Array) -> Any:
    """NaN wins, then +0.0 over -0.0."""
    if not is_float(lhs.dtype):
        return np.maximum(lhs, rhs)
    first = (lhs > rhs) | ((lhs == rhs) & ~np.signbit(lhs))
    return np.where(np.isnan(lhs) | np.isnan(rhs), lhs + rhs, np.where(first, lhs, rhs))


def minimum(lhs: Array, rhs: Array) -> Any:
    """NaN wins, then -0.0 over +0.0."""
    if not is_float(lhs.dtype):
        return np.minimum(lhs, rhs)
    first = (lhs < rhs) | ((lhs == rhs) & np.signbit(lhs))
    return np.where(np.isnan(lhs) | np.isnan(rhs), lhs + rhs, np.where(first, lhs, rhs))


def sigmoid(x: Array) -> Any:
    return 1 / (1 + np.exp(-x))


def erf(x: Array) -> Any:
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(x.astype(np.float64)), np.float64)


def softplus(x: Array) -> Any:
    return np.logaddexp(x, x.dtype.type(0))


# ---- bits --------------------------------------------------------------------------------------------------


def _unsigned(array: Array) -> Array:
    return array.view(f"u{array.itemsize}")


def _shift(function: Plain, lhs: Array, rhs: Array, beyond: Array) -> Array:
    amount = _unsigned(rhs)
    inside = amount < 8 * lhs.itemsize
    shifted: Array = function(lhs, np.where(inside, amount, 0).astype(lhs.dtype))
    return np.where(inside, shifted, beyond)


def shift_left(lhs: Array, rhs: Array) -> Any:
    return _shift(np.left_shift, lhs, rhs, np.zeros_like(lhs))


def shift_right_logical(lhs: Array, rhs: Array) -> Any:
    bits = _unsigned(lhs)
    return np.asarray(_shift(np.right_shift, bits, rhs, np.zeros_like(bits))).view(lhs.dtype)


def shift_right_arithmetic(lhs: Array, rhs: Array) -> Any:
    return _shift(np.right_shift, lhs, rhs, np.where(lhs < 0, -np.ones_like(lhs), np.zeros_like(lhs)))


# ---- between types -----------------------------------------------------------------------------------------


def cast(op: Op, arrays: Sequence[Array]) -> Any:
    (source,), target = arrays, dtype_of(op.result.type)
    given, wanted = element_type(op.operands[0].type), element_type(op.result.type)
    if is_narrow(given):
        source = narrow.decoded(source, given)
    if is_narrow(wanted):
        return narrow.encoded(source, wanted)
    if target == np.bool_:
        return widened(source) != 0
    if is_float(source.dtype) and is_float(target):
        return narrowed(source, target)
    if is_half(target):
        return source.astype(np.float32).astype(target)
    if is_float(source.dtype) and target.kind in "iu":
        return _saturated(widened(source), target)
    return source.astype(target)


def _saturated(source: Array, target: np.dtype[Any]) -> Array:
    """Floats towards zero; the nearest integer of the type where there is none, and 0 for NaN."""
    whole, info = np.trunc(source), np.iinfo(target)
    # The greatest 64-bit integers are no floats; the power of two above them is one.
    big, small = whole >= float(info.max + 1), whole < float(info.min)
    inside = np.where(big | small | np.isnan(whole), 0, whole).astype(target)
    return np.where(big, target.type(info.max), np.where(small, target.type(info.min), inside))


def bitcast(op: Op, arrays: Sequence[Array]) -> Any:
    return np.ascontiguousarray(arrays[0]).view(dtype_of(op.result.type)).reshape(arrays[0].shape)


#: Functions that are computed in a wider type and rounded, before they are rounded.
TRANSCENDENTAL: dict[str, Plain] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "sigmoid": sigmoid,
    "erf": erf,
    "softplus": softplus,
    "atan2": np.arctan2,
    "power": np.power,
}

_FUNCTIONS: dict[str, Plain] = {
    **{name: transcendental(exact) for name, exact in TRANSCENDENTAL.items()},
    "negative": in_f32(np.negative),
    "absolute": in_f32(np.absolute),
    "sign": in_f32(sign),
    "square": in_f32(np.square),
    "reciprocal": reciprocal,
    "sqrt": in_f32(np.sqrt),
    "rsqrt": rsqrt,
    "floor": in_f32(np.floor),
    "ceil": in_f32(np.ceil),
    "round": in_f32(np.rint),
    "trunc": in_f32(np.trunc),
    "bitwise_not": np.invert,
    "add": in_f32(np.add),
    "subtract": in_f32(np.subtract),
    "multiply": in_f32(np.multiply),
    "divide": in_f32(np.divide),
    "floor_divide": floor_divide,
    "remainder": remainder,
    "power": power,
    "maximum": in_f32(maximum),
    "minimum": in_f32(minimum),
    "copysign": in_f32(np.copysign),
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "shift_left": shift_left,
    "shift_right_logical": shift_right_logical,
    "shift_right_arithmetic": shift_right_arithmetic,
    "equal": comparing(np.equal),
    "not_equal": comparing(np.not_equal),
    "less": comparing(np.less),
    "less_equal": comparing(np.less_equal),
    "greater": comparing(np.greater),
    "greater_equal": comparing(np.greater_equal),
    "select": np.where,
    "fma": fma,
}


def _on_arrays(function: Plain) -> Callable[[Op, Sequence[Array]], Any]:
    return lambda op, arrays: function(*arrays)


#: Op name -> value of the op on arrays.
ELEMENTWISE: dict[str, Callable[[Op, Sequence[Array]], Any]] = {
    **{f"ng.{name}": _on_arrays(function) for name, function in _FUNCTIONS.items()},
    "ng.cast": cast,
    "ng.bitcast": bitcast,
}
