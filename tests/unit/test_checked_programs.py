# SPDX-License-Identifier: Apache-2.0
"""Checked programs: each kind of access, at positions that nobody would write, on each device."""

from __future__ import annotations

from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

import ngmlir as ng
from ngmlir.compiler import compile_artifact, compile_module
from ngmlir.ir.core import Module
from ngmlir.ops.words import from_text
from ngmlir.runtime.cpu import load
from ngmlir.support.diagnostics import UserError

HUGE = 1 << 62
#: Name -> the lines of a kernel that touch %y at %i (an index) or at %n (an i64), and the positions where all is well.
ACCESSES = {
    "load": ("%v = tile.load %y[%i] : memref<8xf32>, f32", range(0, 8)),
    "load of a tile": (
        "%t = tile.load %y[%i] : memref<8xf32>, vector<5xf32>\n%v = ng.sum %t axes [0] : (vector<5xf32>) -> f32",
        range(0, 4),
    ),
    "load with steps": (
        "%t = tile.load %y[%i] {steps = array<i64: 3>} : memref<8xf32>, vector<2xf32>\n"
        "%v = ng.sum %t axes [0] : (vector<2xf32>) -> f32",
        range(0, 5),
    ),
    "store": (
        "%v = ng.constant 1.0 : f32\ntile.store %v, %z[%i] : (f32, memref<8xf32>, index) -> ()",
        range(0, 8),
    ),
    "store of a tile": (
        "%v = ng.constant 1.0 : f32\n%t = ng.broadcast %v dims [] : (f32) -> vector<4xf32>\n"
        "tile.store %t, %z[%i] : vector<4xf32>, memref<8xf32>",
        range(0, 5),
    ),
    "gather": (
        "%k = ng.broadcast %n dims [] : (i64) -> vector<4xi64>\n"
        "%t = tile.gather %y[%k] : memref<8xf32>, vector<4xf32>\n"
        "%v = ng.sum %t axes [0] : (vector<4xf32>) -> f32",
        range(0, 8),
    ),
    "gather at one place": (
        "%t = tile.gather %y[%i] : memref<8xf32>, vector<4xf32>\n%v = ng.sum %t axes [0] : (vector<4xf32>) -> f32",
        range(0, 8),
    ),
    "scatter": (
        "%v = ng.constant 1.0 : f32\n%t = ng.broadcast %v dims [] : (f32) -> vector<4xf32>\n"
        "%m = ng.constant dense<[true, false, true, false]> : vector<4xi1>\n"
        "%k = ng.broadcast %n dims [] : (i64) -> vector<4xi64>\n"
        "tile.scatter %t, %m, %z[%k] : vector<4xf32>, memref<8xf32>",
        range(0, 8),
    ),
    "subview": (
        "%w = tile.subview %y[%i] : memref<8xf32>, memref<4xf32, strided<[1], offset: ?>>\n"
        "%c3 = ng.constant 3 : index\n"
        "%v = tile.load %w[%c3] : memref<4xf32, strided<[1], offset: ?>>, f32",
        range(0, 5),
    ),
}


def program(lines: str) -> Module:
    return from_text(
        f"""\
func.func @main(%x: memref<i64>, %y: memref<8xf32>, %z: memref<8xf32>, %r: memref<f32>, %arena: memref<0xi8>)
    attributes {{ng.arguments = 2 : i64, ng.results = 2 : i64}} {{
  tile.launch @k ins(%x, %y) outs(%z, %r)
  func.return
}}
tile.kernel @k ins(%x: memref<i64>, %y: memref<8xf32>) outs(%z: memref<8xf32>, %r: memref<f32>) {{
  %n = tile.load %x[] : memref<i64>, i64
  %i = ng.cast %n : (i64) -> index
  {lines}
  tile.store %v, %r[] : f32, memref<f32>
  tile.return
}}""",
        file="mine.ngir",
    )


@pytest.mark.parametrize("device", ["cpu", "cuda-sim"])
@pytest.mark.parametrize("name", ACCESSES)
def test_only_what_leaves_its_buffer_is_refused(name: str, device: str) -> None:
    lines, fine = ACCESSES[name]
    call = compile_module(program(lines), device, checked=True)
    y = np.arange(8, dtype=np.float32)
    for at in (*range(-9, 17), HUGE, -HUGE, 2 * HUGE - 1, 1 - 2 * HUGE, -2 * HUGE, HUGE + 3):
        if at in fine:
            call(np.int64(at), y)
            continue
        with pytest.raises(UserError) as caught:
            call(np.int64(at), y)
        (found,) = caught.value.diagnostics
        assert found.location.file == "mine.ngir" and found.location.line > 8
        assert "touches element" in found.message and "of dimension 0 of %" in found.message
        shown = max(at, 1 - 2 * HUGE)  # the least number stands for no complaint
        assert f"{shown} " in found.message or name not in ("load", "store", "gather", "scatter")


@pytest.mark.parametrize("type", ["i8", "ui8", "i32", "ui64"])
def test_indices_of_any_type(type: str) -> None:
    of = program(
        f"%s = ng.cast %n : (i64) -> {type}\n%k = ng.broadcast %s dims [] : ({type}) -> vector<4x{type}>\n"
        f"%t = tile.gather %y[%k] : memref<8xf32>, vector<4xf32>\n"
        "%v = ng.sum %t axes [0] : (vector<4xf32>) -> f32"
    )
    call = compile_module(of, "cpu", checked=True)
    y = np.arange(8, dtype=np.float32)
    dtype = {"i8": np.int8, "ui8": np.uint8, "i32": np.int32, "ui64": np.uint64}[type]
    for at in (0, 7, 8, 127, 128, 255, -1, 1 << 33, -(1 << 63)):
        given = np.int64(at)
        if int(given.astype(dtype)) in range(8):
            assert call(given, y)[1] == 4 * y[int(given.astype(dtype))]
        else:
            with pytest.raises(UserError, match=r"'tile\.gather' touches element"):
                call(given, y)


def test_a_loop_that_would_not_end() -> None:
    of = program(
        "%f = ng.constant 1.0 : f32\n"
        "%v = tile.for %p = 0 to 9 step %i iter(%c = %f) -> f32 {\n"
        "  %d = ng.add %c, %f : f32\n  ng.yield %d : f32\n}"
    )
    call = compile_module(of, "cpu", checked=True)
    y = np.zeros(8, np.float32)
    assert call(np.int64(4), y)[1] == 4
    with pytest.raises(UserError, match="'tile.for' steps by 0 and would not end"):
        call(np.int64(0), y)
    with pytest.raises(UserError, match="'tile.for' steps by -3 and would not end"):
        call(np.int64(-3), y)


def test_calls_from_many_threads_are_told_apart() -> None:
    call = compile_module(program(ACCESSES["load"][0]), "cpu", checked=True)
    y = np.arange(8, dtype=np.float32)
    wrong: list[Any] = []

    def ask(at: int) -> None:
        for _ in range(200):
            try:
                got = call(np.int64(at), y)[1]
                if at >= 8 or got != at:
                    wrong.append((at, got))
            except UserError as error:
                if at < 8 or f"element {at} " not in str(error):
                    wrong.append((at, error))

    threads = [Thread(target=ask, args=(at,)) for at in (3, 9, 5, 12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_environment_asks_for_checks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    of, y = program(ACCESSES["load"][0]), np.zeros(8, np.float32)
    monkeypatch.setenv("NGMLIR_CHECK", "0")
    assert not compile_artifact(of, "cpu").checks
    monkeypatch.setenv("NGMLIR_CHECK", "1")
    assert not compile_artifact(of, "cpu", checked=False).checks
    for _ in range(2):  # also where the program stands in the cache
        artifact = compile_artifact(of, "cpu")
        assert len(artifact.checks) == 1
        with pytest.raises(UserError, match="touches element 8"):
            load(artifact)(np.int64(8), y)


def test_what_needs_no_checks_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NGMLIR_CHECK", "1")
    n = ng.make_axis(300, name="N")
    x = ng.placeholder([n]).named("x")
    lifted = ng.lift([ng.exp(x) + 1], [x])
    assert not compile_artifact(lifted.module, "cpu").checks
