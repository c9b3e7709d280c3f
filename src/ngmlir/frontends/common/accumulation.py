# SPDX-License-Identifier: Apache-2.0
"""Steps that are not taken at every run: after several batches, or only where gradients are finite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from ...op_graph import functions as ng
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

    Sums are kept beside the variables, as `VARIABLE.gradient_sum`, and the number of those that are in them as `accumulated`.
    """
    held = counter("accumulated")
    sums = [slot(v, "gradient_sum") for v in variables]
    totals = [total + grad for total, grad in zip(sums, grads, strict=True)]

    def last() -> Op:
        begun = [assign(held, 0), *(assign(total, 0) for total in sums)]
        return sequential([*step([total / count for total in totals]), doall(begun), 0])

    def earlier() -> Op:
        return doall([assign(held, held + 1), *map(assign, sums, totals)])

    return _chosen(ng.greater_equal(held + 1, count), last, earlier)


def _chosen(condition: Tensor, then: Callable[[], Op], otherwise: Callable[[], Op]) -> Op:
    """The writes of one of two groups."""

    def group(function: Callable[[], Op]) -> Callable[[], Any]:
        def run() -> Any:
            made = function()
            return doall([made])

        return run

    return ng.cond(condition, group(then), group(otherwise))


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

        def take() -> Op:
            enough = ng.greater_equal(taken + 1, self.interval)
            grown = [
                assign(scale, ng.where(enough, scale * self.growth, scale)),
                assign(taken, ng.where(enough, 0, taken + 1)),
            ]
            return sequential([*step(grads), doall(grown), 0])

        def leave() -> Op:
            return doall([assign(scale, scale * self.backoff), assign(taken, 0)])

        return _chosen(finite, take, leave)
