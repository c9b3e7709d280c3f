# SPDX-License-Identifier: Apache-2.0
"""Reductions of every shape, near and far, as the CPU computes them, beside NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from ngmlir.compiler import compile_module
from ngmlir.ops.words import from_text
from ngmlir.runtime.buffers import DTYPES

SHAPES = [
    ((7,), (0,)), ((5000,), (0,)), ((3, 5), (0,)), ((3, 5), (1,)), ((100, 3), (0,)), ((9, 2050), (0,)), ((301, 700), (0,)),
    ((301, 700), (1,)), ((37, 600, 5), (1,)), ((3, 300, 130), (1,)), ((20, 30, 170), (0, 1)), ((4, 90, 3, 90), (1, 2)),
    ((17, 33), (0, 1)), ((2, 3, 4, 5), (0, 2)),
]  # fmt: skip


def tensor(shape: tuple[int, ...], kind: str) -> str:
    return f"tensor<{''.join(f'{d}x' for d in shape)}{kind}>"


def reduced(name: str, x: np.ndarray, axes: tuple[int, ...], kind: str, result: str) -> np.ndarray:
    kept = tuple(d for i, d in enumerate(x.shape) if i not in axes)
    a, r = tensor(x.shape, kind), tensor(kept, result)
    text = f"func.func @main(%a: {a}) -> {r} {{\n  %r = ng.{name} %a axes {list(axes)} : ({a}) -> {r}\n  return %r : {r}\n}}\n"
    (got,) = compile_module(from_text(text))(x)
    return np.asarray(got)


def values(shape: tuple[int, ...], kind: str) -> np.ndarray:
    random, dtype = np.random.default_rng(sum(shape)), DTYPES[kind]
    if dtype.kind in "iu":
        return random.integers(0 if dtype.kind == "u" else -100, 100, shape).astype(dtype)
    return random.uniform(-4, 4, shape).astype(dtype)


@pytest.mark.parametrize("shape, axes", SHAPES)
@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "i32"])
def test_sums(shape: tuple[int, ...], axes: tuple[int, ...], kind: str) -> None:
    x = values(shape, kind)
    got = reduced("sum", x, axes, kind, kind)
    if kind == "i32":
        np.testing.assert_array_equal(got, x.sum(axis=axes, dtype=np.int32))
        return
    tolerance = {"f16": 2e-3, "f32": 1e-5, "f64": 1e-12}[kind]
    want = x.astype(np.float64).sum(axis=axes)
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=tolerance, atol=tolerance * 100)


@pytest.mark.parametrize("shape, axes", SHAPES)
@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "i8", "ui32"])
@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes(shape: tuple[int, ...], axes: tuple[int, ...], kind: str, name: str) -> None:
    x = values(shape, kind)
    want = getattr(x, name)(axis=axes)
    np.testing.assert_array_equal(reduced(name, x, axes, kind, kind), want)


@pytest.mark.parametrize("shape, axes", [s for s in SHAPES if len(s[1]) == 1])
@pytest.mark.parametrize("kind", ["f32", "f64", "i32", "i8"])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_of_extremes(shape: tuple[int, ...], axes: tuple[int, ...], kind: str, name: str) -> None:
    x = np.round(values(shape, kind))  # with many equals
    if kind.startswith("f"):
        x[x == 1] = np.nan if shape[axes[0]] > 500 else np.inf
        x[x == 2] = -np.inf
    got = reduced(name, x, axes, kind, "i64")
    np.testing.assert_array_equal(got, getattr(x, name)(axis=axes[0]))


@pytest.mark.parametrize("size", [31, 32, 33, 63, 64, 97, 128, 511, 512, 517, 1000, 4099, 16384, 20011])
@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "bf16", "i8", "i16", "i64"])
def test_places_in_rows_of_every_length(size: int, kind: str) -> None:
    """The best stands anywhere, once and again later, alone or beside a NaN, a zero of the other sign, nothing but it."""
    random = np.random.default_rng(size)
    x = random.integers(-5, 5, (60, size)).astype(DTYPES[kind])
    for row, at in enumerate(random.integers(0, size, 40)):
        x[row, at] = 9 if row % 2 else -9
        x[row, random.integers(at, size)] = x[row, at]
    if kind.startswith("f"):
        for row in range(10, 30):
            x[row, random.integers(0, size, 3)] = [np.nan, -np.inf, np.inf][row % 3]
        x[50] = np.where(random.random(size) < 0.5, 0.0, -0.0)
        x[51], x[52], x[53] = np.inf, -np.inf, np.nan
        x[54, :-1] = -np.inf
    for name in ("argmax", "argmin"):
        np.testing.assert_array_equal(reduced(name, x, (1,), kind, "i64"), getattr(x, name)(axis=1))


@pytest.mark.parametrize("worst", [-np.inf, np.nan])
def test_rows_of_one_value_have_their_extreme_first(worst: float) -> None:
    x = np.full((3, 500), worst, np.float32)
    np.testing.assert_array_equal(reduced("argmax", x, (1,), "f32", "i32"), [0, 0, 0])


@pytest.mark.parametrize("shape, axis", [((300,), 0), ((40, 70), 0), ((40, 70), 1), ((130, 1100), 0)])
@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "bf16"])
def test_extremes_of_zeros_and_nans(shape: tuple[int, ...], axis: int, kind: str) -> None:
    """+0.0 is greater than -0.0, wherever they stand; one NaN decides."""
    dtype = DTYPES[kind]
    for place in (0, 13, shape[axis] - 1):
        x = np.full(shape, -0.0, np.float32)
        x[(slice(None),) * axis + (place,)] = 0.0
        kept = tuple(d for i, d in enumerate(shape) if i != axis)
        greatest = reduced("max", x.astype(dtype), (axis,), kind, kind).astype(np.float32)
        least = reduced("min", (-x).astype(dtype), (axis,), kind, kind).astype(np.float32)
        np.testing.assert_array_equal(np.signbit(greatest), np.zeros(kept, bool))
        np.testing.assert_array_equal(np.signbit(least), np.ones(kept, bool))
        x[(slice(None),) * axis + (place,)] = np.nan
        assert np.isnan(reduced("max", x.astype(dtype), (axis,), kind, kind).astype(np.float32)).all()
        assert np.isnan(reduced("min", x.astype(dtype), (axis,), kind, kind).astype(np.float32)).all()


def test_columns_with_what_comes_before_and_after() -> None:
    a, c = tensor((257, 1300), "f32"), tensor((1300,), "f32")
    text = f"""func.func @main(%x: {a}, %s: {c}) -> ({a}, {c}, {c}) {{
  %w = ng.broadcast %s dims [1] : ({c}) -> {a}
  %y = ng.multiply %x, %w : {a}
  %t = ng.sum %y axes [0] : ({a}) -> {c}
  %m = ng.max %x axes [0] : ({a}) -> {c}
  %u = ng.add %t, %s : {c}
  return %y, %u, %m : {a}, {c}, {c}
}}
"""
    x, s = values((257, 1300), "f32"), values((1300,), "f32")
    y, u, m = (np.asarray(r) for r in compile_module(from_text(text))(x, s))
    np.testing.assert_array_equal(y, x * s)
    np.testing.assert_allclose(u, (x * s).astype(np.float64).sum(0) + s, rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(m, x.max(0))


@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "i8", "ui8", "i64"])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize(
    "shape, axis",
    [
        ((1000, 5), 0), ((101, 5), 0), ((3, 77, 5), 1), ((3, 32, 7), 1), ((999, 2), 0), ((64, 16), 0), ((4, 33, 3, 2), 1),
        ((2000, 37), 0), ((40, 13), 0), ((33, 3), 0), ((1, 3), 0),
    ],
)  # fmt: skip
def test_first_positions_side_by_side(shape: tuple[int, ...], axis: int, name: str, kind: str) -> None:
    """Few results beside each other; many elements are equal, and some are infinite or NaN."""
    random, dtype = np.random.default_rng(len(shape)), DTYPES[kind]
    x = random.integers(0, 5, shape).astype(dtype)
    if dtype.kind == "f":
        x[random.random(shape) < 0.02] = np.inf
        x[random.random(shape) < 0.02] = -np.inf
        x[..., 0][random.random(shape[:-1]) < 0.02] = np.nan
        with np.errstate(invalid="ignore"):
            x[random.random(shape) < 0.2] *= -0.0
    kept = tuple(d for i, d in enumerate(shape) if i != axis)
    a, r = tensor(shape, kind), tensor(kept, "i32")
    text = f"func.func @main(%a: {a}) -> {r} {{\n  %r = ng.{name} %a axes [{axis}] : ({a}) -> {r}\n  return %r : {r}\n}}\n"
    (got,) = compile_module(from_text(text))(x)
    np.testing.assert_array_equal(np.asarray(got), getattr(np, name)(x, axis=axis))


@pytest.mark.parametrize("kind", ["f32", "f64", "bf16", "i8"])
@pytest.mark.parametrize("shape", [(53, 5), (3, 64, 7), (2, 3, 41, 4), (1000, 3), (2, 2)])
@pytest.mark.parametrize("name", ["sum", "max", "argmin"])
def test_narrow_columns_of_what_is_computed(shape: tuple[int, ...], kind: str, name: str) -> None:
    """Something of each row and of each column is joined with the elements, which are given back too; several axes are reduced."""
    axes, dtype = list(range(len(shape) - 1)), DTYPES[kind]
    a, r, c = tensor(shape, kind), tensor(shape[:-1], kind), tensor(shape[-1:], kind)
    result = tensor(shape[-1:], "i32") if name == "argmin" else c
    text = f"""func.func @main(%x: {a}, %r: {r}, %c: {c}) -> ({result}, {a}, {result}) {{
  %0 = ng.broadcast %r dims {axes} : ({r}) -> {a}
  %1 = ng.broadcast %c dims [{len(axes)}] : ({c}) -> {a}
  %2 = ng.add %x, %0 : {a}
  %3 = ng.add %2, %1 : {a}
  %4 = ng.{name} %3 axes {axes} : ({a}) -> {result}
  %5 = ng.{name} %x axes {axes} : ({a}) -> {result}
  return %4, %3, %5 : {result}, {a}, {result}
}}
"""
    random = np.random.default_rng(len(shape))
    given = [random.integers(-4, 5, s).astype(dtype) for s in (shape, shape[:-1], shape[-1:])]
    whole = given[0] + given[1][..., None] + given[2]
    got, computed, plain = (np.asarray(v) for v in compile_module(from_text(text))(*given))
    np.testing.assert_array_equal(computed, whole)
    for found, x in ((got, whole), (plain, given[0])):
        wide = x.reshape(-1, shape[-1]).astype(np.float64)
        want = getattr(wide, name)(axis=0)
        if kind == "i8" and name == "sum":
            want = want.astype(np.int64).astype(np.int8)
        np.testing.assert_allclose(
            found.astype(np.float64), want.astype(np.float64), rtol=1e-2 if kind == "bf16" else 1e-6
        )


@pytest.mark.parametrize("target", ["cpu", "cuda-sim"])
@pytest.mark.parametrize(
    "shape, axes",
    [
        ((6, 1000), (1,)),
        ((40, 17), (1,)),
        ((700, 33), (0,)),
        ((5, 60, 3), (1,)),
        ((4, 5, 6), (0, 2)),
        ((3, 2, 70), (1, 2)),
    ],
)
def test_positions_in_what_is_computed(shape: tuple[int, ...], axes: tuple[int, ...], target: str) -> None:
    """What comes before and after an argmax is computed by its kernel."""
    kept = [n for d, n in enumerate(shape) if d not in axes]
    dims = [d for d in range(len(shape)) if d not in axes]
    a, k, p = tensor(shape, "f32"), tensor(tuple(kept), "f32"), tensor(tuple(kept), "i64")
    text = f"""func.func @main(%x: {a}, %s: {k}) -> ({p}, {k}, {p}) {{
  %0 = ng.broadcast %s dims {dims} : ({k}) -> {a}
  %1 = ng.multiply %x, %0 : {a}
  %2 = ng.absolute %1 : {a}
  %3 = ng.argmax %2 axes {list(axes)} : ({a}) -> {p}
  %4 = ng.max %2 axes {list(axes)} : ({a}) -> {k}
  %5 = ng.argmin %1 axes {list(axes)} : ({a}) -> {p}
  %6 = ng.add %3, %5 : {p}
  return %3, %4, %6 : {p}, {k}, {p}
}}
"""
    random = np.random.default_rng(sum(shape))
    x, s = (
        np.round(random.uniform(-9, 9, shape)).astype(np.float32),
        random.choice([-1, 1, 2], kept).astype(np.float32),
    )
    where, best, both = (np.asarray(v) for v in compile_module(from_text(text), target)(x, s))
    lines = np.moveaxis(x, dims, range(len(dims))).reshape(*kept, -1) * s[..., None]
    np.testing.assert_array_equal(where, np.abs(lines).argmax(-1))
    np.testing.assert_array_equal(best, np.abs(lines).max(-1))
    np.testing.assert_array_equal(both, np.abs(lines).argmax(-1) + lines.argmin(-1))


@pytest.mark.parametrize("target", ["cpu", "cuda-sim"])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions_in_padded_windows(name: str, target: str) -> None:
    """Taps count row by row, also where rows of results that see the same are computed beside each other."""
    text = f"""func.func @main(%x: tensor<11x12xf32>) -> tensor<6x6xi64> {{
  %0 = ng.pad %x low [1, 1] high [1, 1] : (tensor<11x12xf32>) -> tensor<13x14xf32>
  %1 = ng.windows %0 axes [0, 1] steps [2, 2] dilations [1, 1] : (tensor<13x14xf32>) -> tensor<3x3x6x6xf32>
  %2 = ng.{name} %1 axes [0, 1] : (tensor<3x3x6x6xf32>) -> tensor<6x6xi64>
  return %2 : tensor<6x6xi64>
}}
"""
    x = np.random.default_rng(0).integers(-3, 4, (11, 12)).astype(np.float32)  # some are equal
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, 1), (3, 3))[::2, ::2].reshape(6, 6, 9)
    (found,) = compile_module(from_text(text), target)(x)
    np.testing.assert_array_equal(found, getattr(windows, name)(-1))
