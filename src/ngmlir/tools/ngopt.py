# SPDX-License-Identifier: Apache-2.0
"""ngopt: `.ngir` in, passes over it, `.ngir` (or LLVM IR, PTX, assembler) out. mlir-opt's manners."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from ..decl.pipeline_text import named_pipelines
from ..ir.core import Module
from ..ir.printer import to_text
from ..ir.resource_files import ResourceWriter
from ..ops.words import check_module, from_text
from ..rewrite.pipeline import Pipeline, Watch
from ..rewrite.pipeline_parser import parse_pipeline
from ..rewrite.remarks import listening
from ..support.diagnostics import Bug, Diagnostic, Limit, NgmlirError, Sources
from ..support.files import write_file
from ..support.lengths import NeedsLength, guarding
from ..support.target import Target
from ..support.version import version
from . import chunks, expected, lists
from .options import TARGET, Options, parse_options, resource_name
from .passes import PASSES
from .shell import Reproducer, painted, read_input, run, wants_colour, write_output
from .streams import Streams, streams
from .watches import Follow, PrintIR, Timing


def main(
    arguments: Sequence[str] | None = None,
    stdin: IO[Any] | None = None,
    stdout: IO[Any] | None = None,
    stderr: IO[Any] | None = None,
) -> int:
    """The exit code of a command line (without the program's name). Ends no process and leaves nothing behind, so that
    a notebook, a test or a server can call it; the streams (of text or bytes) are those of the process unless given."""
    given = sys.argv[1:] if arguments is None else arguments
    own = streams(stdin, stdout, stderr)
    with guarding():
        return run("ngopt", own, lambda reproducer: _ngopt(given, own, reproducer))


def _ngopt(arguments: Sequence[str], own: Streams, reproducer: Reproducer) -> int:
    started = time.perf_counter()
    options = parse_options(arguments, PASSES)
    if options.listing:
        own.write(_listing(options.listing))
        return 0
    if options.help_op is not None or options.help_pass is not None:
        own.write(_explanation(options.help_op, options.help_pass))
        return 0
    if options.doc_ops is not None:
        own.write(_operators(options.doc_ops))
        return 0
    pipeline = parse_pipeline(options.pipeline, PASSES)
    name, text = read_input(options.input, own)
    if options.dump_pipeline:
        own.say(f"Pass Manager with {len(pipeline.steps)} passes:\nbuiltin.module({pipeline})")
    timing = Timing()
    job = _Job(options, pipeline, name, timing, reproducer, own)
    parts = chunks.split(text) if options.split_input else [chunks.Chunk(text, 1)]
    sources = Sources({name: text})
    results = [job.chunk(part, sources) for part in parts]
    job.close()
    if not job.failed and not options.verify_diagnostics:
        with timing.stage("Output"):
            if job.beside is not None and job.beside.size:
                write_file(options.resources, job.beside.pieces())
            made = [r for r in results if r is not None]
            texts = [r for r in made if isinstance(r, str)]
            write_output(options.output, chunks.join(texts) if texts or not made else made[0], own)
    if options.timing:
        own.say(timing.report(time.perf_counter() - started))
    return 1 if job.failed else 0


class _Job:
    """One run over the programs of a file."""

    def __init__(
        self,
        options: Options,
        pipeline: Pipeline,
        name: str,
        timing: Timing,
        reproducer: Reproducer,
        own: Streams,
    ) -> None:
        self.options, self.pipeline, self.name, self.timing = options, pipeline, name, timing
        self.reproducer = reproducer
        self.own = own
        self.beside = (
            ResourceWriter(resource_name(options.resources, options.output)) if options.resources else None
        )
        self.failed = False
        self.said = 0
        if options.target != TARGET:
            _ = self.target  # so that one that does not exist is found, also where nothing needs it
        self.colour = wants_colour(options.color, own.terminal, os.environ)
        self.watches: list[Watch] = [timing]
        if options.print_before != frozenset() or options.print_after != frozenset():
            self.watches.append(
                PrintIR(
                    options.print_before,
                    options.print_after,
                    options.print_changes,
                    self.printed,
                    own,
                )
            )

    def chunk(self, part: chunks.Chunk, sources: Sources) -> str | bytes | None:
        """What becomes of one program; None where it fails, with its messages shown or compared."""
        self.reproducer.command = self.options.command(self.options.pipeline)
        if self.folder is not None and "external_resources" in part.text:
            self.reproducer.command.append(shlex.quote(f"--resource-folder={self.folder.resolve()}"))
        self.reproducer.text, self.reproducer.later = part.text, None
        verify = self.options.verify_diagnostics
        wanted = expected.expectations(part.text, self.name, part.line) if verify else []
        result, given = None, tuple[Diagnostic, ...]()
        remarks: list[Diagnostic] = []

        def tell(remark: Diagnostic) -> None:
            remarks.append(remark)
            if not verify:
                self.own.say(painted(remark.render(sources), self.colour))

        try:
            result = self.transformed(part, tell)
        except Bug:
            raise
        except NgmlirError as error:
            given = error.diagnostics
        if verify:
            given = tuple(expected.compare(wanted, (*remarks, *given), self.name))
        if given:
            self.failed = True
            self.show(given, sources)
        return result

    def show(self, given: Sequence[Diagnostic], sources: Sources) -> None:
        """Prints the messages that `--error-limit` leaves room for."""
        limit = self.options.error_limit
        room = max(0, limit - self.said) if limit else len(given)
        for diagnostic in given[:room]:
            self.own.say(painted(diagnostic.render(sources), self.colour))
        self.said += len(given)

    def close(self) -> None:
        """Says how many messages were not shown."""
        limit = self.options.error_limit
        if limit and self.said > limit:
            more = self.said - limit
            count = f"{more} more message{'s' if more > 1 else ''}"
            self.own.say(painted(f"note: {count}; --error-limit=0 shows all", self.colour))

    def transformed(self, part: chunks.Chunk, tell: Callable[[Diagnostic], None]) -> str | bytes:
        """What becomes of one program; `tell` is given the remarks of its passes."""
        options = self.options
        with self.timing.stage("Parser"):
            module = from_text(
                part.text,
                file=self.name,
                unregistered=options.unregistered,
                first_line=part.line,
                resources=self.folder,
                verify=False,
            )
        with self.timing.stage("Verifier"):
            check_module(module)
        try:
            with listening(options.remarks, tell, module):
                return self.lowered(module)
        except NeedsLength as error:  # what is fused already is not checked for the target again
            hint = "write a number in the place of each length"
            problem = f"code for {self.target.name} needs lengths as numbers, here for {error}"
            raise Limit(problem, module.location, hint=hint) from None

    def lowered(self, module: Module) -> str | bytes:
        """The module after the passes, as what is asked for."""
        options = self.options
        if self.pipeline.steps:
            pipeline = self.pipeline.going_on_with(module)
            follow = Follow(self.reproducer, options, pipeline)
            watch = [follow, *self.watches]
            module = pipeline.run(module, self.target, verify=options.verify_each, watch=watch)
        if "gpu" in options.remarks:
            from .gpu_remarks import tell  # brings the simulator along

            tell(module, self.target)
        if options.emit == "ir":
            with self.timing.stage("Printer"):
                return self.printed(module, self.beside)
        from ..compiler import emit_object, emit_text

        with self.timing.stage("Code generation"):
            if options.emit == "obj":
                return emit_object(module, self.target, checked=options.checked)
            return emit_text(module, self.target, options.emit, checked=options.checked)

    def printed(self, module: Module, file: ResourceWriter | None = None) -> str:
        """The text of a module, as the options ask for it."""
        options = self.options
        return to_text(
            module,
            generic=options.generic,
            locations=options.locations,
            aliases=options.aliases,
            elide=options.elide,
            elide_strings=options.elide_strings,
            file=file,
        )

    @property
    def folder(self) -> Path | None:
        """The folder of the files with constants."""
        if self.options.resource_folder is not None:
            return Path(self.options.resource_folder)
        return None if self.options.input == "-" else Path(self.options.input).parent

    @cached_property
    def target(self) -> Target:
        """Found when it is first needed: reading and printing take no code generator."""
        from ..compiler import resolve

        found = resolve(self.options.target)
        return replace(found, debug=True) if self.options.debug else found


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


def _explanation(op: str | None, pass_: str | None) -> str:
    """What an op is, a pass, or both."""
    from . import explain  # brings the graph along, which passes do not need

    given = [explain.help_op(op)] if op is not None else []
    given += [explain.help_pass(pass_, PASSES, named_pipelines())] if pass_ is not None else []
    return "\n".join(given)


def _operators(form: str) -> str:
    """What is said of all operators of programs, those that packages register included."""
    from ..decl import operator_pages
    from ..programs.catalogue import REGISTRY
    from ..programs.definition import GradientDefinition

    known = REGISTRY.listed().values()
    entries = [d.entry for d in known if not isinstance(d, GradientDefinition)]
    return operator_pages.json_text(entries) if form == "json" else operator_pages.markdown(entries)


if __name__ == "__main__":
    sys.exit(main())
