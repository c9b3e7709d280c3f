# SPDX-License-Identifier: Apache-2.0
"""Kernels of segments on a GPU. Every thread reads its bounds from the offsets, so neither padding nor atomics are needed."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ....ir.core import Op, Value
from ....ir.types import VectorType, element_type, i32, i64, index, shape_of, with_element
from ....ops.fields import get_i64
from ....support.lengths import power_of_two
from ....support.target import Target
from ...analysis.indices import wide, within
from ...analysis.reduction import merged
from .binary_search import binary_search
from .cumulative import PrefixScan
from .finished import Finished
from .segments import RowsBetween
from .single import OpKernelBuilder, flat_builder, positions_in
from .tiling import Span, positions


def segment_reduce_by_blocks(op: Op, target: Target) -> Finished:
    """A block has a tile of some segments and columns, and reduces the rows of these segments in parallel."""
    return RowsBetween(op, target).build()


def segment_expand_by_blocks(op: Op, target: Target) -> Finished:
    """The result is seen as one dimension; each element finds the segment of its row by binary search."""
    axis = get_i64(op, "axis")
    source, result = (merged(shape_of(v.type), axis) for v in (op.operands[0], op.results[0]))
    (count,), element = shape_of(op.operands[1].type), element_type(op.results[0].type)
    builder = flat_builder(op, target, prod(result), [source, (count,)])
    b = builder.b

    def pick(spans: list[Span]) -> None:
        (span,) = spans
        line, row, column = positions_in(b, span, result)
        found = VectorType((span.size,), i32)

        def ends(segment: Value) -> Value:
            """Whether a segment ends before the row. The first offset is not read."""
            place = b.add(segment, b.number(1, segment.type))
            return b.less_equal(wide(b, b.gather_tile(builder.sources[1], [place], type=found)), row)

        none, last = b.number(0, row.type), b.number(count - 2, row.type)
        segment = binary_search(b, none, last, count - 1, ends)
        type = with_element(found, element)
        b.store(
            b.gather_tile(builder.sources[0], [line, segment, column], type=type),
            builder.results[0], [span.start], masked=span.masked,
        )  # fmt: skip

    return builder.visited(pick)


def segment_cumulative_by_blocks(op: Op, target: Target) -> Finished:
    """A block has one segment and some columns, and processes it several rows at a time."""
    shape = before, rows, after = merged(shape_of(op.operands[0].type), get_i64(op, "axis"))
    (count,), element = shape_of(op.operands[1].type), element_type(op.results[0].type)
    width = min(target.threads, power_of_two(after))
    builder = OpKernelBuilder(op, target, (before, count - 1, after), [shape, (count,)], [shape], width=width)
    b, run = builder.b, PrefixScan(builder, op)
    each = power_of_two(-(-rows // (count - 1)))
    steps = max(1, min(each, target.threads // width))
    tile, dims = ((steps, width), [1, 2]) if after > 1 else ((steps,), [1])
    type = VectorType(tile, element)

    def bound(place: Value) -> Value:
        return within(b, b.cast(builder.scalar(builder.sources[1], [place]), type=index), rows)

    def lines(spans: list[Span]) -> None:
        line, segment, span = spans
        first = bound(segment.start)
        length = b.maximum(b.subtract(bound(b.add(segment.start, b.index(1))), first), b.index(0))
        last = b.multiply(b.floor_divide(b.subtract(length, b.index(1)), b.index(steps)), b.index(steps))
        end = b.add(first, length)

        def band(k: Value, carried: Sequence[Value]) -> list[Value]:
            start = b.add(first, b.subtract(last, k) if run.reverse else k)
            place = positions(b, start, VectorType(tile, i64))
            inside = b.less(place, b.splat(b.cast(end, type=i64), place.type))
            new = b.load(
                builder.sources[0], [line.start, start, span.start], type=type, dims=dims, masked=True
            )
            new = run.enter(b, new)
            new = b.select(inside, new, run.begin(new.type))
            shown, carry = run.joined(new, 0, carried[0])
            at = [line.start, place, span.start]
            if after > 1:
                column = positions(b, span.start, VectorType(tile, i64), 1)
                inside = b.bitwise_and(inside, b.less(column, b.number(after, column.type)))
                at[2] = b.minimum(column, b.number(after - 1, column.type))
            at[1] = b.minimum(place, b.number(rows - 1, place.type))
            b.scatter_tile(run.leave(b, shown), inside, builder.results[0], at)
            return [carry]

        b.loop(0, length, steps, [run.carried(tile[1:])], band, name="row")

    return builder.visited(lines)
