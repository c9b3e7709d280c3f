# SPDX-License-Identifier: Apache-2.0
"""The thread pools behind `ngmlir_parallel`, one for each number of threads; `pool_text` has their code."""

from __future__ import annotations

import ctypes
import os
from functools import cache

from ..llvm.cores import available_cores
from ..llvm.machine import host_target
from .cache import assembled
from .library import Library
from .pool_text import pool_text
from .threads import thread_count


class Pool:
    """A pool of `threads` threads, including the caller. The threads and their code live as long as the process."""

    def __init__(self, threads: int):
        self.threads = threads
        target = host_target()
        library = Library(
            assembled(pool_text(target.triple), target), ["ngmlir_parallel", "ngmlir_pool_reset"]
        )
        self.address = library["ngmlir_parallel"]
        reset = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_int32)(library["ngmlir_pool_reset"])
        # With more threads than cores, a thread that spins takes the core from one that works.
        spins = threads <= available_cores()

        def begin() -> None:
            _ = library  # a registered function is never released, and keeps the code alive
            reset(threads, spins)

        begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=begin)


@cache
def pool_of(threads: int) -> Pool:
    """The pool of this many threads: all programs of the process that use as many share it."""
    return Pool(threads)


def default_pool() -> Pool:
    """The pool of programs that are loaded in this context."""
    return pool_of(thread_count())
