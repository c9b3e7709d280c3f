# SPDX-License-Identifier: Apache-2.0
"""What kernels that only move or reduce elements ask of a GPU's memory: whole sectors, no conflicts of banks."""

from __future__ import annotations

import numpy as np
import pytest

from ngmlir.compiler import assemble, lower
from ngmlir.llvm.machine import nvptx_target
from ngmlir.ops.words import from_text
from ngmlir.runtime.cuda_sim import CudaSimDevice
from ngmlir.runtime.gpu import load
from ngmlir.simulator.counters import Counters

TARGET = nvptx_target("sm_90a")


def counted(body: str, *arrays: np.ndarray) -> tuple[list[np.ndarray], list[Counters]]:
    device = CudaSimDevice(count=True, seed=1)
    program = load(assemble(lower(from_text(body), TARGET), TARGET), device)
    results = [np.asarray(each) for each in program.run(arrays)]
    assert device.counted is not None
    return results, list(device.counted.values())


@pytest.mark.parametrize(("element", "dtype"), [("f32", np.float32), ("f16", np.float16), ("i8", np.int8)])
@pytest.mark.parametrize("shape", [(64, 128), (128, 64)])
def test_transposes_move_whole_sectors(shape: tuple[int, int], element: str, dtype: type) -> None:
    source, target = f"tensor<{shape[0]}x{shape[1]}x{element}>", f"tensor<{shape[1]}x{shape[0]}x{element}>"
    text = f"""
func.func @main(%a: {source}) -> {target} {{
  %r = ng.transpose %a perm [1, 0] : ({source}) -> {target}
  func.return %r : {target}
}}
"""
    array = np.arange(shape[0] * shape[1]).reshape(shape).astype(dtype)
    (got,), (found,) = counted(text, array)
    np.testing.assert_array_equal(got, array.T)
    assert found.reads.ratio == found.writes.ratio == 1.0
    assert found.shared.ratio <= 1.1 and found.useful_threads > 0.9


@pytest.mark.parametrize("shape", [(1, 5), (2, 64), (33, 7), (67, 130), (64, 128), (5, 6, 40)])
@pytest.mark.parametrize("kind", ["sum", "max"])
def test_columns_are_read_several_rows_at_once(shape: tuple[int, ...], kind: str) -> None:
    sizes = "x".join(map(str, shape))
    axes = list(range(len(shape) - 1))
    text = f"""
func.func @main(%a: tensor<{sizes}xf32>, %b: tensor<{shape[-1]}xf32>) -> tensor<{shape[-1]}xf32> {{
  %0 = ng.broadcast %b dims [{len(shape) - 1}] : (tensor<{shape[-1]}xf32>) -> tensor<{sizes}xf32>
  %1 = ng.multiply %a, %0 : tensor<{sizes}xf32>
  %r = ng.{kind} %1 axes {axes} : (tensor<{sizes}xf32>) -> tensor<{shape[-1]}xf32>
  func.return %r : tensor<{shape[-1]}xf32>
}}
"""
    random = np.random.default_rng(0)
    array, row = random.standard_normal(shape).astype(np.float32), random.standard_normal(shape[-1:])
    row = row.astype(np.float32)
    (got,), found = counted(text, array, row)
    whole = (array * row).reshape(-1, shape[-1])
    expected = whole.sum(axis=0, dtype=np.float64) if kind == "sum" else whole.max(axis=0)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
    if shape == (64, 128):
        assert found[0].flight_bytes >= 64 and found[0].reads.ratio == 1.0


@pytest.mark.parametrize("shape", [(5, 1), (3, 7), (100, 8), (33, 37), (64, 64), (3, 10, 16), (2, 300)])
def test_narrow_rows_share_blocks(shape: tuple[int, ...]) -> None:
    """The softmax of rows: values before and after reductions, of whole rows and of one element for each."""
    sizes, kept = "x".join(map(str, shape)), "x".join(map(str, shape[:-1]))
    last = len(shape) - 1
    full, row = f"tensor<{sizes}xf32>", f"tensor<{kept}xf32>"
    text = f"""
func.func @main(%a: {full}) -> ({full}, {row}) {{
  %m = ng.max %a axes [{last}] : ({full}) -> {row}
  %0 = ng.broadcast %m dims {list(range(last))} : ({row}) -> {full}
  %1 = ng.subtract %a, %0 : {full}
  %2 = ng.exp %1 : {full}
  %s = ng.sum %2 axes [{last}] : ({full}) -> {row}
  %3 = ng.broadcast %s dims {list(range(last))} : ({row}) -> {full}
  %r = ng.divide %2, %3 : {full}
  func.return %r, %m : {full}, {row}
}}
"""
    array = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    (got, most), found = counted(text, array)
    np.testing.assert_array_equal(most, array.max(axis=-1))
    powers = np.exp(array - array.max(axis=-1, keepdims=True))
    np.testing.assert_allclose(got, powers / powers.sum(axis=-1, keepdims=True), rtol=1e-5, atol=1e-6)
    if shape == (64, 64):
        (only,) = found
        assert only.reads.ratio == only.writes.ratio == 1.0 and only.useful_threads > 0.9
        assert only.blocks == 8 and only.flight_bytes == 16
