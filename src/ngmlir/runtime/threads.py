# SPDX-License-Identifier: Apache-2.0
"""The number of threads of a program: as given where it is compiled, else from the environment, else the number of
cores."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from ..llvm.cores import available_cores
from ..support.diagnostics import UserError

_wanted: ContextVar[int | None] = ContextVar("threads", default=None)
#: The largest number of threads; more are taken for a mistake.
_MOST = 4096


def checked_threads(count: int) -> int:
    """A number of threads; UserError if it is not valid."""
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= _MOST:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UserError(f"threads is {count!r}", hint=f"a whole number, 1 to {_MOST}")
    return count


@contextmanager
def using_threads(count: int | None) -> Generator[None]:
    """Programs that are loaded inside use this many threads, as long as they live; None changes nothing."""
    if count is None:
        yield
        return
    before = _wanted.set(checked_threads(count))
    try:
        yield
    finally:
        _wanted.reset(before)


def thread_count() -> int:
    """The number set by `using_threads`, else NGMLIR_NUM_THREADS, else OMP_NUM_THREADS, else the cores this process may
    use."""
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
