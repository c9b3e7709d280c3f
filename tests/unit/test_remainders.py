# SPDX-License-Identifier: Apache-2.0
"""Remainders are exact for every quotient, under every name and on every target."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ngmlir as ng
import ngmlir.numpy as nnp
from ngmlir.ir.literals import type_of_dtype
from ngmlir.testing import special_numbers, wide_numbers

Array = np.ndarray[Any, Any]
FLOATS = [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
INTEGERS = [np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)]
TARGETS = ["numpy", "cpu", "cuda-sim"]


def numbers(dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Every two special numbers, and numbers of all exponents."""
    element, random = type_of_dtype(dtype), np.random.default_rng(2)
    grid = np.meshgrid(special_numbers(element), special_numbers(element))
    x, y = (np.concatenate([g.reshape(-1), wide_numbers(element, 1500, random)]) for g in grid)
    return x.astype(dtype), y.astype(dtype)


def c_remainder(a: float, b: float) -> float:
    return math.nan if b == 0 or math.isinf(a) or math.isnan(a) or math.isnan(b) else math.fmod(a, b)


def floored(a: float, b: float) -> float:
    return math.nan if b == 0 or math.isinf(a) else a % b


def same(found: Any, wanted: Any) -> bool:
    found, wanted = np.asarray(found).astype(np.float64), np.asarray(wanted).astype(np.float64)
    alike = (found == wanted) & (np.signbit(found) == np.signbit(wanted))
    return bool((alike | np.isnan(found) & np.isnan(wanted)).all())


def on(target: str, function: Any, x: Array, y: Array) -> list[Array]:
    dtype = str(type_of_dtype(x.dtype))
    a, b = (nnp.placeholder(v.shape, dtype=dtype) for v in (x, y))
    transformer = ng.transformers.make_transformer(target)
    made = function(a, b)
    results = transformer.computation(list(made) if isinstance(made, tuple) else [made], a, b)(x, y)
    return [np.asarray(r) for r in results]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_of_floats(dtype: np.dtype[Any], target: str) -> None:
    x, y = numbers(dtype)
    with np.errstate(all="ignore"):
        truncated = np.array([c_remainder(float(a), float(b)) for a, b in zip(x, y, strict=True)])
        down = np.array([floored(float(a), float(b)) for a, b in zip(x, y, strict=True)]).astype(dtype)
    fmod, mod, remainder, (_, second) = (
        on(target, f, x, y) for f in (nnp.fmod, nnp.mod, nnp.remainder, nnp.divmod)
    )
    assert same(fmod[0], truncated)
    for found in (mod[0], remainder[0], second):
        assert same(found, down)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_of_integers(dtype: np.dtype[Any], target: str) -> None:
    x, y = numbers(dtype)
    pairs = [(int(a), int(b)) for a, b in zip(x, y, strict=True)]
    wanted = [0 if b == 0 else abs(a) % abs(b) * (-1 if a < 0 else 1) for a, b in pairs]
    assert on(target, nnp.fmod, x, y)[0].tolist() == wanted
    assert on(target, nnp.remainder, x, y)[0].tolist() == [0 if b == 0 else a % b for a, b in pairs]


@pytest.mark.parametrize("fmod", [0, 1])
@pytest.mark.parametrize("dtype", [*FLOATS[:3], *INTEGERS], ids=str)
def test_of_onnx(dtype: np.dtype[Any], fmod: int) -> None:
    if dtype.kind == "f" and not fmod:
        return  # the standard has it for integers alone
    helper = pytest.importorskip("onnx").helper
    from ngmlir.frontends.onnx import load

    x, y = numbers(dtype)
    kind = helper.np_dtype_to_tensor_dtype(dtype)
    info = [helper.make_tensor_value_info(n, kind, [len(x)]) for n in "xyz"]
    node = helper.make_node("Mod", ["x", "y"], ["z"], fmod=fmod)
    model = helper.make_model(
        helper.make_graph([node], "g", info[:2], info[2:]), opset_imports=[helper.make_opsetid("", 18)]
    )
    found = np.asarray(ng.compile(load(model))(x, y)[0])
    if dtype.kind == "f":
        assert same(found, [c_remainder(float(a), float(b)) for a, b in zip(x, y, strict=True)])
    else:
        pairs = [(int(a), int(b)) for a, b in zip(x, y, strict=True)]
        sign = [1 if not fmod else -1 if a < 0 else 1 for a, _ in pairs]
        wanted = [
            0 if b == 0 else (abs(a) % abs(b) * s if fmod else a % b)
            for (a, b), s in zip(pairs, sign, strict=True)
        ]
        assert found.tolist() == wanted


@pytest.mark.parametrize("target", ["numpy", "cpu"])
def test_gradients(target: str) -> None:
    """By the first operand 1, by the second the quotient less, rounded as the remainder has it."""
    x, y = np.array([7.5, -7.5, 7.5, -7.5, 0.5, 1e6]), np.array([2.0, 2.0, -2.0, -2.0, 3.0, 7.0])
    a, b = (nnp.placeholder(v.shape, dtype="f64") for v in (x, y))
    for function, rounded in ((nnp.remainder, np.floor), (nnp.fmod, np.trunc)):
        total = nnp.sum(function(a, b))
        by = [ng.deriv(total, v) for v in (a, b)]
        first, second = ng.transformers.make_transformer(target).computation(by, a, b)(x, y)
        assert np.array_equal(first, np.ones(6))
        assert np.array_equal(second, -rounded(x / y))
