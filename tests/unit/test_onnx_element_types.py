# SPDX-License-Identifier: Apache-2.0
"""Operators of ONNX on elements of types that their weights do not have."""

from __future__ import annotations

import numpy as np
import pytest
from test_onnx_operators import ran

onnx = pytest.importorskip("onnx")

from onnx import helper, numpy_helper  # noqa: E402

import ngmlir as ng  # noqa: E402
from ngmlir.frontends.onnx import load  # noqa: E402


@pytest.mark.parametrize("target", ["numpy", "cpu"])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "int64"])
def test_images_of_integers_are_interpolated_in_floats_and_rounded(dtype: str, target: str) -> None:
    x = np.array([[[0, 10, -3, 100]]]).astype(dtype)
    scales = np.array([1, 1, 2], np.float32)
    roi = np.zeros(0, np.float32)
    third = -3 if dtype != "uint8" else 253
    exact = [0, 2.5, 7.5, 10 + (third - 10) / 4, third + (10 - third) / 4, third + (100 - third) / 4,
             100 + (third - 100) / 4, 100]  # fmt: skip
    made = ran("Resize", {"x": x, "Roi": roi, "Scales": scales}, mode="linear", target=target)
    assert made.dtype == dtype
    np.testing.assert_array_equal(made, [[np.rint(exact)]])


def test_cubic_weights_overshoot_no_further_than_the_type_goes() -> None:
    x = np.array([[[0, 0, 255, 255, 0, 0]]], np.uint8)
    made = ran("Resize", {"x": x, "R": np.zeros(0, np.float32), "S": np.float32([1, 1, 4])}, mode="cubic")
    assert made.dtype == np.uint8 and made.min() == 0 and made.max() == 255
    assert made[0, 0, 4] == 0 and made[0, 0, 11] == 255


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32"])
@pytest.mark.parametrize("mode", ["linear", "cubic", "nearest"])
def test_a_grid_of_another_type_than_the_image(dtype: str, mode: str) -> None:
    draw = np.random.default_rng(0)
    x = (draw.normal(size=(1, 2, 4, 5)) * 20).astype(dtype)
    grid = draw.uniform(-1.2, 1.2, (1, 3, 2, 2)).astype(np.float32)
    wanted = ran("GridSample", {"x": x.astype(np.float32), "grid": grid}, mode=mode)
    made = ran("GridSample", {"x": x, "grid": grid}, mode=mode)
    assert made.dtype == dtype
    np.testing.assert_allclose(
        made, np.rint(wanted) if dtype == "int32" else wanted, rtol=1e-3, atol=1e-2 if dtype == "float16" else 1e-4
    )  # fmt: skip


def test_fractions_of_products_of_integers() -> None:
    a, b, c = np.int32([[1, 2]]), np.int32([[3], [-4]]), np.int32([[7]])
    assert ran("Gemm", {"a": a, "b": b, "c": c}, alpha=0.5, beta=3.0) == [[int(-2.5 + 21)]]
    assert ran("Gemm", {"a": a, "b": b, "c": c}, alpha=2.0, beta=3.0) == [[-10 + 21]]


@pytest.mark.parametrize(("kind", "zero"), [("uint8", 100), ("int8", 3)])
def test_transposed_convolutions_of_codes_with_a_zero_point(kind: str, zero: int) -> None:
    """Products of codes whose batch dimension is the second: channels in groups."""
    draw = np.random.default_rng(1)
    filters = draw.integers(0, 120, (4, 2, 2)).astype(kind)
    held = {"W": filters, "WZ": np.array(zero, kind), "XS": np.float32(0.02), "WS": np.float32(0.01),
            "XZ": np.uint8(128), "YS": np.float32(0.05)}  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "XS", "XZ"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "XS", "XZ"], ["d"]),
        helper.make_node("DequantizeLinear", ["W", "WS", "WZ"], ["w"]),
        helper.make_node("ConvTranspose", ["d", "w"], ["y"], strides=[2], group=2),
        helper.make_node("QuantizeLinear", ["y", "YS", "XZ"], ["z"]),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", 1, [3, 4, 3])], [onnx.ValueInfoProto(name="z")],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in held.items()],
    )  # fmt: skip
    x = draw.normal(size=(3, 4, 3)).astype(np.float32)
    (made,) = ng.compile(load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])))(x)
    codes = np.clip(np.rint(x / np.float32(0.02)), -128, 127)
    weights = filters.astype(float) - zero
    sums = np.zeros((3, 4, 6))
    for group in range(2):
        own = slice(2 * group, 2 * group + 2)
        each = np.einsum("nct,cmk->nmtk", codes[:, own], weights[own])
        sums[:, own] = each.reshape(3, 2, 6)
    wanted = np.clip(np.rint(sums * (0.02 * 0.01 / 0.05)) + 128, 0, 255)
    assert np.abs(made.astype(int) - wanted).max() <= 1
