# SPDX-License-Identifier: Apache-2.0
"""Arguments that are one value or a list of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ...support.arrays import misfit, misfit_text
from ...support.diagnostics import UserError


def listed(given: Any) -> list[Any]:
    """A list or tuple as a list; anything else as a list of one."""
    return list(cast("Sequence[Any]", given)) if isinstance(given, (list, tuple)) else [given]


def exactly(values: Any, dtype: Any, of: str) -> np.ndarray[Any, Any]:
    """Lists or arrays as an array of an element type; UserError where an integer type does not have one of the numbers."""
    given: np.ndarray[Any, Any] = np.asarray(values)
    if (wrong := misfit(given, np.dtype(dtype))) is not None:
        raise UserError(
            f"{of} holds {np.dtype(dtype)}, and is given {misfit_text(*wrong)}",
            hint="an integer that the element type has, or a variable of another one",
        )
    with np.errstate(invalid="ignore"):
        return given.astype(dtype, copy=False)
