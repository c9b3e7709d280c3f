# SPDX-License-Identifier: Apache-2.0
"""Programs that were compiled for some feeds and fetches, and the state of scopes that they run on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...programs import names
from ...programs.descriptions import Program
from ...programs.interface import Interface, State, random_state
from ...support.diagnostics import Diagnostic, UserError
from ...transformers.host_steps import Bind, Run
from .file_operators import Saving
from .printing import Printed
from .scope import LoDTensor, Scope, moves


@dataclass
class Prepared:
    """A program that was compiled for some feeds and fetches, and how it is bound to the state of a scope."""

    program: Program
    interface: Interface
    bind: Bind
    #: Whether it computes lengths that the program needs to be compiled, and nothing else.
    measures: bool = False
    #: What is printed after each run; its values come after those that are fetched.
    printed: Sequence[Printed] = ()
    #: The files that are written after each run; their values are the last results.
    savings: Sequence[Saving] = ()
    scope: Scope | None = None
    moves: int = -1
    run: Run | None = None

    def bound(self, scope: Scope) -> Run:
        """What runs it on the state of a scope. A state that the program makes is made here, and is in the scope once the
        program has run."""
        tensors: dict[int, LoDTensor] = {}
        made: list[tuple[str, LoDTensor]] = []
        for at, state in enumerate(self.interface.states, len(self.interface.feeds)):
            found = scope.find_var(state.name)
            tensor = found.value if found is not None and isinstance(found.value, LoDTensor) else None
            if (
                tensor is None
                or not tensor.is_initialized
                or (not state.is_read and not _is_of(tensor, state))
            ):
                if state.name == names.RANDOM:
                    tensor = LoDTensor(random_state(self.program.random_seed))
                elif state.is_read:
                    raise self._uninitialized(state.name)
                else:
                    tensor = LoDTensor()
                    tensor.hold(np.zeros(state.shape, state.dtype))
                made.append((state.name, tensor))
            elif not _is_of(tensor, state):
                raise UserError(
                    f"'{state.name}' is {state} in the program, and the scope holds {tensor.host.dtype} of shape {tensor.shape()}",
                    hint="it was made by another program, or loaded from a file of one",
                )
            tensors[at] = tensor
        run = self.bind("main", tensors, self.interface.tied, tuple)
        if not made:
            self.run, self.scope, self.moves = run, scope, moves()
            return run

        def once(*values: Any) -> Sequence[Any]:
            results = run(*values)
            for name, tensor in made:
                held = scope.find_var(name) or scope.var(name)
                # Who holds the tensor of the scope sees what was computed.
                if isinstance(held.value, LoDTensor):
                    held.value.become(tensor)
                else:
                    held.value = tensor
            return results

        return once

    def _uninitialized(self, name: str) -> UserError:
        variable = self.program.top.find(name)
        where = variable.location if variable is not None else None
        message = f"'{name}' has no value in this scope"
        hint = "run the start-up program first: executor.run(fluid.default_startup_program())"
        return UserError(
            Diagnostic(message, where, hint=hint) if where is not None else Diagnostic(message, hint=hint)
        )


def _is_of(tensor: LoDTensor, state: State) -> bool:
    return tensor.is_of(state.shape, state.dtype)
