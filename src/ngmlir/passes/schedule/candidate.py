# SPDX-License-Identifier: Apache-2.0
"""What is compared when a schedule is chosen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar

from ...ops.settings import Given, Schedule

S_co = TypeVar("S_co", bound=Schedule, covariant=True)


class Candidate(NamedTuple, Generic[S_co]):
    """A schedule, the cycles that it is predicted to take on one core (or one block at a time); the least that any could
    take, for the core's arithmetic, loads and stores; what decides between those that take about as many cycles: loads, or
    the length of the code; and what is to be said of it."""

    schedule: S_co
    cycles: float
    roof: float
    price: float = 0.0
    warning: str = ""


def ranked(candidates: Iterable[Candidate[S_co]], alike: float) -> list[Candidate[S_co]]:
    """The best first: of those whose cycles are within a factor of `alike` of the fewest the one of the least price, then
    all others by their cycles."""
    found = sorted(candidates, key=lambda c: (c.cycles, c.price))
    near = [c for c in found if c.cycles <= found[0].cycles * alike]
    best = min(near, key=lambda c: c.price)
    return [best, *[c for c in found if c is not best]]


def spilled(needed: int, there: int, kind: str) -> str:
    """What is said of a kernel that needs more registers than there are; nothing of one that does not."""
    return f"needs {needed} {kind}, {there} are there, and spills" if needed > there else ""


def tile_sizes(given: Given, wanted: Iterable[int]) -> list[int]:
    """The sizes of a tile to try: those wanted, or the one that is given."""
    return [fixed(given, "tile", 0)] if "tile" in given else list(wanted)


def fixed(given: Given, name: str, wanted: int) -> int:
    """A number that is given, or else what is wanted."""
    setting = given.get(name, wanted)
    assert isinstance(setting, int)
    return setting


def fixed_pair(given: Given, name: str) -> tuple[int, int] | None:
    """A pair of numbers, where it is given."""
    setting = given.get(name)
    if not isinstance(setting, tuple):
        return None
    first, second = setting
    assert isinstance(first, int) and isinstance(second, int)
    return first, second


def fixed_words(given: Given, name: str, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """Some words that are given, or else those wanted."""
    setting = given.get(name, wanted)
    assert isinstance(setting, tuple)
    return tuple([str(word) for word in setting])
