# SPDX-License-Identifier: Apache-2.0
"""Uniquing: there is one object for each type, each attribute and each kind of op.

So types compare by `is`, and results computed for one object hold for all that are equal. The context refers to its
objects weakly: each lives as long as some op, graph or caller refers to it, so building and dropping programs leaks
nothing. A process has one context, since the types of different programs must be the same objects when programs are
combined.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from threading import Lock
from typing import Any, Generic, TypeVar
from weakref import ref

T = TypeVar("T")


class _Entry(ref[T]):
    """A weak reference that knows its key."""

    __slots__ = ("key",)
    key: Hashable


class Unique(Generic[T]):
    """One object per key, for as long as something refers to it. Keys contain no floats (0.0 and -0.0 are equal keys)."""

    def __init__(self) -> None:
        #: The table that `find` reads.
        self.entries: dict[Hashable, _Entry[T]] = {}
        # An object may be freed at any moment, also while this thread holds the lock: its entry is then queued here.
        self._dead: deque[_Entry[T]] = deque()
        self._lock = Lock()
        # One bound method for all entries, instead of one more object for each.
        self._at_death = self._forget

    def find(self, key: Hashable) -> T | None:
        """The object of a key, if it is alive."""
        entry = self.entries.get(key)
        return None if entry is None else entry()

    def add(self, key: Hashable, made: T) -> T:
        """The object of a key: `made`, unless another thread was faster."""
        with self._lock:
            if self._dead:
                self._purge()
            known = self.entries.get(key)
            found = None if known is None else known()
            if found is not None:
                return found
            entry = _Entry(made, self._at_death)
            entry.key = key
            self.entries[key] = entry
            return made

    def _forget(self, entry: _Entry[T]) -> None:
        self._dead.append(entry)
        if self._lock.acquire(blocking=False):
            self._purge()
            self._lock.release()

    def _purge(self) -> None:
        while self._dead:
            gone = self._dead.popleft()
            if self.entries.get(gone.key) is gone:
                del self.entries[gone.key]

    def __len__(self) -> int:
        """How many objects are alive."""
        return sum(entry() is not None for entry in list(self.entries.values()))


class Tables:
    """The tables of all classes of unique objects."""

    def __init__(self) -> None:
        self.tables: list[Unique[Any]] = []

    def __len__(self) -> int:
        """How many objects are alive."""
        return sum(map(len, self.tables))


class Context:
    """The tables of a process. `objects` contains types and attributes, by class and constructor arguments; `kinds`
    the kinds of ops (core.Kind); `inferred` the same kinds, by the arguments of type inference."""

    def __init__(self) -> None:
        self.objects = Tables()
        self.kinds: Unique[Any] = Unique()
        self.inferred: Unique[Any] = Unique()


CONTEXT = Context()


class Uniqued(type):
    """Metaclass of classes whose equal instances are one object of the context; arguments are hashable and contain no floats.

    Each class has its table. The key of an object with one argument is that argument, not a tuple of it: keys live as long as
    their objects, and the garbage collector visits every part of them.
    """

    arity: int
    defaults: tuple[Any, ...]
    table: Unique[Any]
    entries: Mapping[Hashable, _Entry[Any]]

    def __init__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any]):
        super().__init__(name, bases, members)
        code = getattr(cls.__init__, "__code__", None)
        cls.arity = code.co_argcount - 1 if code is not None else 0
        cls.defaults = getattr(cls.__init__, "__defaults__", None) or ()
        cls.table = Unique()
        cls.entries = cls.table.entries
        CONTEXT.objects.tables.append(cls.table)

    def __call__(cls, *args: Any) -> Any:
        arity = cls.arity
        if len(args) < arity:
            args += cls.defaults[len(args) - arity :]  # `IntegerType(8)` is `IntegerType(8, "")`
        key = args[0] if arity == 1 else args
        entry = cls.entries.get(key)
        found = None if entry is None else entry()
        return cls.table.add(key, super().__call__(*args)) if found is None else found
