# SPDX-License-Identifier: Apache-2.0
"""Buffers that kernels have for themselves: a little on the stack, more behind the arena; threads with a small stack."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from kernel_text import agree, compiled, interpreted, planned, same_bits

from ngmlir.codegen import cpu
from ngmlir.codegen.cpu.emitter import STACK_BUFFERS, STACK_PASSING
from ngmlir.compiler import compile_module
from ngmlir.llvm.machine import host_target
from ngmlir.ops.words import from_text
from ngmlir.support.diagnostics import Limit

#: A thread of glibc has 8 MiB, of musl 128 KiB; Python itself takes a part.
SMALL_STACK = 256 * 1024


def in_a_small_thread(function: Callable[[], Any]) -> Any:
    found: list[Any] = []
    before = threading.stack_size(SMALL_STACK)
    try:
        thread = threading.Thread(target=lambda: found.append(function()))
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    return found[0]


def chain(rows: int, columns: int, dtype: str, count: int) -> str:
    """`count` tanhs, one of the other, and the sum of the last added to all: each is kept until the sum is known."""
    full, row = f"tensor<{rows}x{columns}x{dtype}>", f"tensor<{rows}x{dtype}>"
    lines = [f"%t{i} = ng.tanh %{'x' if i == 0 else f't{i - 1}'} : {full}" for i in range(count)]
    lines += [f"%s = ng.sum %t{count - 1} axes [1] : ({full}) -> {row}"]
    lines += [f"%a0 = ng.broadcast %s dims [0] : ({row}) -> {full}"]
    lines += [f"%a{i + 1} = ng.add %a{i}, %t{i} : {full}" for i in range(count)]
    body = "\n  ".join([*lines, f"return %a{count} : {full}"])
    return f"func.func @main(%x: {full}) -> {full} {{\n  {body}\n}}\n"


@pytest.mark.parametrize(("dtype", "count"), [("f64", 40), ("f32", 20), ("f64", 3)])
def test_chains_in_a_thread_with_a_small_stack(dtype: str, count: int) -> None:
    rows, columns = 4, 32768
    kind = {"f64": np.float64, "f32": np.float32}[dtype]
    x = np.random.default_rng(0).standard_normal((rows, columns)).astype(kind)
    program = compile_module(from_text(chain(rows, columns, dtype, count)))
    (got,) = in_a_small_thread(lambda: program(x))
    values = [np.tanh(x.astype(np.float64))]
    for _ in range(count - 1):
        values.append(np.tanh(values[-1]))
    want = values[-1].sum(1, keepdims=True) + sum(values)
    np.testing.assert_allclose(got, want, atol=1e-2 if dtype == "f32" else 1e-11)
    np.testing.assert_array_equal(got, program(x)[0])


def kept(buffers: int, size: int, grid: tuple[int, ...] = (1,)) -> str:
    """Each program fills the ends of its buffers with multiples of its row, all before any is read, and adds them up."""
    programs = int(np.prod(grid))
    memref, row, buffer = f"memref<{programs}x8xf32>", "vector<8xf32>", f"memref<{size}xf32, 3>"
    number, lines = "%p0", [f"%end = ng.constant {size - 8} : index"]
    if len(grid) == 2:
        number = "%number"
        lines += [
            f"%columns = ng.constant {grid[1]} : index",
            "%start = ng.multiply %p0, %columns : index",
            "%number = ng.add %start, %p1 : index",
        ]
    lines += [f"%v0 = tile.load %x[{number}, %c0] : {memref}, {row}"]
    for i in range(buffers):
        lines += [
            f"%b{i} = tile.alloc : {buffer}",
            f"tile.store %v{i}, %b{i}[%c0] : {row}, {buffer}",
            f"%v{i + 1} = ng.add %v{i}, %v0 : {row}",
            f"tile.store %v{i + 1}, %b{i}[%end] : {row}, {buffer}",
        ]
    lines += [f"%s0 = ng.negative %v0 : {row}"]
    for i in range(buffers):
        lines += [
            f"%q{i} = tile.load %b{i}[%c0] : {buffer}, {row}",
            f"%r{i} = tile.load %b{i}[%end] : {buffer}, {row}",
            f"%t{i} = ng.multiply %s{i}, %q{i} : {row}",
            f"%s{i + 1} = ng.subtract %t{i}, %r{i} : {row}",
        ]
    lines += [f"tile.store %s{buffers}, %o[{number}, %c0] : {row}, {memref}"]
    return planned({"x": memref}, {"o": memref}, "\n".join(lines), grid)


@pytest.mark.parametrize("grid", [(1,), (7,), (3, 5)])
@pytest.mark.parametrize(("buffers", "size"), [(3, 64), (48, 256), (49, 256), (200, 128)])
def test_buffers_of_a_program(buffers: int, size: int, grid: tuple[int, ...]) -> None:
    programs = int(np.prod(grid))
    x = np.random.default_rng(0).uniform(-0.1, 0.1, (programs, 8)).astype(np.float32)
    text = kept(buffers, size, grid)
    agree(text, x)
    unit = cpu.emit(from_text(text), replace(host_target(), cores=4))
    total = buffers * size * 4
    beside = total > STACK_BUFFERS
    assert unit.entries[0].signature.arena_bytes == (min(4, programs) * total if beside else 0)
    assert sum(map(int, re.findall(r"alloca \[(\d+) x i8\]", unit.llvm))) <= STACK_BUFFERS + 1024
    for cores in (1, 2, 5):  # as many parts, whatever the number of threads
        same_bits(compiled(text, [x], replace(host_target(), cores=cores))[0], interpreted(text, [x])[0])


def test_racing_callers_have_buffers_of_their_own() -> None:
    text = chain(16, 20_000, "f32", 4)
    program = compile_module(from_text(text))
    inputs = [np.random.default_rng(i).standard_normal((16, 20_000)).astype(np.float32) for i in range(6)]
    want = [program(x)[0] for x in inputs]
    with ThreadPoolExecutor(6) as threads:
        for _ in range(5):
            for a, b in zip(threads.map(lambda x: program(x)[0], inputs), want, strict=True):
                np.testing.assert_array_equal(a, b)


def test_launches_share_the_stack() -> None:
    text = kept(1, 64, (7,))
    launch = next(line for line in text.split("\n") if "tile.launch" in line)
    text = text.replace(launch, "\n".join([launch] * 500))
    llvm = cpu.emit(from_text(text), host_target()).llvm
    entry = llvm[llvm.index("define void @main.entry") :]
    assert entry.count("call void @ngmlir_parallel") == 500
    assert re.findall(r"alloca \[(\d+) x i8\]", entry) == ["24"]


def test_what_one_op_keeps_beside_the_registers_is_limited() -> None:
    def scatter(count: int) -> str:
        value, places = f"vector<{count}xf32>", f"vector<{count}xi64>"
        body = f"""
      %v = tile.load %x[%c0] : memref<{count}xf32>, {value}
      %i = tile.load %n[%c0] : memref<{count}xi64>, {places}
      %m = ng.equal %v, %v : ({value}, {value}) -> vector<{count}xi1>
      tile.scatter %v, %m, %o[%i] : {value}, memref<{count}xf32>"""
        return planned(
            {"x": f"memref<{count}xf32>", "n": f"memref<{count}xi64>"}, {"o": f"memref<{count}xf32>"}, body
        )

    with pytest.raises(
        Limit, match=rf"bytes beside the registers; one op has {STACK_PASSING}\nhint: use smaller tiles"
    ):
        cpu.emit(from_text(scatter(2048)), host_target())
    order = np.random.default_rng(0).permutation(512)
    x = np.arange(512, dtype=np.float32)
    (got,) = compiled(scatter(512), [x, order])
    np.testing.assert_array_equal(got[order], x)


def test_many_arguments_in_a_thread_with_a_small_stack() -> None:
    count = 10_000
    arguments = ", ".join(f"%a{i}: tensor<f32>" for i in range(count))
    text = f"func.func @main({arguments}) -> tensor<f32> {{ %r = ng.add %a0, %a{count - 1} : tensor<f32> return %r : tensor<f32> }}"
    program = compile_module(from_text(text))
    values = [np.float32(i) for i in range(count)]
    assert in_a_small_thread(lambda: program(*values))[0] == count - 1
