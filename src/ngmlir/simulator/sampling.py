# SPDX-License-Identifier: Apache-2.0
"""Selects blocks of a large launch to represent all, where only counts are wanted.

Blocks of one launch behave alike except at the borders of the data: the first and the last represent themselves, and
the others are represented by some that are distributed evenly between them. Their counts are multiplied by the number
of blocks that each represents.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

_GOLDEN = (5**0.5 - 1) / 2


def representatives(blocks: int, most: int) -> Iterator[tuple[np.ndarray, float]]:
    """Numbers of blocks, about `most` of `blocks`, and how many blocks each of them represents."""
    if blocks <= max(most, 3):
        yield np.arange(blocks), 1.0
        return
    yield np.array([0, blocks - 1]), 1.0
    # In steps of the golden ratio, which is no multiple of a stride of the grid, so that borders of rows and columns
    # are sampled as often as they occur.
    places = np.arange(1, max(1, most - 2) + 1) * _GOLDEN % 1.0
    chosen = np.unique(1 + (places * (blocks - 2)).astype(np.int64))
    yield chosen, (blocks - 2) / len(chosen)
