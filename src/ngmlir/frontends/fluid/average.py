# SPDX-License-Identifier: Apache-2.0
"""The weighted mean of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...support.diagnostics import UserError


class WeightedAverage:
    """Adds up numbers (or arrays) with weights; `eval` gives their mean."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Resets the average."""
        self.numerator: Any = None
        self.denominator: Any = None

    def add(self, value: Any, weight: float) -> None:
        """Adds a value with its weight, a number."""
        if not isinstance(weight, (int, float, np.number)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError(f"a weight is a number, not {weight!r}")
        added: np.ndarray[Any, Any] = np.multiply(value, weight)
        self.numerator = added if self.numerator is None else self.numerator + added
        self.denominator = weight if self.denominator is None else self.denominator + weight

    def eval(self) -> Any:
        """The mean so far. ValueError before the first value."""
        if self.denominator is None:
            raise UserError("there is no average of nothing", hint="add a value before eval")
        return self.numerator / self.denominator
