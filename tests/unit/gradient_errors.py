# SPDX-License-Identifier: Apache-2.0
"""How far the gradients of operators were from what they were compared with, for `bench/operator_gradients.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

#: By operator, order of the derivative and target: the greatest error, by the greatest element or by 1 where that is less.
ERRORS: dict[tuple[str, int, str], float] = {}


def noted(type: str, order: int, target: str, found: Any, wanted: Any) -> float:
    """The error of a gradient."""
    greatest = max(1.0, float(np.abs(wanted).max(initial=0)))
    error = float(np.abs(found - wanted).max(initial=0)) / greatest
    key = type, order, target
    ERRORS[key] = max(ERRORS.get(key, 0.0), error)
    return error
