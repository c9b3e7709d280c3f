# SPDX-License-Identifier: Apache-2.0
"""Lengths that may not be known yet: numbers that follow from others, and are read when a program is made.

A graph is built once, and programs are made of it for every length that its axes take. So what a graph says about
lengths (where a slice ends, how much is padded) is kept as the way to find it out.
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
    """What has a length: an axis, or a `Length`."""

    @property
    def length(self) -> int | None: ...


#: A length: a number, or what has one.
Size = int | Long

_SERIAL = itertools.count(1)


class _Reading(threading.local):
    """Of each thread: the lengths that stand in place of those set, while a program is made for them."""

    def __init__(self) -> None:
        self.given: Mapping[int, int] | None = None


READING = _Reading()


class Changes:
    """Moves on whenever a length is set anywhere: what was read before may not hold any more."""

    serial = 0

    @classmethod
    def note(cls) -> None:
        cls.serial = next(_SERIAL)


@contextmanager
def reading(lengths: Mapping[int, int]) -> Generator[None]:
    """Inside, the axes with these `id`s have these lengths (for this thread)."""
    outer = READING.given
    READING.given = lengths
    try:
        yield
    finally:
        READING.given = outer


class Length:
    """A length that follows from others; None while one of them is not known."""

    __slots__ = ("_found", "function", "parts")

    def __init__(self, function: Callable[..., int], *parts: Size):
        self.function = function
        self.parts = parts
        #: What was found last, after which change and where which lengths were given: one tuple, since threads read it.
        self._found: tuple[int, Mapping[int, int] | None, int | None] = (-1, None, None)

    @property
    def length(self) -> int | None:
        # Kept, so that one that follows from a thousand others, each from the one before, is found step by step.
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
    """`function` of the numbers; a Length where one of them may still change."""
    return function(*parts) if all(isinstance(part, int) for part in parts) else Length(function, *parts)


def same(length: int) -> int:
    """For a length that is another one."""
    return length


def product(*lengths: int) -> int:
    """How many elements there are."""
    return math.prod(lengths)


def total(*lengths: int) -> int:
    """How long things are, one after the other."""
    return sum(lengths)


#: Functions that give other numbers for other lengths. Two equal numbers of another function say nothing of a third: where a slice
#: ends is the lesser of a number and a length.
INCREASING = frozenset((same, product, total, operator.add, operator.mul))
