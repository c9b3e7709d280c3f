# SPDX-License-Identifier: Apache-2.0
"""Gradients of tables as sparse rows: equal to dense ones, and no work on rows that nobody looks up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ngmlir.frontends.fluid as fluid
from ngmlir.ir.types import shape_of
from ngmlir.programs.lower import lower
from ngmlir.programs.text import program_of
from ngmlir.support.diagnostics import UserError

layers = fluid.layers
PLACES = ("numpy", "cpu", "cuda-sim")
HEIGHT, WIDTH, BATCH = 23, 5, 9
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: fluid.optimizer.SGD(0.5),
    "adagrad": lambda: fluid.optimizer.Adagrad(0.1),
    "momentum": lambda: fluid.optimizer.Momentum(0.1, 0.9),
    "adamax": lambda: fluid.optimizer.Adamax(0.1),
    "decayed": lambda: fluid.optimizer.DecayedAdagrad(0.1),
    "adadelta": lambda: fluid.optimizer.Adadelta(1.0),
    "rmsprop": lambda: fluid.optimizer.RMSProp(0.1),
    "ftrl": lambda: fluid.optimizer.Ftrl(0.1, l1=0.01, l2=0.02),
}


class Model:
    """Two inputs read one table, which may be a factor of a product too."""

    def __init__(
        self,
        is_sparse: bool,
        optimizer: Any,
        padding: int | None = None,
        regularizer: Any = None,
        clip: Any = None,
        is_factor: bool = False,
        height: int = HEIGHT,
    ):
        self.main, self.startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(self.main, self.startup), fluid.unique_name.guard():
            table = fluid.ParamAttr(
                name="w", initializer=fluid.initializer.Uniform(seed=3), regularizer=regularizer
            )
            ids = [layers.data(name, [1], dtype="int64") for name in "ab"]
            found = [
                layers.embedding(i, [height, WIDTH], is_sparse, padding_idx=padding, param_attr=table)
                for i in ids
            ]
            weight = fluid.ParamAttr(initializer=fluid.initializer.Uniform(seed=4))
            made = layers.fc(layers.concat(found, 1), 4, act="tanh", param_attr=weight)
            self.cost = layers.mean(layers.square(made))
            if is_factor:
                self.cost = self.cost + layers.mean(layers.square(self.main.global_block().var("w")))
            if clip is not None:
                fluid.clip.set_gradient_clip(clip)
            optimizer.minimize(self.cost)

    def run(self, place: str, steps: int = 4, fetch: Any = "w@GRAD") -> tuple[np.ndarray, ...]:
        """The loss, what is fetched, and the table after some steps, whose ids repeat."""
        exe, scope = fluid.Executor(fluid.Place(place)), fluid.Scope()
        exe.run(self.startup, scope=scope)
        draw = np.random.default_rng(0)
        loss = found = np.zeros(0)
        for _ in range(steps):
            feed = {name: draw.integers(0, 8, (BATCH, 1)) for name in "ab"}
            loss, found = exe.run(self.main, feed=feed, fetch_list=[self.cost, fetch], scope=scope)
        return loss, found, np.array(scope.tensor("w"))


def _same(sparse: Model, whole: Model, place: str) -> None:
    for found, wanted in zip(sparse.run(place), whole.run(place), strict=True):
        assert np.allclose(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_updates_by_sparse_rows_equal_those_by_matrices(name: str, place: str) -> None:
    make = OPTIMIZERS[name]
    _same(Model(True, make()), Model(False, make()), place)


@pytest.mark.parametrize("place", PLACES)
def test_adam_leaves_rows_alone_that_nobody_looks_up(place: str) -> None:
    rows, whole = Model(True, fluid.optimizer.Adam(0.1)), Model(False, fluid.optimizer.Adam(0.1))
    # With the moments of one step only, both give the same; later the moments of other rows would have moved on.
    for found, wanted in zip(rows.run(place, 1), whole.run(place, 1), strict=True):
        assert np.allclose(found, wanted, rtol=1e-6, atol=1e-6)
    exe, scope = fluid.Executor(fluid.Place(place)), fluid.Scope()
    exe.run(rows.startup, scope=scope)
    p, m, v = (np.array(scope.tensor("w")), *np.zeros((2, HEIGHT, WIDTH)))
    for step, ids in enumerate(([1, 2, 2], [2, 5, 5], [1, 1, 1]), 1):
        feed = {"a": np.reshape(ids, (3, 1)), "b": np.full((3, 1), 7)}
        (g,) = exe.run(rows.main, feed=feed, fetch_list=["w@GRAD"], scope=scope)
        at = sorted({*ids, 7})
        m[at], v[at] = 0.9 * m[at] + 0.1 * g[at], 0.999 * v[at] + 0.001 * g[at] ** 2
        rate = 0.1 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        p[at] -= rate * m[at] / (np.sqrt(v[at]) + 1e-8)
        assert np.allclose(scope.tensor("w"), p, rtol=1e-5, atol=1e-6)
        assert np.allclose(scope.tensor("w_moment1_0"), m, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", ["sgd", "adagrad", "adam"])
def test_the_padding_row_gets_no_gradient(name: str, place: str) -> None:
    make = {**OPTIMIZERS, "adam": lambda: fluid.optimizer.Adam(0.1)}[name]
    _, gradient, table = Model(True, make(), padding=3).run(place)
    start = Model(True, make(), padding=3).run(place, 0)[2]
    assert not gradient[3].any() and np.array_equal(table[3], start[3])
    if name != "adam":
        _same(Model(True, make(), padding=3), Model(False, make(), padding=3), place)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "clip",
    [
        fluid.clip.GradientClipByValue(0.01),
        fluid.clip.GradientClipByValue(0.02, 0.01),
        fluid.clip.GradientClipByNorm(0.05),
        fluid.clip.GradientClipByGlobalNorm(0.05),
    ],
    ids=["value", "value without 0", "norm", "global norm"],
)
def test_clips_of_sparse_rows(clip: Any, place: str) -> None:
    make = OPTIMIZERS["sgd"]
    _same(Model(True, make(), clip=clip), Model(False, make(), clip=clip), place)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("decay", [fluid.regularizer.L2Decay(0.1), fluid.regularizer.L1Decay(0.1)])
def test_regularization_acts_on_the_rows_alone_that_have_a_gradient(decay: Any, place: str) -> None:
    make = OPTIMIZERS["sgd"]
    rows = Model(True, make(), regularizer=decay).run(place, 1)[2]
    whole = Model(False, make(), regularizer=decay).run(place, 1)[2]
    start = Model(True, make(), regularizer=decay).run(place, 0)[2]
    touched = np.random.default_rng(0).integers(0, 8, (2, BATCH))
    at = np.unique(touched)
    assert np.allclose(rows[at], whole[at], rtol=1e-6, atol=1e-6)
    others = np.setdiff1d(np.arange(HEIGHT), at)
    assert np.array_equal(rows[others], start[others]) and not np.allclose(whole[others], start[others])


@pytest.mark.parametrize("place", PLACES)
def test_a_sum_with_a_matrix_is_one(place: str) -> None:
    make = OPTIMIZERS["adagrad"]
    model = Model(True, make(), is_factor=True)
    assert model.main.global_block().var("w@GRAD").type == fluid.core.VarDesc.VarType.LOD_TENSOR
    _same(model, Model(False, make(), is_factor=True), place)


def test_gradients_and_their_sums_say_what_they_hold() -> None:
    block = Model(
        True, fluid.optimizer.SGD(0.1), regularizer=fluid.regularizer.L2Decay(0.1)
    ).main.global_block()
    kinds = {name: v.holds for name, v in block.view.variables.items() if v.holds == "selected_rows"}
    assert {"w@GRAD", "w@GRAD@RENAME@0", "w@GRAD@RENAME@1"} <= set(kinds)
    again = fluid.Program.parse_from_string(block.program.desc.serialize_to_string())
    assert str(again) == str(block.program)
    assert block.var("w@GRAD").shape == (HEIGHT, WIDTH)


@pytest.mark.parametrize("name", ["sgd", "adagrad", "adam", "decay", "norm"])
def test_nothing_of_the_size_of_the_table_is_computed(name: str) -> None:
    decay = fluid.regularizer.L2Decay(0.1) if name == "decay" else None
    clip = fluid.clip.GradientClipByGlobalNorm(1.0) if name == "norm" else None
    make = {**OPTIMIZERS, "adam": lambda: fluid.optimizer.Adam(0.1)}.get(name, OPTIMIZERS["sgd"])
    program = Model(True, make(), regularizer=decay, clip=clip, height=1000).main.view.copy()
    for name in "ab":
        program.top.visible(name).type = program_of(program.module).top.visible(name).type
        program.top.visible(name).type = type(program.top.visible("w").type)(
            (BATCH, 1), program.top.visible(name).element
        )
    module = lower(_with_feeds(program)).module
    # Of its height are the table and its states, and what they become: scatters, which write in place.
    made = {op.name for op in module.ops[0].block.ops for r in op.results if 1000 in shape_of(r.type)}
    assert made == {"ng.scatter"}


def _with_feeds(program: Any) -> Any:
    from ngmlir.frontends.fluid.feeding import with_io

    return with_io(program, dict.fromkeys("ab", np.zeros((BATCH, 1), np.int64)), [])


@pytest.mark.parametrize("place", PLACES)
def test_rows_of_several_and_of_no_ids(place: str) -> None:
    model = Model(True, OPTIMIZERS["adagrad"]())
    exe, scope = fluid.Executor(fluid.Place(place)), fluid.Scope()
    exe.run(model.startup, scope=scope)
    for count in (1, 2, 0, 3):
        before = np.array(scope.tensor("w"))
        feed = {name: np.arange(count).reshape(count, 1) for name in "ab"}
        exe.run(model.main, feed=feed, scope=scope)
        changed = np.flatnonzero((before != np.array(scope.tensor("w"))).any(1))
        assert [*changed] == [*range(count)]


def test_a_run_operator_by_operator_shows_the_matrices() -> None:
    model = Model(True, OPTIMIZERS["sgd"]())
    exe, scope = fluid.Executor(), fluid.Scope()
    exe.run(model.startup, scope=scope)
    seen: dict[str, Any] = {}
    feed = {name: np.full((2, 1), 4) for name in "ab"}
    exe.run(model.main, feed=feed, scope=scope, stepped=lambda step: seen.update(step.values))
    assert [*np.flatnonzero(seen["w@GRAD"].any(1))] == [4]


@pytest.mark.parametrize("stepped", [False, True])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", ["fed", "reshaped", "computed"])
def test_a_number_that_is_no_row_is_refused_and_changes_nothing(kind: str, place: str, stepped: bool) -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        ids = layers.data("ids", [1], dtype="int64")
        if kind == "reshaped":
            ids = layers.reshape(ids, [-1, 1])
        elif kind == "computed":
            ids = ids + layers.fill_constant([1], "int64", 1)
        cost = layers.mean(layers.embedding(ids, [10, 4], is_sparse=True, param_attr="w"))
        fluid.optimizer.SGD(0.1).minimize(cost)
    exe, scope = fluid.Executor(fluid.Place(place)), fluid.Scope()
    exe.run(startup, scope=scope)
    before = np.array(scope.tensor("w"))
    for wrong in (10, -3):
        with pytest.raises(UserError, match="there is no row") as caught:
            exe.run(main, feed={"ids": np.array([[1], [wrong], [2]])}, scope=scope, stepped=stepped)
        (said,) = caught.value.diagnostics
        assert said.location.file == __file__ and "at [1, 0] of" in said.hint and "from 0 to 9" in said.hint
        assert np.array_equal(before, scope.tensor("w"))
    exe.run(main, feed={"ids": np.array([[1], [8], [2]])}, scope=scope, stepped=stepped)
    assert not np.array_equal(before, scope.tensor("w"))
