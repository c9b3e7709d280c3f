# SPDX-License-Identifier: Apache-2.0
"""Derivatives of graph functions agree with differences of values, once and twice, and take a side at kinks.

Each op by itself is in tests/laws/test_slopes.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from slopes import check_slopes as check

import ngmlir as ng
from ngmlir.op_graph.tensor import Tensor
from ngmlir.op_graph.verbs import VERBS

A, B, C, K = (ng.make_axis(n, name) for n, name in ((3, "A"), (5, "B"), (2, "C"), (4, "K")))


def uniform(low: float, high: float, *shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.RandomState(seed).uniform(low, high, shape)


def test_broadcast_by_name_in_both_orders() -> None:
    check(lambda x, y: x * y, [uniform(-1, 1, 3, 5), uniform(-1, 1, 5, 2, seed=1)], [[A, B], [B, C]])
    check(lambda x, y: x / y, [uniform(-1, 1), uniform(1, 2, 5, 3, seed=1)], [[], [B, A]])


def test_select_fma_and_cast() -> None:
    check(
        lambda x, y: ng.where(x > 0, x * y, y * y),
        [uniform(-1, 1, 3, 5), uniform(-1, 1, 3, 5, seed=1)],
        [[A, B], [A, B]],
    )
    check(lambda x, y, z: ng.fma(x, y, z), [uniform(-1, 1, 3, seed=i) for i in range(3)], [[A]] * 3)
    x = ng.placeholder([A], dtype="f64")
    assert ng.deriv(ng.sum(ng.cast(x, "f32") * 3.0, out_axes=()), x).element.text == "f64"


SHAPES: dict[str, Callable[[Tensor], Tensor]] = {
    "transpose": lambda x: ng.axes_with_order(x, [C, A, B]) * ng.constant(uniform(1, 2, 2, 3, 5), [C, A, B]),
    "flatten": lambda x: ng.square(ng.flatten(x)),
    "flatten_at": lambda x: ng.square(ng.flatten_at(x, 1)),
    "cast_role": lambda x: ng.square(ng.cast_role(x, [A, K, C])),
    "slice": lambda x: ng.square(x[1:, :4, 0]),
    "slice_steps": lambda x: ng.square(x[::2, 1::2, ::-1]),
    "slice_backwards_in_steps": lambda x: ng.square(x[2:0:-1, ::-2]),
    "overlapping_slices": lambda x: x[:, :4] * x[:, 1:],
    "slice_of_nothing": lambda x: x[:, 2:2],
    "slices_of_all": lambda x: x[:, 0] * x[:, 1] / (x[:, 2] + 3) - ng.tanh(x[:, 3]) * x[:, 4],
    "slices_with_gaps": lambda x: x[:, 1, 1] * x[:, 3, 0] * x[:, 3, 1],
    "slices_of_slices": lambda x: ng.tanh(x[0] + x[1, 0]) * x[2] * x[1, 4],
    "slices_and_all": lambda x: (
        ng.sum(x * x, out_axes=[A]) * x[:, 0, 0] * x[:, 1, 0] * x[:, 2, 1] * x[:, 1, 0]
    ),
    "integer": lambda x: ng.square(x[-1, ..., 1]),
    "pad": lambda x: ng.square(ng.pad(x, [(1, 0), 2, 0])),
    "border_pad": lambda x: ng.square(
        VERBS.border_pad(
            VERBS.border_pad(x, low=(1, 2, 0), high=(2, 0, 1), border="symmetric"),
            low=(0, 1, 2),
            high=(3, 0, 0),
            border="wrap",
        )
    ),
    "concatenate": lambda x: ng.square(ng.concat_along_axis([x, x[:, :2], x * x], B)),
    "stack": lambda x: ng.square(ng.stack([x, x * x], ng.make_axis(2, "S"), 1)),
    "broadcast": lambda x: ng.square(ng.broadcast(x, [C, A, K, B])),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shape(name: str) -> None:
    check(SHAPES[name], [uniform(-1, 1, 3, 5, 2)], [[A, B, C]])


REDUCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda x: ng.square(ng.sum(x, reduction_axes=[A, C])),
    "mean": lambda x: ng.square(ng.mean(x, out_axes=[B])),
    "product": lambda x: ng.prod(x, out_axes=[B]),
    "product_of_one": lambda x: ng.prod(x, reduction_axes=[B]),
    "max": lambda x: ng.square(ng.max(x, out_axes=[A])),
    "min": lambda x: ng.square(ng.min(x, reduction_axes=[B])),
    "variance": lambda x: ng.variance(x, out_axes=[A]),
    "L2_norm": lambda x: ng.L2_norm(x),
    "out_axes_in_another_order": lambda x: ng.square(ng.sum(x, out_axes=[C, A])),
    "softmax": lambda x: ng.softmax(x, normalization_axes=[B]),
    "softmax_over_two": lambda x: ng.softmax(x, normalization_axes=[A, C]),
    "log_softmax": lambda x: ng.log_softmax(x, normalization_axes=[B]),
    **{
        f"cumulative_{name}_{reverse}_{exclusive}": lambda x, f=f, r=reverse, e=exclusive: f(x, B, r, e)
        for name, f in (("sum", ng.cumulative_sum), ("prod", ng.cumulative_prod))
        for reverse in (False, True)
        for exclusive in (False, True)
    },
    **{
        f"cumulative_{name}_{reverse}": lambda x, f=f, r=reverse: ng.square(f(x, B, r))
        for name, f in (("max", ng.cumulative_max), ("min", ng.cumulative_min))
        for reverse in (False, True)
    },
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduction(name: str) -> None:
    check(REDUCTIONS[name], [uniform(0.5, 1.5, 3, 5, 2)], [[A, B, C]])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("f", [ng.cumulative_max, ng.cumulative_min])
def test_exclusive_running_extremes(f: Callable[..., Tensor], reverse: bool) -> None:
    # Next to the identity (an infinity) there is no difference to take, so only the other places are looked at.
    check(
        lambda x: ng.square(f(x, B, reverse, True)[:, :-1] if reverse else f(x, B, reverse, True)[:, 1:]),
        [uniform(-1, 1, 3, 5)],
        [[A, B]],
    )


DOTS: dict[str, tuple[list[ng.Axis], list[ng.Axis], dict[str, Any]]] = {
    "matrix": ([A, B], [B, C], {}),
    "transposed": ([B, A], [C, B], {}),
    "two_contracted_in_other_order": ([A, B, C], [C, K, B], {}),
    "all_contracted": ([A, B], [B, A], {}),
    "outer": ([A], [B], {}),
    "batch": ([C, A, B], [B, K, C], {"batch_axes": [C]}),
    "two_batches": ([C, A, B], [B, K, A, C], {"batch_axes": [A, C]}),
}


@pytest.mark.parametrize("name", DOTS)
def test_dot(name: str) -> None:
    left, right, options = DOTS[name]
    shapes = [[a.known_length for a in axes] for axes in (left, right)]
    check(
        lambda x, y: ng.dot(x, y, **options),
        [uniform(-1, 1, *s, seed=i) for i, s in enumerate(shapes)],
        [left, right],
    )


def test_lookups() -> None:
    index = ng.constant([3, 0, 3, -1, 9], [B], dtype="i32")  # twice the same, from the end, beyond it
    check(lambda x: ng.square(ng.gather(x, index, K)), [uniform(-1, 1, 3, 4)], [[A, K]])
    flat = ng.constant(np.random.RandomState(0).randint(-4, 4, (3, 5)), [A, B], dtype="i32")
    check(lambda x: ng.square(VERBS.gather_elements(x, flat, axis=1)), [uniform(-1, 1, 3, 4)], [[A, K]])


def test_embedding_spares_its_pad_row() -> None:
    table, index = ng.variable([K, C], initial_value=1.0), ng.constant([1, 2, 2, 0, -2], [B], dtype="i32")
    run = ng.transformers.make_transformer("numpy").computation
    got = {
        (pad, update): run(
            ng.deriv(ng.sum(ng.lookuptable(table, index, [B, C], update, pad), out_axes=()), table)
        )()[:, 0].tolist()
        for pad, update in ((None, True), (2, True), (None, False))
    }
    assert got == {(None, True): [1, 1, 3, 0], (2, True): [1, 1, 0, 0], (None, False): [0, 0, 0, 0]}


@pytest.mark.parametrize("how", ["set", "add", "max", "min"])
def test_scatter(how: str) -> None:
    index = ng.constant([1, 3, 1, -1, 9], [B], dtype="i32")  # twice to 1, twice to 3, one nowhere
    values = [uniform(-1, 1, 4, 2), uniform(-1, 1, 5, 2, seed=1)]
    check(lambda x, u: ng.square(ng.scatter(x, index, u, K, how)), values, [[K, C], [B, C]])


def test_cross_entropies() -> None:
    target = uniform(0, 1, 3, 5, seed=3)
    both = [uniform(-2, 2, 3, 5), target]
    check(lambda x, t: ng.cross_entropy_multi(ng.softmax(x, [A]), t, out_axes=[B]), both, [[A, B], [A, B]])
    check(lambda x, t: ng.cross_entropy_multi(ng.softmax(x, [A]), t, out_axes=[A]), both, [[A, B], [A, B]])
    check(lambda x, t: ng.cross_entropy_binary(ng.sigmoid(x), t, out_axes=[B]), both, [[A, B], [A, B]])
    check(lambda y, t: ng.cross_entropy_binary(y, t), [uniform(0.2, 0.8, 3, 5), target], [[A, B], [A, B]])
    check(
        lambda y, t: ng.cross_entropy_multi(y, t, usebits=True),
        [uniform(0.2, 0.8, 3, 5), target],
        [[A, B], [A, B]],
    )


def test_binary_cross_entropy_is_smooth_at_zero() -> None:
    with ng.default_float("f64"):
        x = ng.placeholder([A])
        d = ng.deriv(ng.cross_entropy_binary(ng.sigmoid(x), 0.25), x)
        dd = ng.deriv(ng.sum(d, out_axes=()), x)
    first, second = ng.transformers.make_transformer("numpy").computation([d, dd], x)([0.0, 1e4, -1e4])
    np.testing.assert_allclose(first, [0.25, 0.75, -0.25])
    np.testing.assert_allclose(second, [0.25, 0, 0], atol=1e-12)


def test_cross_entropy_of_huge_logits() -> None:
    x, t = ng.placeholder([A]), ng.constant([0.0, 1.0, 0.0], [A])
    loss = ng.cross_entropy_multi(ng.softmax(x), t)
    value, gradient = ng.transformers.make_transformer("numpy").computation([loss, ng.deriv(loss, x)], x)(
        [1e4, -1e4, 0]
    )
    assert value == 2e4
    assert gradient.tolist() == [1, -1, 0]


def gradient_at(build: Callable[[Tensor], Tensor], value: Any) -> list[float]:
    x = ng.placeholder([ng.make_axis(len(value), "A")])
    return (
        ng.transformers.make_transformer("numpy")
        .computation(ng.deriv(ng.sum(build(x), out_axes=()), x), x)(value)
        .tolist()
    )


def test_kinks_take_a_side() -> None:
    assert gradient_at(lambda x: ng.max(x), [1, 3, 3]) == [0, 1, 1]
    assert gradient_at(lambda x: ng.min(x), [1, 3, 1]) == [1, 0, 1]
    assert gradient_at(lambda x: ng.maximum(x, 0), [-1, 0, 2]) == [0, 0, 1]
    assert gradient_at(lambda x: ng.minimum(0, x), [-1, 0, 2]) == [1, 0, 0]
    assert gradient_at(abs, [-2, 0, 2]) == [-1, 0, 1]
    assert gradient_at(ng.relu, [-1, 0, 2]) == [0, 0, 1]


def test_no_nan_where_the_slope_is_finite() -> None:
    assert gradient_at(lambda x: x**2, [0, -3, 1]) == [0, -6, 2]
    assert gradient_at(lambda x: x**0, [0, 1, 2]) == [0, 0, 0]
    assert gradient_at(lambda x: x / 4, [0, 1, -1]) == [0.25] * 3
    assert gradient_at(lambda x: 2**x, [0, 1, 2]) == pytest.approx([np.log(2) * k for k in (1, 2, 4)])


@pytest.mark.parametrize(
    ("value", "expected"), [([2, 3, 4], [12, 8, 6]), ([2, 0, 4], [0, 8, 0]), ([0, 0, 4], [0, 0, 0])]
)
def test_product_with_zeros(value: list[float], expected: list[float]) -> None:
    assert gradient_at(lambda x: ng.prod(x), value) == expected
    assert gradient_at(lambda x: ng.cumulative_prod(x, x.axes[0])[-1:], value) == expected


def test_no_gradient_flows_through_flat_ops() -> None:
    assert gradient_at(
        lambda x: ng.sign(x) + ng.floor(x) + (x > 1) + ng.stop_gradient(x) + x // 2, [0.5, 1.5, 2.5]
    ) == [0, 0, 0]


def test_loops_and_branches() -> None:
    def rnn(x: Tensor, h: Tensor, w: Tensor) -> Tensor:
        def step(carried: Tensor, now: Tensor) -> tuple[Tensor, Tensor]:
            new = ng.tanh(carried * w + now)
            return new, new * new

        last, outputs = ng.scan(step, h, x, B)
        return ng.sum(outputs, reduction_axes=[B]) + last

    check(
        rnn, [uniform(-1, 1, 3, 5), uniform(-1, 1, 3, seed=1), uniform(-1, 1, 3, seed=2)], [[A, B], [A], [A]]
    )
    check(
        lambda x: ng.scan(lambda c, n: (c + n, c * n), ng.constant(0.5), x, B, reverse=True)[1],
        [uniform(-1, 1, 5)],
        [[B]],
    )
    for way in (1.0, -1.0):
        check(
            lambda x, way=way: ng.cond(ng.constant(way) > 0, lambda: ng.exp(x), lambda: x * x * x),
            [uniform(-1, 1, 3)],
            [[A]],
        )


@pytest.mark.parametrize("way", ["the value", "part of the value", "a group in it"])
def test_sequences_in_the_body_of_a_scan(way: str) -> None:
    T = ng.make_axis(4, "T")
    w = ng.variable([], initial_value=2.0)

    def body(carried: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        if way == "the value":
            new = ng.sequential([x + 1, carried * w + x * x])
        elif way == "part of the value":
            new = ng.sequential([carried * w]) + x * x
        else:
            new = ng.sequential([ng.doall([x + 1]), carried * w]) + x * x
        return new, new

    last, _ = ng.scan(body, ng.constant(1.0), ng.constant([1.0, 2.0, 3.0, 4.0], [T]), T)
    for target in ("numpy", "cpu"):
        assert ng.compile(ng.deriv(last, w), target=target)() == 69
