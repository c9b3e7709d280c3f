# SPDX-License-Identifier: Apache-2.0
"""`ngmlir run` and `ngmlir import`, as a person types them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir.ir.core import Op
from ngmlir.ops.meaning import MEANING
from ngmlir.tools import ngopt
from ngmlir.tools.umbrella import main

SCALE = """\
func.func @twice(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y = ng.add %x, %x : tensor<3xf32>
  func.return %y : tensor<3xf32>
}
func.func @both(%x: tensor<3xf32>, %i: tensor<2xi32>) -> (tensor<3xf32>, tensor<2xi32>) {
  %y = ng.multiply %x, %x : tensor<3xf32>
  func.return %y, %i : tensor<3xf32>, tensor<2xi32>
}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "scale.ngir").write_text(SCALE)
    np.save(tmp_path / "x.npy", np.array([1, 2, 3], np.float32))
    np.save(tmp_path / "wide.npy", np.zeros(4, np.float32))
    np.save(tmp_path / "text.npy", np.array(["a", "b", "c"]))
    np.save(tmp_path / "objects.npy", np.array([None, 1, 2]), allow_pickle=True)
    np.savez(tmp_path / "both.npz", i=np.array([7, 8], np.int32), x=np.array([1, 2, 3], np.float32))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *command: str) -> tuple[int, str, str]:
    code = main(command)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("target", ["cpu", "numpy"])
def test_a_function_is_called_with_files(folder: Path, capsys: Any, target: str) -> None:
    run = ["run", "scale.ngir", f"--target={target}"]
    assert said(capsys, *run, "--entry=twice", "--input=x.npy") == (0, "y: float32 3 [2., 4., 6.]\n", "")
    code, out, _ = said(capsys, *run, "--entry=both", "--input", "both.npz", "-o", "out.npz")
    assert (code, out) == (0, "")
    with np.load("out.npz") as made:
        assert made["y"].tolist() == [1, 4, 9] and made["i"].tolist() == [7, 8]


def test_a_difference_is_told_by_kernel_and_element(
    folder: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What differs from NumPy is followed to the first kernel whose results do."""
    right = MEANING["ng.tanh"]

    def wrong(op: Op, arrays: Sequence[Any]) -> Any:
        made = np.array(right(op, arrays))
        made.reshape(-1)[3] += 0.5
        return made

    Path("two.ngir").write_text(
        "func.func @main(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {\n"
        "  %a = ng.dot %x, %w contract [1] x [0] : tensor<8x8xf32>\n"
        "  %b = ng.tanh %a : tensor<8x8xf32>\n"
        "  %c = ng.dot %b, %w contract [1] x [0] : tensor<8x8xf32>\n"
        "  return %c : tensor<8x8xf32>\n}\n"
    )
    run = ["run", "two.ngir", "--random=1", "--check=numpy"]
    assert said(capsys, *run)[0] == 0
    monkeypatch.setitem(MEANING, "ng.tanh", wrong)
    code, _, err = said(capsys, *run)
    assert code == 1
    assert re.search(
        r"error: c differs from NumPy by [\d.]+ of its largest element: element \[0, \d\] is ", err
    )
    assert re.search(
        r"note: the first that differs is kernel @dot_tanh \(ng.dot, ng.reshape, ng.tanh\) at two.ngir:3:3: element \[3\] is ",
        err,
    )


def test_random_inputs_are_those_of_the_seed(folder: Path, capsys: Any) -> None:
    run = ["run", "scale.ngir", "--entry=both", "--random=1", "--check=numpy"]
    code, out, _ = said(capsys, *run)
    assert code == 0 and "check: equal to NumPy" in out
    assert said(capsys, *run)[1] == out != said(capsys, *run[:-2], "--random=2", "--check=numpy")[1]
    assert "time: " in said(capsys, *run, "--time")[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--entry=twice", "no value for the input 'x'; it takes x (float32 [3])"),
        ("--entry=twise", "no function @twise"),
        ("--random=0", "--entry=NAME, one of: twice, both"),
        (
            "--entry=twice --input wide.npy",
            "argument 'x' must be float32 of shape (3,), but it has shape (4,)",
        ),
        ("--entry=twice --input text.npy", "its elements are <U1"),
        (
            "--entry=twice --input objects.npy",
            "'objects.npy' holds no arrays: Python objects are not read",
        ),
        ("--entry=twice --input scale.ngir", "'scale.ngir' holds no arrays: it has not the format"),
        ("--entry=twice --input none.npy", "cannot read 'none.npy': No such file"),
        ("--entry=twice --input y=x.npy", "there is no input 'y'"),
        ("--entry=twice --input both.npz", "there is no input 'i'"),
        ("--entry=twice --input x.npy --input x.npy", "there are 1 inputs only"),
        ("--entry=twice --input x=x.npy --input x=x.npy", "the input 'x' is given twice"),
        ("--entry=both --input both.npz -o y.npy", "'y.npy' holds one array, there are 2 results"),
        ("--entry=twice --input x.npy -o y.txt", "'y.txt' must be a .npz or .npy file"),
        ("--entry=twice --input x.npy -o none/y.npy", "cannot open output file 'none/y.npy'"),
        ("--entry=twice --input x.npy --threads=0", "threads is 0"),
        ("--entry=twice --input x.npy --size=n=2", "no input has a length called 'n'"),
        ("--entry=twice --input x.npy --target=tpu", "invalid choice: 'tpu'"),
        ("--entry=twice --random=many", "--random: 'many' is not a non-negative number"),
    ],
)
def test_what_is_wrong_is_said(folder: Path, capsys: Any, words: str, message: str) -> None:
    before = set(folder.iterdir())
    code, out, err = said(capsys, "run", "scale.ngir", *words.split())
    assert code == 1 and out == "" and message in err and "Traceback" not in err
    assert set(folder.iterdir()) == before


def test_state_begins_as_it_was_saved(folder: Path, capsys: Any) -> None:
    x = ng.placeholder([ng.make_axis(3, "A")]).named("x")
    w = ng.variable(x.axes, initial_value=np.array([1, 10, 100], np.float32)).named("w")
    ng.save("state.ngir", ng.computation({"y": x * w}, x))
    for target in ("cpu", "numpy"):
        code, out, _ = said(capsys, "run", "state.ngir", "--input=x.npy", f"--target={target}")
        assert (code, out) == (0, "y: float32 3 [  1.,  20., 300.]\n")


@pytest.fixture
def model(folder: Path) -> Path:
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    w = np.random.default_rng(0).normal(size=(64, 8)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Softmax", ["h"], ["y/0"]),
        helper.make_node("Shape", ["w"], ["s"]),
    ]
    outputs = [("y/0", kind), ("s", onnx.TensorProto.INT64)]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", kind, ["batch", 64])],
        [helper.make_tensor_value_info(*each, None) for each in outputs],
        [onnx.numpy_helper.from_array(w, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), "m.onnx")
    return folder


def test_a_model_is_run_and_imported(model: Path, capsys: Any) -> None:
    code, out, err = said(capsys, "run", "m.onnx", "--random=3")
    assert code == 0 and out.startswith("y/0: float32 1x8") and "'batch' is set to 1" in err
    code, out, err = said(
        capsys, "run", "m.onnx", "--random=3", "--size=batch=5", "-o", "a.npz", "--check=numpy"
    )
    assert code == 0 and "check: equal to NumPy" in out and err == "wrote a.npz\n"
    code, _, err = said(capsys, "import", "m.onnx", "-o", "m.ngir", "--size=batch=5")
    assert code == 0 and "wrote m.ngir, m.bin" in err
    assert "m.bin@0+" in Path("m.ngir").read_text()
    assert said(capsys, "run", "m.ngir", "--random=3", "-o", "b.npz")[0] == 0
    with np.load("a.npz") as a, np.load("b.npz") as b:
        assert (a["y/0"] == b["y_0"]).all() and (a["s"] == b["s"]).all()
    for source, lengths in (
        ("m.onnx", ["--size=batch=5"]),
        ("m.ngir", []),
    ):  # both are tuned, with the weights beside
        code, _, err = said(capsys, "tune", source, "-o", "tuned.ngir", "--candidates=1", *lengths)
        assert code == 0 and "as predicted" in err
        assert "ng.schedule" in Path("tuned.ngir").read_text()
        assert ngopt.main(["-p", "cpu", "tuned.ngir", "-o", "lowered.ngir"]) == 0  # it goes on from there
        assert said(capsys, "run", "tuned.ngir", "--random=3", "-o", "c.npz")[0] == 0
        with np.load("b.npz") as b, np.load("c.npz") as c:
            assert all(
                np.allclose(x, y, rtol=1e-4, atol=1e-5) for x, y in zip(b.values(), c.values(), strict=True)
            )
    loaded = ng.compile(ng.load("m.ngir"))  # the same file is a graph
    assert loaded(np.zeros((5, 64), np.float32))[0].shape == (5, 8)


def test_initializers_among_the_inputs_of_a_model_may_be_given(model: Path, capsys: Any) -> None:
    onnx = pytest.importorskip("onnx")
    read = onnx.load("m.onnx")
    read.graph.input.append(onnx.helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, [64, 8]))
    onnx.save(read, "m.onnx")
    x, w = np.ones((2, 64), np.float32), np.zeros((64, 8), np.float32)
    np.save("x.npy", x)
    np.save("w.npy", w)
    np.savez("all.npz", x=x, w=w)
    even = "y/0: float32 2x8 [[0.125, 0.125, 0.125,"
    for given in (
        ["--input=w=w.npy", "--input=x.npy"],
        ["--input=x.npy", "--input=w.npy"],
        ["--input=all.npz"],
        ["--random=0", "--size=batch=2", "--input=w=w.npy"],
    ):
        code, out, _ = said(capsys, "run", "m.onnx", *given, "--check=numpy")
        assert code == 0 and out.startswith(even) and "check: equal to NumPy" in out
    code, out, _ = said(capsys, "run", "m.onnx", "--input=x.npy")
    assert code == 0 and not out.startswith(even)
    code, _, err = said(capsys, "run", "m.onnx", "--input=v=w.npy")
    assert code != 0 and "there is no input 'v'\nhint: the inputs are x, w" in err
    code, _, err = said(capsys, "run", "m.onnx", *["--input=x.npy"] * 3)
    assert code != 0 and "there are 2 inputs only; it takes x (float32 [batch, 64]), w" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("run none.onnx", "'none.onnx' cannot be read: No such file"),
        ("run m.onnx --entry=f --random=0", "has no functions to choose from"),
        (
            "run m.onnx --random=0 --size=btch=2",
            "no input has a length called 'btch'\nhint: did you mean batch?",
        ),
        ("run m.onnx --random=0 --size=batch", "--size=batch is not a length"),
        ("run m.onnx --random=0 --shape=x=2x65", "has the shape [batch, 64], not [2, 65]"),
        ("run m.onnx --random=0 --shape=y=2", "there is no input 'y'"),
        ("run m.onnx --input=x.npy", "has the shape [batch, 64], not [3]"),
        ("run m.onnx --input=text.npy", "the input 'x' takes float32, not <U1"),
        ("import scale.ngir", "'scale.ngir' is no .onnx file"),
        ("import m.onnx -o none/m.ngir --size=batch=1", "cannot open output file 'none/m.bin'"),
        ("import m.onnx -o m.bin --size=batch=1", "would be the file of the weights"),
        ("run m.onnx --random=0 --inptu=x", "did you mean --input?"),
    ],
)
def test_what_is_wrong_with_a_model_is_said(model: Path, capsys: Any, words: str, message: str) -> None:
    before = set(model.iterdir())
    code, _, err = said(capsys, *words.split())
    assert code == 1 and message in err
    assert set(model.iterdir()) == before


def test_a_file_that_is_no_model(folder: Path, capsys: Any) -> None:
    pytest.importorskip("onnx")
    Path("bad.onnx").write_bytes(b"\x08\x07" * 100)
    code, _, err = said(capsys, "run", "bad.onnx", "--random=0")
    assert code == 1 and "bad.onnx" in err and "no ONNX model" in err
    code, _, err = said(capsys, "run", "x.npy", "--random=0")
    assert code == 1 and "is not UTF-8 text" in err


def test_a_model_whose_inputs_decide_shapes_is_no_text(folder: Path, capsys: Any) -> None:
    onnx = pytest.importorskip("onnx")
    helper, kinds = onnx.helper, onnx.TensorProto
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "s"], ["y"])],
        "g",
        [
            helper.make_tensor_value_info("x", kinds.FLOAT, [4]),
            helper.make_tensor_value_info("s", kinds.INT64, [2]),
        ],
        [helper.make_tensor_value_info("y", kinds.FLOAT, None)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), "r.onnx")
    code, _, err = said(capsys, "import", "r.onnx")
    assert code == 1 and "the elements of the input 's' decide the shape" in err
    np.savez("in.npz", x=np.zeros(4, np.float32), s=np.array([2, 2]))
    assert said(capsys, "run", "r.onnx", "--input=in.npz")[1].startswith("y: float32 2x2")
