# SPDX-License-Identifier: Apache-2.0
"""Blocks that run or do not: what they write comes out, or stays as it was."""

from __future__ import annotations

from ..op_graph.regions import ControlOp, build_region
from ..ops import ng
from ..support.diagnostics import UserError
from .arrays import TensorArray
from .block_values import (
    Entered,
    Kept,
    Lowering,
    all_operators,
    empty_array,
    flat,
    kept,
    parts_of,
    shaped,
    truth,
)
from .descriptions import Operator


def lower_conditional(lowering: Lowering, operator: Operator) -> None:
    """A branch: what its block writes comes out, or stays as it was."""
    entered = Entered(lowering, operator)
    conditions = [kept(lowering.read(operator, n)) for n in operator.inputs.get("X", ())]
    if operator.attribute("is_scalar_condition"):
        (given,) = conditions or [None]
        if given is None:
            raise UserError("a branch with a scalar condition has a condition", operator.location)
        condition = truth(given)
    else:
        # How many elements a tensor has is known here.
        has_all = all(all(p.type.shape) for c in conditions for p in parts_of(c))
        if not has_all:
            return
        condition = None
    if condition is None:
        after = entered.built(entered.before())
        entered.finish(after)
        return
    before = entered.before()
    for name, value in before.items():
        if isinstance(value, TensorArray):
            before[name] = _same_form(entered, name, value)
    held = flat(before)
    types = [(h.axes, h.element) for h in held]
    taken = build_region((), lambda: entered.fitting(entered.built(before), before))
    left = build_region((), lambda: held)
    if not held:
        return
    branch = ControlOp(ng.IfOp, [condition], [taken, left], types)
    entered.finish(shaped(before, branch.results))


def _same_form(entered: Entered, name: str, value: TensorArray) -> Kept:
    count = sum(1 for o in all_operators(entered.block) if o.type == "write_to_array" and name in o.writes)
    if not value.parts():
        return empty_array(entered, name, count)
    return value.stacked(len(value.elements) + count)
