# SPDX-License-Identifier: Apache-2.0
"""A set that keeps the order in which its members came, so that the same program is built the same way twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSet
from typing import Generic, TypeVar

T = TypeVar("T")


class OrderedSet(MutableSet[T], Generic[T]):
    """Members in order of insertion; compared as a set, or with another OrderedSet in order."""

    __slots__ = ("_members",)

    def __init__(self, members: Iterable[T] = ()):
        self._members: dict[T, None] = dict.fromkeys(members)

    def __contains__(self, member: object) -> bool:
        return member in self._members

    def __iter__(self) -> Iterator[T]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def add(self, value: T) -> None:
        self._members[value] = None

    def discard(self, value: T) -> None:
        self._members.pop(value, None)

    def update(self, members: Iterable[T]) -> None:
        for member in members:
            self._members[member] = None

    def pop(self, index: int = -1) -> T:
        """Removes and gives the last member (or another by its place)."""
        member = list(self._members)[index]
        del self._members[member]
        return member

    def copy(self) -> OrderedSet[T]:
        return OrderedSet(self._members)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, OrderedSet):
            return [*self] == [*other]
        return isinstance(other, (set, frozenset)) and set(self._members) == other

    __hash__ = None

    def __repr__(self) -> str:
        return "{" + ", ".join(map(repr, self._members)) + "}"
