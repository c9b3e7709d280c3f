# SPDX-License-Identifier: Apache-2.0
"""Which targets there are, and from LLVM IR text to optimised IR, assembler text, PTX or an object file.

Kernels come with explicit vectors and unrolled tiles, so the middle end only tidies up ("cleanup", about
0.2 ms per kernel): LLVM's vectorisers and unroller would undo the tiling.
"""

from __future__ import annotations

import os
import re
import tempfile
from functools import cache, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Literal, TypeAlias

import llvmlite.binding as llvm

from ..support.diagnostics import Bug, UserError
from ..support.target import Target

Optimise: TypeAlias = Literal["none", "cleanup", "speed"]

#: Calls that become a library call, or nothing at all: without a library on the GPU, LLVM ends the process.
_NOT_ON_GPU = re.compile(
    r"@llvm\.((?:exp|exp10|log|log2|log10|pow|powi|sin|cos|tan|asin|acos|atan|atan2|sinh|cosh|tanh|sincos"
    r"|sincospi|modf|frexp|lround|llround|lrint|llrint)\.|exp2\.(?:v\d+)?f64)"
)


def version() -> str:
    """The version of LLVM, for cache keys."""
    return ".".join(map(str, llvm.llvm_version_info))


def assemble(text: str, target: Target, optimise: Optimise = "cleanup") -> bytes:
    """The module as a relocatable, position independent object file."""
    module, machine = _prepare(text, target, optimise)
    return machine.emit_object(module)


def assembly(text: str, target: Target, optimise: Optimise = "cleanup") -> str:
    """The module as assembler text; for an NVPTX target this is PTX."""
    module, machine = _prepare(text, target, optimise)
    return machine.emit_assembly(module)


def optimised(text: str, target: Target, optimise: Optimise = "cleanup") -> str:
    """The module after the passes, as IR text again."""
    return str(_prepare(text, target, optimise)[0])


@cache
def prepare_llvm() -> None:
    """Registers LLVM's targets, once per process."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()


@lru_cache(maxsize=16)
def _machine(triple: str, cpu: str, features: str) -> llvm.TargetMachine:
    prepare_llvm()
    # Hard-float calls must be asked for on RISC-V, whose default keeps floats in integer registers.
    convention = "lp64d" if triple.startswith("riscv64") else ""
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=features, opt=2, reloc="pic", codemodel="small", abiname=convention
    )


def _prepare(text: str, target: Target, optimise: Optimise) -> tuple[llvm.ModuleRef, llvm.TargetMachine]:
    """Parses, verifies and optimises; whatever LLVM objects to is a bug of the code that wrote the text."""
    machine = _machine(target.triple, target.cpu, target.features)
    if target.triple.startswith("nvptx") and (found := _NOT_ON_GPU.search(text)):
        number = text.count("\n", 0, found.start())
        raise _bug(f"no GPU code exists for this call\n  {text.splitlines()[number].strip()}", text)
    try:
        module = llvm.parse_assembly(text, llvm.create_context())
        # The passes ask these for the sizes of types and the costs of instructions.
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        raise _bug(str(error).strip(), text) from error
    _optimise(module, machine, optimise)
    return module, machine


def _optimise(module: llvm.ModuleRef, machine: llvm.TargetMachine, optimise: Optimise) -> None:
    if optimise == "none":
        return
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = optimise == "speed"
    builder = llvm.create_pass_builder(machine, options)
    # Pass managers serve one run only: LLVM ends the process on the second.
    if optimise == "speed":
        passes = builder.getModulePassManager()
    else:
        passes = llvm.create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        passes.add_new_gvn_pass()
        passes.add_dead_code_elimination_pass()
    passes.run(module, builder)


def _bug(message: str, text: str) -> Bug:
    """An error that leaves the whole text where it can be looked at; LLVM's messages quote the line."""
    path = Path(tempfile.gettempdir()) / f"ngmlir-{sha256(text.encode()).hexdigest()[:12]}.ll"
    try:
        path.write_text(text)
    except OSError:
        return Bug(f"LLVM rejects the generated code: {message}")
    return Bug(f"LLVM rejects the generated code: {message}", hint=f"the code is in {path}")


# Targets

_RISCV = "+m,+a,+f,+d,+c,+v"
_NAMED = {
    target.name: target
    for target in (
        Target("x86-64-v3", "x86_64-unknown-linux-gnu", "x86-64-v3", vector_bytes=32, vector_registers=16),
        Target("x86-64-v4", "x86_64-unknown-linux-gnu", "x86-64-v4", vector_bytes=64),
        Target("aarch64", "aarch64-unknown-linux-gnu", "neoverse-v2", vector_bytes=16),
        Target("riscv64", "riscv64-unknown-linux-gnu", "generic-rv64", _RISCV, vector_bytes=16),
    )
}

#: Compute capability -> the oldest PTX that knows it, so that older drivers can still compile it; from that of
#: CUDA 12.0 on. For anything else LLVM ends the process.
_PTX: dict[int, int] = {
    **dict.fromkeys((50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90), 80),
    **dict.fromkeys((100, 101, 120), 87),
    **dict.fromkeys((103, 121), 88),
    **dict.fromkeys((88, 110), 90),
}

#: First feature found -> bytes of a vector register, number of registers.
_VECTORS = (("avx512f", 64, 32), ("avx2", 32, 16), ("neon", 16, 32), ("v", 16, 32))


def cpu_target(name: str) -> Target:
    """A CPU to cross-compile for: `x86-64-v3`, `x86-64-v4`, `aarch64` or `riscv64`."""
    if name not in _NAMED:
        raise UserError(f"there is no CPU target '{name}'", hint=f"choose one of {', '.join(_NAMED)}")
    return _NAMED[name]


@cache
def host_target() -> Target:
    """The CPU of this process, as LLVM and the operating system describe it."""
    features = llvm.get_host_cpu_features()
    found = ((size, count) for feature, size, count in _VECTORS if features.get(feature))
    vector_bytes, vector_registers = next(found, (16, 16))
    return Target(
        name="cpu",
        triple=llvm.get_process_triple(),
        cpu=llvm.get_host_cpu_name(),
        features=features.flatten(),
        vector_bytes=vector_bytes,
        vector_registers=vector_registers,
        l1_bytes=_cache_bytes(level=1) or 32 * 1024,
        l2_bytes=_cache_bytes(level=2) or 1024 * 1024,
        cores=available_cores(),
    )


def nvptx_target(sm: str = "sm_90a") -> Target:
    """An NVIDIA GPU by its compute capability, such as `sm_80` or `sm_90a`."""
    match = re.fullmatch(r"sm_(\d+)([af]?)", sm)
    if match is None:
        raise UserError(f"'{sm}' is not a compute capability", hint="write it as sm_80, sm_90a ...")
    number, suffix = int(match.group(1)), match.group(2)
    if number not in _PTX or number < {"": 0, "a": 90, "f": 100}[suffix]:
        known = ", ".join(f"sm_{each}" for each in sorted(_PTX))
        raise UserError(
            f"LLVM {version()} knows no '{sm}'", hint=f"it knows {known}; the letter a from 90 on, f from 100"
        )
    ptx = max(_PTX[number], 88 if suffix == "f" else 0)
    return Target(
        name=sm,
        triple="nvptx64-nvidia-cuda",
        cpu=sm,
        features=f"+ptx{ptx}",
        execution="warps",
        vector_bytes=16,
        vector_registers=255,
        threads=128,
        shared_bytes=48 * 1024,
    )


def available_cores() -> int:
    """The cores that this process may run on, which in a container are fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cache_bytes(level: int) -> int | None:
    """The size of the first core's data cache, where Linux tells it."""
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            kind = (folder / "type").read_text().strip()
            size = (folder / "size").read_text().strip()
            if kind != "Instruction" and int((folder / "level").read_text()) == level:
                return int(size.rstrip("KM")) * {"K": 1 << 10, "M": 1 << 20}.get(size[-1:], 1)
        except (OSError, ValueError):
            continue
    return None
