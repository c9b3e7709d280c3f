# SPDX-License-Identifier: Apache-2.0
"""Placement of the temporaries of a program in one arena."""

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
    """The alignment of parts, and the bytes of a way of the L1 cache if buffers are offset to different sets of it (else 0)."""
    return target.alignment, 0 if target.has_thread_blocks else target.l1_bytes // target.l1_ways


def padded_bytes(size: int, alignment: int, way: int) -> int:
    """The bytes that a buffer takes in the arena.

    A buffer of whole ways of the L1 cache is padded by some lines. Otherwise equal offsets in many buffers, which kernels access
    together, would map to the same few sets.
    """
    size = -(-size // alignment) * alignment
    return size + way // _SPREAD // alignment * alignment if way and size % way == 0 else size


def assign_offsets(parts: Sequence[Part], alignment: int, way: int) -> tuple[list[int], int]:
    """Offsets in one arena, and its size: the largest buffer first, each into the tightest gap among those alive with it."""
    numbers = {time: i for i, time in enumerate(sorted({t for p in parts for t in (p.first, p.last)}))}
    occupied = Occupied(len(numbers))
    offsets, end = [0] * len(parts), 0
    for which in sorted(range(len(parts)), key=lambda i: (-parts[i].bytes, parts[i].first, parts[i].last)):
        part = parts[which]
        size = padded_bytes(part.bytes, alignment, way)
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
