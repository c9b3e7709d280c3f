# SPDX-License-Identifier: Apache-2.0
"""Gradients of branches: those of the branch that was taken, of what it computed, which is not computed again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ngmlir as ng

C, R, N, T = (ng.make_axis(n, name) for n, name in ((3, "C"), (3, "R"), (2, "N"), (4, "T")))
Function = Callable[[Any, Any], Any]


@pytest.fixture(params=["numpy", "cpu", "cuda-sim"])
def transformer(request: pytest.FixtureRequest) -> Any:
    return ng.transformers.make_transformer(request.param)


def layer(w: Any, x: Any) -> Any:
    return ng.cast_role(ng.tanh(ng.dot(w, x)), [C, N])


def drawn(w: Any, x: Any) -> Any:
    noise = ng.constant([[0.5, 2.0], [1.0, 0.0], [0.0, 4.0]], [C, N])
    return layer(w, layer(w, x) * noise) * ng.exp(x)


def of_loops(w: Any, x: Any) -> Any:
    steps = ng.iota([T], T)
    last, _ = ng.scan(lambda h, t: (layer(w, h) * 0.5 + x, h), x, steps * 1.0, T)
    return last


def nested(w: Any, x: Any) -> Any:
    h = layer(w, x)
    total = ng.sum(h, out_axes=())
    return ng.cond(total > 0, lambda: layer(w, h * h), lambda: ng.exp(h)) * total


def several(w: Any, x: Any) -> Any:
    a, b = ng.cond(ng.sum(x, out_axes=()) > 0, lambda: (layer(w, x), x), lambda: (x, layer(w, layer(w, x))))
    return a * b


def alone(w: Any, x: Any) -> Any:
    return x


PAIRS = [(drawn, alone), (nested, of_loops), (alone, drawn), (several, layer), (of_loops, nested)]


@pytest.mark.parametrize(
    ("target", "then", "otherwise"),
    [*(("numpy", *pair) for pair in PAIRS), *(("cpu", *pair) for pair in PAIRS), ("cuda-sim", *PAIRS[0])],
)
def test_first_and_second_derivatives_are_those_of_the_branch(
    target: str, then: Function, otherwise: Function
) -> None:
    transformer = ng.transformers.make_transformer(target)

    def slopes(function: Callable[[Any, Any, Any], Any]) -> Any:
        w, x, p = ng.placeholder([R, C]), ng.placeholder([C, N]), ng.placeholder(())
        loss = ng.sum(ng.square(function(w, x, p)), out_axes=())
        first = [ng.deriv(loss, each) for each in (w, x)]
        weight = ng.sum(ng.square(first[0]), out_axes=()) + ng.sum(ng.square(first[1]), out_axes=())
        second = [ng.deriv(weight, each) for each in (w, x)]
        return transformer.computation([loss, *first, *second], w, x, p)

    chosen = slopes(lambda w, x, p: ng.cond(p > 0, lambda: then(w, x), lambda: otherwise(w, x)))
    random = np.random.RandomState(3)
    w, x = random.randn(3, 3), random.randn(3, 2)
    for p, function in ((1, then), (-1, otherwise)):
        plain = slopes(lambda w, x, p, function=function: function(w, x) + 0 * p)
        for one, other in zip(chosen(w, x, p), plain(w, x, p), strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-5)


def test_what_a_branch_computed_is_not_computed_again() -> None:
    w, x, p = ng.placeholder([R, C]), ng.placeholder([C, N]), ng.placeholder(())
    loss = ng.sum(ng.cond(p > 0, lambda: layer(w, layer(w, x)), lambda: ng.exp(x)), out_axes=())
    text = str(ng.lift([loss, ng.deriv(loss, w), ng.deriv(loss, x)], [w, x, p]).module)
    forward, backward = text.split("ng.if")[1:]
    assert (forward.count("ng.dot"), forward.count("ng.tanh"), forward.count("ng.exp")) == (2, 2, 1)
    assert (backward.count("ng.dot"), backward.count("ng.tanh"), backward.count("ng.exp")) == (4, 0, 0)


def test_numbers_drawn_in_a_branch_are_those_that_its_gradient_sees(transformer: Any) -> None:
    axis = ng.make_axis(64, "D")
    x, p = ng.placeholder([axis]), ng.placeholder(())
    kept = ng.cond(p > 0, lambda: ng.dropout(ng.exp(x), 0.5, seed=1), lambda: x)
    found, slope = transformer.computation([kept, ng.deriv(ng.sum(kept, out_axes=()), x)], x, p)(0, 1)
    assert 0 < np.count_nonzero(found) < 64
    np.testing.assert_allclose(slope, found, rtol=1e-6)


def test_two_derivatives_of_one_branch_share_what_it_keeps(transformer: Any) -> None:
    w, x, p = ng.placeholder([R, C]), ng.placeholder([C, N]), ng.placeholder(())
    y = ng.cond(p > 0, lambda: layer(w, layer(w, x)), lambda: ng.exp(x))
    error = ng.placeholder([C, N])
    first, second = ng.deriv(ng.sum(y, out_axes=()), x), ng.deriv(y, x, error)
    values = np.random.RandomState(1).randn(3, 3), np.random.RandomState(2).randn(3, 2)
    for way in (1, -1):
        one, two = transformer.computation([first, second], w, x, p, error)(*values, way, np.ones((3, 2)))
        np.testing.assert_allclose(one, two, rtol=1e-6)


def test_a_derivative_by_what_a_loop_gave_and_one_through_it(transformer: Any) -> None:
    x, w = ng.placeholder(()), ng.variable((), initial_value=3)
    grown = ng.while_loop(lambda v: v < 50, lambda v: v * 3, x)
    y = ng.cond(grown > 100, lambda: ng.square(grown), lambda: -grown) + w * w
    both = transformer.computation([ng.deriv(y, grown), ng.deriv(y, w)], x)
    assert [float(each) for each in both(5)] == [270, 6]
    assert [float(each) for each in both(2)] == [-1, 6]
    through = transformer.computation(ng.deriv(y, x), x)
    assert [float(through(5)), float(through(2))] == [2 * 135 * 27, -27]
