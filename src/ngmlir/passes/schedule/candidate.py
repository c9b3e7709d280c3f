# SPDX-License-Identifier: Apache-2.0
"""Candidates for the schedule of a fusion, with their predicted cost."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar

from ...ops.settings import Given, Schedule

S_co = TypeVar("S_co", bound=Schedule, covariant=True)


class Candidate(NamedTuple, Generic[S_co]):
    """A schedule, and the cycles that it is predicted to take on one core (or one block at a time). `roof` are the least cycles of any
    schedule, given the core's arithmetic, loads and stores; `price` decides between those of about as many cycles: loads, or the
    length of the code; `warning` is for remarks."""

    schedule: S_co
    cycles: float
    roof: float
    price: float = 0.0
    warning: str = ""


def ranked(candidates: Iterable[Candidate[S_co]], alike: float) -> list[Candidate[S_co]]:
    """The candidates, best first: of those whose cycles are within a factor of `alike` of the fewest that of the least price, then
    all others by their cycles."""
    found = sorted(candidates, key=lambda c: (c.cycles, c.price))
    near = [c for c in found if c.cycles <= found[0].cycles * alike]
    best = min(near, key=lambda c: c.price)
    return [best, *[c for c in found if c is not best]]


def spilled(needed: int, there: int, kind: str) -> str:
    """The warning for a kernel that needs more registers than there are; '' for others."""
    return f"needs {needed} {kind}, {there} are there, and spills" if needed > there else ""


def tile_sizes(given: Given, wanted: Iterable[int]) -> list[int]:
    """The sizes of a tile to try: those wanted, or the given one."""
    return [fixed(given, "tile", 0)] if "tile" in given else list(wanted)


def fixed(given: Given, name: str, wanted: int) -> int:
    """The given number, or else the wanted one."""
    setting = given.get(name, wanted)
    assert isinstance(setting, int)
    return setting


def fixed_pair(given: Given, name: str) -> tuple[int, int] | None:
    """The given pair of numbers, or None."""
    setting = given.get(name)
    if not isinstance(setting, tuple):
        return None
    first, second = setting
    assert isinstance(first, int) and isinstance(second, int)
    return first, second


def fixed_words(given: Given, name: str, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """The given words, or else those wanted."""
    setting = given.get(name, wanted)
    assert isinstance(setting, tuple)
    return tuple([str(word) for word in setting])
