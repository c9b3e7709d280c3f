# SPDX-License-Identifier: Apache-2.0
"""Functions that users hand over: checked where they are handed over, not where they would fail."""

from __future__ import annotations

import inspect
from typing import Any

from .errors import UserError, fail


def takes(function: Any, count: int, what: str) -> None:
    """UserError unless `function` can be called with `count` values by position."""
    if not callable(function):
        fail(UserError, f"{what} is {function!r}, not a function", "write `lambda: ...` around a value")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # some of C's functions do not tell
    try:
        signature.bind(*range(count))
    except TypeError as error:
        fail(UserError, f"{what} is called with {count} value{'s' * (count != 1)}: {error}")
