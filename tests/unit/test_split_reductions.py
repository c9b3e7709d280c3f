# SPDX-License-Identifier: Apache-2.0
"""Reductions in parts: the same values, whatever the shape; and enough programs where there is enough to do."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

from ngmlir.compiler import compile_module
from ngmlir.ir.core import Module
from ngmlir.ir.verifier import check
from ngmlir.llvm.machine import cpu_target, nvptx_target
from ngmlir.ops.interpreter import run
from ngmlir.ops.words import from_text
from ngmlir.passes.fuse.split_reductions import split_reductions
from ngmlir.passes.fuse.splitting.factors import divisor
from ngmlir.runtime.buffers import DTYPES
from ngmlir.support.target import Target

CPU, GPU = cpu_target("x86-64-v3"), nvptx_target("sm_90a")
RANDOM = np.random.default_rng(7)


def tensor(shape: tuple[int, ...], kind: str) -> str:
    return f"tensor<{''.join(f'{d}x' for d in shape)}{kind}>"


def reduction(name: str, shape: tuple[int, ...], axes: tuple[int, ...], kind: str, result: str) -> Module:
    kept = tuple(size for d, size in enumerate(shape) if d not in axes)
    types = tensor(shape, kind), tensor(kept, result)
    return from_text(
        f"func.func @main(%x: {types[0]}) -> {types[1]} {{\n"
        f"  %0 = ng.{name} %x axes {list(axes)} : ({types[0]}) -> {types[1]}\n  return %0 : {types[1]}\n}}"
    )


def numbers(shape: tuple[int, ...], kind: str) -> np.ndarray[Any, Any]:
    """Few different ones, so that the best is met more than once; NaN, infinities and both zeros among floats."""
    if kind == "i1":
        return RANDOM.random(shape) < 0.5
    values = RANDOM.integers(0 if kind.startswith("u") else -3, 4, shape).astype(DTYPES[kind])
    if kind.startswith(("f", "bf")):
        flat = values.reshape(-1)
        places = RANDOM.integers(0, flat.size, 4)
        flat[places] = np.array([np.nan, np.inf, -0.0, np.nan])[: len(places)].astype(flat.dtype)
    return values


def assert_kept(of: Module, arrays: list[np.ndarray[Any, Any]], target: Target, exact: bool = True) -> Module:
    made = split_reductions(of, target, elements=1)
    check(made)
    for ours, theirs in zip(run(made, *arrays), run(of, *arrays), strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        if exact:
            np.testing.assert_array_equal(ours, theirs)
        else:
            np.testing.assert_allclose(ours.astype(float), theirs.astype(float), rtol=2e-2, atol=1e-3)
    return made


SHAPES = [
    ((64,), (0,)), ((63,), (0,)), ((61,), (0,)), ((2,), (0,)), ((1,), (0,)), ((24, 3), (0,)), ((3, 24), (1,)),
    ((2, 60, 5), (1,)), ((30, 4, 20), (0, 2)), ((2, 3, 50), (0, 2)), ((128, 1), (0,)), ((7, 1, 16), (0, 1)),
    ((6, 5, 4), (0, 1, 2)), ((96, 7), (0,)), ((5, 200), (0,)), ((1009,), (0,)), ((3, 509), (1,)), ((509, 5), (0,)),
    ((2, 251, 3), (1,)), ((3, 4, 257), (0, 2)), ((9, 4, 130), (0, 2)), ((130, 2, 9), (0, 2)), ((8, 2, 9, 3, 10), (0, 2, 4)),
    ((129,), (0,)), ((513, 31), (0,)), ((2, 514, 1), (1,)), ((1019, 257), (0,)),
]  # fmt: skip


@pytest.mark.parametrize("target", [CPU, GPU], ids=lambda t: t.name)
@pytest.mark.parametrize(("shape", "axes"), SHAPES)
def test_every_reduction_keeps_its_value(
    shape: tuple[int, ...], axes: tuple[int, ...], target: Target
) -> None:
    for name, kind in (
        ("sum", "i32"), ("sum", "i8"), ("product", "ui16"), ("max", "f32"), ("min", "f16"), ("max", "i64"),
        ("any", "i1"), ("all", "i1"), ("sum", "f16"), ("product", "bf16"),
    ):  # fmt: skip
        x = numbers(shape, kind)
        if name in ("sum", "product") and kind in ("f16", "bf16"):
            x = RANDOM.choice([0.5, 1.0, 2.0, -1.0], shape).astype(DTYPES[kind])
        assert_kept(reduction(name, shape, axes, kind, kind), [x], target, kind not in ("f16", "bf16"))


@pytest.mark.parametrize("target", [CPU, GPU], ids=lambda t: t.name)
@pytest.mark.parametrize(("shape", "axes"), [s for s in SHAPES if s[1] != (0, 2)])
def test_positions_are_those_of_the_first(
    shape: tuple[int, ...], axes: tuple[int, ...], target: Target
) -> None:
    for name in ("argmax", "argmin"):
        for kind in ("f32", "i8", "ui8", "bf16"):
            for _ in range(3):
                assert_kept(reduction(name, shape, axes, kind, "i16"), [numbers(shape, kind)], target)


def test_the_first_of_equal_zeros_and_the_first_nan_win() -> None:
    of = reduction("argmax", (12,), (0,), "f32", "i8")
    for special in ([-0.0, 0.0], [np.nan, np.inf], [np.inf, np.nan], [-np.inf, -np.inf]):
        for first, second in ((0, 11), (5, 6), (3, 4), (10, 11)):
            x = np.full(12, -np.inf if special[0] == -np.inf else -1, np.float32)
            x[[first, second]] = special
            assert_kept(of, [x], CPU)


@pytest.mark.parametrize("target", [CPU, GPU], ids=lambda t: t.name)
@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("columns", [1, 5])
@pytest.mark.parametrize("contract", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_every_product_keeps_its_value(
    contract: tuple[int, int], columns: int, rows: int, batch: int, target: Target
) -> None:
    depth = 24
    first = (batch,) if batch else ()
    lhs = (*first, *((depth, rows) if contract[0] == 0 else (rows, depth)))
    rhs = (*first, *((depth, columns) if contract[1] == 0 else (columns, depth)))
    places = [c + len(first) for c in contract]
    batches = " {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>}" if batch else ""
    for kind in ("i32", "f16"):
        types = tensor(lhs, kind), tensor(rhs, kind), tensor((*first, rows, columns), kind)
        of = from_text(
            f"func.func @main(%x: {types[0]}, %y: {types[1]}) -> {types[2]} {{\n"
            f"  %0 = ng.dot %x, %y contract [{places[0]}] x [{places[1]}]{batches} : ({types[0]}, {types[1]}) -> {types[2]}\n"
            f"  return %0 : {types[2]}\n}}"
        )
        arrays = [RANDOM.integers(-2, 3, shape).astype(DTYPES[kind]) for shape in (lhs, rhs)]
        assert_kept(of, arrays, target)


@pytest.mark.parametrize("shape", [(64,), (3, 48), (48, 5), (2, 40, 3), (61,), (1, 32, 1)])
@pytest.mark.parametrize(
    "options", ["", " {reverse = true}", " {exclusive = true}", " {exclusive = true, reverse = true}"]
)
def test_what_runs_along_keeps_its_values(options: str, shape: tuple[int, ...]) -> None:
    axis = shape.index(max(shape))
    for name, kind in (
        ("sum", "f32"),
        ("sum", "i8"),
        ("product", "i32"),
        ("max", "f32"),
        ("min", "f16"),
        ("sum", "f16"),
    ):
        type = tensor(shape, kind)
        of = from_text(
            f"func.func @main(%x: {type}) -> {type} {{\n"
            f"  %0 = ng.cumulative_{name} %x axis {axis}{options} : {type}\n  return %0 : {type}\n}}"
        )
        x = numbers(shape, kind)
        if name == "sum" and kind != "i8":
            x = np.where(np.isfinite(x.astype(float)), x, -0.0).astype(x.dtype)
            x.reshape(-1)[:3] = -0.0
        made = assert_kept(of, [x], GPU)
        (ours,), (theirs,) = run(made, x), run(of, x)
        if kind.startswith("f"):
            np.testing.assert_array_equal(np.signbit(ours), np.signbit(theirs))
        assert split_reductions(of, CPU, elements=1) is of


def test_parts_divide() -> None:
    assert divisor(1 << 20, 16, 64) == 16
    assert divisor(1_000_000, 264, 1056) == 320
    assert divisor(3 * 1009, 16, 64) == 3
    assert divisor(1_000_003, 16, 64) == 1
    assert all(size % divisor(size, w, 4 * w) == 0 for size in range(2, 200) for w in (2, 7, 16))


def test_what_is_read_again_is_split_where_blocks_are_many() -> None:
    text = """func.func @main(%x: tensor<64xf32>) -> (tensor<64xf32>, tensor<f32>) {
  %0 = ng.max %x axes [0] : (tensor<64xf32>) -> tensor<f32>
  %1 = ng.negative %0 : tensor<f32>
  %2 = ng.broadcast %1 dims [] : (tensor<f32>) -> tensor<64xf32>
  %3 = ng.add %x, %2 : tensor<64xf32>
  %4 = ng.sum %3 axes [0] : (tensor<64xf32>) -> tensor<f32>
  return %3, %4 : tensor<64xf32>, tensor<f32>
}"""
    of = from_text(text)
    x = RANDOM.integers(-9, 9, 64).astype(np.float32)
    assert sum(op.name == "ng.max" for op in assert_kept(of, [x], CPU).walk()) == 1
    assert sum(op.name == "ng.max" for op in assert_kept(of, [x], GPU).walk()) > 1
    assert sum(op.name == "ng.sum" for op in assert_kept(of, [x], CPU).walk()) == 2


def test_named_axes_and_unknown_sizes_are_left_alone() -> None:
    for type, result in (
        ("tensor<64xf32, #ng.axes<N>>", "tensor<f32, #ng.axes<>>"), ("tensor<?xf32>", "tensor<f32>"),
    ):  # fmt: skip
        of = from_text(
            f"func.func @main(%x: {type}) -> {result} {{\n"
            f"  %0 = ng.sum %x axes [0] : ({type}) -> {result}\n  return %0 : {result}\n}}"
        )
        assert split_reductions(of, GPU, elements=1) is of


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((1 << 20,), (0,)),
        ((1 << 22, 10), (0,)),
        ((4, 1 << 20), (1,)),
        ((1 << 18, 64), (0,)),
        ((96, 1 << 17), (1,)),
        ((1_000_003,), (0,)),
        ((3, 1_000_003), (1,)),
        ((1_500_007, 5), (0,)),
    ],
)
def test_a_gpu_gets_enough_blocks(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    made = split_reductions(reduction("sum", shape, axes, "f32", "f32"), GPU)
    first = next(op for op in made.walk() if op.name == "ng.sum")
    kept = first.results[0].type.shape  # type: ignore[attr-defined]
    blocks = prod(kept) if axes != (0,) or len(shape) == 1 else prod(kept[:-1]) * -(-kept[-1] // GPU.threads)
    assert blocks >= 0.9 * 2 * GPU.multiprocessors


@pytest.mark.parametrize("shape", [(16, 65537), (2, 131073), (3, 65537)])
@pytest.mark.parametrize("name", ["sum", "max", "argmax"])
def test_a_rest_of_one_element_is_compiled(shape: tuple[int, int], name: str) -> None:
    element = "i32" if name == "argmax" else "f32"
    module = reduction(name, shape, (1,), "f32", element)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    x[0, -1], x[1, 7] = 100.0, np.inf
    (found,) = compile_module(module, target="cuda-sim")(x)
    wanted = getattr(np, name)(x, axis=1)
    np.testing.assert_allclose(np.asarray(found), wanted, 1e-5, 1e-4)
