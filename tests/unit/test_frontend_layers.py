# SPDX-License-Identifier: Apache-2.0
"""Each layer against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir.frontends.neon import (
    GRU,
    LSTM,
    Activation,
    Affine,
    BatchNorm,
    Bias,
    BiRNN,
    ConstantInit,
    Convolution,
    Deconvolution,
    Dropout,
    Explin,
    GaussianInit,
    GlorotInit,
    Identity,
    KaimingInit,
    Layer,
    Linear,
    Logistic,
    LookupTable,
    LSTMCell,
    Normalizer,
    Parallel,
    Pooling,
    Preprocess,
    Rectlin,
    Rectlinclip,
    Recurrent,
    ResidualModule,
    RNNCell,
    Sequential,
    Softmax,
    Tanh,
    UniformInit,
    XavierInit,
    ax,
    reorder_spatial_axes,
    unroll,
)
from ngmlir.frontends.neon.axis import is_shadow_axis, make_shadow_axis

Array = np.ndarray[Any, Any]
INIT = UniformInit(-0.5, 0.5)


@pytest.fixture(params=["numpy", "cpu"])
def transformer(request: pytest.FixtureRequest) -> Any:
    with ng.transformers.make_transformer(request.param) as made:
        yield made


def placed(lengths: dict[str, int]) -> Any:
    return ng.placeholder([ng.make_axis(n, name) for name, n in lengths.items()])


def drawn(x: Any, seed: int = 0) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, x.axes.lengths).astype(np.float32)


def held(transformer: Any, parameter: Any) -> Array:
    return transformer.get_tensor_view_value(parameter)


def names(x: Any) -> list[str]:
    return [*x.axes.names]


def close(actual: Array, wanted: Array) -> None:
    np.testing.assert_allclose(actual, wanted, rtol=2e-5, atol=2e-6)


# ---- products


def test_linear_contracts_all_but_the_batch_and_the_steps(transformer: Any) -> None:
    x = placed({"C": 3, "H": 4, "REC": 5, "N": 2})
    layer = Linear(INIT, nout=7)
    y = layer(x)
    assert layer.initialized and y.axes.lengths == (7, 5, 2) and names(y)[1:] == ["REC", "N"]
    assert [is_shadow_axis(a) for a in layer.W.axes] == [True, False, False]
    value = drawn(x)
    got = transformer.computation(y, x)(value)
    close(got, np.einsum("kch,chrn->krn", held(transformer, layer.W), value))


def test_linear_keeps_what_it_is_told_to(transformer: Any) -> None:
    x = placed({"C": 3, "H": 4, "N": 2})
    layer = Linear(INIT, axes=[ng.make_axis(5, "H2")], keep_axes=["H", "N"])
    y = layer(x)
    assert names(y) == ["H2", "H", "N"]
    value = drawn(x)
    close(
        transformer.computation(y, x)(value),
        np.einsum("kc,chn->khn", held(transformer, layer.W), value),
    )


def test_a_weight_may_have_one_name_on_both_sides(transformer: Any) -> None:
    x = placed({"C": 3, "N": 2})
    layer = Linear(INIT, axes=[ng.make_axis(3, "C")])
    y = layer(x)
    assert names(y) == ["C", "N"]
    value = drawn(x)
    close(transformer.computation(y, x)(value), held(transformer, layer.W) @ value)


def test_an_output_needs_either_a_number_or_axes() -> None:
    with pytest.raises(ValueError, match="nout"):
        Linear(INIT)
    with pytest.raises(ValueError, match="one of the two"):
        Affine(INIT, nout=3, axes=[ax.Y])


def test_shadows_are_the_layer_s_own() -> None:
    shadow = make_shadow_axis(ng.make_axis(3, "A"))
    for wrong in (
        lambda: Linear(INIT, axes=[shadow]),
        lambda: Linear(INIT, nout=2)(ng.placeholder([shadow])),
    ):
        with pytest.raises(ng.IncompatibleAxesError, match="A__NG_SHADOW"):
            wrong()


def test_parameters_are_shared_by_calls_and_made_at_the_first(transformer: Any) -> None:
    layer = Affine(INIT, nout=4)
    assert not layer.initialized and layer.variables == {}
    x, other = placed({"F": 3, "N": 2}), placed({"F": 3, "N": 2})
    y, z = layer(x), layer(other)
    assert len(layer.variables) == 2
    value = drawn(x)
    got = transformer.computation([y, z], x, other)(value, value)
    np.testing.assert_array_equal(*got)
    with pytest.raises(ValueError, match="F"):
        layer(placed({"G": 3, "N": 2}))
    with pytest.raises(ValueError, match="W of Linear"):
        layer(placed({"F": 5, "N": 2}))


@pytest.mark.parametrize("shared", [True, False])
def test_bias_is_that_of_channels_or_of_features(transformer: Any, shared: bool) -> None:
    x = placed({"N": 2, "C": 3, "H": 4})
    layer = Bias(GaussianInit(0, 1), shared=shared)
    y = layer(x)
    assert names(y) == ["N", "C", "H"]
    value, b = drawn(x), held(transformer, layer.W)
    assert b.shape == ((3,) if shared else (3, 4))
    close(transformer.computation(y, x)(value), value + (b[:, None] if shared else b))


def test_affine_always_has_a_bias_and_convolution_only_if_asked() -> None:
    x = placed({"C": 2, "H": 5, "W": 5, "N": 2})
    affine, conv, biased = (
        Affine(INIT, nout=3),
        Convolution((3, 3, 4), INIT),
        Convolution((3, 3, 4), INIT, bias_init=0),
    )
    for layer in (affine, conv, biased):
        layer(x)
    assert [len(layer.variables) for layer in (affine, conv, biased)] == [2, 1, 2]
    with pytest.raises(ValueError, match="batch normalization"):
        Affine(INIT, nout=3, bias_init=0, batch_norm=True)


def test_lookup_table(transformer: Any) -> None:
    words = ng.placeholder([ng.make_axis(4, "REC"), ng.make_axis(3, "N")], dtype="i32")
    layer = LookupTable(6, 5, INIT, pad_idx=2)
    y = layer(words)
    assert names(y) == ["F", "REC", "N"]
    ids = np.random.default_rng(0).integers(0, 6, (4, 3))
    ids[0] = 2
    table = held(transformer, layer.W)
    assert not table[2].any() and table[0].any()
    gradient = ng.deriv(ng.sum(y, out_axes=()), layer.W)
    got, slope = transformer.computation([y, gradient], words)(ids)
    close(got, table[ids].transpose(2, 0, 1))
    counts = np.bincount(ids.ravel(), minlength=6)
    counts[2] = 0
    close(slope, np.repeat(counts[:, None], 5, 1))


def test_a_lookup_table_without_a_pad_starts_as_it_is_told_and_may_stay() -> None:
    words = ng.placeholder([ng.make_axis(3, "N")], dtype="i32")
    layer = LookupTable(6, 5, ConstantInit(2), update=False)
    y = layer(words)
    assert y.variables() == [] and names(y) == ["F", "N"]
    assert (ng.compile(y, [words])([0, 1, 2]) == 2).all()


# ---- windows


def correlated(
    x: Array, w: Array, strides: Sequence[int], pads: Sequence[tuple[int, int]], dilation: int = 1
) -> Array:
    """x (C, H, W, N) by w (C, R, S, K), taken literally: (K, P, Q, N)."""
    x = np.pad(x, [(0, 0), *pads, (0, 0)])
    _, R, S, K = w.shape
    P, Q = ((x.shape[i + 1] - dilation * (w.shape[i + 1] - 1) - 1) // strides[i] + 1 for i in (0, 1))
    out = np.zeros((K, P, Q, x.shape[3]), np.float64)
    for p in range(P):
        for q in range(Q):
            for r in range(R):
                for s in range(S):
                    here = x[:, p * strides[0] + r * dilation, q * strides[1] + s * dilation]
                    out[:, p, q] += np.einsum("cn,ck->kn", here, w[:, r, s])
    return out


@pytest.mark.parametrize(
    "settings, strides, pads, dilation",
    [
        ({}, (1, 1), [(0, 0), (0, 0)], 1),
        ({"padding": 1, "strides": 2}, (2, 2), [(1, 1), (1, 1)], 1),
        ({"padding": {"H": (2, 0), "W": 1}}, (1, 1), [(2, 0), (1, 1)], 1),
        ({"padding": "same", "strides": {"W": 2}}, (1, 2), [(1, 1), (0, 1)], 1),
        ({"padding": "full", "dilation": 2}, (1, 1), [(4, 4), (2, 2)], 2),
        ({"padding": {"H": "causal", "W": "valid"}, "strides": (2, 1)}, (2, 1), [(2, 0), (0, 0)], 1),
    ],
)
@pytest.mark.parametrize("order", ["CHWN", "NHWC", "NCHW"])
def test_convolution(
    transformer: Any, settings: dict[str, Any], strides: Any, pads: Any, dilation: int, order: str
) -> None:
    lengths = {"C": 3, "H": 7, "W": 6, "N": 2}
    x = placed({name: lengths[name] for name in order})
    layer = Convolution((3, 2, 5), INIT, bias_init=GaussianInit(), activation=Rectlin(), **settings)
    y = layer(x)
    assert names(y) == [*order]  # as they came
    weight, bias = layer.conv.W, layer.bias.W
    assert names(weight) == ["C", "D", "H", "W", "K__NG_SHADOW"] and weight.axes.lengths == (3, 1, 3, 2, 5)
    value = drawn(x)
    got = transformer.computation(y, x)(value)
    w, b = held(transformer, weight), held(transformer, bias)
    wanted = correlated(value.transpose([order.index(a) for a in "CHWN"]), w[:, 0], strides, pads, dilation)
    wanted = np.maximum(wanted + b[:, None, None, None], 0)
    close(got, wanted.transpose(["CHWN".index(a) for a in order]))


def test_convolution_over_one_axis_of_any_name(transformer: Any) -> None:
    x = placed({"C": 2, "time": 9, "N": 2})
    layer = Convolution((3, 4), INIT, padding=(2, 0))
    y = layer(x, spatial_axes={"W": "time"})
    assert y.axes.lengths == (4, 9, 2) and names(y) == ["C", "time", "N"]
    value = drawn(x)
    w = held(transformer, layer.conv.W)
    wanted = correlated(value[:, None], w[:, 0], (1, 1), [(0, 0), (2, 0)])
    close(transformer.computation(y, x)(value), wanted[:, 0])


def test_convolution_in_three_dimensions_without_channels() -> None:
    x = placed({"D": 4, "H": 5, "W": 6, "N": 2})
    y = Convolution((2, 3, 3, 5), INIT)(x)
    assert names(y) == ["C", "D", "H", "W", "N"] and y.axes.lengths == (5, 3, 3, 4, 2)


def test_a_convolution_is_called_with_the_same_channels() -> None:
    layer = Convolution((3, 3, 4), INIT)
    layer(placed({"C": 2, "H": 5, "W": 5, "N": 2}))
    layer(placed({"C": 2, "H": 9, "W": 7, "N": 2}))  # windows slide along any length
    with pytest.raises(ValueError, match="C: 3"):
        layer(placed({"C": 3, "H": 5, "W": 5, "N": 2}))


@pytest.mark.parametrize(
    "lengths, what",
    [
        ({"C": 2, "H": 5, "W": 5}, "batch"),
        ({"C": 2, "F": 5, "N": 5}, "none of the axes D, H, W"),
        ({"C": 2, "W": 5, "F": 5, "N": 5}, "F besides"),
    ],
)
def test_axes_that_fit_no_window(lengths: dict[str, int], what: str) -> None:
    for layer in (Convolution((3, 4), INIT), Pooling((2,))):
        with pytest.raises(ng.IncompatibleAxesError, match=what):
            layer(placed(lengths))


def test_reorder_spatial_axes() -> None:
    x = reorder_spatial_axes(placed({"N": 2, "W": 3, "C": 4}))
    assert names(x) == ["C", "D", "H", "W", "N"] and x.axes.lengths == (4, 1, 1, 3, 2)


def test_settings_that_no_window_has() -> None:
    for wrong in (
        lambda: Convolution((3,), INIT),
        lambda: Convolution((3, 3, 4), INIT, strides=(1, 2, 3)),
        lambda: Convolution({"H": 3}, INIT),
        lambda: Convolution((3, 3, 4), INIT, padding={"X": 1}),
        lambda: Convolution((3, 3, 4), INIT, padding="some")(placed({"C": 2, "H": 5, "W": 5, "N": 2})),
        lambda: Pooling((2, 2), pool_type="min"),
        lambda: Pooling((2, 2))(placed({"C": 2, "W": 5, "N": 2})),
        lambda: Convolution((2, 2, 2), INIT)(placed({"C": 2, "W": 5, "N": 2})),
    ):
        with pytest.raises(ng.UserError):
            wrong()


@pytest.mark.parametrize("out_shape", [None, (9, 8)])
def test_deconvolution(transformer: Any, out_shape: Any) -> None:
    x = placed({"C": 3, "H": 5, "W": 4, "N": 2})
    layer = Deconvolution((3, 3, 2), INIT, strides=2, deconv_out_shape=out_shape)
    y = layer(x)
    value, w = drawn(x), held(transformer, layer.conv.W)
    wanted = np.zeros((2, 11, 9, 2))
    for p in range(5):
        for q in range(4):
            part = np.einsum("cn,crsk->krsn", value[:, p, q], w[:, 0])
            wanted[:, 2 * p : 2 * p + 3, 2 * q : 2 * q + 3] += part
    if out_shape is not None:
        wanted = wanted[:, 1:10, 0:8]
    assert y.axes.lengths == wanted.shape
    close(transformer.computation(y, x)(value), wanted)


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_pooling(transformer: Any, kind: str) -> None:
    x = placed({"N": 2, "C": 3, "H": 7, "W": 6})
    y = Pooling((3, 2), strides=2, padding={"H": 1}, pool_type=kind)(x)
    value = drawn(x)
    wanted = np.zeros((2, 3, 4, 3), np.float32)
    for p in range(4):
        for q in range(3):
            window = value[:, :, max(0, 2 * p - 1) : 2 * p + 2, 2 * q : 2 * q + 2]
            wanted[:, :, p, q] = window.max((2, 3)) if kind == "max" else window.mean((2, 3))
    close(transformer.computation(y, x)(value), wanted)


def test_pooling_over_channels() -> None:
    x = placed({"C": 6, "H": 4, "W": 4, "N": 2})
    assert Pooling((3, 1, 2, 2), strides={"C": 3, "H": 2, "W": 2})(x).axes.lengths == (2, 2, 2, 2)
    assert Pooling({"H": 2})(x).axes.lengths == (6, 3, 4, 2)


# ---- normalization


@pytest.mark.parametrize("lengths", [{"C": 3, "H": 4, "N": 5}, {"F": 3, "N": 5}, {"F": 3, "REC": 4, "N": 5}])
def test_batch_norm(transformer: Any, lengths: dict[str, int]) -> None:
    x = placed(lengths)
    layer = BatchNorm(rho=0.8, init_gamma=1.5, init_beta=0.5)
    y = layer(x)
    with Layer.inference_mode_on():
        z = layer(x)
    reduced = tuple(range(1, len(lengths)))
    train, infer = transformer.computation(y, x), transformer.computation(z, x)
    mean, var = np.zeros(3), np.ones(3)
    for step in range(3):
        value = drawn(x, step) * 2 + 1
        m, v = value.mean(reduced), value.var(reduced)
        shape = (3, *(1,) * len(reduced))
        close(train(value), 1.5 * (value - m.reshape(shape)) / np.sqrt(v.reshape(shape) + 1e-3) + 0.5)
        mean, var = mean * 0.8 + m * 0.2, var * 0.8 + v * 0.2
        wanted = 1.5 * (value - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + 1e-3) + 0.5
        close(infer(value), wanted)
        close(infer(value), wanted)  # nothing is learned in inference
    assert set(layer.variables) == {"BatchNorm/gamma", "BatchNorm/beta"}


def test_batch_norm_has_the_gradient_of_its_statistics() -> None:
    x = ng.variable(
        [ng.make_axis(3, "F"), ng.make_axis(4, "N")], initial_value=np.arange(12).reshape(3, 4) ** 1.5
    )
    weights = ng.constant(np.random.default_rng(0).uniform(size=(3, 4)), x.axes)
    layer = BatchNorm()
    total = ng.sum(layer(x) * weights, out_axes=())
    with ng.transformers.make_transformer("numpy") as transformer:
        slope = transformer.computation(ng.deriv(total, x))()
        assert np.abs(slope.sum(1)).max() < 1e-5  # a shift of all samples changes nothing
        assert np.abs(slope).max() > 1e-3


def test_dropout(transformer: Any) -> None:
    x = placed({"F": 50, "H": 4, "N": 3})
    layer = Dropout(keep=0.7)
    y = layer(x)
    with Layer.inference_mode_on():
        z = layer(x)
    assert Layer.inference_mode is False
    train = transformer.computation(y, x)
    value = np.abs(drawn(x)) + 0.1
    first, second = train(value), train(value)
    mask = first != 0
    np.testing.assert_array_equal(first[mask], value[mask])  # what stays is not scaled
    assert (mask == mask[..., :1]).all() and 0.5 < mask.mean() < 0.9  # the same for all samples
    assert (mask != (second != 0)).any()  # drawn anew
    close(transformer.computation(z, x)(value), value * np.float32(0.7))


# ---- recurrence


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def stepped(
    step: Callable[..., tuple[Array, ...]], x: Array, states: Sequence[Array], backward: bool = False
) -> Array:
    """(hidden, REC, N) of a step function of (x_t, *states), x (F, REC, N)."""
    found: dict[int, Array] = {}
    for t in range(x.shape[1])[:: -1 if backward else 1]:
        states = step(x[:, t], *states)
        found[t] = states[0]
    return np.stack([found[t] for t in range(x.shape[1])], 1)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_recurrent(transformer: Any, backward: bool, whole: bool) -> None:
    x = placed({"F": 3, "REC": 6, "N": 2})
    layer = Recurrent(4, INIT, activation=Tanh(), backward=backward, return_sequence=whole)
    y = layer(x)
    assert names(y) == (["F", "REC", "N"] if whole else ["F", "N"])
    value = drawn(x)
    got = transformer.computation(y, x)(value)
    w, u, b = (held(transformer, p) for p in (layer.W_input, layer.W_recur, layer.b))
    assert not b.any()
    wanted = stepped(lambda x, h: (np.tanh(u @ h + w @ x + b[:, None]),), value, [np.zeros((4, 2))], backward)
    close(got, wanted if whole else wanted[:, 0 if backward else -1])


@pytest.mark.parametrize("gate", [None, Logistic()])
def test_lstm(transformer: Any, gate: Any) -> None:
    x = placed({"N": 2, "REC": 5, "H": 2, "W": 2})
    layer = LSTM(3, INIT, GaussianInit(0, 0.5), activation=Tanh(), gate_activation=gate)
    y, cell_state = layer(x, return_cell_state=True)
    assert y.axes.lengths == (3, 5, 2) and cell_state.axes.lengths == (3, 5, 2)
    assert layer.metadata["gates"] == ["i", "f", "o", "g"]
    value = drawn(x)
    got, states = transformer.computation([y, cell_state], x)(value)
    w, u, b = (
        {k: held(transformer, p) for k, p in each.items()} for each in (layer.W_input, layer.W_recur, layer.b)
    )
    act = np.tanh if gate is None else sigmoid  # without a gate activation the gates use the other one
    cells: list[Array] = []

    def step(x: Array, h: Array, c: Array) -> tuple[Array, Array]:
        z = {k: np.tensordot(w[k], x, ([1, 2], [0, 1])) + u[k] @ h + b[k][:, None] for k in "ifog"}
        c = act(z["f"]) * c + act(z["i"]) * np.tanh(z["g"])
        cells.append(c)
        return act(z["o"]) * np.tanh(c), c

    value = value.transpose(2, 1, 3, 0)  # (H, REC, W, N)
    wanted = stepped(step, value, [np.zeros((3, 2)), np.zeros((3, 2))])
    close(got, wanted)
    close(states, np.stack(cells, 1))


def test_gru(transformer: Any) -> None:
    x = placed({"F": 3, "REC": 5, "N": 2})
    layer = GRU(4, INIT)
    y = layer(x)
    value = drawn(x)
    got = transformer.computation(y, x)(value)
    w, u = ({k: held(transformer, p) for k, p in each.items()} for each in (layer.W_input, layer.W_recur))

    def step(x: Array, h: Array) -> tuple[Array]:
        r, z = (sigmoid(w[k] @ x + u[k] @ h) for k in "rz")
        n = np.tanh(w["n"] @ x + r * (u["n"] @ h))
        return ((1 - z) * n + z * h,)

    close(got, stepped(step, value, [np.zeros((4, 2))]))


def test_cells_that_go_on_from_the_run_before(transformer: Any) -> None:
    x = placed({"F": 3, "REC": 4, "N": 2})
    layer = Recurrent(3, INIT, activation=Tanh(), reset_cells=False)
    run = transformer.computation(layer(x), x)
    first, second = drawn(x, 1), drawn(x, 2)
    got = np.concatenate([run(first), run(second)], 1)
    w, u = (held(transformer, p) for p in (layer.W_input, layer.W_recur))
    whole = np.concatenate([first, second], 1)
    close(got, stepped(lambda x, h: (np.tanh(u @ h + w @ x),), whole, [np.zeros((3, 2))]))
    assert len(layer.variables) == 3  # the state is not trained


def test_a_first_state_of_another_layer(transformer: Any) -> None:
    x = placed({"F": 3, "REC": 4, "N": 2})
    encoder = LSTM(5, INIT, activation=Tanh(), gate_activation=Logistic(), return_sequence=False)
    code, cells = encoder(x, return_cell_state=True)
    other = placed({"G": 2, "REC": 3, "N": 2})
    decoder = LSTM(5, INIT, activation=Tanh(), gate_activation=Logistic())
    y = decoder(other, init_state=(code, cells))
    assert y.axes.lengths == (5, 3, 2)
    h = ng.placeholder([ng.make_axis(2, "N"), ng.make_axis(5, "state")])
    layer = Recurrent(5, INIT, activation=Tanh())
    run = transformer.computation(layer(other, init_state=h), other, h)
    value, start = drawn(other), np.random.default_rng(3).uniform(size=(2, 5))
    w, u = (held(transformer, p) for p in (layer.W_input, layer.W_recur))
    close(run(value, start), stepped(lambda x, h: (np.tanh(u @ h + w @ x),), value, [start.T]))
    with pytest.raises(ng.IncompatibleAxesError, match="4 elements"):
        layer(other, init_state=ng.constant(0, [ng.make_axis(4, "state")]))


@pytest.mark.parametrize("mode", ["pair", "sum_out", "concat_out"])
def test_birnn(transformer: Any, mode: str) -> None:
    x = placed({"H": 2, "F": 3, "REC": 4, "N": 2})
    layer = BiRNN(5, INIT, activation=Tanh(), reset_cells=True, **({} if mode == "pair" else {mode: True}))
    y = layer(x)
    value = drawn(x)
    results = list(y) if mode == "pair" else [y]
    got = transformer.computation(results, x)(value)
    wanted: list[Array] = []
    for part, backward in ((layer.fwd_rnn, False), (layer.bwd_rnn, True)):
        w, u = (held(transformer, p) for p in (part.W_input, part.W_recur))
        flat, wide = w.reshape(5, -1), value.reshape(6, 4, 2)

        def step(x: Array, h: Array, u: Array = u, flat: Array = flat) -> tuple[Array]:
            return (np.tanh(u @ h + flat @ x),)

        wanted.append(stepped(step, wide, [np.zeros((5, 2))], backward))
    if mode == "pair":
        close(got[0], wanted[0])
        close(got[1], wanted[1])
    else:
        close(got[0], sum(wanted) if mode == "sum_out" else np.concatenate(wanted))
    with pytest.raises(ValueError, match="not both"):
        BiRNN(5, INIT, sum_out=True, concat_out=True)


def test_batch_norm_in_a_recurrence_is_that_of_the_input(transformer: Any) -> None:
    x = placed({"F": 3, "REC": 4, "N": 5})
    layer = Recurrent(4, INIT, activation=Tanh(), batch_norm=True)
    y = layer(x)
    value = drawn(x)
    got = transformer.computation(y, x)(value)
    w, u = (held(transformer, p) for p in (layer.W_input, layer.W_recur))
    wx = np.tensordot(w, value, 1)
    wx = (wx - wx.mean((1, 2), keepdims=True)) / np.sqrt(wx.var((1, 2), keepdims=True) + 1e-3)
    close(got, stepped(lambda x, h: (np.tanh(u @ h + x),), wx, [np.zeros((4, 5))]))


def test_cells_step_by_step_and_unrolled(transformer: Any) -> None:
    x = placed({"F": 3, "REC": 4, "N": 2})
    for cell in (
        RNNCell(5, INIT, activation=Tanh()),
        LSTMCell(5, INIT, activation=Tanh(), gate_activation=Logistic()),
    ):
        whole = unroll(cell, 3, x)
        states = cell.initialize_states(x.axes.batch_axis())
        for t in range(3):
            out, states = cell(ng.slice_along_axis(x, x.axes["REC"], t), states)
        last, back = unroll(cell, None, x, return_sequence=False), unroll(cell, 4, x, reverse_mode=True)
        got = transformer.computation([whole, out, last, back], x)(drawn(x))
        assert got[0].shape == (5, 3, 2) and got[3].shape == (5, 4, 2)
        close(got[0][:, -1], got[1])
        assert got[2].shape == (5, 2)


def test_a_recurrence_is_one_loop_whatever_its_length() -> None:
    ops: list[int] = []
    for steps in (3, 300):
        x = placed({"F": 3, "REC": steps, "N": 2})
        y = LSTM(4, INIT, activation=Tanh())(x)
        cost = ng.sum(y, out_axes=())
        module = ng.lift([ng.deriv(cost, v) for v in y.variables()], [x]).module
        ops.append(sum(1 for _ in module.walk()))
    assert ops[0] == ops[1] < 500


def test_a_recurrence_needs_steps() -> None:
    with pytest.raises(ng.AxisNotFound, match="REC"):
        Recurrent(3, INIT)(placed({"F": 3, "N": 2}))


# ---- functions, containers, initial values


@pytest.mark.parametrize(
    "activation, function",
    [
        (Rectlin(), lambda x: np.maximum(x, 0)),
        (Rectlin(slope=0.1), lambda x: np.where(x > 0, x, 0.1 * x)),
        (Rectlinclip(slope=0.1, cutoff=0.5), lambda x: np.minimum(np.where(x > 0, x, 0.1 * x), 0.5)),
        (Explin(alpha=0.5), lambda x: np.where(x > 0, x, 0.5 * np.expm1(x))),
        (Identity(), lambda x: x),
        (Normalizer(divisor=4), lambda x: x / 4),
        (Softmax(), lambda x: np.exp(x) / np.exp(x).sum(0)),
        (Tanh(), np.tanh),
        (Logistic(), sigmoid),
    ],
)
def test_activations(activation: Any, function: Any) -> None:
    x = placed({"F": 5, "N": 3})
    value = drawn(x) * 2
    for layer in (activation, Activation(activation), Preprocess(activation)):
        close(ng.compile(layer(x), [x], "numpy")(value), function(value))


def test_containers(transformer: Any) -> None:
    x = placed({"C": 2, "H": 4, "W": 4, "N": 3})
    conv = Convolution((3, 3, 2), INIT, padding=1)
    both = Parallel([conv, Preprocess(lambda x: x * 2), lambda x: x])
    residual = ResidualModule(conv)
    y = Sequential([both, Pooling((2, 2), strides=2), Activation()])(x)
    value = drawn(x)
    plain, joined, added = transformer.computation([conv(x), both(x), residual(x)], x)(value)
    close(joined, np.concatenate([plain, value * 2, value]))
    close(added, plain + value)
    assert y.axes.lengths == (6, 2, 2, 3)
    assert [o.axes.lengths for o in Parallel([conv, conv], mode=None)(x)] == [(2, 4, 4, 3)] * 2
    assert Parallel([conv, conv], merge_axis="H")(x).axes.lengths == (2, 8, 4, 3)
    with pytest.raises(ValueError, match="concat"):
        Parallel([conv], mode="sum")
    with pytest.raises(ValueError, match="main path gives"):
        ResidualModule(Convolution((3, 3, 2), INIT))(x)
    with pytest.raises(ValueError, match="main path gives"):
        ResidualModule(conv, Affine(INIT, nout=3))(x)


@pytest.mark.parametrize(
    "init, low, high, deviation",
    [
        (GaussianInit(1, 0.5), -9, 9, 0.5),
        (UniformInit(-2, 1), -2, 1, 3 / 12**0.5),
        (ConstantInit(3), 3, 3, 0),
        (GlorotInit(), -((6 / 300) ** 0.5), (6 / 300) ** 0.5, (2 / 300) ** 0.5),
        (XavierInit(), -((3 / 200) ** 0.5), (3 / 200) ** 0.5, (1 / 200) ** 0.5),
        (KaimingInit(), -9, 9, (2 / 200) ** 0.5),
    ],
)
def test_initial_values(init: Any, low: float, high: float, deviation: float) -> None:
    axes = ng.make_axes(
        [make_shadow_axis(ng.make_axis(100, "K")), ng.make_axis(50, "C"), ng.make_axis(4, "H")]
    )
    np.random.seed(1)
    value = init(axes)
    assert value.shape == (100, 50, 4) and low <= value.min() and value.max() <= high
    assert value.std() == pytest.approx(deviation, rel=0.03, abs=1e-9)
    np.random.seed(1)
    np.testing.assert_array_equal(init(axes), value)  # NumPy's generator, and nothing else
