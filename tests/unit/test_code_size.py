# SPDX-License-Identifier: Apache-2.0
"""What kernels of matrix products are not written twice: LLVM takes its time for each copy of a register tile."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from ngmlir.compiler import lower, resolve
from ngmlir.ir.core import Module, Op
from ngmlir.ir.types import shape_of
from ngmlir.ops.words import from_text


def _products(module: Module, target: str) -> list[Op]:
    return [op for op in lower(module, resolve(target)).ops if op.name == "tile.kernel"]


def _copies(kernel: Op) -> Counter[tuple[tuple[int, ...], int]]:
    """How often each register tile stands in a kernel, by its shape and the steps of the depth."""
    return Counter(
        (shape_of(op.results[0].type), shape_of(op.operands[0].type)[1])
        for op in kernel.walk()
        if op.name == "tile.dot"
    )


def _dot(rows: int, depth: int, columns: int) -> Module:
    a, b, c = f"tensor<{rows}x{depth}xf32>", f"tensor<{depth}x{columns}xf32>", f"tensor<{rows}x{columns}xf32>"
    return from_text(
        f"func.func @main(%a: {a}, %b: {b}) -> {c} {{"
        f"%r = ng.dot %a, %b contract [1] x [0] : ({a}, {b}) -> {c} return %r : {c} }}"
    )


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
def test_each_register_tile_is_written_once(target: str) -> None:
    """Once for each length of a block of the depth, of which there are two at most."""
    random = np.random.default_rng(24)
    for _ in range(40):
        rows, depth, columns = np.exp(random.uniform(np.log(2), np.log(1500), 3)).astype(int).tolist()
        for kernel in _products(_dot(rows, depth, columns), target):
            copies = _copies(kernel)
            assert max(copies.values(), default=1) <= 2, (rows, depth, columns)
            # Two heights, two widths, and steps that are left over; twice that, where the depth is in blocks.
            assert sum(copies.values()) <= 16, (rows, depth, columns)


@pytest.mark.parametrize("rows", [113, 300, 350])
def test_the_last_program_runs_the_code_of_the_others(rows: int) -> None:
    for kernel in _products(_dot(rows, 77, 130), "x86-64-v4"):
        assert all(count == 1 for count in _copies(kernel).values())


def test_windows_that_are_packed_in_parts_meet_each_register_tile_once() -> None:
    module = from_text("""
        func.func @main(%x: tensor<48x58x58xf32>, %w: tensor<96x432xf32>) -> tensor<96x3136xf32> {
          %0 = ng.windows %x axes [1, 2] steps [1, 1] dilations [1, 1] : (tensor<48x58x58xf32>) -> tensor<3x3x48x56x56xf32>
          %1 = ng.transpose %0 perm [2, 0, 1, 3, 4] : (tensor<3x3x48x56x56xf32>) -> tensor<48x3x3x56x56xf32>
          %2 = ng.reshape %1 : (tensor<48x3x3x56x56xf32>) -> tensor<432x3136xf32>
          %3 = ng.dot %w, %2 contract [1] x [0] : (tensor<96x432xf32>, tensor<432x3136xf32>) -> tensor<96x3136xf32>
          return %3 : tensor<96x3136xf32>
        }
    """)
    (kernel,) = _products(module, "x86-64-v4")
    copies = _copies(kernel)
    assert copies and all(count == 1 for count in copies.values())


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
def test_few_steps_of_wide_register_tiles_are_written_out(target: str) -> None:
    """Many accumulators hide what a step of the loop costs beside them."""
    lanes, random = resolve(target).lanes(4), np.random.default_rng(5)
    for _ in range(40):
        rows, depth, columns = np.exp(random.uniform(np.log(16), np.log(600), 3)).astype(int).tolist()
        for kernel in _products(_dot(rows, depth, columns), target):
            for tile, steps in _copies(kernel):
                accumulators = tile[0] * -(-tile[1] // lanes)
                assert steps == 1 or tile[0] == 1 or accumulators * steps <= 4 * 11, (rows, depth, columns)


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
def test_what_packs_a_side_copies_few_rows_at_once(target: str) -> None:
    random = np.random.default_rng(6)
    for _ in range(20):
        rows, depth, columns = np.exp(random.uniform(np.log(100), np.log(600), 3)).astype(int).tolist()
        for kernel in _products(_dot(rows, depth, columns), target):
            loads = [shape_of(op.results[0].type) for op in kernel.walk() if op.name == "tile.load"]
            if kernel.symbol.startswith("pack"):
                # Of a whole panel and of the last one; and of the rows that are left of each.
                assert len(loads) <= 4
                assert all(4 * height * width <= 256 or height == 1 for height, width in loads)


def test_channels_beyond_a_border_are_not_looked_at() -> None:
    """Tiles that a border cannot cut need no masks: they are read, or filled with zeros."""
    module = from_text("""
        func.func @main(%x: tensor<14x14x256xf32>, %w: tensor<2304x256xf32>) -> tensor<196x256xf32> {
          %0 = ng.pad %x low [1, 1, 0] high [1, 1, 0] : (tensor<14x14x256xf32>) -> tensor<16x16x256xf32>
          %1 = ng.windows %0 axes [0, 1] steps [1, 1] dilations [1, 1] : (tensor<16x16x256xf32>) -> tensor<3x3x14x14x256xf32>
          %2 = ng.transpose %1 perm [2, 3, 0, 1, 4] : (tensor<3x3x14x14x256xf32>) -> tensor<14x14x3x3x256xf32>
          %3 = ng.reshape %2 : (tensor<14x14x3x3x256xf32>) -> tensor<196x2304xf32>
          %4 = ng.dot %3, %w contract [1] x [0] : (tensor<196x2304xf32>, tensor<2304x256xf32>) -> tensor<196x256xf32>
          return %4 : tensor<196x256xf32>
        }
    """)
    for target in ("x86-64-v3", "x86-64-v4"):
        product = next(k for k in _products(module, target) if k.symbol.startswith("dot_windows"))
        loads = [op for op in product.walk() if op.name == "tile.load"]
        assert loads and not any("masked" in op.attributes for op in loads)
