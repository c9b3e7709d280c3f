# SPDX-License-Identifier: Apache-2.0
"""The assignment of operators to the stages of a pipeline.

Operators are marked with their stage as they are appended; what computes gradients is of the stage of the operator that it is the
gradient of, and an update of that of its parameter. An operator that is not marked is of the last stage that it reads something
of; one that reads nothing of a stage, such as those of learning rates, is of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..support.diagnostics import Diagnostic, Limit, Location, UserError
from .attributes import OpRole
from .descriptions import Operator, Program
from .names import EMPTY, GRADIENT

#: The stage of operators that are of all.
ALL = -1


@dataclass(frozen=True)
class Placed:
    """An operator, its stage, and whether it runs for each micro-batch; the others run once a step."""

    operator: Operator
    stage: int
    is_repeated: bool

    @property
    def is_backward(self) -> bool:
        return bool((self.operator.attribute("op_role") or 0) & OpRole.Backward)


class Stages:
    """The operators of a program by stages. `stage_of` has that of each variable that an operator of a stage computes, and of parameters.

    Raises UserError, at the operator's line, where a stage reads what a later one computes, for a parameter of several
    stages, and for an operator with a parameter but without a stage.
    """

    def __init__(self, program: Program):
        self.program = program
        marks = {o.attribute("stage") for o in program.top.operators} - {None, ALL}
        if not marks:
            hint = "with fluid.pipeline_stage(0): marks what is appended inside"
            raise UserError(
                Diagnostic("no operator of the program is marked with a stage", program.location, hint=hint)
            )
        self.count: int = max(marks) + 1
        missing = sorted({*range(self.count)} - marks)
        if missing:
            raise UserError(
                Diagnostic(
                    f"no operator is of stage {missing[0]}, and there is a later one", program.location
                )
            )
        self.stage_of: dict[str, int] = {}
        #: What changes from micro-batch to micro-batch.
        self.varying = {name for name, v in program.top.variables.items() if v.flag("data")}
        #: How many updates read a variable: what one alone reads is of its parameter.
        self._updating = Counter(
            name for o in program.top.operators if "ParamOut" in o.outputs for name in {*o.reads}
        )
        self.operators = [self._placed(o) for o in program.top.operators]

    def _placed(self, operator: Operator) -> Placed:
        role = operator.attribute("op_role") or 0
        if operator.type == "recompute":
            message = "checkpoints have values computed again, and a stage keeps what its gradients need"
            raise Limit(Diagnostic(message, operator.location, hint="minimize without checkpoints="))
        if role & OpRole.Optimize:
            stage = self._of_gradients(operator)
        elif role & OpRole.Backward:
            stage = self._of_gradients(operator)
            if stage == ALL:
                stage = self._latest(operator)
        else:
            stage = self._forward(operator)
        is_repeated = not role & OpRole.Optimize and (
            stage != ALL or any(n in self.varying for n in operator.reads)
        )
        for name in _named(operator.writes):
            if is_repeated:
                self.varying.add(name)
            if stage != ALL:
                self.stage_of[name] = stage
        for name in _named(operator.reads):
            if stage != ALL and name not in self.stage_of and self.program.top.visible(name).persistable:
                # What updates keep is of their stage; what all of them read, as learning rates, is of none.
                if name in operator.writes or not role & OpRole.Optimize or self._updating[name] == 1:
                    self.stage_of[name] = stage
        return Placed(operator, stage, is_repeated)

    def _forward(self, operator: Operator) -> int:
        marked = operator.attribute("stage")
        top = self.program.top
        parameters = [n for n in _named(operator.reads) if top.visible(n).is_parameter]
        stage = self._latest(operator) if marked is None or marked == ALL else marked
        if stage == ALL and parameters:
            message = f"operator {operator.type} reads the parameter '{parameters[0]}', and is of no stage"
            hint = "append it inside of `with fluid.pipeline_stage(0):`"
            raise UserError(Diagnostic(message, operator.location, hint=hint))
        for name in parameters:
            other = self.stage_of.setdefault(name, stage)
            if other != stage:
                message = f"the parameter '{name}' is of stage {other}, and operator {operator.type} of stage {stage} reads it"
                hint = "each stage has parameters of its own: compute what both need in one of them"
                raise UserError(Diagnostic(message, operator.location, hint=hint))
        for name in _named(operator.reads):
            other = self.stage_of.get(name, stage)
            if other > stage:
                message = (
                    f"operator {operator.type} of stage {stage} reads '{name}', which stage {other} computes"
                )
                hint = "a stage reads what earlier ones compute"
                raise UserError(Diagnostic(message, operator.location, hint=hint))
        return stage

    def _latest(self, operator: Operator) -> int:
        return max((self.stage_of.get(n, ALL) for n in _named(operator.reads)), default=ALL)

    def _of_gradients(self, operator: Operator) -> int:
        """The stage of what an operator computes with gradients: that of the variables that these are gradients of."""
        names = [*_named(operator.reads), *_named(operator.writes)]
        gradients = [n.partition(GRADIENT)[0] for n in names if GRADIENT in n]
        read = [n.partition(GRADIENT)[0] for n in _named(operator.reads) if GRADIENT in n]
        found = {n: self.stage_of[n] for n in (read or gradients) if n in self.stage_of}
        if not found:
            found = {n: self.stage_of[n] for n in names if n in self.stage_of}
        stages = {*found.values()}
        if len(stages) > 1:
            (a, b, *_) = (
                sorted(found, key=lambda n: found[n])[:1] + sorted(found, key=lambda n: -found[n])[:1]
            )
            message = f"operator {operator.type} takes gradients of '{a}', of stage {found[a]}, and of '{b}', of stage {found[b]}"
            raise Limit(
                Diagnostic(message, operator.location, hint="clip the gradient of each parameter by itself")
            )
        return stages.pop() if stages else ALL


def _named(names: Iterable[str]) -> list[str]:
    return [name for name in names if name != EMPTY]


def readers(stages: Stages) -> Mapping[str, set[int]]:
    """For each variable that depends on the micro-batch: the stages that read it."""
    found: dict[str, set[int]] = {}
    for placed in stages.operators:
        if placed.is_repeated and placed.stage != ALL:
            for name in placed.operator.reads:
                found.setdefault(name, set()).add(placed.stage)
    return found


def refuse_repeating(placed: Placed) -> None:
    """Limit, at the operator's line, for one that would not compute for each micro-batch what it does for the batch."""
    operator = placed.operator
    where: Location = operator.location
    if operator.sub_block is not None:
        raise Limit(
            Diagnostic(
                f"operator {operator.type} runs a block, and a stage none", where, hint="micro_batches=1"
            )
        )
    kept = [n for n in _named(operator.writes) if operator.block.visible(n).persistable]
    if kept:
        message = f"operator {operator.type} writes '{kept[0]}', which is kept, for each micro-batch instead of once a batch"
        raise Limit(Diagnostic(message, where, hint="micro_batches=1"))
