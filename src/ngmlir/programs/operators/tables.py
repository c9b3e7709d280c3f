# SPDX-License-Identifier: Apache-2.0
"""Tables of which rows are looked up; their gradients are sparse rows where the operator says `is_sparse`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from ... import numpy as np
from ...op_graph.tensor import Tensor
from ...support.diagnostics import UserError
from ...support.lengths import is_same
from .. import segments
from ..definition import Context
from ..registry import gradient_of, operator
from ..sparse_rows import SparseRows


@operator
def lookup_table(
    w: Tensor, ids: Tensor, *, is_sparse: bool, is_distributed: bool, padding_idx: int
) -> Tensor:
    if not ids.type.shape or ids.type.shape[-1] != 1:
        raise UserError(f"Ids has a last dimension of 1, not the shape {list(ids.type.shape)}")
    ids = np.reshape(ids, ids.type.shape[:-1])
    rows = np.take(w, ids, axis=0)
    if padding_idx == -1:
        return rows
    return np.where(np.expand_dims(np.equal(ids, _padding(w, padding_idx)), -1), np.zeros_like(rows), rows)


@gradient_of("lookup_table")
def _table_gradient(
    inputs: Mapping[str, Sequence[Any]],
    outputs: Mapping[str, Sequence[Any]],
    errors: Mapping[str, Sequence[Any]],
    *,
    is_sparse: bool,
    is_distributed: bool,
    padding_idx: int,
) -> dict[str, list[Any]]:
    (w,), (ids,), (error,) = inputs["W"], inputs["Ids"], errors["Out"]
    height, count = w.type.shape[0], prod(ids.type.shape)
    ids = np.reshape(ids, (count,))
    rows = np.reshape(error, (count, *w.type.shape[1:]))
    if padding_idx != -1:
        padded = np.equal(ids, _padding(w, padding_idx))
        ids = np.where(padded, height, ids)
        rows = np.where(
            np.reshape(padded, (count, *(1,) * (len(w.type.shape) - 1))), np.zeros_like(rows), rows
        )
    made = SparseRows(ids, rows, height)
    return {"W": [made if is_sparse else made.dense()]}


def _padding(w: Tensor, padding_idx: int) -> int:
    """The row that reads as zeros."""
    return padding_idx + w.type.shape[0] if padding_idx < 0 else padding_idx


@operator
def select_rows(x: Tensor, like: Tensor) -> Tensor:
    return x


@operator
def extract_rows(x: Tensor) -> Tensor:
    return np.reshape(np.arange(x.type.shape[0], dtype=np.int64), (x.type.shape[0], 1))


@operator
def shard_index(x: Tensor, *, start: int, stop: int, rows: int, padding_idx: int, table: str) -> Tensor:
    is_own = np.logical_and(np.greater_equal(x, start), np.less(x, stop))
    if padding_idx != -1:
        is_own = np.logical_and(
            is_own, np.not_equal(x, padding_idx + rows if padding_idx < 0 else padding_idx)
        )
    return np.where(is_own, np.subtract(x, start), stop - start)


@operator
def find_outside(
    x: Tensor,
    of: Tensor | None,
    many: Tensor | None,
    among: Tensor | None,
    before: Tensor | None,
    *,
    along: int,
    count: int,
    context: Context,
) -> Tensor:
    shape = x.type.shape
    one = np.asarray(1, dtype="int64")
    things = np.multiply(one, count) if of is None else _choices(of, along, context)
    if 0 in shape:
        found = np.zeros([3 + len(shape)], "int64")
    else:
        numbers = np.astype(np.reshape(x, [prod(shape)]), "int64")
        bounds = things if many is None else np.reshape(many, [prod(shape)])
        is_outside = np.logical_or(np.less(numbers, 0), np.greater_equal(numbers, bounds))
        if levels := context.levels("X"):  # in a loop there may be rows that belong to no sequence
            is_outside = _where_rows(is_outside, shape, segments.are_owned(levels[-1], shape[0]))
        elif among is not None and shape and is_same(shape[0], among.type.shape[0]):
            is_outside = _where_rows(is_outside, shape, np.greater(np.reshape(among, [-1]), 0))
        place = np.astype(np.argmax(np.astype(is_outside, "int32")), "int64")
        at = [
            np.remainder(np.floor_divide(place, prod(shape[d + 1 :])), length)
            for d, length in enumerate(shape)
        ]
        if many is not None:
            things = segments.take(bounds, place)
        found = np.stack([np.astype(np.any(is_outside), "int64"), segments.take(numbers, place), things, *at])
    return _unless(before, found)


def _where_rows(is_outside: Tensor, shape: Sequence[int], counts: Tensor) -> Tensor:
    """The flat mask in those rows that count."""
    whole = np.reshape(is_outside, [shape[0], prod(shape[1:])])
    return np.reshape(np.logical_and(whole, np.expand_dims(counts, -1)), [prod(shape)])


def _unless(before: Tensor | None, found: Tensor) -> Tensor:
    return found if before is None else np.where(np.greater(before[:1], 0), before, found)


def _choices(of: Tensor, along: int, context: Context) -> Tensor:
    """How many there are to choose of; in loops there may be rows that belong to no sequence."""
    levels = context.levels("Of")
    if levels and not along:
        return np.astype(np.reshape(segments.last(levels[-1]), []), "int64")
    return np.multiply(np.asarray(1, dtype="int64"), of.type.shape[along])


@operator
def count_choices(x: Tensor, of: Tensor, *, along: int, context: Context) -> Tensor:
    return np.broadcast_to(_choices(of, along, context), x.type.shape)


@operator
def first_found(x: Tensor, before: Tensor | None) -> Tensor:
    length = x.type.shape[-1]
    if not prod(x.type.shape):
        return _unless(before, np.zeros([length], "int64"))
    rows = np.reshape(x, [prod(x.type.shape[:-1]), length])
    return _unless(before, segments.take(rows, np.argmax(np.astype(np.greater(rows[:, 0], 0), "int32"))))
