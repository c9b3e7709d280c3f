# SPDX-License-Identifier: Apache-2.0
"""The targets, and LLVM IR text to optimised IR, assembler text, PTX or an object file.

Kernels have explicit vectors and unrolled tiles, so LLVM's passes only clean up ("cleanup", about 0.4 ms per kernel):
its vectorisers and unroller would undo the tiling.

LLVM runs in child processes: it reports some errors by ending the process, and does not return its memory. It runs in
this process only if no child can be started.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

from ..support.diagnostics import Bug, UserError
from ..support.files import write_temporary
from ..support.machines import machines
from ..support.spelling import did_you_mean
from ..support.target import Target
from . import child, native
from .cores import available_cores
from .host import host
from .native import Form, Optimise


def version() -> str:
    """The version of LLVM, for cache keys."""
    return host().version


def assemble(text: str, target: Target, optimise: Optimise = "cleanup") -> bytes:
    """The module as a relocatable, position independent object file."""
    code = _generate("object", text, target, optimise)
    assert isinstance(code, bytes)
    return code


def assembly(text: str, target: Target, optimise: Optimise = "cleanup") -> str:
    """The module as assembler text; for an NVPTX target this is PTX."""
    return str(_generate("assembly", text, target, optimise))


def listing(text: str, target: Target, optimise: Optimise = "cleanup") -> str:
    """Assembler text for people to read: with the names of blocks."""
    return str(_generate("listing", text, target, optimise))


def optimised(text: str, target: Target, optimise: Optimise = "cleanup") -> str:
    """The module after the passes, as IR text."""
    return str(_generate("ir", text, target, optimise))


def prepare() -> None:
    """Starts the process that will compile, so that it is ready when the passes are done."""
    child.start()


def _generate(form: Form, text: str, target: Target, optimise: Optimise) -> bytes | str:
    """Every error of LLVM is a bug of the code that emitted the text, except an unknown name in the target."""
    request = (form, text, target.triple, target.cpu, target.features, optimise)
    try:
        try:
            return child.generate(*request)
        except child.Absent:
            return native.generate(*request)
    except child.Unknown as error:
        raise UserError(f"target '{target.name}' is not valid: {error}") from None
    except child.Died as error:
        raise _bug(f"LLVM crashed while compiling for '{target.name}': {error}", text) from None
    except native.Rejected as error:
        raise _bug(f"LLVM rejects the generated code: {error}", text) from error


def _bug(message: str, text: str) -> Bug:
    """A Bug whose hint names a file with the whole text; LLVM's messages quote only the line."""
    path = write_temporary(text, ".ll")
    return Bug(message) if path is None else Bug(message, hint=f"the code is in {path}")


# Targets


def cpu_target(name: str) -> Target:
    """A CPU to cross-compile for: one that `lowering/machines.toml` names, such as `x86-64-v3` or `aarch64`."""
    named = machines().named
    if name not in named:
        hint = did_you_mean(name, named, f"use one of {', '.join(named)}")
        raise UserError(f"there is no CPU target '{name}'", hint=hint)
    machine = named[name]
    return Target(name, machine.triple, machine.cpu, _added(machine.features))


def host_target() -> Target:
    """The CPU of this process; or, if NGMLIR_CPU names a lesser one, this CPU restricted to the features of that one.

    Raises `UserError` if NGMLIR_CPU is unknown, or has features that this machine lacks.
    """
    return _host(os.environ.get("NGMLIR_CPU", "").strip() or "native")


@cache
def _host(level: str) -> Target:
    (l1_bytes, l1_ways), (l2_bytes, _) = _cache(1), _cache(2)
    native = Target(
        name="cpu",
        triple=host().triple,
        cpu=host().cpu,
        features=host().features,
        l1_bytes=l1_bytes or 32 * 1024,
        l1_ways=l1_ways or 8,
        l2_bytes=l2_bytes or 1024 * 1024,
        cores=available_cores(),
    )
    if level == "native":
        return native
    named = machines().named
    if level not in named:
        raise UserError(
            f"NGMLIR_CPU is '{level}', which is not a known machine",
            hint=did_you_mean(level, ["native", *named], f"use native or one of {', '.join(named)}"),
        )
    lesser = cpu_target(level)
    if lesser.architecture != native.architecture:
        raise UserError(f"NGMLIR_CPU is '{level}', but this machine is {native.architecture.name}")
    if lacking := lesser.enabled - native.enabled:
        raise UserError(
            f"NGMLIR_CPU is '{level}', but this machine ({native.cpu}) lacks {', '.join(sorted(lacking))}",
            hint="programs for it can be compiled here, with --target, but not run",
        )
    return replace(native, cpu=lesser.cpu, features=lesser.features, vector_bytes=0, vector_registers=0)


def _added(features: Iterable[str]) -> str:
    return ",".join(f"+{feature}" for feature in features)


def nvptx_target(sm: str = "sm_90a") -> Target:
    """An NVIDIA GPU by its compute capability, such as `sm_80` or `sm_90a`."""
    known = machines().gpus
    if not sm.startswith("sm_"):
        raise UserError(f"'{sm}' is not a compute capability", hint="examples: sm_80, sm_90a")
    if sm not in known:  # LLVM would end the process
        raise UserError(f"LLVM {version()} does not support '{sm}'", hint=f"it knows {', '.join(known)}")
    return Target(
        name=sm,
        triple="nvptx64-nvidia-cuda",
        cpu=sm,
        features=f"+ptx{known[sm].ptx}",
        threads=128,
        shared_bytes=known[sm].block_shared,
    )


def _cache(level: int) -> tuple[int, int]:
    """Size in bytes and associativity of the first core's data cache, where Linux reports them; else 0."""
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            kind = (folder / "type").read_text().strip()
            if kind != "Instruction" and int((folder / "level").read_text()) == level:
                size = (folder / "size").read_text().strip()
                unit = {"K": 1 << 10, "M": 1 << 20}.get(size[-1:], 1)
                return int(size.rstrip("KM")) * unit, int((folder / "ways_of_associativity").read_text())
        except (OSError, ValueError):
            continue
    return 0, 0
