# SPDX-License-Identifier: Apache-2.0
"""Lines of source and names of loops in code: they change no instruction, and the tools that people use find them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

from ngmlir.codegen import cpu
from ngmlir.compiler import assemble, compile_module, emit_text, lower, resolve
from ngmlir.ops.words import from_text
from ngmlir.runtime import ptxas
from ngmlir.runtime.profile import wanted
from ngmlir.support.diagnostics import UserError

DENSE = """func.func @main(%x: tensor<33x16xf32>, %w: tensor<16x24xf32>, %b: tensor<33x24xf32>) -> tensor<33x24xf32> {
  %p = ng.dot %x, %w contract [1] x [0] : (tensor<33x16xf32>, tensor<16x24xf32>) -> tensor<33x24xf32>
  %s = ng.add %p, %b : tensor<33x24xf32>
  %t = ng.tanh %s : tensor<33x24xf32>
  return %t : tensor<33x24xf32>
}"""
ROWS = """func.func @main(%x: tensor<9x1000xf32>) -> tensor<9x1000xf32> {
  %m = ng.max %x axes [1] : (tensor<9x1000xf32>) -> tensor<9xf32>
  %mm = ng.broadcast %m dims [0] : (tensor<9xf32>) -> tensor<9x1000xf32>
  %s = ng.subtract %x, %mm : tensor<9x1000xf32>
  %e = ng.exp %s : tensor<9x1000xf32>
  return %e : tensor<9x1000xf32>
}"""
#: Names that LLVM and the code generator have a use for themselves, two that are spelled alike, and a loop of a person's.
NAMES = """tile.kernel @k ins(%entry: memref<40xf32>, %v1: memref<40xf32>, %0: memref<40xf32>) outs(%scratch: memref<40xf32>) {
  %two = tile.for %m_loop = 0 to 40 step 8 iter(%v = %entry) -> memref<40xf32> {
    %i_loop = tile.load %v[%m_loop] : memref<40xf32>, vector<8xf32>
    %passing = tile.load %v1[%m_loop] : memref<40xf32>, vector<8xf32>
    %a$b = ng.add %i_loop, %passing : vector<8xf32>
    %a.b = tile.load %0[%m_loop] : memref<40xf32>, vector<8xf32>
    %a-b = ng.add %a$b, %a.b : vector<8xf32>
    tile.store %a-b, %scratch[%m_loop] : vector<8xf32>, memref<40xf32>
    ng.yield %v : memref<40xf32>
  }
  tile.return
}
func.func @main(%x: tensor<40xf32>, %y: tensor<40xf32>, %z: tensor<40xf32>) -> tensor<40xf32> {
  %r = tile.call @k ins(%x, %y, %z) -> tensor<40xf32>
  return %r : tensor<40xf32>
}"""
PROGRAMS = {"dense": DENSE, "rows": ROWS, "names": NAMES}


def code(object: bytes) -> bytes:
    """The instructions of an object file."""
    sections = llvm.ObjectFileRef.from_data(object).sections()
    return b"".join(each.data() for each in sections if str(each.name()).startswith(".text"))


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("machine", ["cpu", "x86-64-v3", "x86-64-v4", "aarch64"])
def test_debug_info_changes_no_instruction(name: str, machine: str) -> None:
    plain = resolve(machine)
    told = replace(plain, debug=True)
    first, second = (
        assemble(lower(from_text(PROGRAMS[name], file="a.ngir"), target), target) for target in (plain, told)
    )
    assert [code(each) for each in (*first.kernels, first.code)] == [
        code(each) for each in (*second.kernels, second.code)
    ]
    assert len(second.kernels[0]) > len(first.kernels[0])


@pytest.mark.parametrize("name", ["dense", "rows"])
def test_debug_info_changes_no_instruction_of_a_gpu(name: str) -> None:
    plain = resolve("sm_90a")
    told = emit_text(from_text(PROGRAMS[name], file="a.ngir"), replace(plain, debug=True), "ptx")
    assert ".loc" in told and '.file\t1 "' in told

    def instructions(text: str) -> list[str]:
        lines = (line.partition("//")[0].strip() for line in text.splitlines())
        return [line for line in lines if line.endswith(";")]

    assert instructions(told) == instructions(emit_text(from_text(PROGRAMS[name]), plain, "ptx"))
    if ptxas.find() is not None:
        report = ptxas.assemble(told, "sm_90a")
        assert report.kernels and b".debug_line" in report.cubin


def test_equal_kernels_are_one_unless_they_tell_where_they_are_from() -> None:
    def keys(debug: bool) -> set[str | None]:
        target = replace(resolve("x86-64-v3"), debug=debug)
        texts = (DENSE, "\n" + DENSE.replace("%w", "%weights"))
        modules = (lower(from_text(text, file="a.ngir"), target) for text in texts)
        return {piece.key for module in modules for piece in cpu.parts(module, target).pieces[:-1]}

    assert len(keys(debug=False)) == 1
    assert len(keys(debug=True)) == 2


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("device", ["cpu", "cuda-sim"])
def test_programs_run_where_they_are_profiled(
    name: str, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if device == "cpu" and not any(map(shutil.which, ("ld", "ld.lld", "ld.gold"))):
        pytest.skip("there is no linker")
    if name == "names" and device == "cuda-sim":
        pytest.skip("a kernel of a CPU")
    module = from_text(PROGRAMS[name], file='odd "näme".ngir')
    main = module.lookup("main")
    assert main is not None
    shapes = [a.type.shape for a in main.block.args]  # type: ignore[attr-defined]
    draw = np.random.default_rng(0)
    arrays = [draw.standard_normal(shape).astype(np.float32) for shape in shapes]
    expected = compile_module(module, device)(*arrays)
    monkeypatch.setenv("NGMLIR_PROFILE", str(tmp_path / "new folder"))
    found = compile_module(module, device)(*arrays)
    assert [a.tobytes() for a in found] == [b.tobytes() for b in expected]


@pytest.mark.parametrize(("text", "is_wanted"), [("", False), (" ", False), ("0", False), ("out", True)])
def test_which_folders_are_none(text: str, is_wanted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NGMLIR_PROFILE", text)
    assert wanted() is is_wanted


def test_tools_find_loops_and_lines(tmp_path: Path) -> None:
    dump = shutil.which("llvm-dwarfdump") or shutil.which("objdump")
    if dump is None or not any(map(shutil.which, ("ld", "ld.lld", "ld.gold"))):
        pytest.skip("there are no binutils")
    script = tmp_path / "model.py"
    script.write_text(
        "import numpy as np, ngmlir as ng\n"
        "n, k, m = (ng.make_axis(s, name=c) for s, c in ((33, 'n'), (64, 'k'), (48, 'm')))\n"
        "x, w, b = ng.placeholder([n, k]), ng.placeholder([k, m]), ng.placeholder([m])\n"
        "y = ng.dot(x, w)\n"
        "y = y + b\n"
        "y = ng.maximum(y, 0.0)\n"
        "t = ng.transformers.make_transformer('cpu')\n"
        "t.computation(y, x, w, b)(*(np.ones(s, 'f') for s in ((33, 64), (64, 48), (48,))))\n"
    )
    environment = {**os.environ, "NGMLIR_PROFILE": str(tmp_path / "out")}
    subprocess.run([sys.executable, str(script)], env=environment, check=True, timeout=300)
    (library,) = (tmp_path / "out").iterdir()
    flags = ["--debug-info", "--debug-line"] if "dwarf" in dump else ["--dwarf=info,decodedline"]
    said = subprocess.run([dump, *flags, str(library)], capture_output=True, text=True, check=True).stdout
    assert "dot_add_maximum.k_loop" in said
    assert "model.py" in said
    # The loop of the product is of line 4, though the kernel ends with line 6.
    assert "DW_AT_call_line\t(4)" in said or "DW_AT_call_line   : 4" in said


def test_what_cannot_be_profiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = from_text(ROWS)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NGMLIR_PROFILE", str(tmp_path / "file"))
    with pytest.raises(UserError, match="cannot be loaded from"):
        compile_module(module, "cpu")
    monkeypatch.setenv("NGMLIR_PROFILE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="needs a linker"):
        compile_module(module, "cpu")
