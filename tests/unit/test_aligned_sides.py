# SPDX-License-Identifier: Apache-2.0
"""Sides of products that are copied so that matrix instructions can take them, on the simulated device."""

from __future__ import annotations

from itertools import product

import ml_dtypes
import numpy as np
import pytest

from ngmlir.compiler import compile_module, lower
from ngmlir.llvm.machine import nvptx_target
from ngmlir.ops.words import from_text
from ngmlir.passes.fuse import align_sides

DTYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "i8": np.int8, "ui8": np.uint8}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products small enough for the simulator are worth it."""
    for name in ("_READ", "_BYTES_WORTH", "_ROWS_WORTH"):
        monkeypatch.setattr(align_sides, name, 1)


def program(
    left: tuple[int, ...], right: tuple[int, ...], turned: tuple[bool, bool], elements: str, result: str
) -> str:
    batch = len(left) - 2
    a, c = (
        f"tensor<{'x'.join(map(str, s))}x{e}>" for s, e in zip((left, right), elements.split(), strict=True)
    )
    rows, columns = left[-1 if turned[0] else -2], right[-2 if turned[1] else -1]
    made = f"tensor<{'x'.join(map(str, (*left[:-2], rows, columns)))}x{result}>"
    at = batch + (not turned[0]), batch + turned[1]
    batches = " {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>}" if batch else ""
    return f"""func.func @main(%x: {a}, %w: {c}) -> {made} {{
  %r = ng.dot %x, %w contract [{at[0]}] x [{at[1]}]{batches} : ({a}, {c}) -> {made}
  return %r : {made}
}}
"""


@pytest.mark.parametrize("turned", list(product((False, True), repeat=2)))
@pytest.mark.parametrize(
    ("elements", "result"), [("bf16 bf16", "f32"), ("f16 f16", "f16"), ("i8 i8", "i32"), ("ui8 i8", "i32")]
)
@pytest.mark.parametrize("size", [(40, 67, 24), (33, 128, 51), (17, 1, 9), (64, 131, 16), (2, 19, 37, 23)])
def test_products_of_copies(
    turned: tuple[bool, bool], elements: str, result: str, size: tuple[int, ...]
) -> None:
    """Zeros fill up the depth of both sides: what is infinite on one meets none on the other."""
    *batch, m, k, n = size
    draw = np.random.default_rng(0)
    x, w = (
        draw.integers(0 if e.startswith("u") else -3, 4, (*batch, *s)).astype(DTYPES[e])
        for s, e in zip(((m, k), (k, n)), elements.split(), strict=True)
    )
    if "i8" not in elements:
        x[..., 0, -1], w[..., -1, 0] = np.inf, np.nan
    given = [
        np.ascontiguousarray(v.swapaxes(-1, -2)) if t else v for v, t in zip((x, w), turned, strict=True)
    ]
    text = program(given[0].shape, given[1].shape, turned, elements, result)
    (found,) = compile_module(from_text(text), target="cuda-sim")(*given)
    wide = np.int64 if "i8" in elements else np.float64
    with np.errstate(all="ignore"):
        wanted = (x.astype(wide) @ w.astype(wide)).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(found).astype(np.float32), wanted)


def test_an_epilogue_stays_with_the_product() -> None:
    x = "tensor<64x131xbf16>"
    text = f"""func.func @main(%x: {x}, %w: {x}, %b: tensor<64xf32>) -> tensor<64x64xf32> {{
  %a = ng.tanh %x : {x}
  %d = ng.dot %a, %w contract [1] x [1] : ({x}, {x}) -> tensor<64x64xf32>
  %bias = ng.broadcast %b dims [1] : (tensor<64xf32>) -> tensor<64x64xf32>
  %r = ng.add %d, %bias : tensor<64x64xf32>
  return %r : tensor<64x64xf32>
}}"""
    lowered = lower(from_text(text), nvptx_target("sm_80"))
    assert [op.symbol for op in lowered.ops[1:]] == ["map_tanh", "pad", "dot_add"]
