# SPDX-License-Identifier: Apache-2.0
"""A rank, or a server: its program in pieces between the operators that communicate with others, and its scope."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir.literals import dtype_of
from ...programs.descriptions import Operator
from ...programs.descriptions import Program as ProgramView
from ...programs.distribute import Part, Piece
from ...programs.names import EMPTY
from ...programs.operators.collectives import COLLECTIVES
from ...programs.rank_files import Saved, whole
from ...support.diagnostics import Diagnostic, Limit, UserError
from .executor import Executor
from .framework import Program
from .scope import LoDTensor, Scope

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class _Run:
    """Operators between two communications, as a program; its feeds and fetches besides persistable variables; and the operator after it."""

    program: Program | None
    fed: Sequence[str]
    given: Sequence[str]
    last: Operator | None


class Member:
    """A rank or a server. The parts of its program exchange values through its scope."""

    def __init__(self, part: Part, executor: Executor):
        self.part, self.executor, self.scope = part, executor, Scope()
        self._runs: dict[tuple[str, ...], list[_Run]] = {}

    def begin(self, scope: Scope) -> None:
        """Takes what its persistable variables begin with from the scope of the whole program."""
        for name, piece in self.kept():
            found = scope.find_var(name if piece is None else piece.source)
            if found is not None:
                value = np.array(found.get_tensor())
                self.set(name, value if piece is None else value[place_of(piece)])

    def kept(self) -> Iterator[tuple[str, Piece | None]]:
        """Its persistable tensors, and which part of a variable of the whole program each is; None for all of the one of its name."""
        for name, variable in self.part.program.top.variables.items():
            if variable.persistable and variable.holds == "tensor":
                yield name, self.part.pieces.get(name)

    def held(self) -> list[Saved]:
        """What it keeps: of each variable of the whole program its piece."""
        return [Saved(piece or whole(name), self.get(name)) for name, piece in self.kept()]

    def parts_of(self, values: Mapping[str, Array], folder: str) -> dict[str, Array]:
        """What it is to keep, of whole variables. UserError where one is missing, or has another shape or element type."""
        made: dict[str, Array] = {}
        for name, piece in self.kept():
            source, variable = name if piece is None else piece.source, self.part.program.top.visible(name)
            if source not in values:
                raise UserError(f"the checkpoint in '{folder}' has no variable '{source}'")
            array = values[source] if piece is None else values[source][place_of(piece)]
            dtype = dtype_of(variable.element)
            if array.shape != variable.shape or array.dtype != dtype:
                raise UserError(
                    f"'{source}' is {values[source].dtype} of shape {list(values[source].shape)} in the checkpoint in '{folder}'",
                    hint=f"a rank of this program takes {dtype} of shape {list(variable.shape)} of it",
                )
            made[name] = array
        return made

    def get(self, name: str) -> Array:
        """The value of a variable."""
        return np.array(self.scope.tensor(name))

    def set(self, name: str, array: Array) -> None:
        """Gives a variable a value; its raggedness stays."""
        self.scope.var(name).get_tensor().set(np.array(array), self.executor.place)

    def steps(self, feed: Mapping[str, Any], fetches: Sequence[str]) -> Iterator[Operator]:
        """Runs it as far as its next operator between ranks, which is given, again and again."""
        key = tuple(fetches)
        if key not in self._runs:
            self._runs[key] = _runs(self.part.program, fetches)
        for run in self._runs[key]:
            if run.program is not None:
                fed = {name: feed[name] if name in feed else self.scope.tensor(name) for name in run.fed}
                found = self.executor.run(
                    run.program, feed=fed, fetch_list=run.given, scope=self.scope, return_numpy=False
                )
                for name, value in zip(run.given, found, strict=True):
                    self._hold(name, value)
            if run.last is not None:
                for name in feed.keys() & set(run.last.reads):
                    self.set(name, np.asarray(feed[name]))
                yield run.last

    def _hold(self, name: str, value: LoDTensor) -> None:
        tensor = self.scope.var(name).get_tensor()
        tensor.hold(value.host)
        tensor.set_lod(value.lod())


def place_of(piece: Piece) -> tuple[slice, ...]:
    """Where in the whole variable a piece is."""
    return (*(slice(None),) * piece.dimension, slice(piece.start, piece.stop))


def _runs(program: ProgramView, fetches: Sequence[str]) -> list[_Run]:
    """The operators between communications, as separate programs."""
    operators, visible = program.top.operators, program.top.visible
    groups: list[tuple[list[Operator], Operator | None]] = [([], None)]
    for operator in operators:
        if operator.type in COLLECTIVES:
            groups[-1] = (groups[-1][0], operator)
            groups.append(([], None))
        else:
            groups[-1][0].append(operator)
    _keep_rows_together(groups, program)
    # From the last group to the first: what those behind it read that it does not write again.
    made: list[_Run] = []
    wanted = {name for name in fetches if not visible(name).persistable}
    for inside, last in reversed(groups):
        if last is not None:
            wanted = (wanted - set(last.writes)) | {n for n in last.reads if not visible(n).persistable}
        written = {name for o in inside for name in o.writes}
        read: set[str] = set()
        for o in reversed(inside):
            read = (read - set(o.writes)) | {n for n in o.reads if n != EMPTY}
        fed = [n for n in sorted(read) if not visible(n).persistable]
        given = sorted(wanted & written)
        for name in given:
            _check_handed_on(program, name)
        piece = program.copy() if inside else None
        if piece is not None:
            piece.top.keep_operators({o.index for o in inside})
        made.append(_Run(None if piece is None else Program(piece), fed, given, last))
        wanted = (wanted - written) | set(fed)
    return made[::-1]


def _check_handed_on(program: ProgramView, name: str) -> None:
    holds = program.top.visible(name).holds
    if holds in ("tensor", "selected_rows"):
        return
    writer = next(o for o in program.top.operators if name in o.writes)
    message = f"'{name}' is no tensor but a {holds.replace('_', ' ')}, and ranks communicate between where it is written and read"
    raise Limit(Diagnostic(message, writer.location, hint="divide no parameter of the operators between"))


def _keep_rows_together(groups: list[tuple[list[Operator], Operator | None]], program: ProgramView) -> None:
    """Moves what gives sparse rows to where these are read: a program that runs by itself would give a matrix."""
    for at in range(len(groups) - 1, -1, -1):
        for operator in reversed(groups[at][0][:]):
            rows = [
                n for n in operator.writes if n != EMPTY and program.top.visible(n).holds == "selected_rows"
            ]
            readers = [
                i
                for i, (inside, _) in enumerate(groups)
                for o in inside
                if set(o.reads) & set(operator.writes)
            ]
            if rows and readers and min(readers) > at:
                groups[at][0].remove(operator)
                groups[min(readers)][0].insert(0, operator)
