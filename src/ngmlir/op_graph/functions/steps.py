# SPDX-License-Identifier: Apache-2.0
"""The rows of a ragged axis by step, for loops that go along it.

By steps and sequences, step t holds row t of each sequence: there are as many steps as the longest sequence has rows, and a sequence
that has ended repeats its last row, which affects no result. Lanes have fewer such positions: a lane holds several sequences, one
after another.
"""

from __future__ import annotations

from ...ir.types import i32
from ...ops import ng
from ..axes import Axes, FlattenedAxis
from ..ragged import RaggedAxis
from ..tensor import Tensor
from ..values import size_op
from ..verbs import VERBS
from .coerce import broadcast
from .elementwise import add, bitwise_or, equal, less, maximum, minimum, multiply, subtract
from .index import gather, iota, scatter
from .segments import segment_bounds
from .shape import flatten


def by_steps(x: Tensor, axis: RaggedAxis) -> Tensor:
    """x with (steps, `axis.outer`) in place of its ragged axis."""
    first, end = segment_bounds(axis.offsets, axis.outer)
    wanted = Axes((axis.steps.axes[0], axis.outer))
    place = minimum(add(first, axis.steps), subtract(end, 1))
    return gather(x, broadcast(maximum(place, 0), wanted), axis)


def running(axis: RaggedAxis) -> Tensor:
    """Whether a sequence has a row at a step: (steps, `axis.outer`)."""
    first, end = segment_bounds(axis.offsets, axis.outer)
    return broadcast(less(axis.steps, subtract(end, first)), Axes((axis.steps.axes[0], axis.outer)))


def by_rows(x: Tensor, axis: RaggedAxis) -> Tensor:
    """What `by_steps` gives as rows again: x has (steps, `axis.outer`), and the ragged axis comes first."""
    both = Axes((axis.steps.axes[0], axis.outer))
    flat = flatten(x, [FlattenedAxis(both), *(x.axes - both)])
    count = size_op(Axes((axis.outer,)), Axes(), i32)
    at = add(multiply(row_places(axis), count), _of_rows(iota([axis.outer], axis.outer), axis))
    return gather(flat, at, flat.axes[0])


class InLanes:
    """The rows of a ragged axis by step and lane."""

    def __init__(self, axis: RaggedAxis):
        self.axis = axis
        count = size_op(Axes((axis,)), Axes(), i32)
        self._is_none = equal(axis.lanes, count)
        self._rows = minimum(axis.lanes, subtract(count, 1))

    def of(self, x: Tensor) -> Tensor:
        """x with (steps, lanes) in place of its ragged axis; any row where there is none."""
        return gather(x, self._rows, self.axis)

    def of_sequences(self, x: Tensor) -> Tensor:
        """What the sequence of each place has in x, which has `axis.outer`."""
        return gather(
            x, self.of(_of_rows(iota([self.axis.outer], self.axis.outer), self.axis)), self.axis.outer
        )

    def begins(self, reverse: bool) -> Tensor:
        """Whether a sequence begins there, or, in `reverse`, ends; also where there is no row."""
        first, end = segment_bounds(self.axis.offsets, self.axis.outer)
        place = _of_rows(subtract(end, 1) if reverse else first, self.axis)
        return bitwise_or(self._is_none, self.of(equal(iota([self.axis], self.axis), place)))

    def rows(self, x: Tensor) -> Tensor:
        """x, which has (steps, lanes), as rows again: the ragged axis comes first."""
        both = self.axis.lanes.axes
        flat = flatten(x, [FlattenedAxis(both), *(x.axes - both)])
        cells = flatten(self.axis.lanes, flat.axes[0])
        at = scatter(iota([self.axis], self.axis), cells, iota([flat.axes[0]], flat.axes[0]), self.axis)
        return gather(flat, at, flat.axes[0])


def row_places(axis: RaggedAxis) -> Tensor:
    """i32: the place of each row in its sequence, from 0."""
    first, _ = segment_bounds(axis.offsets, axis.outer)
    return subtract(iota([axis], axis), _of_rows(first, axis))


def _of_rows(x: Tensor, axis: RaggedAxis) -> Tensor:
    """At each row what its sequence has in x (`axis.outer`)."""
    return VERBS.stated(ng.SegmentExpandOp, [x, axis.offsets], {"axis": 0}, Axes((axis,)), x.element)
