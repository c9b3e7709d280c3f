# SPDX-License-Identifier: Apache-2.0
"""Functions of networks on arrays: SciPy's formulas in float64, derivatives by differences, and who is told what."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import ngmlir as ng

nn = ng.numpy
TARGETS = ["numpy", "cpu", "cuda-sim"]


def values(*tensors: Any, target: str) -> list[Any]:
    return list(ng.compile(list(tensors), target=target)())


def log_of_sum(x: np.ndarray[Any, Any], axis: Any) -> np.ndarray[Any, Any]:
    most = x.max(axis=axis, keepdims=True)
    return most + np.log(np.exp(x - most).sum(axis=axis, keepdims=True))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64", "int8"])
def test_values_are_those_of_the_formulas(target: str, dtype: str) -> None:
    x = np.random.default_rng(3).normal(0, 30, (2, 3, 4)).clip(-100, 100).astype(dtype)
    wide, kind = x.astype("float64"), np.exp(x[:1] * 0).dtype
    pairs: list[tuple[Any, Any]] = [
        (nn.erf(x), np.vectorize(math.erf)(wide)),
        (nn.expit(x), np.exp(-np.logaddexp(0, -wide))),
        (nn.sigmoid(x), np.exp(-np.logaddexp(0, -wide))),
    ]
    for axis in (None, -1, 0, (0, 2), ()):
        total = log_of_sum(wide, axis)
        pairs += [
            (nn.softmax(x, axis=axis), np.exp(wide - total)),
            (nn.log_softmax(x, axis), wide - total),
            (nn.logsumexp(x, axis=axis), total.squeeze(axis)),
            (nn.logsumexp(x, axis, keepdims=True), total),
        ]
    tolerance = 2 * float(np.finfo(kind).eps) * (1 if kind == np.float16 else 8)
    for found, (made, wanted) in zip(values(*(m for m, _ in pairs), target=target), pairs, strict=True):
        assert made.dtype == kind
        np.testing.assert_allclose(found.astype("float64"), wanted, tolerance, tolerance)
    relu, given = nn.relu(x), np.maximum(x, 0)
    assert relu.dtype == given.dtype
    np.testing.assert_array_equal(values(relu, target=target)[0], given)


@pytest.mark.parametrize("target", TARGETS)
def test_sums_of_infinities_and_of_nothing(target: str) -> None:
    rows = [[-np.inf, -np.inf], [np.inf, 0], [np.nan, 0], [1e300, -1e300], [-1e300, -np.inf]]
    found, none = values(nn.logsumexp(rows, axis=1), nn.logsumexp(np.zeros((0, 2)), axis=0), target=target)
    np.testing.assert_array_equal(found, [-np.inf, np.inf, np.nan, 1e300, -1e300])
    np.testing.assert_array_equal(none, [-np.inf, -np.inf])


def test_derivatives_are_those_of_differences() -> None:
    start = np.array([[0.3, -1.2, 2.0], [0.7, 0.7, -0.1]])
    weights = np.arange(6.0).reshape(2, 3)
    x = nn.variable(start)
    for function in (
        nn.erf,
        nn.expit,
        nn.relu,
        lambda x: nn.softmax(x, axis=1),
        nn.log_softmax,
        lambda x: nn.logsumexp(x, 0),
    ):
        slope = ng.compile([ng.deriv((function(x) * weights).sum(), x)], target="cpu")()[0]
        moves = np.eye(6).reshape(6, 2, 3) * 1e-5
        up, down = (
            values(*((function(start + s * m) * weights).sum() for m in moves), target="numpy")
            for s in (1, -1)
        )
        np.testing.assert_allclose(slope.ravel(), (np.array(up) - down) / 2e-5, 1e-6, 1e-8)


@pytest.mark.parametrize("target", TARGETS)
def test_dropout_drops_a_share_and_keeps_the_mean(target: str) -> None:
    x = nn.variable(np.ones((200, 50), "float32"))
    made = nn.dropout(x, 0.2, rng=1)
    share, none, all_, slope = values(
        made, nn.dropout(x, 0), nn.dropout(x, 1.0), ng.deriv(made.sum(), x), target=target
    )
    assert set(np.unique(share)) == {np.float32(0), np.float32(1) / np.float32(0.8)}
    assert abs((share == 0).mean() - 0.2) < 0.02
    np.testing.assert_array_equal(slope, share)
    assert (none == 1).all() and (all_ == 0).all()
    rates = nn.asarray(np.array([0, 1] * 25, "float32"))
    by_column = nn.dropout(x, rates, rng=nn.random.default_rng(4))
    dropped, slope = values(by_column, ng.deriv(by_column.sum(), x), target=target)
    np.testing.assert_array_equal(dropped, np.tile(np.array([1, 0], "float32"), (200, 25)))
    np.testing.assert_array_equal(slope, dropped)


def test_a_rate_that_is_no_probability_is_refused() -> None:
    for rate in (-0.1, 1.5, math.nan):
        with pytest.raises(ng.UserError, match="between 0 and 1"):
            nn.dropout(nn.ones(3), rate)
    with pytest.raises(ng.IncompatibleAxesError):
        nn.dropout(nn.ones(3), nn.ones((2, 3)))


@pytest.mark.parametrize("name", "erf sigmoid relu softmax log_softmax exp sum".split())
def test_functions_of_names_say_which_one_arrays_have(name: str) -> None:
    with pytest.raises(
        ng.IncompatibleAxesError, match=f"ng.numpy.{name} takes axes by position; ng.cast_axes"
    ):
        getattr(ng, name)(nn.ones((2, 3)))
    assert name in dir(nn)


def test_the_names_listed_are_the_public_ones() -> None:
    assert dir(nn) == sorted(nn.__all__)
