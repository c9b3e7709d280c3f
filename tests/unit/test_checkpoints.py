# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: the state of a computation by name, and back, bit for bit; names and their scopes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir import transformers as ngt

C = ng.make_axis(3, "C")


@pytest.fixture(params=["numpy", "cpu", "cuda-sim"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    yield request.param


def training(transformer: ngt.Transformer) -> ngt.DeviceComputation:
    """A step with momentum and dropout, built anew: what it keeps has names given, assigned and of its own."""
    n = ng.make_axis(name="N")
    x = ng.placeholder([n, C])
    w1 = ng.variable([C], initial_value=[1, 2, 3], name="w1")
    velocity = ng.persistent_tensor([C], dtype="f64", initial_value=0)
    kept = x * (ng.uniform(x) > 0.3) + ng.normal(x) * 0.1
    loss = ng.mean(ng.square(ng.dot(kept, w1)), out_axes=())
    with ng.Op.saved_user_deps():
        moved = ng.assign(velocity, 0.9 * velocity - 0.1 * ng.deriv(loss, w1))
        step = ng.sequential([loss, moved, ng.assign(w1, w1 + velocity), loss])
    return transformer.computation(step, x)


def test_training_goes_on_bit_for_bit(backend: str) -> None:
    rows = np.random.default_rng(0).standard_normal((5, 3))
    with ngt.make_transformer(backend) as first, ngt.make_transformer(backend) as second:
        step = training(first)
        for _ in range(3):
            step(rows)
        state = step.state()
        assert sorted(state) == ["random_key", "random_key_1", "velocity", "w1"]
        assert state["velocity"].dtype == np.float64 and state["random_key"].dtype == np.uint64
        file = io.BytesIO()
        np.savez(file, **state)
        expected = [step(rows).tobytes() for _ in range(3)]
        file.seek(0)
        again = training(second)
        again.load_state(np.load(file))
        assert [again(rows).tobytes() for _ in range(3)] == expected
        step.load_state(state)  # back in the same one, after it has gone on
        assert [step(rows).tobytes() for _ in range(3)] == expected
        for name, array in first.state().items():
            np.testing.assert_array_equal(array, second.state()[name])
        np.testing.assert_array_equal(state["w1"], state["w1"].copy())


def test_a_state_is_a_copy(backend: str) -> None:
    with ngt.make_transformer(backend) as transformer:
        w = ng.variable([C], initial_value=1, name="w")
        with ng.Op.saved_user_deps():
            run = transformer.computation([w, ng.assign(w, w + 1)])
        before = run.state()
        assert before["w"].tolist() == [1, 1, 1]  # before the first call, the initial values
        run()
        assert before["w"].tolist() == [1, 1, 1] and run.state()["w"].tolist() == [2, 2, 2]
        before["w"][...] = 7
        run.load_state(before)
        before["w"][...] = 9
        assert run()[0].tolist() == [8, 8, 8]


def model() -> ng.Tensor:
    w1 = ng.variable([C], initial_value=1, name="w1")
    return w1 * ng.variable([C], initial_value=2).named("w2")


def test_given_names_are_kept() -> None:
    transformer = ngt.make_transformer("numpy")
    first, second = transformer.computation(model()), transformer.computation(model())
    assert sorted(first.state()) == sorted(second.state()) == ["w1", "w2"]
    second.load_state({"w1": np.full(3, 5, np.float32), "w2": np.full(3, 7, np.float32)})
    assert first().tolist() == [2, 2, 2] and second().tolist() == [35, 35, 35]
    with pytest.raises(ng.UserError, match=r"two storages have the name w1: [\s\S]*name_scope"):
        transformer.state()


def test_scopes() -> None:
    transformer = ngt.make_transformer("numpy")
    with ng.name_scope("one"):
        one = model()
    with ng.name_scope("two") as outer, ng.name_scope("layer") as inner:
        two = model()
        unnamed = ng.variable([C], initial_value=3)
        later = ng.variable([C], initial_value=4)
    assert (outer, inner) == ("two", "two/layer")
    later.name = "late"  # the scope is that in which it was made
    run = transformer.computation([one, two * unnamed * later])
    names = ["one/w1", "one/w2", "two/layer/late", "two/layer/unnamed", "two/layer/w1", "two/layer/w2"]
    assert sorted(run.state()) == sorted(transformer.state()) == names
    assert later.name == "two/layer/late"
    for wrong in ("", 3, "a/", "/"):
        with pytest.raises(ng.UserError, match="not the name of a scope"), ng.name_scope(wrong):  # type: ignore[arg-type]
            pass
    assert ng.variable([C], name="out").name == "out"


def test_what_is_kept() -> None:
    transformer = ngt.make_transformer("numpy")
    n = ng.make_axis(name="N")
    x, factor = ng.placeholder([n]), ng.placeholder((), initial_value=2)
    scratch = ng.temporary((), name="scratch")
    unset = ng.variable([n], name="unset")
    ws = [ng.variable((), initial_value=i) for i in range(2)]
    total = ng.sum(x * factor, out_axes=())
    run = transformer.computation(
        ng.sequential([ng.assign(scratch, total), scratch * ws[0] + ws[1]]), x, factor
    )
    assert sorted(run.state()) == ["factor", "variable", "variable_1"]
    run([1, 2], 5)
    assert {k: float(v) for k, v in run.state().items()} == {
        "factor": 5, "scratch": 15, "variable": 0, "variable_1": 1
    }  # fmt: skip
    other = transformer.computation(ng.sum(unset, out_axes=()))
    assert other.state() == {}
    other.load_state({"unset": np.array([1, 2, 4], np.float32)})
    n.length = 3
    assert other() == 7
    assert transformer.computation(x + 1, x).state() == {}


@pytest.mark.parametrize(
    "change, message",
    [
        ({"v": 1}, "there is no state called 'v'; the names are w, b"),
        ({"w": None}, "the state has no value for w"),
        ({"w": np.ones(4, np.float32)}, r"w has axes \(C: 3\), the state an array of shape \(4,\)"),
        ({"w": np.ones((), np.float32)}, r"w has axes \(C: 3\), the state an array of shape \(\)"),
        ({"w": np.ones(3)}, "w holds f32, the state float64"),
        ({"w": "text"}, "the state of w is neither a number nor an array"),
    ],
)
def test_a_state_that_does_not_fit_changes_nothing(change: dict[str, Any], message: str) -> None:
    transformer = ngt.make_transformer("numpy")
    w, b = ng.variable([C], initial_value=1, name="w"), ng.variable((), initial_value=1, name="b")
    run = transformer.computation(w * b)
    state: dict[str, Any] = {"b": np.float32(2), "w": np.full(3, 3, np.float32)} | change
    state = {name: array for name, array in state.items() if array is not None}
    with pytest.raises(ng.UserError, match=message):
        run.load_state(state)
    assert run().tolist() == [1, 1, 1]
    if "nothing" in message:
        run.load_state(state, strict=False)
        assert run()[0] == (6 if "v" in state else 2)
    with pytest.raises(ng.UserError, match="a state must be a dictionary"):
        run.load_state([1])  # type: ignore[arg-type]


def test_messages_say_what_the_program_calls_a_storage() -> None:
    transformer = ngt.make_transformer("numpy")

    class Holder:
        h = ng.persistent_tensor([C])

    w = ng.variable([C])
    a, b = ng.placeholder([C]), ng.variable([C])
    table = {"k": 0}
    table["k"] = ng.variable(  # type: ignore[assignment]
        [C]
    )
    named: ng.Tensor = ng.variable([C]).named("given")
    Holder.h = ng.variable([C])
    for tensor, called in (
        (w, "w"),
        (b, "b"),
        (table["k"], r"table\['k'\]"),
        (named, "given"),
        (Holder.h, "Holder.h"),
    ):
        with pytest.raises(ng.UserError, match=f"error: {called} is read before it is initialized"):
            transformer.computation(tensor + 1)()
    with pytest.raises(ng.MissingPlaceholder, match=r"the placeholder a \(C\) is used"):
        transformer.computation(a + 1)
    with pytest.raises(ng.UserError, match="the value for a is neither a number"):
        transformer.computation(a + 1, a)("text")
    ws = [ng.variable([C]) for _ in range(2)]
    with pytest.raises(ng.UserError, match=r"AssignableTensorOp_\d+ is read before"):
        transformer.computation(ws[0] + 1)()
