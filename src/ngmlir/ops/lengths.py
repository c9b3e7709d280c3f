# SPDX-License-Identifier: Apache-2.0
"""Lengths that may not be known yet: numbers that depend on others, and are evaluated when a program is made.

A graph is built once, and programs are made of it for every length of its axes. So numbers in a graph that depend on
lengths (where a slice ends, how much is padded) are kept as expressions.
"""

from __future__ import annotations

import itertools
import math
import operator
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol


class Long(Protocol):
    """An object with a length: an axis, or a `Length`."""

    @property
    def length(self) -> int | None: ...


#: A length: a number, or an object with one.
Size = int | Long

_SERIAL = itertools.count(1)


class _Reading(threading.local):
    """By thread: the lengths that replace those of axes, while a program is made for them."""

    def __init__(self) -> None:
        self.given: Mapping[int, int] | None = None


READING = _Reading()


class Changes:
    """A serial number that changes whenever a length is set anywhere: cached values are then invalid."""

    serial = 0

    @classmethod
    def note(cls) -> None:
        cls.serial = next(_SERIAL)


@contextmanager
def reading(lengths: Mapping[int, int]) -> Generator[None]:
    """In the context, the axes with these `id`s have these lengths (for this thread)."""
    outer = READING.given
    READING.given = lengths
    try:
        yield
    finally:
        READING.given = outer


class Length:
    """A length that depends on others; None while one of them is not known."""

    __slots__ = ("_found", "function", "parts")

    def __init__(self, function: Callable[..., int], *parts: Size):
        self.function = function
        self.parts = parts
        #: The cached value, with the change and the given lengths for which it is valid: one tuple, since threads read it.
        self._found: tuple[int, Mapping[int, int] | None, int | None] = (-1, None, None)

    @property
    def length(self) -> int | None:
        # Cached, so that a chain of a thousand lengths, each depending on the one before, takes linear time.
        change, given, known = self._found
        if change != Changes.serial or given is not READING.given:
            change, given = Changes.serial, READING.given
            parts = [part if isinstance(part, int) else part.length for part in self.parts]
            known = None if None in parts else self.function(*parts)
            self._found = change, given, known
        return known

    def __add__(self, other: Size) -> Any:
        return self if other == 0 else Length(operator.add, self, other)

    __radd__ = __add__

    def __sub__(self, other: Size) -> Any:
        return self if other == 0 else Length(operator.sub, self, other)

    def __rsub__(self, other: Size) -> Any:
        return Length(operator.sub, other, self)

    def __mul__(self, other: Size) -> Any:
        return Length(operator.mul, self, other)

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"Length({'?' if self.length is None else self.length})"


def derived(function: Callable[..., int], *parts: Size) -> Any:
    """`function` of the numbers; a Length if one of them may still change."""
    return function(*parts) if all(isinstance(part, int) for part in parts) else Length(function, *parts)


def same(length: int) -> int:
    """The identity: a length that equals another one."""
    return length


def product(*lengths: int) -> int:
    """The number of elements of a shape."""
    return math.prod(lengths)


def total(*lengths: int) -> int:
    """The length of a concatenation."""
    return sum(lengths)


#: Functions whose results differ for different lengths. Equal results of other functions do not imply equal lengths: where a slice
#: ends is the lesser of a number and a length.
INCREASING = frozenset((same, product, total, operator.add, operator.mul))
