# SPDX-License-Identifier: Apache-2.0
"""Operators, gradients and kernels of your own: docs/operators-of-your-own.md.

from ngmlir.programs.custom import gradient_maker, kernel, new_operator
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from textwrap import dedent
from typing import Any, TypeVar

from ..decl.operator_text import AttributeEntry, Limit, OperatorEntry, Slot, check_entry, parse_operators
from ..op_graph.answers import answered
from ..op_graph.source import user_location
from ..support.diagnostics import UNKNOWN, Diagnostic, UserError
from .catalogue import REGISTRY
from .definition import Definition, GradientOp
from .kernels import KERNELS, kernel
from .plugins import GROUP, PLUGINS
from .registry import gradient_maker, gradient_of

__all__ = [
    "GROUP", "KERNELS", "PLUGINS", "AttributeEntry", "GradientOp", "Limit", "OperatorEntry", "Slot", "gradient_maker", "gradient_of",
    "kernel", "new_operator",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])


@answered
def new_operator(entry: str | OperatorEntry, *, shape_only: bool = False) -> Callable[[F], F]:
    """Registers an operator: its entry, and the function that it decorates, which builds it of `ng` ops (those of `ng.numpy`: axes by position).

    Args:
        entry: slots, attributes and documentation, as text in the form of `dialects/program.operators`, or as an `OperatorEntry`.
        shape_only: whether the function only says the types of what the operator gives. Then kernels compute it, and its gradient is
            what a gradient maker gives.

    The function takes the inputs by position (a list for a list slot, None for an optional one that is empty) and the attributes by name;
    it gives the outputs in order. Types follow from it, and `<type>_grad` is its derivative, unless `gradient_of` or `gradient_maker`
    says another.

    Raises UserError for an entry out of the grammar, and for a second operator of one type, with the first place.
    """
    location = user_location()
    if isinstance(entry, str):
        try:
            found = parse_operators(dedent(entry), "<entry>")
        except UserError as error:
            note = Diagnostic("this is the entry of an operator", location, "note")
            raise UserError([replace(d, notes=(*d.notes, note)) for d in error.diagnostics]) from None
        if len(found) != 1:
            raise UserError(
                f"the text has {len(found)} operators, and one is registered",
                location,
                hint="operator NAME, then its slots",
            )
        (made,) = found
        made.location = location
    else:
        made = entry
        made.location = location if made.location is UNKNOWN else made.location
        check_entry(made)

    def register(function: F) -> F:
        REGISTRY.add(Definition(made, function, None, shape_only))
        return function

    return register
