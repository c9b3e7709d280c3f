# SPDX-License-Identifier: Apache-2.0
"""Merging neighbours, the best pair first, until no pair is left that may be merged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush

#: How early two neighbours are merged (the least number first); None: never.
Rank = Callable[[str, str], float | None]


def merged(parts: Sequence[str], rank: Rank) -> list[str]:
    """Parts after all merges; of pairs of one rank the leftmost is merged first."""
    pieces = [*parts]
    count = len(pieces)
    before, after = [*range(-1, count - 1)], [*range(1, count + 1)]
    waiting: list[tuple[float, int, int, str]] = []

    def note(left: int, right: int) -> None:
        if left >= 0 and right < count:
            found = rank(pieces[left], pieces[right])
            if found is not None:
                heappush(waiting, (found, left, right, pieces[left] + pieces[right]))

    for i in range(count - 1):
        note(i, i + 1)
    alive = [True] * count
    while waiting:
        _, left, right, joined = heappop(waiting)
        # Either may have become longer or have gone meanwhile.
        if (
            not alive[left]
            or not alive[right]
            or pieces[left] + pieces[right] != joined
            or after[left] != right
        ):
            continue
        pieces[left], alive[right] = joined, False
        after[left] = after[right]
        if after[right] < count:
            before[after[right]] = left
        note(before[left], left)
        note(left, after[left])
    return [piece for piece, there in zip(pieces, alive, strict=True) if there]
