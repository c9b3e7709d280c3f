# SPDX-License-Identifier: Apache-2.0
"""Programs compiled for what they are fed: found on disk by their text, where they were compiled before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..programs.catalogue import REGISTRY
from ..programs.descriptions import Program
from ..programs.interface import Interface
from ..programs.lower import Lowered, lower
from ..programs.select_kernels import with_kernels
from ..programs.text import program_text
from .backends import backend_for, in_memory
from .host_steps import Bind, Run
from .kept import KeptPrograms


def compiled(program: Program, target: str) -> tuple[Interface, Bind]:
    """A program with its `feed` and `fetch` operators, for a target: what it takes and gives, and its functions."""
    program = with_kernels(program, target)
    kept: KeptPrograms | None = None
    if target == "cpu" and _is_builtin(program):
        text = program_text(program).encode()
        kept = KeptPrograms(lambda: [text], "program")
        if (found := kept.find()) is not None:
            executable, facts = found
            return Interface.from_facts(facts), in_memory(executable)
    lowered = lower(program)
    interface = lowered.interface
    if kept is not None and not lowered.calls_python:
        return interface, in_memory(kept.compiled(lowered.module, interface.facts()))
    backend = backend_for(target)
    assert backend is not None
    bind = backend(lowered.module)
    return interface, _holding(bind, lowered) if lowered.calls_python else bind


def _holding(bind: Bind, lowered: Lowered) -> Bind:
    """The functions of a program, which keep the Python functions that they call."""

    def bound(*how: Any) -> Run:
        run = bind(*how)

        def call(*values: Any, of: Lowered = lowered) -> Sequence[Any]:
            return run(*values)

        return call

    return bound


def _is_builtin(program: Program) -> bool:
    """Whether the text of a program and the version of ngmlir say all of what it computes."""
    found = [(REGISTRY.find(operator.type), operator.attribute("kernel")) for operator in program.walk()]
    return all(
        definition is not None and definition.is_builtin and not kernel for definition, kernel in found
    )
