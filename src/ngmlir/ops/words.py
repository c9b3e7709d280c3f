# SPDX-License-Identifier: Apache-2.0
"""The op classes of all dialects, and text to verified module and back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..decl.neighbour_text import op_neighbours
from ..ir.core import Module, ModuleOp, Op
from ..ir.parser import parse
from ..ir.printer import to_text
from ..ir.resource_files import ResourceFolder
from ..ir.verifier import check
from ..support.lengths import guarding
from . import func, ng, program, tile
from .accesses import check_accesses
from .copies import check_copies

#: Op name -> class, of every dialect.
WORDS: dict[str, type[Op]] = {"builtin.module": ModuleOp, **func.OPS, **ng.OPS, **program.OPS, **tile.OPS}

__all__ = ["WORDS", "check_module", "from_text", "to_text"]


def from_text(
    text: str,
    *,
    file: str = "<text>",
    verify: bool = True,
    unregistered: bool = False,
    first_line: int = 1,
    resources: str | Path | None = None,
    lengths: Mapping[str, int] | None = None,
) -> Module:
    """The module that `text` represents, verified unless told otherwise; UserError with file:line:col if it is not valid.
    `text` may be a part of a file, from `first_line` on. Constants in files are mapped from below the folder
    `resources`; without one, text that names files is rejected. `lengths` are the values of named lengths (`tensor<[N]xf32>`), numbers or
    support.lengths.Length; without them such sizes have values that no other size has by chance."""
    folder = ResourceFolder(None if resources is None else Path(resources))
    # Conditions on lengths for the text to be valid are checked by the calls of the compiled program.
    with guarding():
        module = parse(
            text,
            WORDS,
            file=file,
            unregistered=unregistered,
            first_line=first_line,
            advice=_advice,
            resources=folder,
            lengths=lengths,
        )
        if verify:
            check_module(module)
    return module


def check_module(module: Module) -> None:
    """UserError with all errors in a program, at any stage."""
    check(module)
    check_accesses(module)
    check_copies(module)


def _advice(name: str) -> str:
    """The op here that corresponds to an op of another dialect, as a hint; `matmul` may be that of any."""
    known = op_neighbours()
    if "." not in name:
        name = next((theirs for theirs in known if theirs.rpartition(".")[2] == name), name)
    return known.get(name, "")
