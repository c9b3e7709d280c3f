# SPDX-License-Identifier: Apache-2.0
"""Which blocks of a large launch stand for all, where only counts are wanted.

Blocks of one launch are alike up to the borders of what they compute: the first and the last stand for themselves, and the
others are represented by some that lie evenly between them. What those ask for is multiplied by how many each stands for.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

_GOLDEN = (5**0.5 - 1) / 2


def representatives(blocks: int, most: int) -> Iterator[tuple[np.ndarray, float]]:
    """Numbers of blocks, no more than about `most` of `blocks`, and how many each of them stands for."""
    if blocks <= max(most, 3):
        yield np.arange(blocks), 1.0
        return
    yield np.array([0, blocks - 1]), 1.0
    # In steps that no stride of a grid is a multiple of, so that borders of rows and columns are met as often as they are.
    places = np.arange(1, max(1, most - 2) + 1) * _GOLDEN % 1.0
    chosen = np.unique(1 + (places * (blocks - 2)).astype(np.int64))
    yield chosen, (blocks - 2) / len(chosen)
