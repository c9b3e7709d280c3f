# SPDX-License-Identifier: Apache-2.0
"""The gradients of ops on segments. A sum is handed back by expanding it, and what was expanded by summing it."""

from __future__ import annotations

from collections.abc import Sequence

from ..fields import get_bool, get_enum, get_i64
from .indexing import added_at
from .rules import Applied, GradientVerbs, Rules, V, where

SEGMENTS = Rules()


def _segment_of_row(v: GradientVerbs[V], x: V, offsets: V, axis: int) -> tuple[V, V]:
    """The position of each row along the axis of x, and of its segment: two lines of i32."""
    rows = v.progression(0, 1, v.shape_of(x)[axis])
    segments = v.progression(0, 1, v.shape_of(offsets)[0] - 1)
    return rows, v.segment_expand_like(segments, offsets, 0, rows)


@SEGMENTS.of("segment_reduce")
def _reduce(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    (x, offsets), axis, combine = op.operands, get_i64(op, "axis"), get_enum(op, "combine")
    spread = v.segment_expand_like(delta, offsets, axis, x)
    if combine == "product":
        # The product of the elements before times that of the elements after, which is exact where there are zeros.
        before, after = (
            v.segment_cumulative(x, offsets, axis=axis, combine="product", exclusive=True, reverse=reverse)
            for reverse in (False, True)
        )
        spread = v.multiply(spread, v.multiply(before, after))
    elif combine in ("max", "min"):
        spread = where(v, v.equal(x, v.segment_expand_like(op.results[0], offsets, axis, x)), spread)
    elif combine != "sum":
        count = v.shape_of(offsets)[0]
        first = combine == "first"
        bound = v.window(offsets, 0, 0, count - 1) if first else v.window(offsets, 0, 1, count)
        rows = v.progression(0, 1, v.shape_of(x)[axis])
        chosen = v.segment_expand_like(bound, offsets, 0, rows)
        chosen = v.equal(rows if first else v.add(rows, v.number_like(1, rows)), chosen)
        spread = where(v, v.broadcast_like(chosen, x, [axis]), spread)
    return [spread, None]


@SEGMENTS.of("segment_expand")
def _expand(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    x, offsets = op.operands
    return [v.segment_sum(delta, offsets, get_i64(op, "axis"), x), None]


@SEGMENTS.of("segment_softmax")
def _softmax(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    (_, offsets), (y,), axis = op.operands, op.results, get_i64(op, "axis")
    along = v.segment_sum(v.multiply(delta, y), offsets, axis)
    spread = v.segment_expand_like(along, offsets, axis, y)
    return [v.multiply(y, v.subtract(delta, spread)), None]


@SEGMENTS.of("segment_cumulative")
def _cumulative(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    combine = get_enum(op, "combine")
    if combine == "sum":
        reverse, exclusive = get_bool(op, "reverse"), get_bool(op, "exclusive")
        axis, offsets = get_i64(op, "axis"), op.operands[1]
        return [
            v.segment_cumulative(delta, offsets, axis=axis, reverse=not reverse, exclusive=exclusive),
            None,
        ]
    return [(_cumulative_product if combine == "product" else _cumulative_extreme)(v, op, delta), None]


def _cumulative_product(v: GradientVerbs[V], op: Applied[V], delta: V) -> V:
    # As of ng.cumulative_product, so quadratic in the length of the axis; of other segments nothing is counted.
    (x, offsets), axis = op.operands, get_i64(op, "axis")
    reverse, exclusive = get_bool(op, "reverse"), get_bool(op, "exclusive")
    wide = v.repeat(x, axis, x, axis)
    _, segment = _segment_of_row(v, x, offsets, axis)
    i, j = v.positions_like(wide, axis), v.positions_like(wide, axis + 1)
    later = v.less(j, i) if reverse else v.greater(j, i)
    own, other = (v.broadcast_like(segment, i, [d]) for d in (axis, axis + 1))
    here = v.equal(own, other)
    inside = v.select(v.bitwise_and(later, here), wide, v.number_like(1, wide))
    rest = v.cumulative_product(inside, axis=axis + 1, reverse=reverse, exclusive=exclusive)
    counted = later if exclusive else v.bitwise_or(later, v.equal(i, j))
    flow = v.multiply(rest, v.rename_like(v.repeat(delta, axis, x, axis), rest))
    flow = where(v, v.bitwise_and(counted, here), flow)
    before = v.segment_cumulative(x, offsets, axis=axis, combine="product", reverse=reverse, exclusive=True)
    return v.multiply(before, v.rename_like(v.sum(flow, axes=[axis + 1]), x))


def _cumulative_extreme(v: GradientVerbs[V], op: Applied[V], delta: V) -> V:
    # Each result is the newest record of its segment at or before its place.
    (x, offsets), axis = op.operands, get_i64(op, "axis")
    combine = "max" if get_enum(op, "combine") == "max" else "min"
    reverse, exclusive = get_bool(op, "reverse"), get_bool(op, "exclusive")
    running = op.results[0]
    if exclusive:
        running = v.segment_cumulative(x, offsets, axis=axis, combine=combine, reverse=reverse)
    record, here, size = v.equal(x, running), v.positions_like(x, axis), v.shape_of(x)[axis]
    nothing = v.number_like(size if reverse else -1, here)
    places = v.segment_cumulative(
        v.select(record, here, nothing), offsets, axis=axis, combine="min" if reverse else "max",
        reverse=reverse, exclusive=exclusive,
    )  # fmt: skip
    nowhere = v.bitwise_or(
        v.less(places, v.number_like(0, places)), v.greater_equal(places, v.number_like(size, places))
    )
    delta = v.select(nowhere, v.number_like(0, delta), delta)
    return added_at(v, delta, v.select(nowhere, v.number_like(0, places), places), axis, x)
