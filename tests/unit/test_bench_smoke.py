# SPDX-License-Identifier: Apache-2.0
"""The benchmarks run, on small sizes; nothing here looks at their times."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "bench"


def run(*command: str) -> str:
    paths = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_ops_prints_a_table_and_writes_rows(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    out = run(
        str(BENCH / "ops.py"),
        "--sizes=1K",
        "--rounds=1",
        "--only=add_f32|dot_NT_row_f32|sum_last",
        f"--json={file}",
    )
    rows = json.loads(file.read_text())
    assert {row["name"] for row in rows} >= {"add_f32", "dot_NT_row_f32", "sum_last_f32"}
    assert all(row["ours"] > 0 and row["numpy"] > 0 for row in rows)
    assert "add_f32" in out and "geomean" in out


def test_ops_says_when_no_case_is_meant() -> None:
    assert "no case" in run(str(BENCH / "ops.py"), "--sizes=1K", "--only=^nothing$")


def test_ir_throughput_prints_times() -> None:
    assert "us/op" in run(str(BENCH / "ir_throughput.py"), "--ops=64", "--rounds=1")


def test_compile_prints_stages() -> None:
    assert "per kernel" in run(str(BENCH / "compile.py"), "--only=demo", "--rounds=1")


def test_no_gpu_kernel_of_the_op_suite_starves() -> None:
    """Each has two blocks for each multiprocessor, or little to do in each block."""
    out = run(str(BENCH / "grids.py"), "--starving")
    assert "\n0 of " in out, out


def test_grids_shows_useful_threads(tmp_path: Path) -> None:
    file = tmp_path / "bias.ngir"
    file.write_text(
        "func.func @main(%x: tensor<65536x10xf32>, %b: tensor<10xf32>) -> tensor<65536x10xf32> {\n"
        "  %0 = ng.broadcast %b dims [1] : (tensor<10xf32>) -> tensor<65536x10xf32>\n"
        "  %1 = ng.add %x, %0 : tensor<65536x10xf32>\n  return %1 : tensor<65536x10xf32>\n}"
    )
    header, line, _ = run(str(BENCH / "grids.py"), str(file)).splitlines()[1:]
    found = dict(zip(header.split(), line.split(), strict=True))
    assert int(found["useful"]) == int(found["threads"]) == 128 and int(found["blocks"]) == 2048


@pytest.mark.slow
def test_every_op_gives_what_numpy_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cases as such, on other sizes than those that are measured."""
    monkeypatch.syspath_prepend(str(BENCH))
    import op_cases

    from ngmlir.compiler import compile_module
    from ngmlir.ops.words import from_text

    found = op_cases.cases(1024)
    assert len({case.name for case in found}) == len(found)
    for case in found:
        ours, theirs = (np.zeros(case.shape, case.dtype) for _ in range(2))
        compile_module(from_text(case.text)).bind({len(case.arguments): ours})(*case.arguments)
        case.numpy(*case.arguments, theirs)
        op_cases.compare(case, ours, theirs)
