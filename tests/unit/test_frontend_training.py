# SPDX-License-Identifier: Apache-2.0
"""Batches, training loops, saving, and the graph that layers leave behind."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ngmlir as ng
from ngmlir.frontends.common.utils import (
    ConvParameters,
    common_conv2d_pool_output_shape,
    common_conv2d_pool_padding,
    conv_output_dim,
    deconv_output_dim,
    make_convparams,
    make_poolparams,
    squeeze_axes,
)
from ngmlir.frontends.neon import (
    Adam,
    Affine,
    ArrayIterator,
    BatchNorm,
    Callback,
    CallbackContainer,
    CallbackPhase,
    ComputationalGraph,
    Dropout,
    GradientDescentMomentum,
    Layer,
    Linear,
    LossCallback,
    NgraphArgparser,
    Rectlin,
    Saver,
    SaverFile,
    Sequential,
    SequentialArrayIterator,
    Softmax,
    SubGraph,
    UniformInit,
    ax,
    loop_eval,
    loop_train,
    make_bound_computation,
    make_default_callbacks,
    safetensors,
    scope_ops,
)

INIT = UniformInit(-0.5, 0.5)
POINTS = {
    "image": {"data": np.arange(20, dtype=np.float32).reshape(10, 2), "axes": ("N", "F")},
    "label": {"data": np.arange(10) % 3, "axes": ("N",)},
}


# ---- batches


def test_batches_wrap_round() -> None:
    data = ArrayIterator(POINTS, 4)
    assert data.ndata == 10 and data.nbatches == 3
    batches = list(data)
    assert [b["iteration"] for b in batches] == [1, 2, 3]
    assert [b["label"].tolist() for b in batches] == [[0, 1, 2, 0], [1, 2, 0, 1], [2, 0, 0, 1]]
    assert batches[2]["image"][:, 0].tolist() == [16, 18, 0, 2]
    placeholders = data.make_placeholders(include_iteration=True)
    assert ax.N.length == 4 and set(placeholders) == {"image", "label", "iteration"}
    assert placeholders["image"].axes.names == ("N", "F") and placeholders["image"].axes.lengths == (4, 2)
    assert placeholders["iteration"].axes.names == ()


def test_a_number_of_batches_and_going_on() -> None:
    data = ArrayIterator(POINTS, 4, total_iterations=5)
    seen = []
    for batch in data:
        seen.append(batch["image"][0, 0])
        if len(seen) == 2:
            break
    seen += [batch["image"][0, 0] for batch in data]  # goes on where it stopped
    assert seen == [0, 8, 16, 4, 12]
    assert len(list(data)) == 5
    data.reset()
    assert next(iter(data))["iteration"] == 1


def test_arrays_without_names() -> None:
    one, two = ArrayIterator(np.ones((5, 3)), 5), ArrayIterator([np.ones((5, 3)), np.zeros(5)], 2)
    assert set(one.make_placeholders()) == {0} and set(two.make_placeholders()) == {0, 1}
    assert set(next(iter(two))) == {0, 1, "iteration"}
    for wrong in (
        lambda: ArrayIterator(np.ones((5, 3)), 6),
        lambda: ArrayIterator([np.ones(5), np.ones(4)], 2),
        lambda: ArrayIterator({"x": {"data": np.ones((5, 2)), "axes": ("N",)}}, 2),
        lambda: ArrayIterator({}, 2),
        lambda: ArrayIterator(3.0, 1),
    ):
        with pytest.raises(ValueError):
            wrong()


def test_each_pass_has_every_sample_in_another_order() -> None:
    np.random.seed(0)
    data = ArrayIterator(np.arange(12), 4, total_iterations=6, shuffle=True)
    batches = [b[0] for b in data]
    first, second = np.concatenate(batches[:3]), np.concatenate(batches[3:])
    assert sorted(first) == sorted(second) == list(range(12))
    assert (first != second).any() and (first != np.arange(12)).any()


@pytest.mark.parametrize("kind", ["samples", "windows"])
def test_batches_go_on_where_they_were(kind: str) -> None:
    def made() -> Any:
        if kind == "samples":
            return ArrayIterator(np.arange(11), 4, total_iterations=7, shuffle=True)
        return SequentialArrayIterator(np.arange(61), 4, 2, total_iterations=7)

    def first(batch: Any) -> list[Any]:
        return [batch[0 if kind == "samples" else "inp_txt"].tolist(), batch["iteration"]]

    one, other = made(), made()
    seen = [first(b) for b in one]
    again = []
    for batch in one:  # a second time, in other orders
        again.append(first(batch))
        if len(again) == 3:
            state = one.state()
            break
    assert again[0] != seen[0]
    rest = [first(b) for b in one]
    other.load_state(state)
    assert [first(b) for b in other] == rest and rest[0][1] == 4
    one.reset()
    assert [first(b) for b in one] == seen
    with pytest.raises(ng.UserError, match="no state of batches"):
        other.load_state({"index": 1})


def test_windows_of_a_sequence() -> None:
    data = SequentialArrayIterator(np.arange(41), time_steps=5, batch_size=2, shuffle=False)
    assert data.nbatches == 4
    batches = list(data)
    for k, batch in enumerate(batches):  # batch k begins with window 2 * k
        assert batch["inp_txt"].tolist() == [[*range(s, s + 5)] for s in (10 * k, 10 * k + 5)]
        np.testing.assert_array_equal(batch["tgt_txt"], batch["inp_txt"] + 1)
    placeholders = data.make_placeholders()
    assert placeholders["inp_txt"].axes.names == ("N", "REC") and (ax.REC.length, ax.N.length) == (5, 2)


def test_windows_that_go_on_from_batch_to_batch() -> None:
    data = SequentialArrayIterator(np.arange(41), time_steps=5, batch_size=2, streams=True)
    batches = [batch["inp_txt"] for batch in data]
    np.testing.assert_array_equal(np.concatenate(batches, 1), np.arange(40).reshape(2, 20))


def test_targets_before_and_turned_round() -> None:
    text = {
        "inp_txt": {"data": np.arange(20), "axes": ("REC",)},
        "tgt_txt": {"data": np.arange(100, 120), "axes": ("REC",)},
    }
    data = SequentialArrayIterator(text, 4, 2, stride=2, get_prev_target=True, shuffle=False)
    assert set(data.make_placeholders()) == {"inp_txt", "tgt_txt", "prev_tgt"}
    first = next(data)
    assert first["inp_txt"].tolist() == [[0, 1, 2, 3], [2, 3, 4, 5]]
    assert first["prev_tgt"].tolist() == [
        [103, 100, 101, 102],
        [105, 102, 103, 104],
    ]  # rolled within its window
    turned = SequentialArrayIterator(text, 4, 2, get_prev_target=True, reverse_target=True, shuffle=False)
    first = turned.next()
    assert first["tgt_txt"][0].tolist() == [103, 102, 101, 100]
    assert first["prev_tgt"][0].tolist() == [100, 103, 102, 101]
    with pytest.raises(ValueError, match="do not make"):
        SequentialArrayIterator(np.arange(10), 5, 3)
    np.random.seed(0)
    dealt = SequentialArrayIterator(np.arange(41), 5, 2)
    starts = np.concatenate([b["inp_txt"][:, 0] for b in dealt])
    assert sorted(starts) == list(range(0, 40, 5)) and (starts != sorted(starts)).any()
    features = SequentialArrayIterator({"x": {"data": np.ones((30, 4)), "axes": ("REC", "F")}}, 5, 3)
    assert features.make_placeholders()["x"].axes.names == ("N", "REC", "F")
    assert next(iter(features))["x"].shape == (3, 5, 4)


def test_single_batches() -> None:
    data = ArrayIterator(POINTS, 4)
    assert next(data)["iteration"] == 1 and data.next()["iteration"] == 2
    assert [b["iteration"] for b in data] == [3]
    with pytest.raises(StopIteration):
        next(data)
    assert data.get_at_most(3)["label"].tolist() == [0, 1, 2] and len(data.get_at_most(50)["label"]) == 10
    np.random.seed(1)
    before = [b["label"].tolist() for b in data]
    data.shuffle_data()
    after = [b["label"].tolist() for b in data]
    assert after != before and after != [b["label"].tolist() for b in data]


# ---- loops


def model(transformer: Any, keep: float = 1.0) -> tuple[Any, Any, Any, Any]:
    """(batches, what trains, what evaluates, layers) of a small classifier of points."""
    rng = np.random.RandomState(0)
    x = rng.uniform(-1, 1, (90, 2)).astype(np.float32)
    y = (x[:, 0] * x[:, 1] > 0).astype(int) + (x[:, 0] > 0.5)
    data = ArrayIterator(
        {"x": {"data": x, "axes": ("N", "F")}, "y": {"data": y, "axes": ("N",)}}, 20, total_iterations=40
    )
    inputs = data.make_placeholders()
    ax.Y.length = 3
    np.random.seed(3)
    dropped = [Dropout(keep)] if keep < 1 else []
    layers = Sequential(
        [
            Affine(INIT, nout=24, activation=Rectlin()),
            BatchNorm(),
            *dropped,
            Affine(INIT, axes=ax.Y, activation=Softmax()),
        ]
    )
    target = ng.one_hot(inputs["y"], axis=ax.Y)
    loss = ng.cross_entropy_multi(layers(inputs["x"]), target)
    cost = ng.sequential([Adam(0.02)(loss), ng.mean(loss, out_axes=())])
    with Layer.inference_mode_on():
        probabilities = layers(inputs["x"])
    wrong = ng.not_equal(ng.argmax(probabilities, out_axes=[ax.N]), inputs["y"])
    train = make_bound_computation(transformer, {"batch_cost": cost}, inputs)
    evaluate = make_bound_computation(
        transformer,
        {
            "loss": ng.cross_entropy_multi(probabilities, target),
            "wrong": wrong,
            "all": ng.mean(wrong, out_axes=()),
        },
        inputs,
    )
    return data, train, evaluate, layers


@pytest.mark.parametrize("name", ["numpy", "cpu"])
def test_a_training_loop(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with ng.transformers.make_transformer(name) as transformer:
        data, train, evaluate, _ = model(transformer)
        data.total_iterations = 200
        test = ArrayIterator(
            {k: {"data": v, "axes": data.axis_names[k]} for k, v in data.data_arrays.items()}, 20
        )
        callbacks = make_default_callbacks(
            transformer, tmp_path / "costs.npz", 50, train, 200, test, evaluate
        )
        noted = loop_train(data, callbacks)
        assert noted["cost/train"].shape == (200,) and noted["cost/train"][-10:].mean() < 0.35
        end = loop_eval(test, evaluate)
        assert set(end) == {"loss", "wrong", "all"} and end["wrong"] < 0.1
        assert noted["loss/wrong"][-1] == end["wrong"] and len(noted["loss/loss"]) == 4
    out, err = capfd.readouterr()
    assert out.count("interval") == 8 and "wrong" in out
    assert err == ""  # no bar in a pipe
    with np.load(tmp_path / "costs.npz") as saved:
        assert set(saved.files) >= {
            "cost/train",
            "time/train",
            "time/minibatch",
            "loss/wrong",
            "config/total_iterations",
        }
        np.testing.assert_array_equal(saved["cost/train"], noted["cost/train"])


def test_an_evaluation_counts_each_sample_once() -> None:
    data = ArrayIterator(POINTS, 4)  # the last batch holds two samples again
    inputs = data.make_placeholders()
    x = inputs["image"]
    outputs = {
        "first": x[:, 0],
        "both": ng.axes_with_order(x, ["F", "N"]),
        "size": ng.constant(3),
        "none": ng.doall([]),
    }
    with ng.transformers.make_transformer("numpy") as transformer:
        found = loop_eval(data, make_bound_computation(transformer, outputs, inputs))
    assert found == {"first": 9.0, "both": 9.5, "size": 3.0}
    assert next(iter(data))["iteration"] == 1


def test_a_bound_computation_says_what_lacks() -> None:
    x = ng.placeholder([ng.make_axis(2, "F")])
    with ng.transformers.make_transformer("numpy") as transformer:
        run = make_bound_computation(transformer, {"b": x + 1, "a": x}, {"x": x})
        assert run.output_keys == ("a", "b") and list(run({"x": [1, 2], "unused": 3})["b"]) == [2, 3]
        with pytest.raises(ValueError, match="no value for x"):
            run({"y": 1})
        with pytest.raises(ValueError, match="batch_cost"):
            make_default_callbacks(transformer, None, 1, run, 1)


def test_callbacks_are_called_in_order_and_share_nothing() -> None:
    seen: list[Any] = []

    class Watch(Callback):
        def __call__(self, transformer: Any, callback_data: Any, phase: Any, data: Any, idx: Any) -> None:
            seen.append((phase, idx, None if data is None else data["iteration"]))

    one, other = CallbackContainer(None, None, 2), CallbackContainer(None, None, 2)
    one.append(Watch())
    one.insert(0, Watch())
    assert len(list(other)) == 0
    loop_train(ArrayIterator(np.ones((4, 1)), 2), one)
    assert seen[::2] == [
        (CallbackPhase.train_pre_, None, None),
        (CallbackPhase.minibatch_pre_, 0, 1),
        (CallbackPhase.minibatch_post, 0, 1),
        (CallbackPhase.minibatch_pre_, 1, 2),
        (CallbackPhase.minibatch_post, 1, 2),
        (CallbackPhase.train_post, None, None),
    ]
    assert issubclass(LossCallback, Callback)


# ---- saving


@pytest.mark.parametrize("name", ["numpy", "cpu"])
@pytest.mark.parametrize("file", ["weights", "weights.npz", "weights.safetensors"])
def test_training_goes_on_bit_for_bit(tmp_path: Path, name: str, file: str) -> None:
    """The same costs, whether or not the program was stopped in between; masks of dropout included."""

    def costs(transformer: Any, run: Any, data: Any, count: int) -> list[float]:
        return [float(run(batch)["batch_cost"]) for _, batch in zip(range(count), data, strict=False)]

    saver = Saver()
    with ng.transformers.make_transformer(name) as transformer:
        data, train, _, _ = model(transformer, keep=0.7)
        costs(transformer, train, data, 10)
        saver.setup_save(transformer, train)
        saver.save(tmp_path / file, compress=True)
        on = costs(transformer, train, data, 10)
    with ng.transformers.make_transformer(name) as transformer:
        data, train, evaluate, _ = model(transformer, keep=0.7)
        costs(transformer, train, data, 10)
        saver.setup_restore(transformer, train, tmp_path / file)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            saver.restore()
        assert costs(transformer, train, data, 10) == on
        # A model that only infers takes what it needs.
        saver.setup_restore(transformer, evaluate, tmp_path / file)
        saver.restore()


def test_what_a_file_lacks_is_told(tmp_path: Path) -> None:
    saver = Saver()
    with ng.transformers.make_transformer("numpy") as transformer:
        w, v = ng.variable((), initial_value=1, name="w"), ng.variable((), initial_value=2, name="v")
        saver.setup_save(transformer, {"w": w})
        saver.save(tmp_path / "one")
        transformer.computation(ng.sequential([ng.assign(w, 7), ng.assign(v, 7), 0]))()
        saver.setup_restore(transformer, [w, v], tmp_path / "one")
        with pytest.warns(UserWarning, match="nothing for v"):
            saver.restore()
        assert [float(x) for x in transformer.computation([w, v])()] == [1, 7]
        other = ng.variable([ng.make_axis(2, "F")], initial_value=0, name="w")
        saver.setup_restore(transformer, other, tmp_path / "one")
        with pytest.raises(ng.UserError, match="w has axes"):
            saver.restore()
        with pytest.raises(ng.UserError, match="is no computation"):
            saver.setup_save(transformer, 3)
    with pytest.raises(ng.UserError, match="not known what to save"):
        Saver().save("x")


def test_names_do_not_depend_on_what_else_is_built() -> None:
    x = ng.placeholder([ng.make_axis(2, "F"), ng.make_axis(3, "N")])
    found: list[list[str]] = []
    for _ in range(2):
        with ng.transformers.make_transformer("numpy") as transformer:
            seq = Sequential([Affine(INIT, nout=3), Affine(INIT, nout=3), Affine(INIT, nout=3, name="last")])
            run = transformer.computation(seq(x), x)
            found.append([*run.state()])
            assert found[-1] == [*seq.variables]
    assert found[0] == found[1]
    assert [name.rpartition("/")[0] for name in found[0][::2]] == [
        "Sequential/Affine/Linear", "Sequential/Affine_1/Linear", "Sequential/last/Linear",
    ]  # fmt: skip


ARRAYS = {
    "a/b": np.arange(6, dtype=np.float32).reshape(2, 3),
    "scalar": np.array(2.5),
    "empty": np.zeros((0, 3), np.int64),
    "key": np.array([1, 2**63], np.uint64),
    "flags": np.array([True, False]),
    "small": np.array([1.5, -2], ml_dtypes.bfloat16),
    "byte": np.array([-3], np.int8),
    "half": np.array([0.5], np.float16),
    "turned": np.arange(6.0).reshape(2, 3).T,
}


def test_safetensors(tmp_path: Path) -> None:
    file = tmp_path / "x.safetensors"
    safetensors.write(file, ARRAYS)
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    assert length % 8 == 0 and json.loads(content[8 : 8 + length])["small"]["dtype"] == "BF16"
    for name, array in safetensors.read(file).items():
        assert array.dtype == ARRAYS[name].dtype and array.shape == ARRAYS[name].shape
        assert array.tobytes() == np.ascontiguousarray(ARRAYS[name]).tobytes()
        assert array.flags.writeable
    with pytest.raises(ng.UserError, match="no place"):
        safetensors.write(file, {"x": np.array(["text"])})


def header(content: Any, data: bytes = bytes(8)) -> bytes:
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(**changes: Any) -> dict[str, Any]:
    return {"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}}


@pytest.mark.parametrize(
    "content, what",
    [
        (b"", "0 bytes"),
        (b"\xff" * 20, "header would have"),
        (header(b"{"), "no JSON"),
        (header(b"[" * 100_000), "no JSON"),
        (header(b"\xff\xfe{}"), "no JSON"),
        (header([1]), "no dictionary"),
        (header({"w": 3}), "w lacks"),
        (header({"w": {"dtype": "F32", "shape": [2]}}), "w lacks"),
        (header(entry(dtype="F99")), "F99"),
        (header(entry(dtype=["F32"])), "not known"),
        (header(entry(shape=[-2])), "no number"),
        (header(entry(shape=[True, 2])), "no number"),
        (header(entry(shape=["a"])), "no number"),
        (header(entry(shape=[3])), "needs 12"),
        (header(entry(shape=[2**62, 2**62])), "needs"),
        (header(entry(), bytes(4)), "of 4"),
        (header(entry(), bytes(12)), "end at byte 8 of 12"),
        (header({**entry(), "v": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]}}), "overlap"),
        (header({"w": {"dtype": "U8", "shape": [4], "data_offsets": [4, 8]}}), "hole"),
        (header(b'{"w": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]}, "w": 1}'), "twice"),
    ],
)
def test_damaged_safetensors(tmp_path: Path, content: bytes, what: str) -> None:
    file = tmp_path / "x.safetensors"
    file.write_bytes(content)
    with pytest.raises(ng.UserError, match=what):
        SaverFile(file).read_values()


def test_damaged_npz(tmp_path: Path) -> None:
    file = SaverFile(tmp_path / "x")
    with pytest.raises(ng.UserError, match="cannot be read"):
        file.read_values()
    file.write_values({k: v for k, v in ARRAYS.items() if k != "small"})
    whole = Path(file.name).read_bytes()
    assert set(file.read_values()) == set(ARRAYS) - {"small"}
    rng = np.random.default_rng(0)
    for cut in (b"", b"text", whole[:100], whole[:-30], *(b"x" * n + whole[n:] for n in (200, 900))):
        Path(file.name).write_bytes(cut)
        with pytest.raises(ng.UserError, match="is no .npz|cannot be read"):
            file.read_values()
    for _ in range(50):  # whatever is damaged is told, or did not matter
        hurt = bytearray(whole)
        for place in rng.integers(0, len(whole), 4):
            hurt[place] ^= int(rng.integers(1, 256))
        Path(file.name).write_bytes(bytes(hurt))
        try:
            file.read_values()
        except ng.UserError:
            pass
    np.savez(file.name, x=np.array([{}], object))
    with pytest.raises(ng.UserError, match="is no .npz"):
        file.read_values()


def test_a_file_stays_whole_where_writing_fails(tmp_path: Path) -> None:
    file = SaverFile(tmp_path / "x.safetensors")
    file.write_values({"w": np.ones(2)})
    with pytest.raises(ng.UserError):
        file.write_values({"w": np.array("text")})
    assert list(file.read_values()["w"]) == [1, 1] and len([*tmp_path.iterdir()]) == 1
    with pytest.raises(ng.UserError, match="cannot be written"):
        SaverFile(tmp_path / "nowhere" / "x").write_values({})


def test_small_floats_in_npz(tmp_path: Path) -> None:
    w = ng.variable((), dtype="bf16", initial_value=1.5, name="w")
    saver = Saver()
    with ng.transformers.make_transformer("numpy") as transformer:
        saver.setup_save(transformer, w)
        saver.save(tmp_path / "x")
        transformer.computation(ng.sequential([ng.assign(w, 3), 0]))()
        saver.setup_restore(transformer, w, tmp_path / "x")
        saver.restore()
        assert float(transformer.computation(w)()) == 1.5


# ---- the graph


def test_selecting_ops() -> None:
    x = ng.placeholder([ng.make_axis(2, "F"), ng.make_axis(3, "N")], name="x")
    seq = Sequential(
        [Affine(INIT, nout=4, activation=Rectlin()), Affine(INIT, nout=4, name="fc"), BatchNorm()], name="net"
    )
    seq(x)
    with Layer.inference_mode_on():
        seq(x)
    weights = seq.select(".weight")
    assert [w.name for w in seq.select("Linear .weight")] == [w.name for w in weights[:2]]
    assert seq.select("#fc .weight") == seq.select("net > fc Linear > .weight") == weights[1:2]
    assert seq.select("net > .weight") == [] and seq.select("net .weight") == weights
    assert seq.select("#W.bias") == seq.select("[label=bias]#W") and len(seq.select("#W")) == 4
    assert seq.select("#gamma, #beta") == seq.select("BatchNorm variable")
    assert seq.select('[layer_type^="batch"][mode="inference"]') and not seq.select("[mode=training]")
    assert len(seq.select("AssignOp")) == len(seq.side_effects) == 2
    assert seq.select("DotOp") and all(type(op).__name__ == "DotOp" for op in seq.select("Affine DotOp"))
    assert set(seq.select("*")) == set(seq.ops)
    for wrong in ("", "a >", "> a", "[x", "a,,b", "#", "a:hover", "$"):
        with pytest.raises(ng.UserError, match="selector"):
            seq.select(wrong)


def test_what_a_subgraph_knows() -> None:
    x = ng.placeholder([ng.make_axis(2, "F"), ng.make_axis(3, "N")], name="x")

    class Twice(SubGraph):
        @SubGraph.scope_op_creation
        def __call__(self, x: Any) -> Any:
            return self.inner(x) * 2

        def __init__(self) -> None:
            super().__init__(name="twice", metadata={"kind": "mine"})
            self.inner = Linear(INIT, nout=3)

    graph = Twice()
    y = graph(x)
    assert graph.inputs == [x] and graph.outputs == [y] and graph.side_effects == []
    assert list(graph.variables) == ["twice/Linear/W"] and graph.placeholders == {}
    assert set(graph.scopes) == {"twice", "twice/Linear"} and y.scope == "twice"
    assert y.metadata["kind"] == "mine"
    with scope_ops("here", mode="probe", metadata={"a": 1}) as made:
        z = ng.exp(y)
        done = ng.computation(z, "all")
    assert made.modes["probe"].ops == made.ops and z.scope == "here" and z.metadata["a"] == 1
    assert list(made.computations.values()) == [done] and made.outputs == [z]
    everything = ComputationalGraph([*graph.ops, x])
    assert everything.placeholders == {"x": x}


def test_a_shared_layer_belongs_to_all_that_hold_it() -> None:
    x = ng.placeholder([ng.make_axis(2, "F"), ng.make_axis(3, "N")])
    shared = Affine(INIT, nout=2, axes=None)
    first = shared(x)
    one, other = Sequential([shared]), Sequential([shared, Affine(INIT, nout=1)])
    one(x), other(x)
    assert set(one.variables.values()) == set(first.variables()) < set(other.variables.values())


# ---- the rest


def test_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    parser = NgraphArgparser(description="a program")
    parser.add_argument("--more", type=int, default=3)
    before = ng.transformers.make_transformer().transformer_name
    try:
        found = parser.parse_args(
            ["-b", "numpy", "-z", "16", "-t", "5", "-r", "7", "--no_progress_bar", "-o", "f"]
        )
        assert (found.batch_size, found.num_iterations, found.rng_seed, found.more) == (16, 5, 7, 3)
        assert found.progress_bar is False and found.output_file == "f" and found.epochs == 10
        assert ng.transformers.make_transformer().transformer_name == "numpy"
        with pytest.raises(SystemExit):
            parser.parse_args(["-b", "abacus"])
        assert "cuda-sim" in capsys.readouterr().err
    finally:
        ng.transformers.set_transformer_factory(ng.transformers.make_transformer_factory(before))


def test_sizes() -> None:
    assert conv_output_dim(10, 3, 1, 2) == 5 and conv_output_dim(10, 3, 0, 1, dilation=2) == 6
    assert deconv_output_dim(5, 3, 1, 2) == 9 and deconv_output_dim(4, 3, 0, 1, dilation=2) == 8
    with pytest.raises(ValueError, match="less than a window"):
        conv_output_dim(10, 2, 2, 1, pooling=True)
    with pytest.raises(ValueError):
        conv_output_dim(1, 5, 0, 1)
    with pytest.raises(ValueError):
        deconv_output_dim(1, 1, 3, 1)
    assert common_conv2d_pool_output_shape([8, 7, 6, 3], [3, 2, 3, 5], [1, 2, 2, 1], "SAME") == (8, 4, 3, 5)
    assert common_conv2d_pool_output_shape([8, 7, 6, 3], [3, 2, 3, 5], [2, 2], "VALID") == (8, 3, 3, 5)
    assert common_conv2d_pool_padding([8, 7, 6, 3], [3, 2, 3, 5], [1, 2, 2, 1], "SAME") == (1, 1, 0, 0)
    assert common_conv2d_pool_padding([8, 7, 6, 3], [4, 2, 3, 5], [1, 1, 1, 1], "SAME") == (1, 2, 0, 1)
    assert common_conv2d_pool_padding([8, 7, 6, 3], [3, 2, 3, 5], [1, 1, 1, 1], "VALID") == (0, 0, 0, 0)
    with pytest.raises(ValueError, match="SAME"):
        common_conv2d_pool_padding([8, 7, 6, 3], [3, 2, 3, 5], [1, 1, 1, 1], "same")


def test_parameters_are_those_of_the_functions() -> None:
    C, D, H, W, N, K = (ng.make_axis(n, name) for n, name in zip((2, 1, 5, 6, 3, 4), "CDHWNK", strict=True))
    x = ng.constant(1, [C, D, H, W, N])
    filters = ng.constant(1, [C, ng.make_axis(1, "T"), ng.make_axis(3, "R"), ng.make_axis(3, "S"), K])
    params = make_convparams(4, [1, 3, 3], [1, 2, 2], [0, 1, 1], [1, 1, 1])
    assert params["K"] == 4 and params["S"] == 3
    P, Q = ng.make_axis(3, "H"), ng.make_axis(3, "W")
    assert ng.convolution(params, x, filters, [K, D, P, Q, N]).axes.lengths == (4, 1, 3, 3, 3)
    given = ConvParameters(pad_h=1, pad_w=1, str_h=2, str_w=2).get_parameters()
    assert given.items() <= params.items()
    pool = make_poolparams("max", [1, 1, 2, 2], [1, 1, 2, 2], [0, 0, 0, 0])
    made = ng.pooling(pool, x, [C, D, ng.make_axis(2, "H"), ng.make_axis(3, "W"), N])
    assert made.axes.lengths == (2, 1, 2, 3, 3)
    assert [t.axes.names for t in squeeze_axes([x, made])] == [("C", "H", "W", "N")] * 2


def test_layers_are_loaded_when_they_are_asked_for() -> None:
    code = (
        "import sys, ngmlir as ng\n"
        "assert not any('frontends' in name for name in sys.modules)\n"
        "ng.frontends.neon.ax, ng.frontends.common.utils, ng.frontends.neon.layer.Affine, ng.frontends.neon.graph\n"
        "from ngmlir.frontends.neon.axis import ax\n"
        "from ngmlir.frontends.neon.activation import Rectlin\n"
        "import ngmlir.frontends.neon as neon\n"
        "assert not [n for n in neon.__all__ if not hasattr(neon, n)]\n"
        "for room in ('common.learning_rate_policies', 'common.utils', 'neon'):\n"
        "    exec(f'from ngmlir.frontends.{room} import *')\n"
        "for name in 'activation axis graph initializer layer loss model optimizer callbacks saver arrayiterator'.split():\n"
        "    exec(f'from ngmlir.frontends.neon.{name} import *')\n"
        "assert ng.compile\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_errors_are_at_the_line_of_the_program() -> None:
    seq = Sequential([Affine(INIT, nout=3)])
    x = ng.placeholder([ng.make_axis(2, "F"), ng.make_axis(3, "N")])
    seq(x)
    with pytest.raises(ng.UserError) as caught:
        seq(ng.placeholder([ng.make_axis(2, "G"), ng.make_axis(3, "N")]))
    assert caught.value.diagnostics[0].location.file == __file__
    with pytest.raises(ng.UserError) as caught:
        GradientDescentMomentum({"name": "inv", "base_lr": 1})
    assert caught.value.diagnostics[0].location.file == __file__
