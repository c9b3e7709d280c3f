# SPDX-License-Identifier: Apache-2.0
"""Normalisation along axes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ....ir.types import f32
from ..nodes import Node, operator
from ..tensor import Tensor


@operator("Softmax", "LogSoftmax")
def softmax(n: Node, x: Tensor) -> Tensor:
    axis = x.axis(n.integer("axis", -1 if n.version >= 13 else 1))
    shape, axes = x.shape, [axis]
    if n.version < 13:
        x, axes = x.reshape([prod(shape[:axis]), prod(shape[axis:])]), [1]
    verb = n.verbs.softmax if n.op == "Softmax" else n.verbs.log_softmax
    return verb(x, axes=axes).reshape(shape)


def centred(n: Node, x: Tensor, axes: Sequence[int], epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    """x less its mean by its deviation; the mean; one by the deviation."""
    mean = x.mean(axes, keep=True)
    rest = x - mean
    scale = n.verbs.rsqrt((rest * rest).mean(axes, keep=True) + epsilon)
    return rest * scale, mean, scale


@operator("LayerNormalization")
def layer_normalization(n: Node, x: Tensor, scale: Tensor, bias: Tensor | None = None) -> list[Tensor]:
    axes = range(x.axis(n.integer("axis", -1)), x.rank)
    wide = x.cast(n.element("stash_type", f32)) if x.element is not f32 else x
    made, mean, inverse = centred(n, wide, axes, n.number("epsilon", 1e-5))
    made = made.cast(x.element) * scale
    return [made if bias is None else made + bias, mean, inverse]


@operator("RMSNormalization")
def rms_normalization(n: Node, x: Tensor, scale: Tensor) -> Tensor:
    axes = range(x.axis(n.integer("axis", -1)), x.rank)
    wide = x.cast(n.element("stash_type", f32))
    root = n.verbs.rsqrt((wide * wide).mean(axes, keep=True) + n.number("epsilon", 1e-5))
    return (wide * root).cast(x.element) * scale


@operator("BatchNormalization")
def batch_normalization(
    n: Node, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor
) -> list[Tensor]:
    shape = [1, x.shape[1], *[1] * (x.rank - 2)] if x.rank > 1 else [x.shape[0]]
    if not n.flag("spatial", True):  # each position has its own numbers
        shape = [1, *x.shape[1:]]
    if n.flag("training_mode"):
        axes = [0, *range(2, x.rank)]
        now = x.mean(axes)
        rest = x - now.reshape(shape)
        spread = (rest * rest).mean(axes)
        keep = n.number("momentum", 0.9)
        made = _scaled(n, x, scale, bias, now.cast(mean.element), spread.cast(variance.element), shape)
        return [
            made,
            mean * keep + now.cast(mean.element) * (1 - keep),
            variance * keep + spread.cast(variance.element) * (1 - keep),
        ]
    return [_scaled(n, x, scale, bias, mean, variance, shape)]


def _scaled(
    n: Node, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, shape: Sequence[int]
) -> Tensor:
    epsilon = n.number("epsilon", 1e-5)
    wide = variance.computed()
    factor = scale.cast(wide.element) / n.verbs.sqrt(wide + epsilon)
    shift = bias.cast(wide.element) - mean.cast(wide.element) * factor
    return (x.cast(wide.element) * factor.reshape(shape) + shift.reshape(shape)).cast(x.element)


@operator("InstanceNormalization")
def instance_normalization(n: Node, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    made, _, _ = centred(n, x.computed(), range(2, x.rank), n.number("epsilon", 1e-5))
    shape = [1, x.shape[1], *[1] * (x.rank - 2)]
    return made.cast(x.element) * scale.reshape(shape) + bias.reshape(shape)


@operator("MeanVarianceNormalization")
def mean_variance_normalization(n: Node, x: Tensor) -> Tensor:
    axes = x.axes(n.given("axes", [0, 2, 3]))
    rest = x - x.mean(axes, keep=True)
    return rest / (n.verbs.sqrt((rest * rest).mean(axes, keep=True)) + 1e-9)


@operator("LpNormalization")
def lp_normalization(n: Node, x: Tensor) -> Tensor:
    axis = [x.axis(n.integer("axis", -1))]
    if n.integer("p", 2) == 1:
        size = n.verbs.absolute(x).sum(axis, keep=True)
    else:
        size = n.verbs.sqrt((x * x).sum(axis, keep=True))
    return x / size.equals(0).where(n.verbs.numbers(1, x.element), size)


@operator("LRN")
def lrn(n: Node, x: Tensor) -> Tensor:
    size = n.integer("size")
    before = (size - 1) // 2
    low, high = [0] * x.rank, [0] * x.rank
    low[1], high[1] = before, size - 1 - before
    squares = (x * x).pad(low, high)
    total = squares.part(1, 0, x.shape[1])
    for i in range(1, size):
        total = total + squares.part(1, i, i + x.shape[1])
    base = total * (n.number("alpha", 1e-4) / size) + n.number("bias", 1.0)
    return x / base ** n.number("beta", 0.75)
