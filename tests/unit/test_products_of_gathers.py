# SPDX-License-Identifier: Apache-2.0
"""Products of gathered rows give what they gave, whatever is gathered, on either side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ngmlir.compiler import compile_module
from ngmlir.ir.literals import dtype_of
from ngmlir.ir.types import element_type, shape_of
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text
from ngmlir.passes.graph.products_of_gathers import products_of_gathers
from ngmlir.runtime.targets import resolve

BATCH = "{lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>}"
#: The table, the indices, the other side, the gather, the product with its result: %a is what is gathered.
CASES = {
    "left": ("5x17xf32", "13xi32", "17x3xf32", "axis 0", "13x17xf32", "%a, %w contract [1] x [0]", "13x3xf32"),
    "right": ("5x17xf32", "13xi64", "17x3xf32", "axis 0", "13x17xf32", "%w, %a contract [0] x [1]", "3x13xf32"),
    "columns": ("17x2xf32", "3x5xi32", "17xf32", "axis 1", "17x3x5xf32", "%a, %w contract [0] x [0]", "3x5xf32"),
    "one row": ("1x16xf32", "2xi32", "16x1xf32", "axis 0", "2x16xf32", "%a, %w contract [1] x [0]", "2x1xf32"),
    "two sums": ("4x2x3x4xf32", "9xi32", "4x4x7xf32", "axis 2", "4x2x9x4xf32", "%a, %w contract [0, 3] x [0, 1]", "2x9x7xf32"),
    "batch": ("2x3x19xf64", "11xi32", "2x19x4xf64", "axis 1", "2x11x19xf64", f"%a, %w contract [2] x [1] {BATCH}", "2x11x4xf64"),
    "wider": ("3x33xbf16", "7xi32", "33x5xbf16", "axis 0", "7x33xbf16", "%a, %w contract [1] x [0]", "7x5xf32"),
}  # fmt: skip


def text(case: str) -> str:
    table, indices, other, axis, gathered, product, result = CASES[case]
    sides = (gathered, other) if product.startswith("%a") else (other, gathered)
    return f"""
    func.func @main(%x: tensor<{table}>, %i: tensor<{indices}>, %w: tensor<{other}>) -> tensor<{result}> {{
      %a = ng.gather %x[%i] {axis} : (tensor<{table}>, tensor<{indices}>) -> tensor<{gathered}>
      %r = ng.dot {product} : (tensor<{sides[0]}>, tensor<{sides[1]}>) -> tensor<{result}>
      return %r : tensor<{result}>
    }}"""


@pytest.mark.parametrize("case", CASES)
def test_values(case: str) -> None:
    module, draw = from_text(text(case)), np.random.default_rng(0)
    made = products_of_gathers(module, resolve("cpu"))
    assert [op.name for op in made.walk() if op.name in ("ng.dot", "ng.gather")][-1] == "ng.gather"
    (function,) = module.ops
    arrays: list[np.ndarray[Any, Any]] = []
    for value in function.regions[0].block.args:
        shape, dtype = shape_of(value.type), dtype_of(element_type(value.type))
        if dtype.kind == "i":
            # Also what counts from the end, and what is clamped.
            arrays.append(draw.integers(-9, 9, shape).astype(dtype))
            continue
        array = draw.normal(size=shape)
        array.flat[0] = np.inf
        arrays.append(array.astype(dtype))
    (wanted,) = run(module, *arrays)
    for (found,) in (run(made, *arrays), compile_module(module, "cpu")(*arrays)):
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-5, atol=1e-5)
