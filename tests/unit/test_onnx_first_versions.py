# SPDX-License-Identifier: Apache-2.0
"""Operators as the first versions of ONNX have them, which old converters wrote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import ngmlir as ng

onnx = pytest.importorskip("onnx")

from onnx import helper, numpy_helper  # noqa: E402

from ngmlir.frontends.onnx import load  # noqa: E402
from ngmlir.support.diagnostics import UserError  # noqa: E402

IMAGE = np.random.default_rng(3).normal(size=(2, 3, 4, 5)).astype(np.float32)


def ran(op: str, inputs: Sequence[np.ndarray], opset: int = 1, **attributes: Any) -> np.ndarray:
    """Of the inputs the first is fed, the others are weights."""
    names = [f"x{i}" for i in range(len(inputs))]
    element = helper.np_dtype_to_tensor_dtype(inputs[0].dtype)
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], **attributes)],
        "g",
        [helper.make_tensor_value_info("x0", element, inputs[0].shape)],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(a, name) for name, a in zip(names[1:], inputs[1:], strict=True)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    return ng.compile(load(model))(inputs[0])[0]


def test_types_that_are_named_by_text() -> None:
    made = ran("Cast", [IMAGE * 9], to="INT32")
    assert made.dtype == np.int32 and (made == (IMAGE * 9).astype(np.int32)).all()
    with pytest.raises(UserError, match="no element type 'INT5'"):
        ran("Cast", [IMAGE], to="INT5")


def test_norms_whose_exponent_is_a_float() -> None:
    made = ran("GlobalLpPool", [IMAGE], p=3.0)
    wanted = (np.abs(IMAGE) ** 3).sum((2, 3), keepdims=True) ** (1 / 3)
    np.testing.assert_allclose(made, wanted, rtol=1e-5)
    made = ran("LpPool", [IMAGE], p=2.0, kernel_shape=[4, 5])
    np.testing.assert_allclose(made, np.sqrt((IMAGE**2).sum((2, 3), keepdims=True)), rtol=1e-5)


def test_batch_normalization_of_single_places() -> None:
    scale, bias, mean = np.random.default_rng(4).normal(size=(3, 3, 4, 5)).astype(np.float32)
    variance = np.abs(mean) + 1
    made = ran("BatchNormalization", [IMAGE, scale, bias, mean, variance], 7, spatial=0)
    np.testing.assert_allclose(
        made, (IMAGE - mean) / np.sqrt(variance + 1e-5) * scale + bias, rtol=1e-4, atol=1e-5
    )


def test_experiments() -> None:
    same = np.testing.assert_allclose
    same(ran("Affine", [IMAGE], alpha=2.0, beta=1.0), IMAGE * 2 + 1, rtol=1e-6)
    bias = np.float32([1, 2, 3])[:, None, None]
    same(ran("ImageScaler", [IMAGE], 7, scale=0.5, bias=[1.0, 2.0, 3.0]), IMAGE / 2 + bias, rtol=1e-6)
    softplus = 2 * np.log1p(np.exp(3 * IMAGE))
    same(ran("ParametricSoftplus", [IMAGE], alpha=2.0, beta=3.0), softplus, rtol=1e-5, atol=1e-6)
    same(ran("ScaledTanh", [IMAGE], alpha=2.0, beta=3.0), 2 * np.tanh(3 * IMAGE), rtol=1e-5, atol=1e-6)
    same(ran("Crop", [IMAGE], border=[1, 2, 2, 0]), IMAGE[:, :, 2:4, 1:3])
    same(ran("Crop", [IMAGE], border=[1, 2, 0, 0], scale=[1, 3]), IMAGE[:, :, 2:3, 1:4])
    with pytest.raises(UserError, match="does not lie in an image of 4x5"):
        ran("Crop", [IMAGE], border=[3, 0, 3, 0])
