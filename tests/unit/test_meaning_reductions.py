# SPDX-License-Identifier: Apache-2.0
"""The meaning of reductions, cumulative ops and products, against exact sums of fractions and plain loops."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from meaning_helpers import BF16, BOOL, FLOATS, INTEGERS, NUMERIC, is_float, same, sample, tensor, value

from ngmlir.ir.core import Op
from ngmlir.ops import ng

CASES = (
    ((), ()),
    ((7,), (0,)),
    ((5, 3), (0,)),
    ((5, 3), (1,)),
    ((5, 3), (1, 0)),
    ((2, 3, 5), (0, 2)),
    ((3, 0), (1,)),
    ((0, 3), (1,)),
    ((2, 3), ()),
)
NAN, INF = math.nan, math.inf


def groups(x: np.ndarray, axes: tuple[int, ...]) -> tuple[tuple[int, ...], list[list[Any]]]:
    """The result shape, and the elements (row by row) that each result position reduces."""
    kept = [d for d in range(x.ndim) if d not in axes]
    shape = tuple(x.shape[d] for d in kept)
    found = []
    for at in product(*map(range, shape)):
        places = [range(x.shape[d]) if d in axes else [at[kept.index(d)]] for d in range(x.ndim)]
        found.append([x[p] for p in product(*places)])
    return shape, found


def reduced(x: np.ndarray, axes: tuple[int, ...], fold: Any, dtype: Any) -> np.ndarray:
    shape, lists = groups(x, axes)
    return np.array([fold(g) for g in lists]).astype(dtype).reshape(shape)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize(("shape", "axes"), CASES)
def test_integers(dtype: np.dtype, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x, bits = sample(dtype, shape), 1 << 8 * dtype.itemsize
    unsigned = f"u{dtype.itemsize}"
    info = np.iinfo(dtype)
    for op, fold in (
        (ng.SumOp, lambda g: sum(map(int, g))),
        (ng.ProductOp, lambda g: math.prod(map(int, g))),
    ):
        found = value(op, x, axes=axes)
        shape_left, lists = groups(x, axes)
        wanted = np.array([fold(g) % bits for g in lists], unsigned).view(dtype).reshape(shape_left)
        assert same(found, wanted)
    assert same(value(ng.MaxOp, x, axes=axes), reduced(x, axes, lambda g: max(g, default=info.min), dtype))
    assert same(value(ng.MinOp, x, axes=axes), reduced(x, axes, lambda g: min(g, default=info.max), dtype))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("shape", "axes"), CASES)
def test_floats(dtype: np.dtype, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x = sample(dtype, shape)
    count = math.prod(x.shape[a] for a in axes)
    computed = np.float64 if dtype == np.float64 else np.float32
    close = 4 * float(np.finfo(computed).eps) + (
        0 if dtype.itemsize > 2 else 2.0 ** (-8 if dtype == BF16 else -11)
    )
    size = reduced(x, axes, lambda g: sum(abs(float(e)) for e in g), np.float64)
    total = reduced(x, axes, lambda g: float(sum(map(Fraction, map(float, g)), Fraction(0))), np.float64)
    assert (np.abs(value(ng.SumOp, x, axes=axes).astype(np.float64) - total) <= close * size + 1e-30).all()
    if count:
        means = value(ng.MeanOp, x, axes=axes).astype(np.float64)
        assert (np.abs(means - total / count) <= close * size / count + 1e-30).all()
    product_ = reduced(
        x, axes, lambda g: float(math.prod(map(Fraction, map(float, g)), start=Fraction(1))), np.float64
    )
    with np.errstate(over="ignore"):
        found = value(ng.ProductOp, x, axes=axes)
        assert np.allclose(
            found.astype(np.float64), product_.astype(dtype).astype(np.float64), rtol=8 * close
        )
    assert same(value(ng.MaxOp, x, axes=axes), reduced(x, axes, lambda g: max(g, default=-INF), dtype))
    assert same(value(ng.MinOp, x, axes=axes), reduced(x, axes, lambda g: min(g, default=INF), dtype))


def test_mean_of_nothing_is_nan() -> None:
    assert np.isnan(value(ng.MeanOp, np.zeros((2, 0), np.float32), axes=[1])).all()


def test_halves_are_summed_in_f32() -> None:
    ones = np.ones(5000, np.float16)
    assert value(ng.SumOp, ones, axes=[0]) == 5000
    assert value(ng.SumOp, np.ones(1000, BF16), axes=[0]) == 1000
    big = np.full(10, 60000, np.float16)
    assert value(ng.MeanOp, big, axes=[0]) == 60000
    assert value(ng.DotOp, ones, ones, lhs_contract=[0], rhs_contract=[0]) == 5000


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_extremes_know_nan_and_the_sign_of_zero(dtype: np.dtype) -> None:
    rows = np.array(
        [[1, NAN, 2], [-0.0, 0.0, -0.0], [-0.0, -0.0, -1], [0.0, 1, -0.0], [-INF, -INF, -INF]]
    ).astype(dtype)
    assert same(value(ng.MaxOp, rows, axes=[1]), np.array([NAN, 0.0, -0.0, 1, -INF]).astype(dtype))
    assert same(value(ng.MinOp, rows, axes=[1]), np.array([NAN, -0.0, -1, -0.0, -INF]).astype(dtype))
    down = value(ng.CumulativeMaxOp, rows, axis=1).astype(np.float64)
    assert np.isnan(down[0]).tolist() == [False, True, True]
    assert np.signbit(down[1]).tolist() == [True, False, False]


def test_any_and_all() -> None:
    for shape, axes in CASES:
        x = sample(BOOL, shape)
        assert same(value(ng.AnyOp, x, axes=axes), reduced(x, axes, any, bool))
        assert same(value(ng.AllOp, x, axes=axes), reduced(x, axes, all, bool))


@pytest.mark.parametrize("dtype", NUMERIC, ids=str)
def test_positions_of_extremes(dtype: np.dtype) -> None:
    x = (sample(dtype, (4, 5, 3)).astype(np.float64) % 3).astype(dtype)  # many equal elements
    if is_float(dtype):
        x[0, 1, 0] = x[0, 3, 0] = NAN

    def first(group: list[Any], better: Any) -> int:
        for i, e in enumerate(group):
            if e != e:
                return i
        return group.index(better(group))

    for axes in ((1,), (0, 2), (2, 0), (0, 1, 2)):
        for op, better in ((ng.ArgmaxOp, max), (ng.ArgminOp, min)):
            wanted = reduced(x, axes, lambda g, b=better: first(g, b), np.int32)
            assert same(value(op, x, type=tensor(wanted.shape, np.int32), axes=axes), wanted)


@pytest.mark.parametrize("dtype", NUMERIC, ids=str)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_cumulative(dtype: np.dtype, reverse: bool, exclusive: bool) -> None:
    low = -INF if is_float(dtype) else np.iinfo(dtype).min
    high = INF if is_float(dtype) else np.iinfo(dtype).max
    folds: dict[type[Op], Any] = {
        ng.CumulativeSumOp: (lambda a, b: a + b, 0),
        ng.CumulativeProductOp: (lambda a, b: a * b, 1),
        ng.CumulativeMaxOp: (max, low),
        ng.CumulativeMinOp: (min, high),
    }
    for shape, axis in (((5,), 0), ((3, 7), 1), ((3, 7), 0), ((0, 2), 0), ((2, 1, 3), 1)):
        # Small numbers, so that every type holds the sums and products exactly.
        x = (np.arange(math.prod(shape)) % 3 + (1 if dtype.kind == "u" else -1)).reshape(shape).astype(dtype)
        for op, (fold, start) in folds.items():
            wanted = np.empty_like(x)
            line, out = (np.moveaxis(a, axis, 0)[:: -1 if reverse else 1] for a in (x, wanted))
            for at in np.ndindex(line.shape[1:]):
                so_far: Any = start
                for i in range(len(line)):
                    following = fold(
                        so_far, line[(i, *at)].item() if dtype != BF16 else float(line[(i, *at)])
                    )
                    out[(i, *at)] = so_far if exclusive else following
                    so_far = following
            assert same(value(op, x, axis=axis, reverse=reverse, exclusive=exclusive), wanted)


@pytest.mark.parametrize("dtype", NUMERIC, ids=str)
def test_dot(dtype: np.dtype) -> None:
    rng = np.random.default_rng(4)

    def small(*shape: int) -> np.ndarray:
        return rng.integers(0, 4, shape).astype(dtype)  # exact in every type

    a, b = small(2, 3, 5, 7), small(7, 2, 11, 3)
    found = value(ng.DotOp, a, b, lhs_contract=[3, 1], rhs_contract=[0, 3], lhs_batch=[0], rhs_batch=[1])
    wanted = np.einsum("bcnk,kbmc->bnm", a.astype(np.float64), b.astype(np.float64))
    assert same(found, wanted.astype(np.int64).astype(dtype) if not is_float(dtype) else wanted.astype(dtype))
    x, y = small(5), small(5)
    inner = value(ng.DotOp, x, y, lhs_contract=[0], rhs_contract=[0])
    assert same(inner, np.asarray((x.astype(np.int64) * y.astype(np.int64)).sum()).astype(dtype))
    outer = value(ng.DotOp, x, y, lhs_contract=[], rhs_contract=[])
    assert same(outer, (x.astype(np.int64)[:, None] * y.astype(np.int64)).astype(dtype))
    nothing = value(
        ng.DotOp, np.zeros((3, 0), dtype), np.zeros((0, 2), dtype), lhs_contract=[1], rhs_contract=[0]
    )
    assert same(nothing, np.zeros((3, 2), dtype))


def test_dot_of_integers_wraps() -> None:
    x = np.full((1, 9), 127, np.int8)
    found = value(ng.DotOp, x, x, lhs_contract=[1], rhs_contract=[1])
    assert found.tolist() == [[(127 * 127 * 9 + 128) % 256 - 128]]


def test_sums_of_many_small_floats_stay_accurate() -> None:
    x = np.full((3, 100_000), 0.1, np.float32)
    for array, axis in ((x, 1), (x.T, 0)):
        assert np.abs(value(ng.SumOp, array, axes=[axis]) - 10_000).max() < 0.01
