# SPDX-License-Identifier: Apache-2.0
"""What ngopt notes while a pipeline runs: the IR around each pass, where a bug report begins, and where the time went."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from ..ir.core import Module
from ..ir.printer import to_text
from ..ir.structure import structure
from ..rewrite.pipeline import Pipeline, Step
from .options import Options
from .shell import Reproducer
from .streams import Streams


class PrintIR:
    """Prints the module before and after the passes of these names; `None` means all passes. With `changes`, only after
    those that changed it: names and places of its parts are no change."""

    def __init__(
        self,
        before: Collection[str] | None,
        after: Collection[str] | None,
        changes: bool,
        printed: Callable[[Module], str],
        streams: Streams,
    ) -> None:
        self.selected = {"Before": before, "After": after}
        self.changes, self.printed, self.streams = changes, printed, streams
        self.last: Module | None = None

    def before(self, step: Step, module: Module) -> None:
        self.last = module
        self.dump("Before", step, module)

    def after(self, step: Step, module: Module, seconds: float) -> None:
        if not self.changes or self.last is None or self._changed(self.last, module):
            self.dump("After", step, module)

    def _changed(self, last: Module, module: Module) -> bool:
        return module is not last and structure(module) != structure(last)

    def dump(self, when: str, step: Step, module: Module) -> None:
        names = self.selected[when]
        if names is None or step.name in names:
            title = "".join(part.capitalize() for part in step.name.split("-"))
            self.streams.say(f"// -----// IR Dump {when} {title} ({step.name}) //----- //")
            self.streams.say(self.printed(module))


class Follow:
    """Lets a bug report begin at the pass that fails: with the module before it, and the passes from it on."""

    def __init__(self, reproducer: Reproducer, options: Options, pipeline: Pipeline) -> None:
        self.reproducer, self.options, self.left = reproducer, options, pipeline

    def before(self, step: Step, module: Module) -> None:
        pass

    def after(self, step: Step, module: Module, seconds: float) -> None:
        self.left = replace(self.left, steps=self.left.steps[1:])
        self.reproducer.later = (self.options.command(str(self.left)), partial(to_text, module))


class Timing:
    """Wall time of every stage, in the order in which they first ran."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.started = 0.0

    @contextmanager
    def stage(self, name: str) -> Generator[None]:
        """Counts the time inside the `with`."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, time.perf_counter() - started)

    def add(self, name: str, seconds: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    def before(self, step: Step, module: Module) -> None:
        self.started = time.perf_counter()

    def after(self, step: Step, module: Module, seconds: float) -> None:
        self.add(step.name, seconds)
        # What came between the pass and this is the verification of its result.
        self.add("Verifier", max(0.0, time.perf_counter() - self.started - seconds))

    def report(self, total: float) -> str:
        """A table as mlir-opt prints it. `Verifier` is the check of the input and of what each pass made, `Rest` what no stage
        accounts for: starting, and reading pipelines."""
        bar = f"===-{'-' * 73}-==="
        rows = [
            *self.seconds.items(),
            ("Rest", max(0.0, total - sum(self.seconds.values()))),
            ("Total", total),
        ]
        lines = [bar, "... Execution time report ...".center(len(bar)).rstrip(), bar]
        lines += [f"  Total Execution Time: {total:.4f} seconds", "", "  ----Wall Time----  ----Name----"]
        lines += [
            f"  {seconds:8.4f} ({100 * seconds / (total or 1):5.1f}%)  {name}" for name, seconds in rows
        ]
        return "\n".join(lines)
