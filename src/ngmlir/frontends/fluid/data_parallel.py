# SPDX-License-Identifier: Apache-2.0
"""Programs of several ranks, which share a batch and run in one process. Nothing talks over a network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...op_graph.answers import answered
from ...programs.descriptions import Operator
from ...programs.descriptions import Program as ProgramView
from ...programs.distribute import Distribution, Mode, Part
from ...programs.operators.collectives import COLLECTIVES
from ...support.diagnostics import Bug, UserError
from .executor import Executor
from .framework import Program, default_main_program, default_startup_program
from .places import Place
from .scope import Scope
from .variables import Variable

Array = np.ndarray[Any, Any]


class DataParallel:
    """A program that trains, for several ranks: each computes the gradients of its share of a batch, and all have the same
    parameters after each step.

    `ranks[i]`, `servers[i]` are the programs, `scopes[i]` the scope of a rank. `start()` runs the start-up program once, and gives all
    ranks and servers what they begin with.
    """

    def __init__(
        self,
        program: Program | None = None,
        startup: Program | None = None,
        mode: Mode = "allreduce",
        ranks: int = 2,
        servers: int = 1,
        place: Place | None = None,
    ):
        self._startup = default_startup_program() if startup is None else startup
        whole = default_main_program() if program is None else program
        made = Distribution(whole.view, mode, ranks, servers)
        parts = [made.rank(i) for i in range(ranks)]
        held = [made.server(i) for i in range(servers)] if mode == "pserver" else []
        self.ranks, self.servers = ([Program(p.program) for p in each] for each in (parts, held))
        self._executor = Executor(place)
        self._members = [_Member(p, self._executor) for p in parts]
        self._holders = [_Member(p, self._executor) for p in held]
        self.scopes = [member.scope for member in self._members]

    @answered
    def start(self) -> None:
        """Runs the start-up program, for all ranks and servers."""
        scope = Scope()
        self._executor.run(self._startup, scope=scope)
        for member in (*self._members, *self._holders):
            member.begin(scope)

    @answered
    def run(
        self, feed: Mapping[str, Any] | None = None, fetch_list: Sequence[Variable | str] = ()
    ) -> list[list[Array]]:
        """A step: of each rank what is fetched, in order. Arrays that are fed are divided along their first dimension.

        Raises UserError where that is not a multiple of the number of ranks: gradients would not be those of the batch.
        """
        count = len(self._members)
        feeds: list[dict[str, Array]] = [{} for _ in range(count)]
        for name, value in (feed or {}).items():
            array = np.asarray(value)
            if array.ndim == 0 or len(array) % count:
                raise UserError(
                    f"'{name}', of shape {list(array.shape)}, is not divided evenly among {count} ranks",
                    hint="feed a batch whose number of rows is a multiple of the number of ranks",
                )
            for rank, share in enumerate(np.split(array, count)):
                feeds[rank][name] = np.ascontiguousarray(share)
        names = [f.name if isinstance(f, Variable) else f for f in fetch_list]
        going = {("rank", i): m.steps(feeds[i], names) for i, m in enumerate(self._members)}
        going |= {("server", i): m.steps({}, ()) for i, m in enumerate(self._holders)}
        self._carry_out(going)
        return [[np.array(m.scope.tensor(name)) for name in names] for m in self._members]

    def _carry_out(self, going: Mapping[tuple[str, int], Iterator[Operator]]) -> None:
        """Runs all programs; where one meets a collective operator, it waits until what that needs is there."""
        waiting = {who: operator for who, steps in going.items() if (operator := next(steps, None))}
        sent: dict[tuple[str, int, str], Array] = {}
        while waiting:
            done: list[tuple[str, int]] = []
            for who, operator in waiting.items():
                member = self._of(who)
                if operator.type == "send":
                    sent |= {(*who, name): member.get(name) for name in operator.inputs["X"]}
                    done.append(who)
                elif operator.type == "recv":
                    kind = "server" if who[0] == "rank" else "rank"
                    sources = zip(operator.attribute("peers"), operator.attribute("sources"), strict=True)
                    keys = [(kind, peer, source) for peer, source in sources]
                    if all(key in sent for key in keys):
                        for name, key in zip(operator.outputs["Out"], keys, strict=True):
                            member.set(name, sent[key])
                        done.append(who)
            if not done:
                self._all_together([waiting.get(("rank", i)) for i in range(len(self._members))])
                done = [who for who in waiting if who[0] == "rank"]
            for who in done:
                operator = next(going[who], None)
                if operator is None:
                    del waiting[who]
                else:
                    waiting[who] = operator

    def _all_together(self, operators: Sequence[Operator | None]) -> None:
        """A collective operator that all ranks have reached."""
        first = operators[0]
        if first is None or any(o is None or o.type != first.type for o in operators):
            raise Bug("ranks wait for one another")
        met = [(m, o) for m, o in zip(self._members, operators, strict=True) if o is not None]
        if first.type == "all_gather":
            rows = [m.get(name) for m, o in met for name in o.inputs.get("X", ())]
            for m, o in met:
                m.set(o.outputs["Out"][0], np.concatenate(rows))
            return
        for at in range(len(first.inputs["X"])):
            total = met[0][0].get(met[0][1].inputs["X"][at])
            for m, o in met[1:]:
                total = total + m.get(o.inputs["X"][at])
            start = 0
            for rank, (m, o) in enumerate(met):
                if o.type == "all_reduce":
                    m.set(o.outputs["Out"][at], total)
                    continue
                sections = o.attribute("sections")
                if rank < len(sections):
                    m.set(o.outputs["Out"][0], total[start : start + sections[rank]])
                    start += sections[rank]

    def _of(self, who: tuple[str, int]) -> _Member:
        return (self._members if who[0] == "rank" else self._holders)[who[1]]


class _Member:
    """A rank or a server: its program in pieces between collective operators, and its scope, through which the pieces hand on values."""

    def __init__(self, part: Part, executor: Executor):
        self.part, self.executor, self.scope = part, executor, Scope()
        self._pieces: dict[tuple[str, ...], list[tuple[Program | None, set[str], Operator | None]]] = {}

    def begin(self, scope: Scope) -> None:
        """Takes what its persistable variables begin with from the scope of the whole program."""
        for name, variable in self.part.program.top.variables.items():
            if not variable.persistable or variable.holds != "tensor":
                continue
            piece = self.part.pieces.get(name)
            found = scope.find_var(name if piece is None else piece.source)
            if found is not None:
                whole = np.array(found.get_tensor())
                self.set(name, whole if piece is None else whole[piece.start : piece.stop])

    def get(self, name: str) -> Array:
        return np.array(self.scope.tensor(name))

    def set(self, name: str, array: Array) -> None:
        self.scope.var(name).get_tensor().set(np.array(array), self.executor.place)

    def steps(self, feed: Mapping[str, Array], fetches: Sequence[str]) -> Iterator[Operator]:
        """Runs it as far as its next collective operator, which is given, again and again."""
        key = tuple(fetches)
        if key not in self._pieces:
            self._pieces[key] = _pieces(self.part.program, fetches)
        for program, reads, operator in self._pieces[key]:
            if program is not None:
                given = {name: array for name, array in feed.items() if name in reads}
                self.executor.run(program, feed=given, scope=self.scope)
            if operator is not None:
                yield operator


def _pieces(
    program: ProgramView, fetches: Sequence[str]
) -> list[tuple[Program | None, set[str], Operator | None]]:
    """The operators between collective ones as programs, each with what it reads and the collective operator behind it. Variables
    that are read elsewhere than they are written are persistable in them, as are those that are fetched."""
    groups: list[tuple[list[int], Operator | None]] = []
    at: list[int] = []
    for operator in program.top.operators:
        if operator.type in COLLECTIVES:
            groups.append((at, operator))
            at = []
        else:
            at.append(operator.index)
    groups.append((at, None))
    operators = program.top.operators
    names: list[tuple[set[str], set[str]]] = []
    for at, last in groups:
        inside = [operators[i] for i in at]
        names.append(({n for o in inside for n in o.reads}, {n for o in inside for n in o.writes}))
        if last is not None:
            names.append((set(last.reads), set(last.writes)))
    shared = {
        name
        for i, (_, written) in enumerate(names)
        for name in written
        if any(name in read for j, (read, _) in enumerate(names) if j != i)
    } | set(fetches)
    made: list[tuple[Program | None, set[str], Operator | None]] = []
    for at, last in groups:
        if not at:
            made.append((None, set(), last))
            continue
        piece = program.copy()
        piece.top.keep_operators(set(at))
        for name in shared & set(piece.top.variables):
            if not piece.top.visible(name).flag("data"):
                piece.top.visible(name).set_flag("persistable", True)
        made.append((Program(piece), {n for i in at for n in operators[i].reads}, last))
    return made
