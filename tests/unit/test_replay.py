# SPDX-License-Identifier: Apache-2.0
"""`./run replay` finds what differs, and nothing else."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests" / "replay"))

import replay  # noqa: E402
from replay_lowering import names_of  # noqa: E402

PROGRAMS = {
    "add": "func.func @main(%x: tensor<40xf32>) -> tensor<40xf32> {\n"
    "  %r = ng.add %x, %x : tensor<40xf32>\n  return %r : tensor<40xf32>\n}",
    "refused": "func.func @main(%x: tensor<4xf32>) {\n  %r = ng.nothing %x : tensor<4xf32>\n  return\n}",
    "twice": "func.func @main(%x: tensor<8x8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {\n"
    "  %a = ng.sum %x axes [1] : (tensor<8x8xf32>) -> tensor<8xf32>\n"
    "  %b = ng.sum %x axes [0] : (tensor<8x8xf32>) -> tensor<8xf32>\n"
    "  return %a, %b : tensor<8xf32>, tensor<8xf32>\n}",
}


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """Compares these programs with another checkout, which is the last argument."""
    (tmp_path / "programs.json").write_text(json.dumps(PROGRAMS))
    other = tmp_path / "other"
    for folder in ("src", "dialects", "lowering"):
        shutil.copytree(ROOT / folder, other / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return [f"--programs={tmp_path / 'programs.json'}", "--targets=x86-64-v3,sm_90a", "--llvm", str(other)]


def test_equal_checkouts_give_equal_code(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert replay.main(command) == 0
    assert "x86-64-v3: 0 of 3 programs differ" in capsys.readouterr().out


def test_what_differs_is_listed(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    rules = Path(command[-1]) / "lowering" / "pipelines"
    rules.write_text(rules.read_text().replace("plan-memory", "plan-nothing"))
    assert replay.main(command) == 1
    out = capsys.readouterr().out
    assert "x86-64-v3: 2 of 3 programs differ" in out and "+++ here: kernel @" in out


def test_kernels_are_compared_by_text_and_not_by_number() -> None:
    kernels = {"sum_1": "kernel @sum_1 a", "sum": "kernel @sum b", "sum_2": "kernel @sum_2 a"}
    assert names_of(kernels, "@sum_2 @sum @sum_1") == {"sum_2": "sum", "sum": "sum#1", "sum_1": "sum"}
