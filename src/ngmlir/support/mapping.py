# SPDX-License-Identifier: Apache-2.0
"""Memory-mapped files: their pages are in memory only while they are read.

A mapping shares the contents of the file. A file that is replaced (as `write_file` does it) keeps its old contents for existing
mappings. One that is overwritten in place changes in them, and reading beyond its new end terminates the process: `intact`
detects this beforehand.
"""

from __future__ import annotations

import mmap
import os
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from .diagnostics import UserError

_shared: WeakValueDictionary[tuple[int, ...], Mapping] = WeakValueDictionary()


class Mapping(mmap.mmap):
    """A whole file, mapped for reading: a page that is let go is read again when it is needed."""

    def __new__(cls, descriptor: int) -> Mapping:
        return super().__new__(cls, descriptor, 0, access=mmap.ACCESS_READ)

    def __init__(self, descriptor: int):
        self._file = os.fdopen(os.dup(descriptor), "rb", buffering=0)

    @property
    def intact(self) -> bool:
        """Whether the file still has all that was mapped."""
        return self.size() >= len(self)

    def let_go(self) -> None:
        """Its pages are not kept in memory."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self.madvise(mmap.MADV_DONTNEED)

    def read_into(self, target: np.ndarray[Any, Any], start: int) -> None:
        """Fills an array of bytes with those from `start` on, read from the file: faster than page by page."""
        if hasattr(os, "preadv"):
            done = 0
            while done < len(target):
                count = os.preadv(self._file.fileno(), [target.data[done:]], start + done)
                if not count:
                    raise UserError("a file that constants are mapped from has become shorter")
                done += count
        else:
            target[:] = np.frombuffer(self, np.uint8, len(target), start)


def mapped(descriptor: int) -> memoryview:
    """All of an open file, mapped once for all who ask while somebody has it; OSError where that cannot be."""
    status = os.fstat(descriptor)
    if not status.st_size:
        return memoryview(b"")
    key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    found = _shared.get(key) if status.st_ino else None
    if found is None:
        found = _shared[key] = Mapping(descriptor)
    return memoryview(found)


def mapping_of(data: Any) -> Mapping | None:
    """The mapping that a buffer or an array is part of."""
    while data is not None and not isinstance(data, Mapping):
        data = data.obj if isinstance(data, memoryview) else getattr(data, "base", None)
    return data


def intact(data: Any) -> bool:
    """Whether a buffer can be read: its file, where it is part of one, has not become shorter."""
    mapping = mapping_of(data)
    return mapping is None or mapping.intact


def read_into(target: np.ndarray[Any, Any], data: bytes | memoryview) -> None:
    """Copies a buffer into an array of bytes; of one in a mapping no page comes into memory that was not there before."""
    source, mapping = np.frombuffer(data, np.uint8), mapping_of(data)
    if mapping is None:
        target[:] = source
    else:
        mapping.read_into(target, source.ctypes.data - np.frombuffer(mapping, np.uint8).ctypes.data)
