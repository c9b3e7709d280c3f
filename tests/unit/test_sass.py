# SPDX-License-Identifier: Apache-2.0
"""What `ptxas` makes of kernels, by NVIDIA's disassembler: the instructions that memory and matrix units are meant to be
asked by, no registers that are kept in memory, and no notes of what ptxas gave up."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from test_gpu_ideals import tensor

from ngmlir.compiler import assemble, lower
from ngmlir.llvm.machine import nvptx_target
from ngmlir.ops.words import from_text
from ngmlir.runtime import ptxas

#: An instruction of a listing, without the predicate before it.
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?([A-Z][A-Z0-9_.]*)")


def disassembler() -> Path | None:
    try:
        files = importlib.metadata.files("nvidia-cuda-nvdisasm") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((Path(str(f.locate())) for f in files if f.name == "nvdisasm"), None)


pytestmark = pytest.mark.skipif(
    disassembler() is None or not ptxas.available(), reason="nvdisasm and ptxas are not installed here"
)


def listing(arch: str, takes: list[str], gives: str, body: str, folder: Path) -> list[str]:
    """The instructions of the only kernel of a program."""
    given = ", ".join(f"%{name}: {type}" for name, type in zip("ab", takes, strict=False))
    text = f"func.func @main({given}) -> {gives} {{\n %r = {body}\n func.return %r : {gives}\n}}"
    target = nvptx_target(arch)
    report = ptxas.assemble(assemble(lower(from_text(text), target), target).code.decode(), arch)
    assert report.warnings == ()
    (kernel,) = report.kernels.values()
    assert kernel.spill_stores == kernel.spill_loads == 0
    (cubin := folder / "kernel.cubin").write_bytes(report.cubin)
    printed = subprocess.run(
        [str(disassembler()), "-c", str(cubin)], capture_output=True, text=True, check=True
    ).stdout
    found = _INSTRUCTION.findall(printed)
    assert not any(name.startswith(("LDL", "STL")) for name in found)
    return found


def instructions(arch: str, takes: list[str], gives: str, body: str, folder: Path) -> Counter[str]:
    """How often each stands in the only kernel of a program."""
    return Counter(listing(arch, takes, gives, body, folder))


def of(found: Counter[str], start: str) -> set[str]:
    return {name for name in found if name.split(".")[0] == start}


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_elements_are_moved_16_bytes_at_once(arch: str, tmp_path: Path) -> None:
    x = tensor((1 << 20,))
    found = instructions(arch, [x, x], x, f"ng.add %a, %b : {x}", tmp_path)
    assert of(found, "LDG") == {"LDG.E.128.CONSTANT"} and of(found, "STG") == {"STG.E.128"}
    y = tensor((1 << 20,), "bf16")
    found = instructions(arch, [y], y, f"ng.tanh %a : {y}", tmp_path)
    assert of(found, "LDG") == {"LDG.E.128.CONSTANT"} and of(found, "STG") == {"STG.E.128"}


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_rows_are_read_16_bytes_at_once_and_shuffled(arch: str, tmp_path: Path) -> None:
    x, y = tensor((4096, 1024)), tensor((4096,))
    found = instructions(arch, [x], y, f"ng.sum %a axes [1] : ({x}) -> {y}", tmp_path)
    assert of(found, "LDG") == {"LDG.E.128.CONSTANT"} and of(found, "SHFL")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_transposes_move_16_bytes_on_both_sides(arch: str, element: str, tmp_path: Path) -> None:
    x = tensor((1024, 1024), element)
    found = instructions(arch, [x], x, f"ng.transpose %a perm [1, 0] : {x}", tmp_path)
    assert of(found, "LDG") == {"LDG.E.128.CONSTANT"} and of(found, "STG") == {"STG.E.128"}
    assert of(found, "STS") and of(found, "LDS")


@pytest.mark.parametrize(
    ("arch", "element", "result", "turned", "multiply"),
    [
        ("sm_80", "bf16", "f32", 0, "HMMA.16816.F32.BF16"),
        ("sm_90a", "f16", "f32", 1, "HMMA.16816.F32"),
        ("sm_90a", "i8", "i32", 1, "IMMA.16832.S8.S8"),
    ],
)
def test_products_copy_in_the_background(
    arch: str, element: str, result: str, turned: int, multiply: str, tmp_path: Path
) -> None:
    x, y = tensor((1024, 1024), element), tensor((1024, 1024), result)
    body = f"ng.dot %a, %b contract [1] x [{turned}] : ({x}, {x}) -> {y}"
    found = instructions(arch, [x, x], y, body, tmp_path)
    assert of(found, "LDGSTS") == {"LDGSTS.E.BYPASS.128"} and not of(found, "LDG")
    assert of(found, multiply.split(".")[0]) == {multiply}
    assert {name.split(".")[1] for name in of(found, "LDSM")} == {"16"}
    # A fragment of eight by four matrices is read by one, and multiplied more than once.
    assert found[multiply] >= 2 * sum(found[name] for name in of(found, "LDSM"))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_narrow_loads_are_under_way_together(arch: str, tmp_path: Path) -> None:
    x, y = tensor((240, 17), "i8"), tensor((17,), "i8")
    found = listing(arch, [x], y, f"ng.max %a axes [0] : ({x}) -> {y}", tmp_path)
    loads = [place for place, name in enumerate(found) if name.startswith("LDG")]
    conversions = [place for place, name in enumerate(found) if name.startswith("PRMT")]
    assert len(loads) == 60 and min(conversions) > max(loads)
