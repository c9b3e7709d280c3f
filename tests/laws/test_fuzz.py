# SPDX-License-Identifier: Apache-2.0
"""The fuzzer itself: it sees what goes wrong, and makes it small."""

from __future__ import annotations

import os
import signal
import time

import fuzz
import pytest
from fuzz import outcome
from generators import drawn
from shrinking import shrunk, shrunk_text

from ngmlir.ir.core import Module
from ngmlir.ops.words import to_text


def test_what_a_child_ends_with(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise AssertionError("3 is 4")

    monkeypatch.setattr(fuzz, "SECONDS", 1)
    assert outcome(lambda: None) == ""
    assert "AssertionError" in outcome(fail) and "3 is 4" in outcome(fail)
    assert outcome(lambda: os.kill(os.getpid(), signal.SIGKILL)) == "ended by SIGKILL"
    assert outcome(lambda: time.sleep(60)) == "took more than 1 s"


def test_programs_become_small() -> None:
    """For each op of a random program, the smallest program that has it holds nothing but what it needs."""
    of = drawn(0, exact=True, control=False)
    names = {op.name for op in of.walk() if op.results}
    assert len(names) > 3
    for name in names:

        def has(smaller: Module, name: str = name) -> bool:
            return any(op.name == name for op in smaller.walk())

        (main,) = shrunk(of, has).ops
        assert len(main.block.ops) == 2 and has(main)  # type: ignore[arg-type]


def test_texts_become_small() -> None:
    text = "\n".join(map(str, range(100)))
    assert shrunk_text(text, lambda t: "17" in t and "83" in t.split("\n")) == "17\n83"


def test_seeds_repeat() -> None:
    assert to_text(drawn(3)) == to_text(drawn(3)) != to_text(drawn(4))
