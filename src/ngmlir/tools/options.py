# SPDX-License-Identifier: Apache-2.0
"""The command line of ngopt."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..decl.neighbour_text import pass_neighbours
from ..ir.resource_files import ResourceWriter
from ..rewrite.pipeline import Passes
from ..rewrite.remarks import COUNTED, TOPICS
from ..support.diagnostics import SHOWN_ERRORS, UserError
from ..support.spelling import did_you_mean
from .shell import Flags, count, flags

if TYPE_CHECKING:
    from ..compiler import Stage

    #: What is written: text at a stage, or an object file.
    Emitted = Stage | Literal["obj"]

ABOUT = "Reads an .ngir module, runs passes on it, and prints the result."
EPILOG = """\
Each pass is also a flag of its own (--list-passes names them); passes run in the order given:
  ngopt --shape --prune model.ngir
  ngopt -p 'shape,prune{assume=nsz},fuse' model.ngir
  ngopt -p cpu --emit=llvm model.ngir          a named pipeline of lowering/pipelines
The spellings of mlir-opt (-one-dash, --mlir-print-..., builtin.module(...), --verify-each=0) are accepted too."""

#: mlir-opt's name -> ours, where they differ by more than the prefix --mlir-.
_MLIR_NAMES = {
    "--mlir-print-debuginfo": "--print-locations",
    "--mlir-elide-elementsattrs-if-larger": "--elide",
    "--mlir-elide-resource-strings-if-larger": "--elide-resource-strings",
    "--verify-each=1": "--verify-each",
    "--verify-each=true": "--verify-each",
    "--verify-each=0": "--no-verify-each",
    "--verify-each=false": "--no-verify-each",
}
#: mlir-opt's flags that ask for what is always so here: passes run in one thread, and text has no aliases of attributes.
_ALWAYS = ("--mlir-disable-threading", "--mlir-print-local-scope")
#: mlir-opt's flags for what is done otherwise here.
_ADVICE = {
    "--irdl-file": "ngopt knows its own dialects only; python -m ngmlir.decl.irdl writes them for mlir-opt",
    "--emit-bytecode": "ngopt writes text: mlir-opt --emit-bytecode takes that of --print-op-generic",
    "--load-dialect-plugin": "ngopt knows its own dialects only; --allow-unregistered-dialect keeps others",
    "--load-pass-plugin": "ngopt knows its own passes only: --list-passes",
}
TARGET = "cpu"
_STAGES = ("ir", "llvm", "ptx", "asm", "obj")


@dataclass(frozen=True)
class Options:
    """What a command line asks for."""

    input: str
    output: str
    pipeline: str
    target: str
    emit: Emitted
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
    resource_folder: str | None  # the folder of the files that the input names; None: that of the input
    listing: str  # "dialects", "passes", "ops", "version" or ""
    help_op: str | None  # an op or a dialect
    help_pass: str | None  # a pass or a named pipeline
    doc_ops: Literal["json", "md"] | None  # how to write what is said of the operators of programs

    def command(self, pipeline: str) -> list[str]:
        """The flags that decide what becomes of one program: those a reproducer repeats, with these passes."""
        words = [f"--target={self.target}"] if self.target != TARGET else []
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
        {f"--{name}": hint for name, hint in pass_neighbours().items()} | _ADVICE,
    )
    if len(found.input) > 1:
        raise UserError(
            f"too many inputs: {' '.join(found.input)}",
            hint="ngopt reads one file, or standard input ('-')",
        )
    if found.emit == "obj" and found.split_input_file:
        raise UserError("--emit=obj writes one object file", hint="leave --split-input-file out")
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
        doc_ops=found.doc_ops,
    )


def _flags() -> Flags:
    made = flags("ngopt", ABOUT, EPILOG)
    add = made.add_argument
    add("input", nargs="*", help="the .ngir file (default, or '-': standard input)")
    add("-o", metavar="FILE", default="-", help="output file (default: standard output)")
    add(
        "-p",
        "--pass-pipeline",
        dest="pipeline",
        action="append",
        default=[],
        metavar="PIPELINE",
        help="passes to run: a,b{option=1}, also inside builtin.module(...)",
    )
    add(
        "--extract",
        dest="pipeline",
        action="append",
        type=_extraction,
        metavar="TARGETS",
        help="keep the operators of a program that some variables (a,b) need: the pass program-extract",
    )
    add("--target", default=TARGET, help="cpu (this machine), x86-64-v3, aarch64, sm_90a, ... (default: cpu)")
    add(
        "--emit",
        choices=_STAGES,
        default="ir",
        help="output: ir, llvm (LLVM IR), ptx, asm, or obj, an object file for a CPU (default: ir)",
    )
    add(
        "--checked",
        action="store_true",
        help="add bounds checks to kernels (the pass check-bounds)",
    )
    add("-g", action="store_true", help="add debug information (lines and loops) to the code of --emit")
    add("--verify-each", action="store_true", default=True, help="verify after every pass (default)")
    add("--no-verify-each", dest="verify_each", action="store_false", help="verify only the input")
    add(
        "--split-input-file",
        action="store_true",
        help="the file holds several programs, separated by lines // -----",
    )
    add(
        "--verify-diagnostics",
        action="store_true",
        help="check diagnostics against // expected-error@+1 {{text}} comments",
    )
    add(
        "--allow-unregistered-dialect",
        action="store_true",
        help="accept unknown ops (in generic form), types and attributes",
    )
    add("--print-op-generic", action="store_true", help='print ops in the generic form, "dialect.op"(...)')
    add("--print-locations", action="store_true", help="print loc(...) after every op")
    add(
        "--print-type-aliases",
        action="store_true",
        help="print aliases for long types, above the module",
    )
    add(
        "--elide",
        type=count,
        metavar="N",
        help="omit the elements of constants with more than N",
    )
    add("--elide-resource-strings", type=count, metavar="N", help=argparse.SUPPRESS)  # mlir-opt has it
    add(
        "--resources",
        metavar="FILE",
        default="",
        help="write long constants to FILE, beside the output (-o), which refers to it",
    )
    add(
        "--resource-folder",
        metavar="DIR",
        help="folder of the files that the input refers to (default: that of the input)",
    )
    add(
        "--print-ir-before-all",
        action="store_true",
        help="print the module before every pass, to stderr",
    )
    add(
        "--print-ir-after-all",
        action="store_true",
        help="print the module after every pass, to stderr",
    )
    add("--print-ir-before", metavar="PASSES", default="", help="print the module before these passes (a,b)")
    add("--print-ir-after", metavar="PASSES", default="", help="print the module after these passes (a,b)")
    add(
        "--print-ir-after-change",
        action="store_true",
        help="print the module after every pass (or those of --print-ir-after) that changed it, to stderr",
    )
    add("--dump-pass-pipeline", action="store_true", help="print the pipeline, to stderr")
    add(
        "--remark",
        action="append",
        default=[],
        metavar="PASS",
        help=f"print the decisions of a pass and their reasons, to stderr: {', '.join(TOPICS)}, or all; gpu: registers, occupancy and memory accesses of GPU kernels",
    )
    add("--timing", action="store_true", help="print the time of each pass, to stderr")
    add(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="colours in messages (NO_COLOR is respected)",
    )
    add(
        "--error-limit",
        type=count,
        metavar="N",
        default=SHOWN_ERRORS,
        help=f"print at most N errors; 0: all (default: {SHOWN_ERRORS})",
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
            help=f"print the {text} and exit",
        )
    add("--help-op", metavar="NAME", help="describe an op (ng.softmax), or list the ops of a dialect (ng)")
    add("--help-pass", metavar="NAME", help="describe a pass, or list the steps of a pipeline")
    add("--doc-ops", choices=("json", "md"), help="describe all operators of programs, as JSON or Markdown")
    return made


def _beside(resources: str, output: str, emit: Emitted) -> str:
    """The path of a resource file, once it is one that the output can name; '' for none."""
    if not resources:
        return ""
    if output == "-" or emit != "ir":
        hint = "ngopt in.ngir -o out.ngir --resources=out.bin"
        raise UserError("--resources needs an output file (-o) of IR", hint=hint)
    ResourceWriter(resource_name(resources, output))
    return resources


def resource_name(resources: str, output: str) -> str:
    """What the text in `output` calls a resource file: the path from its own folder."""
    try:
        return Path(os.path.relpath(resources, Path(output).parent)).as_posix()
    except ValueError as error:  # another drive, or a name that no file can have
        raise UserError(f"cannot write constants to {resources!r}: {error}") from None


def _extraction(targets: str) -> str:
    """The pass that keeps what variables need; their names are joined by commas."""
    return f"program-extract{{targets={'+'.join(targets.split(','))}}}"


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
        if "--" + word.lstrip("-") in _ALWAYS:
            continue
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
            hint = did_you_mean(word, known, f"remarks: {', '.join(known)}, or all")
            raise UserError(f"pass '{word}' has no remarks", hint=hint)
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
