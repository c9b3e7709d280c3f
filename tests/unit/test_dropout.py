# SPDX-License-Identifier: Apache-2.0
"""Dropout: what is dropped, how often, and by whom it is seen."""

from __future__ import annotations

import numpy as np
import pytest
from network_helpers import TARGETS, named, on

import ngmlir as ng
from ngmlir.op_graph.tensor import Tensor

C, H, N = named("C H N", 6, 5, 7)


@pytest.mark.parametrize("target", TARGETS)
def test_elements_stay_as_often_as_was_asked(target: str) -> None:
    (wide,) = named("W", 20_011)
    for keep in (0.25, 0.9):
        (found,) = on(target, lambda x: [ng.dropout(x, keep)], [np.ones(20_011)], [[wide]])  # noqa: B023
        assert set(np.unique(found)) <= {np.float32(0), np.float32(1) / np.float32(keep)}
        assert abs((found != 0).mean() - keep) < 0.02
        assert abs(found.mean() - 1) < 0.05


@pytest.mark.parametrize("target", TARGETS)
def test_the_choice_may_be_shared(target: str) -> None:
    x = np.arange(1, 6 * 5 * 7 + 1).reshape(6, 5, 7)
    found = on(target, lambda x: ng.dropout(x, 0.5, axes=[H, "C"], rescale=False), [x], [[C, H, N]])
    kept = found != 0
    assert (kept == kept[:, :, :1]).all() and 0 < kept.mean() < 1
    assert (found[kept] == x[kept]).all()


@pytest.mark.parametrize("target", TARGETS)
def test_each_run_chooses_anew_and_gradients_see_the_choice(target: str) -> None:
    x = ng.placeholder([C, N])
    y = ng.dropout(x, 0.5)
    gradient = ng.deriv(ng.sum(y * 3, out_axes=()), x)
    run = ng.transformers.make_transformer(target).computation([y, gradient], x)
    ones = np.ones((6, 7))
    (first, slope), (second, _) = run(ones), run(ones)
    assert (first != second).any()
    np.testing.assert_array_equal(slope, 3 * first)


def test_a_seed_gives_the_same_choice_on_every_target() -> None:
    first, *others = (
        on(t, lambda x: ng.dropout(x, 0.5, seed=5), [np.ones((6, 7))], [[C, N]]) for t in TARGETS
    )
    for other in others:
        np.testing.assert_array_equal(first, other)


def test_the_ends() -> None:
    x = np.array([-1.0, np.inf, 0.0, np.nan, 2.0, 3.0])
    found = on("cpu", lambda x: [ng.dropout(x, 0), ng.dropout(x, 1), ng.dropout(x, 1, axes=[])], [x], [[C]])
    np.testing.assert_array_equal(found[0], np.zeros(6))
    np.testing.assert_array_equal(found[1], x)
    np.testing.assert_array_equal(found[2], x)


def test_a_probability_may_be_fed() -> None:
    p = ng.placeholder(())
    run = ng.compile(ng.dropout(ng.constant(np.ones((6, 7)), [C, N]), p), [p])
    assert run(1).all() and not run(0).any() and 0 < (run(0.5) != 0).sum() < 42


@pytest.mark.parametrize("target", TARGETS)
def test_every_step_of_a_loop_chooses_anew(target: str) -> None:
    (T,) = named("T", 9)

    def build(x: Tensor) -> Tensor:
        return ng.scan(lambda _, now: ((), ng.dropout(now, 0.5)), (), x, T)[1]

    found = on(target, build, [np.ones((9, 6, 7))], [[T, C, N]])
    assert len(np.unique(found.reshape(9, -1), axis=0)) == 9


def test_elements_of_64_bits_are_kept() -> None:
    x = ng.placeholder([C], dtype="f64")
    third = 1 / 3
    assert float(ng.compile(ng.dropout(x, 1), [x])(third)[0]) == third
    assert ng.dropout(ng.placeholder([C], dtype="i32"), 0.5).dtype == np.float32


@pytest.mark.parametrize("keep", [-0.1, 1.5, float("nan")])
def test_what_is_no_probability_is_refused(keep: float) -> None:
    with pytest.raises(ng.UserError, match="between 0 and 1"):
        ng.dropout(ng.placeholder([C]), keep)


def test_axes_that_are_not_there_are_refused() -> None:
    with pytest.raises(ng.AxisNotFound, match="there is no axis H"):
        ng.dropout(ng.placeholder([C]), 0.5, axes=[H])
