# SPDX-License-Identifier: Apache-2.0
"""Random nodes of com.microsoft: activations, normalisation, products of floats, convolutions, and what moves elements."""

from __future__ import annotations

from typing import Any

import numpy as np
from microsoft_draw import Array, Case, Draw, case

F16, F32, F64 = np.float16, np.float32, np.float64


# ---- activations


@case("Gelu", "QuickGelu")
def _activation(d: Draw) -> Case:
    return Case([d.floats(*d.shape(), dtype=d.pick(F32, F32, F16, F64), scale=3)])


@case("BiasGelu")
def _bias_gelu(d: Draw) -> Case:
    shape = d.shape()
    return Case([d.floats(*shape, scale=2), d.floats(shape[-1])])


@case("FastGelu")
def _fast_gelu(d: Draw) -> Case:
    shape = d.shape()
    return Case([d.floats(*shape, scale=2), d.maybe(lambda: d.floats(shape[-1]))])


@case("ScaledSiLU")
def _scaled_silu(d: Draw) -> Case:
    return Case([d.floats(*d.shape(), dtype=d.pick(F32, F16))], {"alpha": d.pick(1.0, 0.7, -2.0)})


@case("SwiGLU")
def _swiglu(d: Draw) -> Case:
    shape = d.shape()
    more = {
        "activation_alpha": d.pick(1.0, 1.702),
        "activation_beta": d.pick(0.0, 1.0),
        "limit": d.pick(0.0, 0.5),
    }
    if d.chance():
        return Case([d.floats(*shape), d.floats(*shape)], more)
    return Case([d.floats(*shape[:-1], 2 * shape[-1]), None], more)


@case("BiasSplitGelu")
def _bias_split_gelu(d: Draw) -> Case:
    n = 2 * d.length()
    return Case([d.floats(d.length(), d.length(), n), d.floats(n)])


@case("BiasAdd")
def _bias_add(d: Draw) -> Case:
    shape = d.shape(3, 3)
    return Case([d.floats(*shape), d.floats(shape[-1]), d.floats(*shape)])


@case("GatedAdd")
def _gated_add(d: Draw) -> Case:
    shape = d.shape(2, 4)
    return Case([d.floats(*shape), d.floats(*shape), d.floats(*shape[:-1], 1)])


@case("BiasSoftmax")
def _bias_softmax(d: Draw) -> Case:
    shape, inner = d.shape(3, 4), int(d.chance())
    bias = (shape[0], *[1] * (len(shape) - 2), shape[-1]) if inner else (1, *shape[1:])
    return Case([d.floats(*shape), d.floats(*bias)], {"axis": len(shape) - 1, "is_inner_broadcast": inner})


@case("BiasDropout")
def _bias_dropout(d: Draw) -> Case:
    shape = d.shape()
    return Case([d.floats(*shape), d.floats(shape[-1]), d.maybe(lambda: d.floats(*shape))])


# ---- products


@case("FusedMatMul")
def _fused_matmul(d: Draw) -> Case:
    m, k, n = d.length(), d.length(), d.length()
    batch = d.shape(0, 2) if d.chance(0.7) else ()
    more: dict[str, Any] = {"alpha": d.pick(1.0, 0.5, -2.0)}
    dtype = d.pick(F32, F64)

    def side(name: str, rows: int, columns: int, lead: tuple[int, ...]) -> Array:
        turned, first = int(d.chance()), int(d.chance() and len(lead) > 0)
        more[f"trans{name}"], more[f"transBatch{name}"] = turned, first
        a, b = (columns, rows) if turned else (rows, columns)
        return d.floats(*((a, *lead, b) if first else (*lead, a, b)), dtype=dtype)

    return Case([side("A", m, k, batch), side("B", k, n, batch if d.chance(0.7) else ())], more)


@case("TransposeMatMul")
def _transpose_matmul(d: Draw) -> Case:
    made = _fused_matmul(d)
    while made.attributes["transBatchA"] or made.attributes["transBatchB"]:
        made = _fused_matmul(d)
    kept = {name: made.attributes[name] for name in ("alpha", "transA", "transB")}
    return Case([a.astype(F32) for a in made.inputs if a is not None], kept)


def _ending(d: Draw) -> dict[str, Any]:
    name = d.pick(
        "Relu",
        "Tanh",
        "Sigmoid",
        "LeakyRelu",
        "HardSigmoid",
        "Softplus",
        "Softsign",
        "Elu",
        "ThresholdedRelu",
    )
    more: dict[str, Any] = {"activation": name}
    if name in ("LeakyRelu", "HardSigmoid", "Elu", "ThresholdedRelu"):
        more["activation_alpha"] = 0.3
    if name == "HardSigmoid":
        more["activation_beta"] = 0.4
    return more


@case("FusedMatMulActivation")
def _fused_matmul_activation(d: Draw) -> Case:
    made = _fused_matmul(d)
    return Case([a.astype(F32) for a in made.inputs if a is not None], {**made.attributes, **_ending(d)})


@case("FusedGemm")
def _fused_gemm(d: Draw) -> Case:
    m, k, n = d.length(), d.length(), d.length()
    more = {
        "transA": int(d.chance()),
        "transB": int(d.chance()),
        "alpha": d.pick(1.0, 0.5),
        "beta": d.pick(1.0, 2.0),
    }
    c = d.maybe(lambda: d.floats(*d.pick((n,), (1, n), (m, n), (m, 1), (1,))), 0.7)
    a = d.floats(k, m) if more["transA"] else d.floats(m, k)
    b = d.floats(n, k) if more["transB"] else d.floats(k, n)
    return Case([a, b, c], {**more, **(_ending(d) if d.chance(0.9) else {})})


@case("GemmFastGelu")
def _gemm_fast_gelu(d: Draw) -> Case:
    m, k, n = d.length(), d.length(), d.length()
    return Case([d.floats(d.length(), m, k), d.floats(k, n), d.maybe(lambda: d.floats(n))])


@case("MatMulInteger16")
def _matmul_integer16(d: Draw) -> Case:
    m, k, n, batch = d.length(), d.length(), d.length(), d.shape(0, 1)
    a, b = (d.rng.integers(-3000, 3000, s).astype(np.int16) for s in ((*batch, m, k), (k, n)))
    return Case([a, b])


@case("Inverse")
def _inverse(d: Draw) -> Case:
    n, batch = d.length(), d.shape(0, 2)
    return Case([d.floats(*batch, n, n, dtype=d.pick(F32, F64)) + np.eye(n, dtype=F32)], tolerance=1e-3)


# ---- convolutions


def _windows(d: Draw, lengths: tuple[int, ...], taps: list[int]) -> dict[str, Any]:
    rank = len(taps)
    more: dict[str, Any] = {"kernel_shape": taps}
    if d.chance(0.7):
        more["strides"] = [int(s) for s in d.rng.integers(1, 3, rank)]
    if d.chance(0.2):
        more["auto_pad"] = d.pick("SAME_UPPER", "SAME_LOWER", "VALID")
    elif d.chance(0.7):
        more["pads"] = [int(d.rng.integers(0, k)) for k in taps * 2]
    return more


def convolution(d: Draw, rank: int) -> tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]:
    """The shapes of an image and of filters, and how they lie over it."""
    group = d.pick(1, 1, 2, 3)
    inner, outer = d.pick(1, 2, 3), d.pick(1, 2, 3)
    taps = [int(k) for k in d.rng.integers(1, 4, rank)]
    image = (d.pick(1, 2), group * inner, *(k + int(d.rng.integers(0, 5)) for k in taps))
    more = {**_windows(d, image[2:], taps), "group": group}
    if d.chance(0.3) and all(s >= 2 * k - 1 for s, k in zip(image[2:], taps)) and "auto_pad" not in more:
        more["dilations"] = [2] * rank
    return image, (group * outer, inner, *taps), more


@case("FusedConv")
def _fused_conv(d: Draw) -> Case:
    image, filters, more = convolution(d, d.pick(1, 2, 2))
    name = d.pick("Relu", "Sigmoid", "Tanh", "LeakyRelu", "Clip", "HardSigmoid")
    told = {"LeakyRelu": [0.2], "Clip": [-0.5, 0.6], "HardSigmoid": [0.3, 0.4]}.get(name)
    more |= {"activation": name, **({"activation_params": told} if told else {})}
    return Case([d.floats(*image), d.floats(*filters), d.maybe(lambda: d.floats(filters[0]))], more)


@case("NhwcFusedConv")
def _nhwc_fused_conv(d: Draw) -> Case:
    made = _fused_conv(d)
    x, w, b = made.inputs
    assert x is not None and w is not None
    while x.ndim != 4:
        return _nhwc_fused_conv(d)
    return Case([np.moveaxis(x, 1, -1).copy(), w, b], made.attributes)


@case("NhwcConv")
def _nhwc_conv(d: Draw) -> Case:
    image, filters, more = convolution(d, 2)
    x, w = d.floats(*image), d.floats(*filters)
    return Case(
        [np.moveaxis(x, 1, -1).copy(), np.moveaxis(w, 1, -1).copy(), d.maybe(lambda: d.floats(filters[0]))],
        more,
    )


@case("NhwcMaxPool")
def _nhwc_max_pool(d: Draw) -> Case:
    image, filters, more = convolution(d, 2)
    del more["group"]
    more["ceil_mode"] = int(d.chance(0.3))
    return Case([np.moveaxis(d.codes(*image, dtype=d.byte()), 1, -1).copy()], more)


# ---- normalisation


@case("SimplifiedLayerNormalization")
def _simplified(d: Draw) -> Case:
    shape, dtype = d.shape(2, 4), d.pick(F32, F16, F64)
    axis = d.pick(-1, len(shape) - 1)
    return Case(
        [d.floats(*shape, dtype=dtype), d.floats(*shape[axis:], dtype=dtype)],
        {"axis": axis, "epsilon": 1e-5},
        domain="",
    )


@case("SkipLayerNormalization")
def _skip(d: Draw) -> Case:
    b, s, h = d.length(), d.length(), d.pick(2, 3, 5, 7, 11)
    dtype = d.pick(F32, F32, F16)
    other = d.pick((b, s, h), (1, s, h), (s, h))
    return Case(
        [d.floats(b, s, h, dtype=dtype), d.floats(*other, dtype=dtype), d.floats(h, dtype=dtype),
         d.maybe(lambda: d.floats(h, dtype=dtype)), d.maybe(lambda: d.floats(h, dtype=dtype))],
        {"epsilon": 1e-5},
        (0, 3) if d.chance() else (0,),
        tolerance=1e-4,
    )  # fmt: skip


@case("SkipSimplifiedLayerNormalization")
def _skip_simplified(d: Draw) -> Case:
    made = _skip(d)
    x, skip, gamma, _, bias = made.inputs
    return Case([x, skip, gamma, bias], made.attributes, made.outputs)


@case("GatedRMSNorm")
def _gated_rms(d: Draw) -> Case:
    shape, c, dtype = d.shape(1, 3), d.pick(2, 3, 5), d.pick(F32, F16)
    wide = (*shape[:-1], shape[-1] * c)
    more = {"activation": d.pick("silu", "swish", "sigmoid")}
    return Case([d.floats(*wide, dtype=dtype), d.floats(c, dtype=dtype), d.floats(*wide, dtype=dtype)], more)


def _groups(d: Draw) -> tuple[list[Any], dict[str, Any]]:
    groups, each, last = d.length(), d.length(), int(d.chance())
    channels, image = groups * each, d.shape(2, 2)
    batch = d.length()
    shape = (batch, *image, channels) if last else (batch, channels, *image)
    more = {"groups": groups, "channels_last": last, "activation": int(d.chance()), "epsilon": 1e-5}
    return [d.floats(*shape), d.floats(channels), d.floats(channels)], more


@case("GroupNorm")
def _group_norm(d: Draw) -> Case:
    return Case(*_groups(d))


@case("SkipGroupNorm")
def _skip_group_norm(d: Draw) -> Case:
    (x, gamma, beta), more = _groups(d)
    n, c = x.shape[0], gamma.size
    around = (n, 1, 1, c) if more["channels_last"] else (n, c, 1, 1)
    skip = d.floats(*d.pick(x.shape, around, (n, c)))
    return Case([x, gamma, beta, skip, d.maybe(lambda: d.floats(c))], more, (0, 1))


@case("EmbedLayerNormalization")
def _embed(d: Draw) -> Case:
    b, s, h, dtype = d.length(), d.length(), d.pick(2, 3, 5, 7), d.pick(F32, F32, F16)
    segments = d.chance()
    places = d.maybe(lambda: d.rng.integers(0, 9, (d.pick(1, b), s)).astype(np.int32), 0.3)
    mask = d.maybe(lambda: (np.arange(s)[None] < d.rng.integers(1, s + 1, (b, 1))).astype(np.int32))
    inputs = [
        d.rng.integers(0, 13, (b, s)).astype(np.int32),
        d.rng.integers(0, 3, (b, s)).astype(np.int32) if segments else None,
        d.floats(13, h, dtype=dtype), d.floats(9, h, dtype=dtype), d.floats(3, h, dtype=dtype) if segments else None,
        d.floats(h, dtype=dtype), d.floats(h, dtype=dtype), mask, places,
    ]  # fmt: skip
    outputs = (0, 1, 2) if d.chance() else (0, 1)
    return Case(inputs, {"epsilon": 1e-5}, outputs, tolerance=1e-4)


# ---- what moves elements


@case("Trilu")
def _trilu(d: Draw) -> Case:
    k = d.maybe(lambda: np.array(d.rng.integers(-3, 4), np.int64))
    return Case([d.floats(*d.shape(2, 4), dtype=d.pick(F32, F64)), k], {"upper": int(d.chance())})


@case("Range")
def _range(d: Draw) -> Case:
    dtype, step = d.pick(np.float32, np.int32, np.int64, np.int16, np.float64), d.pick(None, 2, -1)
    first = int(d.rng.integers(-5, 5))
    last = first + int(d.rng.integers(0, 9)) * (step or 1)
    return Case(
        [np.array(first, dtype), np.array(last, dtype), None if step is None else np.array(step, dtype)]
    )


@case("Pad")
def _pad(d: Draw) -> Case:
    shape = d.shape(1, 3)
    mode = d.pick("constant", "reflect", "edge")
    most = min(3, min(shape)) if mode == "reflect" else 3
    pads = d.rng.integers(0, most, 2 * len(shape)).astype(np.int64)
    pads = pads[None] if d.chance(0.3) else pads
    value = d.maybe(lambda: np.array([1.5], F32)) if mode == "constant" else None
    return Case([d.floats(*shape), pads, value], {"mode": mode})


@case("ExpandDims")
def _expand_dims(d: Draw) -> Case:
    shape = d.shape(0, 3)
    return Case([d.floats(*shape), np.array(d.rng.integers(-len(shape) - 1, len(shape) + 1), np.int32)])


@case("GatherND")
def _gather_nd(d: Draw) -> Case:
    shape = d.shape(1, 4)
    depth = int(d.rng.integers(1, len(shape) + 1))
    places = np.stack(
        [
            d.rng.integers(0, n, d.pick((3,), (2, 2))) if False else d.rng.integers(0, n, (3,))
            for n in shape[:depth]
        ],
        -1,
    )
    return Case([d.floats(*shape), places.astype(d.pick(np.int32, np.int64))])


@case("GridSample")
def _grid_sample(d: Draw) -> Case:
    n, c, h, w = d.length(), d.length(), d.length(), d.length()
    grid = d.rng.uniform(-1.2, 1.2, (n, d.length(), d.length(), 2)).astype(F32)
    more = {
        "mode": d.pick("bilinear", "nearest", "bicubic"),
        "padding_mode": d.pick("zeros", "border", "reflection"),
    }
    return Case([d.floats(n, c, h, w), grid], {**more, "align_corners": int(d.chance())}, tolerance=1e-3)


@case("Unique")
def _unique(d: Draw) -> Case:
    return Case([d.rng.integers(0, 5, d.rng.integers(1, 12)).astype(F32)], {}, (0, 1, 2))


@case("UnfoldTensor")
def _unfold(d: Draw) -> Case:
    shape = d.shape(1, 3)
    axis = int(d.rng.integers(0, len(shape)))
    more = {
        "dim": axis - len(shape) * int(d.chance()),
        "size": int(d.rng.integers(1, shape[axis] + 1)),
        "step": d.pick(1, 2),
    }
    return Case([d.floats(*shape)], more)


@case("CDist")
def _cdist(d: Draw) -> Case:
    n, dtype = d.length(), d.pick(F32, F64)
    more = {"metric": d.pick("euclidean", "sqeuclidean")}
    return Case(
        [d.floats(d.length(), n, dtype=dtype), d.floats(d.length(), n, dtype=dtype)], more, tolerance=1e-3
    )


@case("ComplexMul", "ComplexMulConj")
def _complex_mul(d: Draw) -> Case:
    shape = d.shape(1, 3)
    return Case([d.floats(*shape, 2), d.floats(*shape, 2)])


@case("Rfft")
def _rfft(d: Draw) -> Case:
    return Case([d.floats(*d.shape(0, 2), d.pick(2, 4, 6, 10, 14))])


@case("Irfft")
def _irfft(d: Draw) -> Case:
    return Case([d.floats(*d.shape(0, 2), d.pick(2, 3, 4, 6, 8), 2)], {"signal_ndim": 1})
