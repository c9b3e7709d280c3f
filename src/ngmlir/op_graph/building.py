# SPDX-License-Identifier: Apache-2.0
"""What holds while a thread builds a graph: pending writers, metadata, the region being filled, recorders."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ..ir.types import Type, f32, i32
from .ordered import OrderedSet

if TYPE_CHECKING:
    from .node import Op
    from .regions import GraphRegion


class Pending:
    """Of each storage, the writes to it that later readers must wait for.

    The writes stand with their storage (`Op.waiting`), so that a graph that nobody holds any more is forgotten.
    """

    def writes(self, storage: Op) -> OrderedSet[Op]:
        """The pending writes to a storage."""
        found = storage.waiting.get(self) if storage.waiting is not None else None
        return OrderedSet() if found is None else found

    def replace(self, storage: Op, writes: Iterable[Op]) -> None:
        """Makes these the pending writes to a storage."""
        if storage.waiting is None:
            storage.waiting = WeakKeyDictionary()
        storage.waiting[self] = OrderedSet(writes)


class Building(threading.local):
    """One per thread, so that a graph built elsewhere at the same time is not affected."""

    def __init__(self) -> None:
        self.pending: list[Pending] = [Pending()]
        self.metadata: dict[str, Any] = {}
        self.region: GraphRegion | None = None
        self.recorders: list[list[Op]] = []
        self.float: Type = f32
        self.integer: Type = i32


BUILDING = Building()


@contextmanager
def saved_user_deps(pending: Pending | None = None) -> Generator[Pending]:
    """Inside, pending writes of the outside are not seen; after it, those made inside are forgotten."""
    stack = BUILDING.pending
    stack.append(Pending() if pending is None else pending)
    try:
        yield stack[-1]
    finally:
        stack.pop()


@contextmanager
def metadata(**values: Any) -> Generator[None]:
    """Ops created inside carry these entries in their `metadata`."""
    outer = BUILDING.metadata
    BUILDING.metadata = {**outer, **values}
    try:
        yield
    finally:
        BUILDING.metadata = outer


@contextmanager
def recording(isolate: bool = False) -> Generator[list[Op]]:
    """Collects the ops created inside; `isolate` hides them from recorders outside."""
    outer = BUILDING.recorders
    ops: list[Op] = []
    BUILDING.recorders = [ops] if isolate else [*outer, ops]
    try:
        yield ops
    finally:
        BUILDING.recorders = outer
