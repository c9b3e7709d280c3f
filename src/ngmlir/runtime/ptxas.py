# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's assembler, if it is installed: PTX -> cubin, with its report of registers and spills."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ..support.diagnostics import UserError


@dataclass(frozen=True)
class KernelReport:
    """The resources of one kernel."""

    registers: int
    spill_stores: int
    spill_loads: int
    stack_bytes: int
    shared_bytes: int


@dataclass(frozen=True)
class Report:
    """The machine code of a module. The properties give the maximum over its kernels."""

    cubin: bytes
    kernels: dict[str, KernelReport]
    warnings: tuple[str, ...]
    log: str

    @property
    def registers(self) -> int:
        return max((k.registers for k in self.kernels.values()), default=0)

    @property
    def spill_stores(self) -> int:
        return max((k.spill_stores for k in self.kernels.values()), default=0)

    @property
    def spill_loads(self) -> int:
        return max((k.spill_loads for k in self.kernels.values()), default=0)

    @property
    def stack_bytes(self) -> int:
        return max((k.stack_bytes for k in self.kernels.values()), default=0)

    @property
    def shared_bytes(self) -> int:
        return max((k.shared_bytes for k in self.kernels.values()), default=0)


def find() -> Path | None:
    """The assembler: NGMLIR_PTXAS, or else the newer of that on PATH and that of the nvidia-cuda-nvcc package (or of a
    CUDA toolkit); of equal versions the package's."""
    named = os.environ.get("NGMLIR_PTXAS")
    if named is not None:
        return Path(named) if os.access(named, os.X_OK) else None
    on_path, packaged = shutil.which("ptxas"), _in_packages()
    if on_path is None or packaged is None:
        return packaged if on_path is None else Path(on_path)
    return max(packaged, Path(on_path), key=lambda path: _numbers(version_of(path)))


def _numbers(version: str) -> tuple[int, ...]:
    """A version as a comparable tuple; an unknown one is older than all others."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


@cache
def _in_packages() -> Path | None:
    for distribution in importlib.metadata.distributions():
        if not (distribution.name or "").startswith("nvidia-cuda-nvcc"):
            continue
        for file in distribution.files or ():
            path = Path(str(distribution.locate_file(file)))
            if file.name in ("ptxas", "ptxas.exe") and path.is_file():
                return path
    try:
        pathfinder: Any = importlib.import_module("cuda.pathfinder")
    except ImportError:
        return None
    found = pathfinder.find_nvidia_binary_utility("ptxas")
    return Path(found) if found else None


class UnknownArchitecture(UserError):
    """This ptxas does not support the GPU: it is older than those supported, or newer."""


def available() -> bool:
    return find() is not None


@cache
def version_of(path: Path) -> str:
    """The release, such as `13.0.88`: part of the cache key of every cubin."""
    try:
        answer = subprocess.run([str(path), "--version"], capture_output=True, text=True, check=False)
    except OSError:  # built for another machine
        return "unknown"
    match = re.search(r"V(\d+(?:\.\d+)+)", answer.stdout)
    return match.group(1) if match else "unknown"


def assemble(ptx: str, arch: str) -> Report:
    """Machine code of `ptx` for `arch` (`sm_90a`). Raises `UserError` with the assembler's message, and
    `UnknownArchitecture` if it does not support `arch`."""
    path = find()
    if path is None:
        raise UserError(
            "ptxas is not installed",
            hint="pip install nvidia-cuda-nvcc, or let NGMLIR_PTXAS name the program; "
            "without it the driver assembles PTX itself",
        )
    with tempfile.TemporaryDirectory(prefix="ngmlir-ptxas-") as folder:
        source, target = Path(folder, "kernels.ptx"), Path(folder, "kernels.cubin")
        source.write_text(ptx, encoding="utf-8")
        lines = ["-lineinfo"] if "\t.loc\t" in ptx else []
        command = [str(path), f"-arch={arch}", "-v", *lines, str(source), "-o", str(target)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        log = (done.stdout + done.stderr).replace(str(source), "<ptx>").strip()
        if done.returncode:
            kind = UnknownArchitecture if "'gpu-name'" in log else UserError
            raise kind(f"ptxas rejects the PTX for {arch}:\n{_with_lines(log, ptx)}")
        return Report(target.read_bytes(), _kernels(log), _warnings(log), log)


def _with_lines(log: str, ptx: str) -> str:
    """The log, in which each message that names a line is followed by that line."""
    lines = ptx.splitlines()
    told: list[str] = []
    for message in log.splitlines():
        told.append(message)
        match = re.search(r"line (\d+)", message)
        if match and 0 < int(match.group(1)) <= len(lines):
            told.append(f"    {lines[int(match.group(1)) - 1].strip()}")
    return "\n".join(told)


def _warnings(log: str) -> tuple[str, ...]:
    """Warnings, and the notes of ptxas that it gave up an optimisation (C75xx)."""
    return tuple(
        line for line in log.splitlines() if "warning" in line.lower() or re.search(r"\(C75\d\d\)", line)
    )


def _kernels(log: str) -> dict[str, KernelReport]:
    kernels: dict[str, KernelReport] = {}
    parts = re.split(r"Compiling entry function '([^']+)'", log)
    for name, text in zip(parts[1::2], parts[2::2], strict=True):

        def number(pattern: str, text: str = text) -> int:
            match = re.search(pattern, text)
            return int(match.group(1)) if match else 0

        kernels[name] = KernelReport(
            registers=number(r"Used (\d+) registers"),
            spill_stores=number(r"(\d+) bytes spill stores"),
            spill_loads=number(r"(\d+) bytes spill loads"),
            stack_bytes=number(r"(\d+) bytes stack frame"),
            shared_bytes=number(r"(\d+) bytes smem"),
        )
    return kernels
