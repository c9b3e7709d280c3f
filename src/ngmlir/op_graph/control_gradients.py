# SPDX-License-Identifier: Apache-2.0
"""Gradients of branches and loops: again branches and loops, so that they have gradients themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir import core
from ..ops import ng
from .regions import ControlOp, GraphRegion, build_region
from .replay import Replay, replayed
from .scan_gradient import Backward, Deltas, scan_gradient
from .tensor import Tensor, as_tensor
from .verbs import VERBS

ControlRule = Callable[[ControlOp, Deltas, Sequence[bool], Backward], Deltas]


def _if_gradient(op: ControlOp, deltas: Deltas, wanted: Sequence[bool], backward: Backward) -> Deltas:
    """The same condition chooses between the gradients of the branches; each computes its branch again."""
    targets = [as_tensor(a) for a, use in zip(op.args, wanted, strict=True) if use]

    def branch(region: GraphRegion) -> GraphRegion:
        def gradients() -> Sequence[Tensor]:
            results = zip(replayed(region, (), Replay(op.reads)), deltas, strict=True)
            dependents = [(r, delta) for r, delta in results if delta is not None]
            sums = backward(dependents, {t.forwarded for t in targets})
            found = [sums.get(t.forwarded) for t in targets]
            return [VERBS.number_like(0, t) if f is None else f for f, t in zip(found, targets, strict=True)]

        return build_region((), gradients)

    made = ControlOp(
        op.kind, op.operands, [branch(r) for r in op.regions], [(t.axes, t.element) for t in targets]
    )
    given = iter(made.results)
    return [next(given) if use else None for use in wanted]


CONTROL_GRADIENTS: dict[type[core.Op], ControlRule] = {ng.IfOp: _if_gradient, ng.ScanOp: scan_gradient}
