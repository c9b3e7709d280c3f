# SPDX-License-Identifier: Apache-2.0
"""The memory that a program is told to take before it runs is what the system counts of a process that runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("peak_memory.py")


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux")
@pytest.mark.parametrize(
    ("network", "batch"), [("mlp", 8192), ("mlp-training", 4096), ("conv", 4096), ("conv-training", 1024)]
)
def test_what_is_told_is_what_is_used(network: str, batch: int) -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), network, str(batch)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told, used, is_finite = done.stdout.split()
    assert int(told) > 50e6 and is_finite == "True"
    assert abs(int(used) - int(told)) <= 0.02 * int(told)
