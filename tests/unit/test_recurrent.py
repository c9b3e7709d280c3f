# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers: against NumPy step by step, in every order of axes, and their derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from network_helpers import TARGETS, Array, agree, check_directions, drawn, named, on

import ngmlir as ng
from ngmlir.op_graph.tensor import Tensor

G4, G3 = named("GATE GATE", 4, 3)
#: REC, N, F, H; S is H a step before.
SIZES = [(5, 3, 2, 4), (1, 2, 3, 5), (4, 1, 1, 1), (2, 7, 5, 3)]


def axes_of(sizes: Sequence[int]) -> list[ng.Axis]:
    return named("REC N F H S", *sizes, sizes[-1])


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def rnn_steps(x: Array, w: Array, u: Array, b: Array, h: Array, c: Array, rb: Array) -> list[Array]:
    """x (REC, N, F); w (1, H, F); u (1, H, S); b (1, H); h (N, H): h at every step."""
    found = []
    for now in x:
        h = np.tanh(now @ w[0].T + h @ u[0].T + b[0])
        found.append(h)
    return found


def lstm_steps(x: Array, w: Array, u: Array, b: Array, h: Array, c: Array, rb: Array) -> list[Array]:
    found = []
    for now in x:
        i, f, o, g = (now @ w[k].T + h @ u[k].T + b[k] for k in range(4))
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        found.append(h)
    return found


def gru_steps(x: Array, w: Array, u: Array, b: Array, h: Array, c: Array, rb: Array) -> list[Array]:
    found = []
    for now in x:
        (zr, zk, zn), (ur, uk, un) = (
            [now @ w[k].T + b[k] for k in range(3)],
            [h @ u[k].T + rb[k] for k in range(3)],
        )
        n = np.tanh(zn + sigmoid(zr + ur) * un)
        k = sigmoid(zk + uk)
        h = (1 - k) * n + k * h
        found.append(h)
    return found


#: How many gates, the steps in NumPy, and the layer of x, w, u, b, h, c, rb.
Layer = tuple[int, Callable[..., list[Array]], Callable[..., Any]]
LAYERS: dict[str, Layer] = {
    "rnn": (1, rnn_steps, lambda x, w, u, b, h, c, rb, **k: ng.rnn(x, w, u, b, initial=h, **k)),
    "lstm": (4, lstm_steps, lambda x, w, u, b, h, c, rb, **k: ng.lstm(x, w, u, b, initial=h, cell=c, **k)),
    "gru": (
        3,
        gru_steps,
        lambda x, w, u, b, h, c, rb, **k: ng.gru(x, w, u, b, recurrent_bias=rb, initial=h, **k),
    ),
}


def given(
    gates: int, sizes: Sequence[int], order: str = "REC N F"
) -> tuple[list[Array], list[list[ng.Axis]]]:
    REC, N, F, H, S = axes_of(sizes)
    by_name = {a.name: a for a in (REC, N, F)}
    gate = [] if gates == 1 else [ng.make_axis(gates, "GATE")]
    axes = [
        [by_name[n] for n in order.split()],
        [*gate, H, F],
        [*gate, H, S],
        [*gate, H],
        [N, H],
        [N, H],
        [*gate, H],
    ]
    return [drawn(*a, seed=i) for i, a in enumerate(axes)], axes


def reference(
    steps: Callable[..., list[Array]], values: Sequence[Array], order: str, gates: int
) -> list[Array]:
    x = values[0].transpose([order.split().index(n) for n in ("REC", "N", "F")])
    gated = [v[None] if gates == 1 and i in (1, 2, 3, 6) else v for i, v in enumerate(values)]
    return steps(x, *gated[1:])


@pytest.mark.parametrize(
    ("target", "sizes"),
    [(t, s) for t in TARGETS for s in (SIZES if t != "cuda-sim" else SIZES[:2])],
    ids=str,
)
@pytest.mark.parametrize("name", LAYERS)
def test_steps_are_those_of_numpy(name: str, sizes: tuple[int, ...], target: str) -> None:
    gates, steps, layer = LAYERS[name]
    values, axes = given(gates, sizes)
    whole, last, back = on(
        target,
        lambda *a: [layer(*a), layer(*a, return_sequence=False), layer(*a, backward=True)],
        values,
        axes,
    )
    wanted = reference(steps, values, "REC N F", gates)
    np.testing.assert_allclose(whole, wanted, atol=2e-6)
    np.testing.assert_allclose(last, wanted[-1], atol=2e-6)
    reverse = [values[0][::-1], *values[1:]]
    np.testing.assert_allclose(back, reference(steps, reverse, "REC N F", gates)[::-1], atol=2e-6)


@pytest.mark.parametrize("order", ["F REC N", "N REC F", "N F REC", "REC F N"])
@pytest.mark.parametrize("name", LAYERS)
def test_the_result_has_the_order_of_x(name: str, order: str) -> None:
    gates, steps, layer = LAYERS[name]
    values, axes = given(gates, (5, 3, 2, 4), order)
    inputs = [ng.placeholder(a) for a in axes]
    result, state = layer(*inputs, return_state=True)
    names = order.replace("F", "H").split()
    assert list(result.axes.names) == names
    found, *last = ng.compile([result, *(state if name == "lstm" else [state])], inputs)(*values)
    wanted = np.array(reference(steps, values, order, gates))
    np.testing.assert_allclose(
        found, wanted.transpose([("REC", "N", "H").index(n) for n in names]), atol=2e-6
    )
    short = [n for n in names if n != "REC"]
    np.testing.assert_allclose(last[0], wanted[-1].transpose([("N", "H").index(n) for n in short]), atol=2e-6)


def test_the_cell_state_goes_on() -> None:
    """Two halves, the second from the state after the first, are the whole."""
    values, axes = given(4, (6, 3, 2, 4))
    x, w, u, b, h, c, _ = (ng.placeholder(a) for a in axes)
    whole, (h2, c2) = ng.lstm(x, w, u, b, initial=h, cell=c, return_state=True)
    first, (h1, c1) = ng.lstm(x[:3], w, u, b, initial=h, cell=c, return_state=True)
    second, (h3, c3) = ng.lstm(x[3:], w, u, b, initial=h1, cell=c1, return_state=True)
    got = ng.compile([whole, h2, c2, first, second, h3, c3], [x, w, u, b, h, c])(*values[:6])
    np.testing.assert_allclose(got[0], np.concatenate(got[3:5]), atol=1e-6)
    np.testing.assert_allclose(got[1], got[5], atol=1e-6)
    np.testing.assert_allclose(got[2], got[6], atol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", LAYERS)
def test_derivatives(name: str, target: str) -> None:
    gates, _, layer = LAYERS[name]
    values, axes = given(gates, (2, 1, 2, 2) if target == "cuda-sim" else (3, 2, 2, 3))
    used = [i for i in range(7) if (i != 5 or name == "lstm") and (i != 6 or name == "gru")]

    def build(*inputs: Tensor) -> Tensor:
        whole: list[Any] = [0] * 7
        for i, x in zip(used, inputs, strict=True):
            whole[i] = x
        there = layer(*whole)
        return there if target == "cuda-sim" else there * 2 + layer(*whole, backward=True) * there

    check = check_directions if target != "cuda-sim" else agree  # which runs once: simulating takes its time
    check(build, [values[i] for i in used], [axes[i] for i in used], target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", LAYERS)
def test_both_directions(name: str, target: str) -> None:
    gates, _, layer = LAYERS[name]
    function = {"rnn": ng.rnn, "lstm": ng.lstm, "gru": ng.gru}[name]
    values, axes = given(gates, (5, 3, 2, 4))
    (x, w, u, b), (w2, u2) = values[:4], (drawn(*a, seed=20 + i) for i, a in enumerate(axes[1:3]))

    def build(x: Tensor, w: Tensor, u: Tensor, b: Tensor, w2: Tensor, u2: Tensor) -> list[Tensor]:
        def both(merge: Any) -> Any:
            return ng.bidirectional(function, x, (w, u, b), (w2, u2), merge=merge)

        return [both("concat"), both("sum"), *both(None)]

    joined, added, there, back = on(target, build, [x, w, u, b, w2, u2], [*axes[:4], *axes[1:3]])
    np.testing.assert_array_equal(joined, np.concatenate([there, back], axis=2))
    np.testing.assert_array_equal(added, there + back)
    zero, none = np.zeros((3, 4)), np.zeros_like(values[3])
    steps = LAYERS[name][1]
    wanted = reference(steps, [x[::-1], w2, u2, none, zero, zero, np.zeros_like(values[6])], "REC N F", gates)
    np.testing.assert_allclose(back, wanted[::-1], atol=2e-6)


def test_settings_and_names() -> None:
    """Activations, another axis, several features, gates that are named, and names as a shadow of the feature's."""
    T, N, F, E, H, S, K = named("T N F E H S K", 3, 2, 4, 2, 4, 4, 4)
    x, w, u = ng.placeholder([F, N, T, E]), ng.placeholder([H, E, K, F]), ng.placeholder([S, K, H])
    y = ng.lstm(x, w, u, axis=T, gates="K", activation=ng.relu, gate_activation=ng.tanh)
    assert list(y.axes.names) == ["H", "N", "T"]
    values = drawn(F, N, T, E), drawn(H, E, K, F, seed=1), drawn(S, K, H, seed=2)
    found = ng.compile(y, [x, w, u])(*values)
    h = c = np.zeros((4, 2))
    for t in range(3):
        z = np.einsum("fne,hekf->khn", values[0][:, :, t], values[1]) + np.einsum("skh,sn->khn", values[2], h)
        c = np.tanh(z[1]) * c + np.tanh(z[0]) * np.maximum(z[3], 0)
        h = np.tanh(z[2]) * np.maximum(c, 0)
        np.testing.assert_allclose(found[:, :, t], h, atol=2e-6)
    # The hidden axis a step before may be called as the features are.
    assert list(
        ng.rnn(x[:, :, :, 0], ng.placeholder([H, F]), ng.placeholder([H, F]), axis="T").axes.names
    ) == ["H", "N", "T"]


def test_lengths_that_come_later_and_64_bits() -> None:
    REC, N, F, H, S = ng.make_axis(name="REC"), ng.make_axis(name="N"), *named("F H S", 2, 3, 3)
    x = ng.placeholder([REC, N, F], dtype="f64")
    w, u = (ng.constant(drawn(*a, seed=1), a, dtype="f64") for a in ([H, F], [H, S]))
    y = ng.rnn(x, w, u)
    assert y.dtype == np.float64
    run = ng.compile([y, ng.deriv(y, x, error=y)], [x])
    for lengths in ((4, 2), (1, 1), (6, 3)):
        value = np.random.RandomState(0).uniform(-1, 1, (*lengths, 2))
        h = np.zeros((lengths[1], 3))
        for now, found in zip(value, run(value)[0], strict=True):
            h = np.tanh(now @ drawn(H, F, seed=1).T + h @ drawn(H, S, seed=1).T)
            np.testing.assert_allclose(found, h, atol=1e-14)


def test_dropout_inside_an_activation() -> None:
    values, axes = given(1, (6, 2, 2, 5))
    found = on(
        "cpu",
        lambda x, w, u: ng.rnn(x, w, u, activation=lambda z: ng.dropout(ng.tanh(z), 0.5, rescale=False)),
        values[:3],
        axes[:3],
    )
    kept = (found != 0).reshape(6, -1)
    assert 0 < kept.mean() < 1 and len(np.unique(kept, axis=0)) > 1


def test_what_does_not_fit_is_refused() -> None:
    REC, N, F, H, S = axes_of((5, 3, 2, 4))
    x, w, u = ng.placeholder([REC, N, F]), ng.placeholder([H, F]), ng.placeholder([H, S])
    with pytest.raises(ng.AxisNotFound, match="REC"):
        ng.rnn(ng.placeholder([N, F]), w, u)
    with pytest.raises(ng.IncompatibleAxesError, match="the input's weights"):
        ng.rnn(x, ng.placeholder([H, N, F]), u)
    with pytest.raises(ng.IncompatibleAxesError, match="the input's weights"):
        ng.rnn(x, ng.placeholder([F]), u)
    with pytest.raises(ng.IncompatibleAxesError, match=r"the recurrent weights have axes \(S\)"):
        ng.rnn(x, w, ng.placeholder([S]))
    with pytest.raises(ng.AxisLengthError, match="4 elements, S a step before 3"):
        ng.rnn(x, w, ng.placeholder([H, ng.make_axis(3, "S")]))
    with pytest.raises(ng.IncompatibleAxesError, match="the bias has axes"):
        ng.rnn(x, w, u, np.zeros(4))
    with pytest.raises(ng.IncompatibleAxesError, match="the state before the first step has axes"):
        ng.rnn(x, w, u, initial=ng.placeholder([S]))
    with pytest.raises(ng.IncompatibleAxesError, match="an axis of 4 gates"):
        ng.lstm(x, ng.placeholder([ng.make_axis(3, "H"), F]), u)
    with pytest.raises(ng.AxisLengthError, match="the axis of gates H has 4 elements, not 3"):
        ng.gru(x, w, u, gates=H)
    with pytest.raises(ng.UserError, match="merge must be"):
        ng.bidirectional(ng.rnn, x, (w, u), (w, u), merge="mean")  # type: ignore[arg-type]
    with pytest.raises(ng.UserError, match="states are not merged"):
        ng.bidirectional(ng.rnn, x, (w, u), (w, u), return_state=True)
