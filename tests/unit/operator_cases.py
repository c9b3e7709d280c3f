# SPDX-License-Identifier: Apache-2.0
"""Each operator of programs on numbers, with what it gives, computed by NumPy here.

A case is (inputs, attributes, reference). An input is a shape (normal numbers), an array, or a list of these for a list slot.
The reference takes the inputs by slot, as arrays, and attributes; it gives the first outputs, in the order of the entry.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray
Case = tuple[dict[str, Any], dict[str, Any], Callable[..., Any] | None]

RNG = np.random.default_rng(7)


def normal(*shape: int) -> Array:
    return RNG.normal(size=shape)


def positive(*shape: int) -> Array:
    return RNG.uniform(0.3, 2.0, shape)


def away(*shape: int) -> Array:
    """Numbers that are not near 0, nor near whole numbers or halves."""
    return RNG.choice([-1, 1], shape) * (RNG.integers(0, 3, shape) + RNG.uniform(0.1, 0.4, shape))


def share(*shape: int) -> Array:
    """Rows of probabilities."""
    made = RNG.uniform(0.1, 1.0, shape)
    return made / made.sum(-1, keepdims=True)


def classes(*shape: int, below: int) -> Array:
    return RNG.integers(0, below, shape).astype(np.int64)


def bools(*shape: int) -> Array:
    return RNG.integers(0, 2, shape).astype(bool)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def divergence(x: Array, target: Array, reduction: str) -> Array:
    loss = np.where(target > 0, target * (np.log(np.where(target > 0, target, 1)) - x), 0)
    by = {"none": lambda: loss, "mean": loss.mean, "sum": loss.sum, "batchmean": lambda: loss.sum() / len(x)}
    return by[reduction]() if reduction == "none" else by[reduction]().reshape(1)


def softmax(x: Array) -> Array:
    made = np.exp(x - x.max(-1, keepdims=True))
    return made / made.sum(-1, keepdims=True)


def along(x: Array, y: Array, axis: int) -> Array:
    start = x.ndim - y.ndim if axis == -1 else axis
    return y.reshape(*y.shape, *[1] * (x.ndim - start - y.ndim))


def binary(function: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    return lambda X, Y, axis=-1, **_: function(X, along(X, Y, axis))


def unary(function: Callable[[Array], Array]) -> list[Case]:
    return [({"X": away(3, 4)}, {}, lambda X: function(X))]


def conv(x: Array, w: Array, strides: Any, paddings: Any, groups: int, dilations: Any) -> Array:
    """A convolution, number by number."""
    x = np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in paddings]])
    n, _, *lengths = x.shape
    out, inner, *taps = w.shape
    spans = [(k - 1) * d + 1 for k, d in zip(taps, dilations, strict=True)]
    counts = [(h - s) // t + 1 for h, s, t in zip(lengths, spans, strides, strict=True)]
    made = np.zeros((n, out, *counts))
    for at in np.ndindex(*counts):
        cut = tuple(
            slice(p * s, p * s + e, d) for p, s, e, d in zip(at, strides, spans, dilations, strict=True)
        )
        for o in range(out):
            g = o // (out // groups)
            part = x[(slice(None), slice(g * inner, (g + 1) * inner), *cut)]
            made[(slice(None), o, *at)] = (part * w[o]).sum(tuple(range(1, part.ndim)))
    return made


def conv_case(groups: int = 1, rank: int = 2, dilations: int = 1) -> Case:
    lengths = (7, 6, 5)[:rank]
    settings = {
        "strides": [2, 1, 1][:rank],
        "paddings": [1, 0, 1][:rank],
        "groups": groups,
        "dilations": [dilations, 1, 1][:rank],
    }
    inputs = {"Input": (2, 4, *lengths), "Filter": (6 if groups < 4 else 4, 4 // groups, *(3, 2, 2)[:rank])}
    return inputs, settings, lambda Input, Filter, **s: conv(Input, Filter, **s)


def transposed_case(groups: int = 1, rank: int = 2) -> Case:
    lengths = (3, 4, 3)[:rank]
    settings = {
        "strides": [2, 1, 1][:rank],
        "paddings": [1, 0, 1][:rank],
        "groups": groups,
        "dilations": [1, 2, 1][:rank],
    }
    return (
        {"Input": (2, 4, *lengths), "Filter": (4, 6 // groups if groups < 4 else 1, *(3, 2, 2)[:rank])},
        settings,
        transposed,
    )


def transposed(
    Input: Array, Filter: Array, strides: Any, paddings: Any, groups: int, dilations: Any
) -> Array:
    n, channels, *lengths = Input.shape
    _, out, *taps = Filter.shape
    spans = [(k - 1) * d + 1 for k, d in zip(taps, dilations, strict=True)]
    made = np.zeros(
        (n, out * groups, *[(h - 1) * s + e for h, s, e in zip(lengths, strides, spans, strict=True)])
    )
    for at in np.ndindex(*lengths):
        cut = tuple(
            slice(p * s, p * s + e, d) for p, s, e, d in zip(at, strides, spans, dilations, strict=True)
        )
        for c in range(channels):
            g = c // (channels // groups)
            value = Input[(slice(None), c, *at)].reshape(n, 1, *[1] * len(lengths))
            made[(slice(None), slice(g * out, (g + 1) * out), *cut)] += value * Filter[c]
    inside = tuple(slice(p, size - p) for p, size in zip(paddings, made.shape[2:], strict=True))
    return made[(slice(None), slice(None), *inside)]


def pooled(
    X: Array,
    pooling_type: str,
    ksize: Any,
    strides: Any,
    paddings: Any,
    global_pooling: bool = False,
    ceil_mode: bool = False,
    exclusive: bool = True,
) -> Array:
    if global_pooling:
        ksize, paddings = X.shape[2:], [0] * (X.ndim - 2)
    fill = -np.inf if pooling_type == "max" else np.nan if exclusive else 0
    x = np.pad(X, [(0, 0), (0, 0), *[(p, p + 10) for p in paddings]], constant_values=fill)
    counts = []
    for h, k, s, p in zip(X.shape[2:], ksize, strides, paddings, strict=True):
        free = h + 2 * p - k
        counts.append((-(-free // s) if ceil_mode else free // s) + 1)
    made = np.zeros((*X.shape[:2], *counts))
    for at in np.ndindex(*counts):
        cut = tuple(slice(p * s, p * s + k) for p, s, k in zip(at, strides, ksize, strict=True))
        window = x[(slice(None), slice(None), *cut)].reshape(*X.shape[:2], -1)
        made[(slice(None), slice(None), *at)] = (
            window.max(-1) if pooling_type == "max" else np.nanmean(window, -1)
        )
    return made


def batch_norm(
    X: Array,
    Scale: Array,
    Bias: Array,
    Mean: Array,
    Variance: Array,
    is_test: bool = False,
    momentum: float = 0.9,
) -> Any:
    axes = tuple(d for d in range(X.ndim) if d != 1)
    shape = [-1 if d == 1 else 1 for d in range(X.ndim)]
    mean, variance = (Mean, Variance) if is_test else (X.mean(axes), X.var(axes))
    y = (X - mean.reshape(shape)) / np.sqrt(variance.reshape(shape) + 1e-5) * Scale.reshape(
        shape
    ) + Bias.reshape(shape)
    if is_test:
        return y, Mean, Variance
    return y, Mean * momentum + mean * (1 - momentum), Variance * momentum + variance * (1 - momentum)


def huber(X: Array, Y: Array, delta: float) -> Any:
    r = Y - X
    return r, np.where(np.abs(r) <= delta, r * r / 2, delta * (np.abs(r) - delta / 2))


def smooth(
    X: Array,
    Y: Array,
    InsideWeight: Array | None = None,
    OutsideWeight: Array | None = None,
    sigma: float = 1.0,
) -> Any:
    d = (X - Y) * (1 if InsideWeight is None else InsideWeight)
    loss = np.where(np.abs(d) < 1 / sigma**2, (sigma * d) ** 2 / 2, np.abs(d) - 0.5 / sigma**2)
    loss = loss * (1 if OutsideWeight is None else OutsideWeight)
    return d, loss.reshape(len(X), -1).sum(1, keepdims=True)


def tree_loss(X: Array, W: Array, Label: Array, Bias: Array, num_classes: int) -> Array:
    longest = (num_classes - 1).bit_length()
    made = []
    for x, k in zip(X, Label[:, 0], strict=True):
        code, loss = int(k) + num_classes, 0.0
        levels = code.bit_length() - 1
        for j in range(levels):
            z = np.clip(x @ W[(code >> (j + 1)) - 1] + Bias[0, (code >> (j + 1)) - 1], -40, 40)
            loss += np.log1p(np.exp(z)) - ((code >> j) & 1) * z
        made.append([loss + (longest - levels) * np.log(2)])
    return np.array(made)


def nce_loss(
    Input: Array,
    Label: Array,
    Weight: Array,
    Bias: Array,
    num_total_classes: int,
    num_neg_samples: int,
    custom_neg_classes: Any,
) -> Array:
    b = num_neg_samples / num_total_classes
    made = []
    for x, labels in zip(Input, Label, strict=True):
        o = {k: sigmoid(x @ Weight[k] + Bias[k, 0]) for k in [*labels, *custom_neg_classes]}
        made.append(
            [
                sum(-np.log(o[k] / (o[k] + b)) for k in labels)
                + sum(-np.log(b / (o[k] + b)) for k in custom_neg_classes)
            ]
        )
    return np.array(made)


def gru_step(Input: Array, HiddenPrev: Array, Weight: Array, Bias: Array, origin_mode: bool = False) -> Any:
    d = HiddenPrev.shape[1]
    flat, x = Weight.reshape(-1), Input + Bias
    gates, candidate = flat[: 2 * d * d].reshape(d, 2 * d), flat[2 * d * d :].reshape(d, d)
    h = HiddenPrev @ gates
    u, r = sigmoid(x[:, :d] + h[:, :d]), sigmoid(x[:, d : 2 * d] + h[:, d:])
    m = np.tanh(x[:, 2 * d :] + (r * HiddenPrev) @ candidate)
    share = 1 - u if origin_mode else u
    return np.concatenate([u, r, m], 1), r * HiddenPrev, (1 - share) * HiddenPrev + share * m


def in_groups(x: Any, scale: Any, bias: Any, groups: int) -> Any:
    rows, beside = x.reshape(len(x), groups, -1), (-1, *[1] * (x.ndim - 2))
    mean, variance = rows.mean(2, keepdims=True), rows.var(2, keepdims=True)
    made = ((rows - mean) / np.sqrt(variance + 1e-5)).reshape(x.shape)
    return made * scale.reshape(beside) + bias.reshape(beside), mean[..., 0], variance[..., 0]


def lstm_step(X: Array, C_prev: Array, forget_bias: float = 0.0) -> Any:
    i, f, o, j = np.split(X, 4, 1)
    c = C_prev * sigmoid(f + forget_bias) + sigmoid(i) * np.tanh(j)
    return c, np.tanh(c) * sigmoid(o)


def interpolated(X: Array, out_h: int, out_w: int) -> Array:
    made = X
    for axis, length in ((2, out_h), (3, out_w)):
        old = X.shape[axis]
        source = np.arange(length) * ((old - 1) / (length - 1) if length > 1 else 0.0)
        low = np.minimum(source.astype(int), old - 1)
        w = (source - low).reshape([-1 if d == axis else 1 for d in range(4)])
        made = np.take(made, low, axis) * (1 - w) + np.take(made, np.minimum(low + 1, old - 1), axis) * w
    return made


def lrn(X: Array, n: int = 5, k: float = 2.0, alpha: float = 1e-4, beta: float = 0.75) -> Any:
    channels = X.shape[1]
    middle = np.stack(
        [
            k + alpha * (X[:, max(0, c - (n - 1) // 2) : c - (n - 1) // 2 + n] ** 2).sum(1)
            for c in range(channels)
        ],
        1,
    )
    return X / middle**beta, middle


def held(x: Array, low: float, high: float) -> Array:
    return np.clip(x, low, high)


CASES: dict[str, list[Case]] = {
    "elementwise_add": [({"X": (2, 3, 4), "Y": (2, 3, 4)}, {}, binary(np.add)), ({"X": (2, 3, 4), "Y": (3,)}, {"axis": 1}, binary(np.add)),
                        ({"X": (2, 3, 4), "Y": (3, 1)}, {"axis": 1}, lambda X, Y, axis: X + Y.reshape(1, 3, 1)), ({"X": (2, 3), "Y": (1,)}, {}, lambda X, Y: X + Y)],
    "elementwise_sub": [({"X": (2, 3, 4), "Y": (3, 4)}, {}, binary(np.subtract))],
    "elementwise_mul": [({"X": (2, 3, 4), "Y": (2, 3)}, {"axis": 0}, binary(np.multiply))],
    "elementwise_div": [({"X": (2, 3), "Y": away(2, 3)}, {}, binary(np.divide)),
                        ({"X": np.array([7, -7, 6]), "Y": np.array([2, 2, -4])}, {}, lambda X, Y: np.trunc(X / Y).astype(X.dtype))],
    "elementwise_max": [({"X": (2, 3), "Y": (2, 3)}, {}, binary(np.maximum))],
    "elementwise_min": [({"X": (2, 3), "Y": (2, 3)}, {}, binary(np.minimum))],
    "elementwise_pow": [({"X": positive(2, 3), "Y": (2, 3)}, {}, binary(np.power))],
    "scale": [
        ({"X": (2, 3)}, {"scale": -1.5}, lambda X, scale: X * scale),
        ({"X": (2, 3)}, {"scale": -1.5, "bias": 2.0}, lambda X, scale, bias: X * scale + bias),
        ({"X": (2, 3)}, {"scale": 3.0, "bias": -1.0, "bias_after_scale": False}, lambda X, scale, bias, **_: (X + bias) * scale),
        ({"X": np.array([-3, 0, 5], np.int64)}, {"scale": 2.0, "bias": 1.0}, lambda X, **_: 2 * X + 1),
    ],
    "sum": [({"X": [(2, 3)] * n}, {}, lambda X: np.sum(X, 0)) for n in (1, 2, 17)],
    "minus": [({"X": (2, 3), "Y": (2, 3)}, {}, lambda X, Y: X - Y)],
    "cast": [({"X": away(2, 3)}, {"in_dtype": "float64", "out_dtype": "float64"}, lambda X, **_: X),
             ({"X": away(2, 3)}, {"in_dtype": "float64", "out_dtype": "int32"}, lambda X, **_: X.astype(np.int32))],
    "increment": [({"X": (1,)}, {"step": 2.0}, lambda X, step: X + step), ({"X": np.array([3])}, {}, lambda X: X + 1)],
    "assign": [({"X": (2, 3)}, {}, lambda X: X)],
    "rnn_memory_helper": [({"X": (2, 3)}, {}, lambda X: X)],
    "copy": [({"X": (2, 3)}, {"source": "cpu", "target": "numpy"}, lambda X, **_: X)],
    "layout": [({"X": (2, 3, 4, 5)}, {"source": "NCHW", "target": "NHWC"}, lambda X, **_: X.transpose(0, 2, 3, 1))],
    "square": unary(np.square), "abs": unary(np.abs), "sign": unary(np.sign), "ceil": unary(np.ceil), "floor": unary(np.floor),
    "cos": unary(np.cos), "sin": unary(np.sin), "exp": unary(np.exp), "reciprocal": unary(lambda x: 1 / x),
    "round": [({"X": np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997, 2.4], np.float32)}, {},
               lambda X: np.array([-3, -2, -1, 1, 2, 3, 0, 2], np.float32)), *unary(np.round)],
    "log": [({"X": positive(2, 3)}, {}, lambda X: np.log(X))], "sqrt": [({"X": positive(2, 3)}, {}, lambda X: np.sqrt(X))],
    "rsqrt": [({"X": positive(2, 3)}, {}, lambda X: 1 / np.sqrt(X))],
    "pow": [({"X": positive(2, 3)}, {"factor": 1.7}, lambda X, factor: X**factor)],
    "gelu": [
        ({"X": (2, 3)}, {}, lambda X: X * 0.5 * (1 + np.vectorize(math.erf)(X / np.sqrt(2)))),
        ({"X": (2, 3)}, {"approximate": True}, lambda X, **_: X * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (X + 0.044715 * X**3)))),
    ],
    "relu": unary(lambda x: np.maximum(x, 0)), "sigmoid": unary(sigmoid), "tanh": unary(np.tanh),
    "logsigmoid": unary(lambda x: np.log(sigmoid(x))), "softplus": unary(lambda x: np.log1p(np.exp(x))),
    "softsign": unary(lambda x: x / (1 + np.abs(x))), "tanh_shrink": unary(lambda x: x - np.tanh(x)),
    "softmax": [({"X": (3, 5)}, {}, lambda X: softmax(X)), ({"X": (2, 3, 4)}, {}, lambda X: softmax(X)), ({"X": (2, 3, 4)}, {"axis": 1}, lambda X, axis: softmax(X.swapaxes(1, 2)).swapaxes(1, 2))],
    "relu6": [({"X": away(3, 4) * 3}, {"threshold": 4.0}, lambda X, threshold: held(X, 0, threshold))],
    "brelu": [({"X": away(3, 4)}, {"t_min": -1.0, "t_max": 0.05}, lambda X, t_min, t_max: held(X, t_min, t_max))],
    "clip": [({"X": away(3, 4)}, {"min": -1.0, "max": 0.05}, lambda X, min, max: held(X, min, max))],
    "hard_sigmoid": [({"X": away(3, 4) * 2}, {}, lambda X: held(0.2 * X + 0.5, 0, 1))],
    "leaky_relu": [({"X": away(3, 4)}, {"alpha": 0.1}, lambda X, alpha: np.where(X < 0, alpha * X, X))],
    "elu": [({"X": away(3, 4)}, {"alpha": 0.7}, lambda X, alpha: np.where(X < 0, alpha * np.expm1(X), X))],
    "soft_relu": [({"X": away(3, 4) * 2}, {"threshold": 3.0}, lambda X, threshold: np.log1p(np.exp(held(X, -threshold, threshold))))],
    "stanh": [({"X": away(3, 4)}, {}, lambda X: 1.7159 * np.tanh(2 / 3 * X))],
    "hard_shrink": [({"X": away(3, 4)}, {}, lambda X: np.where(np.abs(X) > 0.5, X, 0))],
    "softshrink": [({"X": away(3, 4)}, {}, lambda X: np.sign(X) * np.maximum(np.abs(X) - 0.5, 0))],
    "thresholded_relu": [({"X": away(3, 4)}, {}, lambda X: np.where(X > 1, X, 0))],
    "swish": [({"X": away(3, 4)}, {"beta": 1.5}, lambda X, beta: X * sigmoid(beta * X))],
    "prelu": [({"X": away(2, 3, 4, 2), "Alpha": (1,)}, {}, lambda X, Alpha: np.where(X > 0, X, Alpha * X)),
              ({"X": away(2, 3, 4, 2), "Alpha": (1, 3, 1, 1)}, {"mode": "channel"}, lambda X, Alpha, mode: np.where(X > 0, X, Alpha * X)),
              ({"X": away(2, 3), "Alpha": (2, 3)}, {"mode": "element"}, lambda X, Alpha, mode: np.where(X > 0, X, Alpha * X))],
    "maxout": [({"X": (2, 6, 3, 2)}, {"groups": 3}, lambda X, groups: X.reshape(2, 2, 3, 3, 2).max(2))],
    "clip_by_norm": [({"X": (3, 4)}, {"max_norm": 1.0}, lambda X, max_norm: X / np.linalg.norm(X)), ({"X": (3, 4)}, {"max_norm": 100.0}, lambda X, max_norm: X)],
    "isfinite": [({"X": np.array([1.0, np.inf])}, {}, lambda X: np.array([False])), ({"X": (2,)}, {}, lambda X: np.array([True]))],
    "less_than": [({"X": (2, 3), "Y": (3,)}, {}, binary(np.less))], "less_equal": [({"X": (2, 3), "Y": (2, 3)}, {}, binary(np.less_equal))],
    "greater_than": [({"X": (2, 3), "Y": (2, 3)}, {}, binary(np.greater))], "greater_equal": [({"X": (2, 3), "Y": (2, 3)}, {}, binary(np.greater_equal))],
    "equal": [({"X": np.array([1.0, 2.0]), "Y": np.array([1.0 + 1e-9, 2.1])}, {}, lambda X, Y: np.array([True, False])),
              ({"X": np.array([1, 2]), "Y": np.array([1, 3])}, {}, binary(np.equal))],
    "not_equal": [({"X": np.array([1, 2]), "Y": np.array([1, 3])}, {}, binary(np.not_equal))],
    "logical_and": [({"X": bools(8), "Y": bools(8)}, {}, lambda X, Y: X & Y)], "logical_or": [({"X": bools(8), "Y": bools(8)}, {}, lambda X, Y: X | Y)],
    "logical_xor": [({"X": bools(8), "Y": bools(8)}, {}, lambda X, Y: X ^ Y)], "logical_not": [({"X": bools(8)}, {}, lambda X: ~X)],
    "mul": [({"X": (3, 4), "Y": (4, 2)}, {}, lambda X, Y: X @ Y),
            ({"X": (2, 3, 2, 2), "Y": (2, 2, 5)}, {"x_num_col_dims": 2, "y_num_col_dims": 2}, lambda X, Y, **_: np.tensordot(X, Y, 2))],
    "matmul": [({"X": (2, 3, 4), "Y": (2, 4, 5)}, {}, lambda X, Y: X @ Y),
               ({"X": (4, 3), "Y": (5, 4)}, {"transpose_X": True, "transpose_Y": True}, lambda X, Y, **_: X.T @ Y.T),
               ({"X": (3,), "Y": (3,)}, {}, lambda X, Y: np.array([X @ Y])),
               ({"X": (3,), "Y": (5,)}, {"transpose_X": True, "transpose_Y": True}, lambda X, Y, **_: np.outer(X, Y)),
               ({"X": (2, 3), "Y": (3,)}, {}, lambda X, Y: X @ Y)],
    "cos_sim": [({"X": (3, 4), "Y": (3, 4)}, {}, lambda X, Y: ((X * Y).sum(1, keepdims=True) / np.linalg.norm(X, axis=1, keepdims=True) / np.linalg.norm(Y, axis=1, keepdims=True))),
                ({"X": (3, 4), "Y": (1, 4)}, {}, lambda X, Y: ((X * Y).sum(1, keepdims=True) / np.linalg.norm(X, axis=1, keepdims=True) / np.linalg.norm(Y)))],
    "conv_shift": [({"X": (2, 5), "Y": (2, 3)}, {}, lambda X, Y: np.array([[sum(x[(i + j - 1) % 5] * y[j] for j in range(3)) for i in range(5)] for x, y in zip(X, Y, strict=True)]))],
    "bilinear_tensor_product": [({"X": (3, 4), "Y": (3, 2), "Weight": (5, 4, 2), "Bias": (1, 5)}, {}, lambda X, Y, Weight, Bias: np.einsum("ni,kij,nj->nk", X, Weight, Y) + Bias)],
    "mean": [({"X": (3, 4)}, {}, lambda X: np.array([X.mean()]))],
    "l1_norm": [({"X": away(3, 4)}, {}, lambda X: np.array([np.abs(X).sum()]))], "squared_l2_norm": [({"X": (3, 4)}, {}, lambda X: np.array([(X**2).sum()]))],
    "norm": [({"X": (3, 4)}, {"axis": 1}, lambda X, axis: (np.sqrt((X**2).sum(1, keepdims=True) + 1e-10), X / np.sqrt((X**2).sum(1, keepdims=True) + 1e-10)))],
    **{f"reduce_{name}": [({"X": (2, 3, 4)}, {"dim": [1]}, lambda X, dim, f=function: f(X, axis=1)), ({"X": (2, 3, 4)}, {"dim": [-1, 0], "keep_dim": True}, lambda X, dim, keep_dim, f=function: f(X, axis=(0, 2), keepdims=True)),
                          ({"X": (2, 3)}, {"reduce_all": True}, lambda X, reduce_all, f=function: np.array([f(X)]))]
       for name, function in (("sum", np.sum), ("mean", np.mean), ("max", np.max), ("min", np.min), ("prod", np.prod))},
    "arg_max": [({"X": (3, 4)}, {"axis": 1}, lambda X, axis: X.argmax(1))], "arg_min": [({"X": (3, 4)}, {"axis": 0}, lambda X, axis: X.argmin(0))],
    "argsort": [
        ({"X": (3, 4)}, {"axis": 0}, lambda X, axis: (np.sort(X, 0), X.argsort(0))),
        ({"X": np.array([[2.0, 3, 2, -1], [0, 0, 0, 1]])}, {"descending": True}, lambda X, **_: (-np.sort(-X, 1), np.argsort(-X, 1, kind="stable"))),
    ],
    "cumsum": [({"X": (3, 4)}, {}, lambda X: X.cumsum(1)), ({"X": (3, 4)}, {"axis": 0, "exclusive": True, "reverse": True}, lambda X, **_: X[::-1].cumsum(0)[::-1] - X)],
    "top_k": [({"X": (3, 6)}, {"k": 2}, lambda X, k: (-np.sort(-X, 1)[:, :2], np.argsort(-X, 1)[:, :2]))],
    "is_empty": [({"X": (3, 6)}, {}, lambda X: np.array([False]))], "shape": [({"Input": (3, 6)}, {}, lambda Input: np.array([3, 6], np.int32))],
    "reshape": [({"X": (2, 3, 4)}, {"shape": [0, -1]}, lambda X, shape: X.reshape(2, 12))],
    "squeeze": [({"X": (2, 1, 3, 1)}, {"axes": [1]}, lambda X, axes: X[:, 0]), ({"X": (2, 1, 3, 1)}, {}, lambda X: X[:, 0, :, 0])],
    "unsqueeze": [({"X": (2, 3)}, {"axes": [0, 3]}, lambda X, axes: X[None, :, :, None])], "flatten": [({"X": (2, 3, 4)}, {"axis": 2}, lambda X, axis: X.reshape(6, 4)), ({"X": (2, 3)}, {"axis": 0}, lambda X, axis: X.reshape(1, 6))],
    "expand": [({"X": (2, 3)}, {"expand_times": [2, 3]}, lambda X, expand_times: np.tile(X, (2, 3)))],
    "crop": [({"X": (4, 5)}, {"offsets": [1, 2], "shape": [2, 3]}, lambda X, **_: X[1:3, 2:5]), ({"X": (4, 5), "Y": (2, 2), "Offsets": np.array([1, 3], np.int32)}, {}, lambda X, Y, Offsets: X[1:3, 3:5])],
    "pad": [({"X": (2, 3)}, {"paddings": [1, 0, 2, 1], "pad_value": 0.5}, lambda X, **_: np.pad(X, ((1, 0), (2, 1)), constant_values=0.5))],
    "pad2d": [
        ({"X": (2, 3, 4, 5)}, {"paddings": [1, 2, 3, 0], "pad_value": 0.5}, lambda X, **_: np.pad(X, ((0, 0), (0, 0), (1, 2), (3, 0)), constant_values=0.5)),
        ({"X": (2, 3, 4, 5)}, {"paddings": [3, 0, 1, 4], "mode": "reflect"}, lambda X, **_: np.pad(X, ((0, 0), (0, 0), (3, 0), (1, 4)), "reflect")),
        ({"X": (2, 3, 4, 1)}, {"paddings": [0, 3, 5, 1], "mode": "edge", "data_format": "NHWC"}, lambda X, **_: np.pad(X, ((0, 0), (0, 3), (5, 1), (0, 0)), "edge")),
    ],
    "slice": [({"Input": (4, 5, 3)}, {"axes": [0, 1], "starts": [1, -3], "ends": [100, -1]}, lambda Input, **_: Input[1:, -3:-1])],
    "split": [({"X": (2, 6)}, {"num": 3, "axis": 1}, lambda X, **_: ([X[:, :2], X[:, 2:4], X[:, 4:]],)), ({"X": (6, 2)}, {"sections": [1, 5]}, lambda X, **_: ([X[:1], X[1:]],))],
    "split_byref": [({"X": (6, 2)}, {"sections": [1, 5]}, lambda X, **_: ([X[:1], X[1:]],))],
    "concat": [({"X": [(2, 3), (2, 1)]}, {"axis": 1}, lambda X, axis: np.concatenate(X, 1))],
    "transpose": [({"X": (2, 3, 4)}, {"axis": [2, 0, 1]}, lambda X, axis: X.transpose(axis))], "reverse": [({"X": (2, 3, 4)}, {"axis": [0, 2]}, lambda X, axis: X[::-1, :, ::-1])],
    "multiplex": [({"Ids": np.array([[1], [0], [1]], np.int32), "X": [(3, 2), (3, 2)]}, {}, lambda Ids, X: np.stack([X[i][r] for r, i in enumerate(Ids[:, 0])]))],
    "gather": [({"X": (4, 3), "Index": np.array([2, 0, 2])}, {}, lambda X, Index: X[Index])],
    "scatter": [({"X": (4, 3), "Ids": np.array([2, 0], np.int32), "Updates": (2, 3)}, {}, lambda X, Ids, Updates: np.stack([Updates[1], X[1], Updates[0], X[3]]))],
    "one_hot": [({"X": classes(3, 1, below=4)}, {"depth": 4}, lambda X, depth: np.eye(4, dtype=np.float32)[X[:, 0]])],
    "sequence_mask": [
        ({"X": np.array([2, 0, 5, 3])}, {"maxlen": 4}, lambda X, maxlen: (np.arange(maxlen) < X[:, None]).astype(np.int64)),
        ({"X": np.array([[2], [-1]], np.int32)}, {"maxlen": 3, "out_dtype": "FP32"}, lambda X, maxlen, out_dtype: (np.arange(maxlen) < X[..., None]).astype(np.float32)),
    ],
    "shard_index": [
        ({"X": np.array([[0], [3], [4], [6], [9]])}, {"start": 3, "stop": 7, "rows": 10}, lambda X, start, stop, rows: np.array([[4], [0], [1], [3], [4]])),
        ({"X": np.array([3, 6, 5])}, {"start": 3, "stop": 7, "rows": 10, "padding_idx": -4}, lambda X, start, stop, rows, padding_idx: np.array([0, 4, 2])),
    ],
    "find_outside": [
        ({"X": np.array([[1], [4], [-1]])}, {"count": 4}, lambda X, count: np.array([1, 4, 4, 1, 0])),
        ({"X": np.array([2, -3]), "Of": (2, 3)}, {"along": -1}, lambda X, Of, along: np.array([1, -3, 3, 1])),
        ({"X": np.array([2, 0]), "Of": (3, 2), "Before": np.array([1, 7, 3, 1])}, {}, lambda X, Of, Before: Before),
        ({"X": np.zeros((0, 1), np.int64), "Of": (0, 2)}, {}, lambda X, Of: np.zeros(5, np.int64)),
        ({"X": np.array([[1], [4]]), "Many": np.array([[2], [3]])}, {}, lambda X, Many: np.array([1, 4, 3, 1, 0])),
        ({"X": np.array([[9], [4]]), "Among": np.array([[0], [1]])}, {"count": 4}, lambda X, Among, count: np.array([1, 4, 4, 1, 0])),
    ],
    "count_choices": [({"X": np.array([[1], [4]]), "Of": (2, 3)}, {"along": 1}, lambda X, Of, along: np.array([[3], [3]]))],
    "first_found": [
        ({"X": np.array([[[0, 5, 2]], [[1, 3, 2]], [[1, 4, 2]]])}, {}, lambda X: np.array([1, 3, 2])),
        ({"X": np.array([[0, 5, 2], [0, 3, 2]])}, {}, lambda X: np.array([0, 5, 2])),
        ({"X": np.array([[1, 5, 2]]), "Before": np.array([1, 7, 3])}, {}, lambda X, Before: Before),
        ({"X": np.zeros((0, 1, 4), np.int64)}, {}, lambda X: np.zeros(4, np.int64)),
    ],
    "extract_rows": [({"X": (5, 3)}, {}, lambda X: np.arange(5)[:, None])],
    "select_rows": [({"X": (5, 3), "Like": (5, 3)}, {}, lambda X, Like: X)],
    "lookup_table": [({"W": (5, 3), "Ids": np.array([[1], [4], [1]])}, {}, lambda W, Ids: W[Ids[:, 0]]), ({"W": (5, 3), "Ids": np.array([[1], [4]])}, {"padding_idx": 4}, lambda W, Ids, padding_idx: np.stack([W[1], np.zeros(3)]))],
    "cross_entropy": [({"X": share(3, 4), "Label": classes(3, 1, below=4)}, {}, lambda X, Label: -np.log(np.take_along_axis(X, Label, 1))),
                      ({"X": share(3, 4), "Label": share(3, 4)}, {"soft_label": True}, lambda X, Label, soft_label: -(Label * np.log(X)).sum(1, keepdims=True))],
    "softmax_with_cross_entropy": [({"Logits": (3, 4), "Label": classes(3, 1, below=4)}, {}, lambda Logits, Label: (softmax(Logits), -np.log(np.take_along_axis(softmax(Logits), Label, 1)))),
                                   ({"Logits": (3, 4), "Label": share(3, 4)}, {"soft_label": True}, lambda Logits, Label, soft_label: (softmax(Logits), -(Label * np.log(softmax(Logits))).sum(1, keepdims=True)))],
    "hinge_loss": [({"Logits": away(4, 1), "Labels": bools(4, 1).astype(float)}, {}, lambda Logits, Labels: np.maximum(0, 1 - Logits * (2 * Labels - 1)))],
    "huber_loss": [({"X": (4, 1), "Y": (4, 1)}, {"delta": 0.5}, huber)],
    "modified_huber_loss": [({"X": away(6, 1), "Y": bools(6, 1).astype(float)}, {}, lambda X, Y: (X * (2 * Y - 1), np.where(X * (2 * Y - 1) < -1, -4 * X * (2 * Y - 1), np.maximum(0, 1 - X * (2 * Y - 1)) ** 2)))],
    "smooth_l1_loss": [({"X": (3, 4), "Y": (3, 4)}, {"sigma": 1.5}, smooth), ({"X": (3, 4), "Y": (3, 4), "InsideWeight": (3, 4), "OutsideWeight": (3, 4)}, {}, smooth)],
    "log_loss": [({"Predicted": RNG.uniform(0.1, 0.9, (4, 1)), "Labels": bools(4, 1).astype(float)}, {"epsilon": 1e-4}, lambda Predicted, Labels, epsilon: -Labels * np.log(Predicted + epsilon) - (1 - Labels) * np.log(1 - Predicted + epsilon))],
    "kldiv_loss": [
        ({"X": (3, 4), "Target": share(3, 4) * (RNG.uniform(size=(3, 4)) > 0.3)}, {"reduction": kind}, lambda X, Target, reduction: divergence(X, Target, reduction)) for kind in ("none", "mean", "sum", "batchmean")
    ],
    "margin_rank_loss": [({"X1": (4, 1), "X2": (4, 1), "Label": np.array([[1.0], [-1], [1], [-1]])}, {"margin": 0.1}, lambda X1, X2, Label, margin: ((-Label * (X1 - X2) + margin > 0).astype(float), np.maximum(0, -Label * (X1 - X2) + margin)))],
    "rank_loss": [({"Label": bools(4, 1).astype(float), "Left": (4, 1), "Right": (4, 1)}, {}, lambda Label, Left, Right: np.log1p(np.exp(Left - Right)) - Label * (Left - Right))],
    "sigmoid_cross_entropy_with_logits": [({"X": (3, 4), "Label": RNG.uniform(size=(3, 4))}, {}, lambda X, Label: np.maximum(X, 0) - X * Label + np.log1p(np.exp(-np.abs(X))))],
    "squared_l2_distance": [({"X": (3, 4), "Y": (3, 4)}, {}, lambda X, Y: (X - Y, ((X - Y) ** 2).sum(1, keepdims=True))), ({"X": (3, 4), "Y": (1, 4)}, {}, lambda X, Y: (X - Y, ((X - Y) ** 2).sum(1, keepdims=True)))],
    "label_smooth": [({"X": share(3, 4)}, {"epsilon": 0.1}, lambda X, epsilon: 0.9 * X + 0.025), ({"X": share(3, 4), "PriorDist": share(1, 4)}, {"epsilon": 0.1}, lambda X, PriorDist, epsilon: 0.9 * X + 0.1 * PriorDist)],
    "hierarchical_sigmoid": [({"X": (4, 3), "W": (5, 3), "Label": np.array([[0], [2], [5], [3]]), "Bias": (1, 5)}, {"num_classes": 6}, tree_loss)],
    "nce": [({"Input": (3, 4), "Label": classes(3, 2, below=7), "Weight": (7, 4), "Bias": (7, 1)}, {"num_total_classes": 7, "num_neg_samples": 3, "custom_neg_classes": [0, 3, 6]}, nce_loss)],
    "accuracy": [({"Out": share(4, 2), "Indices": np.array([[0, 1], [2, 3], [1, 0], [3, 1]]), "Label": np.array([[1], [0], [1], [1]])}, {}, lambda Out, Indices, Label: (np.array([0.75], np.float32), np.array([3], np.int32), np.array([4], np.int32)))],
    "mean_iou": [({"Predictions": np.array([0, 1, 1, 2], np.int32), "Labels": np.array([0, 1, 2, 2], np.int32)}, {"num_classes": 4}, lambda **_: (np.array([(1 + 1 / 2 + 1 / 2) / 3], np.float32), np.array([0, 1, 1, 0], np.int32), np.array([1, 1, 1, 0], np.int32)))],
    "conv2d": [conv_case(), conv_case(2), conv_case(1, dilations=2)], "conv3d": [conv_case(1, 3)], "depthwise_conv2d": [conv_case(4)],
    "conv2d_transpose": [transposed_case(), transposed_case(2)], "conv3d_transpose": [transposed_case(1, 3)], "depthwise_conv2d_transpose": [transposed_case(4)],
    **{f"pool{n}d": [({"X": (2, 3, *(5, 6, 4)[:n])}, {"pooling_type": kind, "ksize": [3, 2, 2][:n], "strides": [2, 2, 1][:n], "paddings": [1, 0, 1][:n], "ceil_mode": ceil}, lambda X, **s: pooled(X, **s)) for kind in ("max", "avg") for ceil in (False, True)]
       + [({"X": (2, 3, *(5, 6, 4)[:n])}, {"pooling_type": "avg", "ksize": [1] * n, "strides": [1] * n, "paddings": [0] * n, "global_pooling": True}, lambda X, **s: pooled(X, **s)),
          ({"X": (2, 3, *(5, 6, 4)[:n])}, {"pooling_type": "avg", "ksize": [3, 2, 2][:n], "strides": [2, 2, 1][:n], "paddings": [1, 0, 1][:n], "ceil_mode": True, "exclusive": False}, lambda X, **s: pooled(X, **s))] for n in (2, 3)},
    **{f"max_pool{n}d_with_index": [({"X": (2, 3, *(5, 6, 4)[:n])}, {"ksize": [3, 2, 2][:n], "strides": [2, 2, 1][:n], "paddings": [1, 0, 0][:n]}, lambda X, **s: pooled(X, "max", **s))] for n in (2, 3)},
    "unpool": [({"X": (1, 2, 2, 2), "Indices": np.array([[[[0, 3], [8, 15]], [[1, 2], [9, 11]]]], np.int32)}, {"ksize": [2, 2], "strides": [2, 2], "unpooling_type": "max"}, None)],
    "spp": [({"X": (2, 3, 4, 4)}, {"pyramid_height": 2, "pooling_type": "max"}, lambda X, **_: np.concatenate([X.max((2, 3)), pooled(X, "max", [2, 2], [2, 2], [0, 0]).reshape(2, -1)], 1))],
    "lrn": [({"X": (2, 7, 3, 2)}, {"alpha": 0.1}, lrn)],
    "bilinear_interp": [({"X": (1, 2, 3, 4)}, {"out_h": 5, "out_w": 7}, interpolated), ({"X": (1, 2, 3, 4)}, {"out_h": 1, "out_w": 2}, interpolated)],
    "batch_norm": [({"X": (4, 3, 2, 2), "Scale": (3,), "Bias": (3,), "Mean": (3,), "Variance": positive(3)}, {}, batch_norm), ({"X": (6, 3), "Scale": (3,), "Bias": (3,), "Mean": (3,), "Variance": positive(3)}, {"is_test": True}, batch_norm)],
    "layer_norm": [({"X": (3, 2, 4), "Scale": (8,), "Bias": (8,)}, {}, lambda X, Scale, Bias: (((X.reshape(3, 8) - X.reshape(3, 8).mean(1, keepdims=True)) / np.sqrt(X.reshape(3, 8).var(1, keepdims=True) + 1e-5) * Scale + Bias).reshape(3, 2, 4), X.reshape(3, 8).mean(1), X.reshape(3, 8).var(1)))],
    "group_norm": [
        ({"X": (2, 4, 3, 2), "Scale": (4,), "Bias": (4,)}, {"groups": 2}, lambda X, Scale, Bias, groups: in_groups(X, Scale, Bias, groups)),
        ({"X": (2, 5, 6)}, {"groups": 3, "data_layout": "NHWC"}, lambda X, groups, data_layout: tuple(np.moveaxis(v, 1, -1) if v.ndim > 2 else v for v in in_groups(X.swapaxes(1, 2), np.ones(6), np.zeros(6), groups))),
    ],
    "dropout": [({"X": (3, 4)}, {"is_test": True, "dropout_prob": 0.3}, lambda X, **_: 0.7 * X), ({"X": (3, 4)}, {"is_test": True, "dropout_prob": 0.3, "dropout_implementation": "upscale_in_train"}, lambda X, **_: X)],
    "lstm_unit": [({"X": (3, 8), "C_prev": (3, 2)}, {"forget_bias": 0.5}, lstm_step)], "gru_unit": [({"Input": (3, 6), "HiddenPrev": (3, 2), "Weight": (2, 6), "Bias": (1, 6)}, each, gru_step) for each in ({}, {"origin_mode": True})],
    "fill_constant": [({}, {"shape": [2, 3], "value": 1.5}, lambda **_: np.full((2, 3), 1.5, np.float32))],
    "fill": [({}, {"shape": [2], "value": [1.5, 2.0]}, lambda **_: np.array([1.5, 2], np.float32))],
    "assign_value": [({}, {"shape": [2], "dtype": "int32", "int32_values": [3, 4]}, lambda **_: np.array([3, 4], np.int32))],
    "fill_zeros_like": [({"X": (2, 3)}, {}, lambda X: 0 * X)], "fill_ones_like": [({"X": (2, 3)}, {}, lambda X: 0 * X + 1)],
    "fill_constant_batch_size_like": [({"Input": (4, 3)}, {"shape": [-1, 2], "value": 2.0}, lambda Input, **_: np.full((4, 2), 2, np.float32))],
    "print": [({"In": (2, 3)}, {"message": "x"}, lambda In, **_: In)],
    "precision_recall": [({"MaxProbs": (4, 1), "Indices": np.array([[0], [1], [1], [0]], np.int32), "Labels": np.array([[0], [1], [0], [0]], np.int32)}, {"class_number": 2},
                          lambda **_: (np.array([(1 + 0.5) / 2, (2 / 3 + 1) / 2, 2 * 0.75 * (5 / 6) / (0.75 + 5 / 6), 0.75, 0.75, 0.75]),))],
    "positive_negative_pair": [({"Score": np.array([[0.3], [0.2], [0.9], [0.9]], np.float32), "Label": np.array([[1.0], [0], [1], [0]], np.float32), "QueryID": np.array([[0], [0], [1], [1]])}, {},
                                lambda **_: (np.array([1.0], np.float32), np.array([0.0], np.float32), np.array([1.0], np.float32)))],
}  # fmt: skip
