# SPDX-License-Identifier: Apache-2.0
"""From a module to something to call: module -> passes -> LLVM IR -> machine code -> executable.

Passes and code generation are imported when they are needed: a program from the cache needs neither.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, cast

import numpy as np

from .decl.pipeline_text import named_pipelines
from .ir.core import Module
from .ir.printer import to_text
from .ir.structure import fingerprint
from .llvm.machine import assemble as assemble_text
from .llvm.machine import assembly, listing, prepare, version
from .ops.open_lengths import open_entry
from .runtime import timing
from .runtime.cache import default_cache, key_of
from .runtime.stored import artifact_of, bytes_of, guards_as_json, guards_of, header_of
from .runtime.targets import Device, compiling_device, load
from .runtime.targets import resolve as resolve
from .support.artifact import Artifact, Constant
from .support.collector import collecting_rarely
from .support.diagnostics import Diagnostic, Limit, UserError
from .support.lengths import SEVERAL, Guard, Length, NeedsLength, guarding, lengths_from, unlike_one
from .support.progress import Progress
from .support.samples import other_lengths, unlike_sizes
from .support.spelling import did_you_mean
from .support.target import Target

if TYPE_CHECKING:
    from .codegen.unit import Parts, Piece, Unit
    from .rewrite.pipeline import Pipeline, Step, Watch
    from .runtime.cpu import CpuExecutable
    from .runtime.gpu import GpuExecutable
    from .runtime.open_cpu import OpenCpu

Stage = Literal["ir", "llvm", "ptx", "asm"]

#: The usual value of a length, where none is given.
_USUAL = 64

STAGES: tuple[Stage, ...] = ("ir", "llvm", "ptx", "asm")


class Executable(Protocol):
    """Compiled @main: arrays in, a sequence of arrays out. `bind` fixes arguments that stay where they are."""

    def __call__(self, *arrays: object) -> Sequence[object]: ...


def pipeline_for(target: Target, *, checked: bool = False) -> Pipeline:
    """The passes that bring a program to a kind of target, from lowering/pipelines; `checked` adds bounds checks."""
    return _parsed(_steps_for(target, checked), "lowering/pipelines")


def _steps_for(target: Target, checked: bool) -> str:
    return named_pipelines().expanded(target.kind) + (", check-bounds" if checked else "")


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
    if target.is_gpu:
        from .codegen import nvptx  # GPUs, and what simulates them, are loaded when they are asked for

        return nvptx.emit(module, target)
    from .codegen import cpu

    return cpu.emit(module, target)


def assemble(module: Module, target: Target) -> Artifact:
    """A lowered module as object files, one per kernel, or as PTX."""
    if target.is_gpu:
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
    from .codegen.signatures import named_as

    resolved, checked = resolve(target), checks_wanted(checked)
    cache = default_cache()
    # Programs of equal structure come from other lines.
    if cache is None or resolved.debug or resolved.timed:
        return named_as(module, _compiled(module, resolved, checked))
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
    return named_as(module, artifact)


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


def compile_module(
    module: Module, target: str = "cpu", *, entry: str | None = None, checked: bool | None = None
) -> CpuExecutable | GpuExecutable | OpenCpu:
    """@main of `module` (or its only function, or the one called `entry`), ready to call on `cpu`, `cuda` (`cuda:1` ...)
    or `cuda-sim`. Its method `entry` gives the others. The module may have been lowered in part or all the way.

    A `checked` program (by default, where the environment has NGMLIR_CHECK=1) touches nothing outside of its buffers:
    a call that would have done so raises UserError with the op, its line and the element. For kernels that are
    written or edited by hand: it is slower, and compiled again each time.

    A function with an open length (`tensor<?x4xf32>`) is compiled once and takes arrays of any length. Limit where no one code is right
    for all lengths, and on GPUs.
    """
    device = compiling_device(target)
    if (main := open_entry(module, entry)) is not None:
        return _any_lengths(module, main.symbol, device)
    return load(compile_artifact(module, target, checked=checked), device, entry)


def compile_open(
    make: Callable[[Mapping[str, int]], Module],
    usual: Mapping[str, int],
    *,
    steps: Mapping[str, int] | None = None,
    entry: str | None = None,
    checked: bool | None = None,
    least: int = SEVERAL,
) -> OpenCpu:
    """A function of arrays of any lengths, ready to call on this CPU: one code for all.

    Args:
        make: gives the module, with sizes that follow from these lengths (support/lengths.py).
        usual: by name, about what the lengths are: what schedules are chosen for.
        steps: by name, numbers that divide `usual`: `make` gets that multiple of a length, and the code's length of that name is the quotient.
        entry: the function, as for `compile_module`; `checked` too.
        least: what lengths are at least: 1 is served too, if wanted; code for that length alone may be twice as fast.

    What was decided by comparing lengths with numbers becomes its `signature.guards`: it `serves` lengths for which these hold. Raises
    NeedsLength where code cannot be made without a length, and what `lower` raises.
    """
    from .runtime.open_cpu import load_open
    from .support.arena import spacing

    target, checked = resolve("cpu"), checks_wanted(checked)
    steps = {name: (steps or {}).get(name, 1) for name in usual}
    near = {n: v // steps[n] for n, v in unlike_sizes(usual).items()}
    make = partial(_of_multiples, make, steps)
    with lengths_from(least):
        code, guards = _open_code(make, near, target, checked, least)
    return load_open(code, guards, spacing(target), entry, least)


def _open_code(
    make: Callable[[Mapping[str, int]], Module],
    near: Mapping[str, int],
    target: Target,
    checked: bool,
    least: int,
) -> tuple[Artifact, tuple[Guard, ...]]:
    """The code for all lengths, and what it assumes of them."""
    from .codegen.objects import in_background

    lengths = {n: Length.named(n, v) for n, v in near.items()}
    with guarding() as assumed:
        module = make(lengths)
    kept = _KeptOpen(module, near, target, checked, least)
    if (found := kept.find()) is not None:
        artifact, conditions = found
        guards = tuple({**assumed, **dict.fromkeys(conditions)})
        if all(guard.holds(near) for guard in conditions) and kept.is_of(make, _far(near, guards)):
            return artifact, guards
    first = _openly(lambda _: module, lengths, target, checked)
    guards = tuple({**assumed, **dict.fromkeys(first.guards)})
    with in_background(first.pieces(), target) as codes:
        second = _openly(make, _far(near, guards), target, checked)
        if first.texts != second.texts:
            differ = [a.partition("\n")[0] for a, b in zip(first.texts, second.texts, strict=False) if a != b]
            raise NeedsLength(f"the code of {differ[0] if differ else 'the program'}")
        if not all(map(_are_equal, first.parts.constants, second.parts.constants)):
            raise NeedsLength("a constant")
        *kernels, code = codes()
    artifact = first.parts.artifact("object", code, target, kernels)
    kept.keep(artifact, first.guards)
    return kept.named(artifact), guards


def _of_multiples(
    make: Callable[[Mapping[str, int]], Module], steps: Mapping[str, int], lengths: Mapping[str, int]
) -> Module:
    return make({name: steps[name] * length for name, length in lengths.items()})


def _are_equal(one: Constant, other: Constant) -> bool:
    """Whether the bytes of two constants are the same."""
    if one.data is other.data:
        return True
    mine, theirs = np.frombuffer(one.data, np.uint8), np.frombuffer(other.data, np.uint8)
    return bool(np.array_equal(mine, theirs))


def _far(near: Mapping[str, int], guards: Sequence[Guard]) -> Mapping[str, Length]:
    """Lengths that are unlike the usual ones: what was computed without the compiler's notice from the value of a length, and not from
    the length, is another number then."""
    far = other_lengths(near, guards)
    return {n: Length.named(n, far[n], v) for n, v in near.items()}


class _KeptOpen:
    """A program for all lengths in the cache, found by the structure of its module, as in `compile_artifact`, and by about what the lengths
    are: a process that begins with another batch finds it too. The conditions under which the module was made are not in the entry:
    others may make the same module under other ones."""

    def __init__(self, module: Module, near: Mapping[str, int], target: Target, checked: bool, least: int):
        self.module = module
        self.cache = None if target.debug or target.timed or checked else default_cache()
        structure, constants = self.made = fingerprint(module) if self.cache is not None else ("", ())
        self.given = [constant.data for constant in constants]
        steps = _steps_for(target, False)
        powers = {name: (length.bit_length() - 1) // 2 for name, length in near.items()}  # of 4
        self.key = key_of(
            "open", structure, repr(powers), str(least), target.key, str(target), steps, version()
        )

    def find(self) -> tuple[Artifact, tuple[Guard, ...]] | None:
        found = self.cache.read(self.key) if self.cache is not None else None
        artifact = artifact_of(found, self.given) if found is not None else None
        guards = guards_of(found.header) if found is not None else None
        if artifact is None or guards is None:
            return None
        return self.named(artifact), guards

    def is_of(self, make: Callable[[Mapping[str, int]], Module], lengths: Mapping[str, Length]) -> bool:
        """Whether the same module is made of other lengths."""
        try:
            with guarding():
                return fingerprint(make(lengths)) == self.made
        except NeedsLength:
            return False

    def named(self, artifact: Artifact) -> Artifact:
        """With the names and places of the module, which entries leave out."""
        from .codegen.signatures import named_as

        return named_as(self.module, artifact)

    def keep(self, artifact: Artifact, guards: Sequence[Guard]) -> None:
        header = header_of(artifact, self.given) if self.cache is not None else None
        if self.cache is not None and header is not None:
            header = {**header, "guards": guards_as_json(guards)}
            self.cache.write(self.key, bytes_of(artifact, header), header)


def _any_lengths(module: Module, symbol: str, device: Device) -> OpenCpu:
    """A function of text that leaves lengths open, for the CPU. What the code is not right for, such as no rows or one, is compiled when it
    is asked for."""
    from .passes.graph.known_lengths import Opened

    opened = Opened(module, symbol)
    try:
        if not device.runs_on_host:
            raise NeedsLength("code for a GPU")
        code = compile_open(opened.module, dict.fromkeys(opened.names, _USUAL), entry=symbol)
    except (NeedsLength, UserError) as error:
        message = f"@{symbol} needs a program for each length: {error}"
        hint = "ng.compile(ng.load(path)) and ngmlir run compile one for each"
        raise Limit(Diagnostic(message, opened.main.location, hint=hint)) from None

    def otherwise(lengths: Mapping[str, int]) -> CpuExecutable:
        made = load(compile_artifact(opened.module(lengths), "cpu"), compiling_device("cpu"), symbol)
        return cast("CpuExecutable", made)

    code.otherwise = otherwise
    return code


class _Openly(NamedTuple):
    """A program for all lengths before it is machine code."""

    parts: Parts
    texts: list[str]
    guards: tuple[Guard, ...]

    def pieces(self) -> list[Piece]:
        """Its pieces, whose texts are not written again."""
        pairs = zip(self.parts.pieces, self.texts, strict=True)
        return [replace(piece, text=lambda text=text: text) for piece, text in pairs]


@collecting_rarely()
def _openly(
    make: Callable[[Mapping[str, int]], Module], lengths: Mapping[str, int], target: Target, checked: bool
) -> _Openly:
    from .codegen import cpu

    with guarding() as guards:
        module = make(lengths)
        with unlike_one():
            found = cpu.parts(lower(module, target, checked=checked), target)
            texts = [piece.text() for piece in found.pieces]
    return _Openly(found, texts, tuple(guards))


def emit_text(module: Module, target: Target | str, stage: Stage, *, checked: bool | None = None) -> str:
    """A program at one of its stages: `ir` (lowered), `llvm`, `ptx` or `asm`; for a target, or the name of one.

    Raises UserError for a stage that does not exist, or that the target does not have, and what `lower` raises.
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
    if stage == "ptx" and not target.is_gpu:
        raise UserError(f"target '{target.name}' has no PTX", hint="use --target=sm_90a")
    return listing(unit.llvm, target)


def emit_object(module: Module, target: Target | str, *, checked: bool | None = None) -> bytes:
    """A program as one relocatable object file, kernels and all: what `emit_text` gives as `asm`. Raises UserError for a target
    that is no CPU, and what `lower` raises."""
    target = resolve(target)
    if target.is_gpu:
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
