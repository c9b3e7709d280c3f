# SPDX-License-Identifier: Apache-2.0
"""What the ops on segments mean on NumPy arrays. Offsets that are none are moved into the operand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ...ir.core import Op
from ...ir.literals import dtype_of
from ...ir.types import element_type, shape_of
from ..fields import get_enum, get_i64
from .networks import softmax_over
from .numbers import Array, widened
from .reductions import cumulated, max_over, min_over, product_over, sum_over

#: What each combination makes of the rows of a segment.
_REDUCED: dict[str, Callable[[Array, Sequence[int]], Any]] = {
    "sum": sum_over,
    "product": product_over,
    "max": max_over,
    "min": min_over,
    "first": lambda rows, _: rows[0] if len(rows) else np.zeros_like(rows, shape=rows.shape[1:]),
    "last": lambda rows, _: rows[-1] if len(rows) else np.zeros_like(rows, shape=rows.shape[1:]),
}


def _places(offsets: Array, rows: int) -> Iterator[slice]:
    """The rows of each segment."""
    bounds = np.clip(offsets.astype(np.int64), 0, rows)
    for first, end in pairwise(bounds):
        yield slice(int(first), int(max(first, end)))


def reduce(op: Op, arrays: Sequence[Array]) -> Any:
    (source, offsets), axis = arrays, get_i64(op, "axis")
    lines = np.moveaxis(source, axis, 0)
    reduced = _REDUCED[get_enum(op, "combine")]
    whole = np.empty((len(offsets) - 1, *lines.shape[1:]), source.dtype)
    for number, place in enumerate(_places(offsets, len(lines))):
        whole[number] = reduced(lines[place], [0])
    return np.moveaxis(whole, 0, axis)


def expand(op: Op, arrays: Sequence[Array]) -> Any:
    (source, offsets), axis = arrays, get_i64(op, "axis")
    result = np.zeros(_shape(op, source, offsets), dtype_of(element_type(op.result.type)))
    lines, out = np.moveaxis(source, axis, 0), np.moveaxis(result, axis, 0)
    for line, place in zip(lines, _places(offsets, len(out)), strict=True):
        out[place] = line
    return result


def _shape(op: Op, source: Array, offsets: Array) -> tuple[int, ...]:
    """The shape of what is expanded; a length that the program does not know is the last offset."""
    axis, size = get_i64(op, "axis"), shape_of(op.result.type)[get_i64(op, "axis")]
    size = size if size >= 0 else int(offsets[-1])
    return (*source.shape[:axis], size, *source.shape[axis + 1 :])


def _each(op: Op, arrays: Sequence[Array], value: Callable[[Array, int], Any]) -> Any:
    """A function of the rows of each segment that keeps their shape."""
    (source, offsets), axis = arrays, get_i64(op, "axis")
    lines = np.moveaxis(widened(source), axis, 0)
    result = np.zeros_like(lines)
    for place in _places(offsets, len(lines)):
        result[place] = value(lines[place], 0)
    return np.moveaxis(result, 0, axis).astype(source.dtype)


def cumulative(op: Op, arrays: Sequence[Array]) -> Any:
    return _each(op, arrays, lambda rows, axis: cumulated(get_enum(op, "combine"), op, rows, axis))


def softmax(op: Op, arrays: Sequence[Array]) -> Any:
    return _each(op, arrays, lambda rows, axis: softmax_over(rows, [axis]) if len(rows) else rows)


SEGMENTS: dict[str, Callable[[Op, Sequence[Array]], Any]] = {
    "ng.segment_reduce": reduce,
    "ng.segment_cumulative": cumulative,
    "ng.segment_expand": expand,
    "ng.segment_softmax": softmax,
}
