# SPDX-License-Identifier: Apache-2.0
"""Functions and lists that users hand over: checked where they are handed over, not where they would fail."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from ..support.spelling import counted
from .errors import UserError, fail
from .node import Op

T = TypeVar("T")


def listed(values: Iterable[T], kind: str) -> list[T]:
    """The values of a list, or of any other iterable; UserError for one that is none."""
    if isinstance(values, (Op, str)) or not isinstance(values, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        fail(UserError, f"expected a list of {kind}, not {values!r}", "use [x] for a single one")
    return [*values]


def takes(function: Any, count: int, what: str) -> None:
    """UserError unless `function` can be called with `count` values by position."""
    if not callable(function):
        fail(UserError, f"{what} is {function!r}, not a function", "wrap a value in `lambda: ...`")
    if wrong := mismatch(function, range(count), {}):
        fail(UserError, f"{what} is called with {counted(count, 'value')}: {wrong}")


def takes_named(function: Any, named: Mapping[str, Any], what: str) -> None:
    """UserError unless `function` can be called with these arguments by name."""
    if wrong := mismatch(function, (), named):
        fail(UserError, f"{what} cannot be made with {', '.join(named) or 'no arguments'}: {wrong}")


def mismatch(function: Any, values: Iterable[Any], named: Mapping[str, Any]) -> str:
    """Why a function cannot be called with these values by position and by name; empty where it can."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return ""  # some of C's functions do not tell
    try:
        signature.bind(*values, **named)
    except TypeError as error:
        return str(error)
    return ""
