# SPDX-License-Identifier: Apache-2.0
"""Padding of an axis with elements of its own: which element is where, in ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..support.borders import repeats_ends
from .ng import NgVerbs

V = TypeVar("V")


def place(verbs: NgVerbs[V], border: str, at: V, size: Any, number: Callable[[Any], V]) -> V:
    """The element at a position, which is counted from the first element of the axis and may be beyond its ends.
    `number` makes a value like `at`; `size` may be a length that is not known yet."""
    zero, last = number(0), number(size - 1)
    if border == "edge":
        return verbs.minimum(verbs.maximum(at, zero), last)
    if border == "wrap":
        at = verbs.select(verbs.less(at, zero), verbs.add(at, number(size)), at)
        return verbs.select(verbs.greater(at, last), verbs.subtract(at, number(size)), at)
    again = repeats_ends(border)
    at = verbs.maximum(at, verbs.subtract(number(-again), at))
    return verbs.minimum(at, verbs.subtract(number(size + size - 2 + again), at))
