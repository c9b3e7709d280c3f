# SPDX-License-Identifier: Apache-2.0
"""Of the tests that ship with onnx, one for each operator here: on NumPy, and compiled. All: bench/onnx_conformance.py."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest

import ngmlir as ng

onnx = pytest.importorskip("onnx")

from onnx.backend.test.case.node import collect_testcases  # noqa: E402

from ngmlir.frontends.onnx import load  # noqa: E402
from ngmlir.frontends.onnx.nodes import OPERATORS  # noqa: E402
from ngmlir.frontends.onnx.reader import Reader  # noqa: E402

assert Reader
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
def cases() -> dict[str, Any]:
    """The suite's tests of nodes; it makes them in memory."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: case for case in collect_testcases(None)}


@cache
def chosen() -> dict[str, Any]:
    """Operator -> the test of it alone."""
    names = {name for domain, name in OPERATORS if domain == ""}
    names.discard("Bernoulli")  # what the suite expects comes from another generator
    found = {op: cases()[name] for op, name in OTHERS.items()}
    for name, case in sorted(cases().items()):
        nodes = case.model.graph.node
        if "expanded" not in name and len(nodes) == 1 and nodes[0].op_type in names:
            found.setdefault(nodes[0].op_type, case)
    return found


def _agrees(made: Any, expected: Any) -> None:
    if isinstance(expected, list):
        assert isinstance(made, list) and len(made) == len(expected)
        for each, other in zip(made, expected, strict=True):
            _agrees(each, other)
        return
    assert made.dtype == expected.dtype and made.shape == expected.shape
    np.testing.assert_allclose(made, expected, rtol=1e-3, atol=1e-7)


def _check(case: Any, target: str) -> None:
    inputs, expected = ([_value(v) for v in values] for values in case.data_sets[0])
    outputs = ng.compile(load(case.model), target=target)(*inputs)
    assert len(outputs) == len(expected)
    for made, wanted in zip(outputs, expected, strict=True):
        _agrees(made, wanted)


def _value(given: Any) -> Any:
    if isinstance(given, onnx.TensorProto):
        return onnx.numpy_helper.to_array(given)
    return given if given is None or isinstance(given, list) else np.asarray(given)


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
