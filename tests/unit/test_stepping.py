# SPDX-License-Identifier: Apache-2.0
"""Computations op by op: values of any op, breakpoints, where a NaN comes from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir.transformers import DeviceTensor

TARGETS = ["numpy", "cpu", "cuda-sim"]
N, C, K, T = (ng.make_axis(n, name) for n, name in ((4, "N"), (3, "C"), (5, "K"), (3, "T")))


@pytest.fixture(params=TARGETS)
def transformer(request: Any) -> Any:
    with ng.transformers.make_transformer(request.param) as made:
        yield made


def training_step() -> tuple[Any, list[Any], dict[str, Any]]:
    """One step of a small network, its parameters, and ops of it by name."""
    x, t = ng.placeholder([N, C], name="x"), ng.placeholder([N, K], name="t")
    numbers = np.random.default_rng(0)
    w = ng.variable([C, K], initial_value=numbers.normal(size=(3, 5)), name="w")
    b = ng.variable([K], initial_value=0, name="b")
    hidden = ng.tanh(ng.dot(x, w) + b, name="hidden")
    loss = ng.mean(ng.cross_entropy_multi(ng.softmax(hidden), t), out_axes=(), name="loss")
    slopes = [ng.deriv(loss, v) for v in (w, b)]
    with ng.Op.saved_user_deps():
        updates = [ng.assign(v, v - 0.5 * d) for v, d in zip((w, b), slopes, strict=True)]
        step = ng.sequential([loss, ng.doall(updates), loss])
    return step, [x, t], {"hidden": hidden, "loss": loss, "slope": slopes[0], "w": w, "b": b}


def fed() -> list[Any]:
    numbers = np.random.default_rng(1)
    return [numbers.normal(size=(4, 3)).astype(np.float32), np.eye(5, dtype=np.float32)[[0, 3, 1, 4]]]


def test_step_by_step_is_the_same_computation(transformer: Any) -> None:
    step, parameters, ops = training_step()
    other = ng.transformers.make_transformer(transformer.transformer_name)
    whole = other.computation([step, *ops.values()], *parameters)
    stepper = transformer.stepped([step, *ops.values()], *parameters)
    for _ in range(3):
        want = whole(*fed())
        found = stepper.start(*fed()).finish()
        for a, b in zip(found, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-6)
    for name in ("w", "b"):
        kept = transformer.get_tensor_view_value(ops[name])
        np.testing.assert_allclose(kept, other.get_tensor_view_value(ops[name]), rtol=2e-6, atol=1e-6)


def test_every_op_gives_the_bits_that_it_gives_in_the_whole_program(transformer: Any) -> None:
    numbers = np.random.default_rng(2).normal(size=(4, 3)).astype(np.float32)
    x = ng.placeholder([N, C])
    ops: list[Any] = [x * 3 - 1]
    for function in (
        ng.exp,
        ng.sin,
        ng.tanh,
        ng.sigmoid,
        ng.square,
        ng.floor,
        lambda v: v > 0,
        lambda v: v / 7 + v,
    ):
        ops.append(function(ops[0]))
    ops += [
        ng.cast(ops[0], "i32") << 2,
        ng.flatten(ng.Transpose(ops[1])),
        ops[2][1:, ::2],
        ng.pad(x, [(1, 0), 0]),
    ]
    ops += [ng.cumulative_sum(x, "C"), ng.argmax(x, reduction_axes="C"), ng.max(x, "C")]
    want = transformer.computation(ops, x)(numbers)
    stepper = transformer.stepped(ops, x).start(numbers)
    while stepper.step() is not None:
        pass
    for op, value in zip(ops, want, strict=True):
        assert np.array_equal(stepper.value(op), value), op
        assert stepper.value(op).dtype == value.dtype


def test_any_op_is_probed_by_handle_and_by_name(transformer: Any) -> None:
    step, parameters, ops = training_step()
    stepper = transformer.stepped(step, *parameters)
    x, t = fed()
    stepper.start(x, t)
    assert np.array_equal(stepper["x"], x)
    with pytest.raises(ng.UserError, match="hidden has not run yet"):
        stepper.value("hidden")
    before = stepper.value(ops["w"])
    stepper.break_at("hidden")
    found = stepper.run()
    assert found.op is ops["hidden"]
    assert found.location == ops["hidden"].location
    np.testing.assert_allclose(stepper["hidden"], np.tanh(x @ before), rtol=1e-5)
    assert np.array_equal(found.value, stepper.value(ops["hidden"]))
    assert str(found).startswith(f"step {found.number}: hidden = float32[4, 5] (")
    tensor = stepper.get_op_tensor_view("hidden")
    assert isinstance(tensor, DeviceTensor)
    assert (tensor.shape, tensor.strides, tensor.dtype, tensor.offset) == ((4, 5), (20, 4), np.float32, 0)
    assert np.array_equal(tensor[1:3, 0], found.value[1:3, 0])
    with pytest.raises(ng.NotAssignable, match="value of this run"):
        tensor[...] = 0
    into = np.zeros((4, 5))
    assert stepper.get_tensor_view_value(ops["hidden"], into) is into
    assert np.array_equal(into, found.value)
    assert stepper.run() is None
    assert np.array_equal(transformer.get_tensor_view_value(ops["w"]), stepper.value("w"))
    assert not np.array_equal(before, stepper.value("w"))


def test_state_is_what_it_is_at_a_place_and_changes_at_the_end(transformer: Any) -> None:
    w = ng.variable([C], initial_value=1, name="w")
    with ng.Op.saved_user_deps():
        first, second = ng.assign(w, w + 1, name="first"), ng.fill(w[1:], 9)
        group = ng.sequential([first, second, w])
    stepper = transformer.stepped(group).start()
    seen = {}
    for step in stepper:
        seen[step.name] = stepper.value(w).tolist()
        if step.op is second:
            assert transformer.get_tensor_view_value(w).tolist() == [1, 1, 1]
            assert stepper.get_op_tensor_view(w[1:]).shape == (2,)
            assert stepper.value(w[1:]).tolist() == [9, 9]
    assert seen["first"] == [2, 2, 2]
    assert seen[second.name] == [2, 9, 9]
    assert stepper.result.tolist() == [2, 9, 9]
    assert transformer.get_tensor_view_value(w).tolist() == [2, 9, 9]
    stepper.start().step()  # a run that is left changes nothing
    assert transformer.get_tensor_view_value(w).tolist() == [2, 9, 9]
    assert stepper.start().finish().tolist() == [3, 9, 9]


def test_bodies_of_loops_and_branches(transformer: Any) -> None:
    series, start = ng.placeholder([T], name="series"), ng.variable((), initial_value=1, name="start")

    def body(total: Any, item: Any) -> Any:
        grown = ng.add(total, item * start, name="grown")
        return ng.cond(grown > 3, lambda: ng.multiply(grown, 10, name="large"), lambda: grown), grown

    last, parts = ng.scan(body, ng.constant(0), series, T)
    tripled = ng.while_loop(lambda v: v < 500, lambda v: ng.multiply(v, 3, name="tripled"), last)
    numbers = np.array([1, 3, 2], np.float32)
    want = transformer.computation([last, parts, tripled], series)(numbers)
    stepper = transformer.stepped([last, parts, tripled], series).start(numbers)
    steps = [*stepper]
    grown = [(s.within[0].number, float(s.value)) for s in steps if s.name == "grown"]
    assert grown == [(0, 1), (1, 4), (2, 42)]
    large = [s for s in steps if s.name == "large"]
    assert [float(s.value) for s in large] == [40, 420]
    assert [r.kind for r in large[0].within] == ["scan", "cond"]
    assert "in scan round 1, in cond (" in str(large[0])
    assert [float(s.value) for s in steps if s.name == "tripled"] == [1260]
    assert float(stepper.value("grown")) == 42
    for a, b in zip(stepper.result, want, strict=True):
        assert np.array_equal(a, b)


def test_bodies_that_write(transformer: Any) -> None:
    count = ng.variable((), initial_value=0, name="count")
    series = ng.constant([1, 2, 3], [T])

    def body(total: Any, item: Any) -> Any:
        ng.assign(count, count + item)
        return ng.add(total, count, name="running"), total

    last, _ = ng.scan(body, ng.constant(0), series, T)
    stepper = transformer.stepped(last).start()
    stepper.break_at("running", when=lambda value: value > 3)
    found = stepper.run()
    assert (float(found.value), found.within[0].number) == (4, 1)
    assert float(stepper.finish()) == 1 + 3 + 6
    assert float(transformer.get_tensor_view_value(count)) == 6


def test_breakpoints() -> None:
    transformer = ng.transformers.make_transformer("numpy")
    x = ng.placeholder([C], name="x")
    a = ng.exp(x, name="a")
    b = ng.multiply(a, 2, name="b")
    stepper = transformer.stepped(transformer.computation(b, x))
    stepper.break_at(a)
    stepper.break_at("b", when=lambda value: value > 100)
    assert stepper.start([0, 1, 2]).run().op is a
    assert stepper.run() is None
    assert stepper.start([0, 1, 5]).run().op is a
    assert stepper.run().op is b
    stepper.clear_breaks()
    stepper.break_when(lambda step: step.value.max() > 7)
    assert stepper.start([0, 1, 2]).run().op is a
    assert stepper.start([0, 1, 1.9]).run().op is b
    assert stepper.finish() is stepper.result
    for wrong in (lambda: stepper.break_at("z"), lambda: stepper.break_at(3), lambda: stepper.break_when(3)):
        with pytest.raises(ng.UserError):
            wrong()
    with pytest.raises(ng.UserError, match="is not in this computation"):
        stepper.value(ng.sin(x))
    with pytest.raises(ng.UserError, match="no run has been started"):
        transformer.stepped(b, x).step()
    with pytest.raises(ng.UserError, match=r"takes 1 value \(x\), but 2 were given"):
        stepper.start(1, 2)
    assert stepper.start(feed_dict={x: 0}).finish().tolist() == [2, 2, 2]


def test_where_a_nan_comes_from(transformer: Any) -> None:
    x = ng.placeholder([N, C], name="x")
    w = ng.variable([C], initial_value=[1, 1, 1], name="w")
    shifted = ng.subtract(x, w, name="shifted")
    line = ng.Op().lineno + 1
    logs = ng.log(shifted, name="logs")
    loss = ng.sum(logs * 2, out_axes=())
    with ng.Op.saved_user_deps():
        step = ng.sequential([ng.assign(w, w - ng.deriv(loss, w)), loss])
    stepper = transformer.stepped(step, x)
    good = np.full((4, 3), 3, np.float32)
    assert stepper.first_nonfinite(good) is None
    assert transformer.get_tensor_view_value(w).tolist() == [1, 1, 1]
    bad = good.copy()
    bad[2, 1] = 0.5
    found = stepper.first_nonfinite(bad)
    assert (found.op, found.place, found.location.line) == (logs, (2, 1), line)
    assert np.isnan(found.number)
    assert [op for op, _ in found.inputs] == [shifted]
    assert "logs gives nan at [2, 1]" in str(found)
    assert "from shifted = float32[4, 3], -0.5 at [2, 1]" in str(found)
    assert stepper.value("shifted")[2, 1] == -0.5
    assert stepper.step() is None
    assert transformer.get_tensor_view_value(w).tolist() == [1, 1, 1]
    bad[2, 1] = 1
    assert stepper.first_nonfinite(bad).number == -np.inf
    assert stepper.first_nonfinite(bad, infinity=False) is None
    bad[0, 0] = np.nan
    given = stepper.first_nonfinite(bad)
    assert (given.op.name, given.place, given.step) == ("x", (0, 0), None)
    assert "x holds nan at [0, 0]" in str(given)


def test_a_nan_in_a_round_of_a_loop_and_one_made_of_infinities(transformer: Any) -> None:
    series = ng.placeholder([T])
    last, _ = ng.scan(lambda t, i: (t + ng.sqrt(i, name="root"), t), ng.constant(0), series, T)
    found = transformer.stepped(last, series).first_nonfinite([1, -1, 2])
    assert (found.op.name, found.within[0].number, found.place) == ("root", 1, ())
    assert "root gives nan in scan round 1" in str(found)
    mask = ng.constant([0, -np.inf, 0], [T])
    made = ng.subtract(mask, mask + series, name="difference")
    found = transformer.stepped(made, series).first_nonfinite([1, 2, 3])
    assert (found.op.name, found.place) == ("difference", (1,))


def test_user_ops_are_steps(transformer: Any) -> None:
    @ng.composite_op
    def twofold(x: Any) -> Any:
        return x * 2

    @ng.host_op
    def rooted(x: Any) -> Any:
        return np.sqrt(x)

    x = ng.placeholder([C])
    y = rooted(twofold(x, name="d"), name="r")
    stepper = transformer.stepped(y, x).start([2, 8, 18])
    names = [s.name for s in stepper]
    assert names[-2:] == ["d", "r"]
    assert stepper["d"].tolist() == [4, 16, 36]
    assert stepper.result.tolist() == [2, 4, 6]
    assert stepper.first_nonfinite([1, -1, 1]).op is y


def test_random_numbers_are_those_of_the_call(transformer: Any) -> None:
    def draws() -> Any:
        return ng.uniform(ng.constant(0, [C]), seed=3)

    with ng.Op.saved_user_deps():
        stepped, called = draws(), draws()
    other = ng.transformers.make_transformer(transformer.transformer_name)
    stepper, computation = transformer.stepped(stepped), other.computation(called)
    for _ in range(3):
        assert np.array_equal(stepper.start().finish(), computation())


def test_any_batch_is_stepped_through() -> None:
    transformer = ng.transformers.make_transformer("cpu")
    batch = ng.make_axis(name="N")
    x = ng.placeholder([batch, C], name="x")
    stepper = transformer.stepped(ng.sum(x * 2, out_axes=[batch]), x)
    for rows in (2, 5):
        assert stepper.start(np.ones((rows, 3))).finish().tolist() == [6] * rows
        assert stepper["x"].shape == (rows, 3)
        assert stepper.get_op_tensor_view("x").shape == (rows, 3)


def test_what_has_no_value_is_refused() -> None:
    transformer = ng.transformers.make_transformer("numpy")
    w = ng.variable((), name="w")
    with pytest.raises(ng.transformers.UninitializedVariable):
        transformer.stepped(w + 1).start()
    group = ng.doall([ng.assign(w, 1)])
    stepper = transformer.stepped(group).start()
    with pytest.raises(ng.UserError, match="has no value"):
        stepper.value(group)
    assert stepper.finish() is None
    assert float(transformer.get_tensor_view_value(w)) == 1
    transformer.close()
    with pytest.raises(ng.UserError, match="closed"):
        stepper.start()
