# SPDX-License-Identifier: Apache-2.0
"""What operators of com.microsoft give, by NumPy: activations, normalisation, products, convolutions, moves.

A reference takes the inputs of a node (None is absent) and its attributes, and gives its outputs, all of them or the first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Attributes = dict[str, Any]
REFERENCES: dict[str, Callable[..., Any]] = {}
_erf = np.vectorize(math.erf, otypes=[np.float64])


def reference(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(made: Callable[..., Any]) -> Callable[..., Any]:
        REFERENCES.update(dict.fromkeys(names, made))
        return made

    return add


def wide(x: Array) -> Array:
    return np.asarray(x, np.float64)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-wide(x)))


def gelu(x: Array) -> Array:
    return wide(x) * (1 + _erf(wide(x) / math.sqrt(2))) / 2


def tanh_gelu(x: Array) -> Array:
    y = wide(x)
    return y / 2 * (1 + np.tanh(0.7978845608028654 * y * (1 + 0.044715 * y**2)))


def softmax(x: Array, axis: Any = -1) -> Array:
    e = np.exp(wide(x) - wide(x).max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def plus(x: Array, *others: Array | None) -> Array:
    for other in others:
        x = wide(x) if other is None else wide(x) + wide(other)
    return x


reference("Gelu")(lambda x, a: gelu(x[0]))
reference("BiasGelu")(lambda x, a: gelu(plus(*x)))
reference("FastGelu")(lambda x, a: tanh_gelu(plus(*x)))
reference("QuickGelu")(lambda x, a: wide(x[0]) * sigmoid(a.get("alpha", 1.702) * wide(x[0])))
reference("ScaledSiLU")(lambda x, a: a["alpha"] * wide(x[0]) * sigmoid(a["alpha"] * wide(x[0])))
reference("BiasAdd")(lambda x, a: plus(*x))
reference("GatedAdd")(lambda x, a: wide(x[0]) + wide(x[1]) * wide(x[2]))
reference("BiasSoftmax")(lambda x, a: softmax(plus(*x), tuple(range(a["axis"], x[0].ndim))))
reference("BiasDropout")(lambda x, a: plus(*x))


@reference("SwiGLU")
def _swiglu(x: list[Any], a: Attributes) -> Array:
    g, u = (wide(x[0]), wide(x[1])) if x[1] is not None else np.split(wide(x[0]), 2, -1)
    return swiglu(g, u, a["activation_alpha"], a["activation_beta"], a["limit"] or np.inf)


def swiglu(g: Array, u: Array, alpha: float, beta: float, limit: float) -> Array:
    g, u = np.minimum(g, limit), np.clip(u, -limit, limit)
    return g * sigmoid(alpha * g) * (u + beta)


@reference("BiasSplitGelu")
def _bias_split(x: list[Any], a: Attributes) -> Array:
    left, right = np.split(plus(*x), 2, -1)
    return left * gelu(right)


# ---- products


def ended(y: Array, name: str, numbers: dict[str, float]) -> Array:
    alpha, beta = numbers.get("alpha", 0.0), numbers.get("beta", 0.0)
    return {
        "": lambda: y,
        "Relu": lambda: np.maximum(y, 0),
        "Tanh": lambda: np.tanh(y),
        "Sigmoid": lambda: sigmoid(y),
        "LeakyRelu": lambda: np.where(y < 0, alpha * y, y),
        "HardSigmoid": lambda: np.clip(alpha * y + beta, 0, 1),
        "Softplus": lambda: np.log1p(np.exp(y)),
        "Softsign": lambda: y / (1 + abs(y)),
        "Elu": lambda: np.where(y < 0, alpha * np.expm1(y), y),
        "ThresholdedRelu": lambda: np.where(y > alpha, y, 0),
        "Clip": lambda: np.clip(y, alpha, beta),
    }[name]()


def _told(a: Attributes) -> dict[str, float]:
    return {key.removeprefix("activation_"): v for key, v in a.items() if key.startswith("activation_")}


@reference("FusedMatMul", "TransposeMatMul", "FusedMatMulActivation")
def _fused_matmul(x: list[Any], a: Attributes) -> Array:
    sides = []
    for side, m in zip("AB", x, strict=True):
        m = wide(m)
        m = np.moveaxis(m, 0, -2) if a.get(f"transBatch{side}") else m
        sides.append(np.swapaxes(m, -1, -2) if a.get(f"trans{side}") else m)
    return ended(a["alpha"] * (sides[0] @ sides[1]), a.get("activation", ""), _told(a))


@reference("FusedGemm")
def _fused_gemm(x: list[Any], a: Attributes) -> Array:
    left, right = (wide(m).T if a[f"trans{side}"] else wide(m) for side, m in zip("AB", x[:2], strict=True))
    made = a["alpha"] * (left @ right) + (0 if x[2] is None else a["beta"] * wide(x[2]))
    return ended(made, a.get("activation", ""), _told(a))


reference("GemmFastGelu")(lambda x, a: tanh_gelu(plus(wide(x[0]) @ wide(x[1]), x[2])))
reference("MatMulInteger16")(lambda x, a: x[0].astype(np.int32) @ x[1].astype(np.int32))
reference("Inverse")(lambda x, a: np.linalg.inv(wide(x[0])))


# ---- windows


def places(
    a: Attributes, lengths: Any, taps: Any
) -> tuple[list[int], list[int], list[int], list[int], list[int]]:
    """Steps, dilations, what lies before, counts of windows, and spans."""
    rank = len(taps)
    steps, dilations = a.get("strides", [1] * rank), a.get("dilations", [1] * rank)
    pads, rule = a.get("pads", [0] * 2 * rank), a.get("auto_pad", "NOTSET")
    before, counts = [], []
    spans = [(t - 1) * by + 1 for t, by in zip(taps, dilations)]
    for i, (n, span, step) in enumerate(zip(lengths, spans, steps)):
        low, high = pads[i], pads[i + rank]
        if rule.startswith("SAME"):
            total = max((-(-n // step) - 1) * step + span - n, 0)
            low = total // 2 if rule == "SAME_UPPER" else total - total // 2
            high = total - low
        elif rule == "VALID":
            low = high = 0
        rest = n + low + high - span
        count = -(-rest // step) + 1 if a.get("ceil_mode") else rest // step + 1
        if a.get("ceil_mode") and (count - 1) * step >= n + low:
            count -= 1
        before.append(low)
        counts.append(count)
    return steps, dilations, before, counts, spans


def taps_of(x: Array, a: Attributes, taps: Any) -> Any:
    """Of each window its place, and of each tap its own and the elements [N, C] that it reads (None outside)."""
    lengths = x.shape[2:]
    steps, dilations, before, counts, _ = places(a, lengths, taps)
    for at in product(*map(range, counts)):
        read = []
        for tap in product(*map(range, taps)):
            where = [i * s - lo + t * by for i, s, lo, t, by in zip(at, steps, before, tap, dilations)]
            inside = all(0 <= w < n for w, n in zip(where, lengths))
            read.append((tap, x[(slice(None), slice(None), *where)] if inside else None))
        yield at, counts, read


def convolved(x: Array, w: Array, a: Attributes) -> Array:
    """x[N, C, ...] and w[M, C / group, ...]."""
    group, taps = a.get("group", 1), w.shape[2:]
    each, inner = w.shape[0] // group, w.shape[1]
    made: Any = None
    for at, counts, read in taps_of(x, a, taps):
        made = np.zeros((x.shape[0], w.shape[0], *counts), x.dtype) if made is None else made
        for tap, found in read:
            if found is None:
                continue
            for g in range(group):
                part = (
                    found[:, g * inner : (g + 1) * inner]
                    @ w[(slice(g * each, (g + 1) * each), slice(None), *tap)].T
                )
                made[(slice(None), slice(g * each, (g + 1) * each), *at)] += part
    return made


@reference("FusedConv", "NhwcFusedConv", "NhwcConv")
def _fused_conv(x: list[Any], a: Attributes, op: str) -> Array:
    image = np.moveaxis(x[0], -1, 1) if op.startswith("Nhwc") else x[0]
    filters = np.moveaxis(x[1], -1, 1) if op == "NhwcConv" else x[1]
    made = convolved(wide(image), wide(filters), a)
    if x[2] is not None:
        made = made + wide(x[2]).reshape(-1, *[1] * (made.ndim - 2))
    told = dict(zip(("alpha", "beta"), a.get("activation_params", ())))
    made = ended(made, a.get("activation", ""), told)
    return np.moveaxis(made, 1, -1) if op.startswith("Nhwc") else made


@reference("NhwcMaxPool")
def _max_pool(x: list[Any], a: Attributes) -> Array:
    image = np.moveaxis(x[0], -1, 1)
    made: Any = None
    for at, counts, read in taps_of(image, a, a["kernel_shape"]):
        made = np.zeros((*image.shape[:2], *counts), image.dtype) if made is None else made
        least = np.full(image.shape[:2], np.iinfo(image.dtype).min)
        made[(slice(None), slice(None), *at)] = np.max([least if f is None else f for _, f in read], 0)
    return np.moveaxis(made, 1, -1)


# ---- normalisation


def normed(x: Array, gamma: Array, beta: Array | None, epsilon: float) -> Array:
    y = wide(x)
    made = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + epsilon)
    return plus(made * wide(gamma), beta)


def rooted(x: Array, gamma: Array, epsilon: float) -> Array:
    y = wide(x)
    return y / np.sqrt((y**2).mean(-1, keepdims=True) + epsilon) * wide(gamma)


@reference("SimplifiedLayerNormalization")
def _simplified(x: list[Any], a: Attributes) -> Array:
    return rooted(x[0], x[1], a["epsilon"])


@reference("SkipLayerNormalization")
def _skip(x: list[Any], a: Attributes) -> Any:
    total = plus(x[0], x[1], x[4])
    return normed(total, x[2], x[3], a["epsilon"]), None, None, total


@reference("SkipSimplifiedLayerNormalization")
def _skip_simplified(x: list[Any], a: Attributes) -> Any:
    total = plus(x[0], x[1], x[3])
    return rooted(total, x[2], a["epsilon"]), None, None, total


@reference("GatedRMSNorm")
def _gated_rms(x: list[Any], a: Attributes) -> Array:
    parts = wide(x[0]).reshape(-1, x[1].size)
    z = wide(x[2])
    gate = sigmoid(z) * (1 if a["activation"] == "sigmoid" else z)
    return rooted(parts, x[1], 1e-5).reshape(z.shape) * gate


@reference("GroupNorm", "SkipGroupNorm")
def _group_norm(x: list[Any], a: Attributes, op: str) -> Any:
    y, last = wide(x[0]), a["channels_last"]
    y = np.moveaxis(y, -1, 1) if last else y
    n, c, h, w = y.shape
    if op == "SkipGroupNorm":
        skip = (
            wide(x[3]).reshape(n, c, 1, 1)
            if x[3].size == n * c
            else np.moveaxis(x[3], -1, 1)
            if last
            else x[3]
        )
        y = y + skip + (0 if x[4] is None else wide(x[4]).reshape(1, c, 1, 1))
    parts = y.reshape(n, a["groups"], -1)
    parts = (parts - parts.mean(2, keepdims=True)) / np.sqrt(parts.var(2, keepdims=True) + a["epsilon"])
    made = parts.reshape(y.shape) * wide(x[1])[:, None, None] + wide(x[2])[:, None, None]
    made = made * sigmoid(made) if a["activation"] else made
    return tuple(np.moveaxis(t, 1, -1) if last else t for t in (made, y))


def embedded(x: list[Any], epsilon: float) -> Any:
    ids, segments, words, places_, kinds, gamma, beta, mask, positions = (*x, *[None] * (9 - len(x)))
    at = np.arange(ids.shape[1]) if positions is None else positions
    total = wide(words)[ids] + wide(places_)[at] + (0 if segments is None else wide(kinds)[segments])
    counts = np.zeros(len(ids), np.int32) if mask is None else mask.sum(1).astype(np.int32)
    return normed(total, gamma, beta, epsilon), counts, total


reference("EmbedLayerNormalization")(lambda x, a: embedded(x, a["epsilon"]))


# ---- moves


reference("Trilu")(lambda x, a: (np.triu if a["upper"] else np.tril)(x[0], 0 if x[1] is None else int(x[1])))
reference("Range")(lambda x, a: np.arange(x[0], x[1], 1 if x[2] is None else x[2], x[0].dtype))
reference("ExpandDims")(lambda x, a: np.expand_dims(x[0], int(x[1])))
reference("GatherND")(lambda x, a: x[0][tuple(np.moveaxis(x[1], -1, 0))])
reference("ComplexMul")(lambda x, a: _pairs(_complex(x[0]) * _complex(x[1])))
reference("ComplexMulConj")(lambda x, a: _pairs(_complex(x[0]) * _complex(x[1]).conj()))
reference("Rfft")(lambda x, a: _pairs(np.fft.rfft(x[0])))
reference("Irfft")(lambda x, a: np.fft.irfft(_complex(x[0])))


def _complex(x: Array) -> Array:
    return wide(x[..., 0]) + 1j * wide(x[..., 1])


def _pairs(x: Array) -> Array:
    return np.stack([x.real, x.imag], -1)


@reference("Pad")
def _pad(x: list[Any], a: Attributes) -> Array:
    pads = x[1].reshape(2, -1).T
    more = {"constant_values": 0 if x[2] is None else x[2].item()} if a["mode"] == "constant" else {}
    return np.pad(x[0], pads, a["mode"], **more)


@reference("Unique")
def _unique(x: list[Any], a: Attributes) -> Any:
    values = list(dict.fromkeys(x[0].tolist()))
    places_ = [values.index(v) for v in x[0].tolist()]
    return (
        np.array(values, x[0].dtype),
        np.array(places_),
        np.array([places_.count(i) for i in range(len(values))]),
    )


@reference("UnfoldTensor")
def _unfold(x: list[Any], a: Attributes) -> Array:
    axis = a["dim"] % x[0].ndim
    return np.take(
        np.lib.stride_tricks.sliding_window_view(x[0], a["size"], axis),
        range(0, x[0].shape[axis] - a["size"] + 1, a["step"]),
        axis,
    )


@reference("CDist")
def _cdist(x: list[Any], a: Attributes) -> Array:
    made = ((wide(x[0])[:, None] - wide(x[1])[None]) ** 2).sum(2)
    return np.sqrt(made) if a["metric"] == "euclidean" else made
