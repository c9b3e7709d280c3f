# SPDX-License-Identifier: Apache-2.0
"""`ng.simple`: samples and steps by role, features by position; the same values wherever a target has them lie."""

from __future__ import annotations

from contextlib import closing
from typing import Any, cast

import numpy as np
import pytest

import ngmlir as ng
import ngmlir.simple as ns
from ngmlir.compiler import resolve
from ngmlir.ops import interpreter
from ngmlir.passes.registry import PASSES

TARGETS = ("numpy", "cpu", "cuda-sim")
RANDOM = np.random.default_rng(0)


def numbers(*shape: int) -> Any:
    return RANDOM.normal(size=shape).astype("float32")


def run(target: str, results: Any, parameters: Any, values: Any) -> Any:
    with closing(ng.transformers.make_transformer(target)) as made:
        return made.computation(results, *parameters)(*values)


@pytest.mark.parametrize("target", TARGETS)
def test_values_are_those_of_numpy_for_each_sample(target: str) -> None:
    x, value = ns.placeholder((3, 4)), numbers(2, 3, 4)
    given = numbers(4, 5)
    y = ns.tanh(x @ given)
    results = [
        y, ns.sum(y), ns.mean(y, "N"), ns.max(y, ("N", -1)), ns.sum(y, 0, keepdims=True), ns.argmax(y, -1),
        y[0, 1:], y[..., None, ::2], y.T, y.reshape(-1), y * np.arange(3).reshape(3, 1), 1 - y,
        ns.concatenate([y, np.zeros((1, 5))]), ns.stack([y, y], -1), ns.pad(y, [1, (0, 2)]), ns.squeeze(y[:1]),
        ns.softmax(y), ns.variance(y, 1), ns.take(y, [2, 0], 1), ns.where(y > 0, y, 0),
    ]  # fmt: skip
    e = np.tanh(value @ given)
    exps = np.exp(e)
    wanted = [
        e, e.sum((1, 2)), e.mean(0), e.max((0, 2)), e.sum(1, keepdims=True), e.argmax(2),
        e[:, 0, 1:], e[..., None, ::2], e.swapaxes(1, 2), e.reshape(2, -1), e * np.arange(3).reshape(3, 1), 1 - e,
        np.concatenate([e, np.zeros((2, 1, 5))], 1), np.stack([e, e], -1), np.pad(e, ((0, 0), (1, 1), (0, 2))), e[:, 0],
        exps / exps.sum(-1, keepdims=True), e.var(2), e[:, :, [2, 0]], np.maximum(e, 0),
    ]  # fmt: skip
    for made, found, want in zip(results, run(target, results, [x], [value]), wanted, strict=True):
        assert isinstance(made.axes, type(x.axes)) and made.family is ns
        assert found.shape == want.shape == (*found.shape[: len(cast(Any, made.axes).roles)], *made.shape)
        np.testing.assert_allclose(found, want, rtol=2e-5, atol=1e-6)


SHAPES = [
    ((4,), (4,)), ((4,), (4, 5)), ((3, 4), (4,)), ((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)),
    ((2, 3, 4), (2, 4, 5)), ((1, 3, 4), (2, 4, 5)), ((6, 1, 3, 4), (2, 4, 5)), ((2, 3, 4), (6, 1, 4, 5)),
]  # fmt: skip


@pytest.mark.parametrize("left, right", SHAPES, ids=str)
@pytest.mark.parametrize("both", [False, True], ids=["one side", "both sides"])
def test_products_are_those_of_numpy(left: Any, right: Any, both: bool) -> None:
    x, y = ns.placeholder(left), ns.placeholder(right, samples=both)
    a, b = numbers(3, *left), numbers(*((3,) if both else ()), *right)
    wanted = np.stack([np.matmul(p, b[i] if both else b) for i, p in enumerate(a)])
    made = x @ y
    assert made.shape == wanted.shape[1:]
    np.testing.assert_allclose(run("numpy", made, [x, y], [a, b]), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_a_recurrence_and_its_gradient_are_those_of_its_steps(target: str) -> None:
    x, w, u = ns.placeholder((2,), steps=5), ns.variable(numbers(2, 3)), ns.variable(numbers(3, 3))
    start = ns.step(x, 0) @ np.zeros((2, 3))
    last, all_steps = ns.scan(lambda h, now: (h_new := ns.tanh(now @ w + h @ u), h_new), start, x)
    h, each = start, []
    for i in range(5):
        h = ns.tanh(ns.step(x, i) @ w + h @ u)
        each.append(h)
    losses = [ns.mean(ns.sum(v * v), "N") for v in (last, h)]
    results = [last, h, *(ng.deriv(loss, v) for v in (w, u) for loss in losses), all_steps, ns.stack(each)]
    found = run(target, results, [x], [numbers(4, 5, 2)])
    for one, other in zip(found[0:6:2], found[1:6:2], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[6], found[7], rtol=1e-5, atol=1e-6)
    assert all_steps.axes.names == ("N", "REC", "_0")


def test_cells_are_those_of_ng() -> None:
    x, w, u, b = ns.placeholder((2,), steps=4), numbers(4, 2, 3), numbers(4, 3, 3), numbers(4, 3)
    value = numbers(2, 4, 2)
    N, REC, F, G, H, P = (
        ng.make_axis(n, name) for n, name in ((2, "N"), (4, "REC"), (2, "F"), (4, "G"), (3, "H"), (3, "P"))
    )
    named = ng.lstm(
        ng.constant(value, [N, REC, F]),
        ng.constant(w, [G, F, H]),
        ng.constant(u, [G, P, H]),
        ng.constant(b, [G, H]),
    )
    np.testing.assert_allclose(
        run("numpy", ns.lstm(x, w, u, b), [x], [value]), run("numpy", named, [], []), rtol=1e-5, atol=1e-6
    )
    h, (again, c) = ns.lstm(x, w, u, b, return_sequence=False, return_state=True, initial=np.ones(3))
    assert [v.axes.names for v in (h, again, c)] == [("N", "_0")] * 3
    assert ns.rnn(x, w[0], u[0], b[0]).axes.names == ("N", "REC", "_0")


def test_a_network_of_windows_and_its_gradient() -> None:
    image, filters = ns.placeholder((6, 6, 2)), ns.variable(numbers(3, 3, 2, 4))
    kind = ns.placeholder((), "int32")
    features = ns.pool(ns.relu(ns.convolve(image, filters, padding="same")), 2)
    scores = ns.softmax(features.flatten() @ numbers(36, 3))
    loss = ns.mean(ns.cross_entropy_multi(scores, ns.one_hot(kind, 3)), "N")
    assert features.axes.names == ("N", "_2", "_1", "_0") and features.shape == (3, 3, 4)
    values = [numbers(3, 6, 6, 2), [0, 2, 1]]
    value, slope = run("numpy", [loss, ng.deriv(loss, filters)], [image, kind], values)
    for target in TARGETS[1:]:
        again = run(target, [loss, ng.deriv(loss, filters)], [image, kind], values)
        np.testing.assert_allclose(again[0], value, rtol=1e-5)
        np.testing.assert_allclose(again[1], slope, rtol=1e-4, atol=1e-6)


def program() -> Any:
    """One of everything that the pass moves, as text has it."""
    N, REC = ng.make_axis(3, "N"), ng.make_axis(4, "REC")
    x, w = ns.placeholder((5,), samples=N, steps=REC), ns.placeholder((5, 5), samples=False)
    start = ns.step(x, 0)
    last, all_steps = ns.scan(lambda h, now: (ns.tanh(now + h @ w), ns.softmax(h)), start, x)
    y = ns.concatenate([all_steps * 2, ns.pad(x[1:], [(1, 0)])], 0)
    parts = [
        last,
        y,
        ns.sum(y, "REC"),
        ns.mean(y, "N"),
        ns.argmax(y, 0),
        y.reshape(2, 5).T,
        ns.max(y, ("N", "REC")),
    ]
    loss = ns.mean(ns.sum(ns.sum(y * y, "REC")), "N")
    return ng.lift([*parts, ng.deriv(loss, w)], [x, w]).module


@pytest.mark.parametrize("samples", ["first", "last"])
@pytest.mark.parametrize("steps", ["first", "last"])
def test_values_are_the_same_wherever_samples_and_steps_lie(samples: str, steps: str) -> None:
    module = PASSES["decompose"](program(), resolve("cpu"))
    placed = PASSES["place-samples"](module, resolve("cpu"), samples=samples, steps=steps)
    assert placed is not module
    values = [numbers(3, 4, 5), numbers(5, 5)]
    for before, after in zip(interpreter.run(module, *values), interpreter.run(placed, *values), strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)


def test_any_number_of_samples_and_steps() -> None:
    x = ns.placeholder((2,), steps=True)
    y = ns.sum(ns.sum(x, "REC"))
    with closing(ng.transformers.make_transformer("cpu")) as made:
        total = made.computation(y, x)
        for shape in ((1, 3, 2), (4, 1, 2), (4, 7, 2)):
            np.testing.assert_allclose(total(np.ones(shape)), np.full(shape[0], 2 * shape[1]))


def test_families_meet_only_where_that_is_said() -> None:
    N, C = ng.make_axis(2, "N"), ng.make_axis(3, "C")
    named, array = ng.constant([[1, 2], [3, 4], [5, 6]], [C, N]), ng.numpy.ones((2, 3))
    x = ns.placeholder((3,), samples=N)
    for mixed, hint in (
        (lambda: x + named, "ng.simple.asarray"), (lambda: named * x, "ng.cast_axes"), (lambda: x @ array, "ng.simple"),
        (lambda: array - x, "ng.numpy.asarray"), (lambda: ng.assign(ns.variable(np.zeros(3)), named), "ng.simple"),
    ):  # fmt: skip
        with pytest.raises(ng.IncompatibleAxesError) as refused:
            mixed()
        assert hint in refused.value.diagnostics[0].hint
    made = run(
        "numpy",
        [ns.asarray(named) + x, ns.asarray(array, samples=0) * x, ng.cast_axes(x, [N, C])],
        [x],
        [np.ones((2, 3))],
    )
    assert [v.tolist() for v in made] == [[[2, 4, 6], [3, 5, 7]], [[1] * 3] * 2, [[1] * 3] * 2]
    assert (
        (ng.constant(2) * x).family is ns and (2 * x).family is ns and cast(Any, np.ones(3) * x).family is ns
    )


def test_composite_ops_state_their_gradients_in_this_family() -> None:
    @ng.composite_op
    def rounded_straight_through(x: Any) -> Any:
        return ns.round(x)

    @rounded_straight_through.gradient
    def through(delta: Any, y: Any, x: Any) -> Any:
        return delta * ns.where(ns.less(x, 2), 1, 0)

    v = ns.variable([0.4, 1.6, 2.6])
    y = rounded_straight_through(v)
    assert run("cpu", ng.deriv(ns.sum(y * 3), v), [], []).tolist() == [3, 3, 0]


@pytest.mark.parametrize("target", TARGETS)
def test_writes_to_parts_of_storage(target: str) -> None:
    v = ns.variable(np.zeros((2, 3)))
    part = v[1]
    ng.assign(v[0], ns.ones((3,)) * 4)
    ng.fill(v[1, :2], 3)
    v[:, 2] = np.array([7, 8])
    assert run(target, [v, part * 2, v.T], [], [])[0].tolist() == [[4, 4, 7], [3, 3, 8]]
    assert run(target, [v, part * 1, v.T], [], [])[2].tolist() == [[4, 3], [4, 3], [7, 8]]


@pytest.mark.parametrize("target", TARGETS)
def test_branches_and_loops_take_tensors_of_this_family(target: str) -> None:
    x = ns.placeholder((2,))
    total = ns.sum(ns.sum(x), "N")
    y = ng.cond(total > 0, lambda: x * 2, lambda: x)
    z = ng.while_loop(lambda v: ns.sum(ns.sum(v), "N") < 100, lambda v: v * 2, x)
    found = run(target, [y, z, ng.deriv(ns.sum(y), x)], [x], [np.ones((3, 2))])
    assert [v.tolist() for v in found] == [[[n] * 2] * 3 for n in (2, 32, 2)]
    assert y.family is z.family is ns


REFUSED = [
    (lambda x: x[np.array([0, 1])], "indexed with integers and slices"),
    (lambda x: x + np.ones((2, 7)), "features of shapes (3, 4) (2, 7) cannot be matched"),
    (lambda x: x @ np.ones((3, 4)), "have no matrix product: 4 elements on the left, 3 on the right"),
    (lambda x: x @ 2, "no single numbers"),
    (lambda x: ns.sum(x) @ np.ones(4), "has no features"),
    (lambda x: np.ones((2, 3, 4)) @ ns.asarray(np.ones((5, 4, 1))), "(2,) and (5,) cannot be matched"),
    (lambda x: ns.sum(x, 2), "there is no feature number 2 among 2"),
    (lambda x: ns.sum(x, "REC"), "there is no axis REC"),
    (lambda x: ns.sum(x, (0, -2)), "named twice"),
    (lambda x: x.reshape(5, 2), "features of shape (3, 4) cannot be reshaped to (5, 2)"),
    (lambda x: x[0, 0, 0], "3 indices for features of shape (3, 4)"),
    (lambda x: ns.step(x, 0), "there is no axis REC"),
    (lambda x: ns.transpose(x, (0, 0)), "no order of 2 features"),
    (lambda x: ns.squeeze(x, 0), "another length than 1"),
    (lambda x: ns.concatenate([x, np.ones(3)]), "cannot be joined"),
    (lambda x: ns.convolve(x, np.ones((2, 2))), "features of shape (3, 4) and filters of shape (2, 2)"),
    (lambda x: ns.placeholder((2,), samples=ng.make_axis(3, "M")), "axis M is not called N"),
    (lambda x: ns.asarray(np.ones((2, 3)), samples=0, steps=0), "is given as that of samples and as that of steps"),
    (lambda x: ns.take(x, x), "both"),
    (lambda x: ns.lstm(x, np.ones((3, 3)), np.ones((3, 3))), "(4, features, hidden)"),
]  # fmt: skip


@pytest.mark.parametrize("refused, message", REFUSED, ids=[m for _, m in REFUSED])
def test_what_is_refused(refused: Any, message: str) -> None:
    with pytest.raises(ng.NgmlirError) as error:
        refused(ns.placeholder((3, 4), name="x"))
    assert message in str(error.value) and "test_simple.py" in str(error.value)
