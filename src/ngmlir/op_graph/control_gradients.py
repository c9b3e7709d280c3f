# SPDX-License-Identifier: Apache-2.0
"""Gradients of branches and loops: again branches and loops, so that they have gradients themselves.

The gradient of a branch is built inside the branch, so that it may use all values of the branch. Of these, costly ones become
additional results of the branch; the others are recomputed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..ir import core
from ..ops import ng
from .node import Op
from .order import schedule
from .ordered import OrderedSet
from .regions import ControlOp, GraphRegion, build_region, within
from .replay import Replay
from .scan_gradient import Backward, Deltas, below, is_quick, keeping, scan_gradient
from .tensor import Tensor, as_tensor
from .verbs import VERBS
from .while_gradient import while_gradient

ControlRule = Callable[[ControlOp, Deltas, Sequence[bool], Backward], Deltas]


class _Branch:
    """The gradients of one branch by `targets`: which of its ops are computed again, and of which the values are kept."""

    def __init__(self, region: GraphRegion, deltas: Deltas, targets: Sequence[Tensor], backward: Backward):
        with within(GraphRegion(region)) as scratch:
            given = zip(region.results, deltas, strict=True)
            sums = backward([(r, d) for r, d in given if d is not None], {t.forwarded for t in targets})
            found = [(t, sums.get(t.forwarded)) for t in targets]
            self.found = [VERBS.number_like(0, t) if f is None else f for t, f in found]
        self.order = schedule(region.inside(self.found))
        self.kept: OrderedSet[Op] = OrderedSet()
        self.again: set[Op] = set()
        stack = [f.forwarded for f in self.found]
        while stack:
            op = stack.pop()
            if op in self.again or op in self.kept or not region.holds(op):
                continue
            if op.region is not scratch and op.args and not is_quick(op):
                self.kept.add(op)
            else:
                self.again.add(op)
                stack += below(op)

    def built(self, known: Mapping[Op, Op]) -> GraphRegion:
        """A branch that gives them."""

        def gradients() -> Sequence[Tensor]:
            replay = Replay(known)
            replay.run(op for op in self.order if op in self.again)
            return replay.results(self.found)

        return build_region((), gradients)


def _if_gradient(op: ControlOp, deltas: Deltas, wanted: Sequence[bool], backward: Backward) -> Deltas:
    """The same condition chooses between the gradients of the branches."""
    targets = [as_tensor(a) for a, use in zip(op.args, wanted, strict=True) if use]
    branches = [_Branch(region, deltas, targets, backward) for region in op.regions]
    kept = _kept(op, branches)
    regions = [branch.built({**op.reads, **kept}) for branch in branches]
    made = ControlOp(op.kind, op.operands, regions, [(t.axes, t.element) for t in targets])
    given = iter(made.results)
    return [next(given) if use else None for use in wanted]


def _kept(op: ControlOp, branches: Sequence[_Branch]) -> dict[Op, Tensor]:
    """What branches keep, as results of the whole, which is replaced by one that gives them: 0 where the other was taken."""
    for region in op.regions:
        for result, given in zip(region.results, op.results, strict=False):  # what it gives anyway
            op.kept.setdefault(result.forwarded, given)
    missing = [[as_tensor(v) for v in branch.kept if v not in op.kept] for branch in branches]
    new = [v for values in missing for v in values]
    if new:
        again: dict[Op, Op] = {}

        def branch(region: GraphRegion, values: Sequence[Tensor]) -> GraphRegion:
            def computed() -> Sequence[Tensor]:
                replay = Replay({})
                replay.run(schedule(region.inside([*region.results, *values])))
                again.update((v, replay.now(v)) for v in (*values, *(k for k in op.kept if region.holds(k))))
                own = [as_tensor(replay.now(v)) if v in values else VERBS.number_like(0, v) for v in new]
                return [*replay.results(region.results), *own]

            return build_region((), computed)

        types = [(r.axes, r.element) for r in (*op.results, *new)]
        made = keeping(
            op, types, lambda: [branch(r, values) for r, values in zip(op.regions, missing, strict=True)]
        )
        op.kept.update(zip(new, made.results[len(op.results) :], strict=True))
        made.kept.update((again[v], as_tensor(kept.forwarded)) for v, kept in op.kept.items() if v in again)
    return {v: as_tensor(op.kept[v].forwarded) for branch in branches for v in branch.kept}


CONTROL_GRADIENTS: dict[type[core.Op], ControlRule] = {
    ng.IfOp: _if_gradient,
    ng.ScanOp: scan_gradient,
    ng.WhileOp: while_gradient,
}
