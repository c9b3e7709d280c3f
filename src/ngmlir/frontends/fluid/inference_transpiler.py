# SPDX-License-Identifier: Apache-2.0
"""Programs made faster for inference."""

from __future__ import annotations

from ...op_graph.answers import answered
from ...programs.fold_batch_norm import folded, without_folded
from .executor import Executor
from .framework import Program
from .places import Place
from .scope import Scope, global_scope


class InferenceTranspiler:
    """Folds batch normalization into the convolutions and matrix products before it:
    `InferenceTranspiler().transpile(program, place, scope)`."""

    @answered
    def transpile(self, program: Program, place: Place | None = None, scope: Scope | None = None) -> None:
        """Edits a program for inference (`clone(for_test=True)`) in place. The new filters and biases are computed now, at a place
        (by default the CPU), from those of a scope (by default the global one), to which they are added. Existing values stay,
        so that programs that share them remain valid.

        Results differ from those before by rounding. The program no longer has the result
        between a convolution and its normalization. Raises UserError, and changes nothing, where the scope lacks a value.
        """
        if not isinstance(program, Program):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"transpile takes a program, not {program!r}")
        if scope is not None and not isinstance(scope, Scope):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"transpile takes a scope, not {scope!r}")
        made = folded(program.view)
        once, rest = without_folded(made)
        if made.parameters:
            Executor(place).run(Program(once), scope=global_scope() if scope is None else scope)
        program.view = rest
