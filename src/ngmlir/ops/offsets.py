# SPDX-License-Identifier: Apache-2.0
"""Offsets divide rows into segments: segment s is the rows from offsets[s] to offsets[s + 1]."""

from __future__ import annotations

from typing import Any

import numpy as np

#: The hint of errors: how offsets are made.
OFFSETS_HINT = "offsets are np.cumsum([0, *lengths]) of the lengths of all segments"


def wrong_offsets(offsets: np.ndarray[Any, Any], rows: int | None = None, of: str = "rows") -> str:
    """The error in offsets, as the end of a sentence about them, if there is one: they begin with 0, never fall, and end with the number
    of rows if that is given. `of` is the word for rows."""
    if offsets.ndim != 1 or not offsets.size or offsets[0] != 0:
        return f"begin with {offsets.flat[0] if offsets.size else 'nothing'}, not with 0"
    falls = np.flatnonzero(offsets[1:] < offsets[:-1])
    if falls.size:
        at = int(falls[0])
        return f"fall from {offsets[at]} to {offsets[at + 1]} at position {at + 1}"
    if rows is not None and offsets[-1] != rows:
        return f"end with {offsets[-1]}, and there are {rows} {of}"
    return ""
