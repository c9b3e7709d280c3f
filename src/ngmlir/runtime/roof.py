# SPDX-License-Identifier: Apache-2.0
"""The peak performance of this machine, measured when a profile is first printed: multiply-adds in registers, copies in
memory."""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass
from functools import cache

import numpy as np

from ..llvm.machine import host_target
from ..llvm.text import Argument, Module
from ..llvm.types import Value, i64, ptr
from .cache import assembled
from .library import Library

#: Independent chains of multiply-adds, and the steps of each.
_CHAINS, _STEPS = 12, 20_000
#: Bytes of a copy; larger than the caches.
_COPIED = 1 << 26
_ROUNDS = 5


@dataclass(frozen=True)
class Roof:
    """Peak f32 operations and bytes per second, of all threads that programs use."""

    flops: float
    bandwidth: float

    def __str__(self) -> str:
        return f"{self.flops / 1e9:.0f} GF/s of f32 in registers, {self.bandwidth / 1e9:.1f} GB/s of copies by one thread"


@cache
def roof(threads: int) -> Roof:
    """The peak for this many threads. Measured once per process, in some tenths of a second."""
    return Roof(_flops() * threads, _bandwidth())


def _bandwidth() -> float:
    given, taken = np.ones(_COPIED // 8), np.empty(_COPIED // 8)
    return 2 * _COPIED / _least(lambda: np.copyto(taken, given))


def _flops() -> float:
    target = host_target()
    lanes = target.vector_bytes // 4
    vector = f"<{lanes} x float>"
    module = Module()
    b = module.function("ngmlir_roof", "void", [Argument(ptr, "out"), Argument(i64, "steps")])
    out, steps = b.arguments
    scale = b.load(vector, out, align=4)
    with b.loop(0, steps, 1, [b.load(vector, out, align=4) for _ in range(_CHAINS)]) as loop:
        loop.next(*[b.call(vector, f"llvm.fma.v{lanes}f32", x, scale, scale) for x in loop.carried])
    total = loop.results[0]
    for each in loop.results[1:]:
        total = Value(vector, b.emit(vector, f"fadd {vector} {total.name}, {each.name}").name)
    b.store(total, out, align=4)
    b.ret()
    library = Library(assembled(module.text(), target), ["ngmlir_roof"])
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(library["ngmlir_roof"])
    numbers = np.zeros(lanes, np.float32)
    seconds = _least(lambda: run(numbers.ctypes.data, _STEPS))
    return 2 * lanes * _CHAINS * _STEPS / seconds


def _least(call: object) -> float:
    assert callable(call)
    least = float("inf")
    for _ in range(_ROUNDS):
        started = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - started)
    return least
