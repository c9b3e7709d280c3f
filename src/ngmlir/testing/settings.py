# SPDX-License-Identifier: Apache-2.0
"""How tests run: with which of NumPy's warnings as errors, and on which kind of transformer."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")


def with_error_settings(**settings: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: the function runs under `np.errstate(**settings)`, such as `divide="raise"`."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def settled(*args: P.args, **named: P.kwargs) -> R:
            with np.errstate(**settings):
                return function(*args, **named)

        return settled

    return decorate


def raise_all_numpy_errors(function: Callable[P, R]) -> Callable[P, R]:
    """A decorator: what NumPy would warn about in the function (a division by zero, an overflow, ...) is an error."""
    return with_error_settings(all="raise")(function)


def is_flex_factory(factory: Any) -> bool:
    """Whether a factory makes transformers of 16-bit fixed point, which need other tolerances: none here does."""
    return "flex" in getattr(factory, "name", "")
