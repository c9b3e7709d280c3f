# SPDX-License-Identifier: Apache-2.0
"""Branches and loops that functions of variables make: `cond`, `case`, `switch_case`, `while_loop`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from program_helpers import program as program

import ngmlir.frontends.fluid as fluid
from ngmlir.support.diagnostics import UserError

layers = fluid.layers
X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
PLACES = [fluid.NumpyPlace(), fluid.CPUPlace()]


def number(value: float, dtype: str = "int64") -> Any:
    return layers.fill_constant([1], dtype, value)


def gives(value: float) -> Callable[[], Any]:
    return lambda: layers.fill_constant([2], "float32", value)


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_cond_and_its_gradient(place: Any) -> None:
    x = layers.data("x", [3])
    x.stop_gradient = False
    mean = layers.reduce_mean(x)
    is_positive = layers.greater_than(mean, number(0, "float32"))
    whole, (part,) = layers.cond(
        is_positive, lambda: (x * 2.0, [mean + 1.0]), lambda: (x - 1.0, [mean * 3.0])
    )
    slope = fluid.calc_gradient(layers.reduce_sum(whole) + layers.reduce_sum(part), x)
    executor = fluid.Executor(place)
    for x_value, wanted, one, by in (
        (np.abs(X), 2 * np.abs(X), np.abs(X).mean() + 1, 2 + 1 / 12),
        (-np.abs(X[:2]), -np.abs(X[:2]) - 1, -np.abs(X[:2]).mean() * 3, 1 + 3 / 6),
    ):
        found = [np.array(a) for a in executor.run(feed={"x": x_value}, fetch_list=[whole, part, slope])]
        np.testing.assert_allclose(found[0], wanted, rtol=1e-6)
        np.testing.assert_allclose(found[1], [one], rtol=1e-5)
        np.testing.assert_allclose(found[2], np.full(x_value.shape, by), rtol=1e-5)


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_a_branch_that_gives_nothing(place: Any) -> None:
    """It writes a variable around it."""
    x, count = layers.data("x", [1], append_batch_size=False), layers.create_global_var([1], 0, "int64", True)
    assert layers.cond(x > number(0, "float32"), lambda: layers.assign(count + 1, count) and None) is None
    executor = fluid.Executor(place)
    executor.run(fluid.default_startup_program())
    found = [
        int(executor.run(feed={"x": np.array([v], np.float32)}, fetch_list=[count])[0][0]) for v in (1, -1, 2)
    ]
    assert found == [1, 1, 2]


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_cases(place: Any) -> None:
    k = layers.data("k", [1], dtype="int64", append_batch_size=False)
    below = [(layers.less_than(k, number(1)), gives(5)), (layers.less_than(k, number(2)), gives(6))]
    made = [
        layers.switch_case(k, {1: gives(1), 3: gives(3)}, gives(9)),
        layers.switch_case(k, [gives(0), gives(1)]),
        layers.switch_case(k, [(2, gives(2)), (0, gives(0))]),
        layers.case(below, gives(7)),
        layers.case(below),
    ]
    executor = fluid.Executor(place)
    found = [
        [float(np.array(v)[1]) for v in executor.run(feed={"k": np.array([each])}, fetch_list=made)]
        for each in (0, 1, 2, 3, -1)
    ]
    assert found == [[9, 0, 0, 5, 5], [1, 1, 2, 6, 6], [9, 1, 2, 7, 6], [3, 1, 2, 7, 6], [9, 1, 2, 5, 5]]


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_while_loop(place: Any) -> None:
    """Values that change places, a number of the run, and a gradient."""
    n = layers.data("n", [1], dtype="int64", append_batch_size=False)
    x = layers.data("x", [1], append_batch_size=False)
    x.stop_gradient = False
    first, second = layers.assign(x), x * 1.0
    i, a, b = layers.while_loop(
        lambda i, a, b: layers.less_than(i, n), lambda i, a, b: [i + 1, b, a + b], [number(0), first, second]
    )
    slope = fluid.calc_gradient(layers.reduce_sum(b), x)
    executor = fluid.Executor(place)
    for steps, fibonacci in ((0, (1, 1)), (1, (1, 2)), (5, (8, 13)), (9, (55, 89))):
        feed = {"n": np.array([steps]), "x": np.array([0.5], np.float32)}
        found = [np.array(v).item() for v in executor.run(feed=feed, fetch_list=[i, a, b, slope])]
        assert found == [steps, fibonacci[0] / 2, fibonacci[1] / 2, fibonacci[1]]


def test_what_is_refused() -> None:
    x, one = layers.data("x", [3]), number(1)
    holds = layers.less_than(one, number(2))
    with pytest.raises(UserError, match="results of one form"):
        layers.cond(holds, lambda: x, lambda: [x, x])
    with pytest.raises(UserError, match="a branch gives variables, not 3"):
        layers.cond(holds, lambda: 3, lambda: 4)
    with pytest.raises(UserError, match="is one bool, and 'x' is FP32"):
        layers.cond(x, lambda: x, lambda: x)
    with pytest.raises(UserError, match="1 variables for 2"):
        layers.while_loop(lambda i, y: layers.less_than(i, number(9)), lambda i, y: [i + 1], [one, x])
    with pytest.raises(UserError, match="one variable or more"):
        layers.while_loop(lambda: holds, lambda: [], [])
    with pytest.raises(UserError, match="different numbers"):
        layers.switch_case(one, [(1, gives(1)), (1, gives(2))])
    with pytest.raises(UserError, match="one pair of a condition"):
        layers.case([])
    with pytest.raises(UserError, match="not divided into 2 equal groups"):
        layers.group_norm(layers.data("images", [3, 2, 2]), 2)
