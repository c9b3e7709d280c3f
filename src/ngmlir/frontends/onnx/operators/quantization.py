# SPDX-License-Identifier: Apache-2.0
"""Numbers as integers, a scale and a zero point; sums of products of such integers are exact."""

from __future__ import annotations

from ....ir.types import FloatType, IntegerType, Type, f32, i8, i32, i64, ui8
from ..nodes import Node, operator
from ..tensor import Tensor
from .casting import converted
from .products import multiplied
from .windows import convolved, slide_of


def along(x: Tensor, like: Tensor, axis: int, block: int = 0) -> Tensor:
    """A scale or zero point for each slice (or block of slices) along an axis, or for all."""
    if x.size == 1 and x.rank < 2:
        return x.reshape([])
    if x.rank == 1 and not block:
        return x.reshape([x.size if d == axis else 1 for d in range(like.rank)])
    if not block:
        return x
    shape = list(x.shape)
    wide = x.with_axes([axis + 1]).broadcast([*shape[: axis + 1], block, *shape[axis + 1 :]])
    shape[axis] *= block
    return wide.reshape(shape).part(axis, 0, like.shape[axis])


def ends(element: Type) -> tuple[int, int]:
    """The least and the greatest integer of a type."""
    assert isinstance(element, IntegerType)
    low = 0 if element.unsigned else -(1 << (element.width - 1))
    return low, low + (1 << element.width) - 1


def rounded(n: Node, x: Tensor, element: Type) -> Tensor:
    """The nearest integers that a type holds."""
    low, high = ends(element)
    return n.verbs.round(x).maximum(float(low)).minimum(float(high)).cast(element)


def shifted(n: Node, x: Tensor, zero: Tensor, element: Type) -> Tensor:
    """Rounded to integers, moved by the zero point, and held to what the type holds."""
    if isinstance(element, FloatType):  # the zero point of such is zero
        return converted(n, x, element)
    low, high = ends(element)
    if high - low < 1 << 16:
        # Integers below 2^24 are floats: those that are held to the range before they are moved stay in it.
        point = zero.cast(i32)
        whole = n.verbs.round(x.cast(f32)).maximum((low - point).cast(f32)).minimum((high - point).cast(f32))
        return (whole.cast(i32) + point).cast(element)
    whole = n.verbs.round(x.cast(f32)).maximum(-(2.0**31)).minimum(2.0**31).cast(i64) + zero.cast(i64)
    return whole.maximum(low).minimum(high).cast(element)


def held(x: Tensor) -> Tensor:
    """Quantised weights in stored form: products multiply their codes without decoding them first."""
    return x.verbs.later(x) if x.rank > 1 and x.element in (i8, ui8) else x


@operator("QuantizeLinear")
def quantize(n: Node, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    element = zero.element if zero is not None else n.element("output_dtype", ui8)
    axis, block = x.axis(n.integer("axis", 1)) if x.rank > 1 else 0, n.integer("block_size")
    # Before there was `precision`, nothing was said of a rounded quotient: that of two short floats is exact enough in f32.
    wide = n.element("precision", scale.element if n.version >= 23 else f32)
    ratio = x.cast(wide) / along(scale, x, axis, block).cast(wide)
    point = n.verbs.numbers(0, element) if zero is None else along(zero, x, axis, block)
    return shifted(n, ratio, point, element)


@operator("DequantizeLinear")
def dequantize(n: Node, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    axis, block = x.axis(n.integer("axis", 1)) if x.rank > 1 else 0, n.integer("block_size")
    exact = f32 if x.is_float else i32
    whole = held(x).cast(exact)
    if zero is not None and (zero.array is None or zero.array.any()):
        whole = whole - along(zero, x, axis, block).cast(exact)
    factor = along(scale, x, axis, block)
    return (whole.cast(f32) * factor.cast(f32)).cast(n.element("output_dtype", scale.element))


@operator("DynamicQuantizeLinear")
def dynamic_quantize(n: Node, x: Tensor) -> list[Tensor]:
    low, high = x.min().minimum(0), x.max().maximum(0)
    step = (high - low) / 255
    # Of zeros alone it is 1, as with ONNX Runtime: the formula gives 0, and then zeros that are divided by it.
    scale = step.equals(0).where(n.verbs.numbers(1, f32), step)
    zero = rounded(n, -low / scale, ui8)
    return [shifted(n, x / scale, zero, ui8), scale, zero]


def centred(x: Tensor, zero: Tensor | None, axis: int | None = None) -> Tensor:
    """Integers less their zero point."""
    whole = held(x).cast(i32)
    if zero is None or (zero.array is not None and not zero.array.any()):
        return whole
    if zero.size == 1:
        return whole - zero.reshape([]).cast(i32)
    if axis is None or zero.rank > 1:
        return whole - zero.cast(i32)
    return whole - zero.cast(i32).reshape([zero.size if d == axis % x.rank else 1 for d in range(x.rank)])


@operator("MatMulInteger")
def matmul_integer(
    n: Node, a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None
) -> Tensor:
    return multiplied(centred(a, a_zero, -2), centred(b, b_zero, -1))


@operator("QLinearMatMul")
def qlinear_matmul(
    n: Node,
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor,
    scale: Tensor,
    zero: Tensor,
) -> Tensor:
    total = multiplied(centred(a, a_zero, -2), centred(b, b_zero, -1))
    left = a_scale.computed() if a_scale.size == 1 else a_scale.computed().with_axes([-1])
    factor = left * b_scale.computed() / scale.computed()
    return shifted(n, total.cast(f32) * _one(factor), _one(zero), zero.element)


def _one(x: Tensor) -> Tensor:
    return x.reshape([]) if x.size == 1 else x


@operator("ConvInteger")
def conv_integer(
    n: Node, x: Tensor, filters: Tensor, x_zero: Tensor | None = None, w_zero: Tensor | None = None
) -> Tensor:
    slide = slide_of(n, x.shape[2:], n.given("kernel_shape", filters.shape[2:]))
    return convolved(centred(x, x_zero), centred(filters, w_zero, 0), slide, n.integer("group", 1))


@operator("QLinearConv")
def qlinear_conv(
    n: Node,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    filters: Tensor,
    w_scale: Tensor,
    w_zero: Tensor,
    scale: Tensor,
    zero: Tensor,
    bias: Tensor | None = None,
) -> Tensor:
    slide = slide_of(n, x.shape[2:], n.given("kernel_shape", filters.shape[2:]))
    total = convolved(centred(x, x_zero), centred(filters, w_zero, 0), slide, n.integer("group", 1))
    line = [filters.shape[0], *[1] * (x.rank - 2)]
    if bias is not None:
        total = total + bias.reshape(line)
    factor = (
        x_scale.reshape([])
        * (w_scale.reshape([]) if w_scale.size == 1 else w_scale.reshape(line))
        / scale.reshape([])
    )
    return shifted(n, total.cast(f32) * factor, _one(zero), zero.element)
