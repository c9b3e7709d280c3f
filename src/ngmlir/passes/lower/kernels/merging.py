# SPDX-License-Identifier: Apache-2.0
"""Merging two sorted runs on a GPU: each position of the result finds by binary search how many of the elements before it come from the
first run (S. Odeh et al., "Merge Path", 2012), independently of the others."""

from __future__ import annotations

from ....ir.core import Op, Value
from ....ir.types import VectorType, element_type, i32, i64, shape_of
from ....ops.builder import Builder
from ....ops.fields import get_i64
from ....support.target import Target
from ...analysis.reduction import merged
from .binary_search import binary_search
from .finished import Finished
from .single import flat_builder, positions_in
from .tiling import Span


def argsort_of_runs(op: Op, target: Target) -> Finished:
    """The positions along rows whose two halves are sorted."""
    rows, size, _ = merged(shape_of(op.operands[0].type), get_i64(op, "axis"))
    builder = flat_builder(op, target, rows * size, [(rows, size)])
    b, key = builder.b, element_type(op.operands[0].type)

    def pick(spans: list[Span]) -> None:
        (span,) = spans
        row, place = positions_in(b, span, (rows, size))
        merge = _Merge(b, builder.sources[0], row, VectorType((span.size,), key), size // 2)
        places = merge.source(b.cast(place, type=merge.number))
        found = b.cast(places, type=VectorType((span.size,), element_type(op.results[0].type)))
        b.store(found, builder.results[0], [span.start], masked=span.masked)

    return builder.visited(pick)


class _Merge:
    """Merges the two halves, of `run` elements each, of a row of a buffer."""

    def __init__(self, b: Builder, buffer: Value, row: Value, keys: VectorType, run: int):
        self.b, self.buffer, self.row, self.keys, self.run = b, buffer, row, keys, run
        self.number = VectorType(keys.shape, i32 if run < 1 << 29 else i64)

    def count(self, value: int) -> Value:
        return self.b.number(value, self.number)

    def first_before(self, i: Value, j: Value) -> Value:
        """Whether the i-th element of the first run precedes the j-th of the second. Of equal ones it does."""
        b, last = self.b, self.count(self.run - 1)
        j = b.add(b.maximum(b.minimum(j, last), self.count(0)), self.count(self.run))
        mine, other = (
            b.gather_tile(self.buffer, [self.row, at], type=self.keys) for at in (b.minimum(i, last), j)
        )
        return b.less_equal(mine, other)

    def source(self, place: Value) -> Value:
        """The position in the row of the element that comes to each of these places."""
        b, run = self.b, self.count(self.run)
        before = b.subtract(place, self.count(1))
        low, high = b.maximum(b.subtract(place, run), self.count(0)), b.minimum(place, run)
        low = binary_search(b, low, high, self.run, lambda i: self.first_before(i, b.subtract(before, i)))
        other = b.subtract(place, low)
        left = b.bitwise_and(
            b.less(low, run),
            b.bitwise_or(b.greater_equal(other, run), self.first_before(low, other)),
        )
        return b.select(left, low, b.add(other, run))
