# SPDX-License-Identifier: Apache-2.0
"""Operators of a program that read and write files, in the order of the program.

A program stays a function: what `load` reads is read before the run and fed at the place of the operator; what `save` writes is
fetched at its place, and written when the run is over, all files or none. What is loaded from a file that the program saved
before is the value that was saved.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...ir.literals import type_of_dtype
from ...ir.types import FloatType, TensorType
from ...programs.attributes import completed
from ...programs.catalogue import REGISTRY
from ...programs.descriptions import Operator, Program
from ...programs.fitting import check_kept
from ...programs.variable_files import Stored, read_variables, write_variables
from ...programs.vartypes import VarType, number_of
from ...support.diagnostics import Diagnostic, UserError
from .feeding import column
from .scope import LoDTensor, Scope

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Loading:
    """A file that a program reads: the variables that its values go to, and under which names they are fed."""

    operator: Operator
    path: Path
    fed: tuple[str, ...]

    def read(self) -> dict[str, Array]:
        """The values by the names that they are fed under. UserError, at the operator's line, for a file that is missing or damaged,
        or holds other values."""
        names, where = self.operator.writes, self.operator.location
        try:
            held = list(read_variables(self.path).values())
        except UserError as error:
            first = error.diagnostics[0]
            raise UserError(Diagnostic(first.message, where, hint=first.hint)) from None
        if len(held) != len(names):
            message = (
                f"'{self.path}' holds {len(held)} variables, and {self.operator.type} reads {len(names)}"
            )
            raise UserError(Diagnostic(message, where))
        for name, stored in zip(names, held, strict=True):
            variable = self.operator.block.visible(name, where)
            if variable.shape and not self.operator.attribute("load_as_fp16"):
                check_kept(variable, stored.array)
        return {fed: stored.array for fed, stored in zip(self.fed, held, strict=True)}


@dataclass(frozen=True)
class Saving:
    """A file that a program writes: the names in it, of results that follow one another."""

    operator: Operator
    path: Path
    names: tuple[str, ...]

    def check(self) -> None:
        """UserError where the file is there and may not be replaced."""
        if self.operator.attribute("overwrite") is False and self.path.exists():
            message = f"'{self.path}' is there already, and {self.operator.type} has overwrite = False"
            raise UserError(Diagnostic(message, self.operator.location))


def loadings(program: Program) -> list[Loading]:
    """The files that a program reads, but for those that it wrote before."""
    found: list[Loading] = []
    written: set[str] = set()
    for operator in program.top.operators:
        if operator.type in ("save", "save_combine"):
            written.add(_path(operator))
        elif operator.type in ("load", "load_combine") and _path(operator) not in written:
            at = len(found)
            fed = [f"{name}@LOAD@{at}" for name in operator.writes]
            found.append(Loading(operator, Path(operator.attribute("file_path")), tuple(fed)))
    return found


def carry_out(program: Program, arrays: Mapping[str, Array], columns: int) -> list[Saving]:
    """Replaces the operators of a program that read and write files by feeds of `arrays` and by fetches after the first `columns`,
    which are what the files take that are returned."""
    made = _Replacing(program, {loading.operator: loading for loading in loadings(program)}, arrays, columns)
    for operator in list(program.top.operators):
        if operator.type in ("load", "load_combine"):
            made.load(operator)
        elif operator.type in ("save", "save_combine"):
            made.save(operator)
    return made.savings


def write_files(savings: Sequence[Saving], results: Sequence[Array]) -> None:
    """Writes the results of a run, in the order of the fetches; of several files of one name the last. All files keep their old
    content until the last is written."""
    files: dict[Path, dict[str, Stored]] = {}
    left = iter(results)
    for saving in savings:
        files[saving.path] = {name: Stored(np.asarray(next(left))) for name in saving.names}
    write_variables(files)


@contextmanager
def as_before_on_failure(scope: Scope, names: Iterable[str]) -> Generator[None]:
    """Variables of a scope get back what they had, where something inside fails."""
    held = [(name, scope.find_var(name)) for name in names]
    before = [
        (name, v.value.get() if v and isinstance(v.value, LoDTensor) and v.value.is_initialized else None)
        for name, v in held
    ]
    try:
        yield
    except BaseException:
        for name, array in before:
            if array is None:
                scope.erase([name])
            else:
                scope.tensor(name).set(array)
        raise


@dataclass
class _Replacing:
    program: Program
    loading: Mapping[Operator, Loading]
    arrays: Mapping[str, Array]
    columns: int
    savings: list[Saving] = field(default_factory=list[Saving])
    #: What the files that the program has written by now hold: path -> names of variables.
    written: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def load(self, operator: Operator) -> None:
        at = operator.index
        loading = self.loading.get(operator)
        sources = self.written[_path(operator)] if loading is None else list(loading.fed)
        if len(sources) != len(operator.writes):
            message = (
                f"the file holds {len(sources)} variables, and {operator.type} reads {len(operator.writes)}"
            )
            raise UserError(Diagnostic(message, operator.location))
        self._remove(operator)
        top, where = self.program.top, operator.location
        for source, name in zip(sources, operator.writes, strict=True):
            if loading is not None:
                array = self.arrays[source]
                top.declare(source, TensorType(array.shape, type_of_dtype(array.dtype)), location=where)
                top.insert(at, "feed", {"X": ["feed"]}, {"Out": [source]}, column(0), where)
                at += 1
            self._move(at, source, name, bool(operator.attribute("load_as_fp16")), operator)
            at += 1

    def save(self, operator: Operator) -> None:
        at = operator.index
        self._remove(operator)
        kept: list[str] = []
        twice = next((n for n in operator.reads if operator.reads.count(n) > 1), None)
        if twice is not None:
            raise UserError(
                Diagnostic(f"{operator.type} saves '{twice}' twice to one file", operator.location)
            )
        for name in operator.reads:
            copy = f"{name}@SAVE@{len(self.savings)}"
            kept.append(copy)
            self.program.top.declare(copy, self.program.top.visible(name, operator.location).type)
            self._move(at, name, copy, bool(operator.attribute("save_as_fp16")), operator)
            fetched = {"Out": ["fetch"]}
            self.program.top.insert(
                at + 1, "fetch", {"X": [copy]}, fetched, column(self.columns), operator.location
            )
            self.columns += 1
            at += 2
        self.written[_path(operator)] = kept
        self.savings.append(Saving(operator, Path(operator.attribute("file_path")), tuple(operator.reads)))

    def _move(self, at: int, source: str, name: str, as_half: bool, operator: Operator) -> None:
        """`name` becomes `source`, with elements of 16 bits where floats are asked for so."""
        top = self.program.top
        element = top.visible(source, operator.location).element
        fields: dict[str, Any] = {}
        if as_half and isinstance(element, FloatType):
            fields = {"in_dtype": number_of(element), "out_dtype": VarType.FP16}
        type = "cast" if fields else "assign"
        attributes = completed(REGISTRY.get(type).entry, fields)
        top.insert(at, type, {"X": [source]}, {"Out": [name]}, attributes, operator.location)

    def _remove(self, operator: Operator) -> None:
        at = operator.index
        self.program.top.remove_operators(at, at + 1)


def _path(operator: Operator) -> str:
    return os.path.abspath(operator.attribute("file_path"))
