# SPDX-License-Identifier: Apache-2.0
"""Elementwise operators and reductions of quantized tensors: dequantized, computed in f32, and quantized again."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from .....ir.types import Type, f32, i1, i32
from .....support.diagnostics import UserError
from ...nodes import Node
from ...schemas import contributed
from ...tensor import Tensor
from ..quantization import centred, dequantize, quantize, shifted
from ..windows import average_pool
from .convolutions import POOLING, channels_first, channels_last


def dequantized(x: Tensor, scale: Tensor, zero: Tensor | None) -> Tensor:
    """(x - zero) * scale in f32."""
    return centred(x, zero).cast(f32) * scale.reshape([]).cast(f32)


def requantized(n: Node, x: Tensor, scale: Tensor, zero: Tensor | None, element: Type) -> Tensor:
    """x / scale, rounded to integers, plus the zero point, clamped to the type."""
    point = n.verbs.numbers(0, element) if zero is None else zero.reshape([])
    return shifted(n, x / scale.reshape([]), point, element)


def _of_two(combine: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    def handler(
        n: Node,
        a: Tensor,
        a_scale: Tensor,
        a_zero: Tensor | None,
        b: Tensor,
        b_scale: Tensor,
        b_zero: Tensor | None,
        scale: Tensor,
        zero: Tensor | None = None,
    ) -> Tensor:
        made = combine(dequantized(a, a_scale, a_zero), dequantized(b, b_scale, b_zero))
        return requantized(n, made, scale, zero, a.element)

    return handler


contributed("QLinearAdd")(_of_two(lambda a, b: a + b))
contributed("QLinearMul")(_of_two(lambda a, b: a * b))


@contributed("QLinearLeakyRelu", alpha=0.01)
@contributed("QLinearSigmoid")
def qlinear_activation(
    n: Node, x: Tensor, x_scale: Tensor, x_zero: Tensor | None, scale: Tensor, zero: Tensor | None = None
) -> Tensor:
    y = dequantized(x, x_scale, x_zero)
    made = n.verbs.sigmoid(y) if n.op == "QLinearSigmoid" else (y < 0).where(y * n.number("alpha"), y)
    return requantized(n, made, scale, zero, x.element)


@contributed("QLinearSoftmax", axis=-1, opset=int)
def qlinear_softmax(
    n: Node, x: Tensor, x_scale: Tensor, x_zero: Tensor | None, scale: Tensor, zero: Tensor
) -> Tensor:
    axis, shape = x.axis(n.integer("axis")), x.shape
    y, axes = dequantized(x, x_scale, x_zero), [axis]
    if n.integer("opset") < 13:
        y, axes = y.reshape([prod(shape[:axis]), prod(shape[axis:])]), [1]
    return requantized(n, n.verbs.softmax(y, axes=axes).reshape(shape), scale, zero, x.element)


@contributed("QLinearConcat", axis=int)
def qlinear_concat(n: Node, scale: Tensor, zero: Tensor, *parts: Tensor) -> Tensor:
    """`parts` holds the tensors, each followed by its scale and its zero point."""
    if not parts or len(parts) % 3:
        raise UserError(f"{len(parts)} inputs are not parts with a scale and a zero point each")
    made = [
        requantized(n, dequantized(*parts[i : i + 3]), scale, zero, zero.element)
        for i in range(0, len(parts), 3)
    ]
    return n.verbs.joined(made, made[0].axis(n.integer("axis")))


@contributed("QLinearWhere")
def qlinear_where(
    n: Node,
    condition: Tensor,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    y: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    scale: Tensor,
    zero: Tensor,
) -> Tensor:
    left = requantized(n, dequantized(x, x_scale, x_zero), scale, zero, x.element)
    right = requantized(n, dequantized(y, y_scale, y_zero), scale, zero, x.element)
    return n.verbs.where(condition.cast(i1), left, right)


@contributed("QLinearAveragePool", ceil_mode=0, channels_last=0, count_include_pad=0, **POOLING)
def qlinear_average_pool(
    n: Node, x: Tensor, x_scale: Tensor, x_zero: Tensor | None, scale: Tensor, zero: Tensor | None = None
) -> Tensor:
    last = n.flag("channels_last")
    y = dequantized(channels_first(x) if last else x, x_scale, x_zero)
    made = average_pool(n, y)
    made = requantized(n, made, scale, zero, x.element)
    return channels_last(made) if last else made


@contributed("QLinearGlobalAveragePool", channels_last=0)
def qlinear_global_average_pool(
    n: Node, x: Tensor, x_scale: Tensor, x_zero: Tensor, scale: Tensor, zero: Tensor
) -> Tensor:
    axes = range(1, x.rank - 1) if n.flag("channels_last") else range(2, x.rank)
    return _mean(n, x, x_scale, x_zero, scale, zero, list(axes), True)


@contributed("QLinearReduceMean", axes=list[int], keepdims=1)
def qlinear_reduce_mean(
    n: Node, x: Tensor, x_scale: Tensor, x_zero: Tensor | None, scale: Tensor, zero: Tensor | None = None
) -> Tensor:
    return _mean(n, x, x_scale, x_zero, scale, zero, n.integers("axes"), n.flag("keepdims"))


def _mean(
    n: Node,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor | None,
    scale: Tensor,
    zero: Tensor | None,
    axes: list[int] | None,
    keep: bool,
) -> Tensor:
    """The mean, quantized; the sum of integers is exact."""
    places = x.axes(axes)
    count = prod(x.shape[a] for a in places)
    total = centred(x, x_zero).sum(places, keep=keep).cast(f32)
    return requantized(n, total * (x_scale.reshape([]) / float(count)), scale, zero, x.element)


@contributed("MulInteger")
def mul_integer(n: Node, a: Tensor, a_zero: Tensor | None, b: Tensor, b_zero: Tensor | None = None) -> Tensor:
    return centred(a, a_zero) * centred(b, b_zero)


@contributed("ReduceSumInteger", axes=list[int], keepdims=1)
def reduce_sum_integer(n: Node, x: Tensor) -> Tensor:
    return x.cast(i32).sum(n.integers("axes"), keep=n.flag("keepdims"))


@contributed("QuantizeLinear", axis=1)
def quantize_linear(n: Node, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    return quantize(n, x.computed(), scale.computed(), zero)


@contributed("DequantizeLinear", axis=1)
def dequantize_linear(n: Node, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    return dequantize(n, x, scale, zero)
