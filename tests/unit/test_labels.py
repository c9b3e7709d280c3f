# SPDX-License-Identifier: Apache-2.0
"""What a cross entropy is given: labels, predictions that are no distributions, labels that are no classes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import ngmlir as ng

N, Y = ng.make_axis(4, "N"), ng.make_axis(3, "Y")
TARGETS = pytest.mark.parametrize("target", ["numpy", "cpu", "cuda-sim"])


def prediction() -> tuple[Any, Any]:
    logits = ng.placeholder([Y, N], name="logits")
    return logits, ng.softmax(logits)


@pytest.mark.parametrize("dtype", ["i32", "i64", "ui8", "f32"])
def test_labels_are_no_target(dtype: str) -> None:
    _, y = prediction()
    labels = ng.placeholder([N], dtype=dtype, name="labels")
    for given in (y, y * 1):  # a softmax, and what is none to be seen
        with pytest.raises(
            ng.UnmatchedAxesError, match=r"distribution along Y[\s\S]*hint: ng.one_hot\(labels"
        ):
            ng.cross_entropy_multi(given, labels)


def test_targets_that_are_distributions() -> None:
    _, y = prediction()
    for target in (
        ng.one_hot(ng.placeholder([N], dtype="i32"), axis=Y),
        ng.placeholder([N, Y]),
        ng.placeholder([Y], dtype="i32"),
        ng.constant([0.5, 0.25, 0.25], [Y]),
        1 / 3,
    ):
        assert ng.cross_entropy_multi(y, target).axes.names == ("N",)


@TARGETS
@pytest.mark.parametrize("through", ["plain", "cast", "gradient"])
def test_labels_that_are_no_classes_are_refused_when_they_are_fed(target: str, through: str) -> None:
    logits, y = prediction()
    labels = ng.placeholder([N], dtype="f32" if through == "cast" else "i32", name="labels")
    loss = ng.cross_entropy_multi(y, ng.one_hot(labels, axis=Y), usebits=True)
    result = ng.deriv(ng.sum(loss, out_axes=()), logits) if through == "gradient" else loss
    run = ng.compile([loss, result], [logits, labels], target=target)
    values = np.zeros((3, 4))
    assert run(values, [0, 1, 2, 2])[0] == pytest.approx(np.full(4, np.log2(3)), rel=1e-5)
    with pytest.raises(ng.UserError, match=r"labels holds the label 3.*, but Y has the classes 0 to 2"):
        run(values, [0, 1, 2, 3])
    # Negative labels mark what does not count.
    assert run(values, [0, -1, 2, -1])[0] == pytest.approx([np.log2(3), 0, np.log2(3), 0], rel=1e-5)


def test_labels_known_now_are_checked_now() -> None:
    _, y = prediction()
    with pytest.raises(ng.UserError, match="holds the label 7"):
        ng.cross_entropy_multi(y, ng.one_hot(ng.constant([0, 1, 7, 2], [N], dtype="i32"), axis=Y))


def test_a_length_of_classes_that_comes_later() -> None:
    later = ng.make_axis(name="classes")
    logits, labels = ng.placeholder([later, N]), ng.placeholder([N], dtype="i32", name="labels")
    loss = ng.cross_entropy_multi(ng.softmax(logits), ng.one_hot(labels, axis=later))
    run = ng.compile(loss, [logits, labels])
    assert run(np.zeros((5, 4)), [0, 1, 4, 4]).shape == (4,)
    with pytest.raises(ng.UserError, match="classes 0 to 1"):
        run(np.zeros((2, 4)), [0, 1, 4, 4])


@TARGETS
@pytest.mark.parametrize("dtype", ["i8", "i32", "i64", "f32"])
def test_a_one_hot_without_a_cross_entropy_takes_any_index(dtype: str, target: str) -> None:
    labels = ng.placeholder([N], dtype=dtype)
    run = ng.compile(ng.one_hot(labels, axis=Y), [labels], target=target)
    for given in ([0, 3, -1, 2], [127, 1, -128, -3]):
        wanted = np.array(given) == np.arange(3)[:, None]
        assert np.array_equal(run(given), wanted.astype(np.float32))


def test_logits_without_a_softmax_are_warned_of() -> None:
    F = ng.make_axis(5, "F")
    x, w, b = ng.placeholder([F, N]), ng.variable([Y, F], initial_value=1), ng.variable([Y], initial_value=0)
    target = ng.one_hot(ng.placeholder([N], dtype="i32"), axis=Y)
    logits = ng.dot(w, x) + b
    for raw in (ng.dot(w, x), logits, ng.tanh(logits), -logits, ng.axes_with_order(logits, [N, Y])):
        with pytest.warns(UserWarning, match="is not a distribution.*write ng.softmax") as found:
            ng.cross_entropy_multi(raw, target)
        assert found[0].filename == __file__
    for binary in (ng.cross_entropy_binary, ng.cross_entropy_binary_inner):
        with pytest.warns(UserWarning, match="write ng.sigmoid"):
            binary(logits, ng.placeholder([Y, N]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ng.cross_entropy_binary(ng.sigmoid(logits), ng.placeholder([Y, N]))
        ng.cross_entropy_binary(ng.softmax(logits), ng.placeholder([Y, N]))
        for y in (
            ng.softmax(logits),
            0.5 * ng.softmax(logits) + 0.5 * ng.softmax(-logits),
            ng.sigmoid(logits),
            ng.exp(logits) / ng.sum(ng.exp(logits), out_axes=[N]),
            ng.placeholder([Y, N]),
        ):
            ng.cross_entropy_multi(y, target)
