# SPDX-License-Identifier: Apache-2.0
"""Operators of ONNX against NumPy, where the suite that ships with onnx says little."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ngmlir as ng

onnx = pytest.importorskip("onnx")

from onnx import helper, numpy_helper  # noqa: E402

from ngmlir.frontends.onnx import load  # noqa: E402
from ngmlir.support.diagnostics import NgmlirError  # noqa: E402


def ran(
    op: str,
    inputs: dict[str, Any],
    outputs: int = 1,
    opset: int = 20,
    target: str = "numpy",
    **attributes: Any,
) -> Any:
    """What one operator gives; arrays of inputs that begin with a capital letter are weights of the model."""
    arrays = {name: np.asarray(a) for name, a in inputs.items()}
    names = [f"out{i}" for i in range(outputs)]
    held = [numpy_helper.from_array(a, name) for name, a in arrays.items() if name[0].isupper()]
    ports = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for name, a in arrays.items()
        if not name[0].isupper()
    ]
    graph = helper.make_graph(
        [helper.make_node(op, list(arrays), names, **attributes)],
        "g",
        ports,
        [onnx.ValueInfoProto(name=name) for name in names],
        held,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    run = ng.compile(load(model), target=target)
    made = run(*[a for name, a in arrays.items() if not name[0].isupper()])
    return made[0] if outputs == 1 else list(made)


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).normal(size=shape)


@pytest.mark.parametrize("length", [1, 6, 521, 1000, 1042, 2048])
def test_transforms_of_every_length(length: int) -> None:
    x = _random(2, length, 2)
    expected = np.fft.fft(x[..., 0] + 1j * x[..., 1])
    made = ran("DFT", {"x": x})
    np.testing.assert_allclose(made[..., 0] + 1j * made[..., 1], expected, atol=1e-12 * length)
    np.testing.assert_allclose(ran("DFT", {"x": made}, inverse=1), x, atol=1e-12)


@pytest.mark.parametrize(("length", "asked"), [(6, 6), (7, 7), (600, 600), (7, 9), (9, 4), (521, 700)])
def test_one_side_of_real_numbers_and_back(length: int, asked: int) -> None:
    x = _random(3, length, 2, 1)
    expected = np.fft.rfft(x[..., 0], asked, axis=1)
    made = ran("DFT", {"x": x, "Length": np.int64(asked), "Axis": np.int64(1)}, onesided=1)
    np.testing.assert_allclose(made[..., 0] + 1j * made[..., 1], expected, atol=1e-11)
    back = ran("DFT", {"x": made, "Length": np.int64(asked), "Axis": np.int64(1)}, onesided=1, inverse=1)
    np.testing.assert_allclose(back[..., 0], np.fft.irfft(expected, asked, axis=1), atol=1e-12)
    assert back.shape == (3, asked, 2, 1)


@pytest.mark.parametrize("largest", [0, 1])
def test_the_greatest_of_many(largest: int) -> None:
    x = np.random.default_rng(1).integers(-500, 500, size=(2, 9000, 3)).astype(np.int32)
    values, places = ran("TopK", {"x": x, "K": np.array([40])}, 2, axis=1, largest=largest)
    order = np.argsort(-x if largest else x, axis=1, kind="stable")[:, :40]
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))


def test_more_of_the_greatest_than_there_are() -> None:
    with pytest.raises(NgmlirError, match="the 5 greatest of 4"):
        ran("TopK", {"x": np.zeros(4, np.float32), "K": np.array([5])}, 2)
