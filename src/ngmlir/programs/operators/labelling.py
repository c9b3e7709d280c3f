# SPDX-License-Identifier: Apache-2.0
"""Labels of sequences: conditional random fields, connectionist temporal classification, edit distances, chunks."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ... import numpy as np
from ...numpy import getitem
from ...op_graph.functions.composed import stop_gradient
from ...op_graph.tensor import Tensor
from ...op_graph.verbs import VERBS
from ...support.diagnostics import UserError
from .. import segments
from ..definition import Context, require_integers
from ..lanes import Lanes, Stepped
from ..masks import beside, where_rows
from ..over_time import OverTime
from ..registry import operator
from .sequences import padded

#: The logarithm of what cannot be: finite, so that differences of such logarithms are numbers.
_NEVER = -1e30


def log_sum(x: Tensor, axis: int) -> Tensor:
    """The logarithm of the sum of what these are the logarithms of, along a dimension."""
    most = stop_gradient(np.max(x, axis=axis, keepdims=True))
    return np.add(np.log(np.sum(np.exp(np.subtract(x, most)), axis=axis)), np.squeeze(most, axis))


def numbers(x: Tensor, slot: str) -> Tensor:
    """Labels, of shape [rows, 1], as a vector of int32. UserError where they are no integers."""
    require_integers(x, slot, "label")
    return np.reshape(np.astype(x, np.int32), (prod(x.type.shape),))


# ---- conditional random fields


def _fields(emission: Tensor, transition: Tensor, operator: str) -> tuple[Tensor, Tensor, Tensor]:
    """The weights of the first label, of the last, and from each to each."""
    count = emission.type.shape[1]
    if transition.type.shape != (count + 2, count):
        raise UserError(
            f"{operator} of {count} labels takes a Transition of shape {[count + 2, count]}, not {list(transition.type.shape)}"
        )
    return getitem(transition, 0), getitem(transition, 1), getitem(transition, slice(2, None))


@operator
def linear_chain_crf(
    emission: Tensor, transition: Tensor, label: Tensor, length: Tensor | None, *, context: Context
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    emission, offsets = segments.rows_and_offsets(context, "Emission", "linear_chain_crf", emission, length)
    label, others = segments.rows_and_offsets(context, "Label", "linear_chain_crf", label, length)
    context.agree(others, offsets)
    begin, end, between = _fields(emission, transition, "linear_chain_crf")
    context.give_levels("LogLikelihood", ())
    context.give_levels("TransitionExps", ())
    (rows, labels), count = emission.type.shape, segments.sequences(offsets)
    exps = np.exp(np.subtract(emission, np.max(emission, axis=1, keepdims=True))), np.exp(transition)
    if not rows:
        return np.zeros_like(emission), *exps, np.zeros([count, 1], emission.dtype)

    def step(before: Sequence[Tensor], fed: Sequence[Tensor], is_first: Tensor) -> Stepped:
        (sums,), (x,) = before, fed
        later = log_sum(np.add(np.expand_dims(sums, 2), between), 1)
        made = [np.add(np.where(beside(is_first, later), begin, later), x)]
        return made, made

    (sums,) = Lanes(offsets, context).run([labels], [emission], step)
    whole = log_sum(np.add(segments.combined(sums, offsets, "last"), end), 1)
    score = _score(emission, offsets, numbers(label, "Label"), begin, end, between)
    loss = np.where(np.greater(segments.lengths(offsets), 0), np.subtract(whole, score), 0)
    flat = stop_gradient(sums)
    alpha = np.exp(np.subtract(flat, np.expand_dims(log_sum(flat, 1), 1)))
    return alpha, *exps, np.reshape(loss, (count, 1))


def _score(
    emission: Tensor, offsets: Tensor, label: Tensor, begin: Tensor, end: Tensor, between: Tensor
) -> Tensor:
    """The weight of the labels of each sequence."""
    rows, count = emission.type.shape
    number = np.arange(rows, dtype=np.int32)
    own = np.take(np.reshape(emission, (rows * count,)), np.add(np.multiply(number, count), label), axis=0)
    before = segments.take(label, np.subtract(number, np.int32(1)))
    step = np.take(np.reshape(between, (count * count,)), np.add(np.multiply(before, count), label), axis=0)
    place = segments.places(offsets, rows)
    is_last = np.equal(
        place, np.subtract(segments.spread(segments.lengths(offsets), offsets, rows), np.int32(1))
    )
    first = np.where(np.equal(place, 0), np.take(begin, label, axis=0), step)
    last = np.where(is_last, np.take(end, label, axis=0), 0)
    return segments.total(np.add(np.add(own, first), last), offsets)


@operator
def crf_decoding(
    emission: Tensor, transition: Tensor, label: Tensor | None, length: Tensor | None, *, context: Context
) -> Tensor:
    shape = emission.type.shape[:2]
    emission, offsets = segments.rows_and_offsets(context, "Emission", "crf_decoding", emission, length)
    if label is not None:
        label, _ = segments.rows_and_offsets(context, "Label", "crf_decoding", label, length)
    begin, end, between = _fields(emission, transition, "crf_decoding")
    rows, labels = emission.type.shape
    if not rows:
        return np.zeros([0, 1] if length is None else shape, np.int64)

    def best(before: Sequence[Tensor], fed: Sequence[Tensor], is_first: Tensor) -> Stepped:
        (sums,), (x,) = before, fed
        ways = np.add(np.expand_dims(sums, 2), between)
        later = np.max(ways, axis=1)
        made = np.add(np.where(beside(is_first, later), begin, later), x)
        return [made], [made, np.astype(np.argmax(ways, axis=1), np.int32)]

    sums, ways = Lanes(offsets, context).run([labels], [emission], best)
    last = np.astype(np.argmax(np.add(sums, end), axis=1, keepdims=True), np.int32)
    # At each row the way into the next one.
    onward = np.concatenate([getitem(ways, slice(1, None)), getitem(ways, slice(0, 1))])

    def back(before: Sequence[Tensor], fed: Sequence[Tensor], is_first: Tensor) -> Stepped:
        (after,), (last, way) = before, fed
        made = [where_rows(is_first, last, np.take_along_axis(way, after, axis=1))]
        return made, made

    (found,) = Lanes(offsets, context, reverse=True).run([1], [last, onward], back)
    path = np.astype(found, np.int64)
    path = path if label is None else np.astype(np.equal(path, label), np.int64)
    if length is None:
        return path
    return np.reshape(padded(path, offsets, np.zeros([1], np.int64), shape[1], context), shape)


# ---- connectionist temporal classification


@operator
def warpctc(
    logits: Tensor,
    label: Tensor,
    logits_length: Tensor | None,
    label_length: Tensor | None,
    *,
    blank: int,
    norm_by_times: bool,
    context: Context,
) -> tuple[None, Tensor]:
    if logits_length is not None:
        logits = np.moveaxis(logits, 0, 1)
    logits, offsets = segments.rows_and_offsets(context, "Logits", "warpctc", logits, logits_length)
    label, own = segments.rows_and_offsets(context, "Label", "warpctc", label, label_length)
    rows, classes = logits.type.shape
    if blank >= classes:
        raise UserError(f"the blank is class {blank}, and there are {classes} classes")
    context.give_levels("Loss", ())
    text, lengths = OverTime(own, context), segments.lengths(offsets)
    count, most = segments.as_many(offsets, own), text.steps if segments.length_of(label) else 0
    # The labels of each sequence with a blank before, between and behind them.
    given = np.transpose(text.rows(numbers(label, "Label"))) if segments.length_of(label) else None
    blanks = np.full([count, most + 1], blank, np.int32)
    shown = (
        blanks
        if given is None
        else np.reshape(
            np.stack([getitem(blanks, (slice(None), slice(0, most))), given], 2), (count, 2 * most)
        )
    )
    shown = (
        shown if given is None else np.concatenate([shown, getitem(blanks, (slice(None), slice(0, 1)))], 1)
    )
    width = 2 * most + 1
    place = np.arange(width, dtype=np.int32)
    last = np.expand_dims(np.multiply(text.lengths, np.int32(2)), 1)
    before = np.concatenate([np.full([count, min(2, width)], blank, np.int32), shown], 1)
    before = getitem(before, (slice(None), slice(0, width)))
    may_skip = np.logical_and(np.not_equal(shown, blank), np.not_equal(shown, before))
    none_left = np.where(np.equal(text.lengths, 0), 0.0, np.inf)
    if not rows:
        return None, np.reshape(np.astype(none_left, logits.dtype), (count, 1))
    most_of = stop_gradient(np.max(logits, axis=1, keepdims=True))
    shifted = np.subtract(logits, most_of)
    scores = np.subtract(shifted, np.log(np.sum(np.exp(shifted), axis=1, keepdims=True)))
    flat = np.reshape(scores, (rows * classes,))
    number = np.multiply(np.arange(rows, dtype=np.int32), classes)
    seen = np.take(flat, np.add(np.expand_dims(number, 1), segments.spread(shown, offsets, rows)), axis=0)

    def step(before: Sequence[Tensor], fed: Sequence[Tensor], is_first: Tensor) -> Stepped:
        (sums,), (now, may_skip) = before, fed
        one, two = _moved(sums, 1), np.where(may_skip, _moved(sums, 2), _NEVER)
        later = log_sum(np.stack([sums, one, two], 0), 0)
        first = np.where(np.less(place, 2), np.zeros_like(sums), _NEVER)
        made = [np.add(where_rows(is_first, first, later), now)]
        return made, made

    (sums,) = Lanes(offsets, context).run([width], [seen], step, [may_skip])
    sums = segments.combined(sums, offsets, "last")
    is_end = np.logical_or(np.equal(place, last), np.equal(place, np.subtract(last, np.int32(1))))
    likelihood = log_sum(np.where(is_end, sums, _NEVER), 1)
    is_possible = np.greater(likelihood, _NEVER / 2)
    loss = np.where(is_possible, np.negative(np.where(is_possible, likelihood, 0)), np.inf)
    if norm_by_times:
        # The loss stays, its gradient is divided.
        share = np.divide(
            np.where(is_possible, loss, 0), np.astype(np.maximum(lengths, np.int32(1)), logits.dtype)
        )
        loss = np.add(stop_gradient(loss), np.subtract(share, stop_gradient(share)))
    loss = np.where(np.greater(lengths, 0), loss, np.astype(none_left, logits.dtype))
    return None, np.reshape(loss, (count, 1))


def _moved(x: Tensor, by: int) -> Tensor:
    """Each element so many places further along the columns."""
    count, width = x.type.shape
    whole = np.concatenate([np.full([count, by], _NEVER, x.dtype), x], 1)
    return getitem(whole, (slice(None), slice(0, width)))


@operator
def ctc_align(input: Tensor, *, blank: int, merge_repeated: bool, context: Context) -> Tensor:
    levels = segments.ragged(context, "Input", "ctc_align")
    rows, flat = segments.length_of(input), np.reshape(input, (segments.length_of(input),))
    mask = np.not_equal(flat, blank)
    if merge_repeated:
        before, inside = segments.shifted(flat, levels[-1], -1)
        mask = np.logical_and(mask, np.logical_not(np.logical_and(inside, np.equal(before, flat))))
    left = np.reshape(np.sum(np.astype(mask, np.int32)), [1])
    count = context.size(np.maximum(left, np.int32(1)))
    at, made = segments.kept(mask, levels[-1], count)
    context.give_levels("Output", (*levels[:-1], made))
    found = segments.take(flat, at) if rows else np.zeros([count], input.dtype)
    return np.reshape(np.where(np.greater(left, 0), found, -1), (count, 1))


# ---- distances


@operator
def edit_distance(hyps: Tensor, refs: Tensor, *, normalized: bool, context: Context) -> tuple[Tensor, Tensor]:
    offsets, others = (segments.innermost(context, slot, "edit_distance") for slot in ("Hyps", "Refs"))
    count = segments.as_many(offsets, others)
    context.give_levels("Out", ())
    context.give_levels("SequenceNum", ())
    time, text = OverTime(offsets, context), OverTime(others, context)
    if normalized:
        message = "a distance is divided by the length of its reference, and one of the references is empty"
        context.require(np.greater(text.lengths, 0), message, "normalized=False gives the distance itself")
    most = text.steps
    place = np.arange(most + 1, dtype=np.int32)
    wanted = np.transpose(text.rows(numbers(refs, "Refs"))) if most else np.zeros([count, 0], np.int32)

    def step(far: Tensor, x: Tensor, at: Tensor) -> Tensor:
        differs = np.astype(np.not_equal(np.expand_dims(x, 1), wanted), np.int32)
        replaced = np.add(getitem(far, (slice(None), slice(0, -1))), differs)
        deleted = np.add(far, np.int32(1))
        way = np.minimum(getitem(deleted, (slice(None), slice(1, None))), replaced)
        way = np.concatenate([getitem(deleted, (slice(None), slice(0, 1))), way], 1)
        # From any place before, by as many insertions as there are places between.
        level = VERBS.cumulative_min(np.subtract(way, place), axis=1)
        return np.add(level, place)

    far = np.add(np.zeros([count, most + 1], np.int32), place)
    if segments.length_of(hyps):
        far = time.run(far, time.rows(numbers(hyps, "Hyps")), step)
    found = np.take_along_axis(far, np.expand_dims(text.lengths, 1), axis=1)
    distance = np.astype(found, np.float32)
    if normalized:
        distance = np.divide(distance, np.astype(np.expand_dims(text.lengths, 1), np.float32))
    return np.full([1], count, np.int64), distance


# ---- chunks

#: Of each scheme the tags that begin a chunk, those that end one, and how many tags there are.
_SCHEMES = {"IOB": ((0,), (), 2), "IOE": ((), (1,), 2), "IOBES": ((0, 3), (2, 3), 4), "plain": ((), (), 1)}


@operator
def chunk_eval(
    inference: Tensor,
    label: Tensor,
    seq_length: Tensor | None,
    *,
    num_chunk_types: int,
    chunk_scheme: str,
    excluded_chunk_types: Sequence[int],
    context: Context,
) -> tuple[Tensor, ...]:
    inference, offsets = segments.rows_and_offsets(context, "Inference", "chunk_eval", inference, seq_length)
    label, others = segments.rows_and_offsets(context, "Label", "chunk_eval", label, seq_length)
    if segments.length_of(inference) != segments.length_of(label):
        raise UserError(
            f"{segments.length_of(inference)} labels are compared with {segments.length_of(label)}"
        )
    context.agree(others, offsets)
    for slot in ("Precision", "Recall", "F1-Score", "NumInferChunks", "NumLabelChunks", "NumCorrectChunks"):
        context.give_levels(slot, ())
    guessed, true = (
        _chunks(numbers(x, slot), offsets, num_chunk_types, chunk_scheme, excluded_chunk_types)
        for x, slot in ((inference, "Inference"), (label, "Label"))
    )
    same = np.logical_and(np.equal(guessed[1], true[1]), np.equal(guessed[2], true[2]))
    right = np.logical_and(np.logical_and(guessed[0], true[0]), same)
    counts = [np.reshape(np.sum(np.astype(mask, np.int64)), [1]) for mask in (guessed[0], true[0], right)]
    found, there, both = (np.astype(count, np.float32) for count in counts)
    precision, recall = (
        np.where(np.greater(n, 0), np.divide(both, np.maximum(n, 1)), 0) for n in (found, there)
    )
    total = np.add(precision, recall)
    f1 = np.where(
        np.greater(total, 0),
        np.divide(np.multiply(2, np.multiply(precision, recall)), np.where(np.greater(total, 0), total, 1)),
        0,
    )
    return precision, recall, f1, *counts


def _chunks(
    label: Tensor, offsets: Tensor, types: int, scheme: str, excluded: Sequence[int]
) -> tuple[Tensor, Tensor, Tensor]:
    """For each row: whether a chunk begins there, the last row of its chunk, and the chunk's type."""
    begins, ends, count = _SCHEMES[scheme]
    rows = segments.length_of(label)

    def parts(x: Tensor, inside: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        type, tag = np.floor_divide(x, count), np.remainder(x, count)
        is_in = np.logical_and(np.greater_equal(x, 0), np.less(type, types))
        return (is_in if inside is None else np.logical_and(is_in, inside)), type, tag

    def is_one(tag: Tensor, wanted: Sequence[int]) -> Tensor:
        made = np.zeros(tag.type.shape, bool)
        for each in wanted:
            made = np.logical_or(made, np.equal(tag, each))
        return made

    def starts(now: tuple[Tensor, Tensor, Tensor], before: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """Whether a chunk begins at a row after another one."""
        new = np.logical_or(np.not_equal(now[1], before[1]), np.logical_not(before[0]))
        new = np.logical_or(new, np.logical_or(is_one(now[2], begins), is_one(before[2], ends)))
        return np.logical_and(now[0], new)

    own = parts(label, None)
    before, after = (parts(*segments.shifted(label, offsets, by)) for by in (-1, 1))
    first = starts(own, before)
    goes_on = np.logical_and(after[0], np.logical_not(starts(after, own)))
    number = np.arange(rows, dtype=np.int32)
    last = VERBS.cumulative_min(np.where(goes_on, rows, number), axis=0, reverse=True) if rows else number
    for type in excluded:
        first = np.logical_and(first, np.not_equal(own[1], type))
    return first, last, own[1]
