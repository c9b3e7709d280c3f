# SPDX-License-Identifier: Apache-2.0
"""Gradients of scans, once and twice, agree with differences of values; what they keep, and what leaves the loop."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from slopes import check_slopes as check

import ngmlir as ng
from ngmlir import Tensor
from ngmlir.ops.words import to_text

T, U, N, H, K = (ng.make_axis(n, name) for n, name in ((3, "T"), (2, "U"), (2, "N"), (3, "H"), (4, "K")))


def numbers(*axes: ng.Axis, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.RandomState(seed).uniform(-0.9, 0.9, [a.known_length for a in axes])


def recurrent(x: Tensor, h: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """Hidden state [N, H]; weights [H, K] from H to K and back again by name."""

    def step(h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        inner = ng.tanh(ng.dot(h, w) + x + b)
        return ng.sigmoid(ng.dot(inner, w)) * h, inner

    last, outputs = ng.scan(step, h, x, T)
    return ng.sum(ng.square(outputs), reduction_axes=[T, K]) + ng.sum(last, reduction_axes=[H])


def nested(x: Tensor, h: Tensor, w: Tensor, b: Tensor) -> Tensor:
    def outer(h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        def inner(h: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
            h = ng.tanh(ng.dot(ng.dot(h, w) * s + x + b, w))
            return h, h * s

        h, outputs = ng.scan(inner, h, ng.constant([0.5, -0.7], [U]), U)
        return h, ng.sum(outputs, reduction_axes=[U]) + ng.sum(ng.dot(h, w) * b, reduction_axes=[K])

    last, outputs = ng.scan(outer, h, x, T, reverse=True)
    return ng.sum(ng.square(outputs), reduction_axes=[T]) + last


def attending(x: Tensor, h: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """The body reads the whole sequence, by products of nothing but what is captured too."""

    def step(h: Tensor, now: Tensor) -> tuple[Tensor, tuple[()]]:
        keys = ng.dot(x, w)  # [T, N, H]: the axis of the scan inside a step
        weights = ng.softmax(ng.dot(keys, h, batch_axes=[N]), normalization_axes=[T])
        return h + ng.dot(weights, keys, batch_axes=[N]) * ng.exp(ng.sum(now * b, reduction_axes=[K])), ()

    return ng.scan(step, h, x, T)[0]


def looking_up(x: Tensor, h: Tensor, w: Tensor, b: Tensor) -> Tensor:
    def step(h: Tensor, item: Any) -> tuple[Tensor, Tensor]:
        now, at = item
        row = ng.gather(w, at, H)  # [K]
        return h * ng.sum(row * now * b, reduction_axes=[K]), ng.softmax(now + row, [K]) * b

    places = ng.constant([2, 0, 2], [T], dtype="i32")
    last, outputs = ng.scan(step, h, (x, places), T)
    return ng.sum(outputs, reduction_axes=[T, K]) + ng.sum(last * last, reduction_axes=[H])


def choosing(x: Tensor, h: Tensor, w: Tensor, b: Tensor) -> Tensor:
    def step(carried: Any, now: Tensor) -> tuple[Any, tuple[()]]:
        h, k = carried
        h = ng.cond(k > 0, lambda: ng.dot(ng.dot(h, w) + b, w), lambda: ng.dot(ng.tanh(now), w) * h)
        return (h, 1 - k), ()

    (last, _), _ = ng.scan(step, (h, ng.constant(1)), x, T)
    return ng.square(last)


def linear(x: Tensor, h: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """The gradients that are carried, and those that come from outside, are sides of products themselves."""
    last, outputs = ng.scan(
        lambda h, now: (ng.dot(ng.dot(h, w), w), ng.dot(h, w) + now * b), h, x, T, reverse=True
    )
    return ng.square(ng.sum(outputs, reduction_axes=[T, K]) + ng.sum(last, reduction_axes=[H]))


PROGRAMS: dict[str, Callable[..., Tensor]] = {
    f.__name__: f for f in (recurrent, nested, attending, looking_up, choosing, linear)
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients(name: str) -> None:
    axes = [[T, N, K], [N, H], [H, K], [K]]
    check(PROGRAMS[name], [numbers(*a, seed=i) for i, a in enumerate(axes)], axes)


@pytest.mark.parametrize("steps", [0, 1])
def test_few_steps(steps: int) -> None:
    R = ng.make_axis(steps, "R")

    def f(x: Tensor, w: Tensor) -> Tensor:
        last, outputs = ng.scan(
            lambda h, now: (ng.tanh(ng.dot(ng.dot(h, w), w) + now), ng.dot(h, w)),
            ng.constant(0.3, [N, H], dtype="f64"), x, R,
        )  # fmt: skip
        return last + ng.sum(ng.square(outputs), reduction_axes=[R, K])

    check(f, [numbers(R, N, H), numbers(H, K, seed=1)], [[R, N, H], [H, K]])


def gradient_text(batch: int) -> str:
    N, H, K = ng.make_axis(batch, "N"), ng.make_axis(30, "H"), ng.make_axis(40, "K")
    x, w = ng.placeholder([T, N, H]), ng.variable([H, K], initial_value=0)
    v, b = ng.variable([K, H], initial_value=0), ng.variable([H], initial_value=0)
    last, _ = ng.scan(
        lambda h, now: (ng.tanh(ng.dot(ng.exp(ng.dot(h, w)), v) + b + now), ()), ng.constant(0, [N, H]), x, T
    )
    loss = ng.sum(last, out_axes=())
    return to_text(ng.lift([ng.deriv(loss, p) for p in (w, v, b)], [x]).module)


def test_what_leaves_the_loop_and_what_is_kept() -> None:
    text = gradient_text(2)
    first, second = text.split("ng.scan")[1:]
    loop, rest = second.split("ng.yield")
    assert first.count("ng.dot") == 2
    # Nothing that took long is computed again; two products hand the gradient back, two are made of all steps at once.
    assert "ng.exp" not in loop and "ng.tanh" not in loop
    assert (loop.count("ng.dot"), rest.count("ng.dot")) == (2, 2)
    assert loop.count("ng.sum") == 0
    # Nobody asks for the gradient of x.
    assert "reverse = true} -> (" in text


def test_wide_batches_are_summed_up_in_the_loop() -> None:
    # What would be kept of all steps is larger than the sums.
    loop, rest = gradient_text(1000).split("ng.scan")[2].split("ng.yield")
    assert (loop.count("ng.dot"), rest.count("ng.dot")) == (4, 0)


def test_the_size_of_the_gradient_does_not_depend_on_the_length() -> None:
    texts = list[int]()
    w = ng.variable([H, K], initial_value=0)
    for length in (3, 300):
        R = ng.make_axis(length, "R")
        last, _ = ng.scan(
            lambda h, now: (ng.dot(ng.dot(h, w), w) + now, ()),
            ng.constant(0, [N, H]), ng.constant(np.zeros((length, 2, 3)), [R, N, H]), R,
        )  # fmt: skip
        program = ng.lift([ng.deriv(ng.sum(last, out_axes=()), w)]).module
        texts.append(to_text(program, elide=8).count("\n"))
    assert texts[0] == texts[1]


def test_a_scan_is_differentiated_by_several_dependents() -> None:
    w = ng.variable([H, K], initial_value=numbers(H, K))
    last, outputs = ng.scan(
        lambda h, now: (ng.tanh(ng.dot(ng.dot(h, w), w) + now), ng.exp(h)),
        ng.constant(0.3, [N, H]), ng.constant(numbers(T, N, H), [T, N, H]), T,
    )  # fmt: skip
    one = ng.deriv(ng.sum(last, out_axes=()), w)
    other = ng.deriv(ng.sum(ng.square(outputs), out_axes=()), w)
    both = ng.deriv(ng.sum(last, out_axes=()) + ng.sum(ng.square(outputs), out_axes=()), w)
    for target in ("numpy", "cpu", "cuda-sim"):
        a, b, c = ng.compile([one, other, both], target=target)()
        np.testing.assert_allclose(a + b, c, rtol=1e-4, atol=1e-5)


def summed_in_a_loop(w: Tensor) -> Tensor:
    last, _ = ng.scan(
        lambda h, now: (ng.exp(0.1 * w) * h * now, ()), ng.constant(1.0, [H]),
        ng.constant(numbers(T, H), [T, H]), T,
    )  # fmt: skip
    return ng.sum(last, out_axes=())


def decided(w: Tensor) -> Tensor:
    return ng.sum(ng.cond(ng.constant(1.0) > 0, lambda: ng.exp(w) * w, lambda: w), out_axes=())


@pytest.mark.parametrize("target", ["numpy", "cpu", "cuda-sim"])
@pytest.mark.parametrize("view", [False, True], ids=["whole", "view"])
@pytest.mark.parametrize("listed", [False, True], ids=["order of creation", "sequence"])
@pytest.mark.parametrize("function", [summed_in_a_loop, decided])
def test_the_gradient_is_that_of_what_was_computed(
    function: Callable[[Tensor], Tensor], listed: bool, view: bool, target: str
) -> None:
    # What the body reads is assigned to before the gradient is asked for.
    def run(writes: bool) -> Any:
        w = ng.variable([K, H], initial_value=0.7)
        loss = function(w[1] if view else ng.sum(w, reduction_axes=[K]))
        with ng.Op.saved_user_deps() if listed else nullcontext():
            write = ng.assign(w, w + 1) if writes else w
        once = ng.deriv(loss, w)
        twice = ng.deriv(ng.sum(once, out_axes=()), w)
        last = ng.sequential([loss, write, once, twice]) if listed else twice
        return ng.compile([loss, once, last], target=target)()

    for written, kept in zip(run(True), run(False), strict=True):
        np.testing.assert_array_equal(written, kept)
