# SPDX-License-Identifier: Apache-2.0
"""Chooses the kernels of a program: each operator says in its text which one computes it."""

from __future__ import annotations

from ..ir.attributes import StringAttr
from ..rewrite.remarks import is_enabled, remark
from .catalogue import REGISTRY
from .changes import CHANGES, Changes
from .choosing import choose
from .descriptions import Program
from .kernels import KERNELS

#: What the remarks are about: the pass.
TOPIC = "program-kernels"
#: Operators that no kernel computes.
_RUN = ("feed", "fetch", *CHANGES)
#: Attributes that ask for a kernel.
_ASKING = ("library", "place", "kernel")


def has_choices(program: Program) -> bool:
    """Whether a kernel may compute one of the operators."""
    types = {operator.type for operator in program.walk()}
    if any(KERNELS.of(type) or REGISTRY.get(type).needs_kernel for type in types):
        return True
    return any(name in _ASKING for o in program.walk() for name, _ in o.dictionary.items)


def with_kernels(program: Program, place: str) -> Program:
    """As `select_kernels`; the program itself, where there is nothing to choose."""
    return select_kernels(program, place) if has_choices(program) else program


def select_kernels(program: Program, place: str, library: str = "") -> Program:
    """The program with a kernel for each operator that has one, where it runs at `place`.

    UserError, at the operator's line and with the kernels that there are, where an operator asks for one that there is not.
    """
    made = program.copy()
    for block in made.blocks:
        changes = Changes(block, place)
        for operator in list(block.operators):
            if operator.type in _RUN:
                continue
            choice = choose(operator, place, library)
            if is_enabled(TOPIC):
                what = "its own function" if choice.kernel is None else f"the kernel {choice.kernel.label}"
                remark(TOPIC, f"operator {operator.type} runs {what}: {choice.reason}", operator.location)
            if choice.kernel is None or operator.attribute("kernel"):
                continue
            operator.set_attribute("kernel", StringAttr(choice.kernel.label))
            if choice.place:
                operator.set_attribute("place", StringAttr(choice.place))
            if choice.changes:
                changes.surround(operator, choice)
        changes.cancel()
    return made
