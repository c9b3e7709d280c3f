# SPDX-License-Identifier: Apache-2.0
"""How many threads a program uses: what is said where it is made, else what the environment says, else the cores."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from ..llvm.cores import available_cores
from ..support.diagnostics import UserError

_wanted: ContextVar[int | None] = ContextVar("threads", default=None)
#: More threads than any machine has cores are a mistake.
_MOST = 4096


def checked_threads(count: int) -> int:
    """A number of threads; UserError for what is none."""
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= _MOST:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UserError(f"threads is {count!r}", hint=f"a whole number, 1 to {_MOST}")
    return count


@contextmanager
def using_threads(count: int | None) -> Generator[None]:
    """Programs that are loaded inside use so many threads, as long as they live; of None nothing changes."""
    if count is None:
        yield
        return
    before = _wanted.set(checked_threads(count))
    try:
        yield
    finally:
        _wanted.reset(before)


def thread_count() -> int:
    """What `using_threads` says, else NGMLIR_NUM_THREADS, else OMP_NUM_THREADS, else the cores this process may use."""
    wanted = _wanted.get()
    if wanted is not None:
        return wanted
    own = os.environ.get("NGMLIR_NUM_THREADS", "").strip()
    if own:
        if own.isdigit() and int(own) > 0:
            return int(own)
        raise UserError(f"NGMLIR_NUM_THREADS is '{own}'", hint="set it to an integer, 1 or more")
    others = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(others) if others.isdigit() and int(others) > 0 else available_cores()
