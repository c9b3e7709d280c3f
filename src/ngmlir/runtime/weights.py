# SPDX-License-Identifier: Apache-2.0
"""Weights as programs read them, packed and aligned, in files of the cache folder: mapped, so that a program that was loaded
before neither reads what they were made of nor packs it, and so that all processes share them.

A file is called by a digest of its bytes, so that programs that read the same have one. It is written under another name and
renamed. An entry of the cache says which it is, under a key that stands for all that it was made of, and has digests of its
bytes, which are compared each time that it is mapped. Their limit is their own:
`NGMLIR_CACHE_WEIGHTS`, in MiB, 0 for none.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from hashlib import sha256
from itertools import accumulate
from pathlib import Path

import numpy as np

from ..support.cache_folder import is_private
from ..support.diagnostics import UserError
from ..support.mapping import mapped, mapping_of
from ..support.memory import ALIGNMENT
from .cache import WEIGHTS, Cache
from .digest import digest_of

#: Fewer bytes are packed as fast as they are found.
LEAST = 1 << 20


def kept(store: Cache, key: str, used: Sequence[int], others: Sequence[int]) -> list[np.ndarray] | None:
    """Arrays of bytes of these sizes, where they were kept: those that are `used` by each call, and others, of which no page
    is in memory yet. None where there are none that can be trusted."""
    entry = store.read(key)
    starts, size = _places([*used, *others])
    if entry is None or size < LEAST:
        return None
    digests = entry.header.get("digests")
    path = _path(store, digests)
    try:
        if not is_private(store.folder):
            return None
        with open(path, "rb") as stream:
            whole = mapped(stream.fileno())
        cut = starts[len(used)]
        found = [digest_of([whole[:cut]], store, in_place=True), digest_of([whole[cut:]], store)]
        if len(whole) != size or found != digests:
            path.unlink()
            return None
        os.utime(path)  # "oldest" means longest unused
    except OSError:
        return None
    data = np.frombuffer(whole, np.uint8)
    return [data[at : at + size] for at, size in zip(starts, [*used, *others], strict=False)]


def keep(store: Cache, key: str, used: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> None:
    """Keeps arrays of bytes, if that is possible; says nothing if it is not."""
    starts, size = _places([len(a) for a in (*used, *others)])
    cut, pieces = starts[len(used)], list[bytes | memoryview]()
    end = 0
    for at, array in zip(starts, [*used, *others], strict=False):
        pieces += [bytes(at - end), array.data]
        end = at + len(array)
    pieces.append(bytes(size - end))
    path = store.folder / f"{key}{WEIGHTS}"
    if not store.write_file(path, pieces):
        return
    with contextlib.suppress(OSError, UserError), open(path, "rb") as stream:
        whole = mapped(stream.fileno())
        digests = [digest_of([whole[:cut]], store), digest_of([whole[cut:]], store)]
        if None in digests:
            path.unlink()
            return
        store.write(key, b"", {"kind": "weights", "digests": digests})
        if (there := _path(store, digests)).exists():
            path.unlink()
        else:
            os.replace(path, there)
        if (mapping := mapping_of(whole)) is not None:
            mapping.let_go()


def _path(store: Cache, digests: object) -> Path:
    """The file with bytes of these digests."""
    return store.folder / f"{sha256(repr(digests).encode()).hexdigest()}{WEIGHTS}"


def _places(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Where arrays begin, and where the last one ends."""
    rooms = [-(-size // ALIGNMENT) * ALIGNMENT for size in sizes]
    starts = list(accumulate(rooms, initial=0))
    return starts, starts[-1]
