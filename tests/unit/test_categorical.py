# SPDX-License-Identifier: Apache-2.0
"""Draws of positions: their frequencies, seeds, what is never drawn, axes, and arguments that cannot be right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ngmlir as ng

nn = ng.numpy
TARGETS = ["numpy", "cpu", "cuda-sim"]
SHARES = np.array([0.5, 0.25, 0.2, 0.05, 0.0])


def frequencies(draws: Any) -> Any:
    return np.bincount(draws.reshape(-1), minlength=len(SHARES)) / draws.size


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16"])
def test_frequencies_are_the_probabilities(dtype: str) -> None:
    S, V = ng.make_axis(40_000, "S"), ng.make_axis(5, "V")
    with np.errstate(divide="ignore"):
        logits = ng.constant(np.log(SHARES) + 3, [V], dtype=dtype)
    drawn = [
        ng.categorical(ng.broadcast(logits, [S, V]), axis=V, seed=1),
        ng.categorical(
            axis=V, seed=2, probabilities=ng.broadcast(ng.constant(SHARES * 7, [V], dtype=dtype), [V, S])
        ),
    ]
    first, second = ng.compile(drawn, target="cpu")()
    assert first.shape == second.shape == (40_000,) and first.dtype == np.int32
    for draws in (first, second):
        np.testing.assert_allclose(frequencies(draws), SHARES, atol=0.01)  # 4 deviations
        assert not (draws == 4).any()


def test_equal_seeds_give_equal_draws_on_every_target() -> None:
    V = ng.make_axis(50, "V")
    logits = ng.placeholder([ng.make_axis(name="N"), V])
    given = np.random.default_rng(0).normal(size=(30, 50)).astype("float32") * 3
    runs = [
        ng.compile([ng.categorical(logits, seed=3), ng.categorical(logits)], [logits], target=t)
        for t in TARGETS
    ]
    first = runs[0](given)
    for run in runs[1:]:
        assert (run(given)[0] == first[0]).all()
    again = runs[0](given)
    assert (again[0] != first[0]).any() and (first[0] != first[1]).any()


def test_draws_of_arrays_have_shapes_as_wanted() -> None:
    logits = np.log(SHARES + 1e-9)
    made = [
        nn.random.default_rng(0).categorical(logits, size=20_000), nn.random.categorical(np.tile(logits, (2, 3, 1))),
        nn.random.categorical(np.tile(logits, (2, 1)).T, axis=0, size=(7, 2)), nn.random.categorical(logits),
    ]  # fmt: skip
    many, *others = ng.compile(made)()
    np.testing.assert_allclose(frequencies(many), SHARES, atol=0.015)
    assert [(d.shape, d.dtype.name) for d in others] == [((2, 3), "int64"), ((7, 2), "int64"), ((), "int64")]
    with pytest.raises(ng.IncompatibleAxesError):
        nn.random.categorical(np.zeros((2, 3)), size=(3,))


def test_sharpened_and_cut_logits_draw_what_is_left() -> None:
    """Temperature and top-k, as docs/networks.md has them."""
    V = ng.make_axis(50, "V")
    logits = ng.placeholder([ng.make_axis(name="N"), V])
    best, _ = ng.top_k(logits, 3, V)
    cut = ng.where(ng.less(logits, ng.min(best, axis=V)), -np.inf, logits)
    run = ng.compile(
        [ng.categorical(cut), ng.categorical(logits / 1e-4), ng.argmax(logits, axis=V)], [logits]
    )
    given = np.random.default_rng(1).normal(size=(500, 50)).astype("float32")
    of_three, sharp, best_one = run(given)
    order = np.argsort(-given, axis=1)[:, :3]
    assert (of_three[:, None] == order).any(1).all() and len({*(of_three[:, None] == order).argmax(1)}) == 3
    assert (sharp == best_one).all()


def test_arguments_that_cannot_be_right_are_refused() -> None:
    x = ng.placeholder([ng.make_axis(2, "A"), ng.make_axis(3, "B")])
    for call, message in (
        (lambda: ng.categorical(x), "along one axis"), (lambda: ng.categorical(x, axis="C"), "C"),
        (lambda: ng.categorical(), "logits or probabilities"), (lambda: ng.categorical(x, axis=0, probabilities=x), "one of the two"),
    ):  # fmt: skip
        with pytest.raises(ng.UserError, match=message):
            call()
