# SPDX-License-Identifier: Apache-2.0
"""What docs/cuda.md shows is true."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from fake_cuda import Machine

PAGE = Path(__file__).parents[2] / "docs" / "cuda.md"


def test_the_page_runs(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    for text in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S):
        exec(compile(text, str(PAGE), "exec"), names)
    assert capsys.readouterr().out == "<DeviceArray of shape (32, 8), float32, on cuda:0>\n"
    assert machine.counts["cuGraphLaunch"] + machine.counts["cuLaunchKernel"] >= 4
