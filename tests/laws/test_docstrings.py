# SPDX-License-Identifier: Apache-2.0
"""The example in the docstring of each pass is what the pass does."""

from __future__ import annotations

import inspect
import re
import textwrap

import pytest

from ngmlir.llvm.machine import cpu_target, nvptx_target
from ngmlir.ops.words import from_text, to_text
from ngmlir.passes.registry import PASSES

CPU, GPU = cpu_target("x86-64-v3"), nvptx_target("sm_90a")
_OF_GPUS = ("short-floats", "align-sides", "order-updates", "recompute")
_NAME = re.compile(r"%[\w$.-]+")


def example(name: str) -> tuple[str, str]:
    """The programs after `Before:` and `After:`."""
    doc = inspect.getdoc(PASSES[name]) or ""
    found = re.search(r"^Before:\n(.*?)^After:\n(.*?)(?=^\S|\Z)", doc, re.MULTILINE | re.DOTALL)
    assert found, f"the docstring of {name} has no Before and After"
    return textwrap.dedent(found[1]), textwrap.dedent(found[2])


def unnamed(text: str) -> str:
    """The program printed without names, so that only they are free."""
    module = from_text(text)
    for op in module.walk():
        blocks = [b for r in op.regions for b in r.blocks]
        for value in (*op.results, *(a for b in blocks for a in b.args)):
            value.name = ""
    return to_text(module)


def nameless(text: str) -> list[str]:
    return [_NAME.sub("%", line.strip()) for line in text.strip().splitlines()]


@pytest.mark.parametrize("name", PASSES)
def test_example_holds(name: str) -> None:
    before, after = example(name)
    # A kernel that says how many threads it has is one of a GPU, and so is what matrix instructions multiply.
    on_gpu = "threads(" in before or name in _OF_GPUS
    made = to_text(PASSES[name](from_text(before), GPU if on_gpu else CPU))
    if not any(line.strip() == "..." for line in after.splitlines()):
        assert unnamed(made) == unnamed(after)
        return
    # `...` stands for any lines; what is left out cannot be read back, so the rest is compared as written.
    pattern = "\n".join(".*" if line == "..." else re.escape(line) for line in nameless(after))
    text = "\n".join(nameless(made)[1:-1])
    assert re.fullmatch(pattern, text, re.DOTALL), made


@pytest.mark.parametrize("name", PASSES)
def test_example_shows_something(name: str) -> None:
    before, after = example(name)
    if name != "check-target":  # it gives back what it takes, or refuses it
        assert nameless(to_text(from_text(before)))[1:-1] != nameless(after)
