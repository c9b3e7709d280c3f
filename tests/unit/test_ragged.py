# SPDX-License-Identifier: Apache-2.0
"""Ragged axes: a batch of sequences gives what each sequence gives alone, on each target; and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ngmlir.numpy import (  # isort: skip
    segment_cumsum,
    segment_expand,
    segment_last,
    segment_max,
    segment_mean,
    segment_softmax,
    segment_sum,
)

import ngmlir as ng
from ngmlir import compiler

TARGETS = ["numpy", "cpu", "cuda-sim"]
N, C = ng.make_axis(name="N"), ng.make_axis(3, name="C")
T = ng.ragged_axis(N, "T")
#: What is computed of sequences x [T, C], and of a value [C] for each: it gives a row, or a row for each row.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sum": lambda x, v, axis: ng.sum(x, axis),
    "mean of all": lambda x, v, axis: ng.mean(x, [axis, C]),
    "max": lambda x, v, axis: ng.max(x, axis),
    "any": lambda x, v, axis: ng.any(ng.greater(x, 1.5), axis),
    "all": lambda x, v, axis: ng.all(ng.greater(x, -1.5), axis),
    "softmax": lambda x, v, axis: ng.softmax(x, axis),
    "log_softmax": lambda x, v, axis: ng.log_softmax(x, axis),
    "cumulative": lambda x, v, axis: ng.cumulative_sum(x, axis, reverse=True),
    "centered": lambda x, v, axis: x - ng.mean(x, axis),
    "a value each": lambda x, v, axis: ng.tanh(v * x) + v,
    "gradient": lambda x, v, axis: ng.deriv(ng.sum(ng.square(x - v) * ng.softmax(x, axis), out_axes=()), x),
    "gradient of the value": lambda x, v, axis: ng.deriv(ng.sum(ng.square(x * v), out_axes=()), v),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("lengths", [[3, 0, 9, 1, 4], [2], [], [0], [5, 8, 7, 6, 2]], ids=str)
def test_a_batch_gives_what_each_sequence_gives_alone(target: str, lengths: list[int]) -> None:
    rng = np.random.default_rng(len(lengths))
    batch = [rng.normal(size=(n, 3)) for n in lengths]
    values = rng.normal(size=(len(lengths), 3))
    x, v = ng.ragged([T, C], name="x"), ng.placeholder([N, C], name="v")
    made = ng.compile([f(x, v, T) for f in FUNCTIONS.values()], [x, v], target=target)(batch, values)
    for i, (part, value) in enumerate(zip(batch, values, strict=True)):
        if not len(part):
            continue  # of one alone there is no mean
        R = ng.make_axis(len(part), "R")
        y, u = ng.placeholder([R, C]), ng.placeholder([C])
        alone = ng.compile([f(y, u, R) for f in FUNCTIONS.values()], [y, u], target="numpy")(part, value)
        for name, whole, wanted in zip(FUNCTIONS, made, alone, strict=True):
            np.testing.assert_allclose(whole[i], wanted, rtol=1e-5, atol=1e-6, err_msg=name)
    for name, whole in zip(FUNCTIONS, made, strict=True):
        assert len(whole) == len(lengths), name


def test_axes_and_types_say_it() -> None:
    x, n = ng.ragged([T, C]), ng.placeholder([N, C])
    assert x.axes.names == ("N$T", "C") and "#ng.axes<N$T, C>" in str(x.type)
    assert ng.sum(x, T).axes.names == ("N", "C") == ng.sum(x, out_axes=[N, C]).axes.names
    assert (x + n).axes.names == ("N$T", "C") == (n + x).axes.names
    assert ng.sum(x, out_axes=()).axes.names == ()
    assert ng.segment_first(x, axis=T).axes.names == ("N", "C")
    assert ng.dot(x, ng.placeholder([C, ng.make_axis(5, "K")])).axes.names == ("N$T", "K")


def test_several_levels() -> None:
    S = ng.ragged_axis(N, "S")
    W = ng.ragged_axis(S, "W")
    x, bias = ng.ragged([W], name="x"), ng.placeholder([N], name="bias")
    run = ng.compile([ng.sum(x, W), ng.sum(x, out_axes=[N]), x + bias, ng.softmax(x, W)], [x, bias])
    given = [[[1, 2], [3]], [], [[4, 5, 6], [], [7]]]
    words, sentences, shifted, shares = run(given, [100, 200, 300])
    assert [w.tolist() for w in words] == [[3, 3], [], [15, 0, 7]]
    assert sentences.tolist() == [6, 0, 22]
    assert [[w.tolist() for w in s] for s in shifted] == [
        [[101, 102], [103]],
        [],
        [[304, 305, 306], [], [307]],
    ]
    assert [round(float(w.sum()), 5) for s in shares for w in s] == [1, 1, 1, 0, 1]
    flat = (np.arange(1.0, 8), [0, 2, 2, 5], [0, 2, 3, 6, 6, 7])
    assert run(flat, [0, 0, 0])[1].tolist() == [6, 0, 22]


def test_other_lengths_are_other_calls() -> None:
    x = ng.ragged([T, C])
    run = ng.compile(ng.sum(x, T), [x])
    for lengths in ([1, 2], [3], [2, 0, 4], [1, 2]):
        assert run([np.ones((n, 3)) for n in lengths])[:, 0].tolist() == lengths
    assert run(feed_dict={x: [np.ones((2, 3))]}).tolist() == [[2, 2, 2]]


def test_one_sequence_and_one_row_share_code(
    open_compilations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    x, v = ng.ragged([T, C]), ng.placeholder([N, C])
    run, reference = (
        ng.compile([f(x, v, T) for f in FUNCTIONS.values()], [x, v], target=each) for each in ("cpu", "numpy")
    )
    alone: list[str] = []
    every = compiler.assemble
    monkeypatch.setattr(compiler, "assemble", lambda *a: alone.append("alone") or every(*a))
    draw = np.random.default_rng(4)
    for lengths in ([3, 4], [2, 5, 1], [1], [5], [1, 1], [1, 0, 1], [7, 2]):
        given = [draw.normal(size=(n, 3)) for n in lengths], draw.normal(size=(len(lengths), 3))
        for found, wanted in zip(run(*given), reference(*given), strict=True):
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert (alone, open_compilations) == (["alone"], ["all"])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (3.0, "no list with an entry for each position of N"),
        ([1.0, 2.0], "have the shapes"),
        ([np.ones((2, 3)), np.ones((2, 2))], r"have the shapes \[2, 3\], \[2, 2\]"),
        ((np.ones((4, 3)), [0, 3]), r"x end with 3, and there are 4 rows along N\$T"),
        ((np.ones((4, 3)), [1, 4]), "x begin with 1, not with 0"),
        ((np.ones((4, 3)), [0, 3, 2, 4]), "x fall from 3 to 2 at position 2"),
        ((np.ones((4, 3)),), "not of rows and 1 lines of offsets"),
    ],
)
def test_what_is_no_batch_of_sequences_is_refused_and_changes_nothing(value: Any, message: str) -> None:
    x = ng.ragged([T, C], name="x")
    calls = ng.persistent_tensor([], initial_value=0.0)
    run = ng.compile(ng.sequential([ng.assign(calls, calls + 1), ng.sum(x, T), calls]), [x])
    assert float(run([np.ones((2, 3))])) == 1
    with pytest.raises(ng.UserError, match=message):
        run(value)
    assert float(run([np.ones((2, 3))])) == 2


def test_what_a_graph_cannot_say() -> None:
    x = ng.ragged([T, C])
    with pytest.raises(ng.UserError, match="must be ragged"):
        ng.ragged([N, C])
    with pytest.raises(ng.UserError, match="axis C is not ragged, so offsets are needed"):
        ng.segment_sum(x, axis=C)
    with pytest.raises(ng.UserError, match="goes along no other axis"):
        ng.softmax(x, [T, C])


def test_levels_that_disagree() -> None:
    S = ng.ragged_axis(N, "S")
    W = ng.ragged_axis(S, "W")
    x = ng.ragged([W], name="x")
    run = ng.compile(ng.sum(x, W), [x])
    with pytest.raises(ng.UserError, match=r"x end with 3, and there are 2 rows along N\$S"):
        run((np.ones(3), [0, 3], [0, 1, 3]))
    y = ng.ragged([W], name="y")
    with pytest.raises(ng.UserError, match=r"differ along N\$S: lengths \[2\] for x, \[1, 1\] for y"):
        ng.compile(ng.sum(x * y, W), [x, y])([[[1], [2]]], [[[1]], [[2]]])


def test_offsets_that_are_none_are_refused_before_anything_changes() -> None:
    rows = ng.make_axis(6, "T")
    x, o = ng.placeholder([rows]), ng.placeholder([ng.make_axis(4, "O")], dtype="int32", name="o")
    calls = ng.persistent_tensor([], initial_value=0.0)
    run = ng.compile(ng.sequential([ng.assign(calls, calls + 1), ng.segment_sum(x, o, rows), calls]), [x, o])
    fed = np.zeros(6, np.float32)
    for offsets, message in [
        ([1, 2, 3, 6], "o begin with 1"),
        ([0, 3, 2, 6], "o fall from 3 to 2 at position 2"),
        ([0, 2, 3, 5], "o end with 5, and there are 6 rows along T"),
    ]:
        with pytest.raises(ng.UserError, match=message) as error:
            run(fed, np.array(offsets, np.int32))
        assert "test_ragged.py" in str(error.value) and "np.cumsum([0, *lengths])" in str(error.value)
        with pytest.raises(ng.UserError, match=message[2:]):
            ng.segment_sum(x, offsets, rows)
    assert float(run(fed, np.array([0, 2, 3, 6], np.int32))) == 1


def test_arrays_with_positions() -> None:
    a, offsets = np.arange(12.0).reshape(6, 2), [0, 2, 2, 6]
    x = ng.numpy.placeholder((6, 2))
    made = [f(x, offsets) for f in (segment_sum, segment_max, segment_mean, segment_last, segment_softmax)]
    made += [segment_cumsum(x, offsets), segment_expand(segment_sum(x, offsets), offsets, 6)]
    made.append(segment_sum(x, [0, 1, 2], axis=1))
    total, most, mean, last, share, running, spread, across = ng.compile(made, [x])(a)
    assert total.tolist() == [[2, 4], [0, 0], [28, 32]] and last.tolist() == [[2, 3], [0, 0], [10, 11]]
    assert most[0].tolist() == [2, 3] and np.isneginf(most[1]).all() and mean[2].tolist() == [7, 8]
    np.testing.assert_allclose([share[:2].sum(), share[2:].sum()], 2, rtol=1e-6)
    assert running[:, 0].tolist() == [0, 2, 4, 10, 18, 28] and spread[:, 0].tolist() == [2, 2, 28, 28, 28, 28]
    assert across.tolist() == a.tolist()
    assert segment_sum(np.array([1, 2, 3]), [0, 3]).dtype == np.int64
