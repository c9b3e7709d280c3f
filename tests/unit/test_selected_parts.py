# SPDX-License-Identifier: Apache-2.0
"""Concatenations that kernels read where their parts lie: the same bits as of what is made in memory first."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan
from typing import Any

import numpy as np
import pytest

from ngmlir.compiler import compile_module
from ngmlir.llvm.machine import cpu_target, nvptx_target
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text
from ngmlir.passes.fuse.select_parts import select_parts

TARGETS = [cpu_target("x86-64-v2"), cpu_target("x86-64-v3"), cpu_target("x86-64-v4"), nvptx_target("sm_90a")]
ELEMENTS = {"f32": "f4", "f64": "f8", "i8": "i1", "i64": "i8", "f16": "f2"}
SPECIAL = np.array([0.0, -0.0, 1.5, -1.0, 1e-45, 3e38, inf, -inf, nan])
#: Sizes of the parts along the axis and what lies around that: long lines and short ones, joints on and off a tile.
SHAPES: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = [
    ((3,), (5, 2), ()),
    ((64,), (1, 64), ()),
    ((), (70001, 50000, 7), ()),
    ((), (40000, 8, 40000), ()),
    ((6,), (32, 32), ()),
    ((200, 7), (65, 64, 63), ()),
    ((), (1, 128), (48,)),
    ((4,), (9, 1, 6, 2), (5, 3)),
    ((2,), (300, 200), (50,)),
]


def drawn(
    seed: int, element: str, before: Sequence[int], sizes: Sequence[int], behind: Sequence[int]
) -> tuple[str, list[np.ndarray]]:
    """A program that computes with a concatenation of inputs, slices, constants, repeated rows and what is computed of them."""
    random = np.random.RandomState(seed)
    axis, total = len(before), sum(sizes)

    def type_of(size: int) -> str:
        return f"tensor<{'x'.join(map(str, (*before, size, *behind)))}x{element}>"

    lines: list[str] = []
    arrays: list[np.ndarray] = []
    names: list[str] = []

    def given(size: int) -> str:
        shape = (*before, size, *behind)
        values = random.choice(SPECIAL, shape) if element in ("f32", "f64") else random.randint(-5, 6, shape)
        arrays.append(values.astype(ELEMENTS[element]))
        return f"%x{len(arrays) - 1}"

    for i, size in enumerate(sizes):
        match random.randint(5):
            case 0:
                low = random.randint(0, 4)
                source = given(size + low + 3)
                start = [0] * axis + [low] + [0] * len(behind)
                end = [*before, low + size, *behind]
                lines.append(f"%p{i} = ng.slice {source} from {start} to {end} step {[1] * len(end)} : ({type_of(size + low + 3)}) -> {type_of(size)}")  # fmt: skip
            case 1:
                lines.append(f"%p{i} = ng.negative {given(size)} : {type_of(size)}")
            case 2:
                lines.append(f"%p{i} = ng.constant dense<{3 if element[0] == 'i' else 3.5}> : {type_of(size)}")  # fmt: skip
            case _:
                names.append(given(size))
                continue
        names.append(f"%p{i}")
    types = ", ".join(type_of(size) for size in sizes)
    lines.append(f"%c = ng.concatenate {', '.join(names)} axis {axis} : ({types}) -> {type_of(total)}")
    lines.append(f"%y = ng.add %c, {given(total)} : {type_of(total)}")
    result, given_back = "%y", type_of(total)
    if random.randint(3) == 0:
        reduced = random.randint(len(before) + 1 + len(behind))
        shape = [*before, total, *behind]
        del shape[reduced]
        given_back = f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"
        lines.append(f"%r = ng.max %y axes [{reduced}] : ({type_of(total)}) -> {given_back}")
        result = "%r"
    taken = ", ".join(f"%x{i}: tensor<{'x'.join(map(str, a.shape))}x{element}>" for i, a in enumerate(arrays))
    body = "\n".join(lines)
    return f"func.func @main({taken}) -> {given_back} {{\n{body}\nreturn {result} : {given_back}\n}}", arrays


def same_bits(actual: np.ndarray, expected: np.ndarray, text: str) -> None:
    known = ~np.isnan(expected)
    assert np.array_equal(np.isnan(actual), ~known), text
    assert actual[known].tobytes() == expected[known].tobytes(), text


@pytest.mark.parametrize("element", ELEMENTS)
def test_selections_mean_what_was_concatenated(element: str) -> None:
    selected = 0
    for seed, (before, sizes, behind) in enumerate(4 * SHAPES):
        text, arrays = drawn(seed, element, before, sizes, behind)
        module = from_text(text)
        (expected,) = run(module, *arrays)
        for target in TARGETS:
            made = select_parts(module, target)
            selected += made is not module
            same_bits(run(made, *arrays)[0], expected, text)
    assert selected > 60


@pytest.mark.parametrize("device", ["cpu", "cuda-sim"])
@pytest.mark.parametrize("element", ELEMENTS)
def test_kernels_read_the_parts_where_they_lie(element: str, device: str) -> None:
    for seed, (before, sizes, behind) in enumerate(2 * SHAPES):
        if device == "cuda-sim" and sum(sizes) > 1000:
            continue  # the simulator takes its time
        text, arrays = drawn(seed, element, before, sizes, behind)
        module = from_text(text)
        (expected,) = run(module, *arrays)
        made: Any = compile_module(module, device)(*arrays)
        same_bits(np.asarray(made[0]), expected, text)


def test_no_part_of_a_line_is_computed_for_another() -> None:
    """Every tile of either side reads one part alone: what would be divided by zero beside it is not computed."""
    count = 1 << 16
    text = f"""func.func @main(%x: tensor<{count}xi32>, %y: tensor<{count + 3}xi32>) -> tensor<{2 * count + 3}xi32> {{
      %c = ng.concatenate %x, %y axis 0 : (tensor<{count}xi32>, tensor<{count + 3}xi32>) -> tensor<{2 * count + 3}xi32>
      %one = ng.constant dense<7> : tensor<{2 * count + 3}xi32>
      %r = ng.floor_divide %one, %c : tensor<{2 * count + 3}xi32>
      return %r : tensor<{2 * count + 3}xi32>
    }}"""
    x, y = (np.arange(1, n + 1, dtype="i4") for n in (count, count + 3))
    made: Any = compile_module(from_text(text), "cpu")(x, y)
    assert np.array_equal(made[0], 7 // np.concatenate([x, y]))
