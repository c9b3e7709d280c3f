# SPDX-License-Identifier: Apache-2.0
"""Random programs over sequences are compiled with the first batch and never again, and train as NumPy says: also with batches of one
sequence, of one row in each, and with empty sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ngmlir.frontends.fluid as fluid
from ngmlir.frontends.fluid import layers

Var = fluid.Variable
WORDS, WIDTH = 20, 4
BATCHES = ([3, 2, 5], [7, 1, 4, 2], [1], [1, 1, 1], [4], [1, 3], [2, 1, 0, 5], [6, 6])


class Network:
    """A network that grows by random layers. `rows` are values with a row for each word, `whole` those with one for each sequence."""

    def __init__(self, draw: np.random.Generator, rows: Var):
        self.draw = draw
        self.rows: list[Var] = [rows]
        self.whole: list[Var] = []

    def one(self) -> Var:
        """Rows, the last ones more often."""
        return self.rows[-1 - min(int(self.draw.exponential(1.0)), len(self.rows) - 1)]

    def chosen(self, *of: Any) -> Any:
        return of[int(self.draw.integers(len(of)))]


def _expanded(net: Network) -> None:
    if net.whole:
        x = net.one()
        net.rows.append(x + layers.sequence_expand(layers.fc(net.whole[-1], WIDTH), x))


def _attended(net: Network) -> None:
    x = net.one()
    query = layers.sequence_expand(layers.sequence_pool(x, "average"), x)
    share = layers.sequence_softmax(layers.fc(x * query, 1))
    net.whole.append(layers.sequence_pool(layers.elementwise_mul(x, share, axis=0), "sum"))


def _stepped(net: Network) -> None:
    rnn = layers.DynamicRNN()
    x = net.one()
    with rnn.block():
        row, state = rnn.step_input(x), rnn.memory(shape=[WIDTH], value=0.0)
        new = layers.fc([row, state], WIDTH, act="tanh")
        rnn.update_memory(state, new)
        rnn.output(new)
    net.rows.append(rnn())


def _lstm(net: Network) -> Var:
    given = layers.fc(net.one(), 4 * WIDTH)
    peepholes, reverse = net.chosen(False, True), net.chosen(False, True)
    return layers.dynamic_lstm(given, 4 * WIDTH, use_peepholes=peepholes, is_reverse=reverse)[0]


ROWS: dict[str, Callable[[Network], Var]] = {
    "fc": lambda net: layers.fc(net.one(), WIDTH, act=net.chosen("tanh", "relu", "sigmoid")),
    "conv": lambda net: layers.sequence_conv(net.one(), WIDTH, net.chosen(1, 2, 3, 5), act="tanh"),
    "gru": lambda net: layers.dynamic_gru(
        layers.fc(net.one(), 3 * WIDTH), WIDTH, is_reverse=net.chosen(False, True)
    ),
    "lstm": _lstm,
    "sum": lambda net: net.one() + net.one(),
    "reverse": lambda net: layers.sequence_reverse(net.one()),
    "row_conv": lambda net: layers.row_conv(net.one(), net.chosen(1, 2)),
    "layer_norm": lambda net: layers.layer_norm(net.one()),
    "concat": lambda net: layers.fc(layers.concat([net.one(), net.one()], 1), WIDTH),
}
OTHERS: dict[str, Callable[[Network], None]] = {
    "expand": _expanded,
    "attention": _attended,
    "steps": _stepped,
    "pool": lambda net: net.whole.append(
        layers.sequence_pool(net.one(), net.chosen("sum", "average", "max", "sqrt", "first", "last"))
    ),
}


def built(draw: np.random.Generator) -> list[Var]:
    words, wanted = layers.data("words", [1], dtype="int64", lod_level=1), layers.data("wanted", [1])
    net = Network(draw, layers.embedding(words, [WORDS, WIDTH], is_sparse=bool(draw.integers(2))))
    for name in draw.choice([*ROWS, *OTHERS], int(draw.integers(2, 7))):
        if name in ROWS:
            net.rows.append(ROWS[name](net))
        else:
            OTHERS[name](net)
    net.whole.append(layers.sequence_pool(net.rows[-1], net.chosen("sum", "max", "last")))
    found = layers.fc(layers.concat(net.whole[-2:], 1), 1)
    loss = layers.mean(layers.square_error_cost(found, wanted))
    optimizer = fluid.optimizer
    net.chosen(optimizer.SGD(0.005), optimizer.Adam(0.01), optimizer.Adagrad(0.01)).minimize(loss)
    return [loss, net.rows[-1]]


@pytest.mark.parametrize("seed", range(10))
def test_a_random_network_is_compiled_once(seed: int, open_compilations: list[str]) -> None:
    draw = np.random.default_rng(seed)
    main, startup = fluid.Program(), fluid.Program()
    startup.random_seed = seed + 1
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        fetches = built(draw)
    runs = [(fluid.Executor(place), fluid.Scope()) for place in (fluid.CPUPlace(), fluid.NumpyPlace())]
    for executor, scope in runs:
        executor.run(startup, scope=scope)
    first = 0
    for number, lengths in enumerate(BATCHES):
        words = draw.integers(0, WORDS, (sum(lengths), 1))
        feed = {
            "words": fluid.create_lod_tensor(words, [lengths], None),
            "wanted": draw.random((len(lengths), 1), "f4"),
        }
        found, wanted = (
            executor.run(main, feed, fetches, scope=scope, return_numpy=False) for executor, scope in runs
        )
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(np.array(one), np.array(other), rtol=1e-3, atol=1e-4)
        first = first or len(open_compilations)
        assert len(open_compilations) == first, f"batch {number} was compiled separately"
