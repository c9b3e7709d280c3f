# SPDX-License-Identifier: Apache-2.0
"""Training in parts and in other elements: accumulated gradients, scales of the loss, frozen layers, `dtype=`, early stopping."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir.frontends import neon

TARGETS = ["numpy", "cpu", "cuda-sim"]
_DRAW = np.random.default_rng(0)
POINTS = _DRAW.normal(size=(8, 4)).astype("float32")
VALUES = POINTS @ _DRAW.normal(size=4).astype("float32") + 1


@pytest.fixture(autouse=True)
def lengths() -> Any:
    before = neon.ax.N.length, neon.ax.REC.length
    yield
    neon.ax.N.length, neon.ax.REC.length = before


class Fit:
    """A small network with a squared error, and a step of an optimizer."""

    def __init__(
        self, optimizer: neon.Optimizer, batch: int, target: str = "numpy", factor: Any = 1.0, **settings: Any
    ):
        neon.ax.N.length = batch
        draw = np.random.RandomState(0)

        def init(axes: Any) -> Any:
            return draw.normal(size=axes.lengths) * 0.5

        self.x = ng.placeholder([neon.ax.N, ng.make_axis(4, "features")])
        self.y = ng.placeholder([neon.ax.N])
        self.model = neon.Sequential(
            [
                neon.Affine(init, nout=3, activation=neon.Tanh(), name="first"),
                neon.Affine(init, nout=1, name="last"),
            ],
            **settings,
        )
        self.made = self.model(self.x)
        self.losses = ng.square(ng.sum(self.made, out_axes=[neon.ax.N]) - self.y) * factor
        self.transformer = ng.transformers.make_transformer(target)
        self.run = self.transformer.computation(
            [optimizer(self.losses), ng.mean(self.losses, out_axes=())], self.x, self.y
        )

    def step(self, rows: slice) -> float:
        return float(self.run(POINTS[rows], VALUES[rows])[1])

    def weights(self) -> list[Any]:
        return [self.transformer.get_tensor_view_value(v) for v in self.model.variables.values()]


MAKERS: list[Callable[..., neon.Optimizer]] = [
    lambda **more: neon.GradientDescentMomentum(0.1, 0.9, **more), lambda **more: neon.Adam(0.1, gradient_clip_norm=0.5, **more),
    lambda **more: neon.AdamW(0.1, weight_clip_value=0.4, **more),
]  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("maker", range(len(MAKERS)))
def test_accumulated_gradients_step_as_one_batch_of_all(maker: int, target: str) -> None:
    parts, whole = Fit(MAKERS[maker](accumulate=4), 2, target), Fit(MAKERS[maker](), 8)
    for _ in range(3):
        for n in range(4):
            before = parts.weights()
            parts.step(slice(2 * n, 2 * n + 2))
            if n < 3:
                assert all(map(np.array_equal, before, parts.weights()))
        whole.step(slice(8))
        for one, other in zip(parts.weights(), whole.weights(), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scale", [512.0, neon.LossScale(2.0**10)])
def test_scales_of_the_loss_do_not_change_steps(scale: Any) -> None:
    for maker in MAKERS:
        scaled, plain = Fit(maker(loss_scale=scale), 8), Fit(maker(), 8)
        for _ in range(3):
            scaled.step(slice(8))
            plain.step(slice(8))
        for one, other in zip(scaled.weights(), plain.weights(), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_step_with_infinite_gradients_is_left_out(target: str, accumulate: int) -> None:
    factor, scale = ng.placeholder((), initial_value=1.0), neon.LossScale(8.0, interval=3)
    fit = Fit(neon.Adam(0.1, loss_scale=scale, accumulate=accumulate), 8, target, factor)
    run = fit.transformer.computation(fit.run.computation_op.returns, fit.x, fit.y, factor)
    seen: list[float] = []
    for given in (1.0, np.inf, 1.0, np.nan, 1.0, 1.0, 1.0, 1.0):
        before = fit.transformer.state()
        run(POINTS, VALUES, given)
        after = fit.transformer.state()
        changed = {n for n in after if n != "factor" and not np.array_equal(before[n], after[n])}
        if not np.isfinite(given):
            assert changed <= {"loss_scale", "loss_scale_steps"}
        else:
            assert changed - {"loss_scale", "loss_scale_steps"}
        seen.append(float(fit.transformer.get_tensor_view_value(scale.value)))
    assert seen == [8, 4, 4, 2, 2, 2, 4, 4]
    assert all(np.isfinite(w).all() for w in fit.weights())


def test_frozen_variables_stay_as_they_are() -> None:
    def changed(fit: Fit) -> list[bool]:
        before = fit.weights()
        fit.step(slice(8))
        return [not np.array_equal(one, other) for one, other in zip(before, fit.weights(), strict=True)]

    fit = Fit(neon.Adam(0.1), 8)
    assert changed(fit) == [True] * 4
    fit.model.layers[0].freeze()
    again = neon.Adam(0.1)(fit.losses)
    fit.run = fit.transformer.computation([again, ng.mean(fit.losses, out_axes=())], fit.x, fit.y)
    assert changed(fit) == [False, False, True, True]
    assert not any("first" in name and "moment" in name for name in fit.run.state())
    assert [v.is_trainable for v in fit.model.variables.values()] == [False, False, True, True]
    fit.model.unfreeze()
    biases = [op for op in fit.model.select(".bias") if op.is_trainable]
    for op in biases:
        op.metadata["trainable"] = False
    assert len(biases) == 2
    variables = [*fit.model.variables.values()]
    # Those that are given are left out too; a subgraph's as well.
    ways: list[dict[str, Any]] = [{}, {"variables": variables}, {"subgraph": fit.model}]
    for arguments in ways:
        fit.run = fit.transformer.computation(
            [neon.Adam(0.1)(fit.losses, **arguments), ng.mean(fit.losses, out_axes=())], fit.x, fit.y
        )
        assert changed(fit) == [True, False, True, False]
    assert fit.losses.variables() == [variables[0], variables[2]]
    fit.model.freeze()
    with pytest.raises(ng.UserError, match="frozen|no variables"):
        neon.Adam(0.1)(fit.losses)
    with pytest.raises(ng.UserError, match="all variables are frozen"):
        neon.Adam(0.1)(fit.losses, variables=variables)


def test_layers_are_made_frozen() -> None:
    frozen: list[dict[str, Any]] = [{"trainable": False}, {"metadata": {"trainable": False}}]
    for settings in frozen:
        layer = neon.Affine(neon.ConstantInit(1.0), nout=2, **settings)
        x = ng.placeholder([ng.make_axis(3, "features")])
        made = layer(x)
        assert [v.is_trainable for v in layer.variables.values()] == [False, False] and made.variables() == []
        layer.unfreeze()
        assert len(made.variables()) == 2
    late = neon.Affine(neon.ConstantInit(1.0), nout=2)
    late.freeze()
    assert late(x).variables() == []
    assert (
        neon.Affine(1.0, nout=2, trainable=False).__repr__()
        == "Affine(weight_init=1.0, nout=2, trainable=False)"
    )
    options: dict[str, Any] = {"metadata": {"trainable": False}}
    assert not ng.variable((), initial_value=0, **options).is_trainable


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "f16"])
def test_layers_compute_in_the_elements_that_they_are_given(dtype: str) -> None:
    fit = Fit(neon.GradientDescentMomentum(0.01), 8, "cpu", dtype=dtype)
    assert fit.made.element.text == dtype
    assert {v.element.text for v in fit.model.variables.values()} == {dtype}
    first = fit.step(slice(8))
    for _ in range(20):
        last = fit.step(slice(8))
    assert last < first
    fit = Fit(neon.Adam(0.01), 8, "cpu", dtype=dtype, param_dtype="f32")
    assert fit.made.element.text == dtype and {v.element.text for v in fit.model.variables.values()} == {
        "f32"
    }


def test_small_steps_are_kept_by_wide_weights_alone() -> None:
    """What a recipe of mixed precision is for: a step of 2**-12 of a weight is lost in bf16."""
    x = ng.placeholder([neon.ax.N, ng.make_axis(1, "features")])
    neon.ax.N.length = 1
    moved: list[float] = []
    for wide in (None, "f32"):
        layer = neon.Linear(neon.ConstantInit(1.0), nout=1, dtype="bf16", param_dtype=wide)
        cost = ng.sum(layer(x), out_axes=())
        with ng.transformers.make_transformer("cpu") as transformer:
            run = transformer.computation(neon.Adagrad(2.0**-12)(cost), x)
            for _ in range(16):
                run([[1.0]])
            moved.append(1 - float(transformer.get_tensor_view_value(layer.W).reshape(())))
    assert moved[0] == 0 and moved[1] > 2.0**-10


def test_elements_of_layers_inside_others() -> None:
    C = ng.make_axis(3, "C")
    neon.ax.N.length = 2
    norm = neon.BatchNorm()
    inner = neon.Linear(neon.ConstantInit(1.0), axes=[C], dtype="f32")
    model = neon.Sequential(
        [neon.Affine(neon.ConstantInit(1.0), axes=[C]), norm, inner], dtype="bf16", param_dtype="f64"
    )
    made = model(ng.placeholder([neon.ax.N, C]))
    assert made.element.text == "f64" or made.element.text == "f32"
    assert {v.element.text for v in model.variables.values()} == {"f64"}
    assert ng.placeholder(()).element.text == "f32"  # nothing stays behind
    narrow = neon.Sequential([neon.BatchNorm()], dtype="bf16")(ng.placeholder([neon.ax.N, C], dtype="bf16"))
    assert narrow.element.text == "bf16"
    with pytest.raises(ng.UserError, match="layers compute in f32, f64, bf16 or f16"):
        neon.Linear(1.0, nout=1, dtype="int32")
    with pytest.raises(ng.UserError, match="there is no element type"):
        neon.Linear(1.0, nout=1, param_dtype="f31")


def test_batch_normalization_of_narrow_elements_is_computed_in_wide_ones() -> None:
    C = ng.make_axis(3, "C")
    neon.ax.N.length = 64
    given = (np.random.default_rng(1).normal(size=(64, 3)) * 0.05 + 8).astype("float32")
    x = ng.placeholder([neon.ax.N, C])
    y = neon.BatchNorm(eps=1e-6, dtype="bf16")(ng.cast(x, "bf16"))
    found = ng.compile(y, [x], target="cpu")(given).astype("float32")
    rounded = ng.compile(ng.cast(ng.cast(x, "bf16"), "f32"), [x])(given)
    wanted = (rounded - rounded.mean(0)) / np.sqrt(rounded.var(0) + 1e-6)
    np.testing.assert_allclose(found, wanted, atol=0.02)


def test_settings_that_cannot_be_right_are_refused() -> None:
    for call, message in (
        (lambda: neon.Adam(accumulate=0), "gradients of 0 batches"), (lambda: neon.Adam(loss_scale=-1.0), "multiplied by -1"),
        (lambda: neon.LossScale(backoff=1.0), "backoff"), (lambda: neon.EarlyStopping("loss/x", patience=0), "patience"),
        (lambda: neon.EarlyStopping("loss/x", mode="least"), "mode"), (lambda: neon.EarlyStopping("loss/x", min_change=-1), "min_change"),
    ):  # fmt: skip
        with pytest.raises(ng.UserError, match=message):
            call()
    assert repr(neon.LossScale(8.0)) == "LossScale(initial=8.0)"


# ---- early stopping


def stopped(values: list[float], **settings: Any) -> tuple[neon.EarlyStopping, Any, int, float]:
    """A loop whose evaluations give these values: the callback, what was noted, how many batches there were, and a weight that
    counted them."""
    weight = ng.variable((), initial_value=0.0, name="weight")
    transformer = ng.transformers.make_transformer("numpy")
    train = transformer.computation(ng.sequential([ng.assign(weight, weight + 1), weight]))

    class Note(neon.Callback):
        def __call__(self, transformer: Any, callback_data: Any, phase: Any, data: Any, idx: Any) -> None:
            if phase is neon.CallbackPhase.minibatch_post:
                train()
                known = callback_data.get("loss/error", np.zeros(0))
                callback_data["loss/error"] = np.append(known, values[idx])

    last = neon.EarlyStopping("loss/error", **settings)
    container = neon.CallbackContainer(transformer, None, len(values), [Note(), last])
    noted = neon.loop_train([{} for _ in values], container)
    return last, noted, len(noted["loss/error"]), float(transformer.get_tensor_view_value(weight))


def test_a_loop_ends_where_nothing_improves_and_the_best_state_is_back(
    capsys: pytest.CaptureFixture[str],
) -> None:
    last, noted, count, weight = stopped([5, 3, 4, 2, 2.5, 2, np.nan, 1, 0], patience=3)
    assert (last.best, last.best_iteration, count, weight) == (2, 4, 7, 4)
    assert (
        noted.stopped == "loss/error was best after iteration 4: 2"
        and "stopped: loss/error" in capsys.readouterr().out
    )
    _, noted, count, weight = stopped([5, 3, 4, 2, 2.5], patience=2)
    assert (noted.stopped, count, weight) == ("", 5, 4)  # the data end, and the best state is back
    assert stopped([5, 3, 4, 4], patience=2, restore_best=False)[2:] == (4, 4)
    assert stopped([1, 3, 4, 2, 3.5, 0], patience=2, mode="max")[0].best_iteration == 3
    assert stopped([5, 4.95, 4.91, 4.8], patience=2, min_change=0.1)[2:] == (3, 1)


def test_a_name_under_which_nothing_is_noted_is_an_error() -> None:
    with pytest.raises(ng.UserError, match=r"nothing is noted as loss/eror[\s\S]*did you mean loss/error"):
        stop = neon.EarlyStopping("loss/eror")
        data = neon.CallbackData()
        data["loss/error"] = np.zeros(1)
        stop(None, data, neon.CallbackPhase.minibatch_post, {}, 0)


LAYERS: dict[str, Callable[..., Any]] = {
    "Linear": lambda **o: neon.Linear(INIT, nout=3, **o),
    "Affine": lambda **o: neon.Affine(INIT, nout=3, batch_norm=True, activation=neon.Softmax(), **o),
    "Convolution": lambda **o: neon.Convolution(
        (3, 3, 2), INIT, bias_init=INIT, activation=neon.Rectlin(), **o
    ),
    "Deconvolution": lambda **o: neon.Deconvolution((3, 3, 2), INIT, **o),
    "Pooling": lambda **o: neon.Pooling((2, 2), **o),
    "Dropout": lambda **o: neon.Dropout(0.5, **o),
    "LookupTable": lambda **o: neon.LookupTable(5, 4, INIT, **o),
    "Recurrent": lambda **o: neon.Recurrent(4, INIT, activation=neon.Tanh(), batch_norm=True, **o),
    "LSTM": lambda **o: neon.LSTM(4, INIT, activation=neon.Tanh(), gate_activation=neon.Logistic(), **o),
    "GRU": lambda **o: neon.GRU(4, INIT, **o),
    "BiRNN": lambda **o: neon.BiRNN(4, INIT, activation=neon.Tanh(), sum_out=True, **o),
}
INIT = neon.UniformInit(-0.5, 0.5)


@pytest.mark.parametrize("name", LAYERS)
def test_every_layer_computes_and_trains_in_the_elements_that_it_is_given(name: str) -> None:
    neon.ax.N.length, neon.ax.REC.length = 2, 3
    if name in ("Convolution", "Deconvolution", "Pooling", "Dropout"):
        axes = [
            neon.ax.N,
            ng.make_axis(3, "C"),
            ng.make_axis(1, "D"),
            ng.make_axis(6, "H"),
            ng.make_axis(6, "W"),
        ]
    elif name in ("Linear", "Affine"):
        axes = [neon.ax.N, ng.make_axis(4, "features")]
    else:
        axes = (
            [neon.ax.N, neon.ax.REC]
            if name == "LookupTable"
            else [neon.ax.N, neon.ax.REC, ng.make_axis(4, "F")]
        )
    x = ng.placeholder(axes, dtype="int32" if name == "LookupTable" else None)
    for dtype, held in (("f64", "f64"), ("bf16", "f32"), ("f16", "f16")):
        np.random.seed(0)
        layer = LAYERS[name](dtype=dtype, param_dtype=held)
        made = layer(x)
        # Pooling and tables hand on the elements that they are given.
        assert made.element.text in (
            (dtype,) if name not in ("Pooling", "LookupTable") else (dtype, "f32", held)
        )
        assert {v.element.text for v in layer.variables.values()} <= {held}
        cost = ng.sum(ng.square(made), out_axes=[neon.ax.N])
        if layer.variables:
            step = neon.GradientDescentMomentum(0.01)(cost)
            run = ng.compile(ng.sequential([step, ng.sum(cost, out_axes=())]), [x], target="numpy")
            given = np.random.default_rng(0).integers(0, 5, [a.known_length for a in axes])
            first = float(run(given))
            assert np.isfinite(first) and np.isfinite(float(run(given)))
