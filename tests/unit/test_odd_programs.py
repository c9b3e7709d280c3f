# SPDX-License-Identifier: Apache-2.0
"""Networks in networks, loops over loops and sequences without rows, beside the same written by hand in NumPy."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_fluid_dynamic_rnn import PLACES, cut, data, differences, drawn, ragged, run

import ngmlir as ng
from ngmlir.frontends import fluid
from ngmlir.support.diagnostics import UserError

pytestmark = pytest.mark.usefixtures("programs")
layers = fluid.layers
Array = np.ndarray[Any, Any]
LENGTHS = ([2, 4, 1], [1], [0, 3], [5, 0, 0, 2])


@pytest.fixture(params=["numpy", "cpu"])
def place(request: pytest.FixtureRequest) -> Any:
    return PLACES[request.param]


def last_of(sequences: Any, begin: Any) -> Any:
    """The last states of a network over sequences, which begins as `begin`."""
    rnn = layers.DynamicRNN()
    with rnn.block():
        row, state = rnn.step_input(sequences), rnn.memory(init=begin, need_reorder=True)
        made = layers.tanh(row + state)
        rnn.update_memory(state, made)
        rnn.output(made)
    return layers.sequence_pool(rnn(), "last")


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_steps_of_one_length_inside_steps_of_sequences(lengths: Sequence[int], place: Any) -> None:
    """A row of each step is three steps of two features."""
    x = data("x", 6)
    rnn = layers.DynamicRNN()
    with rnn.block():
        row, before = rnn.step_input(x), rnn.memory(shape=[2], value=0.25, dtype="float64")
        steps = layers.transpose(layers.reshape(row, [-1, 3, 2]), [1, 0, 2])
        inner = layers.StaticRNN()
        with inner.step():
            now, state = inner.step_input(steps), inner.memory(init=before)
            made = layers.tanh(now + state)
            inner.update_memory(state, made)
            inner.step_output(made)
        after = layers.reduce_sum(inner(), dim=[0])
        rnn.update_memory(before, after)
        rnn.output(after)
    out = rnn()
    rows = drawn(sum(lengths), 6)
    wanted: list[Array] = []
    for sequence in cut(rows, lengths):
        h = np.full(2, 0.25)
        for row in sequence.reshape(-1, 3, 2):
            state, total = h, np.zeros(2)
            for now in row:
                state = np.tanh(now + state)
                total = total + state
            h = total
            wanted.append(h)
    feed = {"x": ragged(rows, lengths)}
    (found,) = run(place, feed, out)
    assert found.recursive_sequence_lengths() == [list(lengths)]
    np.testing.assert_allclose(np.array(found), wanted, rtol=1e-6)
    differences(place, layers.reduce_sum(layers.square(out)), feed, "x", x)


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_sequences_inside_steps_of_one_length(lengths: Sequence[int], place: Any) -> None:
    """Each step goes over all sequences again, from what the step before left of each."""
    count = len(lengths)
    steps = layers.data("steps", [4, count, 2], dtype="float64", append_batch_size=False, stop_gradient=False)
    x = data("x", 2)
    start = layers.fill_constant([count, 2], "float64", 0.5)
    rnn = layers.StaticRNN()
    with rnn.step():
        now, before = rnn.step_input(steps), rnn.memory(init=start)
        begin = now + before
        after = last_of(x, begin) + before * 0.5
        rnn.update_memory(before, after)
        rnn.step_output(after)
    out = rnn()
    rows, given = drawn(sum(lengths), 2), drawn(4 * count, 2, seed=1).reshape(4, count, 2)
    h, wanted = np.full((count, 2), 0.5), list[Array]()
    for now in given:
        last = np.zeros((count, 2))
        for i, sequence in enumerate(cut(rows, lengths)):
            state = now[i] + h[i]
            for row in sequence:
                state = last[i] = np.tanh(row + state)
        h = last + h * 0.5
        wanted.append(h)
    feed = {"x": ragged(rows, lengths), "steps": given}
    (found,) = run(place, feed, out)
    np.testing.assert_allclose(np.array(found), wanted, rtol=1e-6)
    for name, by in (("x", x), ("steps", steps)):
        differences(place, layers.reduce_sum(layers.square(out)), feed, name, by)


@pytest.mark.parametrize(
    "outer, lengths",
    [([2, 1], [0, 0, 3]), ([0, 2, 0], [1, 0]), ([1], [0]), ([3], [0, 2, 0]), ([0, 0], []), ([1, 1], [0, 0])],
    ids=str,
)
def test_a_network_over_words_in_one_over_sentences(outer: list[int], lengths: list[int], place: Any) -> None:
    x = data("x", 2, levels=2)
    rnn = layers.DynamicRNN()
    with rnn.block():
        sentence, before = rnn.step_input(x), rnn.memory(shape=[2], value=0.5, dtype="float64")
        after = last_of(sentence, before) + before * 0.5
        rnn.update_memory(before, after)
        rnn.output(after)
    out = rnn()
    rows = drawn(sum(lengths), 2)
    wanted, parts = list[Array](), iter(cut(rows, lengths) if lengths else [])
    for sentences in outer:
        h = np.full(2, 0.5)
        for _ in range(sentences):
            state, last = h, np.zeros(2)
            for word in next(parts):
                state = last = np.tanh(word + state)
            h = last + h * 0.5
            wanted.append(h)
    feed = {"x": ragged(rows, outer, lengths)}
    (found,) = run(place, feed, out)
    assert found.recursive_sequence_lengths() == [outer]
    np.testing.assert_allclose(np.array(found), np.reshape(wanted, (-1, 2)), rtol=1e-6)
    if len(rows):
        differences(place, layers.reduce_sum(layers.square(out)), feed, "x", x)


def pooled(kind: str) -> Callable[[Any], Any]:
    return lambda x: layers.sequence_pool(x, kind)


OVER_ROWS: dict[str, Callable[[Any], Any]] = {
    **{kind: pooled(kind) for kind in ("average", "sum", "sqrt", "max", "last", "first")},
    "sum of all": lambda x: layers.reduce_sum(x, dim=[0], keep_dim=True),
}


def kept() -> dict[str, Array]:
    """All that the program keeps from run to run."""
    names = [v.name for v in fluid.default_main_program().list_vars() if v.persistable]
    held = {name: fluid.global_scope().find_var(name) for name in names if name not in ("feed", "fetch")}
    return {name: np.array(each.get_tensor()) for name, each in held.items() if each is not None}


def step_over(pool: Callable[[Any], Any], optimizer: str, place: Any) -> Callable[[list[int]], Any]:
    """A training step over sequences of these lengths."""
    x = layers.data("x", [3], lod_level=1)
    loss = layers.mean(layers.square(layers.fc(pool(x), 2)))
    {"sgd": fluid.optimizer.SGD, "adam": fluid.optimizer.Adam}[optimizer](0.1).minimize(loss)
    executor = fluid.Executor(place)
    executor.run(fluid.default_startup_program())

    def step(lengths: list[int]) -> Any:
        rows = fluid.create_lod_tensor(np.ones((sum(lengths), 3), "f"), [lengths], None)
        return executor.run(feed={"x": rows}, fetch_list=[loss])[0]

    return step


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("kind", OVER_ROWS)
def test_state_stays_finite_where_a_batch_has_no_rows(kind: str, optimizer: str, place: Any) -> None:
    step = step_over(OVER_ROWS[kind], optimizer, place)
    for lengths in ([2, 0, 3], [0, 0], [1]):
        assert np.isfinite(step(lengths)).all()
    assert all(np.isfinite(each).all() for each in kept().values())


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_what_would_keep_the_mean_of_nothing_is_refused_and_changes_nothing(
    optimizer: str, place: Any
) -> None:
    step = step_over(lambda x: layers.reduce_mean(x, dim=[0], keep_dim=True), optimizer, place)
    step([2, 0, 3])
    before = kept()
    with pytest.raises(
        UserError, match="the mean of nothing is not a number, and 'fc_0.*', which is kept"
    ) as caught:
        step([0, 0])
    assert caught.value.diagnostics[0].location.file == __file__
    assert all(np.array_equal(each, before[name]) for name, each in kept().items())
    step([1])


def test_the_mean_of_nothing_is_no_number_where_nothing_keeps_it(place: Any) -> None:
    """Nor does it hinder a loss: the gradient of a mean does not follow from the mean."""
    x = layers.data("x", [3])
    loss = layers.mean(layers.fc(x, 2))
    fluid.optimizer.SGD(0.1).minimize(loss)
    executor = fluid.Executor(place)
    executor.run(fluid.default_startup_program())
    before = kept()
    (found,) = executor.run(feed={"x": np.ones((0, 3), "f")}, fetch_list=[loss])
    assert np.isnan(found).all()
    assert all(np.array_equal(each, before[name]) for name, each in kept().items())


def in_a_loop(kept: Any, x: Any, how: Any) -> None:
    i = layers.zeros([1], "int64")
    more = layers.less_than(i, how)
    with layers.While(more).block():
        layers.assign(kept + layers.mean(x), kept)
        layers.increment(i, in_place=True)
        layers.less_than(i, how, cond=more)


def in_a_case(kept: Any, x: Any, how: Any) -> None:
    with layers.Switch() as switch:
        with switch.case(layers.less_than(layers.zeros([1], "int64"), how)):
            layers.assign(kept + layers.mean(x), kept)
        with switch.default():
            layers.increment(kept, 0.0)


def in_steps(kept: Any, x: Any, how: Any) -> None:
    rnn, each = layers.StaticRNN(), layers.zeros([3, 1], "float32")
    with rnn.step():
        _, before = rnn.step_input(each), rnn.memory(init=kept)
        rnn.update_memory(before, before + layers.mean(x))
        rnn.step_output(before + layers.mean(x))
    layers.assign(layers.reshape(layers.slice(rnn(), [0], [0], [1]), [1]), kept)


@pytest.mark.parametrize("stepped", [False, True])
@pytest.mark.parametrize("build", [in_a_loop, in_a_case, in_steps], ids=lambda build: build.__name__)
def test_blocks_that_would_keep_the_mean_of_nothing_are_refused_where_they_run(
    build: Any, stepped: bool, place: Any
) -> None:
    held = layers.create_global_var([1], 0.0, "float32", persistable=True, name="held")
    build(held, layers.data("x", [2]), layers.data("how", [1], dtype="int64", append_batch_size=False))
    executor = fluid.Executor(place)
    executor.run(fluid.default_startup_program())

    def run(rows: int, how: int) -> float:
        feed = {"x": np.ones((rows, 2), "f"), "how": np.int64([how])}
        executor.run(feed=feed, stepped=stepped)
        return float(np.array(fluid.global_scope().find_var("held").get_tensor())[0])

    assert run(3, 1) == 1
    with pytest.raises(UserError, match="the mean of nothing is not a number, and 'held', which is kept"):
        run(0, 1)
    assert np.array(fluid.global_scope().find_var("held").get_tensor())[0] == 1
    if build is not in_steps:
        assert run(0, 0) == 1
    assert run(3, 1) == 2


def test_of_nothing_there_is_no_largest_element(place: Any) -> None:
    most = layers.reduce_max(layers.data("x", [3]), dim=[0])
    with pytest.raises(UserError, match="of nothing there is no largest or smallest element"):
        fluid.Executor(place).run(feed={"x": np.ones((0, 3), "f")}, fetch_list=[most])


def test_what_is_made_in_a_step_is_nothing_that_all_steps_have(place: Any) -> None:
    x = data("x", 2)
    rnn = layers.DynamicRNN()
    with (
        pytest.raises(UserError, match="the memory begins as 'tmp_0', which is made anew in each step"),
        rnn.block(),
    ):
        row = rnn.step_input(x) * 2.0
        rnn.memory(init=row, need_reorder=True)
    rnn = layers.StaticRNN()
    with (
        pytest.raises(UserError, match="the network goes over 'scale_0.*', which is made anew in each step"),
        rnn.step(),
    ):
        rnn.step_input(layers.scale(x, 2.0))


def test_rows_of_gradients(place: Any) -> None:
    ids = layers.data("ids", [1], dtype="int64")
    loss = layers.mean(layers.embedding(ids, [7, 2], is_sparse=True, param_attr="w"))
    fluid.append_backward(loss)
    block = loss.block
    rows = block.create_var(name="rows", dtype="int64")
    block.append_op(type="extract_rows", inputs={"X": ["w@GRAD"]}, outputs={"Out": [rows]})
    executor = fluid.Executor(place)
    executor.run(fluid.default_startup_program())
    (found,) = executor.run(feed={"ids": np.int64([[5], [1], [5]])}, fetch_list=[rows])
    assert found.dtype == np.int64 and found.tolist() == [[5], [1], [5]]


def looked_up_in_a_loop() -> tuple[list[Any], dict[str, Any]]:
    """Rows of a table, changed by a loop that keeps each iteration in an array."""
    ids = layers.data("ids", [1], dtype="int64")
    hidden = layers.embedding(ids, [7, 4], is_sparse=True)
    i, count = (layers.fill_constant([1], "int64", n) for n in (0, 3))
    made, more = layers.create_array("float32"), layers.less_than(i, count)
    with layers.While(more).block():
        layers.assign(layers.fc(hidden, 4, act="tanh"), hidden)
        layers.array_write(hidden, i, array=made)
        layers.increment(i)
        layers.less_than(i, count, cond=more)
    last = layers.array_read(made, layers.fill_constant([1], "int64", 2))
    return [hidden, last, layers.array_length(made)], {"ids": np.int64([[3], [0], [3], [6]])}


def steps_in_steps() -> tuple[list[Any], dict[str, Any]]:
    """Words of sentences, with sentences of no words."""
    x = layers.data("x", [2], lod_level=2)
    rnn = layers.DynamicRNN()
    with rnn.block():
        sentence, before = rnn.step_input(x), rnn.memory(shape=[2])
        inner = layers.DynamicRNN()
        with inner.block():
            word, state = inner.step_input(sentence), inner.memory(init=before, need_reorder=True)
            after = layers.fc([word, state], 2, act="tanh")
            inner.update_memory(state, after)
            inner.output(after)
        last = layers.sequence_pool(inner(), "last")
        rnn.update_memory(before, last)
        rnn.output(last)
    rows = np.random.default_rng(0).normal(size=(6, 2)).astype("f")
    return [layers.sequence_pool(rnn(), "last")], {"x": ragged(rows, [2, 1, 2], [2, 0, 3, 0, 1])}


@pytest.mark.parametrize("build", [looked_up_in_a_loop, steps_in_steps])
def test_saved_programs_with_loops_give_the_same_bits_in_another_process(
    build: Callable[[], tuple[list[Any], dict[str, Any]]], tmp_path: Path
) -> None:
    targets, feed = build()
    executor = fluid.Executor(fluid.CPUPlace())
    fluid.default_startup_program().random_seed = 5
    executor.run(fluid.default_startup_program())
    wanted = executor.run(feed=feed, fetch_list=targets)
    fluid.io.save_inference_model(str(tmp_path / "model"), [*feed], targets, executor)
    model = ng.load(tmp_path / "model")
    # The offsets of what is ragged are inputs beside it.
    arrays = {name: np.array(value) for name, value in feed.items()}
    levels = [
        np.int32(level)
        for value in feed.values()
        if isinstance(value, fluid.LoDTensor)
        for level in value.lod()
    ]
    names = [name for name in model.input_names if name not in arrays]
    arrays.update(zip(names, levels, strict=True))
    np.savez(tmp_path / "given.npz", *[arrays[name] for name in model.input_names])
    code = (
        "import sys, numpy as np, ngmlir as ng; given = np.load('given.npz'); "
        "found = ng.compile(ng.load('model'))(*[given[name] for name in given.files]); "
        "assert not any('fluid' in name for name in sys.modules); np.savez('found.npz', *found)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    found = np.load(tmp_path / "found.npz")
    for name, each in zip(found.files, wanted, strict=True):
        assert np.array_equal(found[name], np.array(each)), name
