# SPDX-License-Identifier: Apache-2.0
"""Data parallelism: a program that trains becomes one for each rank, and one for each parameter server where there are some.

Every rank computes gradients of its share of a batch; these are added, and divided by the number of ranks. `allreduce`: every rank has
the sums, and updates all parameters. `reduce_scatter`: a rank has some rows of each sum, updates these rows of the parameter, and
all get the new rows of all. `pserver`: servers have the rows, and ranks send gradients and receive parameters. What an optimizer
keeps for a parameter is split as the parameter is. A table that is `is_distributed` is split by rows among ranks in any case, and never
moves: what is looked up does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from math import prod
from typing import Any, Literal, get_args

from ..ir.attributes import StringAttr
from ..ir.types import TensorType
from ..support.diagnostics import Diagnostic, Limit, UserError
from .attributes import OpRole, completed
from .catalogue import REGISTRY
from .descriptions import BlockView, Operator, Program
from .names import gradient_name
from .tables import distributed_tables, divided, exchanged_rows, looks_up

Mode = Literal["allreduce", "reduce_scatter", "pserver"]
#: Elements that a block has at least, where a parameter is split.
LEAST = 1024


def rows_of_blocks(shape: Sequence[int], servers: int) -> list[int]:
    """How a parameter is split: the lengths of its blocks along the first dimension, at most one for each server.

    Blocks have whole rows and about equally many elements, 1,024 or more; the last one has the rest.
    """
    count = prod(shape)
    blocks = min(servers, max(1, count // LEAST))
    row = prod(shape[1:])
    size = ceil_div(count, blocks)
    rows = ceil_div(size, row) if row else 0
    whole, rest = divmod(shape[0], rows) if rows else (1, 0)
    return [rows] * whole + [rest] * (rest > 0)


def ceil_div(count: int, by: int) -> int:
    """The quotient, rounded up."""
    return -(-count // by)


@dataclass(frozen=True)
class Piece:
    """The rows (or steps of another dimension) of a variable of the whole program that a variable of a part begins as."""

    source: str
    start: int
    stop: int
    dimension: int = 0


@dataclass(frozen=True)
class Part:
    """The program of a rank or of a server. Variables of `pieces` hold rows of others; the other persistable ones begin as those of
    their names."""

    program: Program
    pieces: Mapping[str, Piece] = field(default_factory=dict[str, Piece])


@dataclass
class _Update:
    """An operator that updates a parameter, and those between the gradient and it, in order."""

    operator: Operator
    parameter: str
    gradient: str
    before: list[Operator]


class Distribution:
    """A program for several ranks: `rank(i)` and `server(i)` are the parts.

    Raises UserError for a program that updates no parameter, and Limit where gradients are clipped by a norm and rows are split.
    """

    def __init__(self, program: Program, mode: Mode, ranks: int, servers: int = 1, group: Sequence[int] = ()):
        if ranks < 1 or servers < 1:
            raise UserError(f"there is at least one rank and one server, not {ranks} and {servers}")
        if mode not in get_args(Mode):
            hint = f"all ranks update together, once a step: {', '.join(get_args(Mode))}"
            raise UserError(f"there is no mode '{mode}'", hint=hint)
        self.program, self.mode, self.ranks, self.servers = program, mode, ranks, servers
        #: The ranks that share a batch; all where it is empty.
        self.group = group
        tables = distributed_tables(program) if ranks > 1 else {}
        if tables and mode == "pserver":
            name, operator = next(iter(tables.items()))
            message = (
                f"the rows of '{name}' are divided among ranks, and its updates would be those of a server"
            )
            raise Limit(Diagnostic(message, operator.location, hint="mode=reduce_scatter"))
        found = _updates(program)
        #: Of each table that is divided how many rows each rank has.
        self.tables = {name: divided(program.top.visible(name), 0, ranks) for name in tables}
        self.table_updates = [_with_chain(program, u) for u in found if u.parameter in tables]
        self.updates = [u for u in found if u.parameter not in tables]
        if mode != "allreduce":
            self.updates = [_with_chain(program, u) for u in self.updates]
        written = [
            o.index
            for u in self.updates
            for o in program.top.operators
            if u.gradient in o.writes and o.index < u.operator.index
        ]
        self.after = 1 + max(written, default=-1)
        self.last = found[-1].operator.index
        split = {"allreduce": 1, "reduce_scatter": ranks, "pserver": servers}[mode]
        self.sections = {
            u.parameter: rows_of_blocks(program.top.visible(u.parameter).shape, split) for u in self.updates
        }
        #: Blocks go to the servers in turn.
        blocks = [(u.parameter, i) for u in self.updates for i in range(len(self.sections[u.parameter]))]
        self.server_of = {block: number % servers for number, block in enumerate(blocks)}

    # ---- ranks

    def rank(self, number: int) -> Part:
        """The program of a rank."""
        made = self.program.copy()
        writer = _Writer(made.top, self)
        if self.mode == "allreduce":
            writer.at = self.after
            if self.ranks > 1 and self.updates:
                names = [u.gradient for u in self.updates]
                for name in names:
                    writer.whole(name)
                writer.add(
                    "all_reduce", {"X": names}, {"Out": names}, {"ranks": self.ranks, "group": self.group}
                )
                for name in names:
                    writer.averaged(name)
            self._own_tables(writer, number)
            return Part(made, writer.pieces)
        gone = {o.index for u in self.updates for o in (u.operator, *u.before)}
        if self.mode == "pserver":
            gone = set(range(self.after, len(made.top.operators)))
        kept = [i for i in range(len(made.top.operators)) if i not in gone]
        made.top.keep_operators(set(kept))
        # Learning rates are computed before the updates; what follows all updates stays behind them.
        writer.at = sum(i < self.last for i in kept)
        if self.mode == "pserver":
            self._exchange(writer)
        else:
            for update in self.updates:
                self._own_rows(writer, update, number)
            self._own_tables(writer, number)
        _drop_unused(made)
        return Part(made, writer.pieces)

    def _own_rows(self, w: _Writer, update: _Update, number: int) -> None:
        """A rank's rows of a parameter: their gradient, their update, and those of all ranks."""
        sections = self.sections[update.parameter]
        fields = {"ranks": self.ranks, "sections": sections}
        taken: dict[str, list[str]] = {}
        if number < len(sections):
            block = w.block(update, number, sections)
            gradient, parameter = block[update.gradient], block[update.parameter]
            w.add("reduce_scatter", {"X": [update.gradient]}, {"Out": [gradient]}, fields)
            w.averaged(gradient)
            if parameter != update.parameter:
                start, stop = _bounds(sections)[number]
                part = {"axes": [0], "starts": [start], "ends": [stop]}
                w.add("slice", {"Input": [update.parameter]}, {"Out": [parameter]}, part)
                w.local(parameter)
            w.updated(update, block)
            taken = {"X": [parameter]}
        else:
            w.add("reduce_scatter", {"X": [update.gradient]}, {}, fields)
        w.add("all_gather", taken, {"Out": [update.parameter]}, fields)

    def _own_tables(self, w: _Writer, number: int) -> None:
        """A rank's rows of tables: it looks up what all ranks look for among them, and updates them alone."""

        def insert(at: int, *operator: Any) -> None:
            w.at = at
            w.add(*operator)

        for operator in [*w.top.operators]:
            sections = self.tables.get(operator.inputs["W"][0]) if looks_up(operator) else None
            if sections is not None:
                exchanged_rows(operator, *_bounds(sections)[number], sum(sections), self.ranks, insert)
        for update in self.table_updates:
            start, stop = _bounds(self.tables[update.parameter])[number]
            shape = self.program.top.visible(update.parameter).shape
            contributions = {n for n in w.top.variables if n.startswith(update.gradient)}
            for name in {
                *contributions,
                *(n for o in (update.operator, *update.before) for n in (*o.reads, *o.writes)),
            }:
                variable = w.top.visible(name)
                if variable.shape == shape:
                    variable.type = TensorType((stop - start, *shape[1:]), variable.element)
                    if variable.persistable:
                        w.pieces[name] = Piece(name, start, stop)

    def _exchange(self, w: _Writer) -> None:
        """Sends gradients block by block, and receives parameters."""
        sent: list[str] = []
        received: list[str] = []
        joined: list[tuple[str, list[str]]] = []
        peers: list[int] = []
        for update in self.updates:
            sections = self.sections[update.parameter]
            blocks = [w.block(update, i, sections, states=False) for i in range(len(sections))]
            gradients = [b[update.gradient] for b in blocks]
            parameters = [b[update.parameter] for b in blocks]
            w.whole(update.gradient)
            if len(sections) > 1:
                w.add(
                    "split", {"X": [update.gradient]}, {"Out": gradients}, {"axis": 0, "sections": sections}
                )
                joined.append((update.parameter, parameters))
                for name in parameters:
                    w.local(name)
            sent += gradients
            received += parameters
            peers += [self.server_of[update.parameter, i] for i in range(len(sections))]
        w.add("send", {"X": sent}, {}, {})
        w.add("recv", {}, {"Out": received}, {"sources": received, "peers": peers})
        for parameter, parts in joined:
            w.add("concat", {"X": parts}, {"Out": [parameter]}, {"axis": 0})

    # ---- servers

    def server(self, number: int) -> Part:
        """The program of a parameter server."""
        made = self.program.copy()
        top = made.top
        own = [
            (u, i)
            for u in self.updates
            for i in range(len(self.sections[u.parameter]))
            if self.server_of[u.parameter, i] == number
        ]
        top.keep_operators({o.index for o in self._beside(own)})
        w = _Writer(top, self)
        w.at = 0
        received: list[str] = []
        sources: list[str] = []
        blocks = [w.block(u, i, self.sections[u.parameter]) for u, i in own]
        for (update, _), block in zip(own, blocks, strict=True):
            gradient = block[update.gradient]
            names = [f"{gradient}.trainer_{r}" if self.ranks > 1 else gradient for r in range(self.ranks)]
            for name in names:
                w.declare(name, top.visible(gradient).type)
            received += names
            sources += [gradient] * self.ranks
        w.add("recv", {}, {"Out": received}, {"sources": sources, "peers": [*range(self.ranks)] * len(own)})
        w.at += sum(o.index < self.last for o in self._beside(own))
        for (update, _), block in zip(own, blocks, strict=True):
            gradient = block[update.gradient]
            if self.ranks > 1:
                w.add(
                    "sum",
                    {"X": [f"{gradient}.trainer_{r}" for r in range(self.ranks)]},
                    {"Out": [gradient]},
                    {},
                )
                w.averaged(gradient)
            w.updated(update, block)
        w.add("send", {"X": [block[u.parameter] for (u, _), block in zip(own, blocks, strict=True)]}, {}, {})
        _drop_unused(made)
        return Part(made, w.pieces)

    def _beside(self, own: Sequence[tuple[_Update, int]]) -> list[Operator]:
        """The operators that compute or change the other inputs of updates, apart from gradients."""
        moved = {o.index for u in self.updates for o in (u.operator, *u.before)}
        needed = {
            name
            for u, _ in own
            for o in (u.operator, *u.before)
            for name in o.reads
            if name not in _between(u)
        }
        kept: list[Operator] = []
        operators = self.program.top.operators
        for operator in reversed(operators):
            is_needed = any(name in needed for name in operator.writes)
            if operator.index in moved or not is_needed:
                continue
            kept.append(operator)
            needed.update(operator.reads)
        return kept[::-1]


def _between(update: _Update) -> set[str]:
    """The gradient of a parameter, and what is made of it."""
    return {update.gradient, *(n for o in update.before for n in o.writes)}


def _bounds(sections: Sequence[int]) -> list[tuple[int, int]]:
    return [*pairwise([0, *accumulate(sections)])]


def _updates(program: Program) -> list[_Update]:
    """The updates of a program, by the order of its operators."""
    operators = program.top.operators
    found = [o for o in operators if "ParamOut" in o.outputs and "Grad" in o.inputs]
    if not found:
        raise UserError(
            Diagnostic(
                "the program updates no parameter",
                program.location,
                hint="optimizer.minimize(loss) appends updates",
            )
        )
    made: list[_Update] = []
    for operator in found:
        (parameter,), (gradient,) = operator.inputs["Param"], operator.inputs["Grad"]
        given = gradient_name(parameter)
        made.append(_Update(operator, parameter, given if program.top.find(given) else gradient, []))
    return made


def _with_chain(program: Program, update: _Update) -> _Update:
    """The update with what is between the gradient and it."""
    (gradient,) = update.operator.inputs["Grad"]
    before = [*_chain(program, update.operator, gradient, gradient_name(update.parameter))]
    return replace(update, before=before[::-1])


def _chain(program: Program, update: Operator, name: str, gradient: str) -> Iterator[Operator]:
    """The operators from the gradient of a parameter to its update, the last one first."""
    wanted = {name}
    for operator in reversed(program.top.operators[: update.index]):
        if not wanted.intersection(operator.writes) or (gradient in wanted and len(wanted) == 1):
            continue
        if gradient in operator.writes:
            continue
        # Between a gradient and its update there may be what is done with each row by itself.
        if not REGISTRY.says(operator.type, "rowwise"):
            message = f"operator {operator.type} needs whole gradients, and each rank or server would have some rows"
            raise Limit(Diagnostic(message, operator.location, hint="mode=allreduce"))
        yield operator
        wanted.difference_update(operator.writes)
        wanted.update(n for n in operator.reads if n != update.inputs["Param"][0])


def _drop_unused(program: Program) -> None:
    used = {name for operator in program.walk() for name in (*operator.reads, *operator.writes)}
    for name, variable in [*program.top.variables.items()]:
        if name not in used and not variable.flag("data"):
            program.top.remove_variable(name)


class _Writer:
    """Appends operators to the program of a part, from the place `at` on."""

    def __init__(self, top: BlockView, of: Distribution):
        self.top, self.of, self.at = top, of, 0
        self.location = (*of.updates, *of.table_updates)[0].operator.location
        self.pieces: dict[str, Piece] = {}

    def add(
        self,
        type: str,
        inputs: Mapping[str, Sequence[str]],
        outputs: Mapping[str, Sequence[str]],
        fields: Mapping[str, Any],
    ) -> None:
        entry = REGISTRY.get(type).entry
        attributes = completed(entry, {**fields, "op_role": int(OpRole.Optimize)})
        self.top.insert(self.at, type, inputs, outputs, attributes, self.location)
        self.at += 1

    def averaged(self, name: str) -> None:
        """Divides a sum over ranks by their number."""
        if self.of.ranks > 1:
            self.add("scale", {"X": [name]}, {"Out": [name]}, {"scale": 1 / self.of.ranks})

    def declare(self, name: str, type: TensorType, flags: Sequence[str] = ()) -> None:
        if self.top.find(name) is None:
            self.top.declare(name, type, flags=flags)

    def whole(self, name: str) -> None:
        """A gradient that leaves a rank is a matrix."""
        self.top.visible(name).set(holds=StringAttr("tensor"))

    def local(self, name: str) -> None:
        """A variable that is not state."""
        self.top.visible(name).set_flag("persistable", False)
        self.pieces.pop(name, None)

    def block(
        self, update: _Update, number: int, sections: Sequence[int], states: bool = True
    ) -> dict[str, str]:
        """What the variables of an update are called for a block; they are declared. One block keeps the names."""
        operators = (update.operator, *update.before) if states else ()
        names = dict.fromkeys(
            [update.parameter, update.gradient, *(n for o in operators for n in (*o.reads, *o.writes))]
        )
        shape = self.of.program.top.visible(update.parameter).shape
        start, stop = _bounds(sections)[number]
        made: dict[str, str] = {}
        for name in names:
            source = self.of.program.top.visible(name)
            made[name] = name
            if len(sections) > 1 and source.shape == shape:
                made[name] = f"{name}.block{number}"
                flags = ["persistable"] if source.persistable else []
                self.declare(made[name], TensorType((stop - start, *shape[1:]), source.element), flags)
                if source.persistable:
                    self.pieces[made[name]] = Piece(name, start, stop)
            elif self.top.find(name) is None:
                self.declare(name, source.type, ["persistable"] if source.persistable else [])
            if name == update.gradient:
                self.whole(made[name])
        return made

    def updated(self, update: _Update, names: Mapping[str, str]) -> None:
        """The operators of an update, on a block."""
        for operator in (*update.before, update.operator):
            inputs, outputs = (
                {slot: [names.get(n, n) for n in each] for slot, each in slots.items()}
                for slots in (operator.inputs, operator.outputs)
            )
            self.top.insert(self.at, operator.type, inputs, outputs, operator.dictionary, operator.location)
            self.at += 1
