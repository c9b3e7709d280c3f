# SPDX-License-Identifier: Apache-2.0
"""Programs in files: a program with its feeds and fetches, and the values of its persistable variables.

The program is text with a checksum as its last line (`programs.text`). It says where the values are, and which:

    module attributes {program.values = {file = "params", sha256 = "..."}, program.version = 1 : i64} {

Without `file` each variable has a separate file. `sha256` is a checksum of the checksums of these files, so that values of
another save are detected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from ..ir.attributes import Attribute, DictAttr, StringAttr
from ..support.diagnostics import Diagnostic, UserError
from .descriptions import Program, Variable
from .fitting import check_kept
from .text import parse_bytes, program_bytes
from .variable_files import (
    Stored,
    checksum_of,
    file_name,
    parse_variables,
    read_file,
    variable_bytes,
    write_into_folders,
)

#: What a program is called in its folder, where nothing else is said.
PROGRAM_FILE = "__model__"
_VALUES = "program.values"


@dataclass(frozen=True)
class StoredModel:
    """A program, with `feed` and `fetch` operators, and the values of its persistable variables by name."""

    program: Program
    values: Mapping[str, Stored]

    @property
    def feeds(self) -> list[Variable]:
        """What is fed, in order."""
        top = self.program.top
        return [top.visible(o.writes[0]) for o in top.operators if o.type == "feed"]

    @property
    def fetches(self) -> list[Variable]:
        """What is fetched, in order."""
        top = self.program.top
        return [top.visible(o.reads[0]) for o in top.operators if o.type == "fetch"]


def kept_by(program: Program) -> list[Variable]:
    """What a program keeps from run to run: its persistable tensors."""
    return [v for v in program.top.variables.values() if v.persistable and v.holds == "tensor"]


def write_model(path: Path, program: Program, values: Mapping[str, Stored], values_file: str | None) -> None:
    """Writes a program to a file, and the values of its persistable variables to files next to it: one for each, or all in
    `values_file`. All files keep their old content until the last is written.

    Raises UserError where a file cannot be written, and where two would have one name.
    """
    parts = (
        {values_file: values}
        if values_file is not None
        else {file_name(n): {n: v} for n, v in values.items()}
    )
    made = {name: variable_bytes(held) for name, held in parts.items()}
    if path.name in made:
        raise UserError(
            f"'{path}' cannot hold both the program and variables", hint="give the program another file name"
        )
    named: list[tuple[str, Attribute]] = [("sha256", StringAttr(_sum_of(made)))]
    if values_file is not None:
        named.insert(0, ("file", StringAttr(values_file)))
    stated = program.copy()
    stated.set_attribute(_VALUES, DictAttr(tuple(named)))
    files = {path.parent / name: data for name, data in made.items()}
    write_into_folders({**files, path: program_bytes(stated)})


def read_model(path: Path, values_file: str | None = None) -> StoredModel:
    """What `write_model` wrote: the path is that of the program, or of the folder with a program called `__model__`.

    `values_file` is the file of all values, where it is not that which the program names. Raises UserError for files that are
    missing, cut short, altered, of a later version, or not written together, and for values that do not fit their variables.
    """
    path = path / PROGRAM_FILE if path.is_dir() else path
    program = parse_bytes(read_file(path), file=str(path))
    stated = program.module.attributes.get(_VALUES)
    program.set_attribute(_VALUES, None)
    said = dict(stated.items) if isinstance(stated, DictAttr) else {}
    whole = values_file
    if whole is None and (whole := _text(said.get("file"))) is not None and Path(whole).name != whole:
        message = (
            f"the values of this program are said to be in '{whole}', which may not be in another folder"
        )
        raise UserError(Diagnostic(message, program.location))
    kept = kept_by(program)
    names = [whole] if whole is not None and kept else list(dict.fromkeys(file_name(v.name) for v in kept))
    files = {name: read_file(path.parent / name) for name in names}
    held = {
        n: v for name, data in files.items() for n, v in parse_variables(data, path.parent / name).items()
    }
    wanted = _text(said.get("sha256"))
    if wanted is not None and wanted != _sum_of(files):
        raise UserError(
            Diagnostic(
                f"the values beside '{path}' are not those that were saved with this program",
                program.location,
                hint="save the model again; fluid.io.load_persistables puts values of another save into a scope",
            )
        )
    values = {v.name: fitting(v, held, path.parent / (whole or file_name(v.name))) for v in kept}
    return StoredModel(program, values)


def is_model(path: Path) -> bool:
    """Whether a path is that of a program in a file, or of a folder, which is to have one."""
    if path.is_dir():
        return True
    try:
        with path.open("rb") as stream:
            return b"program.version" in stream.read(4096)
    except OSError:
        return False


def fitting(variable: Variable, held: Mapping[str, Stored], file: Path) -> Stored:
    """The value that a file holds for a variable; UserError where it has none, or one of another shape or element type."""
    stored = held.get(variable.name)
    if stored is None:
        raise UserError(f"'{file}' has no variable '{variable.name}'", variable.location)
    check_kept(variable, stored.array)
    return stored


def _sum_of(files: Mapping[str, bytes]) -> str:
    """The checksum of what files of variables carry as theirs."""
    lines = [f"{name} {checksum_of(data)}\n" for name, data in sorted(files.items())]
    return sha256("".join(lines).encode()).hexdigest()


def _text(attribute: Attribute | None) -> str | None:
    return attribute.value if isinstance(attribute, StringAttr) else None
