# SPDX-License-Identifier: Apache-2.0
"""What a program written for Nervana's layers expects, row by row: each row of `ROWS` is tested by the functions whose names
begin with its key. The names are in test_nervana_names.py."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
import ngmlir.transformers as ngt
from ngmlir.frontends import neon
from ngmlir.frontends.common import utils
from ngmlir.frontends.neon import (
    LSTM,
    Adam,
    Affine,
    ArrayIterator,
    BatchNorm,
    ConvBase,
    Convolution,
    DeconvBase,
    Dropout,
    GaussianInit,
    Layer,
    LearningRateOptimizer,
    Linear,
    Logistic,
    LSTMCell,
    NgraphArgparser,
    PBStreamHandler,
    PoolBase,
    Pooling,
    ProgressBar,
    Rectlin,
    Recurrent,
    RNNCell,
    Saver,
    Sequential,
    SequentialArrayIterator,
    Softmax,
    Tanh,
    UniformInit,
    ax,
    loop_train,
    make_bound_computation,
    make_conv,
    make_default_callbacks,
    unroll,
)

Array = np.ndarray[Any, Any]
INIT = UniformInit(-0.5, 0.5)

#: Row -> what is expected.
ROWS = {
    "optimizers": "LearningRateOptimizer is the base class: learning_rate, iteration, clips; lrate; variable_update; warning=",
    "sequences": "SequentialArrayIterator gives (N, REC, ...), consecutive windows; prev_tgt is rolled; next, get_at_most, shuffle_data",
    "cells": "RNNCell and LSTMCell: signature, states by name, i2h and h2h, state_info, feature_axes, unroll(init_states=)",
    "windows": "conv_output_dim and deconv_output_dim take pairs and names; a pair of padding is (before, after)",
    "parts": "ConvBase, DeconvBase, PoolBase, make_conv keep their weights; pool_type in any case",
    "recurrent_norm": "averages have the hidden axis only; an LSTM has a BatchNorm for each gate; set_tuning_iteration",
    "dropout": "layer.mask over the sample axes",
    "states": "h_init and c_init; return_cell_state gives all steps",
    "linear": "output axes with N or REC are refused when the layer is made",
    "loop": "loop_train of three arguments; Container.add and subset; ProgressBar; saverfile, utils, util.persist; the parser",
    "initial": "initial values are drawn once, when the variable is made",
    "graph": "descriptions take lists of axes; duplicate_axis_names; op.one; with_op_metadata; constants; ExpandDims; can_reach; repr",
}


def test_each_row_has_a_test() -> None:
    tests = [name.removeprefix("test_") for name in globals() if name.startswith("test_")]
    for row in ROWS:
        assert any(name.startswith(row) for name in tests), row


def placed(lengths: dict[str, int]) -> Any:
    return ng.placeholder([ng.make_axis(n, name) for name, n in lengths.items()])


def drawn(x: Any, seed: int = 0) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, x.axes.lengths).astype(np.float32)


def close(actual: Array, wanted: Array) -> None:
    np.testing.assert_allclose(actual, wanted, rtol=2e-5, atol=2e-6)


# ---- optimizers


class HalfAdam(LearningRateOptimizer):
    metadata = {"layer_type": "half_adam"}  # noqa: RUF012

    def __init__(self, learning_rate: Any, beta: float = 0.5, **kwargs: Any):
        super().__init__(learning_rate, **kwargs)
        self.beta = beta

    @ng.with_op_metadata
    def variable_update(self, variable: Any, grad: Any, scale_factor: Any) -> Any:
        m = ng.persistent_tensor(axes=grad.axes, initial_value=0.0)
        return ng.sequential(
            [
                ng.assign(m, m * self.beta + (1 - self.beta) * grad * scale_factor),
                ng.assign(variable, variable - self.lrate * m),
            ]
        )


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_optimizers_of_a_program(backend: str) -> None:
    x, w = placed({"F": 3, "N": 4}), ng.variable([ng.make_axis(3, "F")], initial_value=1.0)
    iteration = ng.placeholder(())
    optimizer = HalfAdam(
        {"name": "exp", "base_lr": 0.5, "gamma": 0.5}, iteration=iteration, gradient_clip_norm=1.0
    )
    cost = ng.sum(w * x, out_axes=["N"])
    with ngt.make_transformer(backend) as transformer:
        step = transformer.computation(optimizer(cost), x, iteration)
        read = transformer.computation(w)
        value, m, theta = drawn(x), np.zeros(3), np.ones(3)
        grad = value.mean(1)
        grad = grad / max(np.linalg.norm(grad), 1.0)
        for i in range(3):
            step(value, i)
            m = 0.5 * m + 0.5 * grad
            theta = theta - 0.5 * 0.5**i * m
            close(read(), theta)
    assert issubclass(Adam, LearningRateOptimizer) and isinstance(optimizer.lrate, ng.Tensor)


def test_optimizers_warn_when_asked() -> None:
    v, w = ng.variable((), initial_value=1.0), ng.variable((), initial_value=1.0)
    with pytest.warns(UserWarning, match="does not depend on w"):
        Adam()(v * v, variables=[v, w], warning=True)


# ---- sequences


def test_sequences_are_batches_of_windows() -> None:
    data = SequentialArrayIterator(
        {"inp_txt": np.arange(40), "tgt_txt": np.arange(1, 41)}, time_steps=4, batch_size=3, shuffle=False,
        get_prev_target=True,
    )  # fmt: skip
    assert {k: p.axes.names for k, p in data.make_placeholders().items()} == dict.fromkeys(
        ("inp_txt", "tgt_txt", "prev_tgt"), ("N", "REC")
    )
    for k, batch in enumerate(data):
        starts = 4 * (3 * k + np.arange(3))
        np.testing.assert_array_equal(batch["inp_txt"], starts[:, None] + np.arange(4))
        np.testing.assert_array_equal(batch["prev_tgt"], np.roll(batch["tgt_txt"], 1, axis=1))


def test_sequences_and_arrays_go_on_by_hand() -> None:
    data = ArrayIterator({"x": np.arange(10)}, 4, total_iterations=3)
    assert data.next()["x"].tolist() == [0, 1, 2, 3] and next(data)["x"].tolist() == [4, 5, 6, 7]
    assert data.get_at_most(2)["x"].tolist() == [0, 1]
    data.reset()
    np.random.seed(0)
    data.shuffle_data()
    assert sorted(np.concatenate([b["x"] for b in data])[:10].tolist()) == list(range(10))


# ---- cells


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_cells_have_states_by_name(backend: str) -> None:
    x = placed({"F": 3, "N": 2})
    cell = RNNCell(
        nout=4, init=INIT, init_h2h=GaussianInit(), bias_init=INIT, activation=Tanh(), batch_norm=False,
        reset_cells=True,
    )  # fmt: skip
    assert cell.state_info == [{"state_name": "h"}]
    h = placed({"F": 4, "N": 2})
    out, after = cell(x, {"h": h})
    assert list(after) == ["h"] and list(cell.initialize_states(x.axes.batch_axis())) == ["h"]
    assert cell.feature_axes.lengths == (4,) and cell.feature_axes.names == ("F",)
    with ngt.make_transformer(backend) as transformer:
        w, b, u = (
            transformer.get_tensor_view_value(p) for p in (cell.i2h.linear.W, cell.i2h.bias.W, cell.h2h.W)
        )
        value, start = drawn(x), drawn(h, 1)
        got = transformer.computation([out, after["h"]], x, h)(value, start)
        close(got[0], np.tanh(w @ value + u @ start + b[:, None]))
        np.testing.assert_array_equal(got[0], got[1])
    with pytest.raises(ng.UserError, match=r"no state 'c'[\s\S]*hint: its states are h"):
        cell(x, {"c": h})


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_cells_of_an_lstm_have_parts_by_gate(backend: str) -> None:
    x = placed({"F": 3, "REC": 4, "N": 2})
    cell = LSTMCell(5, INIT, INIT, INIT, activation=Tanh(), gate_activation=Logistic())
    states = {name: placed({"F": 5, "N": 2}) for name in ("h", "c")}
    y = unroll(cell, 4, x, init_states=states)
    assert [s["state_name"] for s in cell.state_info] == ["h", "c"] and set(cell.i2h) == set("ifog")
    with ngt.make_transformer(backend) as transformer:
        read = transformer.get_tensor_view_value
        w, u = ({g: read(p) for g, p in ((g, cell.i2h[g].linear.W) for g in "ifog")} for _ in range(2))
        u = {g: read(cell.h2h[g].W) for g in "ifog"}
        b = {g: read(cell.i2h[g].bias.W)[:, None] for g in "ifog"}
        value, h, c = drawn(x), drawn(states["h"], 1), drawn(states["c"], 2)
        got = transformer.computation(y, x, states["h"], states["c"])(value, h, c)
    for t in range(4):
        z = {g: w[g] @ value[:, t] + u[g] @ h + b[g] for g in "ifog"}
        i, f, o = (1 / (1 + np.exp(-z[g])) for g in "ifo")
        c = f * c + i * np.tanh(z["g"])
        h = o * np.tanh(c)
        close(got[:, t], h)


class Adding(neon.BaseRNNCell):
    """A cell of a program: its output is the sum of what came in, scaled."""

    def __call__(self, in_obj: Any, states: Any) -> Any:
        self.hidden = in_obj.axes.feature_axes()[0]
        total = states["total"] + in_obj
        return total * 2, {"total": total}

    @property
    def state_info(self) -> Any:
        return [{"state_name": "total"}]


def test_cells_of_a_program() -> None:
    x = placed({"F": 3, "REC": 4, "N": 2})
    cell = Adding(3)
    cell.hidden = x.axes["F"]
    value = drawn(x)
    close(ng.compile(unroll(cell, 4, x), [x])(value), 2 * np.cumsum(value, 1))


# ---- windows


@pytest.mark.parametrize(
    "padding, wanted",
    [(1, 10), ((1, 2), 11), ((2, 0), 10), ("valid", 8), ("same", 10), ("full", 12), ("causal", 10)],
)
def test_windows_of_all_paddings(padding: Any, wanted: int) -> None:
    assert utils.conv_output_dim(10, 3, padding, 1) == wanted
    layer = Convolution((3, 4), INIT, padding=padding)
    assert layer(placed({"C": 2, "W": 10, "N": 2})).axes["W"].length == wanted
    assert utils.deconv_output_dim(wanted, 3, padding, 1) >= 10 - 2


def test_windows_padded_before_and_after() -> None:
    x = placed({"C": 2, "H": 7, "W": 5, "N": 2})
    y = Convolution((3, 3, 4), ConstantOne, padding=(2, 1))(x)
    assert y.axes.lengths == (4, 8, 6, 2)
    got = ng.compile(y, [x])(np.ones((2, 7, 5, 2)))
    assert got[0, 0, 0, 0] == 2 * 1 and got[0, -1, -1, 0] == 2 * 4  # two before, one after
    assert Pooling((2, 2), padding=(1, 0))(x).axes.lengths == (2, 7, 5, 2)
    assert utils.conv_output_dim(5, 3, (2, 1), 1, pooling=True) == 6
    with pytest.raises(ng.UserError, match="too much"):
        utils.conv_output_dim(5, 3, (3, 1), 1, pooling=True)


def ConstantOne(axes: Any) -> Array:
    return np.ones(axes.lengths)


# ---- parts


@pytest.mark.parametrize("kind", [ConvBase, DeconvBase])
def test_parts_keep_their_weights(kind: Any) -> None:
    layer = kind({"H": 3, "W": 3, "K": 4}, INIT, strides=1, padding=1)
    first, second = placed({"C": 2, "H": 5, "W": 5, "N": 2}), placed({"C": 2, "H": 5, "W": 5, "N": 2})
    y, z = layer(first), layer(second)
    assert len(layer.variables) == 1 and layer.initialized
    value = drawn(first)
    one, other = ng.compile([y, z], [first, second])(value, value)
    np.testing.assert_array_equal(one, other)


def test_parts_by_name() -> None:
    settings: Any = dict(filter_shape=(3, 3, 4), init=INIT, strides=1, padding=0, dilation=1)
    assert type(make_conv(**settings)) is ConvBase and type(make_conv(**settings, deconv=True)) is DeconvBase
    x = placed({"C": 2, "H": 4, "W": 4, "N": 2})
    for word in ("max", "MAX", "Max", "avg", "AVG"):
        assert PoolBase((2, 2), strides=2, pool_type=word)(x).axes.lengths == (2, 2, 2, 2)
    with pytest.raises(ng.UserError, match="'MIN'"):
        Pooling((2, 2), pool_type="MIN")


# ---- recurrent batch norm


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_recurrent_norm_has_averages_of_the_hidden_axis(backend: str) -> None:
    x = placed({"F": 3, "REC": 4, "N": 5})
    layer = Recurrent(4, INIT, activation=Tanh(), batch_norm=True)
    y = layer(x)
    assert isinstance(layer.batch_norm, BatchNorm) and layer.batch_norm.gmean.axes.lengths == (4,)
    with ngt.make_transformer(backend) as transformer:
        value = drawn(x)
        transformer.computation(y, x)(value)
        wx = np.tensordot(transformer.get_tensor_view_value(layer.W_input), value, 1)
        close(transformer.get_tensor_view_value(layer.batch_norm.gmean), 0.1 * wx.mean((1, 2)))


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_recurrent_norm_of_each_gate(backend: str) -> None:
    x = placed({"F": 3, "REC": 2, "N": 5})
    layer = LSTM(4, INIT, activation=Tanh(), gate_activation=Logistic(), batch_norm=True)
    y = layer(x)
    assert layer.metadata["gates"] == ["i", "f", "o", "g"] == list(layer.batch_norm)
    assert all(norm.gvar.axes.lengths == (4,) for norm in layer.batch_norm.values())
    with ngt.make_transformer(backend) as transformer:
        value = drawn(x)
        got = transformer.computation(y, x)(value)
        read = transformer.get_tensor_view_value
        h = c = np.zeros((4, 5))
        sums = {}
        for g in "ifog":
            wx = np.tensordot(read(layer.W_input[g]), value, 1)
            sums[g] = (wx - wx.mean((1, 2), keepdims=True)) / np.sqrt(wx.var((1, 2), keepdims=True) + 1e-3)
            close(read(layer.batch_norm[g].gmean), 0.1 * wx.mean((1, 2)))
        for t in range(2):
            z = {g: sums[g][:, t] + read(layer.W_recur[g]) @ h for g in "ifog"}
            i, f, o = (1 / (1 + np.exp(-z[g])) for g in "ifo")
            c = f * c + i * np.tanh(z["g"])
            h = o * np.tanh(c)
            close(got[:, t], h)


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_recurrent_norm_and_others_are_tuned(backend: str) -> None:
    x, iteration = placed({"F": 3, "N": 5}), ng.placeholder(())
    layer = BatchNorm()
    layer.set_tuning_iteration(iteration)
    y = layer(x)
    with ngt.make_transformer(backend) as transformer:
        tune = transformer.computation(y, x, iteration)
        values = [drawn(x, seed) for seed in range(3)]
        for i, value in enumerate(values):
            tune(value, i + 1)
        close(transformer.get_tensor_view_value(layer.gmean), np.mean([v.mean(1) for v in values], 0))
        close(transformer.get_tensor_view_value(layer.gvar), np.mean([v.var(1) for v in values], 0))


# ---- dropout, states


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_dropout_has_a_mask(backend: str) -> None:
    x = placed({"F": 40, "N": 3})
    layer = Dropout(keep=0.6)
    assert layer.mask is None
    y = layer(x)
    mask = layer.mask
    assert mask is not None and mask.axes.names == ("F",)
    with ngt.make_transformer(backend) as transformer:
        value = drawn(x)
        out, kept = transformer.computation([y, mask], x)(value)
        np.testing.assert_array_equal(out, value * kept[:, None])
        assert set(np.unique(kept)) == {0.0, 1.0}
    with Layer.inference_mode_on():
        layer(x)
    assert layer.mask is mask


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_states_before_the_first_step(backend: str) -> None:
    x = placed({"F": 3, "REC": 4, "N": 2})
    layer = LSTM(3, INIT, activation=Tanh(), gate_activation=Logistic(), reset_cells=False)
    y, c = layer(x, return_cell_state=True)
    assert c.axes.lengths == y.axes.lengths == (3, 4, 2)
    with ngt.make_transformer(backend) as transformer:
        read = transformer.get_tensor_view_value
        assert not read(layer.h_init).any() and not read(layer.c_init).any()
        out, cells = transformer.computation([y, c], x)(drawn(x))
        close(read(layer.h_init), out[:, -1])
        close(read(layer.c_init), cells[:, -1])
    plain = Recurrent(3, INIT, activation=Tanh())
    plain(x)
    assert plain.h_init.const == 0


# ---- linear layers


@pytest.mark.parametrize("name", ["N", "REC"])
def test_linear_layers_make_no_batch_and_no_steps(name: str) -> None:
    for kind in (Linear, Affine):
        with pytest.raises(ValueError, match=f"{name} cannot be an axis"):
            kind(INIT, axes=[ax.Y, ng.make_axis(4, name)])


# ---- the training loop


def small_program(transformer: Any) -> tuple[Any, Any, Any]:
    np.random.seed(0)
    data = ArrayIterator(
        {"x": {"data": drawn(placed({"N": 40, "F": 2})), "axes": ("N", "F")}, "y": {"data": np.arange(40) % 2, "axes": ("N",)}},
        10,
        total_iterations=8,
    )  # fmt: skip
    inputs = data.make_placeholders()
    ax.Y.length = 2
    model = Sequential(
        [Affine(INIT, nout=4, activation=Rectlin()), Affine(INIT, axes=ax.Y, activation=Softmax())]
    )
    loss = ng.cross_entropy_multi(model(inputs["x"]), ng.one_hot(inputs["y"], axis=ax.Y))
    cost = ng.sequential([Adam(0.05)(loss), ng.mean(loss, out_axes=())])
    return data, make_bound_computation(transformer, {"batch_cost": cost}, inputs), model


@pytest.mark.parametrize("arguments", [2, 3])
def test_loop_train_runs_each_batch_once(arguments: int) -> None:
    with ngt.make_transformer("cpu") as transformer:
        data, train, _ = small_program(transformer)
        calls: list[Any] = []

        class Counted:
            output_keys = train.output_keys

            def __call__(self, batch: Any) -> Any:
                calls.append(batch["iteration"])
                return train(batch)

        computation = Counted()
        callbacks = make_default_callbacks(transformer, None, 4, computation, 8, use_progress_bar=False)
        noted = loop_train(data, callbacks) if arguments == 2 else loop_train(data, computation, callbacks)
        assert calls == [*range(1, 9)] and noted["cost/train"].shape == (8,)


def test_loop_train_calls_a_computation_that_no_callback_calls() -> None:
    calls: list[int] = []
    data = ArrayIterator(np.arange(8), 2)
    neon.loop_train(
        data, lambda batch: calls.append(batch["iteration"]), neon.CallbackContainer(None, None, 4)
    )
    assert calls == [1, 2, 3, 4]
    with pytest.raises(ng.UserError, match="no container of callbacks"):
        loop_train(data, lambda batch: None)
    with pytest.raises(ng.UserError, match="gives no batches"):
        loop_train(5, neon.CallbackContainer(None, None, 4))  # pyright: ignore[reportArgumentType]
    with pytest.raises(ng.UserError, match="from 1 on"):
        neon.TrainLoggerCallback(0)


def test_loop_ends_where_a_callback_says_so() -> None:
    class Enough(neon.Callback):
        def __call__(self, transformer: Any, callback_data: Any, phase: Any, data: Any, idx: Any) -> None:
            if phase is neon.CallbackPhase.minibatch_post and idx == 1:
                callback_data.stop("two batches are enough")

    calls: list[int] = []
    container = neon.CallbackContainer(None, None, 4, [Enough()])
    noted = loop_train(
        ArrayIterator(np.arange(8), 2), lambda batch: calls.append(batch["iteration"]), container
    )
    assert calls == [1, 2] and noted.stopped == "two batches are enough"


def test_loop_errors_of_the_data_are_its_own() -> None:
    def batches() -> Any:
        yield {"x": 1 % 0}

    with pytest.raises(ZeroDivisionError):
        loop_train(batches(), neon.CallbackContainer(None, None, 4))


def test_loop_containers_grow_and_are_cut() -> None:
    x = placed({"F": 3, "N": 2})
    model = Sequential([Affine(INIT, nout=4), Affine(INIT, nout=5)], name="model")
    assert not Layer.initialized and not model.initialized
    model.add(Affine(INIT, nout=2))
    y = model(x)
    assert model.initialized and y.axes.lengths == (2, 2) and len(model) == 3
    first = model.subset(0, 2)
    z = first(x)
    assert isinstance(first, Sequential) and z.axes.lengths == (5, 2) and len(model.variables) == 6
    assert set(first.variables.values()) < set(model.variables.values())
    assert [layer for layer in model[1:]] == [*model][1:]


def test_loop_bars_and_logs(capsys: pytest.CaptureFixture[str]) -> None:
    data = ArrayIterator(np.arange(8), 2)
    bar = ProgressBar(unit="iterations", ncols=100, total=4)
    seen = [batch["iteration"] for batch in bar(data)]
    assert seen == [1, 2, 3, 4] == [b["iteration"] for b in ProgressBar(data)] and bar.n == 4
    with ProgressBar(total=3) as hand:
        hand.update()
        hand.set_description("Training 0.5")
        hand.update(2)
        hand.write("a line")
    assert hand.n == 3 and capsys.readouterr() == ("a line\n", "")  # no bar in a pipe
    logger = logging.getLogger("test_nervana_front_end")
    logger.propagate = False
    logger.addHandler(PBStreamHandler(level=logging.INFO))
    logger.warning("told")
    assert capsys.readouterr().err == "told\n"


def test_loop_modules_of_other_things(tmp_path: Path) -> None:
    from ngmlir.frontends.neon.saverfile import SaverFile
    from ngmlir.frontends.neon.utils import get_function_or_class_name
    from ngmlir.util.persist import (
        ensure_dirs_exist,
        fetch_file,
        get_data_cache_or_nothing,
        valid_path_append,
    )

    SaverFile(str(tmp_path / "weights")).write_values({"w": np.arange(3)})
    assert SaverFile(str(tmp_path / "weights")).read_values()["w"].tolist() == [0, 1, 2]
    assert [get_function_or_class_name(each) for each in (len, Rectlin, Rectlin())] == [
        "len",
        "Rectlin",
        "Rectlin",
    ]
    folder, file = valid_path_append(str(tmp_path / "data"), "a.txt", "b.txt"), tmp_path / "source.txt"
    assert folder == [str(tmp_path / "data" / name) for name in ("a.txt", "b.txt")]
    assert Path(ensure_dirs_exist(str(tmp_path / "new" / "x"))).parent.is_dir()
    file.write_text("hello")
    fetch_file(tmp_path.as_uri(), "source.txt", folder[0], 5)
    assert Path(folder[0]).read_text() == "hello"
    with pytest.raises(OSError, match="bytes"):
        fetch_file(tmp_path.as_uri(), "source.txt", folder[1], 6)
    assert not Path(folder[1]).exists() and [*(tmp_path / "data").iterdir()] == [Path(folder[0])]
    assert get_data_cache_or_nothing() is None or True


def test_loop_parsers_of_a_program() -> None:
    before = ngt.make_transformer().transformer_name
    assert "cpu" in NgraphArgparser.backend_names()
    parser = NgraphArgparser(description="mine")
    parser.add_argument("--save_file", type=str, default="mine.npz", help="of the program")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--layer_type", default="lstm", choices=["rnn", "lstm"])
    try:
        args = parser.parse_args(["-b", "numpy", "-z", "32", "--epochs", "5"])
        assert (args.backend, args.batch_size, args.epochs, args.save_file) == ("numpy", 32, 5, "mine.npz")
        assert ngt.make_transformer().transformer_name == "numpy"
        args.backend = "cpu"
        parser.make_and_set_transformer_factory(args)
        assert ngt.make_transformer().transformer_name == "cpu"
    finally:
        ngt.set_transformer_factory(ngt.make_transformer_factory(before))


def test_loop_of_saved_weights(tmp_path: Path) -> None:
    with ngt.make_transformer("cpu") as transformer:
        data, train, _ = small_program(transformer)
        saver = Saver()
        saver.setup_save(transformer=transformer, computation=train)
        for batch in data:
            train(batch)
        saver.save(filename=str(tmp_path / "weights"))
        before = float(train(next(iter(data)))["batch_cost"])
        saver.setup_restore(transformer=transformer, computation=train, filename=str(tmp_path / "weights"))
        saver.restore()
        data.reset()
        assert float(train(next(data))["batch_cost"]) == before


# ---- initial values


def test_initial_values_are_those_of_all_transformers() -> None:
    np.random.seed(3)
    x = placed({"C": 2, "H": 4, "W": 4, "N": 2})
    model = Sequential(
        [
            Convolution((3, 3, 2), GaussianInit(), bias_init=INIT),
            Affine(INIT, nout=3),
            BatchNorm(),
            Dropout(0.5),
        ]
    )
    with Layer.inference_mode_on():
        y = model(x)
    value, found = drawn(x), []
    for name in ("numpy", "cpu", "cpu"):
        with ngt.make_transformer(name) as transformer:
            found.append(transformer.computation(y, x)(value))
    found += [ng.compile(y, [x])(value), ng.compile(y, [x], target="numpy")(value)]
    for each in found:
        close(each, found[0])
    np.random.seed(3)
    again = Sequential([Convolution((3, 3, 2), GaussianInit(), bias_init=INIT), Affine(INIT, nout=3)])
    again(x)  # seeds still say which values
    for one, other in zip(model.variables.values(), again.variables.values(), strict=False):
        np.testing.assert_array_equal(ng.compile(one * 1)(), ng.compile(other * 1)())


# ---- the graph


def test_graph_descriptions_take_lists_of_axes() -> None:
    C, H, N = ng.make_axis(2, "C"), ng.make_axis(3, "H"), ng.make_axis(4, "N")
    td = ng.TensorDescription(ng.make_axes([C, H, N]), np.float32)
    flat = td.flatten([[C, H], N])
    assert flat.axes == ng.make_axes([[C, H], N]) and flat.shape == (6, 4)
    assert flat.unflatten([C, H, N]).shape == (2, 3, 4)
    wide = ng.TensorDescription(ng.make_axes([C]), np.float32).broadcast([N, C])
    assert wide.shape == (4, 2) and wide.strides == (0, 4)
    assert flat.broadcast([N, [C, H]]).shape == (4, 6)
    assert td.reorder(["N", "C", "H"]).shape == (4, 2, 3)


def test_graph_duplicate_names_are_told() -> None:
    with pytest.raises(ng.DuplicateAxisNames) as caught:
        ng.AxesMap({"aaa": "zzz", "bbb": "zzz", "ccc": "yyy"})
    assert caught.value.duplicate_axis_names == {"zzz": {"aaa", "bbb"}}
    with pytest.raises(ng.DuplicateAxisNames) as caught:
        ng.make_axes([ng.make_axis(1, "a"), ng.make_axis(2, "a")])
    assert caught.value.duplicate_axis_names == {"a": {"a"}}


def test_graph_small_things() -> None:
    C, N = ng.make_axis(2, "C"), ng.make_axis(4, "N")
    x = ng.variable([C], initial_value=[1, 2])
    assert x.one is x.one and x.one.const == 1 and (x + 1).one is not x.one
    y = ng.ExpandDims(x, N, 0)
    assert y.axes.names == ("N", "C") and isinstance(y, ng.ExpandDims) and not isinstance(x, ng.ExpandDims)
    w = ng.variable([C], initial_value=ng.constant([3, 4]))
    assert ng.compile(w * 1)().tolist() == [3, 4]


def test_graph_metadata_of_methods() -> None:
    class Part:
        metadata = {"part": "half"}  # noqa: RUF012

        @ng.with_op_metadata
        def __call__(self, x: Any) -> Any:
            return x * 0.5

    @ng.with_op_metadata(metadata={"kind": "plain"})
    def doubled(x: Any) -> Any:
        return x * 2

    x = ng.placeholder(())
    assert Part()(x).metadata["part"] == "half" and Part()(x, name="y").name == "y"
    assert doubled(x).metadata == {"kind": "plain"} and "part" not in (x + 1).metadata


def test_graph_can_reach() -> None:
    from ngmlir.op_graph.digraph import Digraph

    x = ng.variable((), initial_value=1)
    y = x + 1
    write = ng.assign(x, y)
    z = x * 2
    graph = Digraph(lambda op: op.all_deps)
    assert graph.can_reach(z, write) and graph.can_reach(z, y) and not graph.can_reach(y, z)
    order = ng.Op.ordered_ops([z])
    assert all(not graph.can_reach(a, b) for i, a in enumerate(order) for b in order[i + 1 :])
    letters = Digraph({"a": ["b"], "b": ["c"]})
    assert (
        letters.can_reach("a", "c")
        and not letters.can_reach("c", "a")
        and letters.ordered(["a"]) == ["c", "b", "a"]
    )


def test_graph_repr_shows_axes_elements_and_values() -> None:
    x = ng.placeholder(ng.make_axes({"C": 3, "N": None}), name="x")
    for op, text in (
        (x, r"<AssignableTensorOp\(x\):\d+ \(C: 3, N: \?\) f32>"),
        (ng.constant(2), r"<ConstantOp\(.*\):\d+ \(\) f32 = 2.0>"),
        (
            ng.constant([1, 2], [ng.make_axis(2, "C")], dtype="i32"),
            r"<ConstantOp\(.*\):\d+ \(C: 2\) i32 = \[1, 2\]>",
        ),
        (ng.constant(np.zeros((100, 100))), r".* f32 = \[\[0\..*\.\.\..*\]\]>"),
        (x + 1, r"<AddOp\(.*\):\d+ \(C: 3, N: \?\) f32>"),
        (ng.doall([]), r"<ParallelOp\(.*\):\d+>"),
    ):
        assert re.fullmatch(text, repr(op)), repr(op)
        assert len(repr(op)) < 200


def test_graph_repr_of_layers_is_the_call_that_made_them() -> None:
    for made in (
        "Affine(weight_init=UniformInit(low=-0.5, high=0.5), nout=3, activation=Rectlin())",
        "Convolution(filter_shape=(3, 3, 8), filter_init=GaussianInit(), padding=(1, 2))",
        "LSTM(nout=4, init=GaussianInit(), activation=Tanh(), gate_activation=Logistic())",
        "Adam(learning_rate=0.1, gradient_clip_norm=5)",
        "Sequential([\n    Dropout(keep=0.5),\n    Sequential([\n        Linear(init=GaussianInit(), nout=2),\n    ]),\n], name='m')",
    ):
        assert repr(eval(made, vars(neon).copy())) == made
