# SPDX-License-Identifier: Apache-2.0
"""A cache of few values, of which the one not used for longest makes room for the next."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """At most `most` values by key, for any number of threads."""

    def __init__(self, most: int):
        self.most = most
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._values)

    def keys(self) -> list[K]:
        """From the one not used for longest."""
        with self._lock:
            return [*self._values]

    def items(self) -> list[tuple[K, V]]:
        """From the one not used for longest."""
        with self._lock:
            return [*self._values.items()]

    def find(self, key: K) -> V | None:
        """The value of a key, which is now the one that was used last."""
        with self._lock:
            found = self._values.get(key)
            if found is not None:
                self._values.move_to_end(key)
            return found

    def add(self, key: K, value: V) -> V:
        """Keeps a value, and gives it."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            if len(self._values) > self.most:
                self._values.popitem(last=False)
            return value
