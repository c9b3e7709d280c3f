# SPDX-License-Identifier: Apache-2.0
"""Weights in the layout that programs read, packed and aligned, in files of the cache folder. The files are mapped: a
program that was loaded before neither reads the original weights nor packs them, and all processes share them.

The name of a file is a digest of its bytes, so programs with the same weights share one. It is written under another
name and renamed. A cache entry, under a key of everything that the weights were made from, names the file and has
digests of its bytes, which are compared each time that it is mapped. These files have a limit of their own:
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

#: Fewer bytes are not stored: packing them is as fast as looking them up.
LEAST = 1 << 20


def kept(store: Cache, key: str, used: Sequence[int], others: Sequence[int]) -> list[np.ndarray] | None:
    """The stored arrays of bytes of these sizes: those that are `used` by each call, and others, of which no page is
    loaded yet. None if there are none that are valid."""
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
    """Stores arrays of bytes, if possible; ignores failures."""
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
    """The file of bytes with these digests."""
    return store.folder / f"{sha256(repr(digests).encode()).hexdigest()}{WEIGHTS}"


def _places(sizes: Sequence[int]) -> tuple[list[int], int]:
    """The offsets of the arrays, and the end of the last one."""
    rooms = [-(-size // ALIGNMENT) * ALIGNMENT for size in sizes]
    starts = list(accumulate(rooms, initial=0))
    return starts, starts[-1]
