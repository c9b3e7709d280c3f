# SPDX-License-Identifier: Apache-2.0
"""Steps that are not taken at every run: after several batches, or only where gradients are finite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from ...op_graph import functions as ng
from ...op_graph.building import assigning_where
from ...op_graph.errors import UserError, fail
from ...op_graph.node import Op
from ...op_graph.state import assign, doall, sequential
from ...op_graph.tensor import Tensor
from .described import Described
from .slots import counter, slot

__all__ = ["LossScale", "accumulated"]

#: From gradients to what changes variables by them: groups of writes, to run in this order.
Step = Callable[[Sequence[Tensor]], Sequence[Op]]


def accumulated(variables: Sequence[Tensor], grads: Sequence[Tensor], count: int, step: Step) -> Op:
    """Adds gradients up, and at every `count`-th run takes a step by their mean.

    Sums are stored as `VARIABLE.gradient_sum`, and the number of those that are in them as `accumulated`.
    """
    held = counter("accumulated")
    last = ng.greater_equal(held + 1, count)
    sums = [slot(v, "gradient_sum") for v in variables]
    totals = [total + grad for total, grad in zip(sums, grads, strict=True)]
    with assigning_where(last):
        taken = step([total / count for total in totals])
    kept = [assign(held, ng.where(last, 0, held + 1))]
    kept += [assign(old, ng.where(last, 0, new)) for old, new in zip(sums, totals, strict=True)]
    return sequential([*taken, doall(kept), 0])


class LossScale(Described):
    """A factor of the cost that follows what gradients are, so that small ones are not lost in f16.

    Gradients of the cost times the scale are divided by it again. Where one of them is not finite, nothing is changed but the scale,
    which is multiplied by `backoff`; after `interval` steps in a row that were taken it is multiplied by `growth`.

    Args:
        initial: the scale at the beginning.
        growth: what it is multiplied by after enough steps.
        backoff: what it is multiplied by after a step that was left out.
        interval: how many steps in a row make it grow.

    Raises UserError for numbers that are not positive, for `growth` below 1, and for `backoff` from 1 on.
    """

    def __init__(
        self, initial: float = 2.0**15, growth: float = 2.0, backoff: float = 0.5, interval: int = 2000
    ):
        if not (initial > 0 and growth >= 1 and 0 < backoff < 1 and interval >= 1):
            fail(
                UserError,
                f"a scale of the loss with initial={initial}, growth={growth}, backoff={backoff}, interval={interval}",
                "initial > 0, growth >= 1, 0 < backoff < 1, interval >= 1",
            )
        self.growth, self.backoff, self.interval = growth, backoff, interval
        #: The scale, kept from run to run.
        self.value = counter("loss_scale", initial)
        self._taken = counter("loss_scale_steps")

    def guarded(self, grads: Sequence[Tensor], step: Step) -> Op:
        """Takes a step where all gradients are finite."""
        scale, taken = self.value, self._taken
        finite = ng.constant(True, dtype="i1")
        for grad in grads:
            inside = ng.less(ng.absolute(grad), inf)
            finite = ng.logical_and(finite, ng.all(inside, out_axes=()) if grad.axes else inside)

        enough = ng.greater_equal(taken + 1, self.interval)
        grown = ng.where(enough, scale * self.growth, scale)
        with assigning_where(finite):
            groups = step(grads)
        changes = [
            assign(scale, ng.where(finite, grown, scale * self.backoff)),
            assign(taken, ng.where(ng.logical_or(enough, ng.logical_not(finite)), 0, taken + 1)),
        ]
        return sequential([*groups, doall(changes), 0])
