# SPDX-License-Identifier: Apache-2.0
"""What operators of com.microsoft on integers with scales, and on weights that share bytes, give, by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from microsoft_references import (
    Array,
    Attributes,
    convolved,
    embedded,
    plus,
    reference,
    rooted,
    sigmoid,
    softmax,
    swiglu,
    tanh_gelu,
    taps_of,
    wide,
)


def real(codes: Array, scale: Array, zero: Array | None) -> Array:
    return (wide(codes) - (0 if zero is None else wide(zero))) * wide(scale)


def codes(x: Array, scale: Array, zero: Array | None, dtype: Any) -> Array:
    info = np.iinfo(dtype)
    return np.clip(np.rint(x / wide(scale)) + (0 if zero is None else wide(zero)), info.min, info.max).astype(
        dtype
    )


def _one(compute: Any) -> Any:
    """Numbers from one integer tensor, as integers again."""
    return lambda x, a: codes(compute(real(*x[:3]), a), x[3], x[4], x[0].dtype)


reference("QLinearAdd")(lambda x, a: codes(real(*x[:3]) + real(*x[3:6]), x[6], x[7], x[0].dtype))
reference("QLinearMul")(lambda x, a: codes(real(*x[:3]) * real(*x[3:6]), x[6], x[7], x[0].dtype))
reference("QLinearSigmoid")(_one(lambda y, a: sigmoid(y)))
reference("QLinearLeakyRelu")(_one(lambda y, a: np.where(y < 0, a.get("alpha", 0.01) * y, y)))
reference("QLinearReduceMean")(_one(lambda y, a: y.mean(tuple(a["axes"]), keepdims=bool(a["keepdims"]))))
reference("QLinearSoftmax")(
    _one(lambda y, a: softmax(y, a["axis"] if a["opset"] > 12 else tuple(range(a["axis"] % y.ndim, y.ndim))))
)
reference("QLinearGlobalAveragePool")(
    _one(
        lambda y, a: y.mean(
            tuple(range(1, y.ndim - 1) if a["channels_last"] else range(2, y.ndim)), keepdims=True
        )
    )
)
reference("MulInteger")(lambda x, a: (x[0].astype(np.int32) - x[1]) * (x[2].astype(np.int32) - x[3]))
reference("ReduceSumInteger")(
    lambda x, a: x[0].sum(tuple(a["axes"]), dtype=np.int32, keepdims=bool(a["keepdims"]))
)


@reference("QLinearConcat")
def _concat(x: list[Any], a: Attributes) -> Array:
    parts = [codes(real(*x[i : i + 3]), x[0], x[1], x[1].dtype) for i in range(2, len(x), 3)]
    return np.concatenate(parts, a["axis"])


@reference("QLinearWhere")
def _where(x: list[Any], a: Attributes) -> Array:
    return codes(np.where(x[0], real(*x[1:4]), real(*x[4:7])), x[7], x[8], x[1].dtype)


@reference("QLinearAveragePool")
def _average(x: list[Any], a: Attributes) -> Array:
    y = real(*x[:3])
    y = np.moveaxis(y, -1, 1) if a["channels_last"] else y
    made: Any = None
    for at, counts, read in taps_of(y, a, a["kernel_shape"]):
        made = np.zeros((*y.shape[:2], *counts)) if made is None else made
        found = [f for _, f in read if f is not None]
        made[(slice(None), slice(None), *at)] = sum(found) / (
            len(read) if a["count_include_pad"] else len(found)
        )
    made = np.moveaxis(made, 1, -1) if a["channels_last"] else made
    return codes(made, x[3], x[4], x[0].dtype)


def _spread(scale: Array, like: Array, axis: int) -> Array:
    return (
        scale.reshape([-1 if i == axis % like.ndim else 1 for i in range(like.ndim)]) if scale.ndim else scale
    )


@reference("QuantizeLinear")
def _quantize(x: list[Any], a: Attributes) -> Array:
    scale = _spread(wide(x[1]), x[0], a.get("axis", 1)) if x[0].ndim else wide(x[1])
    dtype = np.dtype(np.uint8) if x[2] is None else x[2].dtype
    zero = 0 if x[2] is None else _spread(wide(x[2]), x[0], a.get("axis", 1))
    low, high = {"int4": (-8, 7), "uint4": (0, 15)}.get(dtype.name) or (
        np.iinfo(dtype).min,
        np.iinfo(dtype).max,
    )
    made = np.clip(np.rint(np.float32(x[0]) / np.float32(scale)) + zero, low, high)
    return made.astype(np.int8 if dtype.name.endswith("int4") else dtype)


@reference("DequantizeLinear")
def _dequantize(x: list[Any], a: Attributes) -> Array:
    scale = _spread(wide(x[1]), x[0], a.get("axis", 1))
    return (wide(x[0]) - (0 if x[2] is None else _spread(wide(x[2]), x[0], a.get("axis", 1)))) * scale


# ---- products


@reference("QGemm")
def _qgemm(x: list[Any], a: Attributes) -> Array:
    left = x[0].T if a["transA"] else x[0]
    right = x[3].T if a["transB"] else x[3]
    total = (left.astype(np.int64) - x[2]) @ (right.astype(np.int64) - x[5]) + (0 if x[6] is None else x[6])
    made = total * wide(x[1]) * wide(x[4]) * a["alpha"]
    return made if x[7] is None else codes(made, x[7], x[8], x[8].dtype)


@reference("MatMulIntegerToFloat")
def _to_float(x: list[Any], a: Attributes) -> Array:
    return plus(real(x[0], x[2], x[4]) @ real(x[1], x[3], x[5]), x[6])


def rounded(x: Array) -> Array:
    """To 8 bits, and back."""
    low, high = np.float32(min(x.min(), 0)), np.float32(max(x.max(), 0))
    scale = np.float32((high - low) / np.float32(255)) or np.float32(1)
    zero = np.rint(np.float32(-low) / scale)
    return (np.clip(np.rint(np.float32(x) / scale) + zero, 0, 255) - zero) * wide(scale)


@reference("DynamicQuantizeMatMul")
def _dynamic(x: list[Any], a: Attributes) -> Array:
    return plus(rounded(x[0]) @ real(x[1], x[2], x[3]), x[4])


@reference("DynamicQuantizeLSTM")
def _lstm(x: list[Any], a: Attributes) -> Any:
    steps, batch, _ = x[0].shape
    hidden, ways = a["hidden_size"], len(x[1])
    outputs, last_h, last_c = np.zeros((steps, ways, batch, hidden)), [], []
    ends = np.full(batch, steps) if x[4] is None else x[4]
    limit = a.get("clip", np.inf)
    for d in range(ways):
        w, r = (real(x[1 + i][d], x[8 + 2 * i][d], x[9 + 2 * i][d]) for i in range(2))
        bias = np.zeros(8 * hidden) if x[3] is None else wide(x[3][d])
        h, c = (np.zeros((batch, hidden)) if s is None else wide(s[d]) for s in x[5:7])
        p = np.zeros(3 * hidden) if x[7] is None else wide(x[7][d])
        pi, po, pf = np.split(p, 3)
        given = rounded(x[0][: ends.max()]) @ w + bias[: 4 * hidden] + bias[4 * hidden :]
        back = a["direction"] == "reverse" or d == 1
        for step in range(ends.max()):
            # Backwards each sequence begins at its own end; the states of those that ended count as zeros.
            at = np.clip(ends - 1 - step, 0, None) if back else np.full(batch, step)
            now = given[at, np.arange(batch)] + rounded(np.where((step <= ends)[:, None], h, 0)) @ r
            i, o, f, g = np.split(now, 4, -1)
            i, f = (sigmoid(np.clip(y + q * c, -limit, limit)) for y, q in ((i, pi), (f, pf)))
            new = f * c + i * np.tanh(np.clip(g, -limit, limit))
            shown = sigmoid(np.clip(o + po * new, -limit, limit)) * np.tanh(new)
            inside = step < ends
            outputs[at[inside], d, inside] = shown[inside]
            h, c = np.where(inside[:, None], shown, h), np.where(inside[:, None], new, c)
        last_h.append(h)
        last_c.append(c)
    return outputs, np.stack(last_h), np.stack(last_c)


@reference("QLinearConv")
def _qlinear_conv(x: list[Any], a: Attributes) -> Array:
    image = x[0].astype(np.int64) - x[2]
    image = np.moveaxis(image, -1, 1) if a["channels_last"] else image
    rank = image.ndim - 2
    zero = x[5].astype(np.int64).reshape(-1, *[1] * (rank + 1)) if x[5].ndim else x[5].astype(np.int64)
    total = convolved(image, x[3].astype(np.int64) - zero, a)
    line = [-1, *[1] * rank]
    total = total + (0 if x[8] is None else x[8].reshape(line))
    made = codes(
        total * wide(x[1]) * (wide(x[4]).reshape(line) if x[4].ndim else wide(x[4])), x[6], x[7], x[7].dtype
    )
    return np.moveaxis(made, 1, -1) if a["channels_last"] else made


@reference("QEmbedLayerNormalization")
def _qembed(x: list[Any], a: Attributes) -> Any:
    parts = [None if c is None else real(c, x[8 + i], x[13 + i]) for i, c in enumerate(x[2:7])]
    return embedded([x[0], x[1], *parts, x[7], None], a["epsilon"])


# ---- weights that share bytes


def unpacked(x: Array, bits: int) -> Array:
    """Codes of the last axis, the low bits first."""
    return np.stack([(x >> s) & ((1 << bits) - 1) for s in range(0, 8, bits)], -1).reshape(*x.shape[:-1], -1)


def weights(
    x: Array, scales: Array, zeros: Array | None, a: Attributes, groups: Array | None = None
) -> Array:
    """[..., rows, K]; `groups` [K] are the blocks of input features, where they are not in order."""
    bits, block, blocks = a.get("bits", 4), a["block_size"], scales.shape[-1]
    whole = unpacked(x, bits).reshape(*scales.shape[:-1], -1)
    point: Any = 1 << (bits - 1)
    if zeros is not None:
        point = wide(zeros) if zeros.dtype.kind == "f" else unpacked(zeros, bits)[..., :blocks]
    length = a.get("K", whole.shape[-1])
    at = np.arange(length) // block if groups is None else groups[:length]
    spread = [t[..., at] if np.ndim(t) else t for t in (point, wide(scales))]
    return (whole[..., :length] - wide(spread[0])) * spread[1]


@reference("MatMulNBits")
def _nbits(x: list[Any], a: Attributes) -> Array:
    return plus(wide(x[0]) @ weights(x[1], x[2], x[3], a, x[4]).T, x[5])


@reference("MatMulNBitsMlp", "MatMulNBitsQkv")
def _nbits_of_several(x: list[Any], a: Attributes, op: str) -> Any:
    total = plus(x[0], x[1])
    y = total if x[2] is None else rooted(total, x[2], 1e-5 if op == "MatMulNBitsMlp" else 1e-6)
    made = [plus(y @ weights(x[i], x[i + 1], None, a).T, x[i + 2]) for i in range(3, len(x), 3)]
    if op == "MatMulNBitsMlp":
        made = [made[0] * sigmoid(made[0]) * made[1]]
    return *made, total


@reference("MatMulBnb4")
def _bnb4(x: list[Any], a: Attributes) -> Array:
    quantiles = [
        -1, -0.69619280, -0.52507305, -0.39491749, -0.28444138, -0.18477343, -0.09105004, 0,
        0.07958030, 0.16093020, 0.24611230, 0.33791524, 0.44070983, 0.56261700, 0.72295684, 1,
    ]  # fmt: skip
    half = [0, 0.0625 / 12, 8 / 12, 12 / 12, 4 / 12, 6 / 12, 2 / 12, 3 / 12]
    table = np.array(quantiles if a["quant_type"] else [*half, *(-v for v in half)])
    size = a["N"] * a["K"]
    numbers = table[np.stack([x[1] >> 4, x[1] & 15], -1).reshape(-1)[:size]]
    return wide(x[0]) @ (numbers * np.repeat(wide(x[2]), a["block_size"])[:size]).reshape(a["N"], a["K"]).T


@reference("GatherBlockQuantized")
def _gather_blocks(x: list[Any], a: Attributes) -> Array:
    data, at, scales, zeros = x
    middle = 0
    if data.dtype == np.uint8:
        middle, data = 1 << (a["bits"] - 1), unpacked(data, a["bits"])
        zeros = None if zeros is None else unpacked(zeros, a["bits"])[..., : scales.shape[-1]]
    axis = a["quantize_axis"]
    count = range(data.shape[axis])
    spread = [
        np.take(t, [i // a["block_size"] for i in count], axis)
        for t in (scales, scales if zeros is None else zeros)
    ]
    whole = (wide(data) - (middle if zeros is None else wide(spread[1]))) * wide(spread[0])
    return np.take(whole, at, a["gather_axis"])


# ---- experts


def _mixture(
    x: Array, router: Array, mixing: Array | None, layers: list[Any], a: Attributes, always: bool
) -> Array:
    made = np.zeros(x.shape)
    (w1, b1), (w2, b2) = layers
    for t in range(len(x)):
        best = np.argsort(-router[t], kind="stable")[: a["k"]]
        if mixing is not None:
            share = wide(mixing[t])[best]
            share = share / share.sum() if a["normalize_routing_weights"] else share
        elif a["normalize_routing_weights"] or always:
            share = softmax(router[t][best])
        else:
            share = softmax(router[t])[best]
        for e, s in zip(best, share, strict=True):
            y = plus(w1[e] @ wide(x[t]), None if b1 is None else b1[e])
            kind = a["activation_type"]
            if kind == "swiglu":
                y = swiglu(
                    y[::2],
                    y[1::2],
                    a["activation_alpha"],
                    a["activation_beta"],
                    a.get("swiglu_limit", np.inf),
                )
            else:
                y = {"relu": np.maximum(y, 0), "silu": y * sigmoid(y), "gelu": tanh_gelu(y), "identity": y}[
                    kind
                ]
            made[t] += s * plus(w2[e] @ y, None if b2 is None else b2[e])
    return made


@reference("MoE")
def _moe(x: list[Any], a: Attributes) -> Array:
    return _mixture(x[0], x[1], None, [(wide(x[2]), x[3]), (wide(x[4]), x[5])], a, False)


@reference("QMoE")
def _qmoe(x: list[Any], a: Attributes) -> Array:
    layers = []
    for i in (2, 5):
        scales = x[i + 1] if x[i + 1].ndim == 3 else x[i + 1][..., None]
        length = x[i].shape[2] * 8 // a["expert_weight_bits"]
        told = {"bits": a["expert_weight_bits"], "block_size": a.get("block_size", length)}
        layers.append((weights(x[i], scales, None, told), x[i + 2]))
    return _mixture(x[0], x[1], x[14] if len(x) > 8 else None, layers, a, True)
