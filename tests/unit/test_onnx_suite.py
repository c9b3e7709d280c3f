# SPDX-License-Identifier: Apache-2.0
"""Of the tests that ship with onnx, one for each operator here: on NumPy, and compiled. All: bench/onnx_conformance.py."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ngmlir as ng

onnx = pytest.importorskip("onnx")

from onnx import numpy_helper  # noqa: E402

from ngmlir.frontends.onnx import load  # noqa: E402
from ngmlir.frontends.onnx.nodes import OPERATORS  # noqa: E402
from ngmlir.frontends.onnx.reader import Reader  # noqa: E402

assert Reader
DATA = Path(onnx.__file__).parent / "backend" / "test" / "data" / "node"
#: Whose first test is about what is refused, and which of its tests is not.
OTHERS = {
    "Cast": "test_cast_DOUBLE_to_FLOAT",
    "CastLike": "test_castlike_DOUBLE_to_FLOAT",
    "BitCast": "test_bitcast_float32_to_int32",
    "Scan": "test_scan9_sum",
    "DequantizeLinear": "test_dequantizelinear",
    "QuantizeLinear": "test_quantizelinear",
    "QLinearMatMul": "test_qlinearmatmul_2D_uint8_float32",
    "Equal": "test_equal",
    "Constant": "test_constant",
    "RNN": "test_simple_rnn_defaults",
}
#: Compiled programs take longer to make: those of every so many operators.
COMPILED = 4


@cache
def chosen() -> dict[str, Path]:
    """Operator -> the test of it alone."""
    names = {name for domain, name in OPERATORS if domain == ""}
    found = {op: DATA / name for op, name in OTHERS.items()}
    for folder in sorted(DATA.iterdir()):
        if folder.name.endswith("_expanded") or "expanded" in folder.name:
            continue
        text = (folder / "model.onnx").read_bytes()
        if len(text) > 1 << 16:
            continue
        nodes = onnx.load_model_from_string(text).graph.node
        if len(nodes) == 1 and nodes[0].op_type in names:
            found.setdefault(nodes[0].op_type, folder)
    return found


def _values(folder: Path, kind: str, ports: Any) -> list[Any]:
    values: list[Any] = []
    for i, port in enumerate(ports):
        data = (folder / "test_data_set_0" / f"{kind}_{i}.pb").read_bytes()
        type = port.type.optional_type.elem_type if port.type.HasField("optional_type") else port.type
        if port.type.HasField("optional_type"):
            optional = onnx.OptionalProto.FromString(data)
            values.append(numpy_helper.to_optional(optional))
        elif type.HasField("sequence_type"):
            values.append(numpy_helper.to_list(onnx.SequenceProto.FromString(data)))
        else:
            values.append(numpy_helper.to_array(onnx.TensorProto.FromString(data)))
    return values


def _agrees(made: Any, expected: Any) -> None:
    if isinstance(expected, list):
        assert isinstance(made, list) and len(made) == len(expected)
        for each, other in zip(made, expected, strict=True):
            _agrees(each, other)
        return
    assert made.dtype == expected.dtype and made.shape == expected.shape
    np.testing.assert_allclose(made, expected, rtol=1e-3, atol=1e-7)


def _check(folder: Path, target: str) -> None:
    path = folder / "model.onnx"
    graph = onnx.load(path).graph
    outputs = ng.compile(load(path), target=target)(*_values(folder, "input", graph.input))
    expected = _values(folder, "output", graph.output)
    assert len(outputs) == len(expected)
    for made, wanted in zip(outputs, expected, strict=True):
        _agrees(made, wanted)


@pytest.mark.parametrize("op", sorted(name for domain, name in OPERATORS if domain == ""))
def test_operator(op: str) -> None:
    if op not in chosen():
        pytest.skip("the suite has no test of this operator alone")
    _check(chosen()[op], "numpy")


@pytest.mark.parametrize("op", sorted(name for domain, name in OPERATORS if domain == "")[::COMPILED])
def test_operator_compiled(op: str) -> None:
    if op not in chosen():
        pytest.skip("the suite has no test of this operator alone")
    _check(chosen()[op], "cpu")
