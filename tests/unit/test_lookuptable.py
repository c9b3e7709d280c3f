# SPDX-License-Identifier: Apache-2.0
"""Embeddings: looked up by any number of axes of indices, updated by row."""

from __future__ import annotations

import numpy as np
import pytest
from network_helpers import TARGETS, agree, drawn, named, on
from slopes import check_slopes

import ngmlir as ng
from ngmlir.compiler import lower, resolve
from ngmlir.op_graph.tensor import Tensor
from ngmlir.ops.words import to_text

V, F, REC, N = named("V F REC N", 5, 3, 4, 2)
WORDS = np.array([[0, 3], [3, -1], [1, 1], [4, 1]])


def scattered(delta: np.ndarray, words: np.ndarray, rows: int, pad: int | None = None) -> np.ndarray:
    wanted = np.zeros((rows, delta.shape[-1]))
    for place in np.ndindex(words.shape):
        if pad is None or words[place] % rows != pad % rows:
            wanted[words[place] % rows] += delta[place]
    return wanted


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("pad", [None, 1, -1])
def test_by_two_axes_of_words(target: str, pad: int | None) -> None:
    table, words = ng.placeholder([V, F]), ng.placeholder([REC, N])
    y = ng.lookuptable(table, words, [REC, N, F], pad_idx=pad)
    assert [a.name for a in y.axes] == ["REC", "N", "F"]
    weights = drawn(REC, N, F, seed=1)
    slope = ng.deriv(y, table, ng.constant(weights, y.axes))
    other = ng.lookuptable_update(ng.constant(weights, y.axes), table, words, y)
    run = ng.transformers.make_transformer(target).computation([y, slope, other], table, words)
    values = drawn(V, F)
    found, by_deriv, by_update = run(values, WORDS)
    np.testing.assert_allclose(found, values[WORDS], atol=1e-7)  # row `pad` too
    wanted = scattered(weights, WORDS, 5, pad)
    np.testing.assert_allclose(by_deriv, wanted, atol=1e-6)
    np.testing.assert_allclose(by_update, wanted, atol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
def test_the_second_axis_may_be_looked_up(target: str) -> None:
    words = np.array([2.9, 0.0, 2.0, -1.0])  # floats are truncated
    found = on(
        target,
        lambda t, i: ng.lookuptable(t, i, [F, N]),
        [drawn(F, V), words],
        [[F, V], [ng.make_axis(4, "N")]],
    )
    np.testing.assert_allclose(found, drawn(F, V)[:, [2, 0, 2, -1]], atol=1e-7)


@pytest.mark.parametrize("target", TARGETS)
def test_an_update_by_words_of_two_axes_for_a_flat_result(target: str) -> None:
    table, words = ng.placeholder([V, F]), ng.constant(WORDS, [REC, N], dtype="i32")
    flat = ng.flatten(words)
    y = ng.lookuptable(table, flat, [*flat.axes, F], pad_idx=3)
    weights = drawn(REC, N, F, seed=1)
    delta = ng.constant(weights.reshape(8, 3), y.axes)
    update = ng.lookuptable_update(delta, table, words, y)
    assert update.axes == table.axes
    found = ng.transformers.make_transformer(target).computation(update, table)(0)
    np.testing.assert_allclose(found, scattered(weights, WORDS, 5, 3), atol=1e-6)


def test_without_update_there_is_no_gradient() -> None:
    table = ng.variable([V, F], initial_value=1)
    words = ng.constant([1, 1], [N], dtype="i32")
    y = ng.lookuptable(table, words, [N, F], update=False)
    assert not ng.compile(ng.deriv(ng.sum(y, out_axes=()), table), [])().any()
    assert ng.compile(y, [])().all()


@pytest.mark.parametrize("pad", [None, 1])
def test_derivatives(pad: int | None) -> None:
    words = ng.constant(WORDS % 5, [REC, N], dtype="i32")

    def build(table: Tensor) -> Tensor:
        table = table * table
        spared = ng.constant([1, 0, 1, 1, 1], [V]) if pad is not None else 1
        # What row `pad` gives is as a constant: so it is for the differences, which see every row.
        seen = table * spared if pad is not None else table
        return ng.tanh(ng.lookuptable(seen, words, [REC, N, F], pad_idx=pad))

    with ng.default_float("f64"):
        check_slopes(build, [drawn(V, F)], [[V, F]])
    agree(build, [drawn(V, F)], [[V, F]])


def test_the_gradient_of_a_large_table_is_a_scatter() -> None:
    V, F, N = named("V F N", 50_000, 16, 32)
    table, words = ng.placeholder([V, F]), ng.placeholder([N])
    y = ng.lookuptable(table, words, [N, F])
    text = to_text(lower(ng.lift([ng.deriv(y, table, y)], [table, words]).module, resolve("x86-64-v3")))
    assert "50000x32" not in text and "32x50000" not in text


def test_one_row_and_any_batch() -> None:
    V, F, N = ng.make_axis(1, "V"), ng.make_axis(1, "F"), ng.make_axis(name="N")
    table, words = ng.placeholder([V, F]), ng.placeholder([N], dtype="i32")
    y = ng.lookuptable(table, words, [N, F])
    run = ng.compile([y, ng.deriv(y, table, y)], [table, words])
    for n in (3, 1):
        found, slope = run(2, np.zeros(n))
        assert found.shape == (n, 1) and (found == 2).all() and slope == 2 * n


def test_what_does_not_fit_is_refused() -> None:
    table, words = ng.placeholder([V, F]), ng.placeholder([N])
    with pytest.raises(ng.IncompatibleAxesError, match=r"looking up V gives \(N, F\), not \(F, N\)"):
        ng.lookuptable(table, words, [F, N])
    with pytest.raises(ng.IncompatibleAxesError, match="a lookup table must have two axes"):
        ng.lookuptable(ng.placeholder([V, F, REC]), words, [N, F])
    with pytest.raises(ng.UserError, match="there is no row 5 along V"):
        ng.lookuptable(table, words, [N, F], pad_idx=5)
    y = ng.lookuptable(table, words, [N, F])
    with pytest.raises(ng.UserError, match="is not a result of ng.lookuptable"):
        ng.lookuptable_update(y, table, words, y + 1)
    with pytest.raises(ng.IncompatibleAxesError, match="the indices"):
        ng.lookuptable_update(y, table, ng.placeholder([REC]), y)
