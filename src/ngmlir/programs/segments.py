# SPDX-License-Identifier: Apache-2.0
"""What operators on sequences are made of: rows, and the offsets that cut them into sequences.

Offsets are i32, one more than there are sequences: sequence s is the rows from offsets[s] to offsets[s + 1].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from .. import numpy as np
from ..numpy import getitem
from ..op_graph.functions.composed import stop_gradient
from ..op_graph.positions import Positions
from ..op_graph.tensor import Tensor
from ..op_graph.verbs import VERBS
from ..ops import ng
from ..support.diagnostics import UserError
from .definition import Context, Levels


def length_of(x: Tensor) -> int:
    """The length of the first dimension."""
    return x.type.shape[0]


def sequences(offsets: Tensor) -> int:
    """How many sequences there are."""
    return length_of(offsets) - 1


def as_many(offsets: Tensor, others: Tensor) -> int:
    """How many sequences there are of both; UserError where these are not as many."""
    count, wanted = sequences(offsets), sequences(others)
    if count != wanted:
        raise UserError(f"{count} sequences go with {wanted}: an operator takes them in pairs")
    return count


def starts(offsets: Tensor) -> Tensor:
    """Where each sequence begins."""
    return getitem(offsets, slice(None, -1))


def ends(offsets: Tensor) -> Tensor:
    """Where each sequence ends."""
    return getitem(offsets, slice(1, None))


def lengths(offsets: Tensor) -> Tensor:
    """How many rows each sequence has."""
    return np.subtract(ends(offsets), starts(offsets))


def longest(offsets: Tensor) -> Tensor:
    """The length of the longest sequence, as a tensor of one element; 0 where there is none."""
    counts = np.concatenate([np.zeros([1], np.int32), lengths(offsets)])
    return np.reshape(np.max(counts), [1])


def offsets_from(counts: Tensor) -> Tensor:
    """The offsets of sequences of these lengths."""
    return np.concatenate([np.zeros([1], np.int32), np.cumsum(np.astype(counts, np.int32), dtype=np.int32)])


def last(offsets: Tensor) -> Tensor:
    """The last of the offsets, the number of all rows, as a tensor of one element."""
    return getitem(offsets, slice(-1, None))


def owners(offsets: Tensor, rows: int) -> Tensor:
    """Which sequence each row belongs to."""
    return spread(np.arange(sequences(offsets), dtype=np.int32), offsets, rows)


def take(x: Tensor, places: Tensor) -> Tensor:
    """Rows by number; the nearest where there is none, and zeros where there are no rows at all."""
    if not length_of(x):
        return np.zeros((*places.type.shape, *x.type.shape[1:]), x.dtype)
    return np.take(x, np.clip(places, 0, length_of(x) - 1), axis=0)


def spread(x: Tensor, offsets: Tensor, rows: int) -> Tensor:
    """For each of so many rows what its sequence has in x."""
    axes = Positions.of([rows, *x.type.shape[1:]])
    return VERBS.stated(ng.SegmentExpandOp, [x, offsets], {"axis": 0}, axes, x.element)


def are_owned(offsets: Tensor, rows: int) -> Tensor:
    """Whether each of so many rows belongs to a sequence; in loops there may be rows behind the last one."""
    return np.less(np.arange(rows, dtype=np.int32), last(offsets))


def places(offsets: Tensor, rows: int) -> Tensor:
    """Where in its sequence each row is, from 0."""
    return np.subtract(np.arange(rows, dtype=np.int32), spread(starts(offsets), offsets, rows))


def combined(x: Tensor, offsets: Tensor, combine: str) -> Tensor:
    """The rows of each sequence combined: `sum`, `max`, `min`, `first` or `last`."""
    axes = Positions.of([sequences(offsets), *x.type.shape[1:]])
    return VERBS.stated(ng.SegmentReduceOp, [x, offsets], {"axis": 0, "combine": combine}, axes, x.element)


def total(x: Tensor, offsets: Tensor) -> Tensor:
    """The sum of the rows of each sequence."""
    return combined(x, offsets, "sum")


def first_of_largest(x: Tensor, offsets: Tensor) -> Tensor:
    """The row, for each sequence and column, of the first largest element; some number above them for an empty sequence."""
    rows = length_of(x)
    x = stop_gradient(x)
    most = spread(combined(x, offsets, "max"), offsets, rows)
    is_most = np.logical_or(np.equal(x, most), np.not_equal(x, x))
    number = np.reshape(np.arange(rows, dtype=np.int32), (rows, *(1,) * (len(x.type.shape) - 1)))
    return combined(np.where(is_most, number, rows), offsets, "min")


def softmax(x: Tensor, offsets: Tensor) -> Tensor:
    """Softmax over the rows of each sequence."""
    return VERBS.segment_softmax(x, offsets, axis=0)


def rows_from(x: Tensor, first: Tensor, offsets: Tensor, rows: int) -> Tensor:
    """The rows of x from a number `first` on for each sequence, as many as it has of `rows` that the offsets cut."""
    moved = spread(np.subtract(first, starts(offsets)), offsets, rows)
    return take(x, np.add(np.arange(rows, dtype=np.int32), moved))


def shifted(x: Tensor, offsets: Tensor, by: int) -> tuple[Tensor, Tensor]:
    """For each row that which is so many rows further, and whether that is in the same sequence."""
    rows = length_of(x)
    at = np.add(places(offsets, rows), by)
    inside = np.logical_and(np.greater_equal(at, 0), np.less(at, spread(lengths(offsets), offsets, rows)))
    return take(x, np.add(np.arange(rows, dtype=np.int32), by)), inside


def surrounded(
    x: Tensor, offsets: Tensor, above: int, below: int, own: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """All rows, with so many more above and below each sequence: those of `own`, or zeros, which neighbours share. And where the
    rows of x are."""
    count, rows = sequences(offsets), length_of(x)
    between = max(above, below) if own is None else above + below
    begin = np.add(starts(offsets), np.multiply(np.arange(count, dtype=np.int32), between))
    at = np.add(places(offsets, rows), spread(np.add(begin, above), offsets, rows))
    whole = np.zeros([above + rows + between * count, *x.type.shape[1:]], x.dtype)
    whole = VERBS.scatter(whole, at, x, axis=0, combine="add")
    if own is not None:
        end = np.add(begin, lengths(offsets))
        for i in range(between):
            row = np.broadcast_to(getitem(own, i), (count, *x.type.shape[1:]))
            whole = VERBS.scatter(whole, np.add(begin if i < above else end, i), row, axis=0, combine="add")
    return whole, at


def windows(x: Tensor, length: int) -> Tensor:
    """So many rows from each row on, and behind the last: zeros where there are none. [length, rows + 1, ...]."""
    shape = [length, length_of(x) + 1, *x.type.shape[1:]]
    x = np.pad(x, [(0, length), *[(0, 0)] * (len(shape) - 2)])
    settings = {"axes": [0], "steps": [1], "dilations": [1]}
    return VERBS.stated(ng.WindowsOp, [x], settings, Positions.of(shape), x.element)


def kept(mask: Tensor, offsets: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """The numbers of the rows where a mask holds, of which there are `rows`, and the offsets that cut these."""
    number = length_of(mask)
    before = np.concatenate([np.zeros([1], np.int32), np.cumsum(np.astype(mask, np.int32), dtype=np.int32)])
    place = np.where(mask, getitem(before, slice(None, -1)), rows)
    found = VERBS.scatter(
        np.zeros([rows], np.int32), place, np.arange(number, dtype=np.int32), axis=0, combine="set"
    )
    return found, take(before, offsets)


def innermost(context: Context, slot: str, operator: str, at: int = 0) -> Tensor:
    """The offsets of the last level of an input; UserError where it is not ragged."""
    return ragged(context, slot, operator, at)[-1]


def rows_and_offsets(
    context: Context, slot: str, operator: str, x: Tensor, length: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The rows of the sequences of an input and their offsets: of a ragged one, or of items of one length [sequences, most, ...], of
    which `length` rows each count; numbers that are no rows, [sequences, most], are rows of one."""
    if length is None:
        return x, innermost(context, slot, operator)
    if len(x.type.shape) < 2:
        raise UserError(
            f"operator {operator} takes {slot} of shape [sequences, most, ...], not {list(x.type.shape)}"
        )
    count, most, *row = x.type.shape
    if prod(length.type.shape) != count:
        raise UserError(f"{count} sequences of {slot} have {prod(length.type.shape)} lengths")
    counts = np.reshape(np.astype(length, np.int32), (count,))
    inside = np.logical_and(np.greater_equal(counts, 0), np.less_equal(counts, most))
    context.require(inside, f"a sequence of {slot} is longer than its rows, or shorter than none")
    offsets = offsets_from(counts)
    rows = context.size(last(offsets))
    first = np.multiply(np.arange(count, dtype=np.int32), most)
    return rows_from(np.reshape(x, (count * most, *(row or [1]))), first, offsets, rows), offsets


def ragged(context: Context, slot: str, operator: str, at: int = 0) -> Levels:
    """The levels of an input; UserError where it is not ragged."""
    levels = context.levels(slot, at)
    if not levels:
        raise UserError(
            f"operator {operator} takes sequences as {slot}, and this variable is not ragged",
            hint="layers.data(name, shape, lod_level=1) declares what is ragged; layers.lod_reset gives rows offsets",
        )
    return levels


def absolute(levels: Sequence[Tensor]) -> Tensor:
    """The offsets of the first of some levels in rows of the last one."""
    made = levels[0]
    for level in levels[1:]:
        made = take(level, made)
    return made


def joined(parts: Sequence[Tensor], offsets: Sequence[Tensor]) -> Callable[[Sequence[Tensor]], Tensor]:
    """What joins item after item the rows of several tensors, of which the offsets cut the items: item 0 of each, then item 1 ..."""
    before = np.add(starts(offsets[0]), 0)
    for other in offsets[1:]:
        before = np.add(before, starts(other))
    targets: list[Tensor] = []
    for part, own in zip(parts, offsets, strict=True):
        rows = length_of(part)
        moved = spread(np.subtract(before, starts(own)), own, rows)
        targets.append(np.add(np.arange(rows, dtype=np.int32), moved))
        before = np.add(before, lengths(own))
    target = np.concatenate(targets)
    count = length_of(target)
    numbers = np.arange(count, dtype=np.int32)
    order = VERBS.scatter(np.zeros([count], np.int32), target, numbers, axis=0, combine="set")
    return lambda values: take(np.concatenate(list(values)), order)
