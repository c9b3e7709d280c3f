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


ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]),
}


def run(*command: str) -> str:
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=ENVIRONMENT)
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


def test_the_sweep_tells_families_and_the_worst(tmp_path: Path) -> None:
    """Whatever else is installed: rows that nothing is compared with are left out."""
    pytest.importorskip("onnx")
    command = [str(BENCH / "sweep.py"), "--rows=4", "--rounds=1", "--family=elementwise|reduction"]
    out = run(*command, f"--json={tmp_path / 'rows.json'}")
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert len(rows) == 4 and all(row["micros"]["ngmlir"] > 0 and not row["error"] for row in rows)
    assert "geomean" in out and "the worst:" in out and "--seed 3" in out


def test_ops_says_when_no_case_is_meant() -> None:
    assert "no case" in run(str(BENCH / "ops.py"), "--sizes=1K", "--only=^nothing$")


def test_the_gate_exits_as_it_says() -> None:
    """Times are what they are here; table and exit code agree."""
    command = [str(BENCH / "ops.py"), "--gate", "--sizes=1K", "--rounds=1", "--only=gelu|layer_norm_64"]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=ENVIRONMENT)
    assert not done.stderr and "NumPy 2" in done.stdout
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("chains, softmax, layer norm")]
    assert line.split()[-1] == ("FAILED" if done.returncode else "passed")


def test_rows_are_held_to_their_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    from gate import Bar, Row, judge, told

    def row(family: str, name: str, ratio: float) -> Row:
        return Row(family, name, 1024, 1.0, ratio, ratio, 1.0, "GB/s", 1.0)

    bars = (Bar("some", ("a", "b"), 0.95, 1.3), Bar("other", ("c",), 0.8), Bar("absent", ("d",), 9.0))
    rows = [row("a", "slow", 0.9), row("a", "slowest", 0.5), row("b", "fast", 16.0), row("c", "just", 0.8)]
    some, other = judge([*rows, row("unasked", "slow", 0.1)], bars)
    assert [r.name for r in some.under] == ["slowest", "slow"] and some.worst == 0.5 and some.count == 3
    assert some.mean == pytest.approx(7.2 ** (1 / 3)) and not some.passed
    assert other.passed and not other.under
    text = told([some, other])
    assert text.count("FAILED") == 1 and "slowest" in text and "fast" not in text and "just" not in text
    # Every row reaches the least ratio, but the mean is too low.
    (low,) = judge([row("a", "one", 1.0), row("b", "two", 1.2)], bars)
    assert not low.under and not low.passed


def test_ir_throughput_prints_times() -> None:
    assert "us/op" in run(str(BENCH / "ir_throughput.py"), "--ops=64", "--rounds=1")


def test_compile_prints_stages() -> None:
    assert "per kernel" in run(str(BENCH / "compile.py"), "--only=demo", "--rounds=1")


def test_steps_tell_their_time() -> None:
    out = run(str(BENCH / "steps.py"), "--only=fit", "--seconds=0.01", "--first")
    assert "fit_a_line" in out and "first 0." in out and "cached 0." in out


def test_steps_over_sequences_tell_their_time() -> None:
    out = run(str(BENCH / "sequence_steps.py"), "--only=beam_4_of_one", "--seconds=0.01")
    assert "beam_4_of_one" in out and "ngmlir" in out


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


def test_gradients_prints_a_table() -> None:
    lines = run(str(BENCH / "gradients.py"), "layer norm", "pool max", "--targets=numpy").splitlines()
    assert len(lines) == 4 and lines[-1].endswith("0 beyond them")


def test_launches_are_counted() -> None:
    out = run(str(BENCH / "launches.py"))
    if "us" in out:  # cuda-bindings is here
        assert "40 kernels, arrays on the GPU" in out and out.count("1 GraphLaunch") == 8
        assert "not yet timed on a device" in out


def test_the_page_of_kernels_is_of_these_kernels() -> None:
    """What does not depend on ptxas, of some programs; kernels that change have `bench/kernels.py --write` run again."""
    written = [
        line.split("|")[1:-1]
        for line in (ROOT / "docs" / "internals" / "kernels.md").read_text().splitlines()
    ]
    wanted = ("add_f32", "sum_last_f32", "transpose_2d_f32")
    fresh = run(str(BENCH / "kernels.py"), f"--only=^({'|'.join(wanted)})$").splitlines()
    assert len(fresh) == len(wanted)
    for line in fresh:
        cells = line.split("|")[1:-1]
        same = [row for row in written if row[:2] == cells[:2]]
        assert [[row[i] for i in (2, 3, 6, 7, 8)] for row in same] == [[cells[i] for i in (2, 3, 6, 7, 8)]], (
            line
        )


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux")
def test_memory_of_programs_has_a_row_for_each() -> None:
    out = run(str(BENCH / "program_memory.py"), "--only=fit a line", "--megabytes=20")
    (row,) = [line for line in out.splitlines() if line.startswith("fit a line")]
    planned, measured = (float(each) for each in row.split()[4:6])
    assert 18 < planned < 25 and abs(measured / planned - 1) < 0.2
