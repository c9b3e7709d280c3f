# SPDX-License-Identifier: Apache-2.0
"""Tables of which rows are looked up; their gradients are sparse rows where the operator says `is_sparse`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from ... import numpy as np
from ...ir.types import FloatType
from ...op_graph.tensor import Tensor
from ...support.diagnostics import UserError
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
    if isinstance(ids.element, FloatType):
        raise UserError(f"Ids are numbers of rows, int64, and these are {ids.element}")
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
    x: Tensor, of: Tensor | None, before: Tensor | None, *, along: int, count: int, context: Context
) -> Tensor:
    shape = x.type.shape
    things = np.multiply(np.asarray(1, dtype="int64"), count if of is None else of.type.shape[along])
    if 0 in shape:
        found = np.zeros([3 + len(shape)], "int64")
    else:
        numbers = np.astype(np.reshape(x, [prod(shape)]), "int64")
        is_outside = np.logical_or(np.less(numbers, 0), np.greater_equal(numbers, things))
        if levels := context.levels("X"):  # in a loop there may be rows that belong to no sequence
            owned = np.expand_dims(segments.are_owned(levels[-1], shape[0]), -1)
            is_outside = np.logical_and(np.reshape(is_outside, [shape[0], prod(shape[1:])]), owned)
            is_outside = np.reshape(is_outside, [prod(shape)])
        place = np.astype(np.argmax(np.astype(is_outside, "int32")), "int64")
        at = [
            np.remainder(np.floor_divide(place, prod(shape[d + 1 :])), length)
            for d, length in enumerate(shape)
        ]
        found = np.stack([np.astype(np.any(is_outside), "int64"), segments.take(numbers, place), things, *at])
    return found if before is None else np.where(np.greater(before[:1], 0), before, found)
