# SPDX-License-Identifier: Apache-2.0
"""Gradients: operators that are appended to a program."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from ...op_graph.answers import answer_all
from ...programs import backward
from ...support.diagnostics import UserError
from .framework import Parameter, Variable
from .lists import listed

__all__ = ["append_backward", "calc_gradient"]


def append_backward(
    loss: Variable,
    parameter_list: Sequence[Parameter | str] | None = None,
    no_grad_set: Collection[Variable | str] | None = None,
    callbacks: Sequence[Callable[..., Any]] | None = None,
    checkpoints: Sequence[Variable | str] | None = None,
) -> list[tuple[Variable, Variable]]:
    """Appends what computes the gradients of a loss: pairs (parameter, gradient) of the trainable parameters that it depends on, or
    of those listed.

    Variables of `no_grad_set`, and those with `stop_gradient`, get none. Each of `callbacks` is called as `callback(block, context)`
    after every operator that is appended, `context["operator"]`, and when a gradient is complete, `context["finished"]`, before
    anything reads it. What is computed between `checkpoints` (the results of some layers) is not kept in memory for the gradients,
    but computed again, with the same bits. Raises ValueError where the loss has not one element, and for a checkpoint that nothing
    computes.
    """
    block = loss.block

    def told(_: Any, context: Any) -> None:
        for callback in callbacks or ():
            callback(block, context)

    pairs = backward.append_backward(
        loss.view,
        None if parameter_list is None else _names(parameter_list),
        _names(no_grad_set or ()),
        [told] if callbacks else [],
        _names(checkpoints or ()),
    )
    return [(block.var_recursive(p.name), block.var_recursive(g.name)) for p, g in pairs]


def calc_gradient(
    targets: Variable | Sequence[Variable],
    inputs: Variable | Sequence[Variable],
    target_gradients: Variable | Sequence[Variable | None] | None = None,
    no_grad_set: Collection[Variable | str] | None = None,
) -> Any:
    """Appends what computes the gradients of targets by inputs: a list with None for an input that no target depends on; one
    variable, where there is one input. A target's gradient is the variable given for it, or ones."""
    wanted, sources = listed(targets), listed(inputs)
    given = [None] * len(wanted) if target_gradients is None else listed(target_gradients)
    if len(given) != len(wanted):
        raise UserError(f"there are {len(wanted)} targets, and gradients for {len(given)}")
    block = wanted[0].block
    for variable in (*wanted, *sources):
        if variable.block.program is not block.program:
            raise UserError(f"the variable '{variable.name}' is of another program")
    found = backward.append_gradients(
        [v.view for v in wanted],
        [v.view for v in sources],
        [None if g is None else g.view for g in given],
        _names(no_grad_set or ()),
    )
    made = [None if view is None else block.var_recursive(view.name) for view in found]
    return made[0] if len(made) == 1 else made


def _names(given: Collection[Variable | str]) -> list[str]:
    return [v.name if isinstance(v, Variable) else v for v in given]


answer_all(globals(), __all__, "fluid.backward", undone=True)
