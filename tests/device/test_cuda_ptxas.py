# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's assembler, where it is installed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ngmlir.runtime import ptxas
from ngmlir.support.diagnostics import UserError

needs_ptxas = pytest.mark.skipif(not ptxas.available(), reason="ptxas is not installed")

PTX = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry first(.param .u64 p)
{
	.reg .b32 %r<3>; .reg .b64 %rd<3>;
	.shared .align 4 .b8 words[256];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd1, %r1, 4;
	mov.b64 %rd2, words;
	add.s64 %rd2, %rd2, %rd1;
	st.volatile.shared.b32 [%rd2], %r1;
	ld.volatile.shared.b32 %r2, [%rd2];
	ld.param.b64 %rd1, [p];
	st.global.b32 [%rd1], %r2;
	ret;
}
.visible .entry second() { ret; }
"""


@needs_ptxas
def test_each_kernel_is_reported():
    report = ptxas.assemble(PTX, "sm_90a")
    assert report.cubin[:4] == b"\x7fELF"
    assert set(report.kernels) == {"first", "second"}
    first = report.kernels["first"]
    assert first.shared_bytes >= 256 and 0 < first.registers < 64
    assert (report.spill_stores, report.spill_loads, report.stack_bytes, report.warnings) == (0, 0, 0, ())
    assert report.registers == max(k.registers for k in report.kernels.values())


@needs_ptxas
def test_a_rejection_quotes_the_line():
    with pytest.raises(UserError, match="ptxas rejects the PTX for sm_90a") as caught:
        ptxas.assemble(PTX.replace("mov.u32 %r1", "mov.u99 %r1"), "sm_90a")
    assert "mov.u99 %r1, %tid.x;" in str(caught.value)


@needs_ptxas
def test_the_version_is_a_number():
    found = ptxas.find()
    assert found is not None and ptxas.version_of(found)[0].isdigit()


def test_a_named_program_is_the_only_one_looked_for(monkeypatch, tmp_path):
    monkeypatch.setenv("NGMLIR_PTXAS", str(tmp_path / "none"))
    assert not ptxas.available()
    with pytest.raises(UserError, match="ptxas is not installed"):
        ptxas.assemble(PTX, "sm_90a")


@pytest.mark.skipif(os.name != "posix", reason="a shell script stands for the program")
@pytest.mark.parametrize(
    ("on_path", "packaged", "found"),
    [
        ("12.4.131", "13.5.37", "packaged"),
        ("13.10.2", "13.5.37", "on_path"),
        ("13.5.37", "13.5.37", "packaged"),
        ("", "13.0.88", "packaged"),
        ("what?", "13.0.88", "packaged"),
        ("11.8.89", "", "on_path"),
        ("", "", ""),
    ],
)
def test_the_newest_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, on_path: str, packaged: str, found: str
) -> None:
    for name, version in (("on_path", on_path), ("packaged", packaged)):
        (tmp_path / name).mkdir()
        if version:
            script = tmp_path / name / "ptxas"
            script.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, V{version}'\n")
            script.chmod(0o755)
    monkeypatch.delenv("NGMLIR_PTXAS", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "on_path"))
    monkeypatch.setattr(ptxas, "_in_packages", lambda: tmp_path / "packaged/ptxas" if packaged else None)
    assert ptxas.find() == (tmp_path / found / "ptxas" if found else None)
