# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks over sequences of different lengths, the steps that they are made of, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ngmlir.frontends import fluid
from ngmlir.support.diagnostics import UserError

pytestmark = pytest.mark.usefixtures("programs")
layers = fluid.layers
PLACES = {"numpy": fluid.NumpyPlace(), "cpu": fluid.CPUPlace(), "cuda-sim": fluid.Place("cuda-sim")}
Array = np.ndarray[Any, Any]


@pytest.fixture(params=list(PLACES))
def place(request: pytest.FixtureRequest) -> Any:
    return PLACES[request.param]


def data(name: str, width: int, levels: int = 1, dtype: str = "float64") -> Any:
    return layers.data(name, [width], dtype=dtype, lod_level=levels, stop_gradient=False)


def drawn(rows: int, width: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=(rows, width))


def ragged(rows: Array, *lengths: Sequence[int]) -> Any:
    return fluid.create_lod_tensor(rows, [list(each) for each in lengths], fluid.CPUPlace())


def run(place: Any, feed: dict[str, Any], *fetches: Any) -> list[Any]:
    executor = fluid.Executor(place)
    executor.run(fluid.default_startup_program())
    return executor.run(feed=feed, fetch_list=list(fetches), return_numpy=False)


def simple(x: Any, width: int, init: Any = None, need_reorder: bool = False) -> Any:
    rnn = layers.DynamicRNN()
    with rnn.block():
        step = rnn.step_input(x)
        if init is None:
            before = rnn.memory(shape=[width], value=0.5, dtype="float64")
        else:
            before = rnn.memory(init=init, need_reorder=need_reorder)
        hidden = layers.tanh(step + before)
        rnn.update_memory(before, hidden)
        rnn.output(hidden)
    return rnn()


def by_hand(sequences: Sequence[Array], begins: Sequence[Array]) -> Array:
    found: list[Array] = []
    for rows, h in zip(sequences, begins, strict=True):
        for row in rows:
            h = np.tanh(row + h)
            found.append(h)
    return np.array(found).reshape(-1, begins[0].shape[0])


def cut(rows: Array, lengths: Sequence[int]) -> list[Array]:
    return np.split(rows, np.cumsum(lengths)[:-1])


def differences(place: Any, loss: Any, feed: dict[str, Any], name: str, by: Any) -> None:
    """The gradient of a loss by what is fed as `name` agrees with differences."""
    slope = fluid.calc_gradient(loss, by)
    held = feed[name]
    is_ragged = isinstance(held, fluid.LoDTensor)
    rows, lengths = np.array(held), held.recursive_sequence_lengths() if is_ragged else []
    way = np.random.default_rng(9).normal(size=rows.shape)
    executor = fluid.Executor(place)
    executor.run(fluid.default_startup_program())

    def value(move: float) -> float:
        moved = rows + move * way
        return float(
            executor.run(
                feed={**feed, name: ragged(moved, *lengths) if is_ragged else moved}, fetch_list=[loss]
            )[0].sum()
        )

    (found,) = executor.run(feed=feed, fetch_list=[slope], return_numpy=False)
    np.testing.assert_allclose(
        (np.array(found) * way).sum(), (value(1e-6) - value(-1e-6)) / 2e-6, rtol=1e-6, atol=1e-8
    )


LENGTHS = ([2, 4, 1], [1], [0, 3], [0, 0], [5, 5, 2, 0, 7], [9, 8, 7, 6, 5, 4, 3, 2, 1, 0])


def test_sequences_together_are_each_alone(place: Any) -> None:
    x = data("x", 2)
    out = simple(x, 2)
    loss = layers.reduce_sum(layers.square(out))
    slope = fluid.calc_gradient(loss, x)
    for lengths in LENGTHS[:3] if place is PLACES["cuda-sim"] else LENGTHS:
        rows = drawn(sum(lengths), 2)
        together, slopes = run(place, {"x": ragged(rows, lengths)}, out, slope)
        assert together.recursive_sequence_lengths() == slopes.recursive_sequence_lengths() == [lengths]
        wanted = by_hand(cut(rows, lengths), [np.full(2, 0.5)] * len(lengths))
        np.testing.assert_allclose(np.array(together), wanted, rtol=1e-6)
    alone = [
        run(place, {"x": ragged(part, [len(part)])}, slope)[0] for part in cut(rows, lengths) if len(part)
    ]
    np.testing.assert_allclose(np.array(slopes), np.concatenate([np.array(a) for a in alone]), rtol=1e-6)


@pytest.mark.parametrize("need_reorder", [True, False])
def test_memories_that_begin_as_rows(need_reorder: bool, place: Any) -> None:
    x, init = data("x", 2), data("init", 2, levels=0)
    out = simple(x, 2, init, need_reorder)
    lengths, rows, begins = [2, 4, 1], drawn(7, 2), drawn(3, 2, seed=1)
    order = [1, 0, 2]  # the longest first
    (found,) = run(place, {"x": ragged(rows, lengths), "init": begins}, out)
    used = begins if need_reorder else begins[np.argsort(order)]
    np.testing.assert_allclose(np.array(found), by_hand(cut(rows, lengths), list(used)), rtol=1e-6)
    for name, by in (("x", x), ("init", init)):
        differences(
            place,
            layers.reduce_sum(layers.square(out)),
            {"x": ragged(rows, lengths), "init": begins},
            name,
            by,
        )


def test_static_inputs_and_parameters(place: Any) -> None:
    x, fixed = data("x", 2), data("fixed", 3, levels=0)
    rnn = layers.DynamicRNN()
    with rnn.block():
        step, still = rnn.step_input(x), rnn.static_input(fixed)
        before = rnn.memory(shape=[3], dtype="float64")
        hidden = layers.fc([step, before], 3, act="tanh") * still
        rnn.update_memory(ex_mem=before, new_mem=hidden)
        rnn.output(hidden, still)
    out, seen = rnn()
    lengths = [1, 3, 2]
    feed = {"x": ragged(drawn(6, 2), lengths), "fixed": drawn(3, 3, seed=1)}
    (found,) = run(place, feed, seen)
    np.testing.assert_array_equal(np.array(found), np.repeat(feed["fixed"], lengths, axis=0))
    for name, by in (("x", x), ("fixed", fixed)):
        differences(place, layers.reduce_sum(layers.square(out)), feed, name, by)


def test_attention_over_sequences_that_all_steps_read(place: Any) -> None:
    read, x = data("read", 2), data("x", 2)
    boot = layers.sequence_first_step(read)
    rnn = layers.DynamicRNN()
    with rnn.block():
        step, keys = rnn.step_input(x), rnn.static_input(read)
        before = rnn.memory(init=boot, need_reorder=True)
        fits = layers.reduce_sum(layers.sequence_expand(before, keys) * keys, dim=[1], keep_dim=True)
        weighed = layers.elementwise_mul(keys, layers.sequence_softmax(fits), axis=0)
        hidden = layers.tanh(step + layers.sequence_pool(weighed, "sum") + before)
        rnn.update_memory(before, hidden)
        rnn.output(hidden)
    out = rnn()
    sources, lengths = [2, 4, 3], [3, 1, 2]
    keys, steps = drawn(9, 2), drawn(6, 2, seed=1)
    wanted: list[Array] = []
    for own, rows in zip(cut(keys, sources), cut(steps, lengths), strict=True):
        h = own[0]
        for row in rows:
            share = np.exp(own @ h)
            h = np.tanh(row + share @ own / share.sum() + h)
            wanted.append(h)
    feed = {"read": ragged(keys, sources), "x": ragged(steps, lengths)}
    (found,) = run(place, feed, out)
    np.testing.assert_allclose(np.array(found), wanted, rtol=1e-6)
    for name, by in (("read", read), ("x", x)):
        differences(place, layers.reduce_sum(layers.square(out)), feed, name, by)


def test_a_network_in_a_network(place: Any) -> None:
    x = data("x", 2, levels=2)
    rnn = layers.DynamicRNN()
    with rnn.block():
        sentence = rnn.step_input(x)
        before = rnn.memory(shape=[2], dtype="float64")
        inner = layers.DynamicRNN()
        with inner.block():
            word, state = inner.step_input(sentence), inner.memory(init=before, need_reorder=True)
            made = layers.tanh(word + state)
            inner.update_memory(state, made)
            inner.output(made)
        words = inner()
        rnn.update_memory(before, before * 0.5)
        rnn.output(words)
    out = rnn()
    outer, lengths = [2, 1, 3], [2, 0, 3, 1, 2, 1]
    rows = drawn(sum(lengths), 2)
    (found,) = run(place, {"x": ragged(rows, outer, lengths)}, out)
    assert found.recursive_sequence_lengths() == [outer, lengths]
    np.testing.assert_allclose(np.array(found), by_hand(cut(rows, lengths), [np.zeros(2)] * 6), rtol=1e-6)
    differences(place, layers.reduce_sum(layers.square(out)), {"x": ragged(rows, outer, lengths)}, "x", x)


# ---- steps


def test_steps_of_sequences_and_back(place: Any) -> None:
    x = data("x", 1)
    table = layers.lod_rank_table(x)
    steps = layers.lod_tensor_to_array(x, table)
    back = layers.array_to_lod_tensor(steps, table)
    at = [layers.fill_constant([1], "int64", t) for t in range(3)]
    shrunk = layers.shrink_memory(layers.array_read(steps, at[0]), at[1], table)
    slope = fluid.calc_gradient(layers.reduce_sum(layers.array_read(steps, at[1])), x)
    lengths, rows = [1, 3, 0, 3], np.arange(7.0).reshape(7, 1)
    fetches = [
        layers.max_sequence_len(table),
        layers.array_length(steps),
        *[layers.array_read(steps, i) for i in at],
        shrunk,
        back,
        slope,
    ]
    found = run(place, {"x": ragged(rows, lengths)}, *fetches)
    assert [np.array(v).tolist() for v in found[:2]] == [[3], [3]]
    assert np.array(found[2])[:3].ravel().tolist() == [1, 4, 0]
    assert np.array(found[3])[:2].ravel().tolist() == [2, 5]
    assert np.array(found[4])[:2].ravel().tolist() == [3, 6]
    assert np.array(found[5]).ravel().tolist() == [1, 4, 0, 0]
    np.testing.assert_array_equal(np.array(found[6]), rows)
    assert found[6].recursive_sequence_lengths() == [lengths]
    assert np.array(found[7]).ravel().tolist() == [0, 0, 1, 0, 0, 1, 0]


def test_sequences_in_the_order_of_a_table(place: Any) -> None:
    x, y, z = data("x", 1), data("y", 1), data("z", 1, levels=0)
    table = layers.lod_rank_table(x)
    rows, sequences = layers.reorder_lod_tensor_by_rank(z, table), layers.reorder_lod_tensor_by_rank(y, table)
    weights = layers.data("w", [1], dtype="float64", lod_level=1)
    slope = fluid.calc_gradient(layers.reduce_sum(sequences * weights), y)
    feed = {
        "x": ragged(np.zeros((6, 1)), [1, 3, 2]), "z": np.array([[1.0], [2], [3]]),
        "y": ragged(np.arange(6.0).reshape(6, 1), [2, 0, 4]), "w": ragged(np.arange(6.0).reshape(6, 1), [0, 4, 2]),
    }  # fmt: skip
    one, other, back = run(place, feed, rows, sequences, slope)
    assert np.array(one).ravel().tolist() == [2, 3, 1]
    assert np.array(other).ravel().tolist() == [2, 3, 4, 5, 0, 1]
    assert other.recursive_sequence_lengths() == [[0, 4, 2]]
    assert np.array(back).ravel().tolist() == [4, 5, 0, 1, 2, 3]


def test_sequences_of_sequences_in_the_order_of_a_table(place: Any) -> None:
    x = layers.data("x", [1], dtype="float64", lod_level=2, stop_gradient=False)
    weights = layers.data("w", [1], dtype="float64", lod_level=2)
    table = layers.lod_rank_table(x)
    ordered = layers.reorder_lod_tensor_by_rank(x, table)
    back = layers.array_to_lod_tensor(layers.lod_tensor_to_array(x, table), table)
    deepest = layers.max_sequence_len(layers.lod_rank_table(x, level=1))
    slope = fluid.calc_gradient(layers.reduce_sum(ordered * weights), x)
    rows, lengths, moved = np.arange(6.0).reshape(6, 1), [[1, 0, 2], [3, 0, 3]], [[2, 1, 0], [0, 3, 3]]
    feed = {
        "x": fluid.create_lod_tensor(rows, lengths, None),
        "w": fluid.create_lod_tensor(rows, moved, None),
    }
    found, again, most, gradient = run(place, feed, ordered, back, deepest, slope)
    assert np.array(found).ravel().tolist() == [3, 4, 5, 0, 1, 2]
    assert found.recursive_sequence_lengths() == moved
    assert np.array(again).ravel().tolist() == rows.ravel().tolist()
    assert again.recursive_sequence_lengths() == lengths
    assert np.array(most).tolist() == [3]
    assert np.array(gradient).ravel().tolist() == [3, 4, 5, 0, 1, 2]
    with pytest.raises(UserError, match=r"is of level 1 of 'x', and its steps are of level 0"):
        run(
            place, feed, layers.array_length(layers.lod_tensor_to_array(x, layers.lod_rank_table(x, level=1)))
        )


def test_a_mask_of_sequences_chooses_their_rows(place: Any) -> None:
    x, mask = data("x", 2), layers.data("mask", [1], dtype="float64")
    few = layers.data("few", [4, 1], dtype="bool", append_batch_size=False)
    with pytest.raises(UserError, match="a mask of 4 rows chooses among 6"):
        layers.split_lod_tensor(layers.data("six", [6, 2], append_batch_size=False), few)
    holds = layers.sequence_expand(mask, x) > layers.fill_constant([1], "float64", 0.0)
    true, false = layers.split_lod_tensor(x, holds)
    merged = layers.merge_lod_tensor(true * 2.0, false * 3.0, x, holds)
    rows = drawn(4, 2)
    (found,) = run(place, {"x": ragged(rows, [3, 0, 1]), "mask": np.array([[1.0], [1.0], [-1.0]])}, merged)
    np.testing.assert_allclose(np.array(found), rows * [[2], [2], [2], [3]])
    assert found.recursive_sequence_lengths() == [[3, 0, 1]]


def test_a_loop_over_steps_by_hand(place: Any) -> None:
    x = data("x", 2)
    table = layers.lod_rank_table(x)
    steps = layers.lod_tensor_to_array(x, table)
    i, n = layers.fill_constant([1], "int64", 0), layers.max_sequence_len(table)
    zeros = layers.array_read(steps, i) * 0.0
    memory, out = layers.array_write(zeros, i), layers.create_array("float64")
    more = layers.less_than(i, n)
    with layers.While(more).block():
        before = layers.shrink_memory(layers.array_read(memory, i), i, table)
        hidden = layers.tanh(layers.array_read(steps, i) + before)
        layers.array_write(hidden, i, array=out)
        layers.increment(i)
        layers.array_write(hidden, i, array=memory)
        layers.less_than(i, n, cond=more)
    found = layers.array_to_lod_tensor(out, table)
    lengths, rows = [2, 4, 1], drawn(7, 2)
    (values,) = run(place, {"x": ragged(rows, lengths)}, found)
    np.testing.assert_allclose(np.array(values), by_hand(cut(rows, lengths), [np.zeros(2)] * 3), rtol=1e-6)
    differences(place, layers.reduce_sum(layers.square(found)), {"x": ragged(rows, lengths)}, "x", x)


# ---- bad input


@pytest.mark.parametrize("is_sparse", [False, True])
def test_tables_that_steps_look_up(is_sparse: bool) -> None:
    words = layers.data("words", [1], dtype="int64", lod_level=1)
    begins = fluid.ParamAttr("table", initializer=fluid.initializer.Constant(0.1))
    rnn = layers.DynamicRNN()
    with rnn.block():
        row = layers.embedding(rnn.step_input(words), [10, 4], is_sparse=is_sparse, param_attr=begins)
        before = rnn.memory(shape=[4])
        hidden = layers.tanh(row + before)
        rnn.update_memory(before, hidden)
        rnn.output(hidden)
    cost = layers.mean(layers.square(rnn()))
    fluid.optimizer.SGD(0.5).minimize(cost)
    executor = fluid.Executor(fluid.CPUPlace())
    executor.run(fluid.default_startup_program())
    fed = ragged(np.array([[1], [2], [1], [9]]), [3, 1])
    costs = [float(executor.run(feed={"words": fed}, fetch_list=[cost])[0][0]) for _ in range(3)]
    assert costs[2] < 0.2 * costs[0]
    table: Any = fluid.global_scope().find_var("table")
    held = np.array(table.get_tensor())
    assert [i for i in range(10) if (held[i] != np.float32(0.1)).any()] == [1, 2, 9]
    with pytest.raises(UserError, match="there is no row 12 in 'table'"):
        executor.run(feed={"words": ragged(np.array([[1], [12]]), [2])}, fetch_list=[cost])
    np.testing.assert_array_equal(np.array(table.get_tensor()), held)


def test_layers_that_are_used_wrongly() -> None:
    flat, x = data("flat", 2, levels=0), data("x", 2)
    with pytest.raises(UserError, match="takes a variable of sequences, 'flat' has none"):
        layers.lod_rank_table(flat)
    with pytest.raises(UserError, match="takes a rank table"):
        layers.max_sequence_len(x)
    text = str(fluid.default_main_program())
    rnn = layers.DynamicRNN()
    with pytest.raises(UserError, match="come before all else") as caught, rnn.block():
        rnn.static_input(x)
    assert "hint:" in str(caught.value) and str(fluid.default_main_program()) == text
    rnn = layers.DynamicRNN()
    with pytest.raises(UserError, match="is never updated") as caught, rnn.block():
        rnn.output(rnn.step_input(x) + rnn.memory(shape=[2], dtype="float64"))
    assert "test_fluid_dynamic_rnn.py" in str(caught.value)


def test_sequences_that_are_gone_over_together_have_the_same_lengths(place: Any) -> None:
    """For the first batch, and for the code that serves all lengths; what goes with sequences has a row for each."""
    x, y, beside = data("x", 2), data("y", 2), layers.data("beside", [2], dtype="float64")
    rnn = layers.DynamicRNN()
    with rnn.block():
        rnn.output(rnn.step_input(x) * rnn.step_input(y) + rnn.static_input(beside))
    out = rnn()
    rows, extra = drawn(5, 2), drawn(2, 2)
    feed = {"x": ragged(rows, [1, 4]), "y": ragged(rows, [1, 4]), "beside": extra}
    wanted = rows * rows + extra[[0, 1, 1, 1, 1]]
    np.testing.assert_allclose(np.array(run(place, feed, out)[0]), wanted, rtol=1e-12)
    with pytest.raises(UserError, match=r"(?s)'y' have the lengths \[2, 3\], and those of 'x' \[1, 4\]"):
        run(place, {**feed, "y": ragged(rows, [2, 3])}, out)
    with pytest.raises(UserError, match="2 sequences are gone over, and what goes with them is 3"):
        run(place, {**feed, "beside": drawn(3, 2)}, out)


def test_labels_have_the_lengths_of_what_they_are_of(place: Any) -> None:
    emission, label = data("emission", 3), data("label", 1, dtype="int64")
    loss = layers.linear_chain_crf(emission, label, fluid.ParamAttr(name="moves"))
    rows, labels = drawn(4, 3).astype(np.float64), np.ones((4, 1), np.int64)
    with pytest.raises(UserError, match="'label' have the lengths"):
        run(place, {"emission": ragged(rows, [1, 3]), "label": ragged(labels, [2, 2])}, loss)


def test_second_derivatives(place: Any) -> None:
    x = data("x", 2)
    slope = fluid.calc_gradient(layers.reduce_sum(layers.square(simple(x, 2))), x)
    differences(place, layers.reduce_sum(layers.square(slope)), {"x": ragged(drawn(4, 2), [1, 0, 3])}, "x", x)


# ---- what goes into a network twice


@pytest.mark.parametrize("kind", [layers.DynamicRNN, layers.StaticRNN])
def test_what_a_memory_begins_as_is_read_by_steps_too(kind: Any) -> None:
    is_ragged, shape = kind is layers.DynamicRNN, {"append_batch_size": False, "stop_gradient": False}
    x = data("x", 4) if is_ragged else layers.data("x", [5, 3, 4], dtype="float64", **shape)
    begin = layers.data("begin", [3, 4], dtype="float64", **shape)
    rnn = kind()
    with rnn.block() if is_ragged else rnn.step():
        step, one, other = rnn.step_input(x), rnn.memory(init=begin), rnn.memory(init=begin)
        hidden, far = layers.tanh(step + one * begin), layers.tanh(step * other)
        if is_ragged:
            hidden = hidden + layers.reduce_sum(x) * 0.1
        rnn.update_memory(one, hidden)
        rnn.update_memory(other, far)
        rnn.output(hidden, far)
    loss = layers.reduce_sum(layers.square(layers.sums(rnn())))
    rows = ragged(drawn(6, 4), [2, 3, 1]) if is_ragged else np.stack([drawn(3, 4, n) for n in range(5)])
    feed = {"x": rows, "begin": drawn(3, 4, seed=1)}
    for name, by in (("x", x), ("begin", begin)):
        differences(PLACES["cpu"], loss, feed, name, by)
