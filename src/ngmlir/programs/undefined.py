# SPDX-License-Identifier: Apache-2.0
"""Means of nothing, which are not numbers: a run that would keep one, or what follows from it, in a variable is refused.

Of a loop that is what its first iteration keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from .. import numpy as np
from ..op_graph.node import Op, needs
from ..op_graph.regions import ResultOp
from ..op_graph.replay import replayed
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

    def check(self, kept: Iterable[tuple[str, Op]], holds: Callable[[Tensor], bool]) -> None:
        """UserError, at the line of the operator, where a variable would keep what follows from one. What branches and loops with conditions
        compute counts where these hold before the run, as `holds` tells."""
        if not self.found:
            return
        for name, value in kept:
            for wrong, conditions in _Paths(self.found).of(value):
                if conditions and not holds(reduce(np.logical_and, conditions)):
                    continue
                message = (
                    f"the mean of nothing is not a number, and '{name}', which is kept, would follow from it"
                )
                hint = "leave out batches without rows; layers.reduce_sum and layers.sequence_pool give 0 of nothing"
                raise UserError(Diagnostic(message, self.found[wrong].location, hint=hint))


#: What must hold so that something runs.
_Conditions = tuple[Tensor, ...]


class _Paths:
    """The ways to what is not a number, from what is computed of it."""

    def __init__(self, found: Container[Op]):
        self.found = found
        #: What regions are entered with.
        self.given: dict[Op, Op] = {}

    def of(self, value: Op) -> Iterator[tuple[Op, _Conditions]]:
        """What a value follows from, and on which conditions; a condition that is not known before the run ends a way."""
        stack: list[tuple[Op, _Conditions]] = [(value, ())]
        seen = {*stack}
        while stack:
            op, conditions = stack.pop()
            if op in self.found:
                yield op, conditions
                continue
            for each, more in self._before(op):
                way = each, (*conditions, *more)
                if way not in seen:
                    seen.add(way)
                    stack.append(way)

    def _before(self, op: Op) -> Iterable[tuple[Op, _Conditions]]:
        if op in self.given:
            return [(self.given[op], ())]
        if not isinstance(op, ResultOp):
            return [(each, ()) for each in needs(op)]
        control, at = op.control, op.index
        is_outside = control.region is None
        if control.kind is ng.IfOp:
            condition = control.operands[0]
            ways = zip(control.regions, (condition, np.logical_not(condition)), strict=True)
            return [(region.results[at], (holds,)) for region, holds in ways] if is_outside else ()
        *asked, body = control.regions
        self.given.update(zip(body.parameters, control.operands, strict=True))
        carried = control.attributes.get("carried", len(control.operands))
        first = [(control.operands[at], ())] if at < carried else []
        if not asked:
            never = is_same(control.operands[carried].type.shape[0], 0)
            return first if never else [*first, (body.results[at], ())]
        if not is_outside:
            return first
        (once,) = replayed(asked[0], control.operands)
        return [*first, (body.results[at], (once,))]


def _is_nothing(x: Any) -> bool:
    return isinstance(x, Tensor) and any(is_same(n, 0) for n in x.type.shape)
