# SPDX-License-Identifier: Apache-2.0
"""`ng.cache`: rows that are appended in place."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir.op_graph.lift import lift

TARGETS = ("numpy", "cpu")


def axes(room: int = 8) -> tuple[Any, Any, Any]:
    return ng.make_axis(name="S"), ng.make_axis(room, "T"), ng.make_axis(3, "D")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["f32", "f16", "i32"])
def test_rows_are_appended(target: str, dtype: str) -> None:
    s, t, d = axes()
    rows = ng.placeholder([s, d], dtype=dtype)
    held = ng.cache([t, d], t, dtype)
    run = ng.transformers.make_transformer(target).computation([held.append(rows), held.length], rows)
    wanted, count = np.zeros((8, 3)), 0
    for n in (2, 1, 3, 2):
        new = np.arange(3 * n).reshape(n, 3) + n
        wanted[count : count + n] = new
        count += n
        contents, length = run(new)
        assert np.array_equal(contents, wanted) and length == count


@pytest.mark.parametrize("target", TARGETS)
def test_who_reads_one_state_has_both_changed(target: str) -> None:
    s, t, d = axes()
    rows = ng.placeholder([s, d])
    held = ng.cache([t, d], "T")
    contents = held.append(rows)
    transformer = ng.transformers.make_transformer(target)
    only_contents = transformer.computation(ng.sum(contents, out_axes=()), rows)
    only_length = transformer.computation(held.length * 1, rows)
    assert only_contents(np.ones((2, 3))) == 6
    assert only_length(np.ones((1, 3))) == 3
    assert only_contents(np.ones((1, 3))) == 12


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_seen(target: str) -> None:
    s, t, d = axes(4)
    rows = ng.placeholder([s, d])
    held = ng.cache([t, d], t)
    at = ng.add(ng.iota([s], s), ng.value_of(held.length), dtype="i32")
    contents = held.append(rows)
    run = ng.transformers.make_transformer(target).computation([held.seen(at), held.seen(), contents], rows)
    assert run(np.ones((2, 3)))[0].T.tolist() == [[True, False, False, False], [True, True, False, False]]
    near, every, _ = run(np.ones((1, 3)))
    assert near.T.tolist() == [[True, True, True, False]] and every.tolist() == [True, True, True, False]
    # More than there is room for: nothing is seen, and the rows that there were stay.
    near, every, contents = run(np.full((2, 3), 7.0))
    assert not near.any() and not every.any()
    assert contents[:3].tolist() == [[1.0] * 3] * 3


@pytest.mark.parametrize("target", TARGETS)
def test_clearing_and_order(target: str) -> None:
    s, t, d = axes()
    rows = ng.placeholder([s, d])
    held = ng.cache([t, d], t)
    with ng.Op.saved_user_deps():
        clear = held.clear()
        twice = [held.append(rows), held.append(rows * 2)]
        both = ng.sequential([ng.value_of(twice[1]), held.contents])
    transformer = ng.transformers.make_transformer(target)
    run, empty = transformer.computation([both, held.length], rows), transformer.computation(clear)
    contents, length = run(np.ones((2, 3)))
    assert length == 4 and contents[:, 0].tolist() == [1, 1, 2, 2, 0, 0, 0, 0]
    empty()
    contents, length = run(np.full((1, 3), 5.0))
    assert length == 2 and contents[:2, 0].tolist() == [5, 10]


def test_one_program_serves_all_numbers_of_rows() -> None:
    s, t, d = axes(512)
    rows = ng.placeholder([s, d])
    held = ng.cache([t, d], t)
    run = ng.transformers.make_transformer("cpu").computation([ng.sum(held.append(rows)), held.length], rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(1, 24):
            run(np.ones((n, 3)))
    assert run(np.ones((1, 3)))[1] == 1 + sum(range(1, 24))


def test_appending_is_one_write_in_place() -> None:
    s, t, d = axes()
    s.length = 2
    rows = ng.placeholder([s, d])
    held = ng.cache([t, d], t)
    made = lift([held.append(rows)], [rows])
    assert str(made).count("ng.scatter") == 1 and len(made.tied) == 2


def test_state_has_names() -> None:
    s, t, d = axes()
    rows = ng.placeholder([s, d])
    held = ng.cache([t, d], t, name="keys")
    run = ng.transformers.make_transformer("numpy").computation(held.append(rows), rows)
    run(np.ones((2, 3)))
    assert sorted(run.state()) == ["keys/contents", "keys/length"]
    saved = run.state()
    run(np.ones((3, 3)))
    run.load_state(saved)
    assert run(np.ones((1, 3)))[:, 0].tolist() == [1, 1, 1, 0, 0, 0, 0, 0]


def test_other_axes_are_refused() -> None:
    s, t, d = axes()
    held = ng.cache([t, d], t)
    other = ng.make_axis(2, "E")
    for wrong in ([d], [s, other], [s, d, other], [s]):
        with pytest.raises(ng.IncompatibleAxesError, match="rows of a cache with"):
            held.append(ng.placeholder(wrong))
    with pytest.raises(ng.UnmatchedAxesError, match="U is not one of the axes"):
        ng.cache([t, d], "U")
