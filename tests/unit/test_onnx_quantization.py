# SPDX-License-Identifier: Apache-2.0
"""Numbers of ONNX models that become integers with a scale."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import ngmlir as ng

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from ngmlir.frontends.onnx import load  # noqa: E402


@pytest.mark.parametrize("target", ["numpy", "cpu"])
@pytest.mark.parametrize("numbers", [[0.0, 0.0], [-0.0], [0.0, 510.0], [-255.0, 0.0], [-1.0, 2.0, 0.3]])
def test_scales_of_what_is_in_a_call(numbers: list[float], target: str) -> None:
    """The codes stand for what was given; zeros alone have the scale 1, by which others may divide."""
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "scale", "zero"])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [len(numbers)])
    kinds = {"y": TensorProto.UINT8, "scale": TensorProto.FLOAT, "zero": TensorProto.UINT8}
    results = [helper.make_tensor_value_info(name, kind, None) for name, kind in kinds.items()]
    graph = helper.make_graph([node], "g", [x], results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    given = np.array(numbers, np.float32)
    y, scale, zero = (np.asarray(v) for v in ng.compile(load(model), target=target)(given))
    low, high = min(0.0, *numbers), max(0.0, *numbers)
    assert scale == np.float32((high - low) / 255 or 1)
    assert np.abs((y.astype(np.float32) - np.float32(zero)) * scale - given).max() <= scale * 0.51


@pytest.mark.parametrize("target", ["numpy", "cpu"])
@pytest.mark.parametrize("opset", [19, 21, 22])
def test_short_quotients_are_rounded_once(opset: int, target: str) -> None:
    """Before opset 23, which has `precision`, codes are those of exact quotients, also where f16 rounds to the middle of two codes."""
    random = np.random.default_rng(0)
    given = (random.standard_normal(3000) * 2).astype(np.float16)
    scale = np.float16(0.0173)
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])
    held = [numpy_helper.from_array(np.array(v), name) for name, v in (("s", scale), ("z", np.int8(3)))]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT16, [3000])
    y = helper.make_tensor_value_info("y", TensorProto.INT8, [3000])
    graph = helper.make_graph([node], "g", [x], [y], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    (found,) = ng.compile(load(model), target=target)(given)
    codes = [round(Fraction(float(v)) / Fraction(float(scale))) + 3 for v in given]
    np.testing.assert_array_equal(found, np.clip(codes, -128, 127))
    assert (np.rint(given / scale) + 3 != codes).any()


@pytest.mark.parametrize("target", ["numpy", "cpu"])
@pytest.mark.parametrize("channels", [1, 2, 3, 8, 13])
@pytest.mark.parametrize("steps", [[1, 1], [2, 3], [4, 4]])
def test_windows_of_bytes(channels: int, steps: list[int], target: str) -> None:
    """A convolution of codes with their channels outside the image: exact sums, with the zero point beyond the border."""
    random = np.random.default_rng(channels)
    x = random.integers(0, 256, (2, channels, 13, 14)).astype(np.uint8)
    w = random.integers(-128, 128, (5, channels, 4, 4)).astype(np.int8)
    top, left, bottom, right = pads = [0, 0, 0, 0] if steps == [4, 4] else [2, 0, 1, 3]
    held = {"w": w, "s": np.float32(1), "z": np.uint8(7), "ys": np.float32(2.0**12), "yz": np.uint8(128)}
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["a"]),
        helper.make_node("DequantizeLinear", ["w", "s"], ["b"]),
        helper.make_node("Conv", ["a", "b"], ["c"], pads=pads, strides=steps),
        helper.make_node("QuantizeLinear", ["c", "ys", "yz"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in held.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    (found,) = ng.compile(load(model), target=target)(x)
    wide = np.pad(x.astype(np.int64) - 7, [(0, 0), (0, 0), (top, bottom), (left, right)])
    windows = np.lib.stride_tricks.sliding_window_view(wide, (4, 4), (2, 3))[:, :, :: steps[0], :: steps[1]]
    sums = np.einsum("nchwij,ocij->nohw", windows, w.astype(np.int64))
    np.testing.assert_array_equal(found, np.clip(np.rint(sums / 2**12) + 128, 0, 255))
