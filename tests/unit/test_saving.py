# SPDX-License-Identifier: Apache-2.0
"""Computations in files: what is loaded computes and trains on as what was saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir.transformers.files import from_module, to_module

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(8, 6)).astype(np.float32)
LABELS = RNG.normal(size=8).astype(np.float32)


class Model:
    """A network with shared weights, dropout (random numbers that go on), and an optimizer that keeps something."""

    def __init__(self) -> None:
        N, F = ng.make_axis(8, "N"), ng.make_axis(6, "F")
        self.x, self.y = ng.placeholder([N, F]).named("x"), ng.placeholder([N]).named("y")
        w = ng.variable([F, F.named("H")], initial_value=RNG.normal(size=(6, 6)) / 3)
        rate = ng.variable((), initial_value=0.125).named("rate")
        self.hidden = ng.tanh(ng.dot(ng.cast_axes(ng.tanh(ng.dot(self.x, w)), [N, F]), w))
        self.out = ng.sum(ng.dropout(self.hidden, 0.25), out_axes=[N])
        self.loss = ng.mean(ng.square(self.out - self.y), out_axes=())
        with ng.Op.saved_user_deps():
            self.step = ng.doall(
                [ng.assign(w, w - rate * ng.deriv(self.loss, w)), ng.assign(rate, rate * 0.9)]
            )
        self.train = ng.computation({"loss": self.loss, "nothing": self.step}, self.x, self.y)
        self.predict = ng.computation(ng.sum(self.hidden, out_axes=[N]), self.x)


def trained(train: Any, count: int = 3) -> list[float]:
    return [float(train(IMAGES, LABELS)["loss"]) for _ in range(count)]


@pytest.mark.parametrize("target", ["numpy", "cpu"])
def test_training_goes_on_where_it_was(target: str, tmp_path: Path) -> None:
    model, file = Model(), tmp_path / "model.ngir"
    with ng.transformers.make_transformer(target) as transformer:
        train = transformer.add_computation(model.train)
        predict = transformer.add_computation(model.predict)
        trained(train)
        ng.save(file, {"train": train, "predict": predict})
        wanted, after = trained(train), predict(IMAGES)
    loaded = ng.load(file)
    assert [p.called for p in loaded["train"].parameters] == ["x", "y"]
    with ng.transformers.make_transformer(target) as transformer:
        train = transformer.computation(loaded["train"])
        predict = transformer.computation(loaded["predict"])
    with ng.transformers.make_transformer(target) as transformer:
        train = transformer.computation(loaded["train"])
        predict = transformer.computation(loaded["predict"])
        assert trained(train) == wanted
        assert np.array_equal(predict(IMAGES), after)  # the weights are shared, and one result is no tuple


def test_text_of_what_was_loaded_is_that_of_the_file(tmp_path: Path) -> None:
    model, file = Model(), tmp_path / "model.ngir"
    for what in (model.train, {"train": model.train, "predict": model.predict}, [model.loss], model.out):
        ng.save(file, what)
        text, beside = file.read_text(), (tmp_path / "model.bin")
        bits = beside.read_bytes() if beside.exists() else b""
        ng.save(file, ng.load(file))
        assert file.read_text() == text
        assert not bits or beside.read_bytes() == bits


def test_weights_lie_beside_the_text(tmp_path: Path) -> None:
    A = ng.make_axis(1000, "A")
    x, values = ng.placeholder([A]), RNG.normal(size=1000).astype(np.float32)
    w = ng.variable([A], initial_value=values, name="w")
    ng.save(tmp_path / "m.ngir", x * w)
    assert (tmp_path / "m.bin").read_bytes() == values.tobytes()
    assert len((tmp_path / "m.ngir").read_text()) < 2000
    run = ng.compile(ng.load(tmp_path / "m.ngir"))
    assert np.array_equal(run(np.ones(1000)), values)
    assert np.array_equal(run.state()["w"], values)
    ng.save(tmp_path / "m.ngir", x * w, state={"w": 2 * values})  # over a file that is mapped
    assert np.array_equal(run(np.ones(1000)), values)
    assert np.array_equal(ng.compile(ng.load(tmp_path / "m.ngir"))(np.ones(1000)), 2 * values)


def test_computed_initial_values_are_computed_again(tmp_path: Path) -> None:
    A = ng.make_axis(4, "A")
    v = ng.variable([A], initial_value=[1.0, 2.0, 3.0, 4.0])
    w = ng.variable([A], initial_value=ng.exp(v) * 2)
    ng.save(tmp_path / "m.ngir", [w])
    assert "ng.exp" in (tmp_path / "m.ngir").read_text()
    assert np.allclose(ng.compile(ng.load(tmp_path / "m.ngir"))()[0], 2 * np.exp([1, 2, 3, 4]))


def test_files_from_elsewhere(tmp_path: Path) -> None:
    file = tmp_path / "by_hand.ngir"
    file.write_text(
        """
        func.func @initialize(%count: tensor<i32>) -> tensor<i32> attributes {ng.tied = array<i64: 0, 0>} {
          %0 = ng.constant dense<5> : tensor<i32>
          return %0 : tensor<i32>
        }
        func.func @main(%by: tensor<i32>, %count: tensor<i32>) -> tensor<i32> attributes {ng.tied = array<i64: 0, 1>} {
          %0 = ng.add %count, %by : tensor<i32>
          return %0 : tensor<i32>
        }
        func.func @read(%count: tensor<i32>) -> tensor<i32> {
          return %count : tensor<i32>
        }"""
    )
    loaded = ng.load(file)
    with ng.transformers.make_transformer("cpu") as transformer:
        count, read = (transformer.computation(loaded[name]) for name in ("main", "read"))
        count(2), count(3)
        assert read()[0] == 10


def test_structures() -> None:
    A = ng.make_axis(2, "A")
    x = ng.placeholder([A]).named("x")
    for returns, wanted in (
        (x * 2, [2, 4]),
        ([x, x + 1], ([1, 2], [2, 3])),
        ({"a b": x, "c": x * 3}, {"a b": [1, 2], "c": [3, 6]}),
        ({"z": x * 3, "a": x, "b": x + 1}, {"z": [3, 6], "a": [1, 2], "b": [2, 3]}),
        ([], ()),
        (None, None),
    ):
        (back,) = from_module(to_module(ng.computation(returns, x))).values()
        given = ng.compile(back)([1, 2])
        assert repr(given).replace("array(", "").replace(", dtype=float32)", "").replace(".", "") == repr(
            wanted
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('ng.role = "variable"', 'ng.role = "king"'), "no role"),
        (("ng.returns = 0", "ng.returns = 7"), "ng.returns is 7"),
        (("@main", "@initialize"), "initialize"),
    ],
)
def test_what_is_no_such_file(change: tuple[str, str], message: str, tmp_path: Path) -> None:
    A = ng.make_axis(2, "A")
    file = tmp_path / "m.ngir"
    ng.save(file, ng.placeholder([A]) * ng.variable([A], initial_value=2, name="w"))
    file.write_text(file.read_text().replace(*change))
    with pytest.raises(ng.UserError, match=message):
        ng.load(file)


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    A = ng.make_axis(2, "A")
    x, w = ng.placeholder([A]), ng.variable([A], initial_value=2, name="w")
    with pytest.raises(ng.UserError, match="there is no state called 'v'"):
        ng.save(tmp_path / "m.ngir", x * w, state={"v": np.zeros(2, np.float32)})
    with pytest.raises(ng.UserError, match="no value for w"):
        ng.save(tmp_path / "m.ngir", x * w, state={})
    with pytest.raises(ng.UserError, match="shape"):
        ng.save(tmp_path / "m.ngir", x * w, state={"w": np.zeros(3, np.float32)})
    with pytest.raises(ng.UserError, match="cannot read"):
        ng.load(tmp_path / "no.ngir")
    with pytest.raises(ng.UserError, match="host"):
        ng.save(tmp_path / "m.ngir", ng.host_op(lambda a: a)(x))
    assert not [*tmp_path.iterdir()]


def test_computations_for_several_lengths_share_their_state_in_a_file(tmp_path: Path) -> None:
    H = ng.make_axis(3, "H")
    w, several = ng.variable([H], initial_value=1), {}
    for rows in (4, 1):
        x = ng.placeholder([ng.make_axis(rows, "N"), H])
        with ng.Op.saved_user_deps():
            several[f"rows{rows}"] = ng.computation([x + w, ng.assign(w, w + 1)], x)
    ng.save(tmp_path / "several.ngir", several)
    with ng.transformers.make_transformer("numpy") as transformer:
        runs = {n: transformer.computation(made) for n, made in ng.load(tmp_path / "several.ngir").items()}
        assert runs["rows4"](np.zeros((4, 3)))[0].tolist() == [[1] * 3] * 4
        assert runs["rows1"](np.zeros((1, 3)))[0].tolist() == [[2] * 3]
        assert runs["rows4"](np.zeros((2, 3)))[0].tolist() == [[3] * 3] * 2


N, C, K, M = ng.make_axis(8, name="N"), ng.make_axis(4, "C"), ng.make_axis(3, "K"), ng.make_axis(name="M")


def classified(x: Any) -> Any:
    w = ng.variable([C, K], initial_value=0.5).named("w")
    return ng.softmax(ng.maximum(ng.dot(x, w) + 0.5, 0), normalization_axes=[K])


#: Computations of an array over N and C, or over N and M.
OPEN: dict[str, tuple[Any, Any]] = {
    "rows": (C, classified),
    "number": (C, lambda x: x / ng.tensor_size(x, [N])),
    "mean": (C, lambda x: x - ng.mean(x, reduction_axes=[N])),
    "gradient": (C, lambda x: ng.deriv(ng.mean(ng.square(x), out_axes=()), x)),
    "flat": (C, lambda x: ng.flatten(x) * 2),
    "flat of two": (M, lambda x: ng.flatten(x) * 2),
    "part": (M, lambda x: x[:, 1:] * 1),
    "reversed": (M, lambda x: ng.deriv(ng.sum(ng.square(x[:, ::-1])), x)),
    "joined": (M, lambda x: ng.concat_along_axis([x, x + 1], M)),
    "transposed": (M, lambda x: ng.axes_with_order(x, [M, N]) + 1),
}


@pytest.mark.parametrize("target", ["numpy", "cpu"])
@pytest.mark.parametrize("name", OPEN)
def test_lengths_stay_open(name: str, target: str, tmp_path: Path) -> None:
    """A computation that can be written for any length takes any when it is loaded."""
    axis, build = OPEN[name]
    x = ng.placeholder([N, axis]).named("x")
    y = build(x)
    run = ng.compile(y, [x], target=target)
    file = tmp_path / "layer.ngir"
    for _ in range(2):  # as saved, and as saved from what was loaded
        ng.save(file, ng.load(file) if file.exists() else ng.computation(y, x))
        assert f"%x: tensor<[N]x{'[M]' if axis is M else 4}xf32, " in file.read_text()
        loaded = ng.compile(ng.load(file), target=target)
        for rows, columns in ((8, 5), (1, 7), (5, 1), (0, 3), (100, 2)):
            fed = RNG.normal(size=(rows, columns if axis is M else 4)).astype(np.float32)
            assert np.array_equal(loaded(fed), run(fed))


def test_axes_with_one_name_in_text(tmp_path: Path) -> None:
    first, second = ng.make_axis(8, "a.b"), ng.make_axis(None, "a_b")
    x = ng.placeholder([first, second])
    ng.save(tmp_path / "m.ngir", ng.computation(x + 1, x))
    loaded = ng.compile(ng.load(tmp_path / "m.ngir"))
    assert [loaded(np.zeros((8, n))).shape for n in (8, 5)] == [(8, 8), (8, 5)]


def test_lengths_that_decide_stay(tmp_path: Path) -> None:
    """Where the program depends on how a length compares with a number, the file is for that length alone."""
    x = ng.placeholder([N, C]).named("x")
    kept = ng.persistent_tensor([N], initial_value=0).named("kept")
    for each in (x[:5], x[1:-1], x + kept):
        ng.save(tmp_path / "m.ngir", ng.computation(each, x))
        assert "%x: tensor<8x4xf32, " in (tmp_path / "m.ngir").read_text()
        loaded = ng.compile(ng.load(tmp_path / "m.ngir"))
        with pytest.raises(ng.AxisLengthError, match="5 elements along N"):
            loaded(np.zeros((5, 4)))


def test_computations_of_one_file_take_lengths_of_their_own(tmp_path: Path) -> None:
    model = Model()
    ng.save(tmp_path / "m.ngir", {"train": model.train, "predict": model.predict})
    loaded = ng.load(tmp_path / "m.ngir")
    with ng.transformers.make_transformer("numpy") as transformer:
        train, predict = (transformer.computation(loaded[name]) for name in ("train", "predict"))
        assert predict(IMAGES[:3]).shape == (3,)
        train(IMAGES[:2], LABELS[:2])
