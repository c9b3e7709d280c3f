# SPDX-License-Identifier: Apache-2.0
"""Matrix products and LSTMs of quantized tensors: sums of integers are exact, and scaled once."""

from __future__ import annotations

from dataclasses import replace

from .....ir.types import f32, i32
from ...nodes import Node
from ...schemas import contributed
from ...tensor import Tensor
from ..products import dot, multiplied
from ..quantization import centred, dynamic_quantize
from ..recurrent import Product, directed
from .quantized import requantized


def _scale(x: Tensor, axis: int = -1) -> Tensor:
    """A scale for all elements, or for each row (axis -2) or column (axis -1)."""
    x = x.computed()
    return x.reshape([]) if x.size == 1 else x.with_axes([-1]) if axis == -2 and x.rank == 1 else x


@contributed("QGemm", alpha=1.0, transA=0, transB=0)
def qgemm(
    n: Node,
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor,
    c: Tensor | None = None,
    scale: Tensor | None = None,
    zero: Tensor | None = None,
) -> Tensor:
    """The result is f32 without an output scale. Scale and zero point of b are for all elements or for each column."""
    back = n.flag("transB")
    left, right = centred(a, a_zero), centred(b, b_zero, 0 if back else 1)
    total = dot(left, right, [0 if n.flag("transA") else 1], [1 if back else 0])
    total = total if c is None else total + c
    factor = _scale(a_scale) * _scale(b_scale) * n.number("alpha")
    if scale is None:
        return total.cast(f32) * factor
    element = zero.element if zero is not None else a.element
    return requantized(
        n, total.cast(f32) * (factor / scale.reshape([])), n.verbs.numbers(1, f32), zero, element
    )


@contributed("MatMulIntegerToFloat")
def matmul_integer_to_float(
    n: Node,
    a: Tensor,
    b: Tensor,
    a_scale: Tensor,
    b_scale: Tensor,
    a_zero: Tensor | None = None,
    b_zero: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    total = multiplied(centred(a, a_zero, -2), centred(b, b_zero, -1)).cast(f32)
    made = total * (_scale(a_scale, -2) * _scale(b_scale))
    return (made if bias is None else made + bias.computed()).cast(a_scale.element)


def _rounded_product(n: Node, x: Tensor, b: Tensor, scale: Tensor, zero: Tensor | None) -> Tensor:
    """The product of x, quantized dynamically to 8 bits, and quantized weights."""
    codes, own, point = dynamic_quantize(n, x)
    total = multiplied(centred(codes, point), centred(b, zero, -1))
    return total.cast(f32) * (own * _scale(scale))


@contributed("DynamicQuantizeMatMul")
def dynamic_quantize_matmul(
    n: Node, a: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor | None = None, bias: Tensor | None = None
) -> Tensor:
    made = _rounded_product(n, a, b, b_scale, b_zero)
    return made if bias is None else made + bias


@contributed(
    "DynamicQuantizeLSTM",
    outputs=3,
    activation_alpha=list[float],
    activation_beta=list[float],
    activations=list[str],
    clip=float | None,
    direction="forward",
    hidden_size=int | None,
    input_forget=0,
)
def dynamic_quantize_lstm(
    n: Node,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None,
    lengths: Tensor | None,
    h: Tensor | None,
    c: Tensor | None,
    p: Tensor | None,
    w_scale: Tensor,
    w_zero: Tensor,
    r_scale: Tensor,
    r_zero: Tensor,
) -> list[Tensor]:
    """w is [directions, I, 4 * H], r is [directions, H, 4 * H]. At each step the states of all sequences are quantized with one
    scale. Elements of x after the end of the longest sequence do not affect its scale."""

    def product(d: int, weights: Tensor, scale: Tensor, zero: Tensor) -> Product:
        # The LSTM asks for all gates at once.
        return lambda y, first, last: _rounded_product(n, y, weights.at(0, d), scale.at(0, d), zero.at(0, d))

    products = [(product(d, w, w_scale, w_zero), product(d, r, r_scale, r_zero)) for d in range(w.shape[0])]
    if lengths is not None:
        line = n.verbs.arange(x.shape[0], i32).reshape([x.shape[0], 1, 1])
        x = (line < lengths.cast(i32).max()).where(x, 0)
    lstm = replace(n, op="LSTM")
    return directed(lstm, x, products, w.shape[2], r.shape[1], b, lengths, [h, c], p, together=True)
