# SPDX-License-Identifier: Apache-2.0
"""Sequences in the order of their lengths, and cut into steps: step t holds the items number t of all sequences.

Sequences end, so that less and less of a step is used. Here a step has place for all sequences: the rows of those that have
ended are zeros, they come last, and nothing that is read of a step later takes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .. import numpy as np
from ..op_graph.tensor import Tensor
from ..op_graph.verbs import VERBS
from ..support.diagnostics import UserError
from . import segments
from .arrays import StackedArray
from .definition import Levels
from .masks import where_rows

#: Gives a length that depends on values: that of the run which a program is compiled for.
Size = Callable[[Tensor], int]


@dataclass(frozen=True)
class RankTable:
    """Sequences of a level, the longest first: `order` holds their numbers, `lengths` how many items each has, `rank` the place of
    each. All are i32. `items` is the number of items of all; `most` gives the greatest length."""

    offsets: Tensor
    order: Tensor
    rank: Tensor
    lengths: Tensor
    items: int
    most: Callable[[], int]

    @property
    def longest(self) -> int:
        """The greatest length; asked for where it is needed, since it depends on values."""
        return self.most()

    @property
    def count(self) -> int:
        """The number of sequences."""
        return self.order.type.shape[0]

    def parts(self) -> list[Tensor]:
        return [self.offsets, self.order, self.rank, self.lengths]

    def of(self, parts: Sequence[Tensor]) -> RankTable:
        """The table with other tensors."""
        offsets, order, rank, lengths = parts
        return RankTable(offsets, order, rank, lengths, self.items, self.most)

    def running(self, step: Tensor) -> Tensor:
        """How many sequences have more items than `step`."""
        return np.sum(np.astype(np.greater(self.lengths, np.astype(np.reshape(step, []), "int32")), "int32"))

    # ---- steps

    def steps(self, x: Tensor, inner: Levels, size: Size) -> StackedArray:
        """The steps of rows x, or, where there is a level below, of the sequences that it cuts x into. A step has place for as many
        rows as the step of most rows has then."""
        places, is_there = self._places()
        if not inner:
            values = where_rows(is_there, segments.take(x, places), 0)
            return StackedArray(values, _length(self.longest))
        (cuts,) = inner
        starts, counts = (
            segments.take(cuts, places),
            np.subtract(segments.take(cuts, np.add(places, 1)), segments.take(cuts, places)),
        )
        counts = np.where(is_there, counts, 0)
        made = _offsets(counts)
        rows = size(np.max(made)) if self.longest else 0
        longest = size(np.max(counts)) if self.longest else 0
        sequence, place = _owners(made, rows)
        begins = np.take_along_axis(starts, np.clip(sequence, 0, self.count - 1), 1)
        is_row = np.less(sequence, self.count)
        values = where_rows(is_row, segments.take(x, np.add(begins, place)), 0)
        return StackedArray(values, _length(self.longest), (made,), longest)

    def _places(self) -> tuple[Tensor, Tensor]:
        """The number of the item at each step and rank, and whether there is one."""
        begins = np.expand_dims(segments.take(self.offsets, self.order), 0)
        step = np.reshape(np.arange(self.longest, dtype="int32"), [self.longest, 1])
        return np.add(begins, step), np.less(step, np.expand_dims(self.lengths, 0))

    def whole(self, steps: StackedArray, rows: int, inner: Tensor | None) -> Tensor:
        """The rows of all steps, sequence by sequence: as many as `rows`. `inner` cuts them where a step holds sequences of rows."""
        values = steps.values
        sequence, step = segments.owners(self.offsets, self.items), segments.places(self.offsets, self.items)
        rank, place = segments.take(self.rank, sequence), None
        if inner is not None:
            rank, step = (segments.spread(each, inner, rows) for each in (rank, step))
            place = segments.places(inner, rows)
        if place is not None:
            (cuts,) = steps.levels
            width = cuts.type.shape[1]
            flat = np.reshape(cuts, [-1])
            rank = np.add(segments.take(flat, np.add(np.multiply(step, width), rank)), place)
        width = values.type.shape[1]
        flat = np.reshape(values, [values.type.shape[0] * width, *values.type.shape[2:]])
        return segments.take(flat, np.add(np.multiply(step, width), rank))

    def sequences(self, steps: StackedArray, size: Size) -> tuple[Tensor, Levels]:
        """The rows of all steps, sequence by sequence, and the offsets that cut them."""
        if not steps.levels:
            return self.whole(steps, self.items, None), (self.offsets,)
        (cuts,) = steps.levels
        inner = self.inner(np.subtract(cuts[:, 1:], cuts[:, :-1]), self.items)
        return self.whole(steps, size(np.reshape(inner[-1:], [])), inner), (self.offsets, inner)

    def inner(self, counts: Tensor, items: int) -> Tensor:
        """The offsets of as many sequences as `items`, of which each step and rank has so many rows, sequence by sequence."""
        owner, step = segments.owners(self.offsets, items), segments.places(self.offsets, items)
        width = counts.type.shape[1]
        at = np.add(np.multiply(step, width), segments.take(self.rank, owner))
        return segments.offsets_from(segments.take(np.reshape(counts, [-1]), at))

    # ---- order

    def ordered(self, x: Tensor, levels: Levels, is_back: bool = False) -> tuple[Tensor, Levels]:
        """Rows, or sequences of rows, in the order of the table; or, back, in the order that they had before."""
        given = segments.sequences(levels[0]) if levels else segments.length_of(x)
        if given != self.count:
            raise UserError(
                f"{self.count} sequences are gone over, and what goes with them is {given}",
                hint="a row, or a sequence, for each sequence",
            )
        at, made = self.rank if is_back else self.order, list[Tensor]()
        for level, cuts in enumerate(levels, 1):
            # Items of a sequence stay together: sequences of the next level, or rows.
            items = segments.sequences(levels[level]) if level < len(levels) else segments.length_of(x)
            made.append(segments.offsets_from(segments.take(segments.lengths(cuts), at)))
            begins = segments.spread(segments.take(cuts, at), made[-1], items)
            at = np.add(begins, segments.places(made[-1], items))
        return segments.take(x, at), tuple(made)

    def shrunk(self, x: Tensor, step: Tensor) -> Tensor:
        """Rows of those that are still running at a step; zeros behind them."""
        rows = np.arange(x.type.shape[0], dtype="int32")
        return where_rows(np.less(rows, self.running(step)), x, 0)


def rank_table(offsets: Tensor, items: int, most: Callable[[], int]) -> RankTable:
    """The table of the sequences that offsets cut so many items into; the longest has `most()` items at most."""
    lengths = segments.lengths(offsets)
    count = segments.sequences(offsets)
    if not count:
        raise UserError("there are no sequences to go over", hint="feed at least one, which may be empty")
    order = np.astype(np.argsort(np.negative(lengths), stable=True), "int32")
    rank = VERBS.scatter(order, order, np.arange(count, dtype="int32"), axis=0)
    return RankTable(offsets, order, rank, segments.take(lengths, order), items, most)


def _offsets(counts: Tensor) -> Tensor:
    """Offsets of sequences of these lengths, along the last dimension."""
    zero = np.zeros([*counts.type.shape[:-1], 1], dtype="int32")
    return np.astype(np.concatenate([zero, np.cumsum(counts, axis=-1)], axis=-1), "int32")


def _owners(offsets: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """For each row: its sequence, along the last dimension of the offsets, and its position in it. Rows beyond all sequences get the
    number after the last one."""
    items = np.arange(rows, dtype="int32")
    bounds = offsets[..., 1:]
    owner = np.sum(np.astype(np.less_equal(np.expand_dims(bounds, -1), items), "int32"), axis=-2)
    owner = np.astype(owner, "int32")
    count = offsets.type.shape[-1] - 1
    begins = np.take_along_axis(offsets, np.clip(owner, 0, count), axis=-1)
    return owner, np.subtract(items, begins)


def _length(count: int) -> Tensor:
    return np.asarray([count], dtype="int64")
