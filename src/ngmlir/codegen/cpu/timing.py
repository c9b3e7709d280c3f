# SPDX-License-Identifier: Apache-2.0
"""What a timed program calls around each launch: the clock, and a function that adds an entry to the table that
`Artifact` describes."""

from __future__ import annotations

import time

from ...llvm.text import Argument, Module
from ...llvm.types import constant, i32, i64, ptr

#: Returns the nanoseconds of the clock that Python's `time.perf_counter_ns` reads too.
CLOCK = "ngmlir_clock"
#: Records that launch `number` began at `begin` and ends now.
NOTE = "ngmlir_note"
_NOTE = 3  # words


def write(module: Module) -> None:
    """Emits both functions, for the entries of a program."""
    b = module.function(CLOCK, i64, [], linkage="internal")
    place = b.emit(ptr, "alloca [2 x i64], align 8")
    b.call(i32, "clock_gettime", constant(i32, time.CLOCK_MONOTONIC), place)
    seconds, rest = (b.load(i64, b.getelementptr(i64, place, i), align=8) for i in range(2))
    b.ret(b.add(b.mul(seconds, 1_000_000_000), rest))

    b = module.function(
        NOTE,
        "void",
        [Argument(ptr, "table"), Argument(i64, "number"), Argument(i64, "begin")],
        linkage="internal",
    )
    table, number, begin = b.arguments
    end = b.call(i64, CLOCK)

    at = b.load(i64, table, align=8)
    stop = b.load(i64, b.getelementptr(i64, table, 1), align=8)
    room, full, done = b.label("room"), b.label("full"), b.label("done")
    b.branch_if(b.icmp("slt", at, stop), room, full)
    b.place(room)
    for i, value in enumerate((number, begin, end)):
        b.store(value, b.getelementptr(i64, table, b.add(at, i)), align=8)
    b.store(b.add(at, _NOTE), table, align=8)
    b.branch(done)
    b.place(full)
    lost = b.getelementptr(i64, table, 2)
    b.store(b.add(b.load(i64, lost, align=8), 1), lost, align=8)
    b.branch(done)
    b.place(done)
    b.ret()
