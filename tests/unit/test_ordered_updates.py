# SPDX-License-Identifier: Apache-2.0
"""Scatters of many updates on GPUs: sorted by place, then joined segment by segment."""

from __future__ import annotations

import numpy as np
import pytest

from ngmlir.compiler import compile_module, lower
from ngmlir.llvm.machine import nvptx_target
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text
from ngmlir.runtime.buffers import DTYPES

TARGET = nvptx_target("sm_90a")
#: The shape, the axis, the shape of the indices.
SHAPES: list[tuple[tuple[int, ...], int, tuple[int, ...]]] = [
    ((300, 7), 0, (500,)),
    ((10,), 0, (3000,)),
    ((5000,), 0, (20, 33)),
    ((3, 40, 70), 1, (5000,)),
    ((4, 1000), 1, (200,)),
    ((1, 5), 0, (130,)),
]


def program(
    shape: tuple[int, ...], axis: int, at: tuple[int, ...], kinds: tuple[str, str], combine: str
) -> str:
    kind, index = kinds
    x, i, u = (
        f"tensor<{'x'.join(map(str, (*size, element)))}>"
        for size, element in ((shape, kind), (at, index), ((*shape[:axis], *at, *shape[axis + 1 :]), kind))
    )
    return (
        f"func.func @main(%x: {x}, %i: {i}, %u: {u}) -> {x} {{\n"
        f'  %r = ng.scatter %x[%i], %u axis {axis} {{combine = "{combine}"}} : ({x}, {i}, {u}) -> {x}\n'
        f"  return %r : {x}\n}}\n"
    )


def arguments(text: str, spread: str) -> list[np.ndarray]:
    """Indices all over the axis, from behind it, and out of range; or most of them the same."""
    module, random = from_text(text), np.random.default_rng(len(text))
    main = module.lookup("main")
    assert main is not None
    x, i, u = (a.type for a in main.block.args)
    axis = int(text.split(" axis ")[1].split()[0])
    size, index = x.shape[axis], DTYPES[i.element.text]  # type: ignore[attr-defined]
    low = 0 if index.kind == "u" else -size - 3
    most = min(size + 3, np.iinfo(index).max)
    at = random.integers(max(low, np.iinfo(index).min), most, i.shape)  # type: ignore[attr-defined]
    at = np.where(random.random(at.shape) < 0.9, size // 2, at) if spread == "alike" else at
    values = [random.integers(-9, 9, t.shape).astype(DTYPES[t.element.text]) for t in (x, u)]  # type: ignore[attr-defined]
    return [values[0], at.astype(index), values[1]]


@pytest.mark.parametrize("combine", ["add", "set", "max"])
@pytest.mark.parametrize("spread", ["everywhere", "alike"])
@pytest.mark.parametrize(("shape", "axis", "at"), SHAPES)
def test_values(shape: tuple[int, ...], axis: int, at: tuple[int, ...], spread: str, combine: str) -> None:
    for kinds in (("f32", "i32"), ("i64", "i8"), ("f16", "ui64"), ("f64", "i16"), ("i8", "i64")):
        text = program(shape, axis, at, kinds, combine)
        if kinds == ("f16", "ui64") and combine == "add":
            continue  # sums of thousands round in f16, one by one in the reference
        given = arguments(text, spread)
        (expected,) = run(from_text(text), *given)
        (got,) = compile_module(from_text(text), "cuda-sim")(*given)
        np.testing.assert_array_equal(got, expected, err_msg=text)


def test_sums_of_halves_round_once() -> None:
    text = program((2, 3), 0, (4000,), ("f16", "i32"), "add")
    at, ones = np.zeros(4000, np.int32), np.full((4000, 3), 0.25, np.float16)
    (got,) = compile_module(from_text(text), "cuda-sim")(np.zeros((2, 3), np.float16), at, ones)
    np.testing.assert_array_equal(got, [[1000] * 3, [0] * 3])


def test_few_updates_are_not_sorted() -> None:
    few, many = (
        [op.name for op in lower(from_text(program((64, 8), 0, (n,), ("f32", "i32"), "add")), TARGET).walk()]
        for n in (128, 129)
    )
    assert few.count("tile.launch") == 1 < many.count("tile.launch")


def test_bools() -> None:
    text = program((70, 3), 0, (400,), ("i1", "i32"), "set")
    random = np.random.default_rng(0)
    given = [
        random.random((70, 3)) < 0.5,
        random.integers(0, 70, 400).astype("i4"),
        random.random((400, 3)) < 0.5,
    ]
    (expected,) = run(from_text(text), *given)
    np.testing.assert_array_equal(compile_module(from_text(text), "cuda-sim")(*given)[0], expected)


@pytest.mark.parametrize("target", ["cpu", "cuda-sim"])
@pytest.mark.parametrize(
    ("kind", "far"), [("i64", 1 << 40), ("ui64", (1 << 63) + 1), ("ui32", (1 << 31) + 1), ("i32", 7)]
)
def test_an_order_that_a_program_promises(kind: str, far: int, target: str) -> None:
    """Of indices of any type and shape; those far behind the end change nothing."""
    text = program((3, 2), 0, (2, 3), ("f32", kind), "add").replace('"add"}', '"add", ascending}')
    given = [
        np.ones((3, 2), np.float32),
        np.array([[0, 1, 1], [1, 2, far]], DTYPES[kind]),
        np.ones((2, 3, 2), np.float32),
    ]
    (expected,) = run(from_text(text), *given)
    np.testing.assert_array_equal(compile_module(from_text(text), target)(*given)[0], expected)
