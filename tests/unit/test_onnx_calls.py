# SPDX-License-Identifier: Apache-2.0
"""Calls of compiled models: by threads, for new lengths, with arrays that do not fit; what errors and reports say."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from types import BuiltinFunctionType
from typing import Any

import numpy as np
import pytest

import ngmlir as ng

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from ngmlir.frontends.onnx import load  # noqa: E402
from ngmlir.frontends.onnx.contents import Contents  # noqa: E402

W = np.random.default_rng(1).normal(size=(6, 4)).astype(np.float32)


def model(rows: Any, *more: Any) -> Any:
    """z = relu(x @ w); `more` nodes come behind, and the last output is that of the model."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Relu", ["y"], ["z"]), *more]
    ports = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [rows, 6] if n == "x" else None) for n in "xz"
    ]
    ports[1].name = nodes[-1].output[0]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], [numpy_helper.from_array(W, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def rows(n: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(n).normal(size=(n, 6)).astype(np.float32)


def wanted(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.maximum(x @ W, 0)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often models were read, in its only element."""
    count, attempt = [0], Contents.attempt

    def counted(self: Contents, *values: Any, **more: Any) -> Any:
        count[0] += 1
        return attempt(self, *values, **more)

    monkeypatch.setattr(Contents, "attempt", counted)
    return count


def test_more_samples_do_not_read_the_model_again(reads: list[int]) -> None:
    run = ng.compile(load(model("n")), target="cpu")
    for n in (*range(2, 200, 3), 5, 2):
        np.testing.assert_allclose(run(rows(n))["z"], wanted(rows(n)), atol=1e-5)
    assert reads == [3], "for 2, and twice for any number"
    run(rows(1))  # broadcasts know a length of one
    assert reads == [4]


def test_a_model_that_tells_its_lengths_is_read_for_each(reads: list[int]) -> None:
    more = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Cast", ["s"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMax", ["f"], ["m"], keepdims=0),
        helper.make_node("Add", ["z", "m"], ["o"]),
    ]
    run = ng.compile(load(model("n", *more)), target="cpu")
    for n in (2, 3, 9, 12):
        np.testing.assert_allclose(run(rows(n))[0], wanted(rows(n)) + max(n, 6), atol=1e-5)
    assert reads[0] > 4, "for some more lengths, to see that no one program is right for all"


def test_known_lengths_do_not_wait_for_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    run = ng.compile(load(model(None)), target="cpu")
    for n in (2, 3):
        run(rows(n))
    started, go_on, attempt = threading.Event(), threading.Event(), Contents.attempt

    def slow(self: Contents, *values: Any, **more: Any) -> Any:
        started.set()
        assert go_on.wait(60)
        return attempt(self, *values, **more)

    monkeypatch.setattr(Contents, "attempt", slow)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(run(rows(1))))
    thread.start()
    assert started.wait(60)
    for n in (2, 3, 2):
        np.testing.assert_allclose(run(rows(n))[0], wanted(rows(n)), atol=1e-5)
    assert not found
    go_on.set()
    thread.join(60)
    np.testing.assert_allclose(found[0][0], wanted(rows(1)), atol=1e-5)


@pytest.mark.parametrize("source", ["proto", "bytes", "path"])
@pytest.mark.parametrize("target", ["cpu", "numpy"])
def test_calls_of_all_kinds_give_the_same(tmp_path: Path, target: str, source: str) -> None:
    made = model(3)
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    given = {"proto": made, "bytes": made.SerializeToString(), "path": tmp_path / "m.onnx"}[source]
    run = ng.compile(load(given), target=target)
    x = rows(3)
    for _ in range(2):
        wide = x.astype(np.float64)
        for each in (x, np.asfortranarray(x), x[:, ::-1][:, ::-1], wide, np.rec.array(x)):
            np.testing.assert_allclose(run(each if each is not wide else x)[0], wanted(x), atol=1e-5)
        np.testing.assert_allclose(run(x=x)["z"], wanted(x), atol=1e-5)
        for wrong in ((), (x, x), (rows(2),), (x.astype(np.complex64),)):
            with pytest.raises(ng.UserError):
                run(*wrong)
        for values, named in (((), {"y": x}), ((x,), {"x": x}), ((), {"x": x, "y": x}), ((), {"x": rows(2)})):
            with pytest.raises(ng.UserError):
                run(*values, **named)
    if target == "cpu":
        assert isinstance(run._quick[0], BuiltinFunctionType)
    outputs = run(x)
    assert outputs.names == ("z",) and repr(outputs) == "Outputs(z)"
    again = pickle.loads(pickle.dumps(outputs))
    assert again.names == ("z",) and np.array_equal(again["z"], outputs[0])


@pytest.mark.parametrize("target", ["cpu", "numpy"])
def test_outputs_that_are_known_stand_beside_others(target: str) -> None:
    made = model(3, helper.make_node("Neg", ["w"], ["minus_w"]))
    made.graph.output.extend([onnx.ValueInfoProto(name="z"), onnx.ValueInfoProto(name="w")])
    run = ng.compile(load(made), target=target)
    for _ in range(3):
        found = run(rows(3))
        np.testing.assert_allclose(found["z"], wanted(rows(3)), atol=1e-5)
        assert np.array_equal(found["minus_w"], -W) and np.array_equal(found["w"], W)


def test_errors_are_at_the_users_line() -> None:
    lines = Path(__file__).read_text().splitlines()

    def line_of(call: Any) -> str:
        with pytest.raises(ng.NgmlirError) as caught:
            call()
        place = caught.value.diagnostics[0].location
        assert place.file == __file__
        return lines[place.line - 1].strip()

    run = ng.compile(load(model("n")))
    wrong = helper.make_node("Concat", ["z", "z"], ["o"], name="again", axis=5)

    def called() -> None:
        run(rows(2)[:, :5])  # here

    def read() -> None:
        load("nowhere.onnx")  # here

    def compiled() -> None:
        ng.compile(load(model(3, wrong)))  # here

    def computed() -> None:
        ng.compile(load(model("n", wrong)))(rows(2))  # here

    for call in (called, read, compiled, computed):
        assert line_of(call).endswith("# here")
    with pytest.raises(ng.NgmlirError, match=r"error: node 'again' \(Concat\): "):
        computed()


def test_reports() -> None:
    run = ng.compile(load(model("n")), target="cpu")
    with pytest.raises(ng.UserError, match="leaves lengths of its inputs open"):
        run.report()
    assert "tensor<5x6xf32>" in str(run.report(rows(5)))
    run(rows(7))
    text = str(run.report())
    assert "tensor<7x6xf32>" in text and "tile.kernel" in text
    assert "tensor<2x6xf32>" in str(ng.compile(load(model(2)), target="cpu").report())


def test_threads_are_said_where_programs_are_made() -> None:
    made = load(model(3), threads=2)
    assert ng.compile(made).threads == 2 and ng.compile(made, threads=1).threads == 1
    assert ng.transformers.make_transformer("cpu", threads=2).threads == 2
    for wrong in (0, -1, 1.5):
        with pytest.raises(ng.UserError, match="threads is"):
            load(model(3), threads=wrong)
        with pytest.raises(ng.UserError, match="threads is"):
            ng.transformers.make_transformer("cpu", threads=wrong)


@pytest.mark.parametrize("target", ["numpy", "cpu"])
def test_initializers_among_the_inputs_may_be_given(target: str) -> None:
    """They are values that a call may replace: here what is added, and a shape."""
    nodes = [helper.make_node("Add", ["x", "b"], ["y"]), helper.make_node("Reshape", ["y", "s"], ["z"])]
    ports = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 6]),
        helper.make_tensor_value_info("b", TensorProto.FLOAT, [6]),
        helper.make_tensor_value_info("s", TensorProto.INT64, [2]),
    ]
    held = [numpy_helper.from_array(W[:, 0], "b"), numpy_helper.from_array(np.array([3, -1]), "s")]
    output = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", ports, [output], held)
    run = ng.compile(load(helper.make_model(graph)), target=target)
    for n in (3, 6, 9):
        x, b = rows(n), W[:, 1]
        assert np.array_equal(run(x)[0], (x + W[:, 0]).reshape(3, -1))
        assert np.array_equal(run(x=x, b=b)[0], (x + b).reshape(3, -1))
        assert np.array_equal(run(x=x, s=[-1, 2])[0], (x + W[:, 0]).reshape(-1, 2))
        assert np.array_equal(run(s=np.array([2, -1]), b=b, x=x)[0], (x + b).reshape(2, -1))
    for named, problem in (
        ({"x": rows(3), "b": W}, "the input 'b' has the shape"),
        ({"b": W[:, 0]}, "the input 'x' is not given"),
        ({"x": rows(3), "b": W[:, 0], "c": 1}, "there is no input 'c'"),
    ):
        with pytest.raises(ng.UserError, match=problem):
            run(**named)


@pytest.mark.parametrize("target", ["numpy", "cpu"])
def test_parts_of_a_model_for_shapes_that_come_again(target: str) -> None:
    """What follows a choice is called with the same shapes, then with others, and with other elements of these."""
    count = [
        helper.make_node("Greater", ["z", "w"], ["more"]),
        helper.make_node("NonZero", ["more"], ["places"]),
        helper.make_node("Cast", ["places"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("NonZero", ["floats"], ["again"]),
        helper.make_node("Add", ["again", "again"], ["twice"]),
    ]
    run = ng.compile(load(model(6, *count)), target=target)
    shapes: set[tuple[int, ...]] = set()
    for seed in (1, 1, 2, 3, 1, 2, 2, 4, 1, 3, 3, 1):
        x = np.random.default_rng(seed).normal(size=(6, 6)).astype(np.float32)
        made = run(x)[0]
        np.testing.assert_array_equal(made, 2 * np.array(np.nonzero(np.array(np.nonzero(wanted(x) > W)))))
        shapes.add(made.shape)
    assert len(shapes) > 2
