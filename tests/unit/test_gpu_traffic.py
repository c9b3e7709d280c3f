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
