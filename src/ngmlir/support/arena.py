# SPDX-License-Identifier: Apache-2.0
"""Where the temporaries of a program lie in one arena."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .occupied import Occupied
from .target import Target

#: Buffers after which the places in a way of the cache come around.
_SPREAD = 7


class Part(NamedTuple):
    """A buffer of so many bytes, which is needed from step `first` to step `last`."""

    bytes: int
    first: int
    last: int


def spacing(target: Target) -> tuple[int, int]:
    """To what parts are aligned, and the bytes of a way of the nearest cache where buffers are kept apart in it (else 0)."""
    return target.alignment, 0 if target.shares_tiles else target.l1_bytes // target.l1_ways


def room(size: int, alignment: int, way: int) -> int:
    """What a buffer takes of the arena.

    After one of whole ways of the nearest cache some lines stay free: else the same place of many buffers, which kernels
    meet at once, would lie in the same few sets of it.
    """
    size = -(-size // alignment) * alignment
    return size + way // _SPREAD // alignment * alignment if way and size % way == 0 else size


def place(parts: Sequence[Part], alignment: int, way: int) -> tuple[list[int], int]:
    """Offsets in one arena, and its size: the largest buffer first, each into the tightest gap among those alive with it."""
    numbers = {time: i for i, time in enumerate(sorted({t for p in parts for t in (p.first, p.last)}))}
    occupied = Occupied(len(numbers))
    offsets, end = [0] * len(parts), 0
    for which in sorted(range(len(parts)), key=lambda i: (-parts[i].bytes, parts[i].first, parts[i].last)):
        part = parts[which]
        size = room(part.bytes, alignment, way)
        first, last = numbers[part.first], numbers[part.last]
        best, best_gap, at = -1, 1 << 62, 0
        for start, stop in occupied.taken(first, last):
            if size <= start - at < best_gap:
                best, best_gap = at, start - at
            at = max(at, stop)
        offsets[which] = best if best >= 0 else at
        end = max(end, offsets[which] + size)
        if size:
            occupied.take(first, last, offsets[which], offsets[which] + size)
    return offsets, end
