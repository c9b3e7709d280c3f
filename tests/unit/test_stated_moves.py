# SPDX-License-Identifier: Apache-2.0
"""Elementwise kernels whose schedule is stated: `boxes` and `flat` give what `tiles` does, with whatever is computed on the way."""

from __future__ import annotations

import numpy as np
import pytest

from ngmlir.compiler import compile_module
from ngmlir.ops.words import from_text


def ran(text: str, target: str, *arrays: np.ndarray) -> np.ndarray:
    (found,) = compile_module(from_text(text), target)(*arrays)
    return np.asarray(found)


@pytest.mark.parametrize("tile", [32, 128, 1024])
@pytest.mark.parametrize(("rows", "columns"), [(100, 7), (1, 9), (300, 1), (13, 64)])
def test_a_line_with_what_is_spread_and_counted(rows: int, columns: int, tile: int) -> None:
    whole, line = f"tensor<{rows}x{columns}xf32>", f"tensor<{columns}xf32>"
    text = f"""func.func @main(%x: {whole}, %row: {line}, %n: tensor<f32>) -> {whole} {{
  %a = ng.broadcast %row dims [1] : ({line}) -> {whole}
  %b = ng.broadcast %n dims [] : (tensor<f32>) -> {whole}
  %i = ng.iota {{dimension = 0 : i64}} : {whole}
  %c = ng.multiply %a, %b : {whole}
  %d = ng.multiply %c, %i : {whole}
  %r = ng.add %x, %d {{ng.schedule = {{by = "flat", tile = {tile}, threads = 32}}}} : {whole}
  return %r : {whole}
}}"""
    x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    row, n = np.arange(columns, dtype=np.float32) + 1, np.float32(3)
    counted = np.arange(rows, dtype=np.float32)[:, None]
    np.testing.assert_array_equal(ran(text, "cuda-sim", x, row, n), x + row * n * counted)


@pytest.mark.parametrize(
    "schedule", ["", "tile = 16", "tile = 1, runs = [1, 1]", "runs = [5, 3]", "part = 7"]
)
@pytest.mark.parametrize("shape", [(40, 56), (1, 5), (17, 1), (33, 130)])
def test_boxes_with_what_is_computed(shape: tuple[int, int], schedule: str) -> None:
    """A fusion that reads one operand across its rows, another as it lies, and one along the rows."""
    rows, columns = shape
    across, whole, line = (
        f"tensor<{columns}x{rows}xf32>", f"tensor<{rows}x{columns}xf32>", f"tensor<{columns}xf32>"
    )  # fmt: skip
    given = (
        f"""{{ng.schedule = {{by = "boxes"{", " if schedule else ""}{schedule}}}}} """
        if min(shape) > 1
        else ""
    )
    text = f"""func.func @main(%x: {across}, %y: {whole}, %z: {line}) -> {whole} {{
  %r = ng.fusion map(%x, %y, %z) {given}-> {whole} {{
    %t = ng.transpose %x perm [1, 0] : ({across}) -> {whole}
    %b = ng.broadcast %z dims [1] : ({line}) -> {whole}
    %s = ng.subtract %t, %y : {whole}
    %m = ng.multiply %s, %b : {whole}
    ng.yield %m : {whole}
  }}
  return %r : {whole}
}}"""
    draw = np.random.default_rng(0)
    x, y, z = (draw.standard_normal(s).astype(np.float32) for s in ((columns, rows), shape, columns))
    np.testing.assert_array_equal(ran(text, "cpu", x, y, z), (x.T - y) * z)
