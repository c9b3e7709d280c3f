# SPDX-License-Identifier: Apache-2.0
"""Means of nothing, which are not numbers: a run that would keep one, or what follows from it, in a variable is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..op_graph.node import Op, closure, needs
from ..op_graph.regions import ControlOp
from ..op_graph.tensor import Tensor
from ..ops import ng
from ..support.diagnostics import Diagnostic, UserError
from ..support.lengths import is_same
from .catalogue import REGISTRY
from .descriptions import Operator


@dataclass
class Undefined:
    """What is not a number, by the operators that gave it."""

    found: dict[Op, Operator] = field(default_factory=dict[Op, Operator])

    def note(
        self, operator: Operator, inputs: Mapping[str, Sequence[Any]], made: Mapping[str, Sequence[Any]]
    ) -> None:
        """Looks at what an operator gave. Lengths of 0 are numbers in a program."""
        if REGISTRY.says(operator.type, "mean") and any(_is_nothing(x) for x in inputs["X"]):
            self.found.update(
                {v: operator for v in made["Out"] if isinstance(v, Tensor) and not _is_nothing(v)}
            )

    def check(self, kept: Iterable[tuple[str, Op]]) -> None:
        """UserError, at the line of the operator, where a variable would keep what follows from one. A branch may leave it out."""
        if not self.found:
            return
        for name, value in kept:
            wrong = next((op for op in closure([value], _without_branches) if op in self.found), None)
            if wrong is not None:
                message = (
                    f"the mean of nothing is not a number, and '{name}', which is kept, would follow from it"
                )
                hint = "leave out batches without rows; layers.reduce_sum and layers.sequence_pool give 0 of nothing"
                raise UserError(Diagnostic(message, self.found[wrong].location, hint=hint))


def _is_nothing(x: Any) -> bool:
    return isinstance(x, Tensor) and any(is_same(n, 0) for n in x.type.shape)


def _without_branches(op: Op) -> Iterable[Op]:
    return () if isinstance(op, ControlOp) and op.kind is ng.IfOp else needs(op)
