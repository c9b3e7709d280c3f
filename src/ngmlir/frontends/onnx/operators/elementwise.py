# SPDX-License-Identifier: Apache-2.0
"""Operators that compute each element from those in its place."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np

from ....ir.literals import dtype_of, item_bytes
from ....ir.types import FloatType, f64, i1, i64
from ....support.diagnostics import UserError
from ..nodes import OPERATORS, Node, operator
from ..tensor import Tensor, broadcast

#: Operators of one tensor that are a verb.
_UNARY = {
    "Abs": "absolute", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh", "Atan": "atan",
    "Atanh": "atanh", "BitwiseNot": "bitwise_not", "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh", "Erf": "erf",
    "Exp": "exp", "Floor": "floor", "Log": "log", "Not": "bitwise_not", "Reciprocal": "reciprocal", "Round": "round",
    "Sigmoid": "sigmoid", "Sin": "sin", "Sinh": "sinh", "Softplus": "softplus", "Sqrt": "sqrt", "Tan": "tan",
    "Tanh": "tanh",
}  # fmt: skip
#: Operators of two tensors that are a verb, after broadcasting.
_BINARY = {
    "Add": "add", "And": "bitwise_and", "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor", "Equal": "equal", "Greater": "greater", "GreaterOrEqual": "greater_equal",
    "Less": "less", "LessOrEqual": "less_equal", "Mul": "multiply", "Or": "bitwise_or", "Sub": "subtract",
    "Xor": "bitwise_xor",
}  # fmt: skip
#: Operators of any number of tensors, as a verb of two.
_MANY = {"Max": "maximum", "Min": "minimum", "Sum": "add"}


def _unary(n: Node, x: Tensor) -> Tensor:
    _of_truth(n, x)
    return getattr(n.verbs, _UNARY[n.op])(x)


def _of_truth(n: Node, *inputs: Tensor) -> None:
    """UserError where a logical operator is given numbers, of which the verbs of bits would make others."""
    if n.op in ("And", "Or", "Xor", "Not"):
        for x in inputs:
            if x.element is not i1:
                raise UserError(
                    f"{n.op} takes truth values, not {x.element}", hint="Cast makes them of numbers"
                )


def _binary(n: Node, lhs: Tensor, rhs: Tensor) -> Tensor:
    _of_truth(n, lhs, rhs)
    return getattr(n.verbs, _BINARY[n.op])(*aligned(n, lhs, rhs))


def _many(n: Node, *inputs: Tensor) -> Tensor:
    return reduce(lambda a, b: getattr(n.verbs, _MANY[n.op])(a, b), broadcast(inputs))


for _names, _handler in ((_UNARY, _unary), (_BINARY, _binary), (_MANY, _many)):
    OPERATORS.update({("", name): _handler for name in _names})


def aligned(n: Node, lhs: Tensor, rhs: Tensor) -> list[Tensor]:
    """Both in one shape; before version 7 as the node says."""
    if n.version < 7 and n.flag("broadcast") and "axis" in n.attributes:
        first = lhs.axis(n.integer("axis"))
        rhs = rhs.reshape([*rhs.shape, *[1] * (lhs.rank - first - rhs.rank)])
    return broadcast([lhs, rhs])


@operator("Neg")
def neg(n: Node, x: Tensor) -> Tensor:
    return -x


@operator("Sign")
def sign(n: Node, x: Tensor) -> Tensor:
    return x.differs(0).cast(x.element) if x.is_unsigned else n.verbs.sign(x)


@operator("Mean")
def mean(n: Node, *inputs: Tensor) -> Tensor:
    return _sum(n, *inputs) / len(inputs)


def _sum(n: Node, *inputs: Tensor) -> Tensor:
    return reduce(lambda a, b: a + b, inputs)


@operator("Div")
def div(n: Node, lhs: Tensor, rhs: Tensor) -> Tensor:
    lhs, rhs = aligned(n, lhs, rhs)
    return lhs / rhs if lhs.is_float else towards_zero(n, lhs, rhs)


def towards_zero(n: Node, lhs: Tensor, rhs: Tensor) -> Tensor:
    """The quotient of integers, rounded towards zero."""
    below = lhs // rhs
    if lhs.is_unsigned:
        return below
    inexact = (below * rhs).differs(lhs) & n.verbs.bitwise_xor(lhs < 0, rhs < 0) & rhs.differs(0)
    return below + inexact.cast(lhs.element)


@operator("Mod")
def mod(n: Node, lhs: Tensor, rhs: Tensor) -> Tensor:
    lhs, rhs = broadcast([lhs, rhs])
    if not n.flag("fmod") or lhs.is_unsigned:
        return lhs % rhs
    if lhs.is_float:
        return lhs % n.verbs.copysign(rhs, lhs)
    made = lhs % rhs
    # Where the signs differ, what is left below is as far above the next multiple of rhs.
    above = made.differs(0) & n.verbs.bitwise_xor(lhs < 0, rhs < 0)
    return above.where(made - rhs, made)


@operator("Pow")
def power(n: Node, lhs: Tensor, rhs: Tensor) -> Tensor:
    lhs, rhs = aligned(n, lhs, rhs)
    if lhs.element is rhs.element:
        return lhs**rhs
    if lhs.is_float:
        exponent = rhs.array
        wide = (
            f64
            if rhs.is_float and item_bytes(rhs.element) > item_bytes(lhs.element) and exponent is None
            else lhs.element
        )
        return (lhs.cast(wide) ** rhs.cast(wide)).cast(lhs.element)
    if not rhs.is_float:
        return (lhs.cast(i64) ** rhs.cast(i64)).cast(lhs.element)
    return (lhs.cast(f64) ** rhs.cast(f64)).cast(lhs.element)


@operator("Clip")
def clip(n: Node, x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    if n.version < 11:
        top = np.finfo(np.float32).max
        return x.maximum(n.number("min", -float(top))).minimum(n.number("max", float(top)))
    x = x if low is None else x.maximum(low)
    return x if high is None else x.minimum(high)


@operator("IsNaN")
def is_nan(n: Node, x: Tensor) -> Tensor:
    return x.differs(x)


@operator("IsInf")
def is_inf(n: Node, x: Tensor) -> Tensor:
    found = n.verbs.numbers(False, i1, x.shape)
    if n.flag("detect_positive", True):
        found = found | x.equals(math.inf)
    return found | x.equals(-math.inf) if n.flag("detect_negative", True) else found


@operator("BitShift")
def bit_shift(n: Node, x: Tensor, by: Tensor) -> Tensor:
    left = n.text("direction") == "LEFT"
    return (n.verbs.shift_left if left else n.verbs.shift_right_arithmetic)(*broadcast([x, by]))


@operator("Where")
def where(n: Node, condition: Tensor, lhs: Tensor, rhs: Tensor) -> Tensor:
    return n.verbs.where(condition, lhs, rhs)


# ---- activations


@operator("Relu")
def relu(n: Node, x: Tensor) -> Tensor:
    return x.maximum(0)


@operator("LeakyRelu")
def leaky_relu(n: Node, x: Tensor) -> Tensor:
    return (x < 0).where(x * n.number("alpha", 0.01), x)


@operator("PRelu")
def prelu(n: Node, x: Tensor, slope: Tensor) -> Tensor:
    if n.version < 7 and slope.rank == 1 and x.rank > 1 and slope.size > 1:
        slope = slope.reshape([slope.size, *[1] * (x.rank - 2)])
    return (x < 0).where(x * slope.broadcast(x.shape), x)


@operator("ThresholdedRelu")
def thresholded_relu(n: Node, x: Tensor) -> Tensor:
    return (x > n.number("alpha", 1.0)).where(x, 0)


@operator("Elu")
def elu(n: Node, x: Tensor) -> Tensor:
    return (x < 0).where(n.verbs.expm1(x) * n.number("alpha", 1.0), x)


@operator("Celu")
def celu(n: Node, x: Tensor) -> Tensor:
    alpha = n.number("alpha", 1.0)
    return x.maximum(0) + (n.verbs.expm1(x / alpha) * alpha).minimum(0)


@operator("Selu")
def selu(n: Node, x: Tensor) -> Tensor:
    alpha = n.number("alpha", 1.67326319217681884765625)
    return (x > 0).where(x, n.verbs.expm1(x) * alpha) * n.number("gamma", 1.05070102214813232421875)


@operator("Gelu")
def gelu(n: Node, x: Tensor) -> Tensor:
    return gelu_of(x, n.text("approximate", "none") == "tanh")


def gelu_of(x: Tensor, tanh: bool) -> Tensor:
    """The activation by the error function, or what the hyperbolic tangent gives for it."""
    y = x.computed()
    if tanh:
        inner = (y + y * y * y * 0.044715) * math.sqrt(2 / math.pi)
        made = y * 0.5 * (x.verbs.tanh(inner) + 1)
    else:
        made = y * 0.5 * (x.verbs.erf(y * math.sqrt(0.5)) + 1)
    return made.cast(x.element)


@operator("HardSigmoid")
def hard_sigmoid(n: Node, x: Tensor) -> Tensor:
    return (x * n.number("alpha", 0.2) + n.number("beta", 0.5)).maximum(0).minimum(1)


@operator("HardSwish")
def hard_swish(n: Node, x: Tensor) -> Tensor:
    return x * (x * (1 / 6) + 0.5).maximum(0).minimum(1)


@operator("Mish")
def mish(n: Node, x: Tensor) -> Tensor:
    return x * n.verbs.tanh(n.verbs.softplus(x))


@operator("Swish")
def swish(n: Node, x: Tensor) -> Tensor:
    return x * n.verbs.sigmoid(x * n.number("alpha", 1.0))


@operator("Softsign")
def softsign(n: Node, x: Tensor) -> Tensor:
    return x / (n.verbs.absolute(x) + 1)


@operator("Shrink")
def shrink(n: Node, x: Tensor) -> Tensor:
    limit, bias = n.number("lambd", 0.5), n.number("bias", 0.0)
    inner = (x > limit).where(x - bias, 0) if x.is_float or bias == int(bias) else _shrunk(x, limit, bias)
    return (x < -limit).where(x + bias, inner)


def _shrunk(x: Tensor, limit: float, bias: float) -> Tensor:
    raise UserError(f"Shrink of integers by {bias}")


@operator("Identity")
def identity(n: Node, x: Tensor) -> Tensor:
    return x


def limits(element: FloatType) -> float:
    """The greatest number of a float type."""
    return float(np.finfo(dtype_of(element)).max)
