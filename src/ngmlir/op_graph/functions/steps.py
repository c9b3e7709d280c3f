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
from .composed import where
from .elementwise import add, equal, less, maximum, minimum, multiply, subtract
from .index import gather, iota, scatter
from .segments import segment_bounds
from .shape import flatten


class BySteps:
    """The rows of a ragged axis by step and sequence."""

    def __init__(self, axis: RaggedAxis):
        self.axis = axis
        self.axes = Axes((axis.steps.axes[0], axis.outer))
        self._first, self._end = segment_bounds(axis.offsets, axis.outer)

    def of(self, x: Tensor) -> Tensor:
        """x with (steps, `axis.outer`) in place of its ragged axis."""
        place = minimum(add(self._first, self.axis.steps), subtract(self._end, 1))
        return gather(x, broadcast(maximum(place, 0), self.axes), self.axis)

    @property
    def running(self) -> Tensor:
        """Whether a sequence has a row at a step."""
        return broadcast(less(self.axis.steps, subtract(self._end, self._first)), self.axes)

    def rows(self, x: Tensor) -> Tensor:
        """x, which has (steps, `axis.outer`), as rows again: the ragged axis comes first."""
        flat = flatten(x, [FlattenedAxis(self.axes), *(x.axes - self.axes)])
        count = size_op(Axes((self.axis.outer,)), Axes(), i32)
        sequence = _of_rows(iota([self.axis.outer], self.axis.outer), self.axis)
        return gather(flat, add(multiply(row_places(self.axis), count), sequence), flat.axes[0])


class InLanes:
    """The rows of a ragged axis by step and lane. Where there is none, it is one with which a sequence begins: in `reverse` its last."""

    def __init__(self, axis: RaggedAxis, reverse: bool):
        self.axis, self.axes = axis, axis.lanes.axes
        first, end = segment_bounds(axis.offsets, axis.outer)
        count = size_op(Axes((axis,)), Axes(), i32)
        begin = subtract(count, 1) if reverse else 0
        self._rows = where(less(axis.lanes, count), axis.lanes, begin)
        place = _of_rows(subtract(end, 1) if reverse else first, axis)
        #: Whether a sequence begins there.
        self.begins = self.of(equal(iota([axis], axis), place))

    def of(self, x: Tensor) -> Tensor:
        """x with (steps, lanes) in place of its ragged axis."""
        return gather(x, self._rows, self.axis)

    def of_sequences(self, x: Tensor) -> Tensor:
        """What the sequence of each place has in x, which has `axis.outer`."""
        return gather(
            x, self.of(_of_rows(iota([self.axis.outer], self.axis.outer), self.axis)), self.axis.outer
        )

    def rows(self, x: Tensor) -> Tensor:
        """x, which has (steps, lanes), as rows again: the ragged axis comes first."""
        flat = flatten(x, [FlattenedAxis(self.axes), *(x.axes - self.axes)])
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
