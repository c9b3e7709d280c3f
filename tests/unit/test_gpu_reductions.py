# SPDX-License-Identifier: Apache-2.0
"""Reductions as GPUs compute them, on the simulated one, beside NumPy: rows that end anywhere in a tile, columns of which
several rows lie side by side, parts that leave a rest."""

from __future__ import annotations

import numpy as np
import pytest
from test_split_reductions import reduction, tensor

from ngmlir.compiler import compile_module
from ngmlir.ir.core import Module
from ngmlir.ops.words import from_text
from ngmlir.runtime.buffers import DTYPES

ROWS = [1, 2, 31, 129, 2049, 4095, 4096, 4097, 8193, 9000]


def on_gpu(module: Module, *arrays: np.ndarray) -> np.ndarray:
    (got,) = compile_module(module, "cuda-sim")(*arrays)
    return np.asarray(got)


def values(shape: tuple[int, ...], kind: str) -> np.ndarray:
    """All negative or all below one where that matters: what stands behind a row would show."""
    random = np.random.default_rng(sum(shape))
    if kind == "i1":
        return random.random(shape) < 0.5
    if DTYPES[kind].kind in "iu":
        return random.integers(-100 if DTYPES[kind].kind == "i" else 3, 100, shape).astype(DTYPES[kind])
    return random.uniform(-4, -1, shape).astype(DTYPES[kind])


@pytest.mark.parametrize("length", ROWS)
@pytest.mark.parametrize("rows", [1, 5])
def test_rows_end_anywhere(rows: int, length: int) -> None:
    for name, kind in (
        ("max", "f32"), ("max", "bf16"), ("min", "f16"), ("max", "i8"), ("min", "ui8"), ("min", "i64"), ("max", "f64"),
        ("all", "i1"), ("any", "i1"),
    ):  # fmt: skip
        x = values((rows, length), kind)
        if name == "all":
            x[...] = True
        elif name == "any":
            x[...] = False
        got = on_gpu(reduction(name, (rows, length), (1,), kind, kind), x)
        np.testing.assert_array_equal(got, getattr(x, name)(axis=1))
    for kind in ("i32", "i8", "f32", "f64", "bf16"):
        x = values((rows, length), kind)
        got = on_gpu(reduction("sum", (rows, length), (1,), kind, kind), x)
        want = x.sum(axis=1, dtype=np.float64 if kind[0] in "fb" else x.dtype)
        np.testing.assert_allclose(
            got.astype(np.float64),
            want,
            rtol={"bf16": 1e-2, "f32": 1e-6}.get(kind, 0 if kind[0] == "i" else 1e-14),
        )
    ones = np.where(np.arange(length) % 2, -1, 1).astype(np.float32)[None].repeat(rows, 0)
    assert (on_gpu(reduction("product", (rows, length), (1,), "f32", "f32"), ones) == ones.prod(axis=1)).all()


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("name", ["exp", "exp2", "log", "log2", "log10", "tanh", "sigmoid", "sin", "cos"])
def test_functions_of_what_is_no_number(name: str, kind: str) -> None:
    """GPUs set all bits of its payload, which no function may take for those of a number."""
    x = np.array([np.nan, -np.nan, np.inf, -np.inf, 0, -0.0, -1]).astype(DTYPES[kind])
    type = tensor(x.shape, kind)
    text = (
        f"func.func @main(%a: {type}) -> {type} {{\n %r = ng.{name} %a : {type}\n func.return %r : {type}\n}}"
    )
    (cpu,) = compile_module(from_text(text), "cpu")(x)
    got = on_gpu(from_text(text), x)
    assert np.isnan(got[:2].astype(float)).all()
    np.testing.assert_array_equal(got.astype(float), np.asarray(cpu).astype(float))


@pytest.mark.parametrize("length", [1, 31, 4097, 4100])
def test_zeros_infinities_and_nans_at_the_end_of_a_row(length: int) -> None:
    for kind in ("f32", "bf16", "f64"):
        x = np.full((6, length), -np.inf).astype(DTYPES[kind])
        x[1], x[2], x[3] = -0.0, np.inf, np.nan
        x[4, -1], x[5, 0] = np.nan, 1
        for name in ("max", "min", "sum"):
            got = on_gpu(reduction(name, x.shape, (1,), kind, kind), x).astype(np.float64)
            with np.errstate(invalid="ignore"):
                want = getattr(x.astype(np.float64), name)(axis=1)
            np.testing.assert_array_equal(got, want)
            assert np.signbit(got[1])


@pytest.mark.parametrize(
    ("rows", "length"),
    [
        (3, 31),
        (3, 4096),
        (3, 4099),
        (3, 8191),
        (3, 16_807),
        (3, 40_001),
        (17_001, 17),
        (16_896, 50),
        (17_000, 3),
    ],
)
@pytest.mark.parametrize("kind", ["f32", "bf16"])
def test_softmax_of_rows_that_end_anywhere(rows: int, length: int, kind: str) -> None:
    x, y = tensor((rows, length), kind), tensor((rows,), kind)
    text = f"""func.func @main(%a: {x}) -> {x} {{
 %m = ng.max %a axes [1] : ({x}) -> {y}
 %mb = ng.broadcast %m dims [0] : ({y}) -> {x}
 %d = ng.subtract %a, %mb : {x}
 %e = ng.exp %d : {x}
 %s = ng.sum %e axes [1] : ({x}) -> {y}
 %sb = ng.broadcast %s dims [0] : ({y}) -> {x}
 %r = ng.divide %e, %sb : {x}
 func.return %r : {x}
}}"""
    a = values((rows, length), kind)
    a[1, :-1] = -np.inf
    a[2, 0] = -np.inf
    got = on_gpu(from_text(text), a).astype(np.float64)
    wide = a.astype(np.float64)
    want = np.exp(wide - wide.max(axis=1, keepdims=True))
    want /= want.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(got, want, rtol=2e-2 if kind == "bf16" else 2e-6, atol=1e-30)


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((140_003,), (0,)), ((70_001, 2), (0,)), ((33_013, 5), (0,)), ((9_001, 17), (0,)), ((8_193, 16), (0,)), ((8_193, 31), (0,)),
        ((2_003, 129), (0,)), ((3, 50_021), (1,)), ((9, 5, 4_099), (0, 2)), ((4_099, 5, 9), (0, 2)), ((257, 33, 3), (0, 2)),
    ],
)  # fmt: skip
def test_parts_that_leave_a_rest(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    for name, kind in (("max", "f32"), ("sum", "i32"), ("max", "i8"), ("sum", "bf16"), ("min", "f64")):
        x = values(shape, kind)
        got = on_gpu(reduction(name, shape, axes, kind, kind), x)
        if kind == "bf16":
            np.testing.assert_allclose(got.astype(float), x.astype(float).sum(axis=axes), rtol=1e-2)
        else:
            np.testing.assert_array_equal(
                got, getattr(x, name)(axis=axes) if name != "sum" else x.sum(axis=axes, dtype=x.dtype)
            )


@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (0, 2)])
@pytest.mark.parametrize(("shape", "axes"), [((2_003, 3, 43), (0, 1, 2)), ((3, 20_003, 9), (1, 2))])
def test_what_is_spread_along_some_dimensions_is_reduced_with_them(
    shape: tuple[int, ...], axes: tuple[int, ...], dims: tuple[int, ...]
) -> None:
    x, v = tensor(shape, "f32"), tensor(tuple(shape[d] for d in dims), "f32")
    y = tensor(tuple(s for d, s in enumerate(shape) if d not in axes), "f32")
    text = f"""func.func @main(%a: {x}, %v: {v}) -> {y} {{
 %b = ng.broadcast %v dims {[*dims]} : ({v}) -> {x}
 %d = ng.subtract %a, %b : {x}
 %r = ng.max %d axes {[*axes]} : ({x}) -> {y}
 func.return %r : {y}
}}"""
    a, b = values(shape, "f32"), values(tuple(shape[d] for d in dims), "f32")
    spread = b.reshape([size if d in dims else 1 for d, size in enumerate(shape)])
    np.testing.assert_array_equal(on_gpu(from_text(text), a, b), (a - spread).max(axis=axes))


@pytest.mark.parametrize("kind", ["i8", "ui8", "i16", "ui16"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((3, 33), 1), ((3, 40_001), 1), ((70, 512), 0), ((2_003, 129), 0)]
)
def test_short_integers_wrap_around(shape: tuple[int, int], axis: int, kind: str) -> None:
    """They are gathered in whole registers."""
    ends, random = np.iinfo(DTYPES[kind]), np.random.default_rng(shape[1])
    x = random.integers(ends.min, ends.max, shape, dtype=DTYPES[kind], endpoint=True)
    for name in ("sum", "product", "max", "min"):
        a = x | 1 if name == "product" else x
        got = on_gpu(reduction(name, shape, (axis,), kind, kind), a)
        reduce = {"sum": np.add, "product": np.multiply, "max": np.maximum, "min": np.minimum}[name]
        np.testing.assert_array_equal(got, reduce.reduce(a, axis=axis, dtype=a.dtype))


@pytest.mark.parametrize("columns", [2, 3, 7, 17, 31, 50, 66, 127])
def test_many_short_rows_each_of_which_a_thread_has(columns: int) -> None:
    rows = 17_001  # the last block has some of its rows
    for name, kind in (("max", "i8"), ("sum", "f32"), ("min", "bf16"), ("sum", "i64"), ("all", "i1")):
        x = values((rows, columns), kind)
        got = on_gpu(reduction(name, (rows, columns), (1,), kind, kind), x)
        want = x.sum(axis=1, dtype=x.dtype) if name == "sum" else getattr(x, name)(axis=1)
        np.testing.assert_allclose(got.astype(float), want.astype(float), rtol=1e-5 if kind == "f32" else 0)


def test_many_short_rows_of_several_inputs() -> None:
    x, z, v = tensor((17_001, 17), "f32"), tensor((17_001, 17), "bf16"), tensor((17_001,), "f32")
    text = f"""func.func @main(%a: {x}, %c: {z}, %d: {v}, %e: tensor<17xf32>) -> {v} {{
 %1 = ng.cast %c : ({z}) -> {x}
 %2 = ng.broadcast %d dims [0] : ({v}) -> {x}
 %3 = ng.broadcast %e dims [1] : (tensor<17xf32>) -> {x}
 %4 = ng.multiply %a, %1 : {x}
 %5 = ng.multiply %2, %3 : {x}
 %6 = ng.add %4, %5 : {x}
 %7 = ng.sum %6 axes [1] : ({x}) -> {v}
 %8 = ng.add %7, %d : {v}
 func.return %8 : {v}
}}"""
    a, c, d, e = (
        values((17_001, 17), "f32"),
        values((17_001, 17), "bf16"),
        values((17_001,), "f32"),
        values((17,), "f32"),
    )
    want = (a * c.astype(np.float32) + d[:, None] * e).astype(np.float64).sum(axis=1) + d
    np.testing.assert_allclose(on_gpu(from_text(text), a, c, d, e), want, rtol=1e-5)


def test_what_is_made_of_many_short_rows_is_written_as_they_lie() -> None:
    x, y, c = tensor((17_001, 31), "i32"), tensor((17_001,), "i32"), tensor((17_001, 31), "i1")
    text = f"""func.func @main(%a: {x}) -> ({c}, {tensor((17_001, 31), "i8")}, {y}) {{
 %m = ng.max %a axes [1] : ({x}) -> {y}
 %b = ng.broadcast %m dims [0] : ({y}) -> {x}
 %c = ng.equal %a, %b : ({x}, {x}) -> {c}
 %d = ng.subtract %b, %a : {x}
 %e = ng.cast %d : ({x}) -> {tensor((17_001, 31), "i8")}
 func.return %c, %e, %m : {c}, {tensor((17_001, 31), "i8")}, {y}
}}"""
    a = values((17_001, 31), "i32") // 2
    equal, apart, greatest = compile_module(from_text(text), "cuda-sim")(a)
    np.testing.assert_array_equal(greatest, a.max(axis=1))
    np.testing.assert_array_equal(equal, a == a.max(axis=1, keepdims=True))
    np.testing.assert_array_equal(apart, (a.max(axis=1, keepdims=True) - a).astype(np.int8))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((5, 1), 1), ((17_001, 17), 1), ((17_001, 2), 1), ((301, 64), 1), ((17, 33), 1), ((40, 1000), 1), ((3, 513), 1), ((2, 5000), 1),
        ((1000, 5), 0), ((1, 40), 0), ((31, 3), 0), ((4099, 40), 0), ((3, 77, 130), 1), ((2, 16, 129), 1), ((70_001, 3), 0),
    ],
)  # fmt: skip
def test_first_positions(shape: tuple[int, ...], axis: int, name: str) -> None:
    """Many elements are equal, and some are infinite or NaN; nothing but the worst in some lines."""
    random = np.random.default_rng(len(shape))
    for kind in ("f32", "bf16", "f64", "i8", "i64"):
        x = random.integers(-3, 3, shape).astype(DTYPES[kind])
        if kind[0] in "fb":
            x[random.random(shape) < 0.02] = np.inf
            x[random.random(shape) < 0.02] = -np.inf
            x[random.random(shape) < 0.1] = -0.0
            x[random.random(shape) < 0.001] = np.nan
            worst = np.moveaxis(x, axis, -1)
            worst[..., 0, :] = -np.inf if name == "argmax" else np.inf
        got = on_gpu(reduction(name, shape, (axis,), kind, "i64"), x)
        np.testing.assert_array_equal(got, getattr(np, name)(x.astype(np.float64), axis=axis))


def test_rows_that_lie_along_one_dimension_are_not_tiled_together() -> None:
    """Heads and positions of queries that come as one row of numbers: tiles run along one of the loops."""
    n = 1024
    made = from_text(f"""
func.func @main(%q: tensor<{n * 16}xf32>, %k: tensor<{n}x2x4x4xf32>) -> tensor<{n}x2x2x4xf32> {{
  %0 = ng.reshape %q : (tensor<{n * 16}xf32>) -> tensor<{n}x2x2x4xf32>
  %1 = ng.transpose %0 perm [0, 2, 1, 3] : (tensor<{n}x2x2x4xf32>) -> tensor<{n}x2x2x4xf32>
  %2 = ng.dot %1, %k contract [3] x [2] {{lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>}} : (tensor<{n}x2x2x4xf32>, tensor<{n}x2x4x4xf32>) -> tensor<{n}x2x2x4xf32>
  return %2 : tensor<{n}x2x2x4xf32>
}}""")
    q, k = values((n * 16,), "f32"), values((n, 2, 4, 4), "f32")
    want = np.einsum("bqhd,bhdk->bhqk", q.reshape(n, 2, 2, 4), k)
    np.testing.assert_allclose(on_gpu(made, q, k), want, rtol=1e-5)
