# SPDX-License-Identifier: Apache-2.0
"""Programs of several ranks: the splits of parameters, and steps that equal those of one rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ngmlir.frontends.fluid as fluid
from ngmlir.programs.distribute import rows_of_blocks
from ngmlir.support.diagnostics import Limit, UserError

layers = fluid.layers
MODES = ("allreduce", "reduce_scatter", "pserver")
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: fluid.optimizer.SGD(0.1),
    "momentum": lambda: fluid.optimizer.Momentum(0.1, 0.9, regularization=fluid.regularizer.L2Decay(0.01)),
    # With a small epsilon the sign of a gradient that is but rounding would decide.
    "adam": lambda: fluid.optimizer.Adam(0.01, epsilon=1e-3),
    "decayed rate": lambda: fluid.optimizer.SGD(layers.exponential_decay(0.1, 2, 0.5)),
}


@pytest.mark.parametrize(
    ("shape", "servers", "elements"),
    [
        ((1000, 7), 3, [2338, 2338, 2324]),
        ((100, 7), 3, [700]),
        ((1000, 3), 2, [1500, 1500]),
        ((784, 10), 4, [1960] * 4),
        ((8200,), 4, [2050] * 4),
        ((5,), 4, [5]),
        ((1023,), 4, [1023]),
        ((1024,), 4, [1024]),
        ((2048,), 4, [1024, 1024]),
        ((2049,), 2, [1025, 1024]),
        ((5, 1000), 4, [2000, 2000, 1000]),
        ((3, 5000), 8, [5000] * 3),
        ((20, 6, 50), 3, [2100, 2100, 1800]),
    ],
)
def test_blocks_of_parameters(shape: tuple[int, ...], servers: int, elements: list[int]) -> None:
    row = int(np.prod(shape[1:]))
    assert [n * row for n in rows_of_blocks(shape, servers)] == elements


class Trained:
    """A network with a table, and batches for it."""

    def __init__(
        self,
        optimizer: Callable[[], Any],
        clip: Any = None,
        is_sparse: bool = False,
        is_distributed: bool = False,
        padding: int | None = None,
    ):
        self.main, self.startup = fluid.Program(), fluid.Program()
        self.startup.random_seed = 3
        with fluid.program_guard(self.main, self.startup), fluid.unique_name.guard():
            ids, x, y = (
                layers.data("ids", [1], dtype="int64"),
                layers.data("x", [60]),
                layers.data("y", [1]),
            )
            found = layers.embedding(ids, [299, 4], is_sparse, is_distributed, padding, param_attr="table")
            hidden = layers.fc(layers.concat([x, found], axis=1), 50, act="tanh")
            self.cost = layers.mean(layers.square_error_cost(layers.fc(hidden, 1), y))
            if clip is not None:
                fluid.clip.set_gradient_clip(clip)
            optimizer().minimize(self.cost)
        draw = np.random.default_rng(0)
        self.feeds = [
            {
                "ids": draw.integers(0, 9, (24, 1)),
                "x": draw.normal(size=(24, 60)).astype(np.float32),
                "y": draw.normal(size=(24, 1)).astype(np.float32),
            }
            for _ in range(3)
        ]
        self.names = [p.name for p in self.main.global_block().all_parameters()]

    def alone(self) -> tuple[float, list[np.ndarray]]:
        """The last loss, and the parameters after the steps of one rank."""
        exe, scope = fluid.Executor(), fluid.Scope()
        exe.run(self.startup, scope=scope)
        for feed in self.feeds:
            (loss,) = exe.run(self.main, feed=feed, fetch_list=[self.cost], scope=scope)
        return float(loss[0]), [np.array(scope.tensor(name)) for name in self.names]

    def shared(self, mode: Any, ranks: int, servers: int = 1) -> tuple[float, list[np.ndarray]]:
        """The same of several, which all have the same parameters; the loss is the mean of theirs."""
        whole = fluid.DataParallel(self.main, self.startup, mode, ranks, servers)
        whole.start()
        for feed in self.feeds:
            losses = [loss for (loss,) in whole.run(feed, [self.cost])]
        parts = [np.array(scope.tensor("table")) for scope in whole.scopes]
        if len(parts[0]) < 299:
            for scope in whole.scopes:
                scope.tensor("table").hold(np.concatenate(parts))
        held = [[np.array(scope.tensor(name)) for name in self.names] for scope in whole.scopes]
        assert all(np.array_equal(a, b) for each in held for a, b in zip(each, held[0], strict=True))
        return float(np.mean(losses)), held[0]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_ranks_equal_one(name: str, mode: str) -> None:
    trained = Trained(OPTIMIZERS[name], is_sparse=name == "sgd")
    loss, parameters = trained.alone()
    for ranks in (1, 2, 3, 4, 8):
        found, held = trained.shared(mode, ranks, servers=3)
        assert abs(found - loss) < 1e-6
        for a, b in zip(held, parameters, strict=True):
            assert np.allclose(a, b, rtol=1e-6, atol=1e-6), ranks


@pytest.mark.parametrize("mode", ["allreduce", "reduce_scatter"])
@pytest.mark.parametrize(
    ("name", "is_sparse", "padding"),
    [("sgd", True, 3), ("adam", True, None), ("adam", False, 3), ("momentum", False, None)],
)
def test_tables_that_are_divided_equal_whole_ones(
    name: str, is_sparse: bool, padding: int | None, mode: str
) -> None:
    trained = Trained(OPTIMIZERS[name], None, is_sparse, True, padding)
    loss, parameters = trained.alone()
    for ranks in (1, 2, 3, 4, 8):
        found, held = trained.shared(mode, ranks)
        assert abs(found - loss) < 1e-6
        for a, b in zip(held, parameters, strict=True):
            assert np.allclose(a, b, rtol=1e-6, atol=1e-6), ranks


def test_rows_of_a_divided_table_stay_where_they_are() -> None:
    trained = Trained(OPTIMIZERS["adam"], None, True, True)
    whole = fluid.DataParallel(trained.main, trained.startup, "allreduce", 3)
    block = whole.ranks[1].global_block()
    assert block.var("table").shape == block.var("table_moment1_0").shape == (100, 4)
    assert block.var("table@GRAD").view.holds == "selected_rows"
    moved = {n for o in block.view.operators if o.attribute("ranks") for n in (*o.reads, *o.writes)}
    assert moved and not any(name.startswith("table") for name in moved)
    with pytest.raises(Limit, match="'table' are divided among ranks") as caught:
        fluid.DataParallel(trained.main, trained.startup, "pserver")
    assert caught.value.diagnostics[0].hint == "mode=reduce_scatter"


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_sums_that_are_scattered_have_the_same_bits(name: str) -> None:
    trained = Trained(OPTIMIZERS[name])
    found = [trained.shared(mode, 2, servers=2)[1] for mode in MODES]
    for a, b, c in zip(*found, strict=True):
        assert np.array_equal(a, b) and np.array_equal(a, c)


@pytest.mark.parametrize("servers", [1, 2, 5])
def test_all_that_is_received_is_sent(servers: int) -> None:
    trained = Trained(OPTIMIZERS["adam"])
    whole = fluid.DataParallel(trained.main, trained.startup, "pserver", 3, servers)
    assert len(whole.servers) == servers
    updated = 0
    for program in whole.ranks:
        ops = {o.type: o for o in program.global_block().view.operators}
        for peer, source in zip(
            ops["recv"].attribute("peers"), ops["recv"].attribute("sources"), strict=True
        ):
            (send,) = [o for o in whole.servers[peer].global_block().view.operators if o.type == "send"]
            assert source in send.inputs["X"]
    (sent,) = [o for o in whole.ranks[0].global_block().view.operators if o.type == "send"]
    for program in whole.servers:
        operators = program.global_block().view.operators
        (recv,) = [o for o in operators if o.type == "recv"]
        assert set(recv.attribute("sources")) <= set(sent.inputs["X"])
        assert sorted(set(recv.attribute("peers"))) == [0, 1, 2]
        updated += sum(o.type == "adam" for o in operators)
        assert not any("mul" in o.type for o in operators)
    assert updated == len(sent.inputs["X"])


def test_a_server_keeps_states_of_its_rows_alone() -> None:
    trained = Trained(OPTIMIZERS["momentum"])
    whole = fluid.DataParallel(trained.main, trained.startup, "pserver", 2, 2)
    shapes = [
        {n: v.shape for n, v in p.global_block().view.variables.items() if "velocity" in n and "fc_0.w" in n}
        for p in whole.servers
    ]
    assert sorted(s for each in shapes for s in each.values()) == [(32, 50), (32, 50)]


def test_what_ranks_refuse() -> None:
    trained = Trained(OPTIMIZERS["sgd"])
    whole = fluid.DataParallel(trained.main, trained.startup, ranks=5)
    whole.start()
    before = np.array(whole.scopes[0].tensor("table"))
    with pytest.raises(UserError, match="not divided evenly among 5 ranks"):
        whole.run(trained.feeds[0])
    assert np.array_equal(before, whole.scopes[0].tensor("table"))
    with pytest.raises(UserError, match="at least one rank"):
        fluid.DataParallel(trained.main, trained.startup, ranks=0)
    with pytest.raises(UserError, match="updates no parameter"):
        fluid.DataParallel(trained.startup, trained.startup)
    clipped = Trained(OPTIMIZERS["sgd"], fluid.clip.GradientClipByGlobalNorm(0.1))
    with pytest.raises(Limit, match="needs whole gradients") as caught:
        fluid.DataParallel(clipped.main, clipped.startup, "reduce_scatter")
    assert caught.value.diagnostics[0].hint == "mode=allreduce"
    loss, _ = clipped.alone()
    assert abs(clipped.shared("allreduce", 2)[0] - loss) < 1e-6


def test_updates_that_do_not_wait_are_refused() -> None:
    trained = Trained(OPTIMIZERS["sgd"])
    mode: Any = "async"
    with pytest.raises(UserError, match="there is no mode 'async'") as caught:
        fluid.DataParallel(trained.main, trained.startup, mode)
    assert caught.value.diagnostics[0].hint == (
        "all ranks update together, once a step: allreduce, reduce_scatter, pserver"
    )


@pytest.mark.parametrize("ranks", [2, 3])
def test_metrics_of_ranks_are_those_of_one(ranks: int) -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x, y = layers.data("x", [4]), layers.data("y", [1], dtype="int64")
        guess = layers.fc(x, 3, act="softmax")
        right = layers.accuracy(guess, y)
        fluid.optimizer.SGD(0.0).minimize(layers.mean(layers.cross_entropy(guess, y)))
    whole = fluid.DataParallel(main, startup, ranks=ranks)
    whole.start()
    draw = np.random.default_rng(0)
    shared, alone = fluid.metrics.Accuracy(), fluid.metrics.Accuracy()
    for count in (6, 12, 18):
        feed = {"x": draw.normal(size=(count, 4)).astype(np.float32), "y": draw.integers(0, 3, (count, 1))}
        for (value,) in whole.run(feed, [right]):
            shared.update(value, count // ranks)
        (value,) = fluid.Executor().run(main, feed=feed, fetch_list=[right], scope=whole.scopes[0])
        alone.update(value, count)
    assert abs(shared.eval() - alone.eval()) < 1e-6
