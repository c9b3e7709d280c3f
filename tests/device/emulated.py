# SPDX-License-Identifier: Apache-2.0
"""Programs compiled for 64-bit Arm, run by qemu: our object code, our thread pool and a start that we write, linked
with the C library that such a machine has. There is no compiler for Arm in this, and no Python on the Arm side.

The start reads the memory of a program as one piece from its standard input and writes the part with the results:

    memory   image   entries   constants   results   length   arena   threads         eight words
    offset of each argument and result, then of each constant
    the first `image` bytes of the memory
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ngmlir.compiler import compile_artifact
from ngmlir.ir.core import Module
from ngmlir.llvm.machine import assemble, cpu_target
from ngmlir.llvm.text import Argument, Function
from ngmlir.llvm.text import Module as LlvmModule
from ngmlir.llvm.types import Value, constant, i32, i64, ptr
from ngmlir.runtime.buffers import DTYPES
from ngmlir.runtime.pool_text import pool_text

Array = np.ndarray[Any, Any]

EMULATOR = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64") or ""
LINKER = shutil.which("aarch64-linux-gnu-ld") or ""
LIBRARY = Path("/lib/aarch64-linux-gnu/libc.so.6")
LOADER = Path("/lib/ld-linux-aarch64.so.1")
TARGET = "aarch64"


def missing() -> str:
    """What it takes and this machine has not, as packages of Debian; empty if all is there."""
    packages = {
        "qemu-user-static": EMULATOR,
        "binutils-aarch64-linux-gnu": LINKER,
        "libc6:arm64": LIBRARY.exists() and LOADER.exists(),
    }
    return ", ".join(name for name, found in packages.items() if not found)


def emulated(of: Module, arrays: Sequence[Array], folder: Path, threads: int = 2) -> list[Array]:
    """The results of @main on an emulated machine."""
    artifact = compile_artifact(of, TARGET)
    (entry,) = artifact.entries
    signature = entry.signature
    tied = dict(signature.tied)
    memory = _Memory()
    arguments: dict[int, int] = {}
    for i, array in enumerate(arrays):
        if i not in tied.values():
            arguments[i] = memory.add(array.tobytes())
    constants = [memory.add(bytes(c.data) * c.count) for c in artifact.constants]
    constants.append(memory.reserve(0))  # where checks would note what they find
    prepared: list[
        tuple[str, int]
    ] = []  # functions that are called before, and where the places of their results begin
    for each in artifact.prepared:
        prepared.append((each.symbol, len(constants)))
        constants += [memory.reserve(parameter.bytes) for parameter in each.signature.results]
    outside = memory.size
    for i in sorted(tied.values()):
        arguments[i] = memory.add(arrays[i].tobytes())
    image = memory.size
    results = [
        arguments[tied[i]] if i in tied else memory.reserve(parameter.bytes)
        for i, parameter in enumerate(signature.results)
    ]
    length = memory.size - outside
    arena = memory.reserve(max(e.signature.arena_bytes for e in (entry, *artifact.prepared)))
    entries = [arguments[i] for i in range(len(arrays))] + results
    header = [memory.size, image, len(entries), len(constants), outside, length, arena, threads]
    given = np.array([*header, *entries, *constants], np.int64).tobytes() + bytes(memory.image[:image])

    program = folder / "program"
    objects: list[Path] = []
    for number, code in enumerate([artifact.code, *artifact.kernels, *_objects(entry.symbol, *prepared)]):
        objects.append(folder / f"{number}.o")
        objects[-1].write_bytes(code)
    link = [LINKER, "-o", program, "-e", "_start", "--dynamic-linker", LOADER, *objects, LIBRARY]
    subprocess.run(link, check=True, capture_output=True, text=True)
    done = subprocess.run([EMULATOR, "-cpu", "max", program], input=given, capture_output=True, timeout=300)
    assert done.returncode == 0, f"status {done.returncode}: {done.stderr.decode(errors='replace')}"
    assert len(done.stdout) == length
    found: list[Array] = []
    for parameter, offset in zip(signature.results, results, strict=True):
        start = offset - outside
        data = np.frombuffer(done.stdout[start : start + parameter.bytes], DTYPES[parameter.dtype])
        found.append(data.reshape(parameter.shape))
    return found


class _Memory:
    """What lies where, each piece aligned as the runtime aligns it."""

    def __init__(self) -> None:
        self.image = bytearray()

    @property
    def size(self) -> int:
        return len(self.image)

    def add(self, data: bytes) -> int:
        at = self.reserve(len(data))
        self.image[at : at + len(data)] = data
        return at

    def reserve(self, size: int) -> int:
        at = len(self.image)
        self.image += b"\xa5" * (-(-size // 64) * 64)
        return at


@cache
def _objects(entry: str, *prepared: tuple[str, int]) -> tuple[bytes, bytes]:
    """The start, which calls what is to be `prepared` and `entry`, and the thread pool."""
    target = cpu_target(TARGET)
    return assemble(_start(entry, prepared), target), assemble(pool_text(target.triple), target)


def _start(entry: str, prepared: Sequence[tuple[str, int]]) -> str:
    module = LlvmModule()
    _transfer(module.function("input", "void", [Argument(ptr, "to"), Argument(i64, "size")]), "read", 0)
    _transfer(module.function("output", "void", [Argument(ptr, "of"), Argument(i64, "size")]), "write", 1)
    b = module.function("_start", "void")
    header = b.emit(ptr, "alloca [8 x i64], align 8")
    b.call("void", "input", header, constant(i64, 64))
    words = [b.load(i64, b.getelementptr(i64, header, i), align=8) for i in range(8)]
    memory_bytes, image, entries, constants, results, length, arena, threads = words
    count = b.add(entries, constants)
    table = b.call(ptr, "malloc", b.add(b.mul(count, 8), 8))
    memory = b.call(ptr, "aligned_alloc", constant(i64, 64), b.add(memory_bytes, 64))
    b.call("void", "input", table, b.mul(count, 8))
    with b.loop(0, count) as loop:
        slot = b.getelementptr(i64, table, loop.index)
        b.store(b.getelementptr("i8", memory, b.load(i64, slot, align=8)), slot, align=8)
    b.memset(memory, 0xA5, memory_bytes)
    b.call("void", "input", memory, image)
    b.call("void", "ngmlir_pool_reset", b.trunc(threads, i32), constant(i32, 0))
    places = [b.getelementptr("i8", memory, arena), b.getelementptr(i64, table, entries)]
    for symbol, first in prepared:
        b.call("void", symbol, b.getelementptr(i64, places[1], first), *places)
    b.call("void", entry, table, *places)
    b.call("void", "output", b.getelementptr("i8", memory, results), length)
    b.call("void", "exit", constant(i32, 0))
    b.effect("unreachable")
    return module.text()


def _transfer(b: Function, name: str, file: int) -> None:
    """Calls `read` or `write` until all is done, and ends the process where that fails."""
    start, size = b.arguments
    look, go, failed, done = (b.label(name) for name in ("look", "go", "failed", "done"))
    b.branch(look)
    b.place(look)
    at = b.phi(i64, (constant(i64, 0), "entry"))
    b.branch_if(b.icmp("slt", at, size), go, done)
    b.place(go)
    moved = b.call(i64, name, constant(i32, file), b.getelementptr("i8", start, at), b.sub(size, at))
    after: Value = b.add(at, moved)
    b.add_incoming(at, after, go)
    b.branch_if(b.icmp("sgt", moved, 0), look, failed)
    b.place(failed)
    b.call("void", "exit", constant(i32, 99))
    b.effect("unreachable")
    b.place(done)
    b.ret()
