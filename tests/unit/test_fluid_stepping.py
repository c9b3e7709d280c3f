# SPDX-License-Identifier: Apache-2.0
"""Programs operator by operator, and the first operator that gives a NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ngmlir.frontends.fluid as fluid
from ngmlir.support.diagnostics import UserError

layers = fluid.layers
PLACES = [fluid.NumpyPlace(), fluid.CPUPlace(), fluid.Place("cuda-sim")]
by_place = pytest.mark.parametrize("place", PLACES, ids=["numpy", "cpu", "cuda-sim"])


def _model() -> tuple[fluid.Program, fluid.Program, fluid.Variable]:
    """A small network with dropout, and one step of its training."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = layers.data("x", [3])
        hidden = layers.dropout(layers.fc(x, 4, act="tanh"), 0.25)
        loss = layers.mean(layers.log(layers.fc(hidden, 2, bias_attr=fluid.initializer.Constant(4.0))))
        fluid.optimizer.Momentum(0.1, 0.9).minimize(loss)
    return main, startup, loss


def _state(scope: fluid.Scope) -> dict[str, Any]:
    return {name: np.array(scope.tensor(name)) for name in scope.local_var_names()}


@by_place
def test_step_by_step_is_the_same_program(place: fluid.Place) -> None:
    main, startup, loss = _model()
    executor, whole, stepped = fluid.Executor(place), fluid.Scope(), fluid.Scope()
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    for scope in (whole, stepped):
        executor.run(startup, scope=scope)
    for _ in range(3):
        steps: list[fluid.executor.Step] = []
        (want,) = executor.run(main, feed={"x": x}, fetch_list=[loss], scope=whole)
        (got,) = executor.run(main, feed={"x": x}, fetch_list=[loss], scope=stepped, stepped=steps.append)
        np.testing.assert_allclose(got, want, rtol=1e-6)
    assert [s.type for s in steps] == [op.type for op in main.global_block().ops]
    assert [s.number for s in steps] == list(range(1, len(steps) + 1))
    for name, value in _state(whole).items():
        np.testing.assert_allclose(_state(stepped)[name], value, rtol=1e-5, atol=1e-7)


def test_a_step_has_its_line_and_what_it_reads_and_writes() -> None:
    main, startup, loss = _model()
    executor, scope = fluid.Executor(fluid.NumpyPlace()), fluid.Scope()
    executor.run(startup, scope=scope)
    steps: list[fluid.executor.Step] = []
    x = np.ones((1, 3), np.float32)
    (value,) = executor.run(main, feed={"x": x}, fetch_list=[loss], scope=scope, stepped=steps.append)
    first, mean = steps[0], next(s for s in steps if s.type == "mean")
    assert list(first.inputs) == ["x", "fc_0.w_0"] and list(first.values) == ["fc_0.tmp_0"]
    np.testing.assert_array_equal(first.values["fc_0.tmp_0"], x @ first.inputs["fc_0.w_0"])
    assert mean.values[loss.name] == value and mean.location.file == __file__
    assert str(mean).startswith(f"step {mean.number}: mean gives {loss.name} = [") and "stepping.py:" in str(
        mean
    )


@by_place
def test_the_first_nan_is_told_with_its_operator_and_line(place: fluid.Place) -> None:
    main, startup, loss = _model()
    executor, scope = fluid.Executor(place), fluid.Scope()
    executor.run(startup, scope=scope)
    scope.tensor("fc_1.b_0").set(np.array([4, -4], np.float32))
    before = _state(scope)
    feed = {"x": np.zeros((2, 3), np.float32)}
    with pytest.raises(UserError) as caught:
        executor.run(main, feed=feed, fetch_list=[loss], scope=scope, check_nan_inf=True)
    (found,) = caught.value.diagnostics
    assert found.message.startswith("operator log gives nan at [0, 1] of 'log_0.tmp_0'")
    assert "'fc_1.tmp_1' is -4.0 there" in found.hint
    assert found.location.file == __file__ and "layers.log(" in str(found)
    after = _state(scope)
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    # Without the check the same run goes through.
    assert np.isnan(executor.run(main, feed=feed, fetch_list=[loss], scope=scope)[0]).all()


def test_infinities_and_values_that_were_fed_are_told_too() -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x = layers.data("x", [2])
        y = layers.exp(layers.scale(x, 1.0))
    executor = fluid.Executor(fluid.NumpyPlace())
    for value, said in (
        (1000.0, "operator exp gives inf at [0, 1]"),
        (np.nan, "operator scale gives nan at [0, 1]"),
    ):
        with pytest.raises(UserError, match="gives") as caught:
            executor.run(main, {"x": np.array([[0, value]], np.float32)}, [y], check_nan_inf=True)
        assert caught.value.diagnostics[0].message.startswith(said)
    assert "'x' holds nan already" in caught.value.diagnostics[0].hint


def test_the_environment_asks_for_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        y = layers.log(layers.data("x", [1]))
    feed = {"x": np.full((1, 1), -1, np.float32)}
    monkeypatch.setenv("FLAGS_check_nan_inf", "1")
    executor = fluid.Executor()
    with pytest.raises(UserError, match="operator log gives nan"):
        executor.run(main, feed, [y])
    assert np.isnan(executor.run(main, feed, [y], check_nan_inf=False)[0]).all()


def test_operators_that_nothing_fetched_depends_on_are_checked_too() -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x = layers.data("x", [1])
        layers.log(x)
        y = layers.scale(x, 2.0)
    with pytest.raises(UserError, match="operator log gives -inf"):
        fluid.Executor().run(main, {"x": np.zeros((1, 1), np.float32)}, [y], check_nan_inf=True)


def test_a_run_that_a_watcher_leaves_changes_nothing() -> None:
    main, startup, loss = _model()
    executor, scope = fluid.Executor(), fluid.Scope()
    executor.run(startup, scope=scope)
    before = _state(scope)

    def leave(step: fluid.executor.Step) -> None:
        if step.type == "momentum":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        executor.run(main, {"x": np.ones((2, 3), np.float32)}, [loss], scope=scope, stepped=leave)
    after = _state(scope)
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_an_uninitialised_variable_asks_for_the_startup_program() -> None:
    main, _, loss = _model()
    for given in ({}, {"stepped": True}, {"check_nan_inf": True}):
        with pytest.raises(UserError, match="has no value in this scope") as caught:
            fluid.Executor().run(
                main, {"x": np.ones((2, 3), np.float32)}, [loss], scope=fluid.Scope(), **given
            )
        assert "run the start-up program first" in caught.value.diagnostics[0].hint
