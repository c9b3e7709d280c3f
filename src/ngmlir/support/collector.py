# SPDX-License-Identifier: Apache-2.0
"""Python's collector of cyclic garbage, while many objects are made that all stay."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

#: Objects that are made between two looks at the youngest of them, instead of Python's 700 or 2,000.
_YOUNG = 100_000


@contextmanager
def collecting_rarely() -> Generator[None]:
    """Inside, garbage is looked for less often: making a module of many ops would spend a quarter of its time on it.

    For all threads, as long as one is inside; what the program set before holds again afterwards.
    """
    outer = gc.get_threshold()
    if not 0 < outer[0] < _YOUNG:  # turned off, or rare already
        yield
        return
    gc.set_threshold(_YOUNG, *outer[1:])
    try:
        yield
    finally:
        gc.set_threshold(*outer)
