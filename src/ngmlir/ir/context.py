# SPDX-License-Identifier: Apache-2.0
"""What IR objects have in common: there is one object for each type, each attribute and each kind of op.

So types compare by `is`, and what was found out about one holds for all that are equal. The context holds its
objects weakly: each lives as long as some op, graph or caller has it, and building and dropping programs
leaves nothing behind. A process has one context, because a type of one program must be that of any other
that it meets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from threading import Lock
from typing import Any, Generic, TypeVar
from weakref import ref

T = TypeVar("T")


class _Entry(ref[T]):
    """A weak reference that knows under which key it stands."""

    __slots__ = ("key",)
    key: Hashable


class Unique(Generic[T]):
    """One object per key, for as long as somebody holds it. Keys hold no floats (0.0 and -0.0 are equal keys)."""

    def __init__(self) -> None:
        #: What `find` looks up.
        self.entries: dict[Hashable, _Entry[T]] = {}
        # An object may die at any moment, also while this thread holds the lock: then its entry waits here.
        self._dead: deque[_Entry[T]] = deque()
        self._lock = Lock()
        # One bound method for all entries, not one object more for each.
        self._at_death = self._forget

    def find(self, key: Hashable) -> T | None:
        """The object of a key, if it lives."""
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
        """How many objects live."""
        return sum(entry() is not None for entry in list(self.entries.values()))


class Tables:
    """The tables of all classes of unique objects."""

    def __init__(self) -> None:
        self.tables: list[Unique[Any]] = []

    def __len__(self) -> int:
        """How many objects live."""
        return sum(map(len, self.tables))


class Context:
    """The tables of a process. `objects` holds types and attributes, by class and constructor arguments; `kinds`
    the kinds of ops (core.Kind), and `inferred` those kinds again, by what they were inferred from."""

    def __init__(self) -> None:
        self.objects = Tables()
        self.kinds: Unique[Any] = Unique()
        self.inferred: Unique[Any] = Unique()


CONTEXT = Context()


class Uniqued(type):
    """Classes whose equal instances are one object of the context; arguments are hashable and hold no floats.

    Each class has its table. An object of one argument stands under that argument and not under a tuple of it: keys live as
    long as their objects, and the garbage collector visits every part of them.
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
