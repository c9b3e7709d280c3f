# SPDX-License-Identifier: Apache-2.0
"""One step of a beam search."""

from __future__ import annotations

import numpy

from ... import numpy as np
from ...op_graph.tensor import Tensor
from ...op_graph.verbs import VERBS
from ...support.diagnostics import UserError
from .. import segments
from ..definition import Context
from ..masks import where_rows
from ..registry import operator

_LEAST = -numpy.inf


@operator
def beam_search(
    pre_ids: Tensor,
    pre_scores: Tensor,
    ids: Tensor,
    scores: Tensor,
    *,
    level: int,
    beam_size: int,
    end_id: int,
    context: Context,
) -> tuple[Tensor, Tensor]:
    levels = context.levels("scores") or segments.ragged(context, "ids", "beam_search")
    if level >= len(levels):
        raise UserError(f"the candidates have {len(levels)} ragged levels, and level is {level}")
    prefixes, count = scores.type.shape
    if ids.type.shape != (prefixes, count) or pre_ids.type.shape[0] != prefixes:
        raise UserError(
            f"{list(ids.type.shape)} ids and {list(scores.type.shape)} scores are given for {pre_ids.type.shape[0]} prefixes"
        )
    sources = segments.absolute(levels[level:])
    has_ended = np.reshape(np.equal(pre_ids, end_id), [prefixes, 1])
    first = np.reshape(np.equal(np.arange(count, dtype=numpy.int32), 0), [1, count])
    own = np.where(first, np.reshape(pre_scores, [prefixes, 1]), _LEAST)
    scores = np.astype(np.where(has_ended, own, scores), scores.dtype)
    ids = np.where(has_ended, np.astype(np.full([1, 1], end_id), ids.dtype), ids)
    total = prefixes * count
    # In a loop there may be rows behind the last prefix: they are of a source behind the last one.
    is_there = segments.are_owned(sources, prefixes)
    flat = np.reshape(where_rows(is_there, scores, np.asarray(_LEAST, scores.dtype)), [total])
    number = np.where(is_there, segments.owners(sources, prefixes), segments.sequences(sources))
    source = np.reshape(np.broadcast_to(np.expand_dims(number, 1), [prefixes, count]), [total])
    # The candidates of each source from the best; equal ones stay in their order.
    best = np.astype(np.argsort(np.negative(flat), stable=True), "int32")
    order = segments.take(best, np.astype(np.argsort(segments.take(source, best), stable=True), "int32"))
    begins = np.multiply(segments.take(segments.starts(sources), segments.take(source, order)), count)
    place = np.subtract(np.arange(total, dtype=numpy.int32), begins)
    is_among = np.logical_and(np.less(place, beam_size), np.greater(segments.take(flat, order), _LEAST))
    chosen = VERBS.scatter(np.zeros([total], bool), order, is_among, axis=0)
    # A source goes on where one of its chosen ones is of a prefix that has not ended.
    open_ = np.logical_and(np.reshape(chosen, [prefixes, count]), np.logical_not(has_ended))
    goes_on = np.greater(segments.total(np.sum(np.astype(open_, "int32"), axis=1), sources), 0)
    chosen = np.logical_and(chosen, segments.take(goes_on, source))
    counts = np.sum(np.astype(np.reshape(chosen, [prefixes, count]), "int32"), axis=1)
    rows = context.size(np.sum(counts), lambda: min(segments.sequences(sources) * beam_size, total))
    every = np.multiply(np.arange(prefixes + 1, dtype=numpy.int32), numpy.int32(count))
    at, made = segments.kept(chosen, every, rows)
    for slot in ("selected_ids", "selected_scores"):
        context.give_levels(slot, (sources, made))
    found = segments.take(np.astype(np.reshape(ids, [total]), "int64"), at)
    return np.reshape(found, [rows, 1]), np.reshape(segments.take(flat, at), [rows, 1])
