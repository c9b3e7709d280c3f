# SPDX-License-Identifier: Apache-2.0
"""Targets, and LLVM behind them: objects, assembler text, PTX, and errors that say where."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from ngmlir.llvm.cores import available_cores
from ngmlir.llvm.machine import (
    assemble,
    assembly,
    cpu_target,
    host_target,
    nvptx_target,
    optimised,
    version,
)
from ngmlir.llvm.text import Argument, Module
from ngmlir.llvm.types import constant, f32, i64, ptr, vector
from ngmlir.support.diagnostics import Bug, UserError
from ngmlir.support.target import Target

CPUS = ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64", "riscv64"]


def scaled(lanes: int = 16, linkage: str = "") -> str:
    module = Module()
    arguments = [Argument(ptr, "x", "noalias readonly"), Argument(ptr, "y", "noalias"), Argument(i64, "n")]
    b = module.function("scaled", "void", arguments, linkage=linkage)
    x, y, n = b.arguments
    kind = vector(lanes, f32)
    with b.loop(0, n, lanes) as loop:
        v = b.load(kind, b.getelementptr(f32, x, loop.index), align=4)
        b.store(b.fma(v, v, constant(kind, 0.1)), b.getelementptr(f32, y, loop.index), align=4)
    b.ret()
    return module.text()


def test_the_host_is_described():
    target = host_target()
    assert target.triple and target.cpu
    assert target.vector_bytes in (16, 32, 64)
    assert target.cores == available_cores() == len(os.sched_getaffinity(0))
    assert 8 * 1024 <= target.l1_bytes <= target.l2_bytes


@pytest.mark.parametrize("name", CPUS)
def test_every_cpu_assembles_without_library_calls(name: str):
    target = cpu_target(name)
    assert target.name == name
    text = assembly(scaled(), target)
    assert "scaled:" in text
    # Without an instruction LLVM would leave fma to the library: see codegen/cpu/fused.py.
    calls = set(re.findall(r"\b(?:call\w*|bl)\s+(\w+)", text))
    assert calls == (set() if target.can("fma") else {"fmaf"})
    assert assemble(scaled(), target)[:4] == b"\x7fELF"


def test_vectors_fill_the_registers_of_the_target():
    assert "%zmm" in assembly(scaled(), cpu_target("x86-64-v4"))
    assert not re.search("%[yz]mm|vmul", assembly(scaled(), cpu_target("x86-64-v2")))
    assert "%zmm" not in assembly(scaled(), cpu_target("x86-64-v3"))
    assert "%ymm" in assembly(scaled(), cpu_target("x86-64-v3"))
    assert "fmla" in assembly(scaled(), cpu_target("aarch64"))
    assert re.search(r"vfmadd|vfmacc", assembly(scaled(), cpu_target("riscv64")))


def test_riscv_passes_floats_in_float_registers():
    module = Module()
    b = module.function("f", f32, [Argument(f32, "x")])
    b.ret(b.fadd(b.arguments[0], b.arguments[0]))
    assert "fadd.s\tfa0, fa0, fa0" in assembly(module.text(), cpu_target("riscv64"))


#: One of each generation, and all that need a PTX of their own.
GPUS = (
    "sm_50",
    "sm_75",
    "sm_80",
    "sm_88",
    "sm_90a",
    "sm_100a",
    "sm_100f",
    "sm_103a",
    "sm_110",
    "sm_120a",
    "sm_121a",
)


#: KB of shared memory that a block may ask for, by generation.
SHARED_KILOBYTES = {"50": 48, "75": 64, "80": 163, "88": 163, "90": 227, "10": 227, "11": 227, "12": 99}


@pytest.mark.parametrize("sm", GPUS)
def test_ptx(sm: str):
    target = nvptx_target(sm)
    assert (target.code, target.shared_bytes) == ("nvptx", SHARED_KILOBYTES[sm[3:5]] * 1024)
    text = assembly(scaled(1, "ptx_kernel"), target)
    assert ".visible .entry scaled" in text
    assert f".target {sm}" in text
    assert "fma.rn.f32" in text


@pytest.mark.parametrize("name", ["exp.f32", "log.f64", "pow.f32", "sin.f32", "exp2.f64", "tanh.f16"])
def test_library_calls_on_the_gpu_end_a_child_only(name: str):
    kind = {"f16": "half", "f32": "float", "f64": "double"}[name[-3:]]
    operands = [f"{kind} %x"] * (2 if name.startswith("pow") else 1)
    text = f"""
declare {kind} @llvm.{name}({", ".join([kind] * len(operands))})
define {kind} @f({kind} %x) {{
  %y = call {kind} @llvm.{name}({", ".join(operands)})
  ret {kind} %y
}}"""
    with pytest.raises(Bug, match=r"LLVM crashed while compiling for 'sm_90a': .*(libcall|select)") as caught:
        assembly(text, nvptx_target())
    kept(caught.value, text)
    assert ".visible .func" in assembly("define void @f() {\n ret void\n}", nvptx_target())


def kept(error: Bug, text: str) -> None:
    """The message names a file with the code."""
    path = Path(str(error).partition("hint: the code is in ")[2])
    assert path.read_text() == text
    path.unlink()


#: Code for AVX-512 only, which LLVM cannot take apart where there is none.
WIDE = """
declare <16 x float> @llvm.x86.avx512.mask.range.ps.512(<16 x float>, <16 x float>, i32, <16 x float>, i16, i32)
define <16 x float> @f(<16 x float> %x) {
  %y = call <16 x float> @llvm.x86.avx512.mask.range.ps.512(<16 x float> %x, <16 x float> %x, i32 4, <16 x float> %x, i16 -1, i32 4)
  ret <16 x float> %y
}"""


def test_what_a_machine_lacks_ends_a_child_only():
    assert "vrangeps" in assembly(WIDE, cpu_target("x86-64-v4"))
    for _ in range(2):
        with pytest.raises(Bug, match="LLVM crashed while compiling for 'x86-64-v3': LLVM ERROR: ") as caught:
            assembly(WIDE, cpu_target("x86-64-v3"))
        kept(caught.value, WIDE)


@pytest.mark.parametrize("cache", ["0", "1"])
def test_llvm_is_not_loaded_by_the_process_that_asks(cache: str, tmp_path: Path):
    program = "import sys, ngmlir.llvm.machine as m; m.assemble('define void @f() { ret void }', m.host_target()); sys.exit('llvmlite.binding' in sys.modules)"
    caching = {"NGMLIR_CACHE": cache, "NGMLIR_CACHE_DIR": str(tmp_path)}
    for processes in ("", "0"):
        found = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, **caching, "NGMLIR_COMPILE_PROCESSES": processes},
        )
        assert found.returncode == bool(processes)


def test_names_that_llvm_does_not_know():
    v3, arm = cpu_target("x86-64-v3"), cpu_target("aarch64")
    for _ in range(2):
        with pytest.raises(
            UserError, match=r"target 'x86-64-v3' is not valid: LLVM knows no processor 'z80'"
        ):
            assembly(scaled(), replace(v3, cpu="z80"))
        with pytest.raises(UserError, match=r"target 'aarch64' is not valid: LLVM knows no processor 'z80'"):
            assembly(scaled(), replace(arm, cpu="z80"))
        with pytest.raises(UserError, match=r"LLVM knows no feature 'wings'"):
            assembly(scaled(), replace(v3, features=v3.features + ",+wings"))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_a_child_of_its_own():
    """Also where another thread waits for an answer at that moment."""
    target, stop = cpu_target("aarch64"), threading.Event()
    want = assemble(scaled(), target)

    def busy() -> None:
        while not stop.is_set():
            assert assemble(scaled(), target) == want

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        for _ in range(3):
            pid = os.fork()
            if not pid:
                os._exit(assemble(scaled(), target) != want)
            assert os.waitpid(pid, 0)[1] == 0
    finally:
        stop.set()
        thread.join()
    assert assemble(scaled(), target) == want


def test_threads_share_the_child():
    target = cpu_target("aarch64")
    with ThreadPoolExecutor(8) as threads:
        texts = [scaled(lanes) for lanes in (4, 8, 16)] * 8
        found = list(threads.map(lambda text: assemble(text, target), texts))
    assert len(set(found)) == 3
    assert found == found[:3] * 8


def test_the_gpu_has_some_functions_of_its_own():
    text = """
declare float @llvm.exp2.f32(float)
define float @f(float %x) {
  %y = call float @llvm.exp2.f32(float %x)
  ret float %y
}"""
    assert "ex2.approx" in assembly(text, nvptx_target())


def test_unknown_targets():
    with pytest.raises(UserError, match=r"there is no CPU target 'z80'\nhint: use one of x86-64-v2"):
        cpu_target("z80")
    with pytest.raises(UserError, match="not a compute capability"):
        nvptx_target("volta")
    for sm in ("sm_71", "sm_80a", "sm_90f", "sm_999"):
        with pytest.raises(UserError, match=rf"does not support '{sm}'\nhint: it knows sm_50, .* sm_121"):
            nvptx_target(sm)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "%x = add i32 1, 2.0\n ret void",
            r"constant invalid for type\n\s+%x = add i32 1, 2.0",
        ),
        ("call void @nobody()\n ret void", r"undefined value '@nobody'"),
        ("br label %nowhere", r"undefined value '%nowhere'"),
    ],
)
def test_bad_text_is_a_bug_with_a_reproducer(body: str, message: str):
    text = f"define void @f() {{\n {body}\n}}"
    with pytest.raises(Bug, match=message) as caught:
        assemble(text, host_target())
    kept(caught.value, text)


def test_what_the_verifier_objects_to_is_a_bug():
    text = """
define i32 @f(i1 %c) {
  br i1 %c, label %a, label %b
a:
  %x = add i32 1, 2
  br label %b
b:
  ret i32 %x
}"""
    with pytest.raises(Bug, match="does not dominate all uses"):
        assemble(text, host_target())


def test_cleanup_tidies_and_never_vectorises():
    text = """
define void @f(ptr noalias %x, i64 %n) {
entry:
  %unused = mul i64 %n, 8
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %p = getelementptr float, ptr %x, i64 %i
  %v = load float, ptr %p, align 4
  %w = fadd float %v, 1.0
  store float %w, ptr %p, align 4
  %next = add nsw i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}"""
    clean = optimised(text, host_target())
    assert "unused" not in clean and " x float>" not in clean
    assert " x float>" in optimised(text, host_target(), "speed")
    assert "unused" in optimised(text, host_target(), "none")


def test_the_same_text_gives_the_same_object():
    assert assemble(scaled(), host_target()) == assemble(scaled(), host_target())


def test_targets_differ_in_their_key(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NGMLIR_CPU", "native")
    targets: list[Target] = [host_target(), *map(cpu_target, CPUS), nvptx_target(), nvptx_target("sm_80")]
    assert len({target.key for target in targets}) == len(targets)
    assert re.fullmatch(r"\d+\.\d+\.\d+", version())
