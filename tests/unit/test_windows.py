# SPDX-License-Identifier: Apache-2.0
"""Windows, convolutions and pooling: against loops over single elements, on every target that is always here; and their
derivatives."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from slopes import check_slopes

import ngmlir as ng
from ngmlir.op_graph.tensor import Tensor

Array = np.ndarray[Any, Any]
TARGETS = ("numpy", "cpu", "cuda-sim")


def values(*shape: int, seed: int = 0) -> Array:
    return np.random.RandomState(seed).uniform(-1, 1, shape).astype(np.float32)


def computed(target: str, build: Callable[..., Tensor], *given: tuple[Array, Sequence[ng.Axis]]) -> Any:
    inputs = [ng.placeholder(axes) for _, axes in given]
    run = ng.transformers.make_transformer(target).computation(build(*inputs), *inputs)
    return run(*(array for array, _ in given))


def named(text: str, *lengths: int) -> list[ng.Axis]:
    return [ng.make_axis(n, name) for n, name in zip(lengths, text.split(), strict=True)]


# ---- what is right, element by element -------------------------------------------------------------------------


def loops(
    x: Array,
    w: Array,
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[tuple[int, int]],
    groups: int = 1,
) -> Array:
    """x (N, spatial, C) with w (taps, C / groups, K): (N, spatial, K)."""
    spatial, taps = x.shape[1:-1], w.shape[:-2]
    counts = [
        (n + sum(p) - (t - 1) * d - 1) // s + 1
        for n, t, s, d, p in zip(spatial, taps, strides, dilations, pads, strict=True)
    ]
    out = np.zeros((x.shape[0], *counts, w.shape[-1]))
    channels, made = w.shape[-2], w.shape[-1] // groups
    for place in np.ndindex(*counts):
        for tap in np.ndindex(*taps):
            at = [
                p * s + t * d - b
                for p, t, s, d, (b, _) in zip(place, tap, strides, dilations, pads, strict=True)
            ]
            if all(0 <= a < n for a, n in zip(at, spatial, strict=True)):
                for g in range(groups):
                    left = x[(slice(None), *at)][:, g * channels : (g + 1) * channels].astype(np.float64)
                    out[(slice(None), *place, slice(g * made, (g + 1) * made))] += (
                        left @ w[tap][:, g * made : (g + 1) * made]
                    )
    return out


def pooled(
    x: Array,
    taps: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[tuple[int, int]],
    kind: str,
) -> Array:
    spatial = x.shape[1:-1]
    counts = [
        (n + sum(p) - (t - 1) * d - 1) // s + 1
        for n, t, s, d, p in zip(spatial, taps, strides, dilations, pads, strict=True)
    ]
    out = np.zeros((x.shape[0], *counts, x.shape[-1]))
    for place in np.ndindex(*counts):
        found = []
        for tap in np.ndindex(*taps):
            at = [
                p * s + t * d - b
                for p, t, s, d, (b, _) in zip(place, tap, strides, dilations, pads, strict=True)
            ]
            if all(0 <= a < n for a, n in zip(at, spatial, strict=True)):
                found.append(x[(slice(None), *at)].astype(np.float64))
        out[(slice(None), *place)] = {"max": np.max, "mean": np.mean, "sum": np.sum}[kind](found, axis=0)
    return out


# ---- convolutions ----------------------------------------------------------------------------------------------

#: Batch, spatial lengths, channels, taps, filters, strides, dilations, padding before and after, groups.
CONVOLUTIONS = {
    "one": (2, (9,), 3, (3,), 4, (1,), (1,), [(0, 0)], 1),
    "one_stride_beyond_the_window": (1, (17,), 2, (2,), 3, (5,), (1,), [(0, 0)], 1),
    "two": (2, (7, 11), 5, (3, 3), 7, (1, 1), (1, 1), [(1, 1), (1, 1)], 1),
    "two_uneven": (1, (7, 5), 3, (2, 4), 2, (2, 1), (1, 1), [(0, 1), (2, 0)], 1),
    "two_dilated": (2, (9, 8), 2, (2, 3), 3, (1, 2), (3, 2), [(2, 1), (0, 3)], 1),
    "kernel_beyond_the_input": (1, (2, 3), 2, (5, 3), 3, (1, 1), (1, 1), [(2, 2), (1, 1)], 1),
    "points": (2, (4, 5), 3, (1, 1), 4, (1, 1), (1, 1), [(0, 0), (0, 0)], 1),
    "points_in_steps": (2, (4, 5), 3, (1, 1), 4, (2, 3), (1, 1), [(0, 0), (0, 0)], 1),
    "three": (1, (4, 5, 3), 2, (2, 3, 2), 3, (1, 2, 1), (1, 1, 2), [(0, 1), (1, 1), (1, 0)], 1),
    "single_everything": (1, (1, 1), 1, (1, 1), 1, (1, 1), (1, 1), [(0, 0), (0, 0)], 1),
    "one_output": (3, (3, 3), 4, (3, 3), 5, (1, 1), (1, 1), [(0, 0), (0, 0)], 1),
    "empty_batch": (0, (5, 5), 2, (3, 3), 3, (1, 1), (1, 1), [(1, 1), (1, 1)], 1),
    "groups": (2, (6, 5), 6, (3, 3), 4, (1, 1), (1, 1), [(1, 1), (1, 1)], 2),
    "depthwise": (2, (6, 5), 6, (3, 3), 6, (1, 1), (1, 1), [(1, 1), (1, 1)], 6),
    "depthwise_in_steps": (1, (9, 8), 3, (3, 2), 3, (2, 2), (1, 1), [(1, 0), (1, 1)], 3),
    "depthwise_twice": (2, (6, 5), 3, (3, 3), 6, (1, 1), (1, 1), [(1, 1), (1, 1)], 3),
    "depthwise_three_times": (2, (5, 6), 37, (3, 3), 111, (1, 1), (1, 1), [(1, 1), (1, 1)], 37),
    "depthwise_many_times": (1, (4, 5), 70, (3, 2), 140, (1, 1), (1, 1), [(1, 0), (1, 1)], 70),
    "wide": (1, (13, 13), 19, (3, 3), 33, (1, 1), (1, 1), [(1, 1), (1, 1)], 1),
    "deep": (1, (12, 11), 100, (3, 3), 9, (1, 1), (1, 1), [(1, 1), (1, 1)], 1),
    "stem": (1, (23, 19), 3, (7, 7), 9, (2, 2), (1, 1), [(3, 3), (3, 3)], 1),
}  # fmt: skip

NAMES = {1: ("H", "R"), 2: ("H W", "R S"), 3: ("D H W", "T R S")}


def convolution(
    case: tuple[Any, ...],
) -> tuple[Callable[..., Tensor], list[ng.Axis], list[ng.Axis], dict[str, Any]]:
    batch, spatial, channels, taps, filters, strides, dilations, pads, groups = case
    outer, inner = NAMES[len(spatial)]
    xs = named(f"N {outer} C", batch, *spatial, channels)
    ws = named(f"{inner} C K", *taps, channels // groups, filters)
    over = dict(zip(xs[1:-1], ws[:-2], strict=True))
    options: dict[str, Any] = {"strides": strides, "dilations": dilations, "padding": pads, "groups": groups}
    return lambda x, w: ng.convolve(x, w, over, **options), xs, ws, {"over": over, **options}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name: str, target: str) -> None:
    build, xs, ws, options = convolution(CONVOLUTIONS[name])
    x, w = values(*(a.known_length for a in xs)), values(*(a.known_length for a in ws), seed=1)
    got = computed(target, build, (x, xs), (w, ws))
    wanted = loops(x, w, options["strides"], options["dilations"], options["padding"], options["groups"])
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", [n for n in CONVOLUTIONS if n not in ("empty_batch",)])
def test_deconvolution_is_the_adjoint(name: str, target: str) -> None:
    """<convolve(x), y> = <x, deconvolve(y)> for all x and y."""
    build, xs, ws, options = convolution(CONVOLUTIONS[name])
    x, w = values(*(a.known_length for a in xs)), values(*(a.known_length for a in ws), seed=1)
    forward = loops(x, w, options["strides"], options["dilations"], options["padding"], options["groups"])
    y = values(*forward.shape, seed=2)
    outer = NAMES[len(options["over"])][0]
    ys = named(f"N {outer} K", *forward.shape)
    lengths = {a: a.known_length for a in xs[1:-1]}
    back = computed(target, lambda y, w: ng.deconvolve(y, w, lengths=lengths, **options), (y, ys), (w, ws))
    assert back.shape == x.shape
    np.testing.assert_allclose((forward * y).sum(), (back.astype(np.float64) * x).sum(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", TARGETS[1:])
@pytest.mark.parametrize("order", ["N H W", "N C H W"])
@pytest.mark.parametrize("name", [n for n in CONVOLUTIONS if n.startswith("depthwise")])
def test_gradients_of_depthwise_convolutions(name: str, order: str, target: str) -> None:
    """Of both operands, with infinities and NaN, and the channels inside and outside of the other axes."""
    build, xs, ws, _ = convolution(CONVOLUTIONS[name])
    xs = sorted(xs, key=lambda a: order.find(a.name) % 9)
    inputs = [ng.placeholder(xs), ng.placeholder(ws)]
    result = build(*inputs)
    made = ng.axes_with_order(
        result, sorted(result.axes, key=lambda a: order.replace("C", "K").find(a.name) % 9)
    )
    delta = ng.placeholder(made.axes)
    gradients = [ng.deriv(made, x, delta) for x in inputs]
    arrays = [values(*x.axes.known_shape, seed=i) for i, x in enumerate((*inputs, delta))]
    arrays[0].flat[7], arrays[2].flat[5], arrays[2].flat[-1] = np.inf, np.nan, -np.inf

    def found(target: str) -> Any:
        return ng.transformers.make_transformer(target).computation(gradients, *inputs, delta)(*arrays)

    for got, wanted in zip(found(target), found("numpy"), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("order", ["N K H W", "K H W N", "H N W K"])
@pytest.mark.parametrize("target", TARGETS)
def test_axes_may_stand_in_any_order(target: str, order: str) -> None:
    batch, spatial, channels, taps, filters, strides, dilations, pads, groups = CONVOLUTIONS["two"]
    x, w = values(batch, *spatial, channels), values(*taps, channels, filters, seed=1)
    wanted = loops(x, w, strides, dilations, pads)
    axes = {a.name: a for a in named("N H W C R S K", batch, *spatial, channels, *taps, filters)}
    names = order.replace("K", "C").split()
    got = computed(
        target,
        lambda x, w: ng.convolve(x, w, {"H": "R", "W": "S"}, padding=1, axes=named(order, *[1] * 4)),
        (x.transpose(["NHWC".index(n) for n in names]), [axes[n] for n in names]),
        (w.transpose(3, 2, 0, 1), [axes[n] for n in "KCRS"]),
    )
    turn = ["NHWK".index(n) for n in order.split()]
    np.testing.assert_allclose(got, wanted.transpose(turn), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("rule", "length", "taps", "stride", "dilation"),
    [*itertools.product(("valid", "same", "full", "causal"), (1, 7, 8), (1, 2, 3), (1, 2, 3), (1, 2))],
)
def test_padding_by_a_rule(rule: str, length: int, taps: int, stride: int, dilation: int) -> None:
    span = (taps - 1) * dilation + 1
    windows = -(-length // stride)
    missing = max(0, (windows - 1) * stride + span - length)
    pads = {
        "valid": (0, 0),
        "same": (missing // 2, missing - missing // 2),
        "full": (span - 1, span - 1),
        "causal": (span - 1, 0),
    }
    xs, ws = named("N H C", 1, length, 2), named("R C K", taps, 2, 3)
    x, w = values(1, length, 2), values(taps, 2, 3, seed=1)

    def build(x: Tensor, w: Tensor) -> Tensor:
        return ng.convolve(x, w, {"H": "R"}, strides=stride, dilations=dilation, padding=rule)

    if length + sum(pads[rule]) < span:
        with pytest.raises(ng.AxisLengthError, match="does not fit into axis H"):
            computed("numpy", build, (x, xs), (w, ws))
        return
    got = computed("numpy", build, (x, xs), (w, ws))
    np.testing.assert_allclose(got, loops(x, w, (stride,), (dilation,), [pads[rule]]), rtol=1e-5, atol=1e-6)
    if rule == "same":
        assert got.shape[1] == windows


def test_deconvolution_by_a_rule() -> None:
    xs, ws = named("N H K", 1, 5, 2), named("R C K", 3, 4, 2)
    x, w = ng.placeholder(xs), ng.placeholder(ws)
    for stride, rule, length in (
        (1, "valid", 7),
        (2, "valid", 11),
        (2, "same", 10),
        (3, "same", 15),
        (1, "full", 3),
        (2, "causal", 9),
    ):
        made = ng.deconvolve(x, w, {"H": "R"}, strides=stride, padding=rule)
        assert made.axes.names == ("N", "H", "C") and made.axes.known_shape == (1, length, 4)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("dtype", ["f64", "bf16", "f16", "i32", "i8"])
def test_convolution_of_other_elements(dtype: str, groups: int) -> None:
    xs, ws = named("N H C", 2, 9, 4), named("R C K", 3, 4 // groups, 4)
    x, w = (
        np.random.RandomState(0).randint(-4, 5, (2, 9, 4)),
        np.random.RandomState(1).randint(-2, 3, (3, 4 // groups, 4)),
    )
    wanted = loops(x, w, (2,), (1,), [(1, 1)], groups)
    given = [ng.placeholder(axes, dtype=dtype) for axes in (xs, ws)]
    made = ng.convolve(*given, {"H": "R"}, strides=2, padding=1, groups=groups, dtype=dtype)
    back = ng.deconvolve(made, given[1], {"H": "R"}, strides=2, padding=1, groups=groups, dtype=dtype)
    assert str(made.element) == str(back.element) == dtype
    found = [ng.transformers.make_transformer(t).computation([made, back], *given)(x, w) for t in TARGETS]
    for one, other in found:
        np.testing.assert_array_equal(np.asarray(one).astype(np.float64), wanted)
        np.testing.assert_array_equal(np.asarray(other), np.asarray(found[0][1]))


# ---- pooling ---------------------------------------------------------------------------------------------------

#: Batch, spatial lengths, channels, taps, strides, dilations, padding.
POOLINGS = {
    "two_by_two": (2, (6, 8), 5, (2, 2), (2, 2), (1, 1), [(0, 0), (0, 0)]),
    "two_by_two_of_odd": (2, (7, 5), 3, (2, 2), (2, 2), (1, 1), [(0, 0), (0, 0)]),
    "three_in_steps_of_two": (2, (7, 9), 33, (3, 3), (2, 2), (1, 1), [(1, 1), (1, 1)]),
    "dilated": (1, (9, 7), 2, (2, 3), (1, 2), (3, 2), [(2, 0), (1, 1)]),
    "one": (3, (11,), 2, (4,), (3,), (1,), [(1, 2)]),
    "three": (1, (4, 5, 6), 3, (2, 3, 2), (2, 1, 3), (1, 1, 1), [(0, 0), (1, 1), (0, 1)]),
    "all": (2, (7, 7), 10, (7, 7), (7, 7), (1, 1), [(0, 0), (0, 0)]),
    "points": (1, (3, 1), 1, (1, 1), (1, 1), (1, 1), [(0, 0), (0, 0)]),
    "window_beyond_the_input": (1, (2, 3), 4, (5, 3), (1, 1), (1, 1), [(2, 2), (1, 1)]),
    "empty_batch": (0, (5, 5), 2, (3, 3), (1, 1), (1, 1), [(1, 1), (1, 1)]),
}  # fmt: skip


def pooling(case: tuple[Any, ...], kind: str) -> tuple[Callable[[Tensor], Tensor], list[ng.Axis]]:
    batch, spatial, channels, taps, strides, dilations, pads = case
    xs = named(f"N {NAMES[len(spatial)][0]} C", batch, *spatial, channels)
    over = dict(zip(xs[1:-1], taps, strict=True))
    return lambda x: ng.pool(x, over, kind, strides, dilations, pads), xs  # type: ignore[arg-type]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["max", "mean", "sum"])
@pytest.mark.parametrize("name", POOLINGS)
def test_pooling(name: str, kind: str, target: str) -> None:
    build, xs = pooling(POOLINGS[name], kind)
    x = values(*(a.known_length for a in xs))
    got = computed(target, build, (x, xs))
    np.testing.assert_allclose(got, pooled(x, *POOLINGS[name][3:], kind), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("order", ["N C H W", "C H W N", "H N W C"])
def test_pooling_in_any_order(order: str, target: str) -> None:
    x = values(2, 7, 9, 5)
    axes = dict(zip("NHWC", named("N H W C", *x.shape), strict=True))
    turn = ["NHWC".index(n) for n in order.split()]
    got = computed(
        target,
        lambda x: ng.pool(x, {"H": 3, "W": 2}, strides=2, padding=1),
        (x.transpose(turn), [axes[n] for n in order.split()]),
    )
    wanted = pooled(x, (3, 2), (2, 2), (1, 1), [(1, 1), (1, 1)], "max")
    np.testing.assert_array_equal(got, wanted.transpose(turn).astype(np.float32))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["i8", "u8", "i16", "i32", "bf16", "f16", "f64"])
def test_pooling_of_other_elements(dtype: str, target: str) -> None:
    xs = named("N H W C", 2, 7, 9, 5)
    x = np.random.RandomState(0).randint(1, 100, [a.known_length for a in xs])
    given = ng.placeholder(xs, dtype=dtype.replace("u8", "ui8"))
    most = ng.pool(given, {"H": 3, "W": 3}, strides=2, padding=1, dtype=dtype.replace("u8", "ui8"))
    run = ng.transformers.make_transformer(target).computation(most, given)
    wanted = pooled(x, (3, 3), (2, 2), (1, 1), [(1, 1), (1, 1)], "max")
    np.testing.assert_array_equal(run(x).astype(np.float64), wanted)
    total = ng.pool(given, {"H": 3, "W": 3}, "sum", strides=2, padding=1, dtype="f64")
    run = ng.transformers.make_transformer(target).computation(total, given)
    np.testing.assert_array_equal(run(x), pooled(x, (3, 3), (2, 2), (1, 1), [(1, 1), (1, 1)], "sum"))


def test_the_greatest_of_padding_and_nan() -> None:
    xs = named("H W", 3, 3)
    x = np.full((3, 3), -np.inf, np.float32)
    x[0, 0] = np.nan
    for target in TARGETS:
        got = computed(target, lambda x: ng.pool(x, {"H": 2, "W": 2}, strides=1, padding=1), (x, xs))
        assert np.isnan(got[:2, :2]).all() and np.isneginf(got[2:, 2:]).all()


# ---- derivatives -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "one",
        "two_uneven",
        "two_dilated",
        "points_in_steps",
        "three",
        "groups",
        "depthwise_in_steps",
        "depthwise_twice",
    ],
)
def test_slopes_of_convolutions(name: str) -> None:
    build, xs, ws, _ = convolution(CONVOLUTIONS[name])
    given = [
        values(*(a.known_length for a in axes), seed=i).astype(np.float64) for i, axes in enumerate((xs, ws))
    ]
    check_slopes(build, given, [xs, ws])


@pytest.mark.parametrize("name", ["one", "two_uneven", "groups"])
def test_slopes_of_deconvolutions(name: str) -> None:
    _, _, ws, options = convolution(CONVOLUTIONS[name])
    outer = NAMES[len(options["over"])][0]
    ys = named(f"N {outer} K", 2, *[4] * len(options["over"]), ws[-1].known_length)
    given = [
        values(*(a.known_length for a in axes), seed=i).astype(np.float64) for i, axes in enumerate((ys, ws))
    ]
    check_slopes(lambda y, w: ng.deconvolve(y, w, **options), given, [ys, ws])


@pytest.mark.parametrize("kind", ["max", "mean", "sum"])
@pytest.mark.parametrize("name", ["two_by_two_of_odd", "dilated", "one", "three", "window_beyond_the_input"])
def test_slopes_of_pooling(name: str, kind: str) -> None:
    build, xs = pooling(POOLINGS[name], kind)
    x = values(*(a.known_length for a in xs)).astype(np.float64)
    check_slopes(lambda x: ng.square(build(x)), [x], [xs])


def test_slopes_of_windows() -> None:
    xs = named("A B", 7, 6)
    taps = named("R S", 3, 2)
    over = dict(zip(xs, taps, strict=True))
    check_slopes(
        lambda x: ng.square(ng.windows(x, over, (2, 1), (1, 3))), [values(7, 6).astype(np.float64)], [xs]
    )
    ys = named("S A R B", 2, 3, 3, 3)
    check_slopes(
        lambda y: ng.square(ng.overlap_add(y, {"A": ys[2], "B": ys[0]}, (2, 1), (1, 3), {"A": 8})),
        [values(2, 3, 3, 3).astype(np.float64)],
        [ys],
    )


@pytest.mark.parametrize("target", TARGETS)
def test_of_equal_elements_the_first_is_the_greatest(target: str) -> None:
    xs = named("H W", 4, 4)
    x = ng.placeholder(xs)
    total = ng.sum(ng.pool(x, {"H": 2, "W": 2}), out_axes=())
    run = ng.transformers.make_transformer(target).computation(ng.deriv(total, x), x)
    wanted = np.zeros((4, 4), np.float32)
    wanted[::2, ::2] = 1
    np.testing.assert_array_equal(run(np.zeros((4, 4), np.float32)), wanted)


@pytest.mark.parametrize("target", ["cpu", "cuda-sim"])
@pytest.mark.parametrize("name", ["two", "two_uneven", "two_dilated", "groups", "depthwise", "stem"])
def test_compiled_derivatives(name: str, target: str) -> None:
    build, xs, ws, _ = convolution(CONVOLUTIONS[name])
    x, w = ng.placeholder(xs), ng.placeholder(ws)
    loss = ng.sum(ng.square(build(x, w)), out_axes=())
    wanted = [ng.deriv(loss, x), ng.deriv(loss, w)]
    given = [values(*(a.known_length for a in axes), seed=i) for i, axes in enumerate((xs, ws))]
    expected = ng.transformers.make_transformer("numpy").computation(wanted, x, w)(*given)
    got = ng.transformers.make_transformer(target).computation(wanted, x, w)(*given)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("target", ["cpu", "cuda-sim"])
@pytest.mark.parametrize("filters", ["R S C K", "K C R S", "C R S K"])
@pytest.mark.parametrize("order", ["N H W C", "N C H W", "C H W N"])
def test_compiled_second_derivatives_in_any_order(order: str, filters: str, target: str) -> None:
    lengths = {"N": 2, "C": 3, "H": 7, "W": 8, "K": 5, "R": 3, "S": 2}
    xs, ws = ([ng.make_axis(lengths[n], n) for n in names.split()] for names in (order, filters))
    x, w = ng.placeholder(xs), ng.placeholder(ws)
    y = ng.convolve(
        x, w, {"H": "R", "W": "S"}, padding=[(1, 2), (0, 1)], axes=named(order.replace("C", "K"), *[1] * 4)
    )
    loss = ng.sum(ng.tanh(y) * y, out_axes=())
    firsts = [ng.deriv(loss, v) for v in (x, w)]
    total = ng.sum(ng.square(firsts[0]), out_axes=()) + ng.sum(ng.square(firsts[1]), out_axes=())
    wanted = [*firsts, *(ng.deriv(total, v) for v in (x, w))]
    given = [values(*(a.known_length for a in axes), seed=i) for i, axes in enumerate((xs, ws))]
    expected = ng.transformers.make_transformer("numpy").computation(wanted, x, w)(*given)
    got = ng.transformers.make_transformer(target).computation(wanted, x, w)(*given)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5 * np.abs(other).max())


# ---- in five dimensions ----------------------------------------------------------------------------------------

PARAMETERS = {f"{kind}_{d}": n for kind, n in (("pad", 1), ("str", 2), ("dil", 1)) for d in "dhw"}


def test_convolution_in_five_dimensions() -> None:
    xs, ws = named("C D H W N", 3, 1, 7, 6, 2), named("C T R S K", 3, 1, 3, 2, 5)
    params = {**PARAMETERS, "pad_d": 0, "str_d": 1, "str_w": 1}
    out = named("K M P Q N", 5, 1, 4, 7, 2)
    x, w = values(3, 1, 7, 6, 2), values(3, 1, 3, 2, 5, seed=1)
    got = computed("cpu", lambda x, w: ng.convolution(params, x, w, out), (x, xs), (w, ws))
    wanted = loops(
        x.transpose(4, 1, 2, 3, 0), w.transpose(1, 2, 3, 0, 4), (1, 2, 1), (1, 1, 1), [(0, 0), (1, 1), (1, 1)]
    )
    np.testing.assert_allclose(got, wanted.transpose(4, 1, 2, 3, 0), rtol=1e-5, atol=1e-5)
    y = values(*got.shape, seed=2)
    names = [ng.make_axis(a.length, a.name) for a in xs[:-1]]
    back = computed(
        "cpu",
        lambda y, w: ng.deconvolution(params, y, w, named("A B E F N", 3, 1, 7, 6, 2)),
        (y, named("K D H W N", *y.shape)),
        (w, ws),
    )
    assert back.shape == x.shape and names
    np.testing.assert_allclose((wanted.transpose(4, 1, 2, 3, 0) * y).sum(), (x * back).sum(), rtol=1e-4)


def test_pooling_in_five_dimensions() -> None:
    xs = named("C D H W N", 4, 2, 7, 6, 3)
    params = (
        {"op": "avg", "J": 2, "T": 1, "R": 3, "S": 2}
        | {f"str_{d}": 2 for d in "cdhw"}
        | {f"pad_{d}": 0 for d in "cdhw"}
    )
    params["pad_h"] = 1
    x = values(4, 2, 7, 6, 3)
    out = named("C D P Q N", 2, 1, 4, 3, 3)
    got = computed("cpu", lambda x: ng.pooling(params, x, out), (x, xs))
    moved = x.transpose(4, 0, 1, 2, 3)[..., None]
    wanted = pooled(moved, (2, 1, 3, 2), (2,) * 4, (1,) * 4, [(0, 0), (0, 0), (1, 1), (0, 0)], "mean")
    np.testing.assert_allclose(got, wanted[..., 0].transpose(1, 2, 3, 4, 0), rtol=1e-6, atol=1e-6)


# ---- what is refused -------------------------------------------------------------------------------------------

H, W, C, K, R, S = named("H W C K R S", 5, 6, 4, 6, 3, 3)
FIVE, FILTERS = named("C D H W N", 4, 1, 5, 6, 2), named("C T R S K", 4, 1, 3, 3, 6)


REFUSED: dict[str, tuple[Callable[[Tensor, Tensor], Any], type[Exception], str]] = {
    "no_axis": (lambda x, w: ng.windows(x, {"Z": R}), ng.AxisNotFound, "there is no axis Z"),
    "no_axes": (lambda x, w: ng.windows(x, {}), ng.UserError, "says which axes windows slide along"),
    "its_own_axis": (lambda x, w: ng.windows(x, {H: W}), ng.IncompatibleAxesError, "W is one of"),
    "too_long": (lambda x, w: ng.windows(x, {H: ng.make_axis(6, "R")}), ng.AxisLengthError, "a window of 6 elements does not fit into axis H, which has 5"),
    "too_long_apart": (lambda x, w: ng.windows(x, {H: R}, dilations=3), ng.AxisLengthError, r"a window of 7 elements \(3 taps, 3 apart\)"),
    "stride": (lambda x, w: ng.windows(x, {H: R}, strides=0), ng.UserError, "a stride is a whole number of at least 1, not 0"),
    "strides": (lambda x, w: ng.windows(x, {H: R}, strides=(1, 2)), ng.UserError, "2 strides for the 1 axis"),
    "dilation": (lambda x, w: ng.windows(x, {H: R}, dilations=1.5), ng.UserError, "a dilation is a whole number"),  # type: ignore[arg-type]
    "another_axis": (lambda x, w: ng.windows(x, {H: R}, strides={W: 2}), ng.UserError, "a stride for W, but windows slide along"),
    "no_rule": (lambda x, w: ng.convolve(x, w, {H: R, W: S}, padding="some"), ng.UserError, "padding is one of valid"),
    "negative": (lambda x, w: ng.convolve(x, w, {H: R, W: S}, padding=-1), ng.UserError, "a padding is a whole number of at least 0"),
    "three": (lambda x, w: ng.convolve(x, w, {H: R, W: S}, padding=[(1, 2, 3), 1]), ng.UserError, "a pair"),
    "paddings": (lambda x, w: ng.convolve(x, w, {H: R, W: S}, padding=[1, 2, 3]), ng.UserError, "3 paddings for the 2 axes"),
    "no_tap": (lambda x, w: ng.convolve(x, w, {H: "Z"}), ng.AxisNotFound, "there is no axis Z"),
    "order": (lambda x, w: ng.convolve(x, w, {H: R, W: S}, axes=[H, W, K]), ng.IncompatibleAxesError, r"\(H, W, K\) is not a permutation of"),
    "no_pairs": (lambda x, w: ng.convolve(x, w, [H, W]), ng.UserError, "pairs axes"),  # type: ignore[arg-type]
    "groups": (lambda x, w: ng.convolve(x, w, {H: R, W: S}, groups=2), ng.AxisLengthError, "the filters of 2 groups have 2 of them, not 4"),
    "uneven_groups": (lambda x, w: ng.convolve(x, w, {H: R, W: S}, groups=3), ng.AxisLengthError, "4 elements of C cannot be cut into 3 equal groups"),
    "groups_of_nothing": (lambda x, w: ng.convolve(x, w[..., 0], {H: R, W: S}, groups=2), ng.IncompatibleAxesError, "groups need one axis of channels"),
    "channels": (lambda x, w: ng.convolve(x, w[:, :, :3], {H: R, W: S}), ng.AxisLengthError, "axis C has 4 elements on the left and 3"),
    "length": (lambda x, w: ng.deconvolve(x, w, {H: R, W: S}, lengths={H: 9}), ng.AxisLengthError, "a convolution along 9 elements of H does not give 5"),
    "length_of_nothing": (lambda x, w: ng.deconvolve(x, w, {H: R, W: S}, lengths={C: 9}), ng.UserError, "a length for C"),
    "overlap": (lambda x, w: ng.overlap_add(w, {"C": R}, lengths={"C": 7}), ng.AxisLengthError, "4 windows along C reach over 6 elements, not 7"),
    "kind": (lambda x, w: ng.pool(x, {H: 2}, "median"), ng.UserError, "the pooling operation must be one of max, mean, sum"),  # type: ignore[arg-type]
    "no_taps": (lambda x, w: ng.pool(x, {H: 0}), ng.UserError, "a number of taps is a whole number of at least 1"),
    "pool_along": (lambda x, w: ng.pool(x, {}), ng.UserError, "says how many taps"),
    "in_the_padding": (lambda x, w: ng.pool(x, {H: 2}, padding=2), ng.UserError, "window 0 along H lies entirely in the padding"),
    "five": (lambda x, w: ng.convolution(PARAMETERS, x, w, FIVE), ng.IncompatibleAxesError, "inputs have five axes"),
    "five_pool": (lambda x, w: ng.pooling({}, x, FIVE), ng.IncompatibleAxesError, "inputs have five axes"),
    "missing": (lambda x, w: ng.convolution({"pad_d": 1}, ng.placeholder(FIVE), ng.placeholder(FILTERS), FIVE), ng.UserError, "missing parameters: str_d, str_h, str_w, dil_d"),
    "missing_pool": (lambda x, w: ng.pooling({"op": "max"}, ng.placeholder(FIVE), FIVE), ng.UserError, "missing parameters: J"),
    "other_op": (lambda x, w: ng.pooling(dict.fromkeys([*"JTRS", *(f"{k}_{d}" for k in ("pad", "str") for d in "cdhw")], 1) | {"op": "min"}, ng.placeholder(FIVE), FIVE), ng.UserError, "op must be 'max' or 'avg'"),
    "first_axes": (lambda x, w: ng.convolution(PARAMETERS, ng.placeholder(FIVE), ng.placeholder(named("A T R S K", 4, 1, 3, 3, 6)), FIVE), ng.IncompatibleAxesError, "the first axis of the inputs is C, that of the filters A"),
    "last_axis": (lambda x, w: ng.deconvolution(PARAMETERS, ng.placeholder(FIVE), ng.placeholder(FILTERS), FIVE), ng.AxisLengthError, "has 4 elements, the last one of the filters 6"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    call, kind, what = REFUSED[name]
    x, w = ng.placeholder([ng.make_axis(2, "N"), H, W, C]), ng.placeholder([R, S, C, K])
    with pytest.raises(kind, match=what) as found:
        call(x, w)
    assert __file__ in str(found.value)
