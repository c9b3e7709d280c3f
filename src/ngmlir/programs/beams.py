# SPDX-License-Identifier: Apache-2.0
"""The hypotheses of a beam search, from what each of its steps chose.

A step chose rows; each row goes on from a row of the step before, its prefix. A source ends with the last step in which it has
rows: these are the last rows of its hypotheses, which are followed back to the first step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy

from .. import numpy as np
from ..op_graph.positions import Positions
from ..op_graph.regions import ControlOp, build_region
from ..op_graph.tensor import Tensor
from ..ops import ng
from ..support.diagnostics import UserError
from . import segments
from .arrays import StackedArray, TensorArray
from .block_values import Lowering, called
from .descriptions import Operator
from .masks import where_rows


def beam_search_decode(lowering: Lowering, operator: Operator) -> None:
    """Builds the operator of that type."""
    ids, scores = _steps(lowering, operator, "Ids"), _steps(lowering, operator, "Scores")
    sources, prefixes = ids.levels
    steps, rows = ids.values.type.shape[:2]
    groups = sources.type.shape[1] - 1
    whole = [np.reshape(each.values, [steps, rows]) for each in (ids, scores)]
    # Where the rows of each source begin and end in each step. Its last step is the last one with any.
    bounds = np.take_along_axis(prefixes, sources, 1)
    counts = np.subtract(bounds[:, 1:], bounds[:, :-1])
    number = np.reshape(np.arange(steps, dtype="int32"), [steps, 1])
    last = np.max(np.where(np.greater(counts, 0), number, numpy.int32(0)), axis=0)
    begin, count = (
        np.take_along_axis(each, np.expand_dims(last, 0), 0)[0] for each in (bounds[:, :-1], counts)
    )
    last = np.expand_dims(last, 1)
    # The rows of each source in that step, the best first; equal ones stay in their order.
    place = np.reshape(np.arange(rows, dtype="int32"), [1, rows])
    row = np.add(np.expand_dims(begin, 1), place)
    final = segments.take(np.reshape(whole[1], [-1]), np.add(np.multiply(last, rows), row))
    final = np.where(np.less(place, np.expand_dims(count, 1)), final, np.asarray(-numpy.inf, final.dtype))
    beam = min(operator.attribute("beam_size"), rows)
    order = np.astype(np.top_k(final, beam)[1], "int32")
    is_one = np.reshape(np.less(place[:, :beam], np.expand_dims(count, 1)), [groups * beam])
    row = np.reshape(np.take_along_axis(row, order, 1), [groups * beam])
    last = np.reshape(np.broadcast_to(last, [groups, beam]), [groups * beam])
    paths = _followed(whole, prefixes, row, last)
    lengths = np.minimum(_length(paths[0], operator.attribute("end_id")), np.add(last, 1))

    every = np.multiply(np.arange(groups + 1, dtype="int32"), numpy.int32(beam))
    found = lowering.size(np.sum(np.astype(is_one, "int32")), lambda: groups * beam)
    chosen, hypotheses = segments.kept(is_one, every, found)
    lengths = np.where(segments.are_owned(hypotheses, found), segments.take(lengths, chosen), numpy.int32(0))
    cuts = segments.offsets_from(lengths)
    total = lowering.size(np.sum(lengths), lambda: groups * beam * steps)
    at = np.add(
        np.multiply(segments.spread(chosen, cuts, total), numpy.int32(steps)), segments.places(cuts, total)
    )
    for slot, path in zip(("SentenceIds", "SentenceScores"), paths, strict=True):
        values = segments.take(np.reshape(path, [-1]), at)
        values = where_rows(segments.are_owned(cuts, total), values, np.zeros([1], values.dtype))
        lowering.write(operator, operator.outputs[slot][0], values, (hypotheses, cuts))


def _steps(lowering: Lowering, operator: Operator, slot: str) -> StackedArray:
    (name,) = operator.inputs[slot]
    held = lowering.read(operator, name)
    if not isinstance(held, (TensorArray, StackedArray)):
        raise UserError(f"operator beam_search_decode takes an array, and '{name}' is {called(held)}")
    if isinstance(held, TensorArray) and all(len(levels) == 2 for levels in held.levels) and held.levels:
        held = held.stacked(len(held.elements))
    if not isinstance(held, StackedArray) or len(held.levels) != 2:
        raise UserError(
            f"the elements of '{name}' are what beam_search gives: rows of two levels, sources and prefixes",
            hint="feed the first ids and scores with lod_level=2: one row for each source",
        )
    return held


def _followed(whole: Sequence[Tensor], prefixes: Tensor, row: Tensor, last: Tensor) -> list[Tensor]:
    """What rows of their last steps and all before them hold in each of some values [steps, rows]: [rows followed, steps]."""
    steps, rows = whole[0].type.shape

    def back(*values: Tensor) -> Sequence[Tensor]:
        now, step, cuts, *held = values
        before = segments.take(segments.owners(cuts, rows), now)
        return [
            np.where(np.less_equal(step, last), before, now),
            *[segments.take(each, now) for each in held],
        ]

    given = [np.arange(steps, dtype="int32"), prefixes, *whole]
    carried = (row.axes, row.element)
    region = build_region([carried, *[(Positions.of(g.type.shape[1:]), g.element) for g in given]], back)
    types = [carried, *[(Positions.of([steps, *row.type.shape]), w.element) for w in whole]]
    fields = {"carried": 1, "reverse": True}
    _, *found = ControlOp(ng.ScanOp, [row, *given], [region], types, fields).results
    return [np.transpose(each) for each in found]


def _length(path: Tensor, end: int) -> Tensor:
    """How many ids of each path are shown: all up to the first end behind the beginning."""
    ends = np.astype(np.equal(path[:, 1:], end), "int32")
    before = np.subtract(np.cumsum(ends, axis=1), ends)
    return np.astype(np.add(np.sum(np.astype(np.equal(before, 0), "int32"), axis=1), 1), "int32")
