# SPDX-License-Identifier: Apache-2.0
"""Random nodes of ONNX's own domain: integers, short floats, scales for all, for slices or for blocks, and sums of integers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from microsoft_draw import Array, Case, Draw, case
from onnx import TensorProto, helper

F16, F32 = np.float16, np.float32
_SHORT = (ml_dtypes.int4, ml_dtypes.uint4)
_FLOATS = (
    ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz,
)  # fmt: skip
_CODES = (np.uint8, np.int8, np.uint16, np.int16, *_SHORT, *_FLOATS)


def _scaled(d: Draw) -> tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]:
    """A shape, that of its scales, and along which axis they are."""
    shape = tuple(d.pick(1, 2, 3, 5, 7, 16) for _ in range(d.pick(1, 2, 3)))
    axis, kind = int(d.rng.integers(0, len(shape))), d.pick("all", "slices", "blocks")
    more: dict[str, Any] = {"axis": axis - len(shape) * int(d.chance())}
    if kind == "all":
        return shape, (), {}
    if kind == "slices":
        return shape, (shape[axis],), more
    more["block_size"] = d.pick(*(n for n in (1, 2, 3, 16) if n <= max(2, shape[axis])))
    return shape, tuple(-(-n // more["block_size"]) if a == axis else n for a, n in enumerate(shape)), more


def _points(d: Draw, shape: tuple[int, ...], dtype: Any) -> Array:
    return (np.zeros(shape) if dtype in _FLOATS else d.rng.integers(0, 7, shape)).astype(dtype)


@case("ai.onnx.QuantizeLinear")
def _quantize(d: Draw) -> Case:
    shape, scales, more = _scaled(d)
    dtype = d.pick(*_CODES)
    x = d.floats(*shape, scale=d.pick(1, 5, 300))
    if d.chance(0.3):
        x.flat[0] = d.pick(np.inf, -np.inf)
    zero = d.maybe(lambda: _points(d, scales, dtype))
    if zero is None or d.chance(0.3):
        more["output_dtype"] = int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    if dtype in _FLOATS:
        more["saturate"] = int(d.chance())
    widened = TensorProto.FLOAT if dtype in (*_SHORT, *_FLOATS) else 0
    return Case([x, d.scale(*scales), zero], more, domain="", held=frozenset({2}), widened=widened)


@case("ai.onnx.DequantizeLinear")
def _dequantize(d: Draw) -> Case:
    shape, scales, more = _scaled(d)
    dtype = d.pick(*_CODES, np.int32)
    codes = d.rng.integers(0, 8, shape).astype(np.uint8).astype(dtype)
    zero = None if dtype is np.int32 else d.maybe(lambda: _points(d, scales, dtype))
    held = frozenset({0, 2} if dtype in (*_SHORT, *_FLOATS) else ())
    return Case([codes, d.scale(*scales).astype(d.pick(F32, F16)), zero], more, domain="", held=held)


@case("ai.onnx.DynamicQuantizeLinear")
def _dynamic(d: Draw) -> Case:
    x = d.floats(*d.shape(1, 3), scale=d.pick(0, 1e-3, 1, 100)) + F32(d.pick(0, 5, -5))
    return Case([x], {}, (0, 1, 2), domain="")


@case("ai.onnx.MatMulInteger")
def _product(d: Draw) -> Case:
    m, k, n, batch = d.length(), d.pick(1, 3, 7, 64, 130), d.pick(1, 3, 17), d.shape(0, 2)
    a_type, b_type = d.byte(), d.byte()
    lead = batch if d.chance(0.3) else ()
    zeros = [d.zero(a_type), d.maybe(lambda: d.zero(b_type, *d.pick((), (1,), (n,) if not lead else ())))]
    inputs = [d.codes(*batch, m, k, dtype=a_type), d.codes(*lead, k, n, dtype=b_type)]
    return Case([*inputs, *(zeros if d.chance(0.7) else [])], domain="")


@case("ai.onnx.QLinearMatMul")
def _requantized(d: Draw) -> Case:
    m, k, n = d.length(), d.pick(1, 7, 64), d.pick(1, 5, 17)
    a_type, b_type = d.pick((np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8))
    columns = d.pick((), (1,), (n,))
    zero = np.zeros(columns, b_type) if columns == (n,) else d.zero(b_type, *columns)
    inputs = [
        d.codes(m, k, dtype=a_type), d.real(), d.zero(a_type), d.codes(k, n, dtype=b_type), d.scale(*columns), zero,
        d.real() * 20, d.zero(a_type),
    ]  # fmt: skip
    return Case(inputs, domain="", steps=1)


@case("ai.onnx.ConvInteger")
def _convolution(d: Draw) -> Case:
    rank, groups = d.pick(1, 2), d.pick(1, 1, 2, 3)
    image = [d.pick(5, 7, 8) for _ in range(rank)]
    more: dict[str, Any] = {"group": groups}
    borders = d.pick("none", "SAME_UPPER", "SAME_LOWER", "VALID", "pads")
    if borders == "pads":
        more["pads"] = [int(n) for n in d.rng.integers(0, 3, 2 * rank)]
    elif borders != "none":
        more["auto_pad"] = borders
    if d.chance():
        more["strides"] = [d.pick(1, 2, 3) for _ in range(rank)]
    elif not borders.startswith("SAME"):
        more["dilations"] = [d.pick(1, 2) for _ in range(rank)]
    depth, dtype = d.pick(1, 2, 3), d.byte()
    filters = (groups * d.pick(1, 2, 3), depth, *(d.pick(1, 2, 3) for _ in range(rank)))
    zeros = [d.zero(np.uint8), d.maybe(lambda: d.zero(dtype))] if d.chance(0.7) else []
    # ONNX Runtime's kernel takes an image of u8.
    return Case([d.codes(2, groups * depth, *image), d.codes(*filters, dtype=dtype), *zeros], more, domain="")
