# SPDX-License-Identifier: Apache-2.0
"""Branches and loops that functions of variables make, as in later releases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from ....support.diagnostics import UserError
from ..framework import Block, Variable
from ..layer_helper import LayerHelper, one_op
from .control_flow import ConditionalBlock, While
from .tensor import assign, equal, fill_constant

__all__ = ["case", "cond", "switch_case", "while_loop"]

#: Makes what a branch gives: a variable, nested lists of them, or nothing.
Branch = Callable[[], Any]


def cond(
    pred: Variable, true_fn: Branch | None = None, false_fn: Branch | None = None, name: str | None = None
) -> Any:
    """What `true_fn()` makes where pred, one bool, holds, else what `false_fn()` makes; only one of them runs. Both give a variable, or lists
    or tuples of variables, of the same form, or nothing.

    Raises UserError where the two differ.
    """
    outer, results = LayerHelper("cond", name=name).block, list[Variable]()
    forms = [_branch(outer, pred, true_fn, results)]
    forms.append(_branch(outer, one_op("logical_not", {"X": pred}, {"Out": "bool"}), false_fn, results))
    if _shape(forms[0]) != _shape(forms[1]):
        raise UserError(
            f"the branches of cond give results of one form, not {_shape(forms[0])} and {_shape(forms[1])}",
            hint="return as many variables from both, in the same lists",
        )
    return forms[0]


def _branch(outer: Block, chosen: Variable, function: Branch | None, results: list[Variable]) -> Any:
    """What a branch gives, as variables around it: `results`, which the first branch makes."""
    if function is None:
        return None
    place = iter([*results])
    with ConditionalBlock([chosen], is_scalar_condition=True).block():

        def outside(made: Any) -> Any:
            if isinstance(made, (list, tuple)):
                each = [outside(one) for one in cast(Sequence[Any], made)]
                return tuple(each) if isinstance(made, tuple) else each
            if made is None:
                return None
            if not isinstance(made, Variable):
                raise UserError(f"a branch gives variables, not {made!r}")
            into = next(place, None)
            if into is None:
                name = f"{LayerHelper('cond').name}.out"
                into = outer.create_var(
                    name=name, dtype=made.dtype, shape=made.shape, lod_level=made.lod_level
                )
                results.append(into)
            return assign(made, into)

        return outside(function())


def _shape(form: Any) -> Any:
    """The lists of a result, with a word for each variable."""
    if isinstance(form, (list, tuple)):
        return [_shape(each) for each in cast(Sequence[Any], form)]
    return None if form is None else "variable"


def case(
    pred_fn_pairs: Sequence[tuple[Variable, Branch]], default: Branch | None = None, name: str | None = None
) -> Any:
    """What the function of the first pair makes whose condition holds, else what `default()` makes: by default the last function."""
    pairs = list(pred_fn_pairs)
    if not pairs:
        raise UserError("case takes one pair of a condition and a function or more")
    if default is None:
        default = pairs.pop()[1]
    chosen = default
    for pred, function in reversed(pairs):
        chosen = _either(pred, function, chosen, name)
    return chosen()


def _either(pred: Variable, first: Branch, second: Branch, name: str | None) -> Branch:
    return lambda: cond(pred, first, second, name)


def switch_case(
    branch_index: Variable,
    branch_fns: dict[int, Branch] | Sequence[Branch] | Sequence[tuple[int, Branch]],
    default: Branch | None = None,
    name: str | None = None,
) -> Any:
    """What the function of a number makes, one integer, else what `default()` makes: by default the function of the greatest number. The
    functions have the numbers 0, 1, ..., or those that they are given with."""
    listed: list[Any] = list(branch_fns.items() if isinstance(branch_fns, dict) else branch_fns)
    numbered: list[tuple[int, Branch]] = [
        f if isinstance(f, tuple) else (at, f) for at, f in enumerate(listed)
    ]
    numbered.sort(key=lambda pair: pair[0])
    if len({number for number, _ in numbered}) < len(numbered):
        raise UserError(
            f"the functions of switch_case have different numbers, not {[n for n, _ in numbered]}"
        )
    if default is None and numbered:
        default = numbered[-1][1]
    pairs = [
        (equal(branch_index, fill_constant([1], branch_index.dtype, number)), function)
        for number, function in numbered
    ]
    return case(pairs, default, name)


def while_loop(
    cond: Callable[..., Variable],
    body: Callable[..., Any],
    loop_vars: Sequence[Variable],
    is_test: bool = False,
    name: str | None = None,
) -> list[Variable]:
    """The variables after a loop, which runs while `cond(*loop_vars)`, one bool, holds, and replaces them by what `body(*loop_vars)` gives.
    They are written, as by `assign`."""
    held = list(loop_vars)
    if not held:
        raise UserError("while_loop takes one variable or more", hint="while_loop(cond, body, [i, x])")
    going = cond(*held)
    with While(going, is_test, name).block():
        made = body(*held)
        after = list(cast(Sequence[Any], made) if isinstance(made, (list, tuple)) else [made])
        if len(after) != len(held):
            raise UserError(f"the body of while_loop gives {len(after)} variables for {len(held)}")
        # What is another variable of the loop is read before that is written.
        others = {v.name for v in held}
        after = [
            assign(new) if new is not old and new.name in others else new
            for new, old in zip(after, held, strict=True)
        ]
        for new, old in zip(after, held, strict=True):
            if new is not old:
                assign(new, old)
        assign(cond(*held), going)
    return held
