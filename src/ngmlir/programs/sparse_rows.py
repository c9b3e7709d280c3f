# SPDX-License-Identifier: Apache-2.0
"""Sparse rows: a matrix of which some rows are given and all others are 0, as (ids, rows, height), which are ordinary values.

The gradient of a table of which a batch looks up some rows is of this kind. An operator takes it as it is where
`registry.on_rows` registers how; every other reads the matrix, which is made for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .. import numpy as np
from ..ir.literals import dtype_of
from ..ir.types import TensorType
from ..op_graph.tensor import Tensor
from ..op_graph.verbs import VERBS
from ..ops.merging import merged
from ..support.lengths import may_be_several
from .masks import where_rows


@dataclass(frozen=True)
class RowsType:
    """The type of sparse rows, which is that of the whole matrix."""

    whole: TensorType

    @property
    def static(self) -> bool:
        """Whether all lengths of the matrix are known."""
        return self.whole.static


@dataclass(frozen=True)
class SparseRows:
    """`rows[i]` is added to row `ids[i]` of a matrix of `height` rows. An id that is no row of it has a row of zeros here. Where
    `is_merged`, no row of the matrix is there twice."""

    ids: Tensor
    rows: Tensor
    height: int
    is_merged: bool = False

    @property
    def type(self) -> RowsType:
        """That of the whole matrix."""
        return RowsType(TensorType((self.height, *self.rows.type.shape[1:]), self.rows.element))

    @property
    def parts(self) -> tuple[Tensor, Tensor]:
        """The values that it is made of."""
        return self.ids, self.rows

    def dense(self) -> Tensor:
        """The whole matrix."""
        return self.added_to(np.zeros(self.type.whole.shape, self.rows.dtype))

    def added_to(self, matrix: Tensor, rows: Tensor | None = None) -> Tensor:
        """A matrix with these rows (or others at the same places) added."""
        return VERBS.scatter(matrix, self.ids, self.rows if rows is None else rows, axis=0, combine="add")

    def put_into(self, matrix: Tensor, rows: Tensor) -> Tensor:
        """A matrix with other rows in these places. Rows must be merged."""
        assert self.is_merged
        return VERBS.scatter(matrix, self.ids, rows, axis=0, combine="set")

    def taken_from(self, matrix: Tensor) -> Tensor:
        """The rows of a matrix in these places; anything where there is no such row."""
        return np.take(matrix, self.ids, axis=0)

    def replaced(self, matrix: Tensor) -> SparseRows:
        """The rows of another matrix in these places, each once."""
        assert self.is_merged
        has_place = np.less(self.ids, self.height)
        return replace(self, rows=where_rows(has_place, self.taken_from(matrix), 0))

    def mapped(self, function: Callable[[Tensor], Tensor]) -> SparseRows:
        """A linear function of each row; of merged rows any that keeps zeros."""
        return replace(self, rows=function(self.rows))

    def merged(self) -> SparseRows:
        """The same matrix with each id once: rows of equal ids are added in their order. As many rows are given as before; those
        that are left over have the id `height`, which is no row."""
        count = self.ids.type.shape[0]
        if self.is_merged or not may_be_several(count):
            return replace(self, is_merged=True)
        ids, place = merged(VERBS, self.ids, self.ids.type, self.height, _number)
        rows = VERBS.scatter(np.zeros_like(self.rows), place, self.rows, axis=0, combine="add")
        return SparseRows(ids, rows, self.height, True)


def _number(value: float, type: TensorType) -> Tensor:
    return np.full(type.shape, value, dtype_of(type.element))


def joined(parts: Sequence[SparseRows]) -> SparseRows:
    """The sum of several, as all of their rows."""
    if len(parts) == 1:
        return parts[0]
    ids, rows = (np.concatenate(each) for each in zip(*[p.parts for p in parts], strict=True))
    return SparseRows(ids, rows, parts[0].height)


def dense(value: Tensor | SparseRows) -> Tensor:
    """A tensor as it is, and of sparse rows the matrix."""
    return value.dense() if isinstance(value, SparseRows) else value


def has_rows(inputs: Mapping[str, Sequence[Any]]) -> bool:
    """Whether there are sparse rows among the values of slots."""
    return any(isinstance(value, SparseRows) for values in inputs.values() for value in values)


def all_dense(inputs: Mapping[str, Sequence[Any]]) -> Mapping[str, Sequence[Any]]:
    """The values of slots with matrices in place of sparse rows."""
    if not has_rows(inputs):
        return inputs
    return {
        slot: [dense(value) if isinstance(value, SparseRows) else value for value in values]
        for slot, values in inputs.items()
    }


def whole_type(type: TensorType | RowsType | None) -> TensorType | None:
    """A type as it is, and of sparse rows that of the matrix."""
    return type.whole if isinstance(type, RowsType) else type
