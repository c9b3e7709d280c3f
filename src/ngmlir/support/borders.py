# SPDX-License-Identifier: Apache-2.0
"""Padding of an axis with elements of its own: how much is possible, and which elements these are."""

from __future__ import annotations

from typing import Any, Literal, cast, get_args

import numpy as np

Border = Literal["edge", "reflect", "symmetric", "wrap"]
#: The modes, and how many elements of an axis the longest padding of each leaves out; None where it is of any length.
_UNUSED = {"edge": None, "reflect": 1, "symmetric": 0, "wrap": 0}
MODES: frozenset[Border] = frozenset(get_args(Border))


def has_room(border: str, size: int, low: int, high: int) -> bool:
    """Whether one `ng.border_pad` pads an axis so: nothing is taken away, and each element is there at most once on each side."""
    if low < 0 or high < 0:
        return False
    unused = _UNUSED[border]
    fits = size > 0 if unused is None else low <= size - unused and high <= size - unused
    return not (low or high) or fits


def positions(border: str, size: int, low: int, high: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The position in an axis of `size` elements of each element of the padded one."""
    return np.pad(np.arange(size), (low, high), cast("Any", border))


def repeats_ends(border: str) -> int:
    """1 if the elements next to the border come twice, in a mode of reversed elements; else 0."""
    return 1 if border == "symmetric" else 0


def beyond(border: str, size: int, after: bool) -> tuple[int, int]:
    """Which element is at a position before or after the axis, as an affine function of it: its factor and its offset."""
    if border == "edge":
        return 0, size - 1 if after else 0
    if border == "wrap":
        return 1, -size if after else size
    return -1, size + size - 2 + repeats_ends(border) if after else -repeats_ends(border)
