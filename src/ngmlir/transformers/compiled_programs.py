# SPDX-License-Identifier: Apache-2.0
"""Programs compiled for what they are fed: found on disk by their text, where they were compiled before."""

from __future__ import annotations

from ..ops.hosts import host_name
from ..programs.catalogue import REGISTRY
from ..programs.descriptions import Program
from ..programs.interface import Interface
from ..programs.lower import lower
from ..programs.text import program_text
from .backends import backend_for, in_memory
from .host_steps import Bind
from .kept import KeptPrograms


def compiled(program: Program, target: str) -> tuple[Interface, Bind]:
    """A program with its `feed` and `fetch` operators, for a target: what it takes and gives, and its functions."""
    kept: KeptPrograms | None = None
    if target == "cpu" and _is_builtin(program):
        text = program_text(program).encode()
        kept = KeptPrograms(lambda: [text], "program")
        if (found := kept.find()) is not None:
            executable, facts = found
            return Interface.from_facts(facts), in_memory(executable)
    lowered = lower(program)
    interface = lowered.interface
    if kept is not None and not any(host_name(op) for op in lowered.module.ops):
        return interface, in_memory(kept.compiled(lowered.module, interface.facts()))
    backend = backend_for(target)
    assert backend is not None
    return interface, backend(lowered.module)


def _is_builtin(program: Program) -> bool:
    """Whether the text of a program and the version of ngmlir say all of what it computes."""
    found = [REGISTRY.find(operator.type) for operator in program.walk()]
    return all(definition is not None and definition.is_builtin for definition in found)
