# SPDX-License-Identifier: Apache-2.0
"""Sequences packed into lanes, one after the other, so that a loop over steps goes over few places that hold no row. `programs.lanes` packs
by ops, for offsets that a program computes; which steps are tried, and which of them are taken, is said here for both."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: How many steps are tried, in quarters of the longest sequence.
QUARTERS = (4, 5, 6, 8)
#: There are as many lanes at least: without any, a program would be compiled separately (docs/ragged.md).
LEAST_LANES = 1
#: A step takes as long as so many rows, whatever its own are.
_ROWS_OF_A_STEP = 4


def steps_tried(longest: Any, quarters: Any) -> Any:
    """How many steps are tried; of numbers, arrays or tensors."""
    return (longest * quarters + 3) // 4


def work(steps: Any, lanes: Any) -> Any:
    """What a loop over so many steps and lanes takes, in rows; of numbers, arrays or tensors."""
    return steps * (lanes + _ROWS_OF_A_STEP)


def rows_of_lanes(offsets: Array) -> Array:
    """i32: the row at each step and lane, the number of all rows where there is none.

    The steps are at least those of the longest sequence, and at most twice as many: those of the least work.
    """
    lengths: list[int] = np.diff(offsets).tolist()
    longest = max(lengths, default=0)
    tried = sorted({steps_tried(longest, quarters) for quarters in QUARTERS})
    packed = [(steps, *_packed(lengths, steps)) for steps in tried]
    steps, count, cells = min(packed, key=lambda each: work(*each[:2]))
    made = np.full([steps * count], offsets[-1], np.int32)
    for begin, length, (lane, first) in zip(offsets.tolist(), lengths, cells, strict=False):
        at = first * count + lane
        made[at : at + length * count : count] = np.arange(begin, begin + length)
    return made.reshape(steps, count)


def _packed(lengths: list[int], steps: int) -> tuple[int, list[tuple[int, int]]]:
    """How many lanes of so many steps there are, and the lane and the first step of each sequence: the longest first, each in the lane
    that it fills best."""
    left: list[tuple[int, int]] = []
    cells = [(0, 0)] * len(lengths)
    count = 0
    for number in sorted(range(len(lengths)), key=lambda at: -lengths[at]):
        length = lengths[number]
        if not length:
            break
        at = bisect_left(left, (length, 0))
        if at < len(left):
            room, lane = left.pop(at)
        else:
            room, lane, count = steps, count, count + 1
        cells[number] = lane, steps - room
        insort(left, (room - length, lane))
    return max(count, LEAST_LANES), cells
