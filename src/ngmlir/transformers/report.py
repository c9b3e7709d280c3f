# SPDX-License-Identifier: Apache-2.0
"""A report on a compiled computation: its text at each stage, kernels and launches, memory, code, time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from ..compiler import emit_text, lower, resolve
from ..ir.core import Module, callee, op_name
from ..ir.printer import to_text
from ..passes.registry import PASSES
from ..pictures import MemoryPlan, memory_plan
from ..rewrite.contracts import contract_of
from ..rewrite.pipeline import Step
from ..runtime.targets import find_device
from ..support.diagnostics import Location
from ..support.files import write_file
from ..support.target import Target
from .bursts import kernel_times
from .page import page

#: Constants with more elements are elided in texts.
_SHOWN = 64


class Launched(NamedTuple):
    """A launch of a kernel, and the source line that it comes from."""

    kernel: str
    place: Location

    def __str__(self) -> str:
        return f"@{self.kernel} at {self.place}"


@dataclass
class _Stages:
    """Records the last module of each stage of a pipeline."""

    modules: dict[str, Module]
    at: str = "named"

    def before(self, step: Step, module: Module) -> None:
        """Nothing: modules are recorded after passes."""

    def after(self, step: Step, module: Module, seconds: float) -> None:
        self.at = contract_of(PASSES[step.name]).gives or self.at
        if self.at != "named":  # the first stage is the input program
            self.modules[self.at] = module


@dataclass
class Report:
    """A program for a target at every stage. `str` is a table and the text of each stage; notebooks show the graph.

    `times` and `assembly` are computed on demand. `modules` are the stages by name: `named`, `plain`, `fused`,
    `kernels` and `planned` (for the transformer `numpy`, which compiles nothing, only the first). A program may set
    `title`, `facts` and `curves`, which the page shows at the top.
    """

    name: str
    target: Target | None
    modules: Mapping[str, Module]
    #: Used by `times`: seconds per launch of each kernel of a planned module.
    timing: Callable[[Module], Mapping[str, float]] = field(default=kernel_times, repr=False)
    #: The heading of the page; if empty, the name of the function.
    title: str = ""
    #: Figures at the head of the page, by name: `{"test accuracy": "98.2 %"}`.
    facts: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    #: Values of each step, by name, which the page plots: `{"training loss": losses}`.
    curves: dict[str, Sequence[float]] = field(default_factory=dict[str, Sequence[float]], repr=False)

    @property
    def module(self) -> Module:
        """The program as it was lifted from the graph."""
        return self.modules["named"]

    @property
    def planned(self) -> Module | None:
        """The program from which code is generated; None for `numpy`."""
        return self.modules.get("planned")

    @cached_property
    def stages(self) -> dict[str, str]:
        """The text of each stage, by name; long constants are elided."""
        return {name: to_text(module, elide=_SHOWN) for name, module in self.modules.items()}

    @cached_property
    def launches(self) -> list[Launched]:
        """The launches in order; those in a loop or branch once."""
        if self.planned is None:
            return []
        main = (
            self.planned.ops[0] if self.planned.lookup(self.name) is None else self.planned.lookup(self.name)
        )
        assert main is not None
        return [Launched(callee(op), op.location) for op in main.walk() if op_name(op) == "tile.launch"]

    @cached_property
    def kernels(self) -> dict[str, str]:
        """The text of each kernel, by name."""
        found = self.planned.ops if self.planned is not None else ()
        return {op.symbol: to_text(op, elide=_SHOWN) for op in found if op.name == "tile.kernel"}

    @cached_property
    def memory(self) -> MemoryPlan | None:
        """The addresses and lifetimes of the buffers."""
        return memory_plan(self.planned, self.name) if self.planned is not None else None

    @property
    def peak(self) -> int:
        """Bytes of the arena, which contains all temporaries."""
        return self.memory.size if self.memory is not None else 0

    @cached_property
    def times(self) -> dict[str, float]:
        """Seconds per launch of each kernel, measured now; empty if this machine's CPU does not run them."""
        if self.planned is None or self.target is None or self.target.is_gpu:
            return {}
        return dict(self.timing(self.planned))

    @cached_property
    def llvm(self) -> str:
        """The program as LLVM IR."""
        return "" if self.target is None else emit_text(self.module, self.target, "llvm")

    @cached_property
    def assembly(self) -> str:
        """The machine code as text; for a GPU, PTX."""
        if self.target is None:
            return ""
        return emit_text(self.module, self.target, "asm")

    @property
    def summary(self) -> str:
        """The sizes in a few lines."""
        lines = [f"@{self.name} for {self.target.name if self.target else 'numpy'}"]
        for name, text in self.stages.items():
            ops = sum(op_name(op).startswith("ng.") for f in self.modules[name].ops for op in f.walk())
            lines.append(f"  {name:8} {text.count(chr(10)):>6,} lines {ops:>6,} ng ops")
        if self.planned is not None:
            count = len(self.launches)
            lines.append(
                f"  {count} launches of {len(self.kernels)} kernels; {self.peak:,} bytes of memory at the peak"
            )
        return "\n".join(lines) + "\n"

    def table(self) -> str:
        """Kernels with their launches, times, shares of the total time, and source lines; those with the longest time
        first."""
        shares = self.shares()
        lines = [f"{'kernel':40} {'launches':>8} {'us each':>10} {'share':>7}  line"]
        for kernel in self.by_time():
            place = self.place_of(kernel)
            time = f"{self.times[kernel] * 1e6:.1f}" if kernel in self.times else ""
            share = f"{shares[kernel]:.1%}" if kernel in shares else ""
            lines.append(
                f"{kernel:40} {self.count(kernel):>8} {time:>10} {share:>7}  {place if place.known else ''}".rstrip()
            )
        return "\n".join(lines) + "\n"

    def shares(self) -> dict[str, float]:
        """The fraction of each kernel in the time of all launches, from 0 to 1; empty if `times` is."""
        seconds = {kernel: self.times[kernel] * self.count(kernel) for kernel in self.times}
        total = sum(seconds.values()) or 1.0
        return {kernel: each / total for kernel, each in seconds.items()}

    def by_time(self) -> list[str]:
        """The names of the kernels, those with the longest time first."""
        shares = self.shares()
        return sorted(self.kernels, key=lambda kernel: -shares.get(kernel, 0.0))

    def place_of(self, kernel: str) -> Location:
        """The source line of the first launch of a kernel."""
        return next((launch.place for launch in self.launches if launch.kernel == kernel), Location())

    def count(self, kernel: str) -> int:
        """How many launches a kernel has."""
        return sum(launch.kernel == kernel for launch in self.launches)

    def __str__(self) -> str:
        parts = [self.summary]
        if self.kernels:
            parts.append(self.table())
        parts += [f"// ---- {name}\n{text}" for name, text in self.stages.items()]
        return "\n".join(parts)

    def _repr_svg_(self) -> str | None:
        return self.module._repr_svg_()  # pyright: ignore[reportPrivateUsage]

    # ---- files

    def html(self, path: str | Path | None = None) -> str:
        """The report as one self-contained page: graph, memory, kernels, text of all stages, and the lines of Python
        that ops come from. Written to `path` if one is given."""
        made = page(self)
        if path is not None:
            write_file(str(path), [made.encode()])
        return made

    def write(self, folder: str | Path) -> list[Path]:
        """Writes the stages, the code and the page to a folder, which is created if necessary; returns the files."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        files = {
            f"{i}-{name}.ngir": to_text(module) for i, (name, module) in enumerate(self.modules.items(), 1)
        }
        if self.target is not None:
            files["6-code.ll"] = self.llvm
            files["7-code.ptx" if self.target.is_gpu else "7-code.s"] = self.assembly
        files["report.html"] = self.html()
        for name, text in files.items():
            write_file(str(folder / name), [text.encode()])
        return [folder / name for name in files]


def report(module: Module, target: str, name: str = "") -> Report:
    """The report on a module for a transformer (`numpy`, `cpu`, `cuda`, `cuda-sim`) or a target such as `x86-64-v3`.

    `name` is the function to report on; by default the first.
    """
    name = name or module.ops[0].symbol
    modules = {"named": module}
    device = find_device(target)
    if device is not None and not device.compiles:
        return Report(name, None, modules)
    machine = resolve(target)
    lower(module, machine, watch=[_Stages(modules)])
    return Report(name, machine, modules)
