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
