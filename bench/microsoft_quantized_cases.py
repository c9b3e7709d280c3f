# SPDX-License-Identifier: Apache-2.0
"""Random nodes of com.microsoft: integers with scales and zero points, and weights that share bytes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from microsoft_cases import convolution
from microsoft_draw import Array, Case, Draw, case
from onnx import TensorProto

F16, F32 = np.float16, np.float32


def _of(d: Draw, shape: tuple[int, ...], dtype: Any) -> list[Any]:
    """Integers, their scale, their zero point."""
    return [d.codes(*shape, dtype=dtype), d.real(), d.zero(dtype)]


def _scales(d: Draw, dtype: Any, like: list[Any] | None = None) -> list[Any]:
    """Those of a result, sometimes the same as those of an input: then means lie between two integers."""
    return like[1:] if like is not None and d.chance(0.3) else [d.real(), d.zero(dtype)]


@case("QLinearAdd", "QLinearMul")
def _qlinear_two(d: Draw) -> Case:
    dtype, shape = d.byte(), d.shape()
    other = tuple(1 if d.chance(0.4) else n for n in shape)[int(d.rng.integers(0, len(shape))) :]
    parts = [_of(d, shape, dtype), _of(d, other, dtype)]
    if d.chance():
        parts.reverse()
    return Case([*parts[0], *parts[1], *_scales(d, dtype)], steps=1)


@case("QLinearLeakyRelu", "QLinearSigmoid")
def _qlinear_one(d: Draw) -> Case:
    dtype = d.byte()
    x = _of(d, d.shape(), dtype)
    return Case([*x, *_scales(d, dtype, x)], steps=1)


@case("QLinearSoftmax")
def _qlinear_softmax(d: Draw) -> Case:
    dtype, shape = d.byte(), d.shape(1, 4)
    more = {"axis": int(d.rng.integers(-len(shape), len(shape))), "opset": d.pick(11, 13)}
    out = [np.float32(1 / d.pick(255, 256)), np.array(0 if dtype is np.uint8 else -128, dtype)]
    return Case([*_of(d, shape, dtype), *out], more, steps=1)


@case("QLinearConcat")
def _qlinear_concat(d: Draw) -> Case:
    dtype, shape = d.byte(), d.shape()
    axis = int(d.rng.integers(0, len(shape)))
    parts: list[Any] = []
    for _ in range(d.pick(1, 2, 3)):
        parts += _of(d, tuple(d.length() if i == axis else n for i, n in enumerate(shape)), dtype)
    return Case([*_scales(d, dtype), *parts], {"axis": axis - len(shape) * int(d.chance())}, steps=1)


@case("QLinearWhere")
def _qlinear_where(d: Draw) -> Case:
    dtype, shape = d.byte(), d.shape()
    parts = [*_of(d, d.pick(shape, (1,)), dtype), *_of(d, shape, dtype), *_scales(d, dtype)]
    # ONNX Runtime 1.32 ends the process where some of the scales are weights and some are not.
    return Case([d.rng.random(shape) < 0.5, *parts], steps=1, held=frozenset({2, 3, 5, 6, 7, 8}))


@case("QLinearGlobalAveragePool")
def _qlinear_global(d: Draw) -> Case:
    dtype, last, image, (n, c) = d.byte(), int(d.chance()), d.shape(1, 2), d.shape(2, 2)
    shape = (n, *image, c) if last else (n, c, *image)
    x = _of(d, shape, dtype)
    return Case([*x, *_scales(d, dtype, x)], {"channels_last": last}, steps=1)


@case("QLinearReduceMean")
def _qlinear_mean(d: Draw) -> Case:
    dtype, shape = d.byte(), d.shape()
    axes = [a for a in range(len(shape)) if d.chance()] or [0]
    return Case(
        [*_of(d, shape, dtype), *_scales(d, dtype)], {"axes": axes, "keepdims": int(d.chance())}, steps=1
    )


@case("QLinearAveragePool")
def _qlinear_average(d: Draw) -> Case:
    dtype = d.byte()
    image, _, more = convolution(d, d.pick(1, 2))
    more.pop("group")
    more.pop("dilations", None)
    last = int(d.chance() and len(image) == 4)
    more |= {"count_include_pad": int(d.chance()), "channels_last": last}
    x, *rest = _of(d, image, dtype)
    out = _scales(d, dtype, [x, *rest])
    return Case([np.moveaxis(x, 1, -1).copy() if last else x, *rest, *out], more, steps=1)


@case("MulInteger")
def _mul_integer(d: Draw) -> Case:
    dtype, shape = d.byte(), d.shape()
    return Case([d.codes(*shape, dtype=dtype), d.zero(dtype), d.codes(shape[-1], dtype=dtype), d.zero(dtype)])


@case("ReduceSumInteger")
def _reduce_sum_integer(d: Draw) -> Case:
    shape = d.shape()
    axes = [a for a in range(len(shape)) if d.chance()] or [0]
    return Case([d.codes(*shape, dtype=d.byte())], {"axes": axes, "keepdims": int(d.chance())})


def _axis(d: Draw, shape: tuple[int, ...]) -> tuple[tuple[int, ...], dict[str, Any]]:
    """One scale, or one for each slice along an axis."""
    if d.chance():
        return (), {}
    axis = int(d.rng.integers(0, len(shape)))
    return (shape[axis],), {"axis": axis - len(shape) * int(d.chance())}


_SHORT = (np.uint8, np.int8, np.uint16, np.int16, ml_dtypes.int4, ml_dtypes.uint4)


def _points(d: Draw, dtype: Any, shape: tuple[int, ...]) -> Array:
    return d.rng.integers(0, 7, shape).astype(np.uint8).astype(dtype)


@case("QuantizeLinear")
def _quantize(d: Draw) -> Case:
    shape, dtype = d.shape(), d.pick(*_SHORT)
    scales, more = _axis(d, shape)
    real = d.pick(F32, F32, F16)
    zero = _points(d, dtype, scales) if dtype is not np.uint8 or d.chance() else None
    short = dtype in (ml_dtypes.int4, ml_dtypes.uint4)
    return Case([d.floats(*shape, dtype=real, scale=5), d.scale(*scales).astype(real), zero], more,
                held=frozenset({2} if short else ()), widened=TensorProto.INT8 if short else 0)  # fmt: skip


@case("DequantizeLinear")
def _dequantize(d: Draw) -> Case:
    shape, dtype = d.shape(), d.pick(*_SHORT, np.int32)
    scales, more = _axis(d, shape)
    real = d.pick(F32, F32, F16)
    codes = d.rng.integers(0, 8, shape).astype(np.uint8).astype(dtype)
    zero = None if dtype is np.int32 else d.maybe(lambda: _points(d, dtype, scales))
    short = dtype in (ml_dtypes.int4, ml_dtypes.uint4)
    return Case([codes, d.scale(*scales).astype(real), zero], more, held=frozenset({0, 2} if short else ()))


# ---- products


@case("QGemm")
def _qgemm(d: Draw) -> Case:
    m, k, n = d.length(), d.length(), d.length()
    a_type, b_type = d.pick((np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8))
    more = {"transA": int(d.chance()), "transB": int(d.chance()), "alpha": d.pick(1.0, 0.5)}
    columns = d.pick((), (n,))
    zero = np.zeros(columns, b_type) if b_type is np.int8 else d.zero(b_type, *columns)
    a = d.codes(*((k, m) if more["transA"] else (m, k)), dtype=a_type)
    b = d.codes(*((n, k) if more["transB"] else (k, n)), dtype=b_type)
    c = d.maybe(lambda: d.rng.integers(-500, 500, d.pick((n,), (m, n), (1, n))).astype(np.int32))
    out = [d.real() * 20, d.zero(a_type)] if d.chance() else [None, None]
    return Case([a, d.real(), d.zero(a_type), b, d.scale(*columns), zero, c, *out], more, steps=1)


@case("DynamicQuantizeMatMul")
def _dynamic_product(d: Draw) -> Case:
    m, k, n, batch, dtype = d.length(), d.length(), d.length(), d.shape(0, 2), d.byte()
    columns = d.pick((), (n,), (1,))
    return Case(
        [d.floats(*batch, m, k), d.codes(k, n, dtype=dtype), d.scale(*columns),
         d.maybe(lambda: d.zero(dtype, *columns)), d.maybe(lambda: d.floats(n))]
    )  # fmt: skip


@case("MatMulIntegerToFloat")
def _to_float(d: Draw) -> Case:
    m, k, n, batch = d.length(), d.length(), d.length(), d.shape(0, 2)
    a_type, b_type = d.pick((np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8))
    columns = d.pick((), (n,))
    return Case(
        [d.codes(*batch, m, k, dtype=a_type), d.codes(k, n, dtype=b_type), d.scale(), d.scale(*columns),
         d.maybe(lambda: d.zero(a_type)), d.maybe(lambda: d.zero(b_type, *columns)), d.maybe(lambda: d.floats(n))]
    )  # fmt: skip


@case("DynamicQuantizeLSTM")
def _dynamic_lstm(d: Draw) -> Case:
    time, batch, size, hidden, dtype = d.length(), d.pick(1, 2, 3), d.length(), d.pick(2, 3, 5), d.byte()
    way = d.pick("forward", "reverse", "bidirectional")
    ways = 2 if way == "bidirectional" else 1
    each = d.pick((ways,), (ways, 4 * hidden))

    def zeros() -> Array:
        return d.zero(dtype, ways) if dtype is np.uint8 and each == (ways,) else np.zeros(each, dtype)

    inputs = [
        d.floats(time, batch, size), d.codes(ways, size, 4 * hidden, dtype=dtype),
        d.codes(ways, hidden, 4 * hidden, dtype=dtype), d.maybe(lambda: d.floats(ways, 8 * hidden)),
        d.maybe(lambda: d.rng.integers(1, time + 1, batch).astype(np.int32), 0.3),
        d.maybe(lambda: d.floats(ways, batch, hidden)), d.maybe(lambda: d.floats(ways, batch, hidden)),
        d.maybe(lambda: d.floats(ways, 3 * hidden), 0.3),
        d.scale(*each) / 8, zeros(), d.scale(*each) / 8, zeros(),
    ]  # fmt: skip
    more: dict[str, Any] = {"direction": way, "hidden_size": hidden}
    if d.chance(0.3):
        more["clip"] = 0.8
    return Case(inputs, more, (0, 1, 2), tolerance=1e-4, held=frozenset({1, 2, 8, 9, 10, 11}))


@case("QLinearConv")
def _qlinear_conv(d: Draw) -> Case:
    image, filters, more = convolution(d, d.pick(1, 2))
    x_type, w_type = d.pick((np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8))
    last = int(d.chance())
    x = d.codes(*image, dtype=x_type)
    columns = d.pick((), (filters[0],))
    w_zero = np.zeros(columns, w_type) if w_type is np.int8 else np.full(columns, d.zero(w_type), w_type)
    bias = d.maybe(lambda: d.rng.integers(-500, 500, filters[0]).astype(np.int32))
    inputs = [
        np.moveaxis(x, 1, -1).copy() if last else x, d.real(), d.zero(x_type), d.codes(*filters, dtype=w_type),
        d.scale(*columns), w_zero, d.real() * 10, d.zero(x_type), bias,
    ]  # fmt: skip
    return Case(inputs, {**more, "channels_last": last}, steps=1)


# ---- weights that share bytes


def packed(codes: Array, bits: int) -> Array:
    """Codes of a last axis that fill whole bytes, the first in the low bits."""
    each = 8 // bits
    parts = codes.reshape(*codes.shape[:-1], codes.shape[-1] // each, each).astype(np.uint32)
    return (parts << (np.arange(each, dtype=np.uint32) * bits)).sum(-1).astype(np.uint8)


@case("MatMulNBits")
def _nbits(d: Draw) -> Case:
    bits, block = d.pick(4, 4, 8, 2), d.pick(16, 32, 64)
    rows, length = d.pick(1, 3, 7, 16), d.pick(16, 31, 32, 64, 67, 96)
    blocks = -(-length // block)
    dtype = d.pick(F32, F32, F16)
    codes = d.rng.integers(0, 1 << bits, (rows, blocks, block))
    kind = d.pick("none", "bytes", "numbers")
    zeros = None
    if kind == "bytes":
        whole = -(-blocks * bits // 8) * (8 // bits)
        zeros = packed(d.rng.integers(0, 1 << bits, (rows, whole)), bits)
    elif kind == "numbers":
        zeros = d.floats(rows, blocks, dtype=dtype) + dtype(1 << (bits - 1))
    # With g_idx ONNX Runtime 1.32 ignores zero points in bytes, and takes weights for ones of 4 bits.
    grouped = bits == 4 and kind != "bytes"
    groups = d.maybe(
        lambda: d.rng.permutation(np.arange(length) // block).astype(np.int32), 0.3 if grouped else 0
    )
    lead = d.pick((d.length(),), (2, d.length()), (1, 1))
    inputs = [
        d.floats(*lead, length, dtype=dtype), packed(codes, bits), d.scale(rows, blocks).astype(dtype), zeros, groups,
        d.maybe(lambda: d.floats(rows, dtype=dtype)),
    ]  # fmt: skip
    more = {"K": length, "N": rows, "bits": bits, "block_size": block, "accuracy_level": 1}
    held = frozenset({1, 2, 3, 4}) if d.chance() else frozenset[int]()
    return Case(inputs, more, tolerance=1e-3 if dtype is F16 else 1e-4, held=held)


def _weights(d: Draw, rows: int) -> list[Any]:
    """Of 4 bits, 48 long, in blocks of 32: bytes, scales, perhaps a bias."""
    return [
        packed(d.rng.integers(0, 16, (rows, 2, 32)), 4),
        d.scale(rows, 2),
        d.maybe(lambda: d.floats(rows)),
    ]


@case("MatMulNBitsMlp")
def _nbits_mlp(d: Draw) -> Case:
    rows, shape = d.pick(1, 3, 7), (d.pick(1, 2), d.length(), 48)
    norm = d.chance()
    skip = d.maybe(lambda: d.floats(*shape)) if norm else None
    inputs = [d.floats(*shape), skip, d.floats(48) if norm else None, *_weights(d, rows), *_weights(d, rows)]
    more = {"K": 48, "N": rows, "block_size": 32, "activation": "silu"}
    return Case(inputs, more, (0, 1) if skip is not None else (0,), tolerance=1e-4)


@case("MatMulNBitsQkv")
def _nbits_qkv(d: Draw) -> Case:
    rows, other, shape = d.pick(1, 3, 7), d.pick(1, 5), (d.pick(1, 2), d.length(), 48)
    skip = d.maybe(lambda: d.floats(*shape))
    inputs = [
        d.floats(*shape),
        skip,
        d.floats(48),
        *_weights(d, rows),
        *_weights(d, other),
        *_weights(d, other),
    ]
    more = {"K": 48, "Nq": rows, "Nkv": other, "block_size": 32}
    return Case(inputs, more, (0, 1, 2, 3) if skip is not None else (0, 1, 2), tolerance=1e-4)


@case("MatMulBnb4")
def _bnb4(d: Draw) -> Case:
    rows, length, block = d.pick(1, 3, 7, 16), d.pick(16, 31, 32, 67), d.pick(16, 32, 64)
    inputs = [
        d.floats(d.length(), length), d.codes((rows * length + 1) // 2),
        d.scale(-(-rows * length // block)) * 5,
    ]  # fmt: skip
    more = {"K": length, "N": rows, "block_size": block, "quant_type": d.pick(0, 1)}
    return Case(inputs, more, tolerance=1e-4, held=frozenset({1, 2}))


@case("GatherBlockQuantized")
def _gather_blocks(d: Draw) -> Case:
    kind, block = d.pick("bytes", ml_dtypes.int4, ml_dtypes.uint4), 16
    rank = d.pick(2, 2, 3)
    dtype = d.pick(F32, F16)
    shape = [d.pick(2, 3, 5) for _ in range(rank)]
    along = rank - 1 if kind == "bytes" else int(d.rng.integers(0, rank))
    shape[along] = d.pick(16, 32, 48) if kind == "bytes" else d.pick(16, 17, 35)
    gathered = 0 if kind == "bytes" else int(d.rng.integers(0, rank))
    blocks = [-(-n // block) if i == along else n for i, n in enumerate(shape)]
    more: dict[str, Any] = {"block_size": block, "gather_axis": gathered, "quantize_axis": along}
    count = shape[gathered]
    places = d.rng.integers(-count, count, d.pick((3,), (2, 2), (1,))).astype(d.pick(np.int32, np.int64))
    scales = d.scale(*blocks).astype(dtype)
    if kind == "bytes":
        bits = d.pick(4, 8, 2)
        more["bits"] = bits
        codes = packed(d.rng.integers(0, 1 << bits, shape), bits)
        whole = [*blocks[:-1], -(-blocks[-1] * bits // 8) * (8 // bits)]
        zeros = d.maybe(lambda: packed(d.rng.integers(0, 1 << bits, whole), bits))
    else:
        codes = d.rng.integers(0, 8, shape).astype(np.uint8).astype(kind)
        zeros = d.maybe(lambda: d.rng.integers(0, 8, blocks).astype(np.uint8).astype(kind))
    return Case([codes, places, scales, zeros], more, held=frozenset({0, 2, 3}))


# ---- experts


def _mixture(d: Draw) -> tuple[list[int], dict[str, Any], bool]:
    sizes = [d.pick(1, 3, 5), 16, d.pick(16, 32), d.pick(2, 3, 5)]  # tokens, hidden, inner, experts
    kind = d.pick("relu", "gelu", "silu", "identity", "swiglu")
    more: dict[str, Any] = {
        "k": int(d.rng.integers(1, sizes[3] + 1)), "activation_type": kind, "normalize_routing_weights": int(d.chance()),
    }  # fmt: skip
    if kind == "swiglu":
        more |= {"swiglu_fusion": 1, "activation_alpha": 1.702, "activation_beta": 1.0}
        if d.chance():
            more["swiglu_limit"] = 0.7
    return sizes, more, kind == "swiglu"


@case("MoE")
def _moe(d: Draw) -> Case:
    (tokens, hidden, inner, experts), more, two = _mixture(d)
    wide = inner * (2 if two else 1)
    inputs = [
        d.floats(tokens, hidden), d.floats(tokens, experts), d.floats(experts, wide, hidden, scale=0.3),
        d.maybe(lambda: d.floats(experts, wide)), d.floats(experts, hidden, inner, scale=0.3),
        d.maybe(lambda: d.floats(experts, hidden)),
    ]  # fmt: skip
    return Case(inputs, more, tolerance=1e-4)


@case("QMoE")
def _qmoe(d: Draw) -> Case:
    (tokens, hidden, inner, experts), more, two = _mixture(d)
    wide, bits, block = inner * (2 if two else 1), d.pick(4, 8), d.pick(0, 16)
    more |= {"expert_weight_bits": bits, **({"block_size": block} if block else {})}

    def layer(rows: int, length: int) -> list[Any]:
        codes = packed(d.rng.integers(0, 1 << bits, (experts, rows, length)), bits)
        blocks = (length // block,) if block else ()
        return [codes, d.scale(experts, rows, *blocks) / 16, d.maybe(lambda: d.floats(experts, rows))]

    inputs = [
        d.floats(tokens, hidden),
        d.floats(tokens, experts),
        *layer(wide, hidden),
        *layer(hidden, inner),
    ]
    if d.chance(0.3):
        inputs += [*[None] * 6, d.floats(tokens, experts) ** 2]
    # Where weights have 8 bits ONNX Runtime rounds the other side of these products too.
    return Case(inputs, more, tolerance=1e-3 if bits == 4 else 5e-2, held=frozenset({2, 3, 5, 6}))
