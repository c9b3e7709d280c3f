# SPDX-License-Identifier: Apache-2.0
"""The whole dictionary in one hand: text to verified module and back."""

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
    """The module that `text` spells, verified unless told otherwise; UserError with file:line:col if it is none.
    `text` may be a part of a file, from `first_line` on. Constants that lie in files are mapped from below the folder
    `resources`; without one, text that names files is refused. `lengths` are the values of named ones (`tensor<[N]xf32>`), numbers or
    support.lengths.Length; without them such sizes have values that no other size has by chance."""
    folder = ResourceFolder(None if resources is None else Path(resources))
    # What must hold of lengths for the text to be valid is for who compiles it to ask of calls.
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
    """UserError with all that keeps a program from being valid, whatever its stage."""
    check(module)
    check_accesses(module)
    check_copies(module)


def _advice(name: str) -> str:
    """What does here what an op of another dialect does; `matmul` may be that of any."""
    known = op_neighbours()
    if "." not in name:
        name = next((theirs for theirs in known if theirs.rpartition(".")[2] == name), name)
    return known.get(name, "")
