# SPDX-License-Identifier: Apache-2.0
"""Programs of ranks that have parts of parameters: the same steps as one rank's, and where the ranks communicate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ngmlir.frontends.fluid as fluid
from ngmlir.programs.sharding import Sharding
from ngmlir.programs.splits import Held, Split
from ngmlir.programs.tables import even
from ngmlir.support.diagnostics import UserError

layers, Param = fluid.layers, fluid.ParamAttr
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: fluid.optimizer.SGD(0.1),
    "momentum": lambda: fluid.optimizer.Momentum(0.1, 0.9, regularization=fluid.regularizer.L2Decay(0.01)),
    "adam": lambda: fluid.optimizer.Adam(0.01, epsilon=1e-3),
}


class Trained:
    """A program, some batches for it, and what it keeps."""

    def __init__(
        self, build: Callable[[], Any], optimizer: str = "sgd", rows: int = 12, vocabulary: int = 31
    ):
        self.main, self.startup = fluid.Program(), fluid.Program()
        self.startup.random_seed = 3
        with fluid.program_guard(self.main, self.startup), fluid.unique_name.guard():
            self.cost = build()
            OPTIMIZERS[optimizer]().minimize(self.cost)
        draw = np.random.default_rng(0)
        shapes = {v.name: v.shape for v in self.main.list_vars() if v.view.flag("data")}
        self.feeds = [
            {
                name: draw.integers(0, vocabulary, (rows, *shape[1:]))
                if name.startswith("ids")
                else draw.normal(size=(rows, *shape[1:])).astype(np.float32)
                for name, shape in shapes.items()
            }
            for _ in range(3)
        ]
        self.names = [v.name for v in self.main.list_vars() if fluid.io.is_persistable(v)]

    def alone(self) -> tuple[float, list[np.ndarray]]:
        exe, scope = fluid.Executor(), fluid.Scope()
        exe.run(self.startup, scope=scope)
        for feed in self.feeds:
            (loss,) = exe.run(self.main, feed=feed, fetch_list=[self.cost], scope=scope)
        return float(loss[0]), [np.array(scope.tensor(name)) for name in self.names]

    def shared(self, ranks: int, replicas: int = 1) -> tuple[float, list[np.ndarray]]:
        """The same of several ranks; the loss is the mean of those of the groups, which have the same parameters."""
        whole = fluid.TensorParallel(self.main, self.startup, ranks, replicas)
        whole.start()
        for feed in self.feeds:
            found = whole.run(feed, [self.cost, *self.names])
        for group in found[1:]:
            assert all(np.array_equal(a, b) for a, b in zip(group[1:], found[0][1:], strict=True))
        return float(np.mean([group[0] for group in found])), found[0][1:]

    def equal(self, ranks: int, replicas: int = 1) -> None:
        loss, parameters = self.alone()
        found, held = self.shared(ranks, replicas)
        assert abs(found - loss) < 1e-6
        for a, b, name in zip(held, parameters, self.names, strict=True):
            assert np.allclose(a, b, rtol=1e-6, atol=1e-6), (name, ranks)


def error(guess: Any, width: int = 1) -> Any:
    return layers.mean(layers.square_error_cost(guess, layers.data("y", [width])))


def columns_then_rows() -> Any:
    x = layers.fc(layers.data("x", [6]), 10)
    hidden = layers.fc(x, 16, act="tanh", param_attr=Param(sharded=1))
    return error(layers.fc(hidden, 1, param_attr=Param(sharded=0)))


def attention() -> Any:
    """Heads that are divided among ranks: products, reshapes and transposes between a division by columns and one by rows."""
    x = layers.reshape(layers.fc(layers.data("x", [5, 6]), 40), [-1, 5, 8])

    def heads(name: str) -> Any:
        made = layers.fc(x, 24, num_flatten_dims=2, bias_attr=False, param_attr=Param(name, sharded=1))
        return layers.transpose(layers.reshape(made, [0, 5, 8, 3]), [0, 2, 1, 3])

    scores = layers.matmul(heads("q"), heads("k"), transpose_y=True)
    mixed = layers.reshape(
        layers.transpose(layers.matmul(layers.softmax(scores), heads("v")), [0, 2, 1, 3]), [0, 5, 24]
    )
    out = layers.fc(mixed, 8, num_flatten_dims=2, param_attr=Param("o", sharded=0))
    return error(layers.fc(out, 1))


def columns_alone() -> Any:
    """What a softmax needs whole is put together."""
    return error(
        layers.fc(layers.softmax(layers.fc(layers.data("x", [6]), 8, param_attr=Param(sharded=1))), 1)
    )


def table(sparse: bool, rows: int = 31, padding: int | None = None) -> Callable[[], Any]:
    def build() -> Any:
        ids = layers.data("ids", [1], dtype="int64")
        found = [
            layers.embedding(ids, [rows, 6], sparse, True, padding, param_attr="table") for _ in range(2)
        ]
        return error(layers.fc(layers.concat([*found, layers.data("x", [4])], axis=1), 1))

    return build


def collectives(main: Any, ranks: int) -> tuple[Counter[str], Counter[str]]:
    """How many operators between ranks there are before the gradients, and in them."""
    forward, backward = Counter[str](), Counter[str]()
    for operator in fluid.TensorParallel(main, fluid.Program(), ranks).ranks[0].global_block().view.operators:
        if operator.attribute("group") is not None:
            (backward if operator.attribute("op_role") else forward)[operator.type] += 1
    return forward, backward


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("build", [columns_then_rows, attention, columns_alone])
def test_ranks_equal_one(build: Callable[[], Any], optimizer: str) -> None:
    trained = Trained(build, optimizer)
    for ranks in (1, 2, 4, 8):
        trained.equal(ranks)
    if build is columns_then_rows:
        trained.equal(3)


def test_groups_that_share_a_batch_equal_one_rank() -> None:
    for build in (columns_then_rows, table(False)):
        Trained(build, "adam").equal(2, replicas=2)
        Trained(build).equal(3, replicas=2)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("padding", [None, 5, -1])
def test_a_table_by_rows_equals_a_whole_one(sparse: bool, padding: int | None) -> None:
    for optimizer in OPTIMIZERS:
        trained = Trained(table(sparse, padding=padding), optimizer, rows=48)
        assert all(len({*feed["ids"].ravel().tolist()}) < 48 for feed in trained.feeds)  # some are repeated
        for ranks in (1, 2, 3, 4, 8):
            trained.equal(ranks)
    operators = fluid.TensorParallel(trained.main, trained.startup, 4).ranks[1].global_block()
    assert operators.var("table").shape == operators.var("table_moment1_0").shape == (8, 6)
    holds = operators.var("table@GRAD").view.holds
    assert holds == ("selected_rows" if sparse else "tensor")


@pytest.mark.parametrize(
    ("build", "forward", "backward"),
    [
        (columns_then_rows, {"all_reduce": 1}, {"all_reduce": 1}),
        # Three products by columns have one gradient, whose parts are added on each rank first.
        (attention, {"all_reduce": 1}, {"all_reduce": 1}),
        (columns_alone, {"all_gather": 1}, {}),
        # Both lookups together.
        (table(True), {"all_reduce": 1}, {}),
        (table(False), {"all_reduce": 1}, {}),
    ],
)
def test_where_ranks_talk(
    build: Callable[[], Any], forward: dict[str, int], backward: dict[str, int]
) -> None:
    main = Trained(build).main
    assert collectives(main, 2) == (forward, backward)


def test_what_ranks_have_of_each_variable() -> None:
    trained = Trained(columns_then_rows, "adam")
    sharding = Sharding(trained.main.view, 3)
    assert even(16, 3) == (6, 5, 5)
    columns, rows, bias = Split(1, (6, 5, 5)), Split(0, (6, 5, 5)), Split(0, (6, 5, 5))
    expected = {
        "fc_1.w_0": columns, "fc_1.w_0@GRAD": columns, "fc_1.w_0_moment1_0": columns, "fc_1.tmp_2": columns,
        "fc_1.b_0": bias, "fc_1.b_0_moment2_0": bias, "fc_2.w_0": rows, "fc_2.w_0_moment1_0": rows,
        "fc_2.b_0": Held.WHOLE, "fc_0.w_0": Held.WHOLE, "fc_1.w_0_beta1_pow_0": Held.WHOLE, "fc_2.tmp_0": Held.WHOLE,
    }  # fmt: skip
    assert {name: sharding.state(name) for name in expected} == expected


def test_random_numbers_are_the_same_on_all_ranks() -> None:
    def build() -> Any:
        hidden = layers.dropout(layers.fc(layers.data("x", [6]), 8), 0.5)
        return error(
            layers.fc(layers.fc(hidden, 8, param_attr=Param(sharded=1)), 1, param_attr=Param(sharded=0))
        )

    trained = Trained(build)
    whole = fluid.TensorParallel(trained.main, trained.startup, 2)
    whole.start()
    for feed in trained.feeds:
        whole.run(feed)
    first, second = (np.array(scope.tensor("fc_0.w_0")) for scope in whole.scopes)
    assert np.array_equal(first, second)


def refused(build: Callable[[], Any], ranks: int = 2) -> Any:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
        build()
    with pytest.raises(UserError) as caught:
        fluid.TensorParallel(main, fluid.Program(), ranks)
    (found,) = caught.value.diagnostics
    assert found.hint and found.location.line, found
    return found


def test_what_cannot_be_divided_is_refused() -> None:
    def normalized() -> None:
        layers.layer_norm(layers.data("x", [6]), param_attr=Param("scale", sharded=0))

    found = refused(normalized)
    assert found.message == (
        "operator layer_norm needs all of 'scale', and each of 2 ranks has a part of its dimension 0"
    )
    assert found.location.file == __file__

    def clipped() -> None:
        cost = columns_then_rows()
        fluid.clip.set_gradient_clip(fluid.clip.GradientClipByNorm(0.1))
        fluid.optimizer.SGD(0.1).minimize(cost)

    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
        clipped()
    # A norm needs a whole gradient, and the update takes the part of it.
    assert collectives(main, 2)[1]["all_gather"] == 3
    few = refused(columns_then_rows, 17)
    assert few.message == "dimension 1 of 'fc_1.w_0' has 16 steps for 17 ranks"
    none = refused(lambda: error(layers.fc(layers.data("x", [6]), 1)))
    assert none.message == "no parameter of the program is divided among ranks"
    with pytest.raises(UserError, match=r"sharded is a dimension of a parameter of shape \[6, 4\], not 2"):
        refused(lambda: layers.fc(layers.data("x", [6]), 4, param_attr=Param(sharded=2)))
    with pytest.raises(UserError, match="at least one group"):
        fluid.TensorParallel(main, fluid.Program(), 2, replicas=0)


def test_a_number_that_is_no_row_is_refused_before_anything_changes() -> None:
    trained = Trained(table(True))
    whole = fluid.TensorParallel(trained.main, trained.startup, 3)
    whole.start()
    before = np.array(whole.scopes[1].tensor("table"))
    feed = {**trained.feeds[0], "ids": np.full((12, 1), 31)}
    with pytest.raises(UserError, match="there is no row 31 in 'table', which has 31 rows"):
        whole.run(feed)
    assert np.array_equal(before, whole.scopes[1].tensor("table"))


def test_ragged_batches_keep_their_sequences() -> None:
    main, startup = fluid.Program(), fluid.Program()
    startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        words = layers.data("words", [1], dtype="int64", lod_level=1)
        found = layers.embedding(words, [31, 6], True, True, param_attr="table")
        hidden = layers.fc(found, 8, act="tanh", param_attr=Param(sharded=1))
        pooled = layers.sequence_pool(layers.fc(hidden, 4, param_attr=Param(sharded=0)), "sum")
        cost = layers.mean(layers.square(pooled))
        fluid.optimizer.SGD(0.1).minimize(cost)
    exe, scope = fluid.Executor(), fluid.Scope()
    exe.run(startup, scope=scope)
    whole = fluid.TensorParallel(main, startup, 3)
    whole.start()
    draw = np.random.default_rng(1)
    for lengths in ([3, 2], [0, 4, 1], [7]):
        rows = draw.integers(0, 31, (sum(lengths), 1))
        batch = fluid.create_lod_tensor(rows, [lengths], fluid.CPUPlace())
        (loss,) = exe.run(main, feed={"words": batch}, fetch_list=[cost], scope=scope)
        ((found, table),) = whole.run({"words": batch}, [cost, "table"])
        assert np.allclose(found, loss, rtol=1e-6, atol=1e-6)
        assert np.allclose(table, scope.tensor("table"), rtol=1e-6, atol=1e-6)
    with pytest.raises(UserError, match="'words' is ragged, and its sequences are not divided among 2 ranks"):
        fluid.DataParallel(main, startup, ranks=2).run({"words": batch})


def test_a_divided_parameter_is_not_overwritten_by_a_whole_one() -> None:
    def build() -> None:
        x = layers.fc(layers.data("x", [6]), 8, param_attr=Param("w", sharded=1))
        layers.assign(layers.fill_constant([6, 8], "float32", 1.0), x.block.var("w"))

    assert "operator assign needs all of 'w'" in refused(build).message
