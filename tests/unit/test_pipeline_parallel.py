# SPDX-License-Identifier: Apache-2.0
"""Programs of ranks that have stages of a pipeline: the same steps as one rank's, in micro-batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ngmlir.frontends.fluid as fluid
from ngmlir.programs.pipeline_parallel import order_of
from ngmlir.support.diagnostics import Limit, UserError

layers, stage = fluid.layers, fluid.pipeline_stage
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: fluid.optimizer.SGD(layers.exponential_decay(0.1, 2, 0.5)),
    "momentum": lambda: fluid.optimizer.Momentum(0.1, 0.9, regularization=fluid.regularizer.L2Decay(0.01)),
    "adam": lambda: fluid.optimizer.Adam(0.01, epsilon=1e-3),
}


def network(stages: int, is_sparse: bool = False) -> Any:
    """A table in the first stage, a layer in each, and a value of the first one that the last one reads too."""
    x, ids = layers.data("x", [6]), layers.data("ids", [1], dtype="int64")
    with stage(0):
        first = layers.concat([x, layers.embedding(ids, [20, 4], is_sparse)], axis=1)
    hidden = first
    for number in range(stages):
        with stage(number):
            hidden = layers.fc(hidden, 10, act="tanh")
    with stage(stages - 1):
        guess = layers.fc(hidden + first, 1)
    # Without a mark: it is of the stage of what it reads.
    return layers.mean(layers.square_error_cost(guess, layers.data("y", [1])))


class Trained:
    def __init__(self, build: Callable[[], Any], optimizer: str = "sgd"):
        self.main, self.startup = fluid.Program(), fluid.Program()
        self.startup.random_seed = 3
        with fluid.program_guard(self.main, self.startup), fluid.unique_name.guard():
            self.cost = build()
            OPTIMIZERS[optimizer]().minimize(self.cost)
        draw = np.random.default_rng(0)
        self.feeds = [
            {
                "x": draw.normal(size=(24, 6)).astype(np.float32),
                "ids": draw.integers(0, 9, (24, 1)),
                "y": draw.normal(size=(24, 1)).astype(np.float32),
            }
            for _ in range(3)
        ]
        self.names = [v.name for v in self.main.list_vars() if fluid.io.is_persistable(v)]

    def equal(self, micro_batches: int, replicas: int = 1) -> fluid.PipelineParallel:
        exe, scope = fluid.Executor(), fluid.Scope()
        exe.run(self.startup, scope=scope)
        whole = fluid.PipelineParallel(self.main, self.startup, micro_batches, replicas)
        whole.start()
        for feed in self.feeds:
            (loss,) = exe.run(self.main, feed=feed, fetch_list=[self.cost], scope=scope)
            found = whole.run(feed, [self.cost, *self.names])
        assert len(found) == micro_batches * replicas
        assert abs(np.mean([each[0] for each in found]) - loss[0]) < 1e-6
        for each in found:
            for name, value in zip(self.names, each[1:], strict=True):
                assert np.allclose(value, np.array(scope.tensor(name)), rtol=1e-6, atol=1e-6), name
        return whole


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("stages", [1, 2, 4])
def test_stages_equal_one_rank(stages: int, optimizer: str) -> None:
    trained = Trained(lambda: network(stages, optimizer == "sgd"), optimizer)
    for micro_batches in (1, 2, 4):
        whole = trained.equal(micro_batches)
        assert len(whole.ranks) == stages


def test_pipelines_that_share_a_batch_equal_one_rank() -> None:
    Trained(lambda: network(2), "adam").equal(3, replicas=2)


def test_what_is_sent_is_received() -> None:
    trained = Trained(lambda: network(4), "momentum")
    whole = fluid.PipelineParallel(trained.main, trained.startup, 2)
    sent: dict[int, set[str]] = {}
    received: dict[int, list[tuple[int, str]]] = {}
    for rank, program in enumerate(whole.ranks):
        operators = program.global_block().view.operators
        sent[rank] = {n for o in operators if o.type == "send" for n in o.inputs["X"]}
        received[rank] = [
            pair
            for o in operators
            if o.type == "recv"
            for pair in zip(o.attribute("peers"), o.attribute("sources"), strict=True)
        ]
    assert all(name in sent[peer] for pairs in received.values() for peer, name in pairs)
    assert {n for names in sent.values() for n in names} == {
        n for pairs in received.values() for _, n in pairs
    }
    # Stage 1 takes what stage 0 computed, and the gradient from stage 2, of both micro-batches.
    assert sorted(peer for peer, _ in received[1]) == [0, 0, 2, 2]
    # Each rank has its parameters and what the optimizer keeps for them, and no other.
    kept = [{n for n, v in p.global_block().view.variables.items() if v.persistable} for p in whole.ranks]
    for a in range(4):
        for b in range(a):
            assert kept[a] & kept[b] == {"learning_rate_0"}
    assert set().union(*kept) == {*trained.names}


def test_gradients_come_as_soon_as_they_can() -> None:
    first = [*order_of(0, 3, 4)]
    assert first == [
        ("forward", 0), ("forward", 1), ("forward", 2), ("backward", 0), ("forward", 3), ("backward", 1),
        ("backward", 2), ("backward", 3),
    ]  # fmt: skip
    assert [*order_of(2, 3, 2)] == [("forward", 0), ("backward", 0), ("forward", 1), ("backward", 1)]
    for stages in range(1, 6):
        for count in range(1, 6):
            for number in range(stages):
                under_way = most = 0
                for kind, _ in order_of(number, stages, count):
                    under_way += 1 if kind == "forward" else -1
                    most = max(most, under_way)
                assert most == min(count, stages - number) and under_way == 0


def refused(build: Callable[[], Any], micro_batches: int = 2, kind: type[Exception] = UserError) -> Any:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
        build()
    with pytest.raises(kind) as caught:
        fluid.PipelineParallel(main, fluid.Program(), micro_batches)
    (found,) = caught.value.diagnostics  # type: ignore[attr-defined]
    assert found.location.file == __file__ or not found.location.line
    return found


def test_what_pipelines_refuse() -> None:
    def backwards() -> None:
        x = layers.data("x", [6])
        with stage(1):
            late = layers.fc(x, 6, bias_attr=False)
        with stage(0):
            layers.tanh(late)

    assert refused(backwards).message == "operator tanh of stage 0 reads 'fc_0.tmp_0', which stage 1 computes"

    def shared() -> None:
        x = layers.data("x", [6])
        for number in (0, 1):
            with stage(number):
                x = layers.fc(x, 6, param_attr="w", bias_attr=False)

    found = refused(shared)
    assert found.message == "the parameter 'w' is of stage 0, and operator mul of stage 1 reads it"

    def unmarked() -> None:
        layers.fc(layers.data("x", [6]), 6, param_attr="w")
        with stage(0):
            layers.tanh(layers.data("z", [6]))

    assert refused(unmarked).message == "operator mul reads the parameter 'w', and is of no stage"

    def normalized() -> None:
        with stage(0):
            layers.batch_norm(layers.data("x", [6]))

    found = refused(normalized, 2, Limit)
    assert "for each micro-batch instead of once a batch" in found.message and found.hint == "micro_batches=1"

    def clipped() -> None:
        cost = network(2)
        fluid.clip.set_gradient_clip(fluid.clip.GradientClipByGlobalNorm(0.1))
        fluid.optimizer.SGD(0.1).minimize(cost)

    assert "of stage 0, and of" in refused(clipped, 2, Limit).message

    def recomputed() -> None:
        cost = network(2)
        hidden = cost.block.var("fc_0.tmp_2")
        fluid.optimizer.SGD(0.1).minimize(cost, checkpoints=[hidden])

    assert refused(recomputed, 2, Limit).hint == "minimize without checkpoints="

    def divided() -> None:
        with stage(0):
            layers.fc(layers.data("x", [6]), 6, param_attr=fluid.ParamAttr("w", sharded=1))

    assert refused(divided, 2, Limit).message == "'w' is divided among ranks, and each rank has a stage"
    assert "no operator of the program is marked" in refused(lambda: layers.data("x", [6])).message

    def gap() -> None:
        with stage(1):
            layers.tanh(layers.data("x", [6]))

    assert refused(gap).message == "no operator is of stage 0, and there is a later one"
    with pytest.raises(UserError, match="counted from 0"), stage(-1):
        pass
    trained = Trained(lambda: network(2))
    whole = fluid.PipelineParallel(trained.main, trained.startup, 5)
    whole.start()
    with pytest.raises(UserError, match="not divided evenly among 5 micro-batches"):
        whole.run(trained.feeds[0])
    with pytest.raises(UserError, match="at least one micro-batch"):
        fluid.PipelineParallel(trained.main, trained.startup, 0)
