# SPDX-License-Identifier: Apache-2.0
"""Objects are linked here as LLVM's own linker does it; what is not known here is left to that."""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import Any

import numpy as np
import pytest

from ngmlir.llvm import native
from ngmlir.llvm.host import Host, host
from ngmlir.llvm.machine import assemble, cpu_target, host_target
from ngmlir.runtime import library
from ngmlir.runtime.elf import Linked, Unforeseen, fits
from ngmlir.runtime.library import Library, _linked_by_llvm
from ngmlir.support.diagnostics import Bug

if not fits():
    pytest.skip("objects of another kind", allow_module_level=True)

MAIN = """
@table = internal constant [4 x i32] [i32 3, i32 5, i32 7, i32 11]
@pointers = internal constant [2 x ptr] [ptr @twice, ptr @other], align 16
@count = internal global i32 0
@zeros = internal global [5000 x i64] zeroinitializer, align 64
@outside = external global i32
declare i32 @other(i32)
declare i32 @callback(i32)
declare ptr @memcpy(ptr, ptr, i64)
define internal i32 @twice(i32 %x) { %y = add i32 %x, %x ret i32 %y }
define i32 @run(i32 %i, ptr %copy) {
  %p = getelementptr [4 x i32], ptr @table, i64 0, i32 %i
  %a = load i32, ptr %p
  %f = getelementptr [2 x ptr], ptr @pointers, i64 0, i32 0
  %g = getelementptr [2 x ptr], ptr @pointers, i64 0, i32 1
  %h = load volatile ptr, ptr %f
  %k = load volatile ptr, ptr %g
  %b = call i32 %h(i32 %a)
  %c = call i32 %k(i32 %b)
  %d = call i32 @other(i32 %c)
  %e = call i32 @callback(i32 %d)
  %n = load i32, ptr @count
  %n1 = add i32 %n, 1
  store i32 %n1, ptr @count
  %z = getelementptr [5000 x i64], ptr @zeros, i64 0, i64 4999
  %zero = load volatile i64, ptr %z
  %r = call ptr @memcpy(ptr %copy, ptr @table, i64 16)
  %o = load i32, ptr @outside
  %s = add i32 %e, %o
  %t = add i32 %s, %n1
  %low = trunc i64 %zero to i32
  %u = add i32 %t, %low
  ret i32 %u
}
"""
OTHER = "define i32 @other(i32 %x) { %y = mul i32 %x, 10 ret i32 %y }\n"


def made(linker: Any) -> list[Any]:
    """What the program gives, called twice, and the bytes that it copies."""
    given = ctypes.c_int32(1000)
    back = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(lambda x: x + 1)
    imports = {
        "callback": ctypes.cast(back, ctypes.c_void_p).value or 0,
        "outside": ctypes.addressof(given),
    }
    objects = [assemble(text, host_target()) for text in (MAIN, OTHER)]
    kept, addresses = linker(objects, ("run",), imports)
    run = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p)(addresses["run"])
    copy = np.zeros(4, np.int32)
    found = [run(2, copy.ctypes.data), run(3, copy.ctypes.data), copy.tolist()]
    del kept
    return found


def test_as_llvm_links_it() -> None:
    def here(*given: Any) -> Any:
        linked = Linked(*given)
        return linked, linked.addresses

    expected = [7 * 2 * 100 + 1 + 1000 + 1, 11 * 2 * 100 + 1 + 1000 + 2, [3, 5, 7, 11]]
    assert made(here) == made(_linked_by_llvm) == expected


def test_all_of_a_program_is_linked_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels, entries, the pool: nothing is left to LLVM."""
    import ngmlir as ng

    def nobody(*_: Any) -> Any:
        raise AssertionError("left to LLVM")

    monkeypatch.setattr(library, "_linked_by_llvm", nobody)
    x = ng.placeholder([ng.make_axis(70, name="N"), ng.make_axis(300, name="C")])
    y = ng.tanh(ng.softmax(x, normalization_axes=x.axes[1:])) + ng.sum(x, reduction_axes=x.axes[:1])
    assert np.isfinite(ng.compile(y, [x])(np.ones((70, 300), np.float32))).all()


def test_code_is_gone_with_its_library() -> None:
    def pages() -> int:
        with open("/proc/self/maps") as maps:
            return sum("r-xp 00000000 00:00" in line for line in maps)

    code = assemble(OTHER, host_target())
    gc.collect()
    before = pages()
    held = [Library(code, ["other"]) for _ in range(20)]
    assert pages() > before or sys.platform != "linux"
    assert all(ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(each["other"])(4) == 40 for each in held)
    del held
    gc.collect()
    assert pages() <= before


def test_what_is_not_linked_here() -> None:
    code = assemble(OTHER, host_target())
    lost = "declare void @nowhere()\ndefine void @f() {\n  call void @nowhere()\n  ret void\n}\n"
    for objects, names in (
        ([assemble(OTHER, cpu_target("aarch64"))], ("other",)),
        ([code, code], ("other",)),
        ([code], ("absent",)),
        ([assemble(lost, host_target())], ("f",)),
    ):
        with pytest.raises(Unforeseen):
            Linked(objects, names, {})
    for objects, names in (([code], ("absent",)), ([assemble(lost, host_target())], ("f",))):
        with pytest.raises(Bug, match="cannot be linked"):
            Library(objects[0], names)


def test_damaged_objects_are_no_objects() -> None:
    """Whatever the headers say, nothing outside of the bytes is read, and nothing outside of the memory written."""
    code, other = (assemble(text, host_target()) for text in (MAIN, OTHER))
    rng = np.random.default_rng(0)
    headers = int.from_bytes(code[40:48], "little")
    refused = 0
    for i in range(600):
        damaged = bytearray(code[: int(rng.integers(len(code)))] if i % 5 == 0 else code)
        for _ in range(2 if i % 5 else 0):
            where = int(rng.integers(headers, len(code))) if i % 2 else int(rng.integers(len(code)))
            damaged[where] ^= 1 << int(rng.integers(8))
        try:
            Linked([bytes(damaged), other], ("run",), {"callback": 1, "outside": 1})
        except Unforeseen:
            refused += 1
    assert refused > 100


def test_the_machine_is_the_one_that_llvm_tells(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NGMLIR_CACHE_DIR", str(tmp_path / "new"))
    asked = host.__wrapped__()
    (file,) = (tmp_path / "new").glob("host-*.json")
    assert host.__wrapped__() == asked == host()
    assert asked == Host(*native.host())
    for each in ("_asked", "_asked_apart"):
        monkeypatch.setattr(f"ngmlir.llvm.host.{each}", lambda: asked._replace(cpu="asked"))
    assert host.__wrapped__() == asked
    kept = file.read_text()
    for damaged in ("", "{}", "[1, 2]", "[[], {}]", kept.replace("+", "-", 1), kept[:-2]):
        file.write_text(damaged)
        assert host.__wrapped__().cpu == "asked"
    file.write_text(kept)
    (tmp_path / "new").chmod(0o777)
    assert host.__wrapped__().cpu == "asked"  # anyone could have written that
    monkeypatch.setenv("NGMLIR_CACHE", "0")
    assert host.__wrapped__().cpu == "asked"
