# SPDX-License-Identifier: Apache-2.0
"""Arrays in messages: the position of a NaN or an infinity, and short descriptions."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def nonfinite_place(value: Array, nan: bool = True, infinity: bool = True) -> tuple[int, ...] | None:
    """The index of the first NaN or infinity; None if there is none."""
    if value.dtype.kind in "biu":
        return None
    wrong = np.zeros(value.shape, np.bool_)
    if nan:
        wrong |= np.isnan(value)
    if infinity:
        wrong |= np.isinf(value)
    if not wrong.any():
        return None
    return tuple(int(i) for i in np.argwhere(wrong)[0])


def summary(value: Array) -> str:
    """`float32[3, 4]`, or the numbers themselves if there are few."""
    if value.size <= 4:
        return str(value.tolist())
    return f"{value.dtype}[{', '.join(map(str, value.shape))}]"
