# SPDX-License-Identifier: Apache-2.0
"""Beam search: one beam is the greedy choice, and enough beams find what an exhaustive search finds."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from ngmlir.frontends import fluid
from ngmlir.support.diagnostics import Limit, UserError

pytestmark = pytest.mark.usefixtures("programs")

layers: Any = fluid.layers
PLACES = {"numpy": fluid.NumpyPlace(), "cpu": fluid.CPUPlace(), "cuda-sim": fluid.Place("cuda-sim")}
Array = np.ndarray[Any, Any]
WORDS, END = 4, 3


def ragged(rows: Array, *lengths: list[int]) -> Any:
    return fluid.create_lod_tensor(rows, list(lengths), fluid.CPUPlace())


def numbers(values: Any) -> Array:
    return np.array(values, np.float32)


def at(position: int) -> Any:
    return layers.fill_constant([1], "int64", position)


def search(
    place: Any, table: Array, begins: list[int], beam: int, steps: int, in_loop: bool = True
) -> list[list[tuple[list[int], list[float]]]]:
    """Of each source its hypotheses: ids and scores. `table` holds the log probability of each word after each other. The steps are
    a loop, or one behind the other."""
    odds = layers.data("odds", list(table.shape), append_batch_size=False)
    ids = layers.data("ids", [1], dtype="int64", lod_level=2)
    scores = layers.data("scores", [1], lod_level=2)
    all_ids, all_scores = layers.array_write(ids, at(0)), layers.array_write(scores, at(0))

    def chosen(ids: Any, scores: Any) -> Any:
        after = layers.elementwise_add(layers.gather(odds, ids), scores, axis=0)
        best, words = layers.topk(after, k=WORDS)
        return layers.beam_search(ids, scores, words, best, beam_size=beam, end_id=END)

    if in_loop:
        step, most = at(0), at(steps)
        more = layers.less_than(step, most)
        with layers.While(more).block():
            made = chosen(layers.array_read(all_ids, step), layers.array_read(all_scores, step))
            layers.increment(step)
            for value, array in zip(made, (all_ids, all_scores), strict=True):
                layers.array_write(value, step, array=array)
            goes_on = layers.logical_not(layers.is_empty(made[0]))
            layers.assign(layers.logical_and(layers.less_than(step, most), goes_on), more)
    else:
        for step in range(steps):
            ids, scores = chosen(ids, scores)
            layers.array_write(ids, at(step + 1), array=all_ids)
            layers.array_write(scores, at(step + 1), array=all_scores)
    found = layers.beam_search_decode(all_ids, all_scores, beam_size=beam, end_id=END)
    count = len(begins)
    feed = {
        "odds": table.astype(np.float32),
        "ids": ragged(np.array(begins, np.int64).reshape(-1, 1), [1] * count, [1] * count),
        "scores": ragged(np.zeros((count, 1), np.float32), [1] * count, [1] * count),
    }
    words, values = fluid.Executor(place).run(feed=feed, fetch_list=list(found), return_numpy=False)
    sources, lengths = words.recursive_sequence_lengths()
    assert values.recursive_sequence_lengths() == [sources, lengths]
    cuts = np.cumsum(lengths)[:-1]
    pairs = [
        (a.tolist(), b.tolist())
        for a, b in zip(np.split(np.array(words), cuts), np.split(np.array(values), cuts), strict=True)
    ]
    ends = np.cumsum([0, *sources])
    return [pairs[a:b] for a, b in pairwise(ends)]


def drawn(seed: int) -> Array:
    odds = np.random.default_rng(seed).dirichlet(np.ones(WORDS), WORDS)
    return np.log(odds).astype(np.float32)


def exhaustive(table: Array, begin: int, steps: int) -> list[tuple[float, list[int]]]:
    """All hypotheses, the best first."""
    found: dict[tuple[int, ...], float] = {}
    for words in product(range(WORDS), repeat=steps):
        path, score = [begin], 0.0
        for word in words:
            if path[-1] == END:
                break
            score += float(table[path[-1], word])
            path.append(word)
        found[tuple(path)] = score
    return sorted(((score, list(path)) for path, score in found.items()), reverse=True)


@pytest.mark.parametrize(("place", "steps"), [("numpy", 2), ("cpu", 1), ("cpu", 3), ("cuda-sim", 2)])
def test_enough_beams_find_what_an_exhaustive_search_finds(place: str, steps: int) -> None:
    table, beam = drawn(steps), WORDS**steps
    for source, begin in zip(search(PLACES[place], table, [0, 2], beam, steps), [0, 2], strict=True):
        wanted = exhaustive(table, begin, steps)
        assert sorted(path for path, _ in source) == sorted(path for _, path in wanted)
        scored = {tuple(path): score for score, path in wanted}
        np.testing.assert_allclose(
            [s[-1] for _, s in source], [scored[tuple(p)] for p, _ in source], rtol=1e-5
        )
        np.testing.assert_allclose([scores[-1] for _, scores in source], [s for s, _ in wanted], rtol=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_one_beam_is_the_greedy_choice(seed: int) -> None:
    table, begins, steps = drawn(seed), [0, 1, 2], 4
    for (only,), begin in zip(search(fluid.CPUPlace(), table, begins, 1, steps), begins, strict=True):
        path, score = [begin], [0.0]
        while len(path) <= steps and path[-1] != END:
            score.append(score[-1] + float(table[path[-1]].max()))
            path.append(int(table[path[-1]].argmax()))
        assert only[0] == path
        np.testing.assert_allclose(only[1], score, rtol=1e-5)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("begins", [[0, END, 1], [END]])
def test_a_loop_finds_what_steps_one_behind_the_other_find(place: str, begins: list[int]) -> None:
    """Sources that end before others, and that have ended when the search begins."""
    steps = 2 if place == "cuda-sim" else 3
    found: list[Any] = []
    for in_loop in (False, True):
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
            found.append(search(PLACES[place], drawn(7), begins, 3, steps, in_loop))
    assert found[0] == found[1]


@pytest.mark.parametrize("seed", range(3))
def test_more_beams_are_no_worse(seed: int) -> None:
    best: list[float] = []
    for beam in (1, 2, 4):
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
            ((first, *_),) = search(fluid.CPUPlace(), drawn(seed), [0], beam, 3)
        best.append(first[1][-1])
    assert best[0] <= best[1] + 1e-5 and best[1] <= best[2] + 1e-5


def test_a_step_by_itself() -> None:
    """Two sources: one of two prefixes, of which one has ended; one whose only prefix has ended, which is dropped."""
    fed = {
        "pre_ids": ragged(np.array([[1], [END], [END]], np.int64), [1, 1], [2, 1]),
        "pre_scores": ragged(numbers([[-1], [-2], [-3]]), [1, 1], [2, 1]),
        "ids": ragged(np.array([[0, 1], [0, 1], [0, 1]], np.int64), [1, 1], [2, 1]),
        "scores": ragged(numbers([[-1.5, -4], [0, 0], [0, 0]]), [1, 1], [2, 1]),
    }  # fmt: skip
    given = {
        n: layers.data(n, [t.shape()[1]], dtype="int64" if "ids" in n else "float32", lod_level=2)
        for n, t in fed.items()
    }
    found = layers.beam_search(**given, beam_size=2, end_id=END)
    ids, scores = fluid.Executor().run(feed=fed, fetch_list=list(found), return_numpy=False)
    assert np.array(ids).ravel().tolist() == [0, END]
    np.testing.assert_allclose(np.array(scores).ravel(), [-1.5, -2])
    assert ids.recursive_sequence_lengths() == [[2, 1], [1, 1, 0]]


def test_what_is_not_of_sources_is_refused() -> None:
    flat = [
        layers.data(n, [2], dtype=d)
        for n, d in (("a", "int64"), ("b", "float32"), ("c", "int64"), ("d", "float32"))
    ]
    with pytest.raises(UserError, match="not ragged"):
        layers.beam_search(*flat, beam_size=2, end_id=0)


def doubled(place: Any, steps: int, wider: int) -> tuple[Any, Any]:
    """A loop that writes its ragged rows again, each `wider` times, to an array: the element of its last step."""
    x = layers.data("x", [2], lod_level=1)
    step, most = at(0), at(steps)
    array, more = layers.array_write(x, step), layers.less_than(step, most)
    with layers.While(more).block():
        now = layers.array_read(array, step)
        times = layers.scale(now, 2.0)
        if wider > 1:
            block = fluid.default_main_program().current_block()
            parts, times = [times] * wider, block.create_var(name="joined", dtype="float32")
            block.append_op("sequence_concat", {"X": parts}, {"Out": [times]}, {"axis": 0, "level": 0})
        layers.increment(step)
        layers.array_write(times, step, array=array)
        layers.less_than(step, most, cond=more)
    last = layers.array_read(array, at(steps))
    feed = {"x": ragged(np.arange(10, dtype=np.float32).reshape(5, 2), [3, 0, 2])}
    rows, sums = fluid.Executor(place).run(
        feed=feed, fetch_list=[last, layers.sequence_pool(last, "sum")], return_numpy=False
    )
    return rows, np.array(sums)


@pytest.mark.parametrize("place", PLACES)
def test_arrays_of_loops_hold_ragged_elements(place: str) -> None:
    rows, sums = doubled(PLACES[place], 3, 1)
    assert rows.recursive_sequence_lengths() == [[3, 0, 2]]
    assert np.array_equal(np.array(rows), 8 * np.arange(10).reshape(5, 2))
    assert np.array_equal(sums, [[48, 72], [0, 0], [112, 128]])


def test_rows_that_become_more_and_more_are_refused() -> None:
    with pytest.raises(Limit, match="rows that this loop writes to .* become more and more"):
        doubled(fluid.NumpyPlace(), 3, 2)


def test_an_array_without_offsets_is_not_read_after_a_loop_wrote_ragged_elements() -> None:
    x, y = layers.data("x", [1], lod_level=1), layers.data("y", [1])
    step, most = at(0), at(2)
    array, more = layers.array_write(y, step), layers.less_than(step, most)
    with layers.While(more).block():
        layers.increment(step)
        layers.array_write(x, step, array=array)
        layers.less_than(step, most, cond=more)
    last = layers.array_read(array, at(1))
    feed = {"x": ragged(numbers([[1], [2], [3]]), [1, 2]), "y": numbers([[1], [2]])}
    with pytest.raises(Limit, match="whose first element is not ragged"):
        fluid.Executor().run(feed=feed, fetch_list=[last])


def test_a_loop_that_changes_the_offsets_of_a_variable_is_refused() -> None:
    x = layers.scale(layers.data("x", [1], lod_level=1), 2.0)
    step, most = at(0), at(2)
    more = layers.less_than(step, most)
    with layers.While(more).block():
        layers.assign(layers.lod_reset(x, target_lod=[0, 1, 3]), x)
        layers.increment(step)
        layers.less_than(step, most, cond=more)
    with pytest.raises(Limit, match="changes the offsets of .*, which is around it"):
        fluid.Executor().run(
            feed={"x": ragged(numbers([[1], [2], [3]]), [2, 1])}, fetch_list=[layers.reduce_sum(x)]
        )


@pytest.mark.parametrize("place", ["numpy", "cpu"])
def test_gradients_of_arrays_of_ragged_elements(place: str) -> None:
    x = layers.data("x", [2], dtype="float64", lod_level=1, stop_gradient=False)
    step, most = at(0), at(2)
    array, more = layers.array_write(x, step), layers.less_than(step, most)
    with layers.While(more).block():
        now = layers.array_read(array, step)
        layers.increment(step)
        layers.array_write(layers.elementwise_mul(now, layers.sequence_softmax(now)), step, array=array)
        layers.less_than(step, most, cond=more)
    total = layers.reduce_sum(layers.sequence_pool(layers.array_read(array, at(2)), "sum"))
    slope = fluid.calc_gradient(total, x)

    def given(values: Array, fetched: Any) -> Any:
        feed = {"x": ragged(values, [3, 0, 2])}
        return fluid.Executor(PLACES[place]).run(feed=feed, fetch_list=[fetched], return_numpy=False)[0]

    values = np.random.default_rng(0).standard_normal((5, 2))
    found, wanted = given(values, slope), np.zeros((5, 2))
    for index in np.ndindex(5, 2):
        moved = np.zeros((5, 2))
        moved[index] = 1e-5
        wanted[index] = (np.array(given(values + moved, total)) - np.array(given(values - moved, total)))[
            0
        ] / 2e-5
    assert found.lod() == [[0, 3, 3, 5]]
    np.testing.assert_allclose(np.array(found), wanted, rtol=1e-6, atol=1e-8)
