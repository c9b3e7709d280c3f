# SPDX-License-Identifier: Apache-2.0
"""Sequences packed into lanes: one after the other, so that a loop over the steps of the longest one goes over few rows that are none.

In the loop a tensor has a row for each lane. Where a sequence begins, its lane begins again with the states before the first step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from .. import numpy as np
from ..op_graph.building import BUILDING
from ..op_graph.packed_lanes import LEAST_LANES, QUARTERS, steps_tried, work
from ..op_graph.positions import Positions
from ..op_graph.regions import ControlOp, build_region
from ..op_graph.tensor import Tensor
from ..op_graph.verbs import VERBS
from ..ops import ng
from ..support.lengths import is_same
from . import segments
from .definition import Context
from .masks import where_rows

#: Sequences are packed in groups of as many: a group takes as many steps one after the other, all groups at once.
_GROUP = 32


@dataclass(frozen=True)
class Packing:
    """Where sequences are: in a lane, from a step on. Both are i32, with an element for each sequence."""

    lane: Tensor
    start: Tensor
    #: How many lanes and steps there are.
    lanes: int
    steps: int


def lane_of_each(offsets: Tensor, steps: int) -> Packing:
    """A lane for each sequence."""
    count = segments.sequences(offsets)
    return Packing(np.arange(count, dtype=np.int32), np.zeros([count], np.int32), count, steps)


def packed(offsets: Tensor, numbers: Callable[[Sequence[Tensor]], Sequence[int]]) -> Packing:
    """At least one sequence in few lanes of few steps, by first-fit decreasing; `numbers` says how many of both there are.

    It is tried for the steps of the longest sequence and for some more, and the least work is taken. Sequences of similar lengths go to
    different groups, and each group to lanes of its own.
    """
    count = segments.sequences(offsets)
    lengths = segments.lengths(offsets)
    if is_same(count, 1):  # there is nothing to try; the numbers are those of the code for any count
        none = np.zeros([1], np.int32)
        steps, lanes = numbers([np.max(lengths), np.ones([1], np.int32)])
        return Packing(none, none, lanes, steps)
    order = np.astype(np.argsort(np.negative(lengths), stable=True), np.int32)
    groups = (count + _GROUP - 1) // _GROUP
    # One group more, without sequences, so that there are several whatever the count is.
    shape = (_GROUP, groups + 1, len(QUARTERS))
    turn = np.reshape(np.arange(_GROUP, dtype=np.int32), (_GROUP, 1))
    group = np.arange(groups + 1, dtype=np.int32)
    number_of = np.add(np.multiply(turn, groups), group)
    is_there = np.logical_and(np.less(group, groups), np.less(number_of, count))
    ranked = np.where(is_there, segments.take(segments.take(lengths, order), number_of), 0)
    room = steps_tried(np.max(lengths), np.array(QUARTERS, np.int32))
    lane_of_group = np.expand_dims(turn, 2)

    def step(filled: Tensor, rows: Tensor) -> list[Tensor]:
        """Puts a sequence of each group into the first lane that has room for it."""
        rows = np.expand_dims(rows, 1)
        lane = np.astype(np.argmax(np.less_equal(np.add(filled, rows), room), axis=0), np.int32)
        is_it = np.equal(lane_of_group, lane)
        start = np.sum(np.where(is_it, filled, 0), axis=0, dtype=np.int32)
        return [np.add(filled, np.where(is_it, rows, 0)), lane, start]

    row = (Positions.of(shape[1:2]), ranked.element)
    whole = (Positions.of(shape), ranked.element)
    body = build_region([whole, row], step)
    fields = {"carried": 1, "reverse": False}
    loop = ControlOp(ng.ScanOp, [np.zeros(shape, np.int32), ranked], [body], [whole, whole, whole], fields)
    filled, lane, start = loop.results
    used = np.max(np.where(np.greater(filled, 0), np.expand_dims(np.add(number_of, 1), 2), 0), axis=(0, 1))
    used = np.maximum(used, np.int32(LEAST_LANES))
    needed = work(np.astype(room, np.int64), np.astype(used, np.int64))
    best = np.astype(np.reshape(np.argmin(needed), [1]), np.int32)
    steps, lanes = numbers([segments.take(x, best) for x in (room, used)])
    # Back to the order of the sequences.
    rank = VERBS.scatter(order, order, np.arange(count, dtype=np.int32), axis=0)
    in_turn, in_group = np.floor_divide(rank, groups), np.remainder(rank, groups)
    place = np.add(np.multiply(in_turn, groups + 1), in_group)
    place = np.add(np.multiply(place, np.int32(len(QUARTERS))), best)
    lane, start = (segments.take(np.reshape(x, (-1,)), place) for x in (lane, start))
    return Packing(np.add(np.multiply(lane, groups), in_group), start, lanes, steps)


#: What sequences begin with: a row for each, or zeros, so many in a row.
State: TypeAlias = Tensor | int
#: What a step makes: the new states, and what is kept of it.
Stepped: TypeAlias = tuple[Sequence[Tensor], Sequence[Tensor]]
#: Given the states and the rows of a step, and whether a sequence begins there.
Step: TypeAlias = Callable[[Sequence[Tensor], Sequence[Tensor], Tensor], Stepped]


@dataclass
class Lanes:
    """The steps of sequences in lanes; with `reverse` from the last one to the first, so that each sequence begins at its end."""

    offsets: Tensor
    context: Context
    reverse: bool = False

    @cached_property
    def count(self) -> int:
        """How many sequences there are."""
        return segments.sequences(self.offsets)

    @property
    def are_shared(self) -> bool:
        """Whether a lane may hold several sequences."""
        return not self.context.is_trial and BUILDING.region is None and self.count > 0

    @cached_property
    def packing(self) -> Packing:
        """Where the sequences are; inside of blocks each has a lane: what differs from step to step has no numbers of lanes."""
        offsets, context = self.offsets, self.context
        if not self.are_shared:
            return lane_of_each(offsets, context.longest(offsets))
        key = "lanes", offsets
        return context.shared(key, lambda: packed(offsets, lambda counts: context.lengths(key, counts)))

    def cells(self, rows: int) -> Tensor:
        """The step and lane of each row, as a number."""
        start, lane = (
            segments.spread(x, self.offsets, rows) for x in (self.packing.start, self.packing.lane)
        )
        step = np.add(start, segments.places(self.offsets, rows))
        return np.add(np.multiply(step, self.packing.lanes), lane)

    def held(self, cells: Tensor) -> Tensor:
        """The row at each step and lane: one with which a sequence begins where there is none."""
        packing, rows = self.packing, segments.length_of(cells)
        none = np.full([packing.steps * packing.lanes], rows - 1 if self.reverse else 0, np.int32)
        held = VERBS.scatter(none, cells, np.arange(rows, dtype=np.int32), axis=0, combine="set")
        return np.reshape(held, (packing.steps, packing.lanes))

    def begins(self, rows: int) -> Tensor:
        """Whether a sequence begins with a row."""
        if not self.reverse:
            return np.equal(segments.places(self.offsets, rows), 0)
        last = segments.spread(segments.ends(self.offsets), self.offsets, rows)
        return np.equal(np.add(np.arange(rows, dtype=np.int32), np.int32(1)), last)

    def run(
        self, states: Sequence[State], given: Sequence[Tensor], step: Step, fixed: Sequence[Tensor] = ()
    ) -> list[Tensor]:
        """What is kept of each step, as rows again; `given` are rows, and behind them a step has the row of its sequence in each of the
        `fixed` values."""
        rows, lanes = segments.length_of(given[0]), self.packing.lanes
        cells = self.cells(rows)
        held = self.held(cells)
        owner = segments.take(segments.owners(self.offsets, rows), held)
        of_sequences = [segments.take(x, owner) for x in (*fixed, *states) if isinstance(x, Tensor)]
        start = [
            np.zeros([lanes, s], given[0].dtype)
            if isinstance(s, int)
            else np.zeros([lanes, *s.type.shape[1:]], s.dtype)
            for s in states
        ]
        kept: list[Tensor] = []

        def body(*values: Tensor) -> list[Tensor]:
            before, is_first, others = values[: len(start)], values[len(start)], values[len(start) + 1 :]
            fed = others[: len(given) + len(fixed)]
            left = iter(others[len(fed) :])
            now = [
                where_rows(is_first, next(left) if isinstance(state, Tensor) else zero, value)
                for value, state, zero in zip(before, states, start, strict=True)
            ]
            made, kept[:] = step(now, fed, is_first)
            return [*made, *kept]

        slices = [segments.take(x, held) for x in (self.begins(rows), *given)] + of_sequences
        parameters = [(z.axes, z.element) for z in start]
        parameters += [(Positions.of(s.type.shape[1:]), s.element) for s in slices]
        region = build_region(parameters, body)
        types = [(z.axes, z.element) for z in start]
        types += [(Positions.of([self.packing.steps, *x.type.shape]), x.element) for x in kept]
        fields = {"carried": len(states), "reverse": self.reverse}
        loop = ControlOp(ng.ScanOp, [*start, *slices], [region], types, fields)
        return [
            segments.take(np.reshape(x, (x.type.shape[0] * x.type.shape[1], *x.type.shape[2:])), cells)
            for x in loop.results[len(states) :]
        ]
