# SPDX-License-Identifier: Apache-2.0
"""Texts of programs with a few random faults: each is read and lowered, or refused with a place, and never a traceback."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

import pytest
from program_texts import random_program

from ngmlir.programs.lower import lower
from ngmlir.programs.text import program_text, read_program
from ngmlir.support.diagnostics import UserError

_NUMBERS = ["0", "-1", "1", str(2**31), str(2**70), "999999"]


def _put(text: str, at: re.Match[str], new: str) -> str:
    return text[: at.start()] + new + text[at.end() :]


def _faulty(text: str, drawn: random.Random) -> str:
    """The text with one fault: a character, a line, a word or a number altered, or a stretch cut out or repeated."""
    lines: Sequence[str] = text.splitlines(keepends=True)
    words = list(re.finditer(r"[\w@.]+", text))
    if len(lines) < 2 or not words:
        return text
    kind = drawn.randrange(7)
    here, there = drawn.randrange(len(text)), drawn.randrange(len(lines))
    if kind == 0:
        return text[:here] + drawn.choice('{}[]()=@,:"x0-') + text[here + drawn.randrange(2) :]
    if kind == 1:
        return "".join(line for i, line in enumerate(lines) if i != there)
    if kind == 2:
        return "".join([*lines[:there], lines[drawn.randrange(len(lines))], *lines[there:]])
    if kind == 3:
        return _put(text, drawn.choice(words), drawn.choice(words)[0])
    if kind == 4:
        numbers = list(re.finditer(r"-?\d+", text))
        return _put(text, drawn.choice(numbers), drawn.choice(_NUMBERS)) if numbers else text
    if kind == 5:
        return text[:here]
    return text[: here + drawn.randrange(40)] + text[here:]


@pytest.mark.parametrize("start", range(0, 1000, 250))
def test_a_faulty_text_is_refused_with_a_place(start: int) -> None:
    for seed in range(start, start + 250):
        drawn = random.Random(seed)
        text = program_text(random_program(seed % 200, 3 + seed % 9))
        # Nothing is fed here: what would be fed is kept, of a known length.
        text = text.replace("?x3", "4x3").replace("{data, stop_gradient}", "{persistable}")
        for _ in range(drawn.randint(1, 3)):
            text = _faulty(text, drawn)
        try:
            lower(read_program(text, file="faulty.ngir"))
        except UserError as refused:
            assert refused.diagnostics[0].location.known, f"{seed}: {refused}\n{text}"
