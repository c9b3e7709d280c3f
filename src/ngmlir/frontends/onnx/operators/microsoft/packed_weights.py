# SPDX-License-Identifier: Apache-2.0
"""Matrix products with weights of 2, 4 or 8 bits, quantized in blocks, and embeddings of such weights.

Ops of the program dequantize them. These do not depend on inputs, so a compiled program runs them once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .....ir.types import f32, i8, i32, i64, ui8
from .....support.diagnostics import UserError
from ...nodes import Node
from ...schemas import contributed
from ...tensor import Tensor
from ..products import dot
from .normalization import rms_normalized

_BITS = (1, 2, 4, 8)
#: The values of the 16 codes of MatMulBnb4: FP4, and NF4 (quantiles of the normal distribution).
_FP4 = (0, 5.208333333e-3, 2 / 3, 1, 1 / 3, 0.5, 1 / 6, 0.25)
_TABLES = (
    (*_FP4, *(-x for x in _FP4)),
    (
        -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
        -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
        0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
    ),
)  # fmt: skip


def unpacked(n: Node, x: Tensor, bits: int) -> Tensor:
    """The codes that bytes hold, low bits first; the last dimension becomes 8 / bits times as long."""
    if bits not in _BITS:
        raise n.limit(f"weights of {bits} bits")
    if bits == 8:
        return x
    shifts = n.verbs.known(np.arange(0, 8, bits, dtype=np.uint8))
    wide = x.with_axes([x.rank]).broadcast([*x.shape, 8 // bits])
    moved = n.verbs.shift_right_arithmetic(wide, shifts.broadcast(wide.shape))
    codes = moved & n.verbs.numbers((1 << bits) - 1, ui8)
    return codes.reshape([*x.shape[:-1], x.shape[-1] * (8 // bits)])


def dequantized_blocks(
    n: Node, codes: Tensor, scales: Tensor, zeros: Tensor | None, bits: int, block: int
) -> Tensor:
    """Weights [..., K] in f32, from codes [..., K], scales [..., ceil(K / block)], and zero points packed in bytes or as floats."""
    outer, length, blocks = codes.shape[:-1], codes.shape[-1], scales.shape[-1]
    if blocks * block < length:
        raise UserError(f"{blocks} scales of {block} weights each for {length}")
    if zeros is None:
        point: Tensor = n.verbs.numbers(1 << (bits - 1), f32)
    elif zeros.is_float:
        point = zeros.computed().reshape([*outer, blocks])
    else:
        # The zero points of a row begin at a byte.
        wide = unpacked(n, zeros.reshape([*outer, -(-blocks * bits // 8)]), bits)
        point = wide.part(-1, 0, blocks).cast(f32)

    def each(x: Tensor) -> Tensor:
        """A parameter for each weight."""
        if x.rank == 0:
            return x
        wide = x.with_axes([-1]).broadcast([*outer, blocks, block])
        return wide.reshape([*outer, blocks * block]).part(-1, 0, length)

    return (codes.cast(f32) - each(point)) * each(scales.computed())


_NBITS: dict[str, Any] = {"K": int, "accuracy_level": 0, "bits": 4, "block_size": int}


#: The `accuracy_level` that lets inputs be rounded to 8 bits.
_EIGHT_BITS = 4


def _times(n: Node, a: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
    """The product of a[..., K] and the transpose of weights[N, K], computed in f32. Where the node permits it, each block of `a`
    is rounded to integers from -127 to 127 times its greatest magnitude / 127."""
    x = a.computed()
    if n.integer("accuracy_level") == _EIGHT_BITS and not n.verbs.exact:
        x = _rounded(n, x, n.integer("block_size"))
    made = dot(x, weights, [a.rank - 1], [1])
    return (made if bias is None else made + bias.computed()).cast(a.element)


def _rounded(n: Node, x: Tensor, block: int) -> Tensor:
    """x[..., K] as bytes with a scale for each block."""
    length = x.shape[-1]
    blocks = -(-length // block)
    inner = [0] * (x.rank - 1)
    apart = x.pad([*inner, 0], [*inner, blocks * block - length]).reshape([*x.shape[:-1], blocks, block])
    scale = n.verbs.absolute(apart).max([-1]) / 127
    safe = scale.equals(0).where(n.verbs.numbers(1, f32), scale).with_axes([-1])
    codes = n.verbs.round(apart / safe).cast(i8)
    made = codes.cast(f32) * scale.with_axes([-1])
    return made.reshape([*x.shape[:-1], blocks * block]).part(-1, 0, length)


@contributed("MatMulNBits", N=int, weight_prepacked=0, **_NBITS)
def matmul_nbits(
    n: Node,
    a: Tensor,
    b: Tensor,
    scales: Tensor,
    zero_points: Tensor | None = None,
    g_idx: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """b is [N, blocks, bytes]; `g_idx` [K] holds the block of each input feature. With `accuracy_level` 4 blocks of `a` are rounded to
    8 bits."""
    rows, length, bits, block = (n.integer(name) for name in ("N", "K", "bits", "block_size"))
    if n.flag("weight_prepacked"):
        raise n.limit("weights that were packed for one kind of GPU")
    if not b.size:
        zeros = n.verbs.numbers(0, a.element, [*a.shape[:-1], rows])
        return zeros if bias is None else zeros + bias
    blocks = -(-length // block)
    codes = unpacked(n, b.reshape([rows, b.size // rows]), bits).part(-1, 0, length)
    scales = scales.reshape([rows, blocks])
    if g_idx is None:
        return _times(n, a, dequantized_blocks(n, codes, scales, zero_points, bits, block), bias)
    # Each input feature is one block.
    groups = g_idx.reshape([g_idx.size]).part(0, 0, length)
    if zero_points is not None and not zero_points.is_float:
        zero_points = unpacked(n, zero_points.reshape([rows, -(-blocks * bits // 8)]), bits).cast(f32)
    if zero_points is not None:
        zero_points = zero_points.reshape([rows, zero_points.size // rows]).take(groups, 1)
    return _times(n, a, dequantized_blocks(n, codes, scales.take(groups, 1), zero_points, bits, 1), bias)


def _rows(n: Node, a: Tensor, rows: int, weights: Tensor, scales: Tensor, bias: Tensor | None) -> Tensor:
    """The product with one of several weights of a node, which have the default zero point."""
    bits, block, length = n.integer("bits"), n.integer("block_size"), n.integer("K")
    codes = unpacked(n, weights.reshape([rows, weights.size // rows]), bits).part(-1, 0, length)
    blocks = scales.reshape([rows, -(-length // block)])
    return _times(n, a, dequantized_blocks(n, codes, blocks, None, bits, block), bias)


def _normed(n: Node, a: Tensor, skip: Tensor | None, scale: Tensor | None) -> tuple[Tensor, Tensor]:
    """The RMS normalization of a + skip, and that sum."""
    total = a if skip is None else (a.computed() + skip.computed()).cast(a.element)
    return (total if scale is None else rms_normalized(n, total, scale, n.number("epsilon"))[0]), total


@contributed("MatMulNBitsMlp", outputs=2, N=int, activation=str, epsilon=1e-5, **_NBITS)
def matmul_nbits_mlp(
    n: Node,
    a: Tensor,
    skip: Tensor | None,
    norm_scale: Tensor | None,
    gate: Tensor,
    gate_scales: Tensor,
    gate_bias: Tensor | None,
    up: Tensor,
    up_scales: Tensor,
    up_bias: Tensor | None = None,
) -> list[Tensor]:
    if n.text("activation") != "silu":
        raise n.limit(f"MatMulNBitsMlp with the activation '{n.text('activation')}'", "there is silu")
    x, total = _normed(n, a, skip, norm_scale)
    first = _rows(n, x, n.integer("N"), gate, gate_scales, gate_bias)
    second = _rows(n, x, n.integer("N"), up, up_scales, up_bias)
    return [first * n.verbs.sigmoid(first) * second, total]


@contributed("MatMulNBitsQkv", outputs=4, Nkv=int, Nq=int, epsilon=1e-6, **_NBITS)
def matmul_nbits_qkv(
    n: Node,
    a: Tensor,
    skip: Tensor | None,
    norm_scale: Tensor,
    q: Tensor,
    q_scales: Tensor,
    q_bias: Tensor | None,
    k: Tensor,
    k_scales: Tensor,
    k_bias: Tensor | None,
    v: Tensor,
    v_scales: Tensor,
    v_bias: Tensor | None = None,
) -> list[Tensor]:
    x, total = _normed(n, a, skip, norm_scale)
    others = ((k, k_scales, k_bias), (v, v_scales, v_bias))
    return [
        _rows(n, x, n.integer("Nq"), q, q_scales, q_bias),
        *(_rows(n, x, n.integer("Nkv"), *each) for each in others),
        total,
    ]


@contributed("MatMulBnb4", K=int, N=int, block_size=int, quant_type=int, training_mode=0, transB=1)
def matmul_bnb4(n: Node, a: Tensor, b: Tensor, absmax: Tensor) -> Tensor:
    """b holds N * K codes, two in a byte, high bits first; `absmax` holds the scale of each block of them."""
    rows, length, block, kind = (n.integer(name) for name in ("N", "K", "block_size", "quant_type"))
    if kind not in (0, 1):
        raise UserError(f"there is no quant_type {kind}", hint="0 is FP4, 1 is NF4")
    codes = unpacked(n, b.reshape([b.size]), 4).reshape([b.size, 2]).reversed(1).reshape([2 * b.size])
    numbers = n.verbs.known(np.array(_TABLES[kind], np.float32)).take(codes.cast(i32), 0)
    blocks = absmax.size
    whole = numbers.pad([0], [max(0, blocks * block - numbers.size)]).part(0, 0, blocks * block)
    weights = whole.reshape([blocks, block]) * absmax.computed().reshape([blocks, 1])
    weights = weights.reshape([blocks * block]).part(0, 0, rows * length).reshape([rows, length])
    return _times(n, a, weights if n.flag("transB") else weights.transpose([1, 0]), None)


@contributed("GatherBlockQuantized", bits=4, block_size=128, gather_axis=0, quantize_axis=1)
def gather_block_quantized(
    n: Node, x: Tensor, indices: Tensor, scales: Tensor, zero_points: Tensor | None = None
) -> Tensor:
    """Slices of x along `gather_axis`, dequantized; blocks along `quantize_axis` have a scale each. Indices out of range give zeros."""
    gathered, along, block = (
        x.axis(n.integer("gather_axis")),
        x.axis(n.integer("quantize_axis")),
        n.integer("block_size"),
    )
    if x.is_float:
        raise n.limit("rows of floats of 8 or 4 bits with a scale for each block")
    bits = n.integer("bits") if x.element is ui8 else 0
    places = indices.cast(i64)
    count = x.shape[gathered]
    inside = (places >= -count) & (places < count)
    places = inside.where((places < 0).where(places + count, places), 0)
    blocks = places // block if gathered == along else places

    def cut(each: Tensor, at: Tensor, bits: int) -> Tensor:
        found = each.take(at, gathered)
        return unpacked(n, found, bits) if bits else found

    codes, factors = cut(x, places, bits).cast(f32), cut(scales, blocks, 0).computed()
    points = None if zero_points is None else cut(zero_points, blocks, bits).cast(f32)
    if gathered != along:
        axis = along + (indices.rank - 1 if along > gathered else 0)
        factors = _repeated(factors, axis, block, codes.shape[axis])
        points = None if points is None else _repeated(points, axis, block, codes.shape[axis])
    middle = float(1 << (bits - 1)) if bits else 0.0
    made = (codes - (middle if points is None else points)) * factors
    line = [*[1] * gathered, *indices.shape, *[1] * (made.rank - gathered - indices.rank)]
    return inside.reshape(line).where(made, 0).cast(scales.element)


def _repeated(x: Tensor, axis: int, block: int, length: int) -> Tensor:
    """Repeats each slice along an axis for its block, up to a length."""
    wide = x.with_axes([axis + 1])
    shape = list(wide.shape)
    shape[axis + 1] = block
    return (
        wide.broadcast(shape)
        .reshape([*x.shape[:axis], x.shape[axis] * block, *x.shape[axis + 1 :]])
        .part(axis, 0, length)
    )
