# SPDX-License-Identifier: Apache-2.0
"""The CTC cost against the sum over all alignments, and its derivatives."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from network_helpers import TARGETS, Array, agree, check_directions, named, on

import ngmlir as ng
from ngmlir.op_graph.tensor import Tensor


def collapsed(path: Sequence[int]) -> tuple[int, ...]:
    """Repetitions once, blanks not at all."""
    return tuple(c for c, _ in itertools.groupby(path) if c)


def by_alignments(activations: Array, labels: Sequence[int]) -> float:
    """Of one sample (steps, classes): the sum over every path."""
    powers = np.exp(activations.astype(np.float64))
    rows = powers / powers.sum(1, keepdims=True)
    total = sum(
        np.prod([rows[t, c] for t, c in enumerate(path)])
        for path in itertools.product(range(activations.shape[1]), repeat=len(activations))
        if collapsed(path) == tuple(labels)
    )
    return -np.log(total) if total else np.inf


#: Steps, classes; for each sample its labels and its steps.
CASES = [
    (5, 4, [((1, 2), 5), ((3, 3), 5), ((2,), 4)]),
    (4, 3, [((1, 1, 2), 4), ((), 4), ((2, 1, 2, 1), 4), ((1, 1, 1), 4)]),  # the last one does not fit
    (3, 2, [((1,), 1), ((1, 1), 3), ((), 2), ((1, 1), 2)]),
    (1, 3, [((2,), 1)]),
    (1, 1, [((), 1)]),
    (6, 3, [((1, 2, 1), 5), ((2, 2), 3), ((), 0), ((1,), 0)]),
]


def fed(
    steps: int, classes: int, samples: Sequence[tuple[Sequence[int], int]]
) -> tuple[list[Array], list[list[ng.Axis]]]:
    flat = [label for labels, _ in samples for label in labels]
    REC, N, V, L = named("REC N V L", steps, len(samples), classes, len(flat))
    activations = np.random.RandomState(0).uniform(-2, 2, (steps, len(samples), classes))
    percent = np.array([100 * own / steps for _, own in samples], np.float32)
    values = [
        activations,
        np.array(flat, np.float32),
        percent,
        np.array([len(labels) for labels, _ in samples]),
    ]
    return values, [[REC, N, V], [L], [N], [N]]


@pytest.mark.parametrize(
    ("target", "case"), [(t, c) for t in TARGETS for c in (CASES if t != "cuda-sim" else CASES[1:3])], ids=str
)
def test_the_cost_is_that_of_all_alignments(
    case: tuple[int, int, list[tuple[tuple[int, ...], int]]], target: str
) -> None:
    values, axes = fed(*case)
    wanted = [by_alignments(values[0][:own, n], labels) for n, (labels, own) in enumerate(case[2])]

    def build(a: Tensor, labels: Tensor, steps: Tensor, counts: Tensor) -> list[Tensor]:
        cost = ng.ctc(a, labels, steps, counts)
        return [cost, ng.deriv(ng.sum(cost, out_axes=()), a)]

    found, slope = on(target, build, values, axes)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    assert np.isfinite(slope).all()
    for n, (_, own) in enumerate(case[2]):
        assert not slope[own:, n].any()  # steps that are not a sample's
    np.testing.assert_allclose(slope.sum(2), 0, atol=1e-5)  # a softmax is of differences
    assert not slope[:, ~np.isfinite(wanted)].any()


@pytest.mark.parametrize("order", ["N REC V", "V REC N", "REC V N"])
def test_any_order_of_axes_and_lengths_in_steps(order: str) -> None:
    values, axes = fed(*CASES[0])
    a = ng.placeholder([next(x for x in axes[0] if x.name == n) for n in order.split()])
    labels, steps, counts = (ng.placeholder(each) for each in axes[1:])
    (wanted,) = on("numpy", lambda *x: [ng.ctc(*x)], values, axes)
    cost = ng.ctc(a, labels, steps, counts, axes="N", percent=False, longest=2)
    moved = values[0].transpose([("REC", "N", "V").index(n) for n in order.split()])
    found = ng.compile(cost, [a, labels, steps, counts])(moved, values[1], [5, 5, 4], values[3])
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize("target", ["numpy", "cpu"])
@pytest.mark.parametrize(
    "case", [CASES[0], (5, 3, [((1, 2), 5), ((), 4), ((2,), 3)])], ids=["first", "second"]
)
def test_derivatives(case: tuple[int, int, list[tuple[tuple[int, ...], int]]], target: str) -> None:
    values, axes = fed(*case)
    flat, steps, counts = (ng.constant(v, a) for v, a in zip(values[1:], axes[1:], strict=True))
    check_directions(lambda a: ng.ctc(a, flat, steps, counts), values[:1], axes[:1], target)


def test_derivatives_on_gpus() -> None:
    values, axes = fed(2, 3, [((1,), 2), ((2,), 1)])
    flat, steps, counts = (ng.constant(v, a) for v, a in zip(values[1:], axes[1:], strict=True))
    agree(lambda a: ng.ctc(a, flat, steps, counts), values[:1], axes[:1], "cuda-sim")


def test_lengths_that_come_later() -> None:
    """Of the batch, the steps and the labels."""
    REC, N, L, V = (
        ng.make_axis(name="REC"),
        ng.make_axis(name="N"),
        ng.make_axis(name="L"),
        ng.make_axis(4, "V"),
    )
    inputs = [ng.placeholder(a) for a in ([REC, N, V], [L], [N], [N])]
    cost = ng.ctc(*inputs)
    run = ng.compile([cost, ng.deriv(cost, inputs[0])], inputs)
    for case in (CASES[0], (3, 4, [((1, 3), 3)]), (4, 4, [((3, 3), 4), ((), 1)])):
        values, _ = fed(*case)
        wanted = [by_alignments(values[0][:own, n], labels) for n, (labels, own) in enumerate(case[2])]
        np.testing.assert_allclose(run(*values)[0], wanted, rtol=1e-5)


def test_the_gradient_is_weighted_by_what_comes() -> None:
    values, axes = fed(*CASES[0])
    inputs = [ng.placeholder(a) for a in axes]
    cost = ng.ctc(*inputs)
    weights = ng.constant([1, 0, -2], axes[2])
    one, weighted = ng.compile(
        [ng.deriv(cost, inputs[0], error=e) for e in (ng.constant([1, 1, 1], axes[2]), weights)], inputs
    )(*values)
    np.testing.assert_allclose(weighted, one * np.array([1, 0, -2])[:, None], atol=1e-6)


@pytest.mark.parametrize("target", ["numpy", "cpu"])
def test_long_and_sharp_sequences_stay_finite(target: str) -> None:
    REC, N, V, L = named("REC N V L", 300, 2, 5, 60)
    random = np.random.RandomState(0)
    activations = random.uniform(-1, 1, (300, 2, 5)) * np.array([1, 300])[:, None]
    labels = random.randint(1, 5, 60)

    def build(a: Tensor, flat: Tensor) -> list[Tensor]:
        cost = ng.ctc(a, flat, ng.constant(100, [N]), ng.constant([40, 20], [N]))
        return [cost, ng.deriv(cost, a)]

    cost, slope = on(target, build, [activations, labels], [[REC, N, V], [L]])
    assert np.isfinite(cost).all() and (cost > 100).all()
    assert np.isfinite(slope).all() and np.abs(slope).max() <= 1 + 1e-4


def test_every_percentage_of_whole_steps_is_so_many() -> None:
    """Labels of k ones need 2k - 1 steps, so the cost says how many a sample was given."""
    for steps in (3, 7, 30, 101):
        REC, N, V, L = named("REC N V L", steps, steps, 1, 1)
        given = np.arange(1, steps + 1)
        percent = (100 * given / steps).astype(np.float32)
        uniform = ng.constant(0, [REC, N, ng.make_axis(2, "V")])
        cost = ng.ctc(uniform, ng.constant([0], [L]), ng.constant(percent, [N]), ng.constant(0, [N]))
        np.testing.assert_allclose(ng.compile(cost, [])(), given * np.log(2), rtol=1e-5)


def test_what_does_not_fit_is_refused() -> None:
    REC, N, V, L = named("REC N V L", 4, 2, 3, 5)
    a, labels, lens = ng.placeholder([REC, N, V]), ng.placeholder([L]), ng.placeholder([N])
    with pytest.raises(ng.IncompatibleAxesError, match="activations have axes REC, N and one of classes"):
        ng.ctc(ng.placeholder([N, V]), labels, lens, lens)
    with pytest.raises(ng.IncompatibleAxesError, match="labels of all samples stand along one axis"):
        ng.ctc(a, ng.placeholder([N, L]), lens, lens)
    with pytest.raises(ng.IncompatibleAxesError, match=r"label_lens has axes \(L\)"):
        ng.ctc(a, labels, lens, labels)
    with pytest.raises(ng.UserError, match="number of labels"):
        ng.ctc(a, labels, lens, lens, longest=-1)
