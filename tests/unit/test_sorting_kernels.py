# SPDX-License-Identifier: Apache-2.0
"""Sorting digit by digit, by insertion, and on GPUs by exchanges, beside NumPy's stable sort."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

import ngmlir.numpy as nn
from ngmlir import transformers
from ngmlir.compiler import compile_module
from ngmlir.ops.words import from_text
from ngmlir.passes.analysis.sorting import LONGEST
from ngmlir.runtime.buffers import DTYPES

Array = np.ndarray


def order(
    x: Array, kind: str, axis: int, count: int | None = None, descending: bool = False, target: str = "cpu"
) -> Array:
    kept = [n if d != axis or count is None else count for d, n in enumerate(x.shape)]
    source, result = ("x".join(map(str, s)) for s in (x.shape, kept))
    (got,) = compile_module(
        from_text(
            f"func.func @main(%x: tensor<{source}x{kind}>) -> tensor<{result}xi32> {{\n"
            f"  %r = ng.argsort %x axis {axis} {{descending = {str(descending).lower()}}} : (tensor<{source}x{kind}>) -> tensor<{result}xi32>\n"
            f"  return %r : tensor<{result}xi32>\n}}\n"
        ),
        target,
    )(x)
    return np.asarray(got)


def expected(x: Array, axis: int, count: int | None = None, descending: bool = False) -> Array:
    if descending:  # stable: of equal ones the first comes first
        turned = np.flip(x, axis)
        if x.dtype.kind == "f":  # a NaN is the greatest
            nan = np.isnan(x)
            places = np.argsort(np.where(nan, -np.inf, -x.astype(np.float64)), axis, kind="stable")
            first = np.argsort(~np.take_along_axis(nan, places, axis), axis, kind="stable")
            made = np.take_along_axis(places, first, axis)
        else:
            made = np.flip(x.shape[axis] - 1 - np.argsort(turned, axis, kind="stable"), axis)
    else:
        made = np.argsort(x, axis, kind="stable")
    return made if count is None else made.take(np.arange(count), axis)


def values(shape: tuple[int, ...], kind: str, few: bool) -> Array:
    """Numbers of the whole range with the ends of it, or few that are often equal."""
    rng, dtype = np.random.default_rng(sum(shape)), DTYPES[kind]
    if dtype.kind == "f":
        x = rng.standard_normal(shape) * (1 if few else 1e4)
        x = np.round(x) if few else x
        special = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324]
        return np.where(rng.random(shape) < 0.2, rng.choice(special, shape), x).astype(dtype)
    ends = np.iinfo(dtype)
    x = rng.integers(0, 5, shape) if few else rng.integers(ends.min, ends.max, shape, dtype, True)
    edges = rng.choice(np.array([ends.min, ends.max], dtype), shape)
    return np.where(rng.random(shape) < 0.1, edges, x.astype(dtype))


@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "i8", "ui8", "i16", "i32", "ui32", "i64", "ui64"])
@pytest.mark.parametrize("descending", [False, True])
def test_all_of_long_rows(kind: str, descending: bool) -> None:
    for shape, axis, few in (((131,), 0, False), ((3, 300, 2), 1, True), ((70, 5), 0, False)):
        x = values(shape, kind, few)
        np.testing.assert_array_equal(
            order(x, kind, axis, descending=descending), expected(x, axis, descending=descending)
        )


@pytest.mark.parametrize("kind", ["f32", "f64", "i8", "ui16", "i64", "ui64"])
@pytest.mark.parametrize("count", [1, 5, 16, 17, 66])
def test_the_first_few(kind: str, count: int) -> None:
    for shape, axis, few in (((2, 67), 1, True), ((500, 3), 0, False)):
        x = values(shape, kind, few)
        for descending in (False, True):
            got = order(x, kind, axis, count, descending)
            np.testing.assert_array_equal(got, expected(x, axis, count, descending))


@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "i8", "ui8", "i16", "i32", "ui32", "i64", "ui64"])
def test_some_of_long_rows(kind: str) -> None:
    """They are selected: rows of many lengths, in any order, with many equal elements, along each axis."""
    random = np.random.default_rng(11)
    for size in (256, 257, 1000, 3001):
        for axis, shape in ((0, (size,)), (1, (2, size)), (0, (size, 3)), (1, (2, size, 2))):
            x = values(shape, kind, bool(random.integers(2)))
            if random.integers(3) == 0:
                x = np.sort(x, axis)
                x = x if random.integers(2) else np.flip(x, axis)
            count, descending = int(random.integers(17, size // 2)), bool(random.integers(2))
            got = order(x, kind, axis, count, descending)
            np.testing.assert_array_equal(
                got, expected(x, axis, count, descending), str((shape, axis, count))
            )


def test_few_of_wide_elements_are_selected() -> None:
    x = values((4096,), "i64", True)
    np.testing.assert_array_equal(order(x, "i64", 0, 32), expected(x, 0, 32))


def test_the_first_of_equal_ones_and_of_rows_beyond_scratch() -> None:
    random = np.random.default_rng(12)
    for size, count in ((300, 40), (2048, 30), (2049, 600), (9001, 90)):
        equal = np.full((2, size), 2.5, np.float32)
        ordered = np.sort(random.standard_normal((2, size)).astype(np.float32), 1)
        ends = random.choice(np.array([-(1 << 31), (1 << 31) - 1, 0], np.int32), (2, size))
        for x in (equal, ordered, np.flip(ordered, 1), ends):
            kind = "f32" if x.dtype.kind == "f" else "i32"
            np.testing.assert_array_equal(order(x, kind, 1, count), expected(x, 1, count))


@pytest.mark.parametrize("q", [0.0, 0.01, 0.3, 0.5, 0.77, 0.99, 1.0])
def test_ranks_are_selected_from_the_nearer_end(q: float) -> None:
    x = np.random.default_rng(5).standard_normal((3, 2000)).round(2).astype(np.float32)
    x[1, 7] = np.nan
    transformer = transformers.make_transformer("cpu")
    for method in ("linear", "lower", "higher", "nearest", "midpoint"):
        (got,) = transformer.computation([nn.quantile(nn.variable(x), [q, 0.5 * q], axis=1, method=method)])()
        np.testing.assert_allclose(got, np.quantile(x, [q, 0.5 * q], axis=1, method=method), rtol=1e-6)
    (middle,) = transformer.computation([nn.median(nn.variable(x), axis=1)])()
    np.testing.assert_allclose(middle, np.median(x, axis=1))


#: About what one block of threads of a GPU sorts, and more: all of it, some, few; along each axis.
ON_GPUS: list[tuple[tuple[int, ...], int, int | None]] = [
    ((2,), 0, None),
    ((3, 100), 1, None),
    ((100, 3), 0, 7),
    ((5, 33, 3), 1, 4),
    ((1100, 2), 1, 1),
    ((2, LONGEST), 1, None),
    ((2, LONGEST + 1), 1, None),
    ((2, LONGEST + 1), 1, 3),
    ((1, 2 * LONGEST + 808), 1, LONGEST // 2),
    ((2, 2 * LONGEST + 808), 1, LONGEST // 2 + 1),
    ((5 * LONGEST, 2), 0, 50),
]


@pytest.mark.parametrize("kind", ["i32", "i64", "f32", "f16", "f64", "i8", "ui8", "ui64"])
@pytest.mark.parametrize(("shape", "axis", "count"), ON_GPUS)
def test_blocks_of_threads(kind: str, shape: tuple[int, ...], axis: int, count: int | None) -> None:
    """Also what is as great as what fills a row up."""
    few = prod(shape) % 2 == 0
    x = values(shape, kind, few)
    if not few:
        x.flat[:: max(1, x.size // 3)] = np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).max
    descending = shape[0] == 5
    got = order(x, kind, axis, count, descending, "cuda-sim")
    np.testing.assert_array_equal(got, expected(x, axis, count, descending))


@pytest.mark.parametrize("line", ["ascending", "descending", "alike"])
@pytest.mark.parametrize("count", [None, 3, 50, 600])
def test_rows_in_order(line: str, count: int | None) -> None:
    n = 5000
    x = {"ascending": np.arange(n), "descending": np.arange(n)[::-1], "alike": np.full(n, 7)}[line]
    for kind in ("i32", "i64"):
        given = x.astype(DTYPES[kind]).copy()
        np.testing.assert_array_equal(order(given, kind, 0, count), expected(given, 0, count))


@pytest.mark.parametrize("kind", ["i32", "i64", "f32", "i8"])
@pytest.mark.parametrize("few", [False, True])
def test_parts_that_are_merged(kind: str, few: bool) -> None:
    """Of equal elements the first comes first, from whichever part."""
    x = values((2, 20000), kind, few)
    np.testing.assert_array_equal(order(x, kind, 1, target="cuda-sim"), expected(x, 1))


def test_same_bits_whatever_threads_do() -> None:
    x = np.random.default_rng(0).integers(0, 9, (64, 2000)).astype("f4")
    variable = nn.variable(x)
    results = [
        transformers.make_transformer_factory("cpu", threads=threads)().computation(nn.argsort(variable, 1))()
        for threads in (1, 2)
    ]
    for got in results:
        np.testing.assert_array_equal(got, np.argsort(x, 1, kind="stable"))


def test_top_k_of_arrays_of_bools_and_long_rows() -> None:
    x = np.random.default_rng(0).random((40, 900)) < 0.3
    top, at = nn.top_k(nn.variable(x), 20)
    found, places = transformers.make_transformer("cpu").computation([top, at])()
    np.testing.assert_array_equal(places, expected(x.astype("u1"), 1, 20, True))
    np.testing.assert_array_equal(found, np.take_along_axis(x, places, 1))


@pytest.mark.parametrize(
    ("shape", "axis", "runs", "count"),
    [((3, 4), 1, 4, 4), ((3, 4, 2), 1, 2, 4), ((3, 4), 1, 2, 2), ((5, 6), 1, 3, 6)],
)
@pytest.mark.parametrize("target", ["cpu", "cuda-sim"])
def test_runs_that_a_program_promises(
    shape: tuple[int, ...], axis: int, runs: int, count: int, target: str
) -> None:
    """However many there are, along any axis, and where only the first positions are asked for."""
    parts = [*shape[:axis], shape[axis] // runs, runs, *shape[axis + 1 :]]
    x = np.sort(values(tuple(parts), "i32", True), axis + 1).reshape(shape)
    kept = [count if d == axis else n for d, n in enumerate(shape)]
    source, result = (f"tensor<{'x'.join(map(str, s))}xi32>" for s in (shape, kept))
    body = f"%r = ng.argsort %x axis {axis} {{runs = {runs} : i64}} : ({source}) -> {result}"
    text = f"func.func @main(%x: {source}) -> {result} {{\n {body}\n return %r : {result}\n}}"
    (got,) = compile_module(from_text(text), target)(x)
    np.testing.assert_array_equal(np.asarray(got), expected(x, axis, count))
