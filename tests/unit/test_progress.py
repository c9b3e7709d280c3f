# SPDX-License-Identifier: Apache-2.0
"""Progress bars: on terminals only, with a time left that does not count compilation."""

from __future__ import annotations

import io

import pytest

from ngmlir.compiler import compile_artifact
from ngmlir.ops.words import from_text
from ngmlir.support.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_time_left_does_not_count_the_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 100.0, 101.0, 102.0, 102.0])  # the first step compiles for 100 s, others take 1 s
    monkeypatch.setattr("ngmlir.support.progress.time.monotonic", lambda: next(clock))
    monkeypatch.setattr("sys.stderr", stream := Terminal())
    with Progress(1001, "training") as progress:
        for _ in range(3):
            progress.step()
    first, second, third = stream.getvalue().split("\r")[1:]
    assert "1/1001  " in first and "left" not in first
    assert "2/1001  999 s left" in second and "3/1001  998 s left" in third


def test_a_long_compilation_shows_its_passes_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(1_000_000))
    monkeypatch.setattr("ngmlir.support.progress.time.monotonic", lambda: float(next(ticks)))
    monkeypatch.setattr("sys.stderr", stream := Terminal())
    module = from_text(
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  return %x : tensor<4xf32>\n}"
    )
    monkeypatch.setenv("NGMLIR_CACHE", "0")
    compile_artifact(module, "x86-64-v3")
    found = stream.getvalue()
    assert "compiling [" in found and "fuse" in found and found.endswith("\r\x1b[K")
