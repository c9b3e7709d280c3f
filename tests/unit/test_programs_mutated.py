# SPDX-License-Identifier: Apache-2.0
"""Texts of programs with a few random faults: each is read and lowered, or refused with a place, and never a traceback."""

from __future__ import annotations

import random

import pytest
from program_texts import random_program
from test_fuzzed_text import damage, replaced

from ngmlir.programs.lower import lower
from ngmlir.programs.text import program_text, read_program
from ngmlir.support.diagnostics import UserError


@pytest.mark.parametrize("start", range(0, 1000, 250))
def test_a_faulty_text_is_refused_with_a_place(start: int) -> None:
    for seed in range(start, start + 250):
        drawn = random.Random(seed)
        text = program_text(random_program(seed % 200, 3 + seed % 9))
        # Nothing is fed here: what would be fed is kept, of a known length.
        text = text.replace("?x3", "4x3").replace("{data, stop_gradient}", "{persistable}")
        for _ in range(drawn.randint(1, 3)):
            text = (replaced if seed % 2 else damage)(text, drawn)
        try:
            lower(read_program(text, file="faulty.ngir"))
        except UserError as refused:
            assert refused.diagnostics[0].location.known, f"{seed}: {refused}\n{text}"
