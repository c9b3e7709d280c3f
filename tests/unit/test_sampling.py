# SPDX-License-Identifier: Apache-2.0
"""Choosing tokens: laws of each way to leave some out, and of what is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ngmlir as ng
from ngmlir.frontends.decoders.sampling import Sampler, Sampling

LOGITS = st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=30)


def stay(logits: Any, **how: Any) -> tuple[list[int], np.ndarray]:
    how = {"temperature": 1.0} | how
    tokens, shares = Sampler(Sampling(**how)).distribution(np.asarray(logits, np.float64))
    return tokens.tolist(), shares


@settings(max_examples=150, deadline=None)
@given(LOGITS, st.floats(0.1, 5), st.integers(0, 40), st.floats(0.01, 1), st.floats(0, 1))
def test_what_stays(logits: list[float], temperature: float, k: int, p: float, least: float) -> None:
    tokens, shares = stay(logits, temperature=temperature, top_k=k, top_p=p, min_p=least)
    assert len({*tokens}) == len(tokens) >= 1 and tokens[0] == int(np.argmax(logits))
    assert abs(shares.sum() - 1) < 1e-12 and (np.diff(shares) <= 1e-15).all()
    whole = np.exp((np.array(logits) - max(logits)) / temperature)
    # Of those that stay the probabilities are in the proportion that they had.
    assert np.allclose(shares, whole[tokens] / whole[tokens].sum())
    assert not k or len(tokens) <= k
    assert (shares >= least * shares[0] * (1 - 1e-12)).all()
    every, _ = stay(logits, temperature=temperature)
    assert sorted(every) == [*range(len(logits))] and tokens == every[: len(tokens)]


@settings(max_examples=100, deadline=None)
@given(LOGITS, st.floats(0.01, 0.99))
def test_top_p_is_the_least_number_of_tokens(logits: list[float], p: float) -> None:
    _, every = stay(logits)
    tokens, _ = stay(logits, top_p=p)
    assert every[: len(tokens)].sum() >= p - 1e-9
    assert len(tokens) == 1 or every[: len(tokens) - 1].sum() < p


def test_the_greatest_is_chosen_without_temperature() -> None:
    assert Sampler(Sampling()).choose(np.array([1.0, 3.0, 3.0, -np.inf], np.float32)) == 1
    assert Sampler(Sampling(temperature=1.0, top_k=1)).choose(np.array([1.0, 3.0, 3.0])) == 1


def test_repeated_tokens_are_less_probable() -> None:
    logits = np.array([2.0, 1.5, -1.0, -1.2], np.float32)
    assert Sampler(Sampling(repetition_penalty=1.5), [0]).choose(logits) == 1
    sampler = Sampler(Sampling(repetition_penalty=4.0))
    assert [sampler.choose(logits) for _ in range(4)] == [0, 1, 0, 0]
    below = Sampler(Sampling(repetition_penalty=2.0), [2])
    assert below.choose(np.array([-9.0, -9.0, -1.0, -1.2], np.float32)) == 3


def test_equal_seeds_draw_equal_tokens() -> None:
    logits = np.random.default_rng(0).normal(size=50)

    def drawn(seed: int | None) -> list[int]:
        sampler = Sampler(Sampling(temperature=1.0, seed=seed))
        return [sampler.choose(logits) for _ in range(30)]

    assert drawn(3) == drawn(3) != drawn(4)
    assert drawn(None) != drawn(None)


def test_tokens_are_drawn_by_their_probability() -> None:
    logits = np.log(np.array([0.5, 0.3, 0.15, 0.05]))
    sampler = Sampler(Sampling(temperature=1.0, seed=1))
    counts = np.bincount([sampler.choose(logits) for _ in range(20_000)], minlength=4) / 20_000
    assert np.abs(counts - np.exp(logits)).max() < 0.015
    cold = Sampler(Sampling(temperature=0.5, seed=1))
    counts = np.bincount([cold.choose(logits) for _ in range(20_000)], minlength=4) / 20_000
    assert np.abs(counts - np.exp(2 * logits) / np.exp(2 * logits).sum()).max() < 0.015


@pytest.mark.parametrize(
    "wrong",
    [{"temperature": -1.0}, {"temperature": np.nan}, {"top_k": -1}, {"top_k": 1.5}, {"top_p": 0.0}, {"top_p": 1.1}, {"min_p": -0.1},
     {"min_p": 2.0}, {"repetition_penalty": 0.0}, {"repetition_penalty": np.inf}, {"seed": -1}],
)  # fmt: skip
def test_numbers_out_of_range(wrong: dict[str, Any]) -> None:
    with pytest.raises(ng.UserError, match=f"{next(iter(wrong))} is"):
        Sampler(Sampling(**wrong))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_logits_that_are_not_finite(bad: float) -> None:
    with pytest.raises(ng.UserError, match="NaN or infinite"):
        Sampler(Sampling()).choose(np.array([0.0, bad], np.float32))
    with pytest.raises(ng.UserError, match="NaN or infinite"):
        Sampler(Sampling(temperature=1.0)).choose(np.array([-np.inf, -np.inf]))
