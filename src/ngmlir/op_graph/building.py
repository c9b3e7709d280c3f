# SPDX-License-Identifier: Apache-2.0
"""Per-thread defaults of new ops: metadata, scope, and element types where none is given."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

from ..ir.types import Type, f32, i32
from .errors import UserError, fail


class Scope:
    """A place for ops, inside another or in none: the body of a loop or of a branch (`regions`)."""

    def __init__(self, outer: Scope | None):
        self.outer = outer
        self.writes: list[Any] = []

    @property
    def around(self) -> Iterator[Scope]:
        """This one, and those that it is inside of."""
        at: Scope | None = self
        while at is not None:
            yield at
            at = at.outer


def seen_from(scope: Scope | None, owner: Scope | None) -> bool:
    """Whether ops of `scope` can use those of `owner`: it is that one, or inside it; None is around all."""
    return owner is None or (scope is not None and owner in scope.around)


class Building(threading.local):
    """One per thread, so that a graph built elsewhere at the same time is not affected."""

    def __init__(self) -> None:
        self.metadata: dict[str, Any] = {}
        self.region: Scope | None = None
        self.names = ""
        self.float: Type = f32
        self.integer: Type = i32
        self.conditions: tuple[Any, ...] = ()  # of assignments; tensors


BUILDING = Building()


@contextmanager
def metadata(**values: Any) -> Generator[None]:
    """A context manager: ops created inside have these entries in their `metadata`."""
    outer = BUILDING.metadata
    BUILDING.metadata = {**outer, **values}
    try:
        yield
    finally:
        BUILDING.metadata = outer


@contextmanager
def assigning_where(condition: Any) -> Generator[None]:
    """Assignments made inside change storage where a condition, one truth value as a tensor, holds, and otherwise keep what it has.

    What is assigned is computed in either case. Unlike in a branch of `cond`, storage is updated in place.
    """
    outer = BUILDING.conditions
    BUILDING.conditions = (*outer, condition)
    try:
        yield
    finally:
        BUILDING.conditions = outer


class NameScope(str):
    """What names of a scope begin with, as `decoder/layer0`: `NameScope("layer0", parent)`."""

    __slots__ = ()

    def __new__(cls, name: str, parent: str = "") -> NameScope:
        if not isinstance(name, str) or not name or name != name.strip("/"):  # pyright: ignore[reportUnnecessaryIsInstance]
            fail(UserError, f"{name!r} is not the name of a scope", 'with ng.name_scope("encoder"):')
        return super().__new__(cls, f"{parent}/{name}" if parent else name)

    @classmethod
    def current(cls) -> NameScope | None:
        """The scope that names are given in now; None outside of all."""
        return cls(BUILDING.names) if BUILDING.names else None

    @property
    def parent(self) -> NameScope | None:
        """The scope that this one is in."""
        outer = self.rpartition("/")[0]
        return NameScope(outer) if outer else None

    @property
    def short_name(self) -> str:
        """The last part of the name."""
        return self.rpartition("/")[2]


@contextmanager
def name_scope(name: str) -> Generator[NameScope]:
    """Names given inside begin with `name/`, so that a model that is built twice has two sets of names.

    Gives the whole scope, as `decoder/layer0` of a scope inside another; `with ng.name_scope(scope):` enters such a one again,
    wherever that is. Raises UserError for what is no name.
    """
    scope = name if isinstance(name, NameScope) else NameScope(name, BUILDING.names)
    outer = BUILDING.names
    BUILDING.names = scope
    try:
        yield scope
    finally:
        BUILDING.names = outer
