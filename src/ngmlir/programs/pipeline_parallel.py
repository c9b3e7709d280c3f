# SPDX-License-Identifier: Apache-2.0
"""Pipeline parallelism: each rank has a stage of the program, and a batch goes through in micro-batches.

A rank receives the inputs of its stage, computes, and sends its results to later stages; gradients go the opposite way. As soon as it can it computes the
gradients of a micro-batch before it takes a new one, so that a stage keeps as many as there are stages behind it. Gradients of
parameters are added up over micro-batches and divided by their number; then each rank updates its parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..support.diagnostics import Diagnostic, Limit, UserError
from .attributes import OpRole
from .descriptions import BlockView, Operator, Program
from .distribute import Distribution, Part
from .inserting import insert_like
from .names import EMPTY, GRADIENT
from .sharding import sharded_along
from .stages import ALL, Placed, Stages, readers, refuse_repeating


class PipelineParallel:
    """A program in stages: `rank(i)` are the parts. Ranks of a replica have numbers one behind the other.

    Raises what `Stages` raises; UserError for less than one micro-batch or replica; Limit, at the line, for operators that would not
    compute for each micro-batch what they do for the batch, and where parameters are divided among ranks too.
    """

    def __init__(self, program: Program, micro_batches: int, replicas: int = 1):
        if micro_batches < 1 or replicas < 1:
            raise UserError(
                f"there is at least one micro-batch and one group of ranks, not {micro_batches} and {replicas}"
            )
        divided = [v for v in program.top.variables.values() if sharded_along(v) is not None]
        if divided:
            message = f"'{divided[0].name}' is divided among ranks, and each rank has a stage"
            raise Limit(Diagnostic(message, divided[0].location, hint="sharded=None"))
        self.program, self.micro_batches, self.replicas = program, micro_batches, replicas
        self.stages = Stages(program)
        self.width = self.stages.count
        self.ranks = self.width * replicas
        if micro_batches > 1:
            for placed in self.stages.operators:
                if placed.is_repeated:
                    refuse_repeating(placed)
        self.readers = readers(self.stages)

    def stage_of(self, name: str) -> int:
        """The stage that has a variable; the first one of what all have."""
        return max(self.stages.stage_of.get(name, 0), 0)

    def name_of(self, name: str, micro_batch: int) -> str:
        """What a variable is called in a micro-batch."""
        return f"{name}.micro{micro_batch}" if name in self.stages.varying else name

    def rank(self, number: int) -> Part:
        """The program of a rank."""
        group, stage = divmod(number, self.width)
        made = self.program.copy()
        made.top.keep_operators(set())
        writer = _Writer(made.top, self, stage, group * self.width)
        own = [p for p in self.stages.operators if p.stage in (stage, ALL)]
        writer.once([p for p in own if not p.is_repeated and not _is_update(p)])
        for kind, micro_batch in order_of(stage, self.width, self.micro_batches):
            writer.repeated(
                [p for p in own if p.is_repeated and p.is_backward == (kind == "backward")], micro_batch
            )
        updates = [p for p in own if _is_update(p)]
        writer.gradients(updates)
        writer.once(updates)
        _drop_unused(made)
        if self.replicas > 1:
            peers = [stage + self.width * i for i in range(self.replicas)]
            made = Distribution(made, "allreduce", self.replicas, group=peers).rank(group).program
        return Part(made)


def order_of(stage: int, stages: int, micro_batches: int) -> Iterator[tuple[str, int]]:
    """In which order a stage computes (`forward`) and computes gradients (`backward`) of micro-batches."""
    ahead = min(micro_batches, stages - 1 - stage)
    yield from (("forward", i) for i in range(ahead))
    for i in range(micro_batches):
        if ahead + i < micro_batches:
            yield "forward", ahead + i
        yield "backward", i


def _is_update(placed: Placed) -> bool:
    return bool((placed.operator.attribute("op_role") or 0) & OpRole.Optimize)


class _Writer:
    """Appends the operators of a rank."""

    def __init__(self, top: BlockView, of: PipelineParallel, stage: int, first: int):
        self.top, self.of, self.stage, self.first = top, of, stage, first

    def once(self, operators: Sequence[Placed]) -> None:
        """Returns the operators unchanged."""
        for placed in operators:
            self.top.insert_op(len(self.top.operators), placed.operator.op)

    def repeated(self, operators: Sequence[Placed], micro_batch: int) -> None:
        """Operators for a micro-batch: first what they need of other stages is received, and at the end what others need is sent."""
        if not operators:
            return
        of = self.of
        written = [n for p in operators for n in p.operator.writes if n != EMPTY]
        read = [n for p in operators for n in p.operator.reads if n in of.stages.varying]
        needed = [
            n
            for n in dict.fromkeys(read)
            if of.stages.stage_of.get(n, self.stage) != self.stage and self._named(n, micro_batch) is None
        ]
        location = operators[0].operator
        if needed:
            names = [self._declared(n, micro_batch) for n in needed]
            peers = [self.first + of.stages.stage_of[n] for n in needed]
            self._add(location, "recv", {}, {"Out": names}, {"sources": names, "peers": peers})
        for placed in operators:
            operator = placed.operator
            inputs, outputs = (
                {slot: [self._renamed(n, micro_batch) for n in names] for slot, names in slots.items()}
                for slots in (operator.inputs, operator.outputs)
            )
            self.top.insert(
                len(self.top.operators),
                operator.type,
                inputs,
                outputs,
                operator.dictionary,
                operator.location,
            )
        sent = [
            self._renamed(n, micro_batch)
            for n in dict.fromkeys(written)
            if of.stages.stage_of.get(n) == self.stage and self.of.readers.get(n, set()) - {self.stage}
        ]
        if sent:
            self._add(location, "send", {"X": sent}, {}, {})

    def gradients(self, updates: Sequence[Placed]) -> None:
        """The means over micro-batches of the gradients that updates read."""
        count = self.of.micro_batches
        read = dict.fromkeys(n for p in updates for n in p.operator.reads if n in self.of.stages.varying)
        for name in read:
            reader = next(p.operator for p in updates if name in p.operator.reads)
            if GRADIENT not in name:
                message = f"operator {reader.type} reads '{name}' once a batch, and each micro-batch has one"
                raise Limit(Diagnostic(message, reader.location, hint="micro_batches=1"))
            names = [self.of.name_of(name, i) for i in range(count)]
            self._add(reader, "sum", {"X": names}, {"Out": [name]}, {})
            if count > 1:
                self._add(reader, "scale", {"X": [name]}, {"Out": [name]}, {"scale": 1 / count})

    def _named(self, name: str, micro_batch: int) -> str | None:
        made = self.of.name_of(name, micro_batch)
        return made if made in self.top.variables else None

    def _renamed(self, name: str, micro_batch: int) -> str:
        return name if name not in self.of.stages.varying else self._declared(name, micro_batch)

    def _declared(self, name: str, micro_batch: int) -> str:
        made, source = self.of.name_of(name, micro_batch), self.of.program.top.visible(name)
        if made not in self.top.variables:
            flags = [flag for flag in ("data", "stop_gradient") if source.flag(flag)]
            self.top.declare(
                made,
                source.type,
                holds=source.holds,
                ragged=source.ragged,
                flags=flags,
                location=source.location,
            )
        return made

    def _add(
        self,
        like: Operator,
        type: str,
        inputs: Mapping[str, Sequence[str]],
        outputs: Mapping[str, Sequence[str]],
        fields: Mapping[str, Any],
    ) -> None:
        given = {"op_role": like.attribute("op_role") or 0, **fields}
        insert_like(like, self.top, len(self.top.operators), type, inputs, outputs, given)


def _drop_unused(program: Program) -> None:
    used = {name for operator in program.walk() for name in (*operator.reads, *operator.writes)}
    for name in [*program.top.variables]:
        if name not in used:
            program.top.remove_variable(name)
