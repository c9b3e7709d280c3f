# SPDX-License-Identifier: Apache-2.0
"""Which bytes of the arena are taken at which times: a tree over time whose nodes hold unions of byte ranges.

A segment tree (J. L. Bentley, "Solutions to Klee's rectangle problems", 1977). What is taken during a span of
time is a union of few ranges even where many buffers live, since the arena is densely filled; so finding a gap
takes about the logarithm of the number of buffers, not the number.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator


class Ranges:
    """A union of ranges [start, stop), kept as few disjoint ones in order."""

    __slots__ = ("starts", "stops")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.stops: list[int] = []

    def add(self, start: int, stop: int) -> None:
        # All ranges that touch the new one become one with it.
        first = bisect_left(self.stops, start)
        last = bisect_right(self.starts, stop)
        if first < last:
            start, stop = min(start, self.starts[first]), max(stop, self.stops[last - 1])
        self.starts[first:last] = [start]
        self.stops[first:last] = [stop]


class Occupied:
    """The bytes taken at `times` points in time."""

    def __init__(self, times: int):
        self.leaves = 1 << max(0, (times - 1).bit_length())
        #: Of each node: what is taken during all of its span, and what is taken at some time in it.
        self.whole: list[Ranges | None] = [None] * (2 * self.leaves)
        self.some: list[Ranges | None] = [None] * (2 * self.leaves)

    def take(self, first: int, last: int, start: int, stop: int) -> None:
        """Takes bytes [start, stop) at the times `first` to `last`."""
        above: set[int] = set()
        for node in self._nodes(first, last):
            _of(self.whole, node).add(start, stop)
            while node:
                above.add(node)
                node >>= 1
        for node in above:
            _of(self.some, node).add(start, stop)

    def taken(self, first: int, last: int) -> list[tuple[int, int]]:
        """The ranges taken at some time from `first` to `last`, in order of their starts (they may overlap)."""
        found: list[tuple[int, int]] = []
        above: set[int] = set()
        for node in self._nodes(first, last):
            if (ranges := self.some[node]) is not None:
                found += zip(ranges.starts, ranges.stops, strict=True)
            node >>= 1
            while node and node not in above:
                above.add(node)
                node >>= 1
        for node in above:
            if (ranges := self.whole[node]) is not None:
                found += zip(ranges.starts, ranges.stops, strict=True)
        return sorted(found)

    def _nodes(self, first: int, last: int) -> Iterator[int]:
        """The fewest nodes whose spans make up the times `first` to `last`."""
        low, high = first + self.leaves, last + self.leaves + 1
        while low < high:
            if low & 1:
                yield low
                low += 1
            if high & 1:
                high -= 1
                yield high
            low, high = low >> 1, high >> 1


def _of(nodes: list[Ranges | None], node: int) -> Ranges:
    found = nodes[node]
    if found is None:
        found = nodes[node] = Ranges()
    return found
