# SPDX-License-Identifier: Apache-2.0
"""The command line of ngopt."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..decl.neighbour_text import pass_neighbours
from ..ir.cursor import shortened
from ..ir.resource_files import ResourceWriter
from ..rewrite.pipeline import Passes
from ..rewrite.remarks import COUNTED, TOPICS
from ..support.diagnostics import SHOWN_ERRORS, UserError
from ..support.spelling import did_you_mean
from .shell import Flags, flags

if TYPE_CHECKING:
    from ..compiler import Stage

ABOUT = "Reads an .ngir module, runs passes over it, and prints what comes out."
EPILOG = """\
Each pass is also a flag of its own (--list-passes names them); passes run in the order given:
  ngopt --shape --prune model.ngir
  ngopt -p 'shape,prune{assume=nsz},fuse' model.ngir
  ngopt -p cpu --emit=llvm model.ngir          a named pipeline of lowering/pipelines
mlir-opt's spellings (-one-dash, --mlir-print-..., builtin.module(...), --verify-each=0) are taken too."""

#: mlir-opt's name -> ours, where they differ by more than the prefix --mlir-.
_MLIR_NAMES = {
    "--mlir-print-debuginfo": "--print-locations",
    "--mlir-elide-elementsattrs-if-larger": "--elide",
    "--mlir-elide-resource-strings-if-larger": "--elide-resource-strings",
    "--verify-each=0": "--no-verify-each",
    "--verify-each=false": "--no-verify-each",
}
_STAGES = ("ir", "llvm", "ptx", "asm")


@dataclass(frozen=True)
class Options:
    """What a command line asks for."""

    input: str
    output: str
    pipeline: str
    target: str
    emit: Stage
    checked: bool
    debug: bool
    verify_each: bool
    split_input: bool
    verify_diagnostics: bool
    unregistered: bool
    generic: bool
    locations: bool
    aliases: bool
    timing: bool
    remarks: frozenset[str]  # the passes that are to tell of their choices
    dump_pipeline: bool
    print_before: frozenset[str] | None
    print_after: frozenset[str] | None
    print_changes: bool  # after passes that changed the module only
    color: str
    error_limit: int  # 0 = no limit
    elide: int | None  # constants of more elements are left out
    elide_strings: int | None  # resource strings of more characters are left out
    resources: str  # the file that long constants go to, or ""
    resource_folder: str | None  # where the files lie that the input names; None: beside it
    listing: str  # "dialects", "passes", "ops", "version" or ""
    help_op: str | None  # an op or a dialect
    help_pass: str | None  # a pass or a named pipeline

    def command(self, pipeline: str) -> list[str]:
        """The flags that decide what becomes of one program: those a reproducer repeats, with these passes."""
        words = [f"--target={self.target}"] if self.target != "cpu" else []
        words += [f"--emit={self.emit}"] if self.emit != "ir" else []
        words += ["--checked"] if self.checked else []
        words += ["-g"] if self.debug else []
        words += ["--allow-unregistered-dialect"] if self.unregistered else []
        words += ["--no-verify-each"] if not self.verify_each else []
        return words + ([shlex.quote(f"--pass-pipeline={pipeline}")] if pipeline else [])


def parse_options(arguments: Sequence[str], passes: Passes) -> Options:
    """The options of a command line; UserError for one that ngopt does not know."""
    known = _flags()
    found = known.read(
        _normalised(arguments, known.names(), passes),
        [f"--{name}" for name in passes],
        {f"--{name}": hint for name, hint in pass_neighbours().items()},
    )
    if len(found.input) > 1:
        raise UserError(
            f"too many inputs: {' '.join(found.input)}",
            hint="ngopt reads one file, or standard input for '-'",
        )
    return Options(
        input=found.input[0] if found.input else "-",
        output=found.o,
        # Text has its checks from the pass; code, whose memory is planned later, as it is made.
        pipeline=",".join(
            [*filter(None, found.pipeline), *["check-bounds"] * (found.checked and found.emit == "ir")]
        ),
        target=found.target,
        emit=found.emit,
        checked=found.checked and found.emit != "ir",
        debug=found.g,
        verify_each=found.verify_each,
        split_input=found.split_input_file,
        verify_diagnostics=found.verify_diagnostics,
        unregistered=found.allow_unregistered_dialect,
        generic=found.print_op_generic,
        locations=found.print_locations,
        aliases=found.print_type_aliases,
        timing=found.timing,
        remarks=_topics(found.remark),
        dump_pipeline=found.dump_pass_pipeline,
        print_before=_selected(found.print_ir_before_all, found.print_ir_before, passes),
        print_after=_selected(
            found.print_ir_after_all or (found.print_ir_after_change and not found.print_ir_after),
            found.print_ir_after,
            passes,
        ),
        print_changes=found.print_ir_after_change,
        color=found.color,
        error_limit=found.error_limit,
        elide=found.elide,
        elide_strings=found.elide_resource_strings,
        resources=_beside(found.resources, found.o, found.emit),
        resource_folder=found.resource_folder,
        listing=found.listing,
        help_op=found.help_op,
        help_pass=found.help_pass,
    )


def _flags() -> Flags:
    made = flags("ngopt", ABOUT, EPILOG)
    add = made.add_argument
    add("input", nargs="*", help="the .ngir file; '-' or nothing: standard input")
    add("-o", metavar="FILE", default="-", help="where the result goes (default: standard output)")
    add(
        "-p",
        "--pass-pipeline",
        dest="pipeline",
        action="append",
        default=[],
        metavar="PIPELINE",
        help="passes: a,b{option=1}, also inside builtin.module(...)",
    )
    add("--target", default="cpu", help="cpu (this machine), x86-64-v3, aarch64, sm_90a, ... (default: cpu)")
    add(
        "--emit",
        choices=_STAGES,
        default="ir",
        help="what to print: ir, llvm (LLVM IR), ptx, or asm (default: ir)",
    )
    add(
        "--checked",
        action="store_true",
        help="put bounds checks into kernels, as the pass check-bounds at the end",
    )
    add("-g", action="store_true", help="tell in code (--emit) which lines and loops it comes from")
    add("--verify-each", action="store_true", default=True, help="verify after every pass (default)")
    add("--no-verify-each", dest="verify_each", action="store_false", help="verify only what is read")
    add(
        "--split-input-file",
        action="store_true",
        help="the file holds several programs, parted by lines // -----",
    )
    add(
        "--verify-diagnostics",
        action="store_true",
        help="compare messages with // expected-error@+1 {{text}} comments",
    )
    add(
        "--allow-unregistered-dialect",
        action="store_true",
        help="keep ops (in generic form), types and attributes that ngmlir does not know",
    )
    add("--print-op-generic", action="store_true", help='print "dialect.op"(...) as every MLIR tool reads it')
    add("--print-locations", action="store_true", help="print loc(...) after every op")
    add(
        "--print-type-aliases",
        action="store_true",
        help="give types that are written often short names, above the module",
    )
    add(
        "--elide",
        type=_count,
        metavar="N",
        help="leave out the elements of constants that have more than N: text to look at",
    )
    add("--elide-resource-strings", type=_count, metavar="N", help=argparse.SUPPRESS)  # mlir-opt has it
    add(
        "--resources",
        metavar="FILE",
        default="",
        help="write long constants to FILE, beside the output (-o), which then names it",
    )
    add(
        "--resource-folder",
        metavar="DIR",
        help="where files lie that the input names (default: the input's own folder)",
    )
    add(
        "--print-ir-before-all",
        action="store_true",
        help="print the module before every pass, to standard error",
    )
    add(
        "--print-ir-after-all",
        action="store_true",
        help="print the module after every pass, to standard error",
    )
    add("--print-ir-before", metavar="PASSES", default="", help="the same before these passes (a,b) only")
    add("--print-ir-after", metavar="PASSES", default="", help="the same after these passes (a,b) only")
    add(
        "--print-ir-after-change",
        action="store_true",
        help="print the module after every pass that changed it (of --print-ir-after=a,b: of these), to standard error",
    )
    add("--dump-pass-pipeline", action="store_true", help="print the pipeline that runs, to standard error")
    add(
        "--remark",
        action="append",
        default=[],
        metavar="PASS",
        help=f"what a pass chose and why, to standard error: {', '.join(TOPICS)}, or all; gpu: what kernels ask of a GPU",
    )
    add("--timing", action="store_true", help="print where the time went, to standard error")
    add(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="colour in messages (NO_COLOR is honoured)",
    )
    add(
        "--error-limit",
        type=_count,
        metavar="N",
        default=SHOWN_ERRORS,
        help=f"print at most N messages; 0: all (default: {SHOWN_ERRORS})",
    )
    for name, text in (
        ("show-dialects", "dialects"),
        ("list-passes", "passes"),
        ("list-ops", "ops"),
        ("version", "version"),
    ):
        add(
            f"--{name}",
            dest="listing",
            action="store_const",
            const=text,
            default="",
            help=f"print the {text} and stop",
        )
    add("--help-op", metavar="NAME", help="print all about an op (ng.softmax), or a dialect's ops (ng)")
    add("--help-pass", metavar="NAME", help="print all about a pass, or the steps of a pipeline")
    return made


def _beside(resources: str, output: str, emit: Stage) -> str:
    """The path of a resource file, once it is one that the output can name; '' for none."""
    if not resources:
        return ""
    if output == "-" or emit != "ir":
        hint = "ngopt in.ngir -o out.ngir --resources=out.bin"
        raise UserError("--resources needs a file of IR that names the constants", hint=hint)
    ResourceWriter(resource_name(resources, output))
    return resources


def resource_name(resources: str, output: str) -> str:
    """What the text in `output` calls a resource file: the path from its own folder."""
    try:
        return Path(os.path.relpath(resources, Path(output).parent)).as_posix()
    except ValueError as error:  # another drive, or a name that no file can have
        raise UserError(f"cannot write constants to {resources!r}: {error}") from None


def _count(text: str) -> int:
    """A number, as argparse reads it."""
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"'{shortened(text)}' is not a number from 0 on")
    return int(text)


def _normalised(arguments: Sequence[str], known: Sequence[str], passes: Passes) -> list[str]:
    """mlir-opt's spellings as ours, and a pass flag `--prune=a=1` as `--pass-pipeline=prune{a=1}`."""
    out: list[str] = []
    for i, word in enumerate(arguments):
        if word == "--":
            return out + list(arguments[i:])
        name, equals, value = word.partition("=")
        word = _MLIR_NAMES.get(word) or _MLIR_NAMES.get(name, name) + equals + value
        if word.startswith("-") and not word.startswith("--"):
            name = word[1:].partition("=")[0]
            word = f"-{word}" if len(name) > 1 and (name in passes or f"--{name}" in known) else word
        unprefixed = "--" + word.removeprefix("--mlir-")
        if word.startswith("--mlir-") and unprefixed.partition("=")[0] in known:
            word = unprefixed
        name, _, options = word.removeprefix("--").partition("=")
        if word.startswith("--") and name in passes:
            word = f"--pass-pipeline={name}{{{options}}}" if options else f"--pass-pipeline={name}"
        out.append(word)
    return out


def _topics(given: Sequence[str]) -> frozenset[str]:
    """The topics of `--remark=fuse,schedule`, given once or several times."""
    words = [word for text in given for word in text.replace("|", ",").split(",") if word]
    for word in words:
        if word not in (*TOPICS, *COUNTED, "all"):
            known = (*TOPICS, *COUNTED)
            hint = did_you_mean(word, known, f"those that do: {', '.join(known)}, or all")
            raise UserError(f"pass '{word}' tells no remarks", hint=hint)
    return frozenset((set(words) - {"all"}) | set(TOPICS)) if "all" in words else frozenset(words)


def _selected(everything: bool, names: str, passes: Passes) -> frozenset[str] | None:
    """The passes around which to print; None = all."""
    if everything:
        return None
    chosen = frozenset(name.strip() for name in names.split(",") if name.strip())
    for name in chosen:
        if name not in passes:
            raise UserError(
                f"unknown pass '{name}'", hint=did_you_mean(name, passes, "see ngopt --list-passes")
            )
    return chosen
