# SPDX-License-Identifier: Apache-2.0
"""Saving and loading, what is fed, readers and metrics of `fluid`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from ngmlir.frontends import fluid
from ngmlir.frontends.fluid import layers

pytestmark = pytest.mark.usefixtures("programs")


def trained(steps: int) -> tuple[fluid.Executor, fluid.Variable, dict[str, np.ndarray]]:
    x, y = layers.data("x", [4]), layers.data("y", [1])
    guess = layers.fc(layers.fc(x, 5, act="tanh"), 1)
    fluid.optimizer.Adam(0.05).minimize(layers.mean(layers.square_error_cost(guess, y)))
    fluid.default_startup_program().random_seed = 3
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    draw = np.random.default_rng(0)
    feed = {
        "x": draw.normal(size=(8, 4)).astype(np.float32),
        "y": draw.normal(size=(8, 1)).astype(np.float32),
    }
    for _ in range(steps):
        exe.run(feed=feed)
    return exe, guess, feed


def state() -> dict[str, np.ndarray]:
    scope = fluid.global_scope()
    return {
        v.name: np.array(scope.tensor(v.name))
        for v in fluid.default_main_program().list_vars()
        if v.persistable
    }


@pytest.mark.parametrize("filename", [None, "all"])
def test_training_goes_on_from_a_checkpoint_bit_for_bit(tmp_path: Path, filename: str | None) -> None:
    exe, _, feed = trained(3)
    fluid.io.save_persistables(exe, str(tmp_path), filename=filename)
    for _ in range(4):
        exe.run(feed=feed)
    wanted = state()
    exe.run(fluid.default_startup_program())
    fluid.io.load_persistables(exe, str(tmp_path), filename=filename)
    for _ in range(4):
        exe.run(feed=feed)
    found = state()
    assert all(np.array_equal(found[name], value) for name, value in wanted.items())


def test_equal_states_are_equal_files(tmp_path: Path) -> None:
    exe, _, _ = trained(1)
    for name in ("a", "b"):
        fluid.io.save_params(exe, str(tmp_path / name), filename="all")
    assert (tmp_path / "a" / "all").read_bytes() == (tmp_path / "b" / "all").read_bytes()


@pytest.mark.parametrize(
    "damage", [lambda d: d[:-7], lambda d: d[:300] + b"x" + d[301:], lambda d: b"no", lambda d: b""]
)
def test_damaged_files_change_nothing(tmp_path: Path, damage: object) -> None:
    exe, _, _ = trained(1)
    fluid.io.save_params(exe, str(tmp_path), filename="all")
    path = tmp_path / "all"
    path.write_bytes(damage(path.read_bytes()))  # pyright: ignore[reportCallIssue]
    before = state()
    with pytest.raises(ValueError, match="altered|no file of variables"):
        fluid.io.load_params(exe, str(tmp_path), filename="all")
    assert all(np.array_equal(before[name], value) for name, value in state().items())


def test_files_of_another_program_are_refused(tmp_path: Path) -> None:
    exe, _, _ = trained(1)
    fluid.io.save_params(exe, str(tmp_path))
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        layers.fc(layers.data("x", [3]), 5)
        with pytest.raises(ValueError, match=r"is float32 of shape \[3, 5\]"):
            fluid.io.load_params(exe, str(tmp_path))
    with pytest.raises(ValueError, match="cannot read"):
        fluid.io.load_params(exe, str(tmp_path / "nowhere"))


@pytest.mark.parametrize("params", [None, "params"])
def test_inference_models(tmp_path: Path, params: str | None) -> None:
    exe, guess, feed = trained(2)
    wanted = exe.run(fluid.default_main_program().clone(for_test=True), feed=feed, fetch_list=[guess])[0]
    fluid.io.save_inference_model(str(tmp_path), ["x"], [guess], exe, params_filename=params)
    with fluid.scope_guard(fluid.Scope()):
        program, feeds, fetches = fluid.io.load_inference_model(str(tmp_path), exe, params_filename=params)
        assert feeds == ["x"]
        assert [o.type for o in program.global_block().ops] == [
            "mul",
            "elementwise_add",
            "tanh",
            "mul",
            "elementwise_add",
        ]
        found = exe.run(program, feed={"x": feed["x"]}, fetch_list=fetches)[0]
    assert np.array_equal(found, wanted)
    with pytest.raises(ValueError, match="needs 'x'|need 'x'"):
        fluid.io.save_inference_model(str(tmp_path), [], [guess], exe)


def test_a_save_that_fails_leaves_the_files(tmp_path: Path) -> None:
    exe, _, feed = trained(1)
    fluid.io.save_params(exe, str(tmp_path), filename="all")
    before = (tmp_path / "all").read_bytes()
    with fluid.scope_guard(fluid.Scope()), pytest.raises(ValueError, match="no value for"):
        fluid.io.save_params(exe, str(tmp_path), filename="all")
    assert (tmp_path / "all").read_bytes() == before
    assert os.listdir(tmp_path) == ["all"]


# ---- feeds and readers


def test_data_feeder() -> None:
    x = layers.data("x", [2, 2])
    layers.data("y", [1], dtype="int64")
    words = layers.data("words", [1], dtype="int64", lod_level=1)
    feeder = fluid.DataFeeder([x, "y", words])
    made = feeder.feed([([1, 2, 3, 4], 0, [5, 6]), ([5, 6, 7, 8], 1, [7])])
    assert np.array(made["x"]).shape == (2, 2, 2)
    assert np.array(made["y"]).tolist() == [[0], [1]]
    assert np.array(made["words"]).tolist() == [[5], [6], [7]]
    assert made["words"].lod() == [[0, 2, 3]]
    with pytest.raises(ValueError, match="row 0 has 2 values"):
        feeder.feed([(1, 2)])
    for label, message in (
        (1.5, "'y' holds int64, and is given 1.5"),
        (np.nan, "is given nan"),
        (2.0**70, "is given"),
    ):
        with pytest.raises(ValueError, match=message):
            feeder.feed([([1, 2, 3, 4], label, [])])
    assert np.array(feeder.feed([([1, 2, 3, 4], 2.0, [])])["y"]).tolist() == [[2]]


def test_tensors_of_sequences() -> None:
    made = fluid.create_lod_tensor([[1, 2], [3]], [[2, 1]], fluid.CPUPlace())
    assert np.array(made).tolist() == [[1], [2], [3]]
    assert (made.lod(), made.recursive_sequence_lengths()) == ([[0, 2, 3]], [[2, 1]])
    with pytest.raises(ValueError, match=r"is given 1\.5"):
        fluid.create_lod_tensor([[1, 1.5]], [[2]], None)
    none = fluid.create_lod_tensor([], [[]], None)
    assert np.array(none).shape == (0, 1) and none.recursive_sequence_lengths() == [[]]
    with pytest.raises(ValueError, match="the lists have the lengths"):
        fluid.create_lod_tensor([[1, 2], [3]], [[1, 2]], fluid.CPUPlace())
    with pytest.raises(ValueError, match="are not cut into"):
        fluid.create_lod_tensor(np.zeros((4, 2)), [[2, 1]], fluid.CPUPlace())
    for wrong, message in (
        ([1, 2], "begin with 1, not with 0"),
        ([], "begin with nothing"),
        ([0, 3, 2], "fall from 3"),
    ):
        with pytest.raises(ValueError, match=message) as error:
            made.set_lod([wrong])
        assert __file__ in str(error.value)
    two = fluid.create_lod_tensor(np.zeros((6, 1)), [[2, 1], [2, 1, 3]], fluid.CPUPlace())
    assert two.lod() == [[0, 2, 3], [0, 2, 3, 6]]
    drawn = fluid.create_random_int_lodtensor([[3, 0, 2]], [4], fluid.CPUPlace(), 2, 3)
    assert np.array(drawn).shape == (5, 4)
    assert set(np.unique(np.array(drawn))) <= {2, 3}


def test_readers() -> None:
    def five() -> Iterator[int]:
        return iter(range(5))

    assert list(fluid.batch(five, 2)()) == [[0, 1], [2, 3], [4]]
    assert list(fluid.batch(five, 2, drop_last=True)()) == [[0, 1], [2, 3]]
    assert list(fluid.reader.map_readers(lambda a, b: a + b, five, five)()) == [0, 2, 4, 6, 8]
    assert sorted(fluid.reader.shuffle(five, 3)()) == [0, 1, 2, 3, 4]
    assert list(fluid.reader.chain(five, five)()) == [*range(5), *range(5)]
    assert list(fluid.reader.compose(five, lambda: iter([(1, 2)] * 5))())[1] == (1, 1, 2)
    with pytest.raises(ValueError, match="different numbers of rows"):
        list(fluid.reader.compose(five, lambda: iter([1]))())
    assert list(fluid.reader.firstn(five, 2)()) == [0, 1]
    assert list(fluid.reader.buffered(five, 2)()) == [0, 1, 2, 3, 4]
    assert list(fluid.reader.xmap_readers(lambda x: x * x, five, 2, 3)()) == [0, 1, 4, 9, 16]
    cached = fluid.reader.cache(five)
    assert list(cached()) == list(cached()) == [0, 1, 2, 3, 4]

    def broken() -> Iterator[int]:
        yield 1
        raise RuntimeError("read")

    with pytest.raises(RuntimeError, match="read"):
        list(fluid.reader.buffered(broken, 2)())


def test_metrics_of_uneven_batches_are_those_of_all_rows() -> None:
    draw = np.random.default_rng(0)
    p = draw.uniform(size=(50, 1))
    preds, labels = np.concatenate([1 - p, p], 1), draw.integers(0, 2, (50, 1))
    for make in (lambda: fluid.metrics.Auc(), lambda: fluid.metrics.Auc(curve="PR")):
        whole, parts = make(), make()
        whole.update(preds, labels)
        for cut in (slice(0, 7), slice(7, 30), slice(30, 50)):
            parts.update(preds[cut], labels[cut])
        assert whole.eval() == parts.eval()
        parts.reset()
        parts.update(preds, labels)
        assert whole.eval() == parts.eval()
    precision, recall = fluid.metrics.Precision(), fluid.metrics.Recall()
    for metric in (precision, recall):
        metric.update(p, labels)
    both = ((p > 0.5) & (labels == 1)).sum()
    assert precision.eval() == both / (p > 0.5).sum()
    assert recall.eval() == both / labels.sum()
    mean = fluid.metrics.Accuracy()
    with pytest.raises(ValueError, match="no data"):
        mean.eval()
    mean.update(0.5, 2)
    mean.update(1.0, 6)
    assert mean.eval() == 0.875


def test_the_operator_auc_is_the_metric() -> None:
    draw = np.random.default_rng(1)
    p = draw.uniform(size=(40, 1)).astype(np.float32)
    labels = draw.integers(0, 2, (40, 1))
    for curve in ("ROC", "PR"):
        with fluid.program_guard(fluid.Program(), fluid.Program()):
            area, _ = layers.auc(layers.data("p", [2]), layers.data("label", [1], dtype="int64"), curve=curve)
            exe = fluid.Executor(fluid.CPUPlace())
            exe.run(fluid.default_startup_program())
            metric = fluid.metrics.Auc(curve=curve)
            for cut in (slice(0, 13), slice(13, 40)):
                preds = np.concatenate([1 - p, p], 1)[cut]
                (found,) = exe.run(feed={"p": preds, "label": labels[cut]}, fetch_list=[area])
                metric.update(preds, labels[cut])
                assert np.allclose(found, metric.eval(), atol=1e-6)


def test_areas_by_hand() -> None:
    """One threshold, at 0.5, between the two that all and no scores are above: trapezoids over (recall, precision) and the rates."""
    scores, labels = np.array([0.9, 0.8, 0.6, 0.3, 0.2]), np.array([1, 0, 1, 1, 0])
    for curve, points in (
        ("ROC", [(1, 1), (1 / 2, 2 / 3), (0, 0)]),
        ("PR", [(1, 3 / 5), (2 / 3, 2 / 3), (0, 1)]),
    ):
        metric = fluid.metrics.Auc(curve=curve, num_thresholds=3)
        metric.update(np.stack([1 - scores, scores], 1), labels)
        area = sum((a - c) * (b + d) / 2 for (a, b), (c, d) in pairwise(points))
        assert abs(metric.eval() - area) < 1e-5


def test_weighted_average_and_scopes() -> None:
    mean = fluid.average.WeightedAverage()
    with pytest.raises(ValueError, match="no average of nothing"):
        mean.eval()
    mean.add(np.array([1.0, 3.0]), 1)
    mean.add(np.array([3.0, 5.0]), 3)
    assert mean.eval().tolist() == [2.5, 4.5]
    scope = fluid.Scope()
    made = scope.var("x")
    assert scope.new_scope().find_var("x") is made
    assert scope.find_var("y") is None
    tensor = made.get_tensor()
    tensor.set(np.arange(6.0).reshape(2, 3), fluid.CPUPlace())
    assert (tensor.shape(), tensor._dtype()) == ([2, 3], fluid.core.VarDesc.VarType.FP64)  # pyright: ignore[reportPrivateUsage]
