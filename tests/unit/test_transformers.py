# SPDX-License-Identifier: Apache-2.0
"""Transformers: computations, feeding, state from run to run, life cycle; the same on every backend here."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir import transformers as ngt
from ngmlir.ops.words import to_text

C, N = ng.make_axis(3, "C"), ng.make_axis(4, "N")


@pytest.fixture(params=["numpy", "cpu", "cuda-sim"])
def transformer(request: pytest.FixtureRequest) -> Iterator[ngt.Transformer]:
    with closing(ngt.make_transformer(request.param)) as made:
        yield made


@pytest.mark.parametrize("module", ["files", "computations", "transformer"])
def test_modules_can_be_imported_before_there_is_a_transformer(module: str) -> None:
    subprocess.run([sys.executable, "-c", f"import ngmlir.transformers.{module}"], check=True)


def test_shapes_of_returns(transformer: ngt.Transformer) -> None:
    x = ng.placeholder((), initial_value=3)
    y, update = x + 1, ng.Op
    with ng.Op.saved_user_deps():
        update = ng.assign(x, x * 1)
    one = transformer.computation(y)()
    assert isinstance(one, np.ndarray) and one.shape == () and one == 4
    assert transformer.computation([y, x])() == (4, 3)
    assert transformer.computation((y,))() == (4,)
    assert transformer.computation({y, x})() == {y: 4, x: 3}
    assert transformer.computation({"a": y})() == {"a": 4}
    assert transformer.computation(None)() is None
    assert transformer.computation(update)() is None
    assert transformer.computation([y, update, y])() == (4, None, 4)


def test_feeding(transformer: ngt.Transformer) -> None:
    x, k = ng.placeholder([C, N]), ng.placeholder([N], dtype="i32")
    double, same = x * 2, k[:]
    run = transformer.computation([double, same], x, k)
    a = np.arange(12.0).reshape(3, 4)
    made = run(a, [1, 2, 3, 4])
    assert made[0].dtype == np.float32 and made[1].dtype == np.int32
    np.testing.assert_array_equal(made[0], a * 2)
    np.testing.assert_array_equal(run(1, 2.0)[0], np.full((3, 4), 2))  # scalars broadcast
    assert run(a[:1], 2.0)[1].tolist() == [2] * 4  # whole numbers are integers
    for wrong, held in ((2.9, "2.9"), (2**40, "1099511627776"), ([1, 2, 3, 0.5], r"0.5 at \[3\]")):
        with pytest.raises(ng.UserError, match=f"holds {held}, which i32 cannot hold"):
            run(a, wrong)
    np.testing.assert_array_equal(run(feed_dict={k: 0, x: a})[0], a * 2)
    np.testing.assert_array_equal(made[0], a * 2)  # later runs leave earlier results alone
    with pytest.raises(ng.UserError, match=r"2 values \(.*\), but 1 was given"):
        run(a)
    with pytest.raises(KeyError):
        run(feed_dict={x: a})
    with pytest.raises(ng.UserError, match="feed_dict"):
        run(a, feed_dict={k: 0})
    with pytest.raises(ng.UserError, match=r"C: 3, N: 4\), a value of shape \(2, 4\)"):
        run(a[:2], 0)


def test_parameters_are_checked_when_the_computation_is_made(transformer: ngt.Transformer) -> None:
    x, y = ng.placeholder([C]), ng.placeholder([C])
    total = x + y
    with pytest.raises(
        ng.MissingPlaceholder,
        match=r"test_transformers.py:\d+[\s\S]*it was created at .*test_transformers.py",
    ):
        transformer.computation(total, x)
    with pytest.raises(ng.NotAssignable):
        transformer.computation(total, x, y, total)
    with pytest.raises(ng.UserError, match="twice"):
        transformer.computation(total, x, y, x)
    assert transformer.computation(total, "all")(1, 2).tolist() == [3, 3, 3]


def test_state_is_shared_by_computations_and_kept(transformer: ngt.Transformer) -> None:
    w = ng.variable([C], initial_value=lambda axes: np.arange(axes[0].length))
    step = ng.placeholder(())
    with ng.Op.saved_user_deps():
        update = ng.assign(w, w + step)
    move, look = transformer.computation(update, step), transformer.computation([w, w * 10])
    assert look()[0].tolist() == [0, 1, 2]
    move(2)
    move(1)
    assert look()[0].tolist() == [3, 4, 5] and look()[1].tolist() == [30, 40, 50]
    late = transformer.computation(w + 1)  # at any time
    assert late().tolist() == [4, 5, 6]
    with closing(ngt.make_transformer("numpy")) as other:
        assert other.computation(w)().tolist() == [0, 1, 2]


def test_fed_variables_keep_the_value(transformer: ngt.Transformer) -> None:
    w = ng.variable([C], initial_value=1)
    assert transformer.computation(w * 2, w)([5, 6, 7]).tolist() == [10, 12, 14]
    assert transformer.computation(w + 0)().tolist() == [5, 6, 7]


def test_placeholders_with_initial_values_may_be_left_out(transformer: ngt.Transformer) -> None:
    x = ng.placeholder((), initial_value=4)
    y = x * 2
    assert transformer.computation(y)() == 8
    assert transformer.computation(y, x)(5) == 10


def test_a_fed_placeholder_can_be_assigned(transformer: ngt.Transformer) -> None:
    x = ng.placeholder([C])
    s = ng.sequential([ng.assign(x, x + 1), x * 10])
    run = transformer.computation([s, x], x)
    fed = np.array([1, 2, 3], np.float32)
    out, after = run(fed)
    assert out.tolist() == [20, 30, 40] and after.tolist() == [2, 3, 4] and fed.tolist() == [1, 2, 3]


def test_reading_what_has_no_value(transformer: ngt.Transformer) -> None:
    w = ng.variable([C])
    read = transformer.computation(w + 1)
    with pytest.raises(ngt.UninitializedVariable, match=r"read before it is initialized[\s\S]*initial_value"):
        read()
    with ng.Op.saved_user_deps():
        transformer.computation(ng.assign(w, np.ones(3)))()
    assert read().tolist() == [2, 2, 2]


def test_tensor_views(transformer: ngt.Transformer) -> None:
    w = ng.variable([C, N], initial_value=np.arange(12).reshape(3, 4))
    total = transformer.computation(ng.sum(w, out_axes=()))
    view = transformer.get_op_tensor_view(w)
    view[1] = 100
    assert total() == np.arange(12).sum() - (4 + 5 + 6 + 7) + 400
    assert view[1].tolist() == [100] * 4 and view.shape == (3, 4) and view.dtype == np.float32
    column = transformer.get_op_tensor_view(w[:, 1])
    assert column.get().tolist() == [1, 100, 9]
    column[...] = 0
    held = np.empty((3, 4), np.float32)
    assert transformer.get_tensor_view_value(w, held) is held
    assert held[:, 1].tolist() == [0, 0, 0] and held[0, 0] == 0 and held[2, 3] == 11
    with pytest.raises(ng.NotAssignable, match="computed"):
        transformer.get_op_tensor_view(w + 1)


def trained(images: Any, labels: Any, w: Any, v: Any, steps: int) -> list[float]:
    """The losses of the training below, with the derivatives taken by hand."""
    w, v, b = w.copy(), v.copy(), np.zeros((len(w), 1))
    targets = np.eye(len(v))[labels].T
    losses = []
    for _ in range(steps):
        h = np.tanh(w @ images + b)
        e = np.exp(v @ h)
        y = e / e.sum(0)
        losses.append(-np.log((y * targets).sum(0)).mean())
        dy = (y - targets) / images.shape[1]
        dh = (v.T @ dy) * (1 - h * h)
        v, w, b = v - 0.5 * dy @ h.T, w - 0.5 * dh @ images.T, b - 0.5 * dh.sum(1, keepdims=True)
    return losses


def test_training_is_what_it_is_by_hand(transformer: ngt.Transformer) -> None:
    rng = np.random.RandomState(0)
    samples, hidden, classes = ng.make_axis(8, "N"), ng.make_axis(5, "H"), ng.make_axis(3, "Y")
    features = ng.make_axis(7, "F")
    start_w, start_v = rng.randn(5, 7) / 3, rng.randn(3, 5) / 3
    images, labels = rng.randn(7, 8), rng.randint(0, 3, 8)

    x, t = ng.placeholder([features, samples]), ng.placeholder([samples], dtype="i32")
    w = ng.variable([hidden, features], initial_value=start_w)
    b = ng.variable([hidden], initial_value=0)
    v = ng.variable([classes, hidden], initial_value=start_v)
    y = ng.softmax(ng.dot(v, ng.tanh(ng.dot(w, x) + b)))
    loss = ng.mean(ng.cross_entropy_multi(y, ng.one_hot(t, classes)), out_axes=())
    assert loss.variables() == [w, b, v]
    with ng.Op.saved_user_deps():
        steps = ng.doall([ng.assign(p, p - 0.5 * ng.deriv(loss, p)) for p in loss.variables()])
    train = transformer.computation([loss, steps], x, t)
    losses = [float(train(images, labels)[0]) for _ in range(20)]
    np.testing.assert_allclose(losses, trained(images, labels, start_w, start_v, 20), rtol=1e-4)


def test_life_cycle() -> None:
    with ngt.make_transformer("numpy") as made:
        w = ng.variable((), initial_value=2)
        op = ng.computation(w + 1)
        run = made.add_computation(op)
        assert made.add_computation(op) is run
        made.initialize()
        assert run.executor is not None and "ng.add" in to_text(run.module)
        made.allocate()
        assert run() == 3
        assert made.get_default_tolerance(np.ones(1)) == (1e-5, 1e-8)
    with pytest.raises(ng.UserError, match="closed"):
        run()
    with pytest.raises(ng.UserError, match="closed"):
        made.computation(w)


def test_factories(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ngt.transformer_choices() == ["numpy", "cpu", "cuda", "cuda-sim"]
    factory = ngt.make_transformer_factory("numpy")
    assert factory.name == "numpy" and type(factory()).__name__ == "NumPyTransformer"
    monkeypatch.setattr(ngt, "_factory", None)
    assert ngt.make_transformer().transformer_name == "cpu"
    ngt.set_transformer_factory(factory)
    assert ngt.make_transformer().transformer_name == "numpy"
    assert ngt.Transformer.transformers["cpu"] is type(ngt.allocate_transformer("cpu"))
    with pytest.raises(ngt.UnsupportedTransformerException, match="cuda-sim"):
        ngt.make_transformer("abacus")


# ---- ngmlir.testing


def test_executors() -> None:
    x = ng.placeholder([C])
    with ng.testing.executor(x * 2, x, transformer="numpy") as run:
        assert run([1, 2, 3]).tolist() == [2, 4, 6]
    with ng.testing.ExecutorFactory(ngt.make_transformer("numpy")) as factory:
        w = ng.variable([C], initial_value=1)
        assert factory.executor(w * x, x)([1, 2, 3]).tolist() == [1, 2, 3]
        assert factory.get_tensor_view_value(w).tolist() == [1, 1, 1]
        y = ng.square(x)[1:]
        np.testing.assert_allclose(factory.derivative(y, x)([1, 2, 3]), [[0, 4, 0], [0, 0, 6]])
        np.testing.assert_allclose(
            factory.numeric_derivative(y, x, 1e-2)(np.array([1, 2, 3], np.float32)),
            [[0, 4, 0], [0, 0, 6]],
            atol=1e-3,
        )


def test_derivative_checks() -> None:
    x, w = ng.placeholder([C]), ng.placeholder([C])
    rng = ng.testing.RandomTensorGenerator(3)
    values = rng.uniform(-1, 1, [C])
    ng.testing.check_derivative(
        ng.tanh(x) * w, x, 1e-2, values, [w], [[1, 2, 3]], transformer="numpy", atol=1e-3
    )
    with pytest.raises(AssertionError):
        ng.testing.check_derivative(
            ng.stop_gradient(x) * w, x, 1e-2, values, [w], [[1, 2, 3]], transformer="numpy", atol=1e-3
        )
    with pytest.raises(ng.UserError, match="int"):
        ng.testing.numeric_derivative(lambda v: v, np.arange(3), 1e-3)


def test_random_tensors_and_tolerances() -> None:
    rng = ng.testing.RandomTensorGenerator(1, np.float64)
    made: Any = rng.normal(0, 1, [C, N])
    rng.reset(1)
    np.testing.assert_array_equal(made, rng.normal(0, 1, [C, N]))
    assert made.dtype == np.float64 and made.shape == (3, 4)
    assert set(np.unique(rng.random_integers(1, 2, [ng.make_axis(50)]))) == {1, 2}
    assert rng.discrete_uniform(0, 1, 0.25, [C]).max() < 1
    assert rng.randn_abs_clip([C], 0.1, 0.2).min() >= 0.1
    ng.testing.assert_allclose(1.000001, 1.0)
    with pytest.raises(AssertionError):
        ng.testing.assert_allclose(1.000001, 1.0, transformer_overwrite=False)


def test_the_first_call_gives_all_state_its_initial_values(transformer: ngt.Transformer) -> None:
    made: list[str] = []

    def initial(name: str) -> Any:
        return lambda axes: made.append(name) or np.ones(axes.lengths)

    late = ng.make_axis(name="L")
    first = ng.variable([C], initial_value=initial("first"))
    second = ng.variable([C], initial_value=initial("second"))
    third = ng.variable([late], initial_value=initial("third"))
    by_second, by_first = transformer.computation(second * 2), transformer.computation(first * 3)
    by_third = transformer.computation(third + 1)
    assert made == ["first", "second"]  # when they are made, where the lengths are known
    assert not any(transformer.storage_of(each).is_allocated for each in (first, second, third))
    assert by_second().tolist() == [2, 2, 2]
    allocated = [transformer.storage_of(each).is_allocated for each in (first, second, third)]
    assert allocated == [True, True, False]  # whatever is called
    assert by_first().tolist() == [3, 3, 3]
    late.length = 2
    assert by_third().tolist() == [2, 2] and made == ["first", "second", "third"]
    fourth = ng.variable([C], initial_value=initial("fourth"))
    assert transformer.computation(fourth + first)().tolist() == [2, 2, 2] and made[3:] == ["fourth"]


# ---- what transformers are asked


def test_layouts_are_the_order_of_axes(transformer: ngt.Transformer) -> None:
    x = ng.placeholder([C, N])
    turned = ng.axes_with_order(x, [N, C]) + 1
    (mine,), (other,) = transformer.get_layouts(x), transformer.get_layouts(turned)
    assert mine.axes == ("C", "N") and other.axes == ("N", "C")
    assert transformer.get_layout_cost_function(x).get_cost(mine) == 0
    assert transformer.get_layout_cost_function(x).get_cost(other) == float("inf")
    change = transformer.get_layout_change_cost_function(turned, x)
    assert change.get_cost(mine, other) == 0 and change.get_cost(other, other) == 2 * 3 * 4 * 4


def test_numbers_of_outputs_are_kept_for_a_file(transformer: ngt.Transformer, tmp_path: Path) -> None:
    x = ng.placeholder([C], name="x")
    run = transformer.computation([ng.log(x).named("y"), x], x, name="step")
    with pytest.raises(ng.UserError, match="no statistics file"):
        transformer.save_output_statistics_file()
    run([1, 1, 1])
    transformer.set_output_statistics_file(tmp_path / "outputs.json")
    run([1, 2, 3])
    run([0, 2, 5])
    transformer.save_output_statistics_file()
    found = json.loads((tmp_path / "outputs.json").read_text())
    assert found["step"]["x"] == {
        "calls": 2,
        "nonfinite": 0,
        "min": 0,
        "max": 5,
        "mean": pytest.approx(13 / 6),
    }
    assert found["step"]["y"]["nonfinite"] == 1 and found["step"]["y"]["min"] == 0
    transformer.set_output_statistics_file(None)
    run([9, 9, 9])
    assert transformer.statistics is None
