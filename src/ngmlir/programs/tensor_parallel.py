# SPDX-License-Identifier: Apache-2.0
"""Tensor parallelism: the programs of ranks, of which each has a part of some parameters (`sharding`).

All ranks take the same batch. Where one needs a variable of which ranks have parts, `all_gather` puts these together, and
`all_reduce` adds up parts of sums. With `replicas` there are several such groups of ranks, which share a batch: gradients
are added over these too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..support.diagnostics import UserError
from .descriptions import BlockView, Operator, Program
from .distribute import Distribution, Part, Piece
from .inserting import declare_like, insert_like
from .sharding import Sharding, Step
from .splits import Held, Split, State
from .tables import local_rows


class TensorParallel:
    """A program whose parameters are divided among ranks: `rank(i)` are the parts, `states` says what they have of each variable.

    Raises what `Sharding` raises, and UserError for less than one group of ranks.
    """

    def __init__(self, program: Program, ranks: int, replicas: int = 1):
        if replicas < 1:
            raise UserError(f"there is at least one group of ranks, not {replicas}")
        self.sharding = Sharding(program, ranks)
        self.width, self.replicas = ranks, replicas
        self.ranks = ranks * replicas

    def state(self, name: str) -> State:
        """What the ranks of a group have of a variable."""
        return self.sharding.state(name)

    def rank(self, number: int) -> Part:
        """The program of a rank. Ranks of a group have numbers one behind the other."""
        group, at = divmod(number, self.width)
        made = self.sharding.program.copy()
        first = group * self.width
        writer = _Writer(made.top, self.sharding, at, [*range(first, first + self.width)])
        for step in self.sharding.steps:
            writer.write(step)
        pieces: dict[str, Piece] = {}
        for name, state in self.sharding.states.items():
            variable = made.top.find(name)
            if variable is None or not isinstance(state, Split):
                continue
            variable.type = state.local(variable.type, at)
            if variable.persistable:
                pieces[name] = Piece(name, *state.bounds(at), state.dimension)
        if self.replicas > 1:
            peers = [at + self.width * i for i in range(self.replicas)]
            made = Distribution(made, "allreduce", self.replicas, group=peers).rank(group).program
        return Part(made, pieces)


class _Writer:
    """Inserts the additional operators of a rank into a copy of the program."""

    def __init__(self, top: BlockView, sharding: Sharding, rank: int, group: Sequence[int]):
        self.top, self.sharding, self.rank, self.group = top, sharding, rank, group
        self._operators = list(top.operators)
        #: Variables in another form, by name and form; until they are written again.
        self._made: dict[tuple[str, object], str] = {}

    def write(self, step: Step) -> None:
        operator = self._operators[step.operator.index]
        ranks = {"ranks": self.sharding.ranks, "group": self.group}
        if step.summed and self.sharding.ranks > 1:
            self._add(operator, "all_reduce", {"X": step.summed}, {"Out": step.summed}, ranks)
        for name in step.gathered:
            state = self._before(step, name)
            made = self._form(operator, name, "whole", Held.WHOLE)
            if made is not None:
                fields = {**ranks, "sections": state.sections, "axis": state.dimension}
                self._add(operator, "all_gather", {"X": [name]}, {"Out": [made]}, fields)
        for name, state in step.sliced.items():
            made = self._form(operator, name, "part", state)
            if made is not None:
                start, stop = state.bounds(self.rank)
                fields = {"axes": [state.dimension], "starts": [start], "ends": [stop]}
                self._add(operator, "slice", {"Input": [name]}, {"Out": [made]}, fields)
        for name in (*step.gathered, *step.sliced):
            form = step.sliced.get(name, Held.WHOLE)
            operator.rename("inputs", name, self._made[name, form])
        if step.attributes is not None:
            operator.set_attributes(step.attributes[self.rank])
        if step.table is not None:
            local_rows(operator, *step.table.bounds(self.rank), sum(step.table.sections))
        for name in operator.writes:
            for key in [key for key in self._made if key[0] == name]:
                del self._made[key]

    def _before(self, step: Step, name: str) -> Split:
        state = self.sharding.state(name)
        assert isinstance(state, Split)
        return state

    def _form(self, operator: Operator, name: str, word: str, state: State) -> str | None:
        """Declares a variable in another form; None where it is there already."""
        if (name, state) in self._made:
            return None
        type = self.top.visible(name).type
        type = state.local(type, self.rank) if isinstance(state, Split) else type
        made = declare_like(self.top, name, type, f"{name}.{word}", "")
        self._made[name, state] = made
        return made

    def _add(
        self,
        before: Operator,
        type: str,
        inputs: Mapping[str, Sequence[str]],
        outputs: Mapping[str, Sequence[str]],
        fields: Mapping[str, Any],
    ) -> None:
        insert_like(before, self.top, before.index, type, inputs, outputs, fields)
