# SPDX-License-Identifier: Apache-2.0
"""Planted bugs (mutants.py): each is found in the plain order of threads, and a share of them in random ones too."""

from __future__ import annotations

import pytest
from mutants import GENERATED, MUTANTS, Mutant, Patch, line, original, outcome, table

from ngmlir.simulator.fault import SimulationFault

#: The share whose every schedule is run; the whole by `python tests/unit/simulator/mutants.py`.
SHARE = 6
PROGRAMS = sorted({mutant.program for mutant in MUTANTS})


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_programs_are_right(program: str) -> None:
    ptx, run = original(program)
    assert all(run(ptx, seed) for seed in (None, 0, 1))


@pytest.mark.parametrize("program", PROGRAMS)
def test_planted_bugs_are_found_as_the_page_says(program: str) -> None:
    found = dict(zip(MUTANTS, table(), strict=True))
    for mutant in MUTANTS:
        if mutant.program != program or isinstance(mutant, Patch):  # those compile anew: a share is enough
            continue
        try:
            result = "missed" if original(program)[1](mutant.ptx(), None) else "wrong value"
        except SimulationFault as fault:
            result = fault.kind
        assert result in found[mutant], line(mutant, result)


@pytest.mark.parametrize("mutant", MUTANTS[::SHARE], ids=lambda m: f"{m.program}: {m.bug}")
def test_a_share_under_every_schedule(mutant: Mutant | Patch) -> None:
    assert line(mutant, outcome(mutant)) in table()


def test_the_page_is_of_these_bugs() -> None:
    assert [row.rpartition(" | ")[0] for row in table()] == [
        line(m, "").rpartition(" | ")[0] for m in MUTANTS
    ]
    assert len(MUTANTS) >= 60 and not any(row.endswith("| missed |") for row in table())
    assert set(GENERATED) <= set(PROGRAMS)
