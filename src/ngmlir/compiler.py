# SPDX-License-Identifier: Apache-2.0
"""From a module to something to call: module -> passes -> LLVM IR -> machine code -> executable.

Passes and code generation are imported when they are needed: a program from the cache needs neither.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Literal, Protocol

from .decl.pipeline_text import named_pipelines
from .ir.core import Module, Op, Value
from .ir.core import module as core_module
from .ir.definition import is_narrow
from .ir.printer import to_text
from .ir.structure import fingerprint
from .ir.types import TensorType, element_type
from .llvm.machine import assemble as assemble_text
from .llvm.machine import assembly, cpu_target, host_target, listing, nvptx_target, prepare, version
from .ops.sampled import is_sampled, of_its_lengths
from .runtime import cpu as cpu_runtime
from .runtime import profile, timing
from .runtime.cache import default_cache, key_of
from .runtime.stored import artifact_of, bytes_of, header_of
from .support.artifact import Artifact, Entry
from .support.collector import collecting_rarely
from .support.diagnostics import Diagnostic, Limit, UserError
from .support.machines import machines
from .support.progress import Progress
from .support.signature import Parameter
from .support.spelling import did_you_mean
from .support.target import Target

if TYPE_CHECKING:
    from .codegen.unit import Unit
    from .passes.sizing.blocks import Blocks
    from .rewrite.pipeline import Pipeline, Step, Watch
    from .runtime.cuda import CudaDevice
    from .runtime.cuda_sim import CudaSimDevice
    from .runtime.gpu import GpuExecutable
    from .runtime.rows import CpuRows, GpuRows

Stage = Literal["ir", "llvm", "ptx", "asm"]

STAGES: tuple[Stage, ...] = ("ir", "llvm", "ptx", "asm")

#: What `target=` may name, besides CPU and GPU models such as `x86-64-v3` and `sm_80`.
TARGETS = ("cpu", "cuda", "cuda-sim")

#: A GPU by its number; `cuda` is the first.
_CUDA = re.compile(r"cuda(?::(\d+))?")

#: The named pipeline that leads to each kind of code.
_PIPELINES = {"cpu": "cpu", "nvptx": "gpu"}

_devices: dict[str, CudaDevice | CudaSimDevice] = {}
_lock = Lock()


class Executable(Protocol):
    """Compiled @main: arrays in, a sequence of arrays out. `bind` fixes arguments that stay where they are."""

    def __call__(self, *arrays: object) -> Sequence[object]: ...


def resolve(target: Target | str) -> Target:
    """A target by name: `cpu` (this machine), `cuda`, `cuda:1`, `cuda-sim`, `x86-64-v3`, `aarch64`, `sm_80` ...; with lines of
    source where programs are profiled (NGMLIR_PROFILE). Raises UserError for a name that is none, and for `cuda` where there
    is no GPU."""
    if isinstance(target, Target):
        return target
    found = _resolve(target)
    listener = timing.current()
    timed = listener is not None and listener.counts == (found.code == "nvptx")
    return replace(found, debug=profile.wanted(), timed=timed)


def _resolve(target: str) -> Target:
    if target == "cpu":
        return host_target()
    if _CUDA.fullmatch(target):
        major, minor = _device(target).describe().capability
        # The architecture's own instructions (wgmma and the like) are in the "a" variant.
        return nvptx_target(f"sm_{major}{minor}{'a' if major >= 9 else ''}")
    if target == "cuda-sim":
        return nvptx_target()
    if target.startswith("sm_"):
        return nvptx_target(target)
    if target not in machines().named and (near := did_you_mean(target, TARGETS)):
        raise UserError(f"there is no target '{target}'", hint=near)
    return cpu_target(target)


def profile_for(target: str, threads: int | None = None) -> timing.Profile:
    """What listens to programs for a target: on `cpu` it times them, on `cuda-sim` it counts what they ask of a GPU. Limit for others."""
    if target == "cpu":
        return timing.Profile(threads)
    if target == "cuda-sim":
        from .runtime.gpu_profile import GpuProfile

        return GpuProfile(resolve(target).gpu)
    raise Limit(
        f"programs for {target} are not timed",
        hint='give target="cpu", or "cuda-sim" for counts and predicted bounds',
    )


def pipeline_for(target: Target, *, checked: bool = False) -> Pipeline:
    """The passes that bring a program to a kind of target, from lowering/pipelines; `checked` adds bounds checks."""
    return _parsed(_steps_for(target, checked), "lowering/pipelines")


def _steps_for(target: Target, checked: bool) -> str:
    return named_pipelines().expanded(_PIPELINES[target.code]) + (", check-bounds" if checked else "")


def _parsed(steps: str, file: str) -> Pipeline:
    from .passes.registry import PASSES
    from .rewrite.pipeline_parser import parse_pipeline

    return parse_pipeline(steps, PASSES, file=file)


def checks_wanted(checked: bool | None = None) -> bool:
    """Whether programs get bounds checks: as said, else as the environment's NGMLIR_CHECK says (`1`: yes)."""
    return os.environ.get("NGMLIR_CHECK", "0") not in ("", "0") if checked is None else checked


def lower(
    module: Module,
    target: Target | str,
    pipeline: str | None = None,
    *,
    checked: bool = False,
    verify: bool = False,
    watch: Sequence[Watch] = (),
) -> Module:
    """The module after passes: as code generation takes it (kernels, and functions on planned memory), or after `pipeline`.

    Args:
        module: a program of any stage; passes of named pipelines that it went through are left out.
        target: a target, or the name of one, as `resolve` takes it.
        pipeline: passes and named pipelines as ngopt takes them: `canonical`, `canonical,fuse`.
        checked: whether accesses are checked, as `compile_module` says.
        verify: whether each pass's result is verified.
        watch: told before and after each pass.

    Raises UserError where the program, the pipeline or a name is wrong, Limit where this version cannot compile an op.
    """
    machine = resolve(target)
    if pipeline is None:
        steps = pipeline_for(machine, checked=checked).from_stage_of(module)
    else:
        steps = _parsed(pipeline, "<pipeline>").going_on_with(module)
    listener = timing.current()
    watching = [*watch, *([_Stages(listener)] if listener is not None else [])]
    return steps.run(module, machine, verify=verify, watch=watching)


@dataclass(frozen=True)
class _Stages:
    """Tells a profile how long each pass takes."""

    profile: timing.Profile

    def before(self, step: Step, module: Module) -> None:
        pass

    def after(self, step: Step, module: Module, seconds: float) -> None:
        self.profile.stage(step.name, seconds)


def emit(module: Module, target: Target) -> Unit:
    """LLVM text of a lowered module."""
    if target.code == "nvptx":
        from .codegen import nvptx  # GPUs, and what simulates them, are loaded when they are asked for

        return nvptx.emit(module, target)
    from .codegen import cpu

    return cpu.emit(module, target)


def assemble(module: Module, target: Target) -> Artifact:
    """A lowered module as object files, one per kernel, or as PTX."""
    if target.code == "nvptx":
        unit = emit(module, target)
        ptx = assembly(unit.llvm, target).encode()
        return unit.artifact("ptx", ptx, target)
    from .codegen import cpu
    from .codegen.objects import objects

    parts = cpu.parts(module, target)
    # Kernels are the same whether or not somebody notes when they are launched.
    *kernels, code = objects(parts.pieces, replace(target, timed=False))
    return parts.artifact("object", code, target, kernels)


def compile_artifact(module: Module, target: Target | str, *, checked: bool | None = None) -> Artifact:
    """A program as bytes that a device can load without a compiler; from the cache if one of equal structure was
    compiled before. Its entries are the functions that are not private. `checked` as for `compile_module`."""
    resolved, checked = resolve(target), checks_wanted(checked)
    module = module.with_ops([of_its_lengths(op) for op in module.ops])
    cache = default_cache()
    # Programs of equal structure come from other lines.
    if cache is None or resolved.debug or resolved.timed:
        return _named(_compiled(module, resolved, checked), module)
    structure, constants = fingerprint(module)
    given = [constant.data for constant in constants]
    key = key_of("artifact", structure, resolved.key, str(resolved), _steps_for(resolved, checked), version())
    found = cache.read(key)
    artifact = artifact_of(found, given) if found is not None else None
    if artifact is None:
        artifact = _compiled(module, resolved, checked)
        header = header_of(artifact, given)
        if header is not None:
            cache.write(key, bytes_of(artifact, header), header)
    return _named(artifact, module)


@dataclass(frozen=True)
class _Shown:
    """Shows on a terminal which pass runs, where compilation takes longer than a second."""

    progress: Progress

    def before(self, step: Step, module: Module) -> None:
        self.progress.reach(self.progress.done, step.name)

    def after(self, step: Step, module: Module, seconds: float) -> None:
        self.progress.reach(self.progress.done + 1, step.name)


@collecting_rarely()
def _compiled(module: Module, target: Target, checked: bool) -> Artifact:
    prepare()
    with Progress(len(pipeline_for(target, checked=checked).steps), "compiling", after=1.0) as progress:
        lowered = _lowered(module, target, checked, [_Shown(progress)])
    started = time.perf_counter()
    artifact = assemble(lowered, target)
    if (listener := timing.current()) is not None:
        listener.stage("code generation", time.perf_counter() - started)
    return artifact


def _named(artifact: Artifact, module: Module) -> Artifact:
    """The artifact with the names and places that `module` gives to what its entries take and return."""

    entries: list[Entry] = []
    for each in artifact.entries:
        function = module.lookup(each.signature.name)
        assert function is not None
        signature = replace(
            each.signature,
            arguments=_renamed(each.signature.arguments, function.block.args, function),
            results=_renamed(each.signature.results, function.block.ops[-1].operands, function),
        )
        entries.append(replace(each, signature=signature))
    return replace(artifact, entries=tuple(entries))


def _renamed(parameters: Sequence[Parameter], values: Sequence[Value], function: Op) -> tuple[Parameter, ...]:
    """Parameters called like the values that they are (numbered where these have no name), with their element types."""
    names = [v.name or str(i) for i, v in enumerate(values[: len(parameters)])]
    names += [str(i) for i in range(len(names), len(parameters))]
    # Where the program computes with codes, its arrays are of the type that these are of.
    elements = [element_type(v.type) for v in values[: len(parameters)]]
    dtypes = [e.text if is_narrow(e) else p.dtype for e, p in zip(elements, parameters, strict=False)]
    dtypes += [p.dtype for p in parameters[len(dtypes) :]]
    return tuple(
        replace(p, name=n, dtype=d, location=function.location)
        for p, n, d in zip(parameters, names, dtypes, strict=True)
    )


def compile_module(
    module: Module, target: str = "cpu", *, entry: str | None = None, checked: bool | None = None
) -> cpu_runtime.CpuExecutable | GpuExecutable | CpuRows | GpuRows:
    """@main of `module` (or its only function, or the one called `entry`), ready to call on `cpu`, `cuda` (`cuda:1` ...)
    or `cuda-sim`. Its method `entry` gives the others. The module may have been lowered in part or all the way.

    A `checked` program (by default, where the environment has NGMLIR_CHECK=1) touches nothing outside of its buffers:
    a call that would have done so raises UserError with the op, its line and the element. For kernels that are
    written or edited by hand: it is slower, and compiled anew each time.

    A function with an open length (`tensor<?x4xf32>`) is compiled once and takes arrays of any length. Limit where it computes
    across rows, so that each length needs a program of its own.
    """
    if target not in TARGETS and not _CUDA.fullmatch(target):
        raise UserError(
            f"programs for this target cannot run here: '{target}'",
            hint=did_you_mean(str(target), TARGETS, f"choose {', '.join(TARGETS)}"),
        )
    if (main := open_entry(module, entry)) is not None:
        blocks = _only_blocks(module, main, resolve(target))
        if blocks is not None:
            return compile_blocks(blocks, target, checked=checked)
    artifact = compile_artifact(module, target, checked=checked)
    if target == "cpu":
        return cpu_runtime.load(artifact, entry=entry)
    from .runtime import gpu

    return gpu.load(artifact, _device(target), entry=entry)


def compile_blocks(found: Blocks, target: str, *, checked: bool | None = None) -> CpuRows | GpuRows:
    """A function of any number of rows, ready to call on `cpu`, `cuda` or `cuda-sim`: one artifact for all."""
    artifact = compile_artifact(core_module(found.functions), target, checked=checked)
    names = [function.symbol for function in found.functions]
    first = names[0]
    from .runtime.rows import CpuRows, GpuRows

    if target == "cpu":
        loaded = cpu_runtime.load(artifact, entry=first)
        return CpuRows(found.signature, [loaded, *map(loaded.entry, names[1:])])
    from .runtime import gpu

    on_device = gpu.load(artifact, _device(target), entry=first)
    return GpuRows(found.signature, [on_device, *map(on_device.entry, names[1:])])


def open_entry(module: Module, entry: str | None) -> Op | None:
    """The function that is asked for, if lengths of its arguments are for the arrays of a call to say."""
    functions = [op for op in module.ops if op.name == "func.func" and op.regions[0].blocks]
    found = module.lookup(entry or "main") if entry or len(functions) != 1 else functions[0]
    if found is None or found not in functions:
        return None
    open_ = any(isinstance(a.type, TensorType) and not a.type.static for a in found.block.args)
    return found if open_ or is_sampled(found) else None


def _only_blocks(module: Module, main: Op, target: Target) -> Blocks | None:
    """The blocks of a function with one open length; None where there are none, but it can be compiled for the lengths that
    its types say. Limit where they say none."""
    from .passes.inline import inlined
    from .passes.sizes import decisions

    whole = inlined(module).lookup(main.symbol)
    assert whole is not None
    found = decisions(whole, target)
    for each in found:
        each.tell()
        if each.blocks is not None and len(found) == 1:
            return each.blocks
    if all(isinstance(a.type, TensorType) and a.type.static for a in whole.block.args):
        return None
    which = next((each for each in found if each.blocks is None), found[-1])
    raise Limit(
        Diagnostic(
            f"@{main.symbol} needs along {which.length.name} {which.why.message}",
            which.why.location,
            hint="ng.compile(ng.load(path)) and ngmlir run compile a program for each length",
        )
    )


def emit_text(module: Module, target: Target | str, stage: Stage, *, checked: bool | None = None) -> str:
    """A program at one of its stages: `ir` (lowered), `llvm`, `ptx` or `asm`; for a target, or the name of one.

    Raises UserError for a landing that there is not, or that the target does not have, and what `lower` raises.
    """
    if stage not in STAGES:
        raise UserError(
            f"there is no stage {stage!r}",
            hint=did_you_mean(str(stage), STAGES, f"one of {', '.join(STAGES)}"),
        )
    target = resolve(target)
    lowered = _lowered(module, target, checks_wanted(checked))
    if stage == "ir":
        return to_text(lowered)
    unit = emit(lowered, target)
    if stage == "llvm":
        return unit.llvm
    if stage == "ptx" and target.code != "nvptx":
        raise UserError(f"target '{target.name}' has no PTX", hint="use --target=sm_90a")
    return listing(unit.llvm, target)


def emit_object(module: Module, target: Target | str, *, checked: bool | None = None) -> bytes:
    """A program as one relocatable object file, kernels and all: what `emit_text` gives as `asm`. Raises UserError for a target
    that is no CPU, and what `lower` raises."""
    target = resolve(target)
    if target.code != "cpu":
        raise UserError(f"target '{target.name}' has no object files", hint="use --emit=ptx")
    unit = emit(_lowered(module, target, checks_wanted(checked)), target)
    return assemble_text(unit.llvm, target)


def _lowered(module: Module, target: Target, checked: bool, watch: Sequence[Watch] = ()) -> Module:
    """The module as code generation takes it, also if that is what it is already.

    Raises UserError where a module says that its memory is planned but is not so.
    """
    from .rewrite.stages import violations

    functions = [op for op in module.ops if op.name == "func.func" and op.regions[0].blocks]
    planned = [op for op in functions if "ng.arguments" in op.attributes]
    if planned and len(planned) == len(functions) and (found := violations(module, "planned")):
        raise UserError(found)
    return lower(module, target, checked=checked, watch=watch)


def _device(target: str) -> CudaDevice | CudaSimDevice:
    """The GPU of that name, the same one for all programs and threads: buffers go from program to program. One that has
    stopped gives way to a new beginning."""
    target = "cuda" if target == "cuda:0" else target
    with _lock:
        if target not in _devices or _devices[target].lost:
            if found := _CUDA.fullmatch(target):
                from .runtime.cuda import CudaDevice

                _devices[target] = CudaDevice(int(found[1] or 0))
            else:
                from .runtime.cuda_sim import CudaSimDevice

                _devices[target] = CudaSimDevice()
        return _devices[target]
