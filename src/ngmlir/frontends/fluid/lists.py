# SPDX-License-Identifier: Apache-2.0
"""Arguments that are one value or a list of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ...support.diagnostics import UserError


def listed(given: Any) -> list[Any]:
    """A list or tuple as a list; anything else as a list of one."""
    return list(cast("Sequence[Any]", given)) if isinstance(given, (list, tuple)) else [given]


def exactly(values: Any, dtype: Any, of: str) -> np.ndarray[Any, Any]:
    """Lists or arrays as an array of an element type; UserError where an integer type does not have one of the numbers."""
    given: np.ndarray[Any, Any] = np.asarray(values)
    with np.errstate(invalid="ignore"):
        array = given.astype(dtype, copy=False)
    if array.dtype.kind in "iub" and given.size and not np.array_equal(array, given):
        wrong = given[array != given].flat[0]
        raise UserError(
            f"{of} holds {array.dtype}, and is given {wrong}",
            hint="an integer that the element type has, or a variable of another one",
        )
    return array
