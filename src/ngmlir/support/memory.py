# SPDX-License-Identifier: Apache-2.0
"""Memory that programs use in place: aligned, and in huge pages where that is faster."""

from __future__ import annotations

import mmap
import os
from functools import cache

import numpy as np

ALIGNMENT = 64  # a cache line, and the widest vector register
HUGE_PAGE = 2 * 1024 * 1024


def empty_bytes(count: int) -> np.ndarray:
    """`count` bytes at an address that is a multiple of 64; in huge pages where that pays and is possible."""
    if count >= HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
        # Only whole huge pages are ever backed by one, so the first must begin at a multiple of its size.
        # Private: what is shared with processes that may fork off gets no huge pages, and they would write to it.
        try:
            memory = mmap.mmap(-1, count + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as error:  # as NumPy says it of smaller arrays
            raise MemoryError(f"cannot allocate {count} bytes: {error.strerror}") from None
        memory.madvise(mmap.MADV_HUGEPAGE)
        raw, alignment = np.frombuffer(memory, np.uint8), HUGE_PAGE
    else:
        raw, alignment = np.empty(count + ALIGNMENT, np.uint8), ALIGNMENT
    start = -raw.ctypes.data % alignment
    return raw[start : start + count]


@cache
def physical_bytes() -> int:
    """The memory of this machine; where the system does not say, more than any has."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 48
