# SPDX-License-Identifier: Apache-2.0
"""ngopt: `.ngir` in, passes over it, `.ngir` (or LLVM IR, PTX, assembler) out. mlir-opt's manners."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from functools import cached_property

from ..decl.pipeline_text import named_pipelines
from ..ir.printer import to_text
from ..ops.words import from_text
from ..passes.registry import PASSES
from ..rewrite.pipeline import Pipeline, Watch, parse_pipeline
from ..support.diagnostics import Bug, Diagnostic, NgmlirError
from ..support.target import Target
from ..support.version import version
from . import chunks, expected, lists
from .options import Options, parse_options
from .shell import Reproducer, read_input, run, say, show, wants_colour, write_output
from .watches import Follow, PrintIR, Timing


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code of a command line (without the program's name)."""
    given = sys.argv[1:] if arguments is None else arguments
    return run("ngopt", lambda reproducer: _ngopt(given, reproducer))


def _ngopt(arguments: Sequence[str], reproducer: Reproducer) -> int:
    started = time.perf_counter()
    options = parse_options(arguments, PASSES)
    if options.listing:
        write_output("-", _listing(options.listing))
        return 0
    pipeline = parse_pipeline(named_pipelines().expanded(options.pipeline), PASSES)
    name, text = read_input(options.input)
    if options.dump_pipeline:
        say(f"Pass Manager with {len(pipeline.steps)} passes:\nbuiltin.module({pipeline})")
    timing = Timing()
    job = _Job(options, pipeline, name, timing, reproducer)
    texts = chunks.split(text) if options.split_input else [text]
    results = [job.chunk(chunk) for chunk in texts]
    if not job.failed and not options.verify_diagnostics:
        with timing.stage("Output"):
            write_output(options.output, chunks.join([r for r in results if r is not None]))
    if options.timing:
        say(timing.report(time.perf_counter() - started))
    return 1 if job.failed else 0


class _Job:
    """One run over the programs of a file."""

    def __init__(
        self, options: Options, pipeline: Pipeline, name: str, timing: Timing, reproducer: Reproducer
    ) -> None:
        self.options, self.pipeline, self.name, self.timing = options, pipeline, name, timing
        self.reproducer = reproducer
        self.failed = False
        self.colour = wants_colour(options.color, sys.stderr.isatty(), os.environ)
        self.watches: list[Watch] = [timing]
        if options.print_before != frozenset() or options.print_after != frozenset():
            self.watches.append(
                PrintIR(
                    options.print_before,
                    options.print_after,
                    generic=options.generic,
                    locations=options.locations,
                )
            )

    def chunk(self, text: str) -> str | None:
        """What becomes of one program; None where it fails, with its messages shown or compared."""
        self.reproducer.command = self.options.command(self.options.pipeline)
        self.reproducer.text, self.reproducer.later = text, None
        wanted = expected.expectations(text, self.name) if self.options.verify_diagnostics else []
        result, given = None, tuple[Diagnostic, ...]()
        try:
            result = self.transformed(text)
        except Bug:
            raise
        except NgmlirError as error:
            given = error.diagnostics
        if self.options.verify_diagnostics:
            given = tuple(expected.compare(wanted, given, self.name))
        if given:
            self.failed = True
            show(given, {self.name: text}, self.colour)
        return result

    def transformed(self, text: str) -> str:
        options = self.options
        with self.timing.stage("Parser"):
            module = from_text(text, file=self.name, unregistered=options.unregistered)
        if self.pipeline.steps:
            follow = Follow(self.reproducer, options, self.pipeline)
            watch = [follow, *self.watches]
            module = self.pipeline.run(module, self.target, verify=options.verify_each, watch=watch)
        if options.emit == "ir":
            with self.timing.stage("Printer"):
                return to_text(module, generic=options.generic, locations=options.locations)
        from ..compiler import emit_text

        with self.timing.stage("Code generation"):
            return emit_text(module, self.target, options.emit)

    @cached_property
    def target(self) -> Target:
        """Found when it is first needed: reading and printing take no code generator."""
        from ..compiler import resolve

        return resolve(self.options.target)


def _listing(what: str) -> str:
    match what:
        case "dialects":
            return lists.dialects() + "\n"
        case "passes":
            return lists.passes(PASSES) + lists.pipelines(named_pipelines())
        case "ops":
            return lists.ops()
        case _:
            from ..llvm import machine

            return f"ngopt {version()} (LLVM {machine.version()})\n"


if __name__ == "__main__":
    sys.exit(main())
