# SPDX-License-Identifier: Apache-2.0
"""Programs of several ranks, which run in one process. Nothing goes over a network: operators between ranks are carried out here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ...op_graph.answers import answered
from ...programs.costs import Cost, Link, cost_of
from ...programs.descriptions import Operator
from ...programs.distribute import Part
from ...programs.names import RANDOM
from ...programs.rank_files import read_checkpoint, write_checkpoint
from ...support.diagnostics import Bug, UserError
from .executor import Executor
from .framework import Program, default_startup_program
from .members import Array, Member
from .places import Place
from .scope import LoDTensor, Scope
from .variables import Variable

#: A rank or a server, and its number.
Who: TypeAlias = tuple[str, int]


class Ranks:
    """The programs of ranks, and of parameter servers where there are some, each with a scope.

    `ranks[i]`, `servers[i]` are the programs, `scopes[i]` the scope of a rank.
    """

    def __init__(
        self,
        startup: Program | None,
        parts: Sequence[Part],
        held: Sequence[Part] = (),
        place: Place | None = None,
        shares: int = 1,
    ):
        """`shares` is in how many parts a batch is divided."""
        self._parts = shares
        self._startup = default_startup_program() if startup is None else startup
        self.ranks, self.servers = ([Program(p.program) for p in each] for each in (parts, held))
        self._executor = Executor(place)
        self._members = [Member(p, self._executor) for p in parts]
        self._holders = [Member(p, self._executor) for p in held]
        self.scopes = [member.scope for member in self._members]

    @answered
    def start(self) -> None:
        """Runs the start-up program once, and gives all ranks and servers what they begin with."""
        scope = Scope()
        self._executor.run(self._startup, scope=scope)
        self._begin(scope)

    @answered
    def save(self, folder: str, step: int = 0) -> None:
        """Writes what ranks and servers keep to a folder: a checkpoint, which any number of ranks can go on from, with a number that says
        which step it is of. The checkpoint before is whole until this one is."""
        random = [
            member.get(RANDOM)
            for number in range(len(self._members))
            if (member := self._members[number]).scope.find_var(RANDOM) is not None
            and all(self._stream(before) != self._stream(number) for before in range(number))
        ]
        # Servers have what ranks have copies of.
        parts = {f"server{i}": m.held() for i, m in enumerate(self._holders)}
        parts |= {f"rank{i}": m.held() for i, m in enumerate(self._members)}
        write_checkpoint(Path(folder), parts, random, step)

    @answered
    def load(self, folder: str) -> int:
        """Goes on from a checkpoint, whatever number of ranks wrote it: the number of its step.

        Raises UserError, and changes nothing, where there is none, where it was altered, and where a variable is missing in it or has another
        shape or element type.
        """
        found = read_checkpoint(Path(folder))
        every = (*self._members, *self._holders)
        parts = [member.parts_of(found.values, folder) for member in every]
        for member, own in zip(every, parts, strict=True):
            for name, array in own.items():
                member.set(name, array)
        for number, member in enumerate(self._members):
            if self._stream(number) < len(found.random):
                member.set(RANDOM, found.random[self._stream(number)])
        return found.step

    def _stream(self, rank: int) -> int:
        """Which random numbers a rank draws: those of one number draw the same."""
        return rank

    def cost(self, batch: int, latency: float = 5e-6, bandwidth: float = 25e9) -> Cost:
        """What it costs that ranks communicate in a step with `batch` rows, where a message of n bytes takes `latency` + n / `bandwidth` seconds:
        `seconds`, bytes that each sends (`sent`), and what each operator costs (`transfers`). Printed, it is a table."""
        programs = {("rank", i): p.view for i, p in enumerate(self.ranks)}
        programs |= {("server", i): p.view for i, p in enumerate(self.servers)}
        return cost_of(programs, Link(latency, bandwidth), -(-batch // self._parts))

    def _begin(self, scope: Scope) -> None:
        for member in (*self._members, *self._holders):
            member.begin(scope)

    def _step(self, feeds: Sequence[Mapping[str, Any]], fetches: Sequence[Sequence[str]]) -> None:
        """Runs all programs: each rank with its feeds, so that what is fetched of it is in its scope."""
        going = {
            ("rank", i): m.steps(feed, names)
            for i, (m, feed, names) in enumerate(zip(self._members, feeds, fetches, strict=True))
        }
        going |= {("server", i): m.steps({}, ()) for i, m in enumerate(self._holders)}
        self._carry_out(going)

    def _carry_out(self, going: Mapping[Who, Iterator[Operator]]) -> None:
        """A program waits at an operator between ranks until the operator's inputs are available."""
        waiting = {who: operator for who, steps in going.items() if (operator := next(steps, None))}
        sent: dict[tuple[str, int, str], Array] = {}
        while waiting:
            done: list[Who] = []
            for who, operator in waiting.items():
                member = self._of(who)
                if operator.type == "send":
                    sent |= {(*who, name): member.get(name) for name in operator.inputs["X"]}
                    done.append(who)
                elif operator.type == "recv":
                    kind = "server" if who[0] == "rank" and self._holders else "rank"
                    sources = zip(operator.attribute("peers"), operator.attribute("sources"), strict=True)
                    keys = [(kind, peer, source) for peer, source in sources]
                    if all(key in sent for key in keys):
                        for name, key in zip(operator.outputs["Out"], keys, strict=True):
                            member.set(name, sent[key])
                        done.append(who)
                elif who not in done and (group := self._ready(operator, waiting)):
                    _CARRIED[operator.type]([(self._of(each), waiting[each]) for each in group])
                    done += group
            if not done:
                raise Bug("ranks wait for one another")
            for who in done:
                operator = next(going[who], None)
                if operator is None:
                    del waiting[who]
                else:
                    waiting[who] = operator

    def _ready(self, operator: Operator, waiting: Mapping[Who, Operator]) -> list[Who]:
        """The ranks that take part in an operator, where all of them have come to it."""
        group = operator.attribute("group") or range(len(self._members))
        every = [("rank", number) for number in group]
        there = [waiting.get(who) for who in every]
        return every if all(o is not None and o.type == operator.type for o in there) else []

    def _of(self, who: Who) -> Member:
        return (self._members if who[0] == "rank" else self._holders)[who[1]]


def cheapest(
    placements: Mapping[str, Ranks], batch: int, latency: float = 5e-6, bandwidth: float = 25e9
) -> str:
    """The name of the placement whose ranks communicate for the shortest time in a step with a batch of so many rows (`Ranks.cost`); of equal
    ones the first."""
    if not placements:
        raise UserError("there is no placement to choose from")
    return min(placements, key=lambda name: placements[name].cost(batch, latency, bandwidth).seconds)


def names_of(fetch_list: Sequence[Variable | str]) -> list[str]:
    """The names of what is fetched."""
    return [f.name if isinstance(f, Variable) else f for f in fetch_list]


def shares(feed: Mapping[str, Any] | None, count: int, what: str) -> list[dict[str, Array]]:
    """A batch in so many equal parts, along the first dimension of each array. Raises UserError where that is not a multiple of the
    number of parts: gradients would not be those of the batch."""
    made: list[dict[str, Array]] = [{} for _ in range(count)]
    for name, value in (feed or {}).items():
        if isinstance(value, LoDTensor) and value.lod():
            raise UserError(
                f"'{name}' is ragged, and its sequences are not divided among {count} {what}",
                hint="fluid.TensorParallel takes ragged batches, and so does one rank",
            )
        array = np.asarray(value)
        if array.ndim == 0 or len(array) % count:
            raise UserError(
                f"'{name}', of shape {list(array.shape)}, is not divided evenly among {count} {what}",
                hint=f"feed a batch whose number of rows is a multiple of the number of {what}",
            )
        for at, share in enumerate(np.split(array, count)):
            made[at][name] = np.ascontiguousarray(share)
    return made


# ---- operators between ranks

Met: TypeAlias = "Sequence[tuple[Member, Operator]]"


def _all_reduce(met: Met) -> None:
    for at in range(len(met[0][1].inputs["X"])):
        total = _sum(met, at)
        for member, operator in met:
            member.set(operator.outputs["Out"][at], total)


def _reduce_scatter(met: Met) -> None:
    total, start = _sum(met, 0), 0
    for at, (member, operator) in enumerate(met):
        sections = operator.attribute("sections") or [len(total) // len(met)] * len(met)
        if at < len(sections):
            member.set(operator.outputs["Out"][0], total[start : start + sections[at]])
            start += sections[at]


def _all_gather(met: Met) -> None:
    rows = [member.get(name) for member, operator in met for name in operator.inputs.get("X", ())]
    for member, operator in met:
        member.set(operator.outputs["Out"][0], np.concatenate(rows, operator.attribute("axis") or 0))


def _sum(met: Met, at: int) -> Array:
    """What all have of an input, added in the order of the ranks."""
    total, *rest = (member.get(operator.inputs["X"][at]) for member, operator in met)
    for each in rest:
        total = total + each
    return total


_CARRIED: Mapping[str, Callable[[Met], None]] = {
    "all_reduce": _all_reduce,
    "reduce_scatter": _reduce_scatter,
    "all_gather": _all_gather,
}
