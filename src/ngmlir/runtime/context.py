# SPDX-License-Identifier: Apache-2.0
"""The native part of one loaded program: its code, constants and arena, and whether the arena is in use.

`ngmlir_invoke(context, buffers)` calls the program with its arena if that is free, else with a newly allocated one, so
that threads may share an executable. It returns 0, or 1 if there is no memory for a new arena.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

from ..llvm.machine import host_target
from ..llvm.text import Argument, Module
from ..llvm.types import Value, constant, i1, i32, i64, null, ptr
from ..support.memory import ALIGNMENT
from .cache import assembled
from .library import Library


class Context(ctypes.Structure):
    """The record that `ngmlir_invoke` reads; the code below depends on the order of the fields."""

    _fields_ = [
        ("code", ctypes.c_void_p),
        ("arena", ctypes.c_void_p),
        ("constants", ctypes.c_void_p),
        ("arena_bytes", ctypes.c_int64),
        ("busy", ctypes.c_void_p),  # pointer to a word that is not 0 while the arena is in use
    ]


def invoke(context: Context, buffers: ctypes.Array[ctypes.c_void_p]) -> None:
    """Runs the program on a table of pointers: one per argument, then one per result."""
    if _invoke()(ctypes.addressof(context), ctypes.addressof(buffers)):
        raise MemoryError(f"no memory for {context.arena_bytes} bytes of temporaries")


@cache
def invoke_address() -> int:
    """The address of `ngmlir_invoke`, for code that calls it directly."""
    return _library()["ngmlir_invoke"]


@cache
def _invoke() -> Callable[[int, int], int]:
    return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(invoke_address())


@cache
def _library() -> Library:
    return Library(assembled(_text(), host_target()), ["ngmlir_invoke"])


def _text() -> str:
    module = Module()
    b = module.function("ngmlir_invoke", i32, [Argument(ptr, "context"), Argument(ptr, "buffers")])
    context, buffers = b.arguments

    def field(name: str) -> Value:
        return b.getelementptr("i8", context, getattr(Context, name).offset)

    code = b.load(ptr, field("code"), align=8)
    constants = b.load(ptr, field("constants"), align=8)
    size = b.load(i64, field("arena_bytes"), align=8)
    plain, wanted, mine, taken, failed, fresh = map(
        b.label, ("plain", "wanted", "mine", "taken", "failed", "fresh")
    )
    b.branch_if(b.icmp("eq", size, 0), plain, wanted)

    b.place(plain)
    b.call("void", code, buffers, null, constants)
    b.ret(constant(i32, 0))

    b.place(wanted)
    busy = b.load(ptr, field("busy"), align=8)
    claim = b.compare_exchange(busy, constant(i64, 0), constant(i64, 1), "acquire monotonic")
    b.branch_if(b.extract_value(claim, 1, i1), mine, taken)

    b.place(mine)
    b.call("void", code, buffers, b.load(ptr, field("arena"), align=8), constants)
    b.atomic("xchg", busy, constant(i64, 0), "release")
    b.ret(constant(i32, 0))

    b.place(taken)
    memory = b.call(ptr, "malloc", b.add(size, ALIGNMENT))
    b.branch_if(b.icmp("eq", memory, null), failed, fresh)

    b.place(failed)
    b.ret(constant(i32, 1))

    b.place(fresh)
    address = b.add(b.cast("ptrtoint", memory, i64), ALIGNMENT - 1)
    aligned = b.cast("inttoptr", b.and_(address, -ALIGNMENT), ptr)
    b.call("void", code, buffers, aligned, constants)
    b.call("void", "free", memory)
    b.ret(constant(i32, 0))
    return module.text()
