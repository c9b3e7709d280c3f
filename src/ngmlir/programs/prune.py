# SPDX-License-Identifier: Apache-2.0
"""Programs from programs: with what some targets need, and as models are used after training."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.attributes import boolean
from .attributes import OpRole
from .catalogue import REGISTRY
from .descriptions import BlockView, Operator, Program
from .names import EMPTY


def pruned(program: Program, targets: Sequence[Operator | str]) -> Program:
    """The program with the operators that targets (operators of the global block, or names of variables) need.

    An operator is kept if it is a target, or the last to write what a kept operator after it reads, or a target is. Variables that
    no kept operator uses are left out, but for targets.
    """
    top = program.top
    names = [t for t in targets if isinstance(t, str)]
    for name in names:
        top.visible(name)
    wanted = {t.index for t in targets if isinstance(t, Operator)}
    needed = set(names)
    kept: list[int] = []
    for at in range(len(top.operators) - 1, -1, -1):
        operator = top.operators[at]
        if at not in wanted and not needed.intersection(operator.writes):
            continue
        kept.append(at)
        # What is written here is needed from no operator before, unless this one reads it; but a sub-block may not run.
        if operator.sub_block is None:
            needed.difference_update(operator.writes)
        needed.update(reads_of(operator))
    copy = program.copy()
    copy.top.keep_operators(set(kept))
    used = {name for operator in copy.walk() for name in (*operator.reads, *operator.writes)} | set(names)
    for name in list(copy.top.variables):
        if name not in used:
            copy.top.remove_variable(name)
    return copy


def reads_of(operator: Operator) -> set[str]:
    """What an operator reads, its sub-block included."""
    found = {name for name in operator.reads if name != EMPTY}
    return found if operator.sub_block is None else found | reads_from_around(operator.sub_block)


def writes_of(operator: Operator) -> set[str]:
    """What an operator writes, its sub-block included."""
    found = {name for name in operator.writes if name != EMPTY}
    return found if operator.sub_block is None else found | writes_around(operator.sub_block)


def reads_from_around(block: BlockView) -> set[str]:
    """What the operators of a block read that it does not declare."""
    return {name for o in block.operators for name in reads_of(o)} - block.variables.keys()


def writes_around(block: BlockView) -> set[str]:
    """What the operators of a block write that it does not declare."""
    return {name for o in block.operators for name in writes_of(o)} - block.variables.keys()


def test_form(program: Program) -> Program:
    """A copy for use after training: `is_test` is set, and operators of gradients and of optimization are left out."""
    copy = inference_form(program)
    for block in copy.blocks:
        forward = [
            i
            for i, o in enumerate(block.operators)
            if not (o.attribute("op_role") or 0) & (OpRole.Backward | OpRole.Optimize)
        ]
        block.keep_operators(set(forward))
    used = {name for operator in copy.walk() for name in (*operator.reads, *operator.writes)}
    for name, variable in list(copy.top.variables.items()):
        if (
            name not in used
            and not variable.flag("data")
            and not variable.is_parameter
            and not variable.persistable
        ):
            copy.top.remove_variable(name)
    return copy


def inference_form(program: Program) -> Program:
    """A copy in which `is_test` is set wherever an operator has it."""
    copy = program.copy()
    for operator in copy.walk():
        if REGISTRY.get(operator.type).entry.attribute("is_test") is not None:
            operator.set_attribute("is_test", boolean(True))
    return copy
