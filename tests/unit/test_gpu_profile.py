# SPDX-License-Identifier: Apache-2.0
"""Profiles of transformers: times on the CPU, and on the simulated GPU what kernels ask of one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir.runtime.targets import profile_for
from ngmlir.tools.umbrella import main
from ngmlir.transformers import make_transformer

ROWS = np.arange(40 * 24, dtype=np.float32).reshape(40, 24) / 100


def _layer() -> tuple[Any, Any, Any]:
    n, c, k = (ng.make_axis(length, name=name) for length, name in ((40, "N"), (24, "C"), (16, "K")))
    x = ng.placeholder([n, c])
    w = ng.variable([c, k], initial_value=np.full((24, 16), 0.5))
    return x, w, ng.tanh(ng.dot(x, w))


def _line(source: str) -> str:
    file, line = source.rsplit(":", 1)
    assert Path(file).samefile(__file__)
    return Path(__file__).read_text().splitlines()[int(line) - 1]


def test_kernels_are_counted_with_their_lines() -> None:
    x, _, y = _layer()
    transformer = make_transformer("cuda-sim")
    profile = transformer.profile()
    assert str(profile) == "nothing has run" and profile is transformer.profile()
    run = transformer.computation(y, x)
    for _ in range(3):
        np.testing.assert_allclose(run(ROWS), np.tanh(ROWS @ np.full((24, 16), 0.5)), atol=1e-6)
    (kernel,) = profile.to_json()["kernels"]
    assert kernel["calls"] == 3 and "ng.dot(x, w)" in _line(kernel["source"])
    assert kernel["bytes"] <= 4 * (40 * 24 + 24 * 16 + 40 * 16) + 3 * 32
    assert kernel["bound"] in kernel["bounds"] and kernel["seconds"] == max(kernel["bounds"].values())
    assert 0 < kernel["useful_threads"] <= 1 <= kernel["sectors_over_ideal"]
    assert sum(kernel["mix"].values()) == pytest.approx(kernel["instructions"], abs=len(kernel["mix"]))
    text = str(profile)
    assert f"{kernel['kernel']}, {kernel['source']}" in text and "not timed on a device" in text
    profile.clear()
    assert profile.to_json()["kernels"] == []
    run(ROWS)
    assert profile.to_json()["kernels"][0]["calls"] == 1


def test_a_trace_has_a_launch_for_each_call(tmp_path: Path) -> None:
    x, _, y = _layer()
    run = ng.compile([y, ng.sum(ng.exp(x), out_axes=())], [x], target="cuda-sim", profile=True)
    assert run.profile is not None
    run(ROWS)
    run(ROWS)
    run.profile.write(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    first, second = (e for e in events if e["cat"] == "call")
    kernels = [e for e in events if e["cat"] == "kernel"]
    assert len(kernels) >= 4 and first["ts"] + first["dur"] == pytest.approx(second["ts"])
    assert sum(e["dur"] for e in kernels) == pytest.approx(first["dur"] + second["dur"])
    assert all(e["args"]["bound"] and e["args"]["source"] for e in kernels)


@pytest.mark.parametrize("target", ["cpu", "cuda-sim"])
def test_what_was_compiled_before_is_profiled_and_keeps_its_state(target: str) -> None:
    x, w, y = _layer()
    transformer = make_transformer(target)
    run, grow = transformer.computation(y, x), transformer.computation(ng.assign(w, w + 0.25))
    grow()
    before = run(ROWS)
    profile = transformer.profile()
    np.testing.assert_array_equal(run(ROWS), before)
    grow()
    assert np.all(transformer.get_tensor_view_value(w) == 1.0)
    sources = [_line(kernel["source"]) for kernel in profile.to_json()["kernels"]]
    assert any("ng.dot(x, w)" in line for line in sources) and any("w + 0.25" in line for line in sources)


def test_programs_of_others_are_not_counted() -> None:
    x, _, y = _layer()
    plain, counted = make_transformer("cuda-sim"), make_transformer("cuda-sim")
    profile = counted.profile()
    plain.computation(y, x)(ROWS)
    assert profile.to_json()["kernels"] == []
    counted.computation(y, x)(ROWS)
    plain.computation(y, x)(ROWS)
    assert [kernel["calls"] for kernel in profile.to_json()["kernels"]] == [1]


def test_loops_and_arrays_that_stay_are_counted() -> None:
    x, _, y = _layer()
    transformer = make_transformer("cuda-sim")
    profile = transformer.profile()
    run = transformer.computation(y, x)
    there = run.on_device(ROWS)
    np.testing.assert_array_equal(np.asarray(there), run.call_async(ROWS).result())
    (kernel,) = profile.to_json()["kernels"]
    assert kernel["calls"] == 2
    text = """\
func.func @main(%x: tensor<8xf32>, %n: tensor<i64>) -> tensor<8xf32> {
  %zero = ng.constant dense<0> : tensor<i64>
  %one = ng.constant dense<1> : tensor<i64>
  %r, %s = ng.while iter(%i = %n, %v = %x) -> (tensor<i64>, tensor<8xf32>) {
    %c = ng.greater %i, %zero : (tensor<i64>, tensor<i64>) -> tensor<i1>
    ng.yield %c : tensor<i1>
  } do {
    %m = ng.subtract %i, %one : tensor<i64>
    %w = ng.tanh %v : tensor<8xf32>
    ng.yield %m, %w : tensor<i64>, tensor<8xf32>
  }
  func.return %s : tensor<8xf32>
}"""
    from ngmlir.compiler import compile_module
    from ngmlir.ops.words import from_text
    from ngmlir.runtime.timing import listening

    with listening(of_loop := profile_for("cuda-sim")):
        loop = compile_module(from_text(text), "cuda-sim")
    loop(np.ones(8, np.float32), np.int64(5))
    assert 5 in [kernel["calls"] for kernel in of_loop.to_json()["kernels"]]


def test_the_command_line_counts(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "p.ngir").write_text("""\
func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
  %y = ng.exp %x : tensor<64xf32>
  func.return %y : tensor<64xf32>
}""")
    file, trace = str(tmp_path / "p.ngir"), tmp_path / "t.json"
    assert main(["run", file, "--random=0", "--target=cuda-sim", "--profile", str(trace)]) == 0
    assert f"exp, {file}:2" in capsys.readouterr().out
    assert json.loads(trace.read_text())["traceEvents"]


def test_other_targets_have_no_profile() -> None:
    for target in ("numpy", "cuda:3"):
        with pytest.raises(ng.Limit, match=f"programs for {target} are not timed"):
            profile_for(target)
    with pytest.raises(ng.Limit, match="programs for numpy are not timed"):
        make_transformer("numpy").profile()
