# SPDX-License-Identifier: Apache-2.0
"""The buffers that programs prepare from their constants, shared within a process: identified by a digest of the
function that prepares them and by the bytes of the constants that it reads. They live as long as a program that uses
them."""

from __future__ import annotations

from hashlib import sha256
from threading import Lock
from weakref import WeakValueDictionary

from ..support.artifact import Artifact, Constant, Entry
from .buffers import side_by_side
from .cache import default_cache
from .digest import digest_of

#: Constants of at most this many bytes are digested without other threads.
SHORT = 1 << 16


class Prepared:
    """The arrays that one function computes; `ready` once they are filled."""

    def __init__(self, entry: Entry):
        self.arrays = side_by_side(entry.signature.results)
        self.ready = False
        self.filling = Lock()


_made: WeakValueDictionary[tuple[str, ...], Prepared] = WeakValueDictionary()
_lock = Lock()


def prepared(artifact: Artifact, entry: Entry) -> Prepared:
    """The arrays of a function of an artifact: those of another program if it has the same function and constants; else
    new, uninitialised ones."""
    if not entry.digest:
        return Prepared(entry)
    key = (entry.digest, *(_digest(artifact.constants[n]) for n in entry.reads))
    with _lock:
        found = _made.get(key)
        if found is None:
            found = _made[key] = Prepared(entry)
        return found


def _digest(constant: Constant) -> str:
    store = default_cache() if len(constant.data) > SHORT else None
    found = digest_of([constant.data], store) if store is not None else None
    return f"{constant.count} x {found or sha256(constant.data).hexdigest()}"
