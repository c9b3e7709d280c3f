# SPDX-License-Identifier: Apache-2.0
"""Files that are read where they lie: mapped, so that their pages are in memory only while somebody reads them.

What a mapping holds is the file's. A file that is replaced (as `write_file` does it) stays as it was for those who have it
mapped. One that is written over in place changes under them, and where it was cut off there is nothing left to read, which
ends the process: `intact` tells before a program finds out.
"""

from __future__ import annotations

import mmap
import os
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

_shared: WeakValueDictionary[tuple[int, ...], Mapping] = WeakValueDictionary()


class Mapping(mmap.mmap):
    """A whole file, mapped for reading: a page that is let go is read again when it is needed."""

    def __new__(cls, descriptor: int) -> Mapping:
        return super().__new__(cls, descriptor, 0, access=mmap.ACCESS_READ)

    @property
    def intact(self) -> bool:
        """Whether the file still has all that was mapped."""
        return self.size() >= len(self)

    def let_go(self, start: int = 0, end: int | None = None) -> None:
        """The pages from one byte to another are not kept in memory."""
        start -= start % mmap.PAGESIZE
        if hasattr(mmap, "MADV_DONTNEED"):
            self.madvise(mmap.MADV_DONTNEED, start, (len(self) if end is None else end) - start)


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
    """The mapping that a buffer or an array lies in."""
    while data is not None and not isinstance(data, Mapping):
        data = data.obj if isinstance(data, memoryview) else getattr(data, "base", None)
    return data


def let_go(data: memoryview) -> None:
    """The pages of a buffer that lies in a mapping are not kept in memory; nothing happens to other buffers."""
    mapping = mapping_of(data)
    if mapping is not None and len(data):
        first = np.frombuffer(data, np.uint8).ctypes.data - np.frombuffer(mapping, np.uint8).ctypes.data
        mapping.let_go(first, first + len(data))
