# SPDX-License-Identifier: Apache-2.0
"""Rows of open length are stored whole, and nothing behind them, also by machines that have no masked stores."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ngmlir.compiler import compile_module
from ngmlir.ops.words import from_text

DTYPES = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8, "i64": np.int64, "i1": np.bool_,
}  # fmt: skip


@pytest.fixture(params=["", "x86-64-v3", "x86-64-v2"])
def compiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Compiles for this machine, and for those with fewer instructions that it is one of."""
    if request.param and platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("another architecture")
    if request.param:
        monkeypatch.setenv("NGMLIR_CPU", request.param)
    return lambda text: compile_module(from_text(text))


@pytest.mark.parametrize("element", DTYPES)
def test_rows_of_all_lengths(element: str, compiled: Callable[[str], Any]) -> None:
    other = "bitwise_not" if element == "i1" else "negative"
    of = f"tensor<3x[N]x{element}>"
    run = compiled(
        f"func.func @main(%x: {of}) -> {of} {{\n %r = ng.{other} %x : {of}\n func.return %r : {of}\n}}",
    )
    for length in [*range(1, 40), 63, 64, 65, 100]:
        x = np.random.default_rng(length).integers(0, 100, (3, length)).astype(DTYPES[element])
        if element[0] in "fb":
            x[0, -1], x[1, 0], x[2, length // 2] = np.nan, -0.0, np.inf
        wanted = ~x if element == "i1" else -x
        (found,) = run(x)
        np.testing.assert_array_equal(np.asarray(found, np.float64), wanted.astype(np.float64))


def test_windows_of_open_images(compiled: Callable[[str], Any]) -> None:
    run = compiled(
        """func.func @main(%x: tensor<5x[H]x[W]xf32>, %w: tensor<3x3x5xf32>) -> tensor<5x[H]x[W]xf32> {
  %p = ng.pad %x low [0, 1, 1] high [0, 1, 1] : (tensor<5x[H]x[W]xf32>) -> tensor<5x[H + 2]x[W + 2]xf32>
  %n = ng.windows %p axes [1, 2] steps [1, 1] dilations [1, 1] : (tensor<5x[H + 2]x[W + 2]xf32>) -> tensor<3x3x5x[H]x[W]xf32>
  %b = ng.broadcast %w dims [0, 1, 2] : (tensor<3x3x5xf32>) -> tensor<3x3x5x[H]x[W]xf32>
  %m = ng.multiply %n, %b : tensor<3x3x5x[H]x[W]xf32>
  %s = ng.sum %m axes [0, 1] : (tensor<3x3x5x[H]x[W]xf32>) -> tensor<5x[H]x[W]xf32>
  func.return %s : tensor<5x[H]x[W]xf32>
}"""
    )
    for high, wide in [(3, 3), (7, 7), (5, 14), (14, 9), (4, 31), (9, 40)]:
        x = np.random.default_rng(wide).integers(-9, 9, (5, high, wide)).astype(np.float32)
        w = np.random.default_rng(high).integers(-9, 9, (3, 3, 5)).astype(np.float32)
        x[1, -1, -1], x[4, 0, 0] = np.inf, np.nan
        padded = np.zeros((5, high + 2, wide + 2), np.float32)
        padded[:, 1:-1, 1:-1] = x
        with np.errstate(invalid="ignore"):
            taps = [
                padded[:, i : i + high, j : j + wide] * w[i, j, :, None, None]
                for i in range(3)
                for j in range(3)
            ]
            (found,), wanted = run(x, w), np.sum(taps, axis=0)
        np.testing.assert_array_equal(np.asarray(found), wanted)
