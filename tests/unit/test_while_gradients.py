# SPDX-License-Identifier: Apache-2.0
"""Gradients of loops with conditions, once and twice: they agree with differences of values, for any trip count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir.op_graph import while_gradient
from ngmlir.ops.words import to_text

A = ng.make_axis(3, "A")
TARGETS = ("numpy", "cpu", "cuda-sim")
START = np.array([0.3, 0.7, 1.1])
WAY = np.array([0.2, -0.5, 1.0])
Body = Callable[[Any, Any, Any], Any]


def number(value: int) -> Any:
    return ng.constant(value, dtype="int32")


def plain(i: Any, y: Any, x: Any) -> Any:
    return ng.sin(y) * x + y * 0.5


def nested(i: Any, y: Any, x: Any) -> Any:
    inner = lambda j, z: (j + 1, ng.tanh(z * x))  # noqa: E731
    return ng.while_loop(lambda j, z: ng.less(j, i), inner, (number(0), y))[1] + y * 0.5


def branched(i: Any, y: Any, x: Any) -> Any:
    return ng.cond(ng.sum(y, out_axes=()) > 1, lambda: ng.sin(y * x), lambda: y + x)


def scanned(i: Any, y: Any, x: Any) -> Any:
    T = ng.make_axis(2, "T")
    return ng.scan(lambda h, t: (ng.tanh(h * x + t), ()), y, ng.constant([0.1, 0.2], [T]), T)[0]


def loop(body: Body, x: Any, limit: Any) -> Any:
    return ng.while_loop(lambda i, y: ng.less(i, limit), lambda i, y: (i + 1, body(i, y, x)), (number(0), x))[
        1
    ]


def differences(
    f: Callable[[np.ndarray[Any, Any]], Any], at: np.ndarray[Any, Any], way: np.ndarray[Any, Any]
) -> Any:
    step = 1e-6
    return (f(at + step * way) - f(at - step * way)) / (2 * step)


@pytest.mark.parametrize("body", [plain, nested, branched, scanned])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("is_counted", [True, False])
def test_first_and_second_derivatives(
    body: Body, target: str, is_counted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(while_gradient, "_MOST_KEPT", 8)  # so that short loops fill the stack
    x, n = ng.placeholder([A], dtype="float64"), ng.placeholder((), dtype="int32")
    count = 3 if is_counted else n
    loss = ng.sum(ng.square(loop(body, x, count)), out_axes=())
    slope = ng.deriv(loss, x)
    curve = ng.deriv(ng.sum(slope * ng.constant(WAY, [A]), out_axes=()), x)
    run = ng.compile([loss, slope, curve], [x, n], target=target)
    counts = (3,) if is_counted else (0, 1, 3, 9) if target == "cuda-sim" else (0, 1, 7, 8, 9, 16, 17, 33)
    for k in counts:
        _, first, second = run(START, np.int32(k))
        along = [differences(lambda v, k=k: run(v, np.int32(k))[0], START, e) for e in np.eye(3)]
        np.testing.assert_allclose(first, along, rtol=1e-6, atol=1e-8)
        wanted = differences(lambda v, k=k: run(v, np.int32(k))[1], START, WAY)
        np.testing.assert_allclose(second, wanted, rtol=1e-5, atol=1e-7)


def test_a_loop_of_known_trip_count_is_a_scan_and_others_keep_a_stack() -> None:
    x, n = ng.placeholder([A]).named("x"), ng.placeholder((), dtype="int32").named("n")
    for limit, op in ((5, "ng.scan"), (n, "ng.while")):
        y = loop(plain, x, limit)
        assert "ng.while" in to_text(ng.lift([y], [x, n]).module)
        text = to_text(ng.lift([ng.deriv(ng.sum(y, out_axes=()), x)], [x, n]).module)
        assert op in text and ("ng.while" in text) == (limit is n)


def test_counters_of_any_kind_are_counted() -> None:
    x = ng.placeholder(())

    def counted(start: Any, goes_on: Callable[[Any], Any], step: Callable[[Any], Any]) -> Any:
        y = ng.while_loop(lambda i, y: goes_on(i), lambda i, y: (step(i), y * x), (start, 1.0))[1]
        return while_gradient.trip_count(y.control)

    assert counted(number(0), lambda i: i < 7, lambda i: i + 2) == 4
    assert counted(number(100), lambda i: i > 3, lambda i: i // 2) == 5
    assert counted(number(9), lambda i: i < 7, lambda i: i + 1) == 0
    assert counted(number(0), lambda i: i < 1 << 20, lambda i: i + 1) is None  # too many to count
    assert counted(ng.placeholder((), dtype="int32"), lambda i: i < 7, lambda i: i + 1) is None


@pytest.mark.parametrize("target", TARGETS)
def test_what_a_loop_writes_and_what_it_reads_from_around(target: str) -> None:
    w = ng.variable((), initial_value=2.0)
    total = ng.variable((), initial_value=0.0)
    x, n = ng.placeholder(()), ng.placeholder((), dtype="int32")

    def body(i: Any, y: Any) -> Any:
        ng.assign(total, total + y)
        return i + 1, y * w

    _, y = ng.while_loop(lambda i, y: ng.less(i, n), body, (number(0), x))
    by_w, by_x = ng.deriv(y, w), ng.deriv(y, x)
    transformer = ng.transformers.make_transformer(target)
    run = transformer.computation([y, by_w, by_x, total], x, n)
    assert [float(v) for v in run(3, 4)] == [48, 4 * 3 * 8, 16, 3 + 6 + 12 + 24]
    assert [float(v) for v in run(3, 0)] == [3, 0, 1, 45]


def test_the_stack_of_large_values_has_fewer_places() -> None:
    wide = ng.make_axis(1 << 20, "W")
    x, n = ng.placeholder([wide]), ng.placeholder((), dtype="int32")
    y = loop(lambda i, y, x: y * x, x, n)
    text = to_text(ng.lift([ng.deriv(ng.sum(y, out_axes=()), x)], [x, n]).module)
    assert "tensor<8x1048576xf32" in text and "tensor<16x" not in text


def test_a_loop_of_integers_has_no_gradient_to_hand_on() -> None:
    x = ng.placeholder(())
    k = ng.while_loop(lambda i: i < 5, lambda i: i + 1, number(0))
    y = ng.cast(k, "float32") * x if hasattr(ng, "cast") else k * x
    assert float(ng.compile(ng.deriv(y, x), [x])(2.0)) == 5
