# SPDX-License-Identifier: Apache-2.0
"""Short rows that begin off a sector, which threads read as one line of memory: right for all that rows may hold."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from test_gpu_ideals import kernels, tensor

from ngmlir.compiler import compile_module
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text

DTYPES = {"f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "i8": np.int8, "i32": np.int32}
SHAPES = [(1, 37), (7, 37), (8, 37), (1771, 37), (64, 33), (65, 45), (129, 63), (30, 35)]


def program(shape: tuple[int, int], element: str, body: str) -> str:
    x, y = tensor(shape, element), tensor(shape[:1], element)
    kept = x if "softmax" in body else y
    return (
        f"func.func @main(%a: {x}) -> {kept} {{\n %r = {body.format(x=x, y=y)}\n func.return %r : {kept}\n}}"
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("name", ["sum", "max", "min"])
def test_reductions(shape: tuple[int, int], element: str, name: str) -> None:
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(DTYPES[element])
    if not element.startswith("i"):
        x[shape[0] // 2, 5], x[0, -1], x[-1, 0] = np.nan, np.inf, -0.0
    module = from_text(program(shape, element, f"ng.{name} %a axes [1] : ({{x}}) -> {{y}}"))
    (found,), (wanted,) = compile_module(module, target="cuda-sim")(x), run(module, x)
    np.testing.assert_array_equal(np.asarray(found).astype(np.float64), np.asarray(wanted).astype(np.float64))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_softmax(shape: tuple[int, int], element: str) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(DTYPES[element])
    module = from_text(program(shape, element, "ng.softmax %a axes [1] : {x}"))
    (found,), (wanted,) = compile_module(module, target="cuda-sim")(x), run(module, x)
    tolerance = 1e-6 if element == "f32" else 1e-2
    np.testing.assert_allclose(
        np.asarray(found, np.float64), np.asarray(wanted, np.float64), tolerance, tolerance
    )


def test_each_sector_is_asked_for_once() -> None:
    for element in ("f32", "bf16"):
        x, y = tensor((1771, 37), element), tensor((1771,), element)
        (found,) = kernels([x], y, f"%r = ng.sum %a axes [1] : ({x}) -> {y}")
        assert found.counters.reads.ratio <= 1.1 and found.counters.shared.ratio <= 1.1
