# SPDX-License-Identifier: Apache-2.0
"""Lengths that a program is compiled with to be right for all."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, islice, product
from math import gcd

from .expressions import SEVERAL, NeedsLength
from .lengths import Guard

#: How far other lengths are from given ones: in this order, the same for all lengths at first.
_FACTORS = (3.0, 1.7, 1.2, 0.5, 0.3, 0.8)
_MOST_TRIES = 1000


def unlike_sizes(lengths: Mapping[str, int]) -> dict[str, int]:
    """About these lengths, as numbers that no other size has by chance: primes from 17 on, a different one for each, times the power of
    two that divides the length, since halves of it may be asked for."""
    found: dict[str, int] = {}
    for name, length in lengths.items():
        found[name] = _near(max(17, length), power_of_two_in(length), found.values())
    return found


def other_lengths(lengths: Mapping[str, int], guards: Sequence[Guard]) -> dict[str, int]:
    """Other such numbers for which the guards hold too, as far from these as they allow. NeedsLength where there are none."""
    broken: list[Guard] = []
    alike = [[factor] * len(lengths) for factor in _FACTORS]
    for factors in chain(alike, islice(product(_FACTORS, repeat=len(lengths)), _MOST_TRIES)):
        found: dict[str, int] = {}
        for (name, length), factor in zip(lengths.items(), factors, strict=True):
            taken = {*found.values(), *lengths.values()}
            found[name] = _near(max(SEVERAL, int(length * factor)), power_of_two_in(length), taken)
        broken = [guard for guard in guards if not guard.holds(found)]
        if not broken:
            return found
    raise NeedsLength(f"whether {broken[0]}")


def power_of_two_in(length: int) -> int:
    """The power of two that divides a length, up to the strides of networks that halve images again and again."""
    return gcd(length, 64)


def _near(length: int, times: int, taken: Collection[int]) -> int:
    """The least product of `times` and a prime, from about a length on, that is not taken."""
    return next(times * n for n in _primes_from(-(-length // times)) if times * n not in taken)


def _primes_from(least: int) -> Iterator[int]:
    n = max(2, least)
    while True:
        if all(n % d for d in range(2, int(n**0.5) + 1)):
            yield n
        n += 1
