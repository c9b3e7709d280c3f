# SPDX-License-Identifier: Apache-2.0
"""Device memory of the simulator: one growing store, with gaps between allocations, poisoned when allocated."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

#: The first device address: far from zero, so that small integers are never valid addresses.
BASE = 0x7F00_0000_0000
#: The windows of the other state spaces in generic addresses.
SHARED_WINDOW = 0x0100_0000_0000
LOCAL_WINDOW = 0x0200_0000_0000
PARAM_WINDOW = 0x0300_0000_0000
WINDOW_BYTES = 0x0100_0000_0000

_ALIGNMENT = 256
_GAP = 256


@dataclass(frozen=True, slots=True)
class Region:
    """One allocation, as offsets into the store."""

    start: int
    end: int
    writable: bool = True


class DeviceMemory:
    """Allocates and frees memory; finds the region that contains an access."""

    def __init__(self, capacity: int = 1 << 24, fresh: int = 0xFF):
        self.fresh = fresh
        self.store = np.empty(capacity, np.uint8)
        self.starts: list[int] = []
        self.regions: list[Region] = []
        self.free_spans: list[tuple[int, int]] = []
        self.top = _ALIGNMENT
        self._views: dict[int, np.ndarray] = {}

    def allocate(self, size: int, writable: bool = True) -> int:
        """The address of `size` new bytes, which are `fresh` (0xFF: NaN) until written."""
        span = -(-max(size, 1) // _ALIGNMENT) * _ALIGNMENT + _GAP
        start = self._reuse(span)
        if start is None:
            start = self.top
            self.top += span
            if self.top > len(self.store):
                self._grow()
        self.store[start : start + size] = self.fresh
        position = bisect_right(self.starts, start)
        self.starts.insert(position, start)
        self.regions.insert(position, Region(start, start + size, writable))
        return BASE + start

    def _reuse(self, span: int) -> int | None:
        for index, (start, length) in enumerate(self.free_spans):
            if length >= span:
                rest = (start + span, length - span)
                self.free_spans[index : index + 1] = [rest] if rest[1] else []
                return start
        return None

    def _grow(self) -> None:
        larger = np.empty(max(2 * len(self.store), self.top), np.uint8)
        larger[: len(self.store)] = self.store
        self.store = larger
        self._views.clear()

    def free(self, address: int) -> None:
        position = bisect_right(self.starts, address - BASE) - 1
        if position < 0 or self.starts[position] != address - BASE:
            raise ValueError(f"address {address:#x} was not allocated")
        region = self.regions.pop(position)
        self.starts.pop(position)
        span = -(-max(region.end - region.start, 1) // _ALIGNMENT) * _ALIGNMENT + _GAP
        self._release(region.start, span)

    def _release(self, start: int, length: int) -> None:
        """Merges the span with free neighbours, so that a long run does not fragment the store."""
        spans = sorted([*self.free_spans, (start, length)])
        merged: list[tuple[int, int]] = []
        for begin, size in spans:
            if merged and sum(merged[-1]) == begin:
                merged[-1] = (merged[-1][0], merged[-1][1] + size)
            else:
                merged.append((begin, size))
        self.free_spans = merged

    def bytes_at(self, address: int, size: int) -> np.ndarray:
        """The `size` bytes at `address`, as a view; they must be within one allocation."""
        start = address - BASE
        region = self.find(start)
        if region is None or start + size > region.end:
            raise ValueError(f"{size} bytes at {address:#x} are not within one allocation")
        return self.store[start : start + size]

    def find(self, offset: int) -> Region | None:
        """The region that contains byte `offset` of the store."""
        position = bisect_right(self.starts, offset) - 1
        if position < 0 or offset >= self.regions[position].end:
            return None
        return self.regions[position]

    def words(self, item: int) -> np.ndarray:
        """The whole store as unsigned integers of `item` bytes."""
        view = self._views.get(item)
        if view is None:
            usable = len(self.store) // 16 * 16
            view = self.store[:usable].view(f"u{item}" if item < 16 else "c16")
            self._views[item] = view
        return view

    def outside(self, offsets: np.ndarray, size: int) -> np.ndarray:
        """Which accesses of `size` bytes are not within one allocation."""
        starts = np.array(self.starts, np.int64)
        ends = np.array([region.end for region in self.regions], np.int64)
        position = np.searchsorted(starts, offsets, "right") - 1
        return (position < 0) | (offsets + size > ends[np.maximum(position, 0)])
