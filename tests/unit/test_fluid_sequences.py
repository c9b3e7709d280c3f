# SPDX-License-Identifier: Apache-2.0
"""Layers over sequences, trained; metrics of sequences over several batches."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import pytest

from ngmlir.frontends import fluid
from ngmlir.frontends.fluid import layers, nets

RNG = np.random.default_rng(2)


@pytest.fixture(autouse=True)
def fresh() -> Generator[None]:
    with (
        fluid.program_guard(fluid.Program(), fluid.Program()),
        fluid.scope_guard(fluid.Scope()),
        fluid.unique_name.guard(),
    ):
        fluid.default_startup_program().random_seed = 3
        yield


def sequences(rows: Any, lengths: Sequence[int]) -> fluid.LoDTensor:
    return fluid.create_lod_tensor(np.asarray(rows), [list(lengths)], fluid.CPUPlace())


def started() -> fluid.Executor:
    executor = fluid.Executor(fluid.CPUPlace())
    executor.run(fluid.default_startup_program())
    return executor


def words(lengths: Sequence[int], below: int) -> fluid.LoDTensor:
    return sequences(RNG.integers(0, below, (sum(lengths), 1)), lengths)


def network(kind: str, embedded: fluid.Variable) -> fluid.Variable:
    if kind == "conv":
        parts = [nets.sequence_conv_pool(embedded, 8, n, act="tanh", pool_type="sqrt") for n in (3, 4)]
        return layers.concat(parts, axis=1)
    if kind == "lstm":
        first, cell = layers.dynamic_lstm(layers.fc(embedded, 16), 16)
        second, _ = layers.dynamic_lstm(
            layers.fc([first, cell], 16), 16, is_reverse=True, use_peepholes=False
        )
        return layers.concat([layers.sequence_pool(each, "max") for each in (first, second)], axis=1)
    if kind == "lstmp":
        projected, _ = layers.dynamic_lstmp(layers.fc(embedded, 16), 16, 3)
        return layers.sequence_last_step(projected)
    hidden = layers.dynamic_gru(layers.fc(embedded, 12), 4)
    weights = layers.sequence_softmax(layers.fc(layers.row_conv(hidden, 2), 1))
    context = layers.sequence_pool(layers.elementwise_mul(hidden, weights, axis=0), "sum")
    return layers.concat([context, layers.sequence_first_step(hidden)], axis=1)


@pytest.mark.parametrize("kind", ["conv", "lstm", "lstmp", "gru"])
def test_a_network_over_sequences_learns(kind: str) -> None:
    text, label = (
        layers.data("text", [1], dtype="int64", lod_level=1),
        layers.data("label", [1], dtype="int64"),
    )
    guess = layers.fc(network(kind, layers.embedding(text, [10, 6])), 2, act="softmax")
    loss = layers.mean(layers.cross_entropy(guess, label))
    fluid.optimizer.Adam(0.05).minimize(loss)
    executor = started()
    lengths = [3, 1, 4, 2, 5]
    fed = {"text": words(lengths, 10), "label": RNG.integers(0, 2, (5, 1))}
    losses = [float(executor.run(feed=fed, fetch_list=[loss])[0][0]) for _ in range(25)]
    assert losses[-1] < 0.3 * losses[0]


def test_labels_are_learned_by_a_random_field() -> None:
    text, label = (layers.data(name, [1], dtype="int64", lod_level=1) for name in ("text", "label"))
    emission = layers.fc(layers.embedding(text, [6, 4]), 3)
    loss = layers.mean(layers.linear_chain_crf(emission, label, param_attr=fluid.ParamAttr(name="crfw")))
    found = layers.crf_decoding(emission, fluid.ParamAttr(name="crfw"))
    fluid.optimizer.Adam(0.1).minimize(loss)
    executor = started()
    # The label says whether the word is that of before.
    rows = RNG.integers(0, 3, (20, 1))
    lengths = [7, 0, 1, 12]
    right = np.concatenate([[[0]], (rows[1:] == rows[:-1]).astype(np.int64)])
    fed = {"text": sequences(rows, lengths), "label": sequences(right, lengths)}
    losses = [float(executor.run(feed=fed, fetch_list=[loss])[0][0]) for _ in range(30)]
    assert losses[-1] < 0.5 * losses[0]
    (path,) = executor.run(feed=fed, fetch_list=[found], return_numpy=False)
    assert path.recursive_sequence_lengths() == [lengths]


def test_chunks_of_uneven_batches_are_those_of_all_rows() -> None:
    guess, label = (layers.data(name, [1], dtype="int64", lod_level=1) for name in ("guess", "label"))
    evaluator = fluid.evaluator.ChunkEvaluator(guess, label, "IOB", 2)
    executor = started()
    host = fluid.metrics.ChunkEvaluator()
    counts = layers.chunk_eval(guess, label, "IOB", 2)[3:]
    batches = [[4, 0, 3], [9], [1, 1]]
    made = [({"guess": words(n, 5), "label": words(n, 5)}) for n in batches]
    for fed in made:
        host.update(*executor.run(feed=fed, fetch_list=list(counts)))
    split = [float(x[0]) for x in evaluator.eval(executor)]
    evaluator.reset(executor)
    lengths = [n for batch in batches for n in batch]
    whole = {
        name: sequences(np.concatenate([np.array(fed[name]) for fed in made]), lengths)
        for name in ("guess", "label")
    }
    executor.run(feed=whole, fetch_list=evaluator.metrics)
    assert np.allclose(split, [float(x[0]) for x in evaluator.eval(executor)])
    assert np.allclose(split, host.eval())


def test_distances_of_uneven_batches_are_those_of_all_pairs() -> None:
    guess, label = (layers.data(name, [1], dtype="int64", lod_level=1) for name in ("guess", "label"))
    evaluator = fluid.evaluator.EditDistance(guess, label, ignored_tokens=[0], normalized=False)
    executor = started()
    batches = [([3, 2], [2, 2]), ([4], [1])]
    made = [({"guess": words(a, 3), "label": words(b, 3)}) for a, b in batches]
    for fed in made:
        executor.run(feed=fed, fetch_list=evaluator.metrics)
    split = [float(x[0]) for x in evaluator.eval(executor)]
    evaluator.reset(executor)
    whole = {
        name: sequences(
            np.concatenate([np.array(fed[name]) for fed in made]), [n for b in batches for n in b[at]]
        )
        for at, name in enumerate(("guess", "label"))
    }
    executor.run(feed=whole)
    assert np.allclose(split, [float(x[0]) for x in evaluator.eval(executor)])


def test_the_greedy_decoder_takes_the_best_class_of_each_row() -> None:
    scores = layers.data("scores", [3], lod_level=1)
    found = layers.ctc_greedy_decoder(scores, blank=0)
    rows = np.eye(3, dtype=np.float32)[[0, 1, 1, 0, 1, 2, 2]]
    (made,) = started().run(feed={"scores": sequences(rows, [5, 2])}, fetch_list=[found], return_numpy=False)
    assert np.array(made).ravel().tolist() == [1, 1, 2]
    assert made.recursive_sequence_lengths() == [[2, 1]]


def test_a_constant_has_a_row_for_each_sequence() -> None:
    x = layers.data("x", [2], lod_level=1)
    made = layers.fill_constant_batch_size_like(x, [-1, 3], "float32", 1.5)
    (found,) = started().run(feed={"x": sequences(np.zeros((5, 2), np.float32), [2, 3])}, fetch_list=[made])
    assert np.array_equal(found, np.full((2, 3), 1.5, np.float32))


def test_other_lengths_are_other_results() -> None:
    """Lengths that depend on values are found out at each run."""
    x, y = (layers.data(name, [1], lod_level=1) for name in "xy")
    expanded = layers.sequence_expand(x, y)
    executor = started()
    for times in ([2, 1], [0, 3], [1, 0]):
        fed = {
            "x": sequences(np.arange(3, dtype=np.float32)[:, None], [2, 1]),
            "y": sequences(np.zeros((sum(times), 1), np.float32), times),
        }
        (made,) = executor.run(feed=fed, fetch_list=[expanded], return_numpy=False)
        assert np.array(made).ravel().tolist() == [0, 1] * times[0] + [2] * times[1]
        assert made.recursive_sequence_lengths() == [[2] * times[0] + [1] * times[1]]


def lstm_loss() -> fluid.Variable:
    text = layers.data("text", [1], dtype="int64", lod_level=1)
    hidden, _ = layers.dynamic_lstm(layers.fc(layers.embedding(text, [10, 6]), 16), 16)
    return layers.mean(layers.sequence_last_step(hidden))


def test_operator_by_operator_and_in_numpy_it_is_the_same() -> None:
    loss = lstm_loss()
    fluid.optimizer.SGD(0.0).minimize(loss)
    executor = started()
    fed = {"text": words([3, 0, 2], 10)}
    (wanted,) = executor.run(feed=fed, fetch_list=[loss])
    seen: list[str] = []
    (found,) = executor.run(feed=fed, fetch_list=[loss], stepped=lambda step: seen.append(step.type))
    assert np.allclose(found, wanted, atol=1e-6)
    assert "lstm" in seen and "lstm_grad" in seen
    (found,) = fluid.Executor(fluid.NumpyPlace()).run(feed=fed, fetch_list=[loss])
    assert np.allclose(found, wanted, atol=1e-6)


def test_memory_of_a_program_over_sequences_is_told() -> None:
    fluid.optimizer.SGD(0.1).minimize(lstm_loss())
    low, high, unit = fluid.contrib.memory_usage(fluid.default_main_program(), 8)
    assert 0 < low <= high and unit in ("B", "KB", "MB")
