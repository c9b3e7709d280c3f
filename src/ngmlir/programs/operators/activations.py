# SPDX-License-Identifier: Apache-2.0
"""Functions that layers end with.

At a kink the gradient is what the entry of the operator says; `where` states it, since its gradient is that of the side taken.
"""

from __future__ import annotations

from math import pi, prod, sqrt

from ... import numpy as np
from ...op_graph.functions.composed import stop_gradient
from ...op_graph.tensor import Tensor
from ...support.diagnostics import UserError
from ..registry import operator


def between(x: Tensor, low: float, high: float) -> Tensor:
    """x, held between two bounds; at both the gradient is 0. NaN stays."""
    inside = np.logical_and(np.greater(x, low), np.less(x, high))
    held = stop_gradient(np.clip(x, low, high))
    return np.where(inside, x, held)


@operator
def relu(x: Tensor) -> Tensor:
    return np.where(np.greater(x, 0), x, stop_gradient(np.maximum(x, 0)))


@operator
def gelu(x: Tensor, *, approximate: bool) -> Tensor:
    if approximate:
        inner = np.multiply(np.add(x, np.multiply(np.power(x, 3), 0.044715)), sqrt(2 / pi))
        twice = np.add(np.tanh(inner), 1)
    else:
        twice = np.add(np.erf(np.multiply(x, sqrt(0.5))), 1)
    return np.multiply(np.multiply(x, 0.5), twice)


@operator
def relu6(x: Tensor, *, threshold: float) -> Tensor:
    return between(x, 0.0, threshold)


@operator
def brelu(x: Tensor, *, t_min: float, t_max: float) -> Tensor:
    return between(x, t_min, t_max)


@operator
def clip(x: Tensor, *, min: float, max: float) -> Tensor:
    if min > max:
        raise UserError(f"the lower bound {min:g} is above the upper one {max:g}")
    return between(x, min, max)


@operator
def hard_sigmoid(x: Tensor, *, slope: float, offset: float) -> Tensor:
    return between(np.add(np.multiply(x, slope), offset), 0.0, 1.0)


@operator
def leaky_relu(x: Tensor, *, alpha: float) -> Tensor:
    return np.where(np.less(x, 0), np.multiply(x, alpha), x)


@operator
def elu(x: Tensor, *, alpha: float) -> Tensor:
    below = np.where(np.less(x, 0), x, 0)
    return np.where(np.less(x, 0), np.multiply(np.expm1(below), alpha), x)


@operator
def prelu(x: Tensor, alpha: Tensor, *, mode: str) -> Tensor:
    wanted = {
        "all": 1,
        "channel": x.type.shape[1] if len(x.type.shape) > 1 else 1,
        "element": prod(x.type.shape),
    }[mode]
    if prod(alpha.type.shape) not in (wanted, prod(x.type.shape[1:]) if mode == "element" else wanted):
        raise UserError(
            f"Alpha has {wanted} elements for mode '{mode}', not the shape {list(alpha.type.shape)}"
        )
    if mode == "channel":
        alpha = np.reshape(alpha, (1, wanted, *(1,) * (len(x.type.shape) - 2)))
    elif mode == "element":
        alpha = np.reshape(
            alpha, x.type.shape if prod(alpha.type.shape) == wanted else (1, *x.type.shape[1:])
        )
    return np.where(np.greater(x, 0), x, np.multiply(x, alpha))


@operator
def hard_shrink(x: Tensor, *, threshold: float) -> Tensor:
    return np.where(np.greater(np.absolute(x), threshold), x, 0)


@operator
def softshrink(x: Tensor, *, lambda_: float) -> Tensor:
    above = np.where(np.greater(x, lambda_), np.subtract(x, lambda_), 0)
    return np.where(np.less(x, -lambda_), np.add(x, lambda_), above)


@operator
def thresholded_relu(x: Tensor, *, threshold: float) -> Tensor:
    return np.where(np.greater(x, threshold), x, 0)


@operator
def sigmoid(x: Tensor) -> Tensor:
    return np.sigmoid(x)


@operator
def logsigmoid(x: Tensor) -> Tensor:
    return np.negative(softplus(np.negative(x)))


@operator
def tanh(x: Tensor) -> Tensor:
    return np.tanh(x)


@operator
def tanh_shrink(x: Tensor) -> Tensor:
    return np.subtract(x, np.tanh(x))


@operator
def stanh(x: Tensor, *, scale_a: float, scale_b: float) -> Tensor:
    return np.multiply(np.tanh(np.multiply(x, scale_a)), scale_b)


@operator
def softplus(x: Tensor) -> Tensor:
    return np.add(np.maximum(x, 0), np.log1p(np.exp(np.negative(np.absolute(x)))))


@operator
def soft_relu(x: Tensor, *, threshold: float) -> Tensor:
    return softplus(between(x, -threshold, threshold))


@operator
def softsign(x: Tensor) -> Tensor:
    return np.divide(x, np.add(np.absolute(x), 1))


@operator
def swish(x: Tensor, *, beta: float) -> Tensor:
    return np.multiply(x, np.sigmoid(np.multiply(x, beta)))


@operator
def maxout(x: Tensor, *, groups: int) -> Tensor:
    batch, channels, *lengths = x.type.shape
    if channels % groups:
        raise UserError(f"{channels} channels are not cut into groups of {groups}")
    return np.max(np.reshape(x, (batch, channels // groups, groups, *lengths)), axis=2)


#: How far below the largest of its row a score counts in a softmax.
FARTHEST = 64.0


def below_largest(x: Tensor, axis: int = -1) -> Tensor:
    """How far each score is below the largest along a dimension, at most FARTHEST."""
    largest = stop_gradient(np.max(x, axis=axis, keepdims=True))
    return np.maximum(np.subtract(x, largest), -FARTHEST)


@operator
def softmax(x: Tensor, *, axis: int, is_test: bool) -> Tensor:
    return np.softmax(below_largest(x, axis), axis=axis)
