# SPDX-License-Identifier: Apache-2.0
"""Operators on sequences of rows: over each, within each, and what makes other sequences of them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy

from ... import numpy as np
from ...ir.literals import dtype_of
from ...numpy import getitem
from ...op_graph.axis import Axis
from ...op_graph.functions.sliding import windows
from ...op_graph.tensor import Tensor
from ...ops.offsets import OFFSETS_HINT, wrong_offsets
from ...support.diagnostics import UserError
from .. import segments
from ..definition import Context, Levels
from ..masks import beside, where_rows
from ..registry import operator
from ..vartypes import element_of
from .images import named

#: A row that is not there.
_NONE = numpy.int32(0)


@operator
def sequence_pool(x: Tensor, *, pooltype: str, context: Context) -> tuple[Tensor, Tensor | None]:
    levels = segments.ragged(context, "X", "sequence_pool")
    offsets, rows = levels[-1], segments.length_of(x)
    context.give_levels("Out", levels[:-1])
    context.give_levels("MaxIndex", levels[:-1])
    counts = segments.lengths(offsets)
    is_there = np.greater(counts, 0)
    if pooltype == "MAX":
        at = segments.first_of_largest(x, offsets)
        if not rows:
            return segments.total(x, offsets), np.zeros(at.type.shape, np.int32)
        most = np.take_along_axis(x, np.clip(at, 0, rows - 1), axis=0)
        return where_rows(is_there, most, 0), where_rows(is_there, at, _NONE)
    if pooltype in ("FIRST", "LAST"):
        return segments.combined(x, offsets, pooltype.lower()), None
    total = segments.total(x, offsets)
    if pooltype == "SUM":
        return total, None
    count = np.astype(np.maximum(counts, 1), x.dtype)
    count = np.sqrt(count) if pooltype == "SQRT" else count
    return np.divide(total, beside(count, total)), None


@operator
def sequence_softmax(x: Tensor, *, context: Context) -> Tensor:
    return segments.softmax(x, segments.innermost(context, "X", "sequence_softmax"))


@operator
def sequence_reverse(x: Tensor, *, context: Context) -> Tensor:
    offsets, rows = segments.innermost(context, "X", "sequence_reverse"), segments.length_of(x)
    behind = np.subtract(segments.spread(segments.ends(offsets), offsets, rows), 1)
    return segments.take(x, np.subtract(behind, segments.places(offsets, rows)))


@operator
def sequence_conv(
    x: Tensor,
    padding_data: Tensor | None,
    filter: Tensor,
    *,
    contextLength: int,
    contextStart: int,
    contextStride: int,
    paddingTrainable: bool,
    context: Context,
) -> Tensor:
    if contextStride != 1:
        raise UserError(f"the windows of sequence_conv move by 1 row, not by {contextStride}")
    offsets, width = segments.innermost(context, "X", "sequence_conv"), prod(x.type.shape[1:])
    if filter.type.shape[0] != contextLength * width:
        raise UserError(
            f"a filter over {contextLength} rows of {width} elements has {contextLength * width} rows, not {filter.type.shape[0]}"
        )
    above, below = max(0, -contextStart), max(0, contextStart + contextLength - 1)
    own = padding_data if paddingTrainable else None
    if own is not None and own.type.shape != (above + below, width):
        raise UserError(
            f"PaddingData has the shape {[above + below, width]} here, not {list(own.type.shape)}"
        )
    x = np.reshape(x, (segments.length_of(x), width))
    whole, at = segments.surrounded(x, offsets, above, below, own)
    windows = segments.windows(whole, contextLength)
    made = np.tensordot(windows, np.reshape(filter, (contextLength, width, -1)), ((0, 2), (0, 1)))
    return segments.take(made, np.add(at, contextStart))


def _neighbour(x: Tensor, offsets: Tensor, by: int) -> Tensor:
    """The rows that are so many further; zeros outside of the sequence."""
    moved, inside = segments.shifted(x, offsets, by)
    return where_rows(inside, moved, 0) if by else x


@operator
def row_conv(x: Tensor, filter: Tensor, *, context: Context) -> Tensor:
    offsets = segments.innermost(context, "X", "row_conv")
    made = np.multiply(x, getitem(filter, 0))
    for by in range(1, segments.length_of(filter)):
        made = np.add(made, np.multiply(_neighbour(x, offsets, by), getitem(filter, by)))
    return made


@operator
def sequence_expand(x: Tensor, y: Tensor, *, ref_level: int, context: Context) -> Tensor:
    own, others = context.levels("X"), segments.ragged(context, "Y", "sequence_expand")
    if not -1 <= ref_level < len(others):
        raise UserError(f"Y has {len(others)} ragged levels, and ref_level is {ref_level}")
    if len(own) > 1:
        raise UserError(f"sequence_expand takes an X of one ragged level at most, not of {len(own)}")
    at = len(others) - 1 if ref_level == -1 else ref_level
    times = others[at]
    copies = segments.length_of(y) if at == len(others) - 1 else segments.sequences(others[at + 1])
    items = segments.sequences(own[0]) if own else segments.length_of(x)
    if items != segments.sequences(times):
        raise UserError(
            f"X has {items} items, and level {at} of Y says of {segments.sequences(times)} how often they are repeated"
        )
    source = segments.owners(times, copies)
    if not own:
        context.give_levels("Out", ())
        return segments.take(x, source)
    counts = segments.take(segments.lengths(own[0]), source)
    made = segments.offsets_from(np.where(segments.are_owned(times, copies), counts, _NONE))
    rows = context.size(segments.last(made), lambda: copies * context.longest(own[0]))
    context.give_levels("Out", (made,))
    return segments.rows_from(x, segments.take(segments.starts(own[0]), source), made, rows)


@operator
def sequence_concat(x: Sequence[Tensor], *, axis: int, level: int, context: Context) -> Tensor:
    levels = [segments.ragged(context, "X", "sequence_concat", i) for i in range(len(x))]
    if len({len(each) for each in levels}) > 1:
        raise UserError("sequence_concat takes inputs of as many ragged levels each")
    context.give_levels("Out", levels[0])
    if axis == 1:
        for each in levels[1:]:
            for own, other in zip(levels[0], each, strict=True):
                context.agree(other, own)
        return np.concatenate(list(x), 1)
    if axis != 0 or level >= len(levels[0]):
        raise UserError(
            f"sequence_concat joins along axis 0 or 1, and along axis 0 one of {len(levels[0])} levels: axis={axis}, level={level}"
        )
    at = len(levels[0]) - 1 - level
    if len({segments.sequences(each[at]) for each in levels}) > 1:
        counts = [segments.sequences(each[at]) for each in levels]
        raise UserError(f"item by item is joined what has as many items, not {counts}")
    made: list[Tensor] = [*levels[0][:at], _sum([each[at] for each in levels])]
    for deeper in range(at + 1, len(levels[0])):
        counts = [segments.lengths(each[deeper]) for each in levels]
        join = segments.joined(counts, [segments.absolute(each[at:deeper]) for each in levels])
        made.append(segments.offsets_from(join(counts)))
    context.give_levels("Out", tuple(made))
    return segments.joined(x, [segments.absolute(each[at:]) for each in levels])(x)


def _sum(values: Sequence[Tensor]) -> Tensor:
    made = values[0]
    for value in values[1:]:
        made = np.add(made, value)
    return made


@operator
def sequence_slice(x: Tensor, offset: Tensor, length: Tensor, *, context: Context) -> Tensor:
    levels = segments.ragged(context, "X", "sequence_slice")
    own, count = levels[-1], segments.sequences(levels[-1])
    whole = segments.lengths(own)
    first, number = (np.reshape(np.astype(x, np.int64), (count,)) for x in (offset, length))
    begin, end = (np.astype(np.clip(x, 0, whole), np.int32) for x in (first, np.add(first, number)))
    counts = np.maximum(np.subtract(end, begin), 0)
    made = segments.offsets_from(counts)
    rows = context.size(segments.last(made))
    context.give_levels("Out", (*levels[:-1], made))
    return segments.rows_from(x, np.add(segments.starts(own), begin), made, rows)


@operator
def sequence_erase(x: Tensor, *, tokens: Sequence[int], context: Context) -> Tensor:
    levels = segments.ragged(context, "X", "sequence_erase")
    flat = np.reshape(x, (segments.length_of(x),))
    mask = np.ones(flat.type.shape, bool)
    for token in tokens:
        mask = np.logical_and(mask, np.not_equal(flat, token))
    rows = context.size(np.reshape(np.sum(np.astype(mask, np.int32)), [1]))
    at, made = segments.kept(mask, levels[-1], rows)
    context.give_levels("Out", (*levels[:-1], made))
    return segments.take(x, at)


@operator
def sequence_reshape(x: Tensor, *, new_dim: int, context: Context) -> Tensor:
    levels = segments.ragged(context, "X", "sequence_reshape")
    rows, width = x.type.shape
    if rows * width % new_dim:
        raise UserError(f"{rows} rows of {width} elements are not cut into rows of {new_dim}")
    if width % new_dim:
        rest = np.remainder(np.multiply(segments.lengths(levels[-1]), width), new_dim)
        message = f"a sequence of rows of {width} elements is not cut into rows of {new_dim}"
        context.require(np.equal(rest, 0), message, "new_dim divides the number of elements of each sequence")
    made = np.floor_divide(np.multiply(levels[-1], width), new_dim)
    context.give_levels("Out", (*levels[:-1], made))
    return np.reshape(x, (rows * width // new_dim, new_dim))


@operator
def sequence_mask(x: Tensor, *, maxlen: int, out_dtype: int, context: Context) -> Tensor:
    lengths = np.reshape(x, (*x.type.shape, 1))
    count = context.size(np.max(x, initial=0)) if maxlen == -1 else maxlen
    return np.astype(np.less(np.arange(count, dtype=x.dtype), lengths), dtype_of(element_of(out_dtype)))


@operator
def sequence_unpad(x: Tensor, length: Tensor, *, context: Context) -> Tensor:
    rows, offsets = segments.rows_and_offsets(context, "X", "sequence_unpad", x, length)
    context.give_levels("Out", (offsets,))
    return rows


@operator
def sequence_pad(x: Tensor, pad_value: Tensor, *, padded_length: int, context: Context) -> Tensor:
    levels = segments.ragged(context, "X", "sequence_pad")
    context.give_levels("Out", levels[:-1])
    return padded(x, levels[-1], pad_value, padded_length, context)


def padded(x: Tensor, offsets: Tensor, fill: Tensor, length: int, context: Context) -> Tensor:
    """Sequences as items of one length, that of the longest for -1."""
    count, row = segments.sequences(offsets), x.type.shape[1:]
    if fill.type.shape not in ((1,), row, (1, *row)):
        raise UserError(
            f"PadValue is one number or a row of shape {list(row)}, and not of shape {list(fill.type.shape)}"
        )
    counts = segments.lengths(offsets)
    if length == -1:
        length = context.longest(offsets)
    step = np.reshape(np.arange(length, dtype=np.int32), (1, length))
    at = np.add(np.reshape(segments.starts(offsets), (count, 1)), step)
    inside = np.less(step, np.reshape(counts, (count, 1)))
    return np.where(beside(inside, segments.take(x, at)), segments.take(x, at), fill)


@operator
def lod_reset(x: Tensor, y: Tensor | None, *, target_lod: Sequence[int], context: Context) -> Tensor:
    levels: Levels = ()
    if y is None:
        if not target_lod:
            raise UserError("lod_reset takes offsets: give Y or target_lod")
        given = numpy.asarray(target_lod, numpy.int32)
        if wrong := wrong_offsets(given, None if context.is_trial else segments.length_of(x)):
            raise UserError(f"the offsets in target_lod {wrong}", hint=OFFSETS_HINT)
        levels = (np.asarray(given),)
    elif levels := context.levels("Y"):
        if not context.is_trial and segments.length_of(x) != segments.length_of(y):
            raise UserError(f"{segments.length_of(x)} rows are not cut as {segments.length_of(y)} rows are")
    else:
        given = np.reshape(np.astype(y, np.int32), (prod(y.type.shape),))
        ends = np.stack([getitem(given, 0), np.subtract(getitem(given, -1), segments.length_of(x))])
        holds = np.logical_and(np.all(np.equal(ends, 0)), np.all(np.greater_equal(np.diff(given), 0)))
        context.require(holds, "the elements of Y are no offsets of these rows", OFFSETS_HINT)
        levels = (given,)
    context.give_levels("Out", levels)
    return x


@operator
def im2sequence(
    x: Tensor,
    y: Tensor | None,
    *,
    kernels: Sequence[int],
    strides: Sequence[int],
    paddings: Sequence[int],
    out_stride: Sequence[int],
    context: Context,
) -> Tensor:
    if len(x.type.shape) != 4:
        raise UserError(
            f"images have a batch, channels, rows and columns, not the shape {list(x.type.shape)}"
        )
    count, channels, height, width = x.type.shape
    up, left, down, right = paddings
    high = (height + up + down - kernels[0]) // strides[0] + 1
    wide = (width + left + right - kernels[1]) // strides[1] + 1
    if high < 1 or wide < 1:
        raise UserError(f"a window of {list(kernels)} does not fit in an image of {[height, width]}")
    padded = np.pad(x, [(0, 0), (0, 0), (up, down), (left, right)])
    over = {"length0": Axis(kernels[0], "taps0"), "length1": Axis(kernels[1], "taps1")}
    seen = np.asarray(windows(named(padded, ["batch", "channels", *over]), over, list(strides)))
    flat = np.reshape(
        np.transpose(seen, (2, 4, 5, 3, 0, 1)), (count * high * wide, channels * kernels[0] * kernels[1])
    )
    if y is None:
        context.give_levels("Out", (np.multiply(np.arange(count + 1, dtype=np.int32), high * wide),))
        return flat
    sizes = [
        _real(
            np.reshape(getitem(y, (slice(None), d)), (count,)), out_stride[d], kernels[d], p, strides[d], most
        )
        for d, (p, most) in enumerate(((up + down, high), (left + right, wide)))
    ]
    made = segments.offsets_from(np.multiply(sizes[0], sizes[1]))
    total = context.size(segments.last(made))
    context.give_levels("Out", (made,))
    image, place = segments.owners(made, total), segments.places(made, total)
    across = segments.take(np.maximum(sizes[1], np.int32(1)), image)
    row, column = np.floor_divide(place, across), np.remainder(place, across)
    at = np.add(np.multiply(np.add(np.multiply(image, high), row), wide), column)
    return segments.take(flat, at)


def _real(size: Tensor, out_stride: int, kernel: int, padding: int, stride: int, most: int) -> Tensor:
    """How many windows an image of a real size has along a dimension."""
    smaller = np.floor_divide(
        np.add(np.astype(size, np.int32), np.int32(out_stride - 1)), np.int32(out_stride)
    )
    room = np.add(smaller, np.int32(padding - kernel))
    return np.clip(np.add(np.floor_divide(room, np.int32(stride)), np.int32(1)), 0, most)
