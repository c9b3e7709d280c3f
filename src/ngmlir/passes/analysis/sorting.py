# SPDX-License-Identifier: Apache-2.0
"""Sorting of rows: limits of kernels, the order of records, and rows whose halves are sorted."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.core import Op, Value
from ...ir.types import shape_of
from ...ops.builder import Builder
from ...ops.fields import find_i64, get_i64
from ...ops.sorting import is_plain_order
from ...rewrite.advice import pass_for
from ...support.diagnostics import Limit

#: Most results of a row that are found by insertion: an element that is inserted takes this many steps, at most as long as a radix
#: sort of it; most elements are not inserted.
INSERTED = 8
#: The longest row that one thread block sorts.
LONGEST = 4096


def comes_before(b: Builder, others: Sequence[Value], records: Sequence[Value]) -> Value:
    """Which of the others come before the records: keys, or keys with their positions, which order equal keys."""
    first = b.less(others[0], records[0])
    if len(records) == 1:
        return first
    (key, place), (mine, here) = others, records
    return b.bitwise_or(first, b.bitwise_and(b.equal(key, mine), b.less(place, here)))


def check_plain_order(op: Op) -> None:
    """Raises Limit where an `ng.argsort` has another order than kernels support."""
    if not is_plain_order(op):
        raise Limit("kernels sort signed integers in ascending order", op.location, hint=pass_for(op))


def has_two_runs(op: Op) -> bool:
    """Whether an `ng.argsort` returns all positions along contiguous rows whose two halves are known to be sorted."""
    shape, axis, run = shape_of(op.operands[0].type), get_i64(op, "axis"), find_i64(op, "runs")
    whole = shape == shape_of(op.results[0].type) and axis == len(shape) - 1
    return whole and run is not None and shape[axis] == 2 * run
