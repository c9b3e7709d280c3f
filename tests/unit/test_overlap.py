# SPDX-License-Identifier: Apache-2.0
"""Loops whose tiles are under way before they are computed on: the same bits on every target, and copies that overlap."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import ngmlir as ng
from ngmlir.compiler import compile_artifact, compile_module, emit_text, lower, resolve
from ngmlir.ir.core import Module
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text
from ngmlir.runtime.cuda_sim import CudaSimDevice
from ngmlir.runtime.gpu import load
from ngmlir.simulator.counters import Counters
from ngmlir.support.diagnostics import UserError

Array = NDArray[np.float32]
ROOT = Path(__file__).resolve().parents[2]


def product(stages: int, rows: int = 30, depth: int = 90, columns: int = 20) -> Module:
    m, k, n = ng.make_axis(rows, "M"), ng.make_axis(depth, "K"), ng.make_axis(columns, "N")
    x, w = ng.placeholder([m, k]), ng.placeholder([k, n])
    return ng.lift([ng.dot(x, w).scheduled(stages=stages)], [x, w]).module


def softmax(stages: int, columns: int = 300) -> Module:
    n, c = ng.make_axis(3, "N"), ng.make_axis(columns, "C")
    x = ng.placeholder([n, c])
    shifted = ng.exp(x - ng.max(x, reduction_axes=[c]).scheduled(stages=stages, tile=64))
    return ng.lift([shifted / ng.sum(shifted, reduction_axes=[c])], [x]).module


def simulated(module: Module, arrays: list[Array], seed: int | None = None) -> tuple[Array, Counters]:
    device = CudaSimDevice(seed=seed, count=True)
    (result,) = load(compile_artifact(module, "cuda-sim"), device).run(arrays)
    assert device.counted is not None
    (counted,) = device.counted.values()
    return result, counted


@pytest.mark.parametrize("program", [product, softmax])
def test_stages_change_no_bit(program: type) -> None:
    module = program(1)
    main = module.lookup("main")
    assert main is not None
    random = np.random.default_rng(0)
    arrays = [random.normal(size=v.type.shape).astype(np.float32) for v in main.block.args]  # type: ignore[union-attr]
    wanted, _ = simulated(module, arrays)
    for stages in (2, 3):
        again, _ = simulated(program(stages), arrays, seed=stages)
        assert again.tobytes() == wanted.tobytes(), f"{stages} stages"
        kernels = lower(program(stages), "sm_90a", "gpu")
        np.testing.assert_array_equal(
            run(kernels, *arrays)[0], run(lower(module, "sm_90a", "gpu"), *arrays)[0]
        )


def test_stages_need_threads() -> None:
    with pytest.raises(UserError, match="stages need tiles that threads share"):
        compile_module(softmax(2), "cpu")


def staged(stages: int, rows: int = 80, columns: int = 64) -> str:
    """A product of a matrix and a vector, which copies 16 rows at a time into shared memory."""
    return f"""
func.func @main(%x: tensor<{rows}x{columns}xf32>, %v: tensor<{rows}xf32>) -> tensor<{columns}xf32> {{
  %r = tile.call @staged ins(%x, %v) -> tensor<{columns}xf32>
  return %r : tensor<{columns}xf32>
}}
tile.kernel @staged ins(%x: memref<{rows}x{columns}xf32>, %v: memref<{rows}xf32>) outs(%y: memref<{columns}xf32>) {{
  %c0 = ng.constant 0 : index
  %zero = ng.constant dense<0.0> : vector<{columns}xf32>
  %s = tile.alloc : memref<16x{columns}xf32, 3>
  %sum = tile.for %k = 0 to {rows} step 16 iter(%acc = %zero) {{stages = {stages} : i64}} -> vector<{columns}xf32> {{
    %from = tile.subview %x[%k, %c0] : memref<{rows}x{columns}xf32>, memref<16x{columns}xf32, strided<[{columns}, 1], offset: ?>>
    tile.copy %from, %s : memref<16x{columns}xf32, strided<[{columns}, 1], offset: ?>>, memref<16x{columns}xf32, 3>
    tile.barrier
    %f = tile.load %v[%k] : memref<{rows}xf32>, vector<16xf32>
    %m = tile.load %s[%c0, %c0] : memref<16x{columns}xf32, 3>, vector<16x{columns}xf32>
    %g = ng.broadcast %f dims [0] : (vector<16xf32>) -> vector<16x{columns}xf32>
    %p = ng.multiply %m, %g : vector<16x{columns}xf32>
    %t = ng.sum %p axes [0] : (vector<16x{columns}xf32>) -> vector<{columns}xf32>
    %more = ng.add %acc, %t : vector<{columns}xf32>
    tile.barrier
    ng.yield %more : vector<{columns}xf32>
  }}
  tile.store %sum, %y[%c0] : vector<{columns}xf32>, memref<{columns}xf32>
  tile.return
}}
"""


@pytest.mark.parametrize(("stages", "columns"), [(2, 64), (3, 64), (5, 64), (9, 64), (3, 37)])
def test_copies_go_into_a_ring(stages: int, columns: int) -> None:
    random = np.random.default_rng(1)
    arrays = [random.normal(size=s).astype(np.float32) for s in ((80, columns), (80,))]
    text = staged(stages, columns=columns)
    (wanted,) = run(from_text(staged(1, columns=columns)), *arrays)
    np.testing.assert_array_equal(run(from_text(text), *arrays)[0], wanted)
    np.testing.assert_allclose(
        np.asarray(compile_module(from_text(text), "cpu")(*arrays)[0]), wanted, rtol=1e-5
    )
    np.testing.assert_allclose(arrays[1] @ arrays[0], wanted, rtol=1e-4)
    plain, _ = simulated(from_text(staged(1, columns=columns)), arrays)
    for seed in (None, 1, 2):
        assert simulated(from_text(text), arrays, seed)[0].tobytes() == plain.tobytes()
    waits = [
        int(n)
        for n in re.findall(r"cp\.async\.wait_group\s+(\d+);", emit_text(from_text(text), "sm_90a", "ptx"))
    ]
    ahead = min(stages, 5) - 1
    # In the loop the newest copies stay under way, all but the one that is read, and the next begins then; later fewer and fewer.
    assert waits == [ahead - 1, *reversed(range(ahead))]


NESTED = """
func.func @main(%x: tensor<4x48x32xf32>) -> tensor<32xf32> {
  %r = tile.call @nested ins(%x) -> tensor<32xf32>
  return %r : tensor<32xf32>
}
tile.kernel @nested ins(%x: memref<4x48x32xf32>) outs(%y: memref<32xf32>) threads(32) {
  %c0 = ng.constant 0 : index
  %zero = ng.constant dense<0.0> : vector<32xf32>
  %s = tile.alloc : memref<16x32xf32, 3>
  %total = tile.for %b = 0 to 4 iter(%outer = %zero) {stages = 2 : i64} -> vector<32xf32> {
    %first = tile.load %x[%b, %c0, %c0] : memref<4x48x32xf32>, vector<32xf32>
    %sum = tile.for %k = 0 to 48 step 16 iter(%acc = %outer) {stages = 3 : i64} -> vector<32xf32> {
      %from = tile.subview %x[%b, %k, %c0] : memref<4x48x32xf32>, memref<16x32xf32, strided<[32, 1], offset: ?>>
      tile.copy %from, %s : memref<16x32xf32, strided<[32, 1], offset: ?>>, memref<16x32xf32, 3>
      tile.barrier
      %m = tile.load %s[%c0, %c0] : memref<16x32xf32, 3>, vector<16x32xf32>
      %t = ng.sum %m axes [0] : (vector<16x32xf32>) -> vector<32xf32>
      %more = ng.add %acc, %t : vector<32xf32>
      tile.barrier
      ng.yield %more : vector<32xf32>
    }
    %both = ng.multiply %sum, %first : vector<32xf32>
    ng.yield %both : vector<32xf32>
  }
  tile.store %total, %y[%c0] : vector<32xf32>, memref<32xf32>
  tile.return
}
"""


def test_loops_in_loops() -> None:
    x = np.random.default_rng(3).normal(size=(4, 48, 32)).astype(np.float32)
    plain = from_text(NESTED.replace("stages = 2", "stages = 1").replace("stages = 3", "stages = 1"))
    (wanted,) = run(plain, x)
    for seed in (None, 4):
        np.testing.assert_allclose(simulated(from_text(NESTED), [x], seed)[0], wanted, rtol=1e-5)


@pytest.mark.parametrize("target", ["numpy", "cpu", "cuda-sim"])
def test_the_product_by_hand_overlaps(target: str) -> None:
    text = (ROOT / "examples/kernels/pipelined_matmul.ngir").read_text(encoding="utf-8")
    module = from_text(text)
    random = np.random.default_rng(2)
    x, w = random.normal(size=(32, 64)).astype(np.float32), random.normal(size=(64, 24)).astype(np.float32)
    got = run(module, x, w)[0] if target == "numpy" else compile_module(module, target)(x, w)[0]
    np.testing.assert_allclose(np.asarray(got), x @ w, rtol=1e-4, atol=1e-5)
    if target == "cuda-sim":
        ptx = emit_text(module, resolve("sm_80"), "ptx")
        assert re.findall(r"cp\.async\.wait_group\s+(\d+);", ptx) == ["2", "0"]
