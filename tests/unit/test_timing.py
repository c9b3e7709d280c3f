# SPDX-License-Identifier: Apache-2.0
"""Profiles: what programs tell about their launches while somebody listens, and that they tell nothing otherwise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir.compiler import compile_module, compile_open
from ngmlir.ops.words import from_text
from ngmlir.runtime.timing import Profile, listening
from ngmlir.tools.umbrella import main


def _product(**more: Any) -> tuple[Any, list[np.ndarray]]:
    m, k, n = (ng.make_axis(length, name=name) for length, name in ((24, "M"), (32, "K"), (16, "P")))
    x, w = ng.placeholder([m, k]), ng.placeholder([k, n])
    arrays = [np.ones(p.axes.known_shape, np.float32) for p in (x, w)]
    return ng.compile(ng.dot(x, w), [x, w], **more), arrays


def test_each_launch_is_counted_with_its_line() -> None:
    run, arrays = _product(profile=True)
    plain, _ = _product()
    for _ in range(3):
        assert (run(*arrays) == plain(*arrays)).all()
    assert plain.profile is None
    (row,) = run.profile.to_json()["kernels"]
    assert (row["calls"], row["operations"], row["bytes"]) == (
        3,
        2 * 24 * 32 * 16,
        4 * (24 * 32 + 32 * 16 + 24 * 16),
    )
    file, line = row["source"].rsplit(":", 1)
    assert Path(file).samefile(__file__)
    assert "ng.dot(x, w)" in Path(__file__).read_text().splitlines()[int(line) - 1]
    assert row["seconds"] > 0 and row["flops"] == row["operations"] * 3 / row["seconds"]
    assert row["kernel"] in str(run.profile) and "code generation" in str(run.profile)


def test_a_trace_has_calls_and_the_kernels_in_them(tmp_path: Path) -> None:
    run, arrays = _product(profile=True)
    run.profile.clear()
    run(*arrays)
    run.profile.write(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    (call,) = [e for e in events if e["cat"] == "call"]
    (kernel,) = [e for e in events if e["cat"] == "kernel"]
    assert {"name", "ph", "ts", "dur", "pid", "tid"} <= call.keys()
    assert call["ts"] <= kernel["ts"]
    assert kernel["ts"] + kernel["dur"] <= call["ts"] + call["dur"] + 0.001


def test_programs_for_other_lengths_are_timed_too() -> None:
    batch, k = ng.make_axis(name="N"), ng.make_axis(8, name="K")
    x = ng.placeholder([batch, k])
    for kept in (k, batch):  # the first length has a program of its own, further ones share theirs
        run = ng.compile(ng.sum(ng.exp(x), out_axes=[kept]), [x], profile=True)
        assert run.profile is not None
        for length in (3, 5, 3):
            run(np.ones((length, 8), np.float32))
        assert sorted(row.calls for row in run.profile.rows) == [1, 2]


def test_loops_count_every_step() -> None:
    text = """\
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %five = ng.constant dense<5> : tensor<i64>
  %zero = ng.constant dense<0> : tensor<i64>
  %one = ng.constant dense<1> : tensor<i64>
  %r, %s = ng.while iter(%n = %five, %v = %x) -> (tensor<i64>, tensor<64x64xf32>) {
    %c = ng.greater %n, %zero : (tensor<i64>, tensor<i64>) -> tensor<i1>
    ng.yield %c : tensor<i1>
  } do {
    %m = ng.subtract %n, %one : tensor<i64>
    %w = ng.dot %v, %v contract [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    ng.yield %m, %w : tensor<i64>, tensor<64x64xf32>
  }
  func.return %s : tensor<64x64xf32>
}"""
    with listening(profile := Profile()):
        run = compile_module(from_text(text), "cpu")
    run(np.zeros((64, 64), np.float32))
    assert 5 in [row.calls for row in profile.rows if "dot" in row.measure.kernel]
    run(np.zeros((64, 64), np.float32))
    assert 10 in [row.calls for row in profile.rows if "dot" in row.measure.kernel]


def test_nodes_of_a_model_are_places() -> None:
    onnx = pytest.importorskip("onnx")
    from ngmlir.frontends.onnx import load

    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    info = [helper.make_tensor_value_info(name, kind, [4, 4]) for name in ("x", "y")]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "x"], ["y"], name="first")], "g", info[:1], info[1:]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    run = ng.compile(load(model), profile=True)
    assert run.profile is not None
    run(np.ones((4, 4), np.float32))
    assert [row["source"] for row in run.profile.to_json()["kernels"]] == ["node 'first' (MatMul)"]


def test_other_targets_are_not_timed() -> None:
    with pytest.raises(ng.Limit, match="programs for numpy are not timed"):
        _product(profile=True, target="numpy")


@pytest.mark.parametrize("wanted", ["1", "trace.json", "missing/trace.json"])
def test_a_process_tells_at_its_end(tmp_path: Path, wanted: str) -> None:
    code = """
import ngmlir as ng
x = ng.placeholder([ng.make_axis(8, name="A")])
ng.compile(ng.tanh(x), [x])(range(8))
"""
    environment = {**os.environ, "NGMLIR_TIMING": wanted}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    if wanted == "1":
        assert (
            "ran kernels for" in done.stderr
            and "tanh, <string>:4" in done.stderr
            and "to-kernels" in done.stderr
        )
    elif "missing" in wanted:
        assert done.stderr.startswith(f"NGMLIR_TIMING: error: cannot open output file '{wanted}'")
    else:
        names = [e["name"] for e in json.loads((tmp_path / wanted).read_text())["traceEvents"]]
        assert (
            any(name.endswith("tanh") for name in names)
            and "compile: to-kernels" in names
            and done.stderr == ""
        )


def test_the_command_line_shows_a_profile(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "p.ngir").write_text("""\
func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
  %y = ng.exp %x : tensor<64xf32>
  func.return %y : tensor<64xf32>
}""")
    file, trace = str(tmp_path / "p.ngir"), tmp_path / "t.json"
    assert main(["run", file, "--random=0", "--profile", str(trace)]) == 0
    assert f"exp, {file}:2" in capsys.readouterr().out
    assert json.loads(trace.read_text())["traceEvents"]
    assert main(["run", file, "--random=0", "--profile", "--target=numpy"]) == 1


def test_programs_for_all_lengths_are_told_as_numbers(tmp_path: Path) -> None:
    text = """\
func.func @main(%x: tensor<[N]x8xf32>, %y: tensor<8x[N]xf32>) -> tensor<[N]x[N]xf32> {
  %0 = ng.dot %x, %y contract [1] x [0] : (tensor<[N]x8xf32>, tensor<8x[N]xf32>) -> tensor<[N]x[N]xf32>
  return %0 : tensor<[N]x[N]xf32>
}"""
    profile = Profile()
    with listening(profile):
        run = compile_open(lambda lengths: from_text(text, lengths=lengths), {"N": 60})
    for n in (50, 5, 50):
        run(np.ones((n, 8), np.float32), np.ones((8, n), np.float32))
    found = json.loads(json.dumps(profile.to_json()))["kernels"]
    assert sorted((row["calls"], row["bytes"] > 0) for row in found) == [(1, True), (2, True)]
    assert found[0]["kernel"] in str(profile)
    profile.write(tmp_path / "trace.json")
