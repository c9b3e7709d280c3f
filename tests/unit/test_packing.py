# SPDX-License-Identifier: Apache-2.0
"""Sides of matrix products in panels."""

from __future__ import annotations

import numpy as np
import pytest

from ngmlir.ir.core import module
from ngmlir.ir.types import f32
from ngmlir.ir.verifier import check
from ngmlir.ops.interpreter import run
from ngmlir.passes.lower.kernels.packing import Packing, pack_kernel
from ngmlir.support.diagnostics import UNKNOWN


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("rows, columns, width", [(20, 23, 8), (16, 16, 16), (3, 5, 16)])
def test_panels_hold_the_side_and_end_in_zeros(rows: int, columns: int, width: int, turned: bool):
    packing = Packing(0, rows, columns, width, turned, f32, f32, 8)
    kernels = module([pack_kernel(packing, UNKNOWN)])
    check(kernels)
    side = np.random.default_rng(0).normal(size=(rows, columns)).astype(np.float32)
    (panels,) = run(kernels, side.T if turned else side, entry="pack")
    expected = np.zeros((rows, len(panels) * width), np.float32)
    expected[:, :columns] = side
    assert np.array_equal(panels.transpose(1, 0, 2).reshape(rows, -1), expected)
