# SPDX-License-Identifier: Apache-2.0
"""Gradients that a program hands on itself, and reductions of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir.testing import check_derivative

C, H, N = ng.make_axis(3, "C"), ng.make_axis(4, "H"), ng.make_axis(2, "N")
VALUES = np.random.RandomState(0).uniform(0.5, 2, (3, 4)).astype(np.float32)


def test_adjoints_are_those_of_deriv() -> None:
    x = ng.variable([C, H], initial_value=VALUES)
    inner = ng.exp(x)
    loss = ng.sum(inner * x, out_axes=())
    found = loss.adjoints()
    assert {x, inner, loss} <= set(found)
    values = ng.compile([found[x], ng.deriv(loss, x), found[inner], found[loss]])()
    np.testing.assert_array_equal(values[0], values[1])
    np.testing.assert_allclose(values[2], VALUES, rtol=1e-6)
    assert values[3] == 1
    weighted = inner.adjoints(ng.constant(2, [C, H]))
    np.testing.assert_allclose(ng.compile(weighted[x])(), 2 * np.exp(VALUES), rtol=1e-6)
    with pytest.raises(ng.NotDifferentiable, match="needs error="):
        inner.adjoints()
    with pytest.raises(ng.NotDifferentiable, match="only floats"):
        ng.argmax(x).adjoints()


def test_one_op_hands_its_gradient_on() -> None:
    x, y = ng.variable([C], initial_value=2), ng.variable([H], initial_value=3)
    product = x * y
    gradients: dict[Any, Any] = {}
    delta = ng.constant(VALUES, [C, H])
    product.generate_adjoints(gradients, delta, *product.args)
    product.generate_adjoints(gradients, ng.axes_with_order(delta, [H, C]))
    # What stands between x and the product is an op as well.
    for op in list(gradients):
        if op not in (x, y):
            op.generate_adjoints(gradients, gradients[op])
    found = ng.compile([gradients[x], gradients[y]])()
    np.testing.assert_allclose(found[0], 2 * 3 * VALUES.sum(1), rtol=1e-6)
    np.testing.assert_allclose(found[1], 2 * 2 * VALUES.sum(0), rtol=1e-6)
    with pytest.raises(ng.UserError, match="not computed from these"):
        product.generate_adjoints(gradients, delta, y, x)


def test_gradients_of_loops_are_handed_on() -> None:
    total = ng.variable((), initial_value=1)
    series = ng.variable([C], initial_value=[1, 2, 3])
    last, _ = ng.scan(lambda t, item: (t * item, t), total, series, C)
    gradients: dict[Any, Any] = {}
    last.generate_adjoints(gradients, 1)
    assert ng.compile(gradients[series])().tolist() == [6, 3, 2]


def test_a_handler_says_the_derivative() -> None:
    class Straight:
        def __init__(self, x: ng.Tensor):
            self.args = (x,)

        def generate_adjoints(self, adjoints: Any, delta: Any, x: ng.Tensor) -> None:
            x.generate_add_delta(adjoints, delta * 7)

    x = ng.variable([C], initial_value=[-1, 0, 2])
    sign, other = ng.sign(x), ng.square(x)
    handler = Straight(x)
    sign.deriv_handler = handler
    assert sign.deriv_handler is handler and other.deriv_handler is other
    slope = ng.deriv(ng.sum(sign + other, out_axes=()), x)
    assert ng.compile(slope)().tolist() == [5, 7, 11]
    flat = ng.sign(x)
    flat.deriv_handler = handler
    flat.deriv_handler = None
    assert flat.deriv_handler is flat
    assert not ng.compile(ng.deriv(ng.sum(flat, out_axes=()), x))().any()
    # An op is a handler too: the derivative is that of the other.
    cheap = ng.round(x)
    cheap.deriv_handler = ng.multiply(x, 3)
    assert ng.compile(ng.deriv(ng.sum(cheap, out_axes=()), x))().tolist() == [3, 3, 3]


def test_what_an_op_has_the_value_of() -> None:
    x = ng.variable([C], initial_value=1)
    y = x + 1
    assert x.tensor is x and y.effective_tensor_op is y
    assert ng.sequential([ng.assign(x, 2), y]).tensor is y
    assert ng.sequential([y]).named("again").tensor is y


@pytest.mark.parametrize("target", ["numpy", "cpu", "cuda-sim"])
def test_a_reduction_of_ones_own(target: str) -> None:
    Median, median = ng.create_reduction_op("Median", "median", ng.max_adjoints)
    x = ng.placeholder([H, C, N])
    y = median(x)
    assert isinstance(y, Median) and isinstance(y, ng.ReductionOp) and median.__name__ == "median"
    assert type(y).__name__ == "Median" and y.axes == ng.make_axes([N])
    over = median(x, reduction_axes="H", out_axes=[N, C], name="middle")
    assert over.axes.names == ("N", "C") and over.name == "middle"
    values = np.random.RandomState(1).rand(4, 3, 2)
    run = ng.transformers.make_transformer(target).computation([y, over], x)
    found = run(values)
    np.testing.assert_allclose(found[0], np.median(values, (0, 1)), rtol=1e-6)
    np.testing.assert_allclose(found[1], np.median(values, 0).T, rtol=1e-6)


def test_gradients_of_reductions_of_ones_own() -> None:
    rules = {
        "max": ng.max_adjoints, "min": ng.min_adjoints, "sum": ng.sum_adjoints, "prod": ng.prod_adjoints,
    }  # fmt: skip
    for name, rule in rules.items():
        _, mine = ng.create_reduction_op(f"My{name}", name, rule)
        x = ng.placeholder([C, H])
        check_derivative(mine(x, axis="H"), x, 1e-3, VALUES, rtol=1e-2, atol=1e-2)
        own, theirs = (ng.deriv(ng.sum(f(x, axis=0), out_axes=()), x) for f in (mine, getattr(ng, name)))
        found = ng.compile([own, theirs], [x])(VALUES)
        np.testing.assert_allclose(found[0], found[1], rtol=1e-6)
    _, spread = ng.create_reduction_op("Spread", "spread", compute=lambda x, axis: np.ptp(x, axis))
    x = ng.variable([C, H], initial_value=VALUES)
    np.testing.assert_allclose(ng.compile(spread(x))(), np.ptp(VALUES), rtol=1e-6)
    with pytest.raises(ng.NotDifferentiable, match="spread"):
        ng.deriv(spread(x), x)
    with pytest.raises(ng.UserError, match="NumPy has no function 'spread'"):
        ng.create_reduction_op("Spread", "spread")
