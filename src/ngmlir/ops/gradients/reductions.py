# SPDX-License-Identifier: Apache-2.0
"""The gradients of reductions and cumulative ops."""

from __future__ import annotations

from collections.abc import Sequence

from .. import ng
from ..fields import get_bool, get_i64, get_i64s
from ..lengths import Size, derived
from .indexing import added_at
from .rules import Applied, GradientVerbs, Rules, V, others, spread_back, where

REDUCTIONS = Rules()


@REDUCTIONS.of("sum")
def _sum(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    return [spread_back(v, delta, op)]


@REDUCTIONS.of("mean")
def _mean(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    return [spread_back(v, v.divide(delta, v.count_like(op.operands[0], get_i64s(op, "axes"), delta)), op)]


@REDUCTIONS.of("max", "min")
def _extreme(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    return [where(v, v.equal(op.operands[0], spread_back(v, op.results[0], op)), spread_back(v, delta, op))]


@REDUCTIONS.of("first_max")
def _first_max(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    (x,), axes = op.operands, sorted(get_i64s(op, "axes"))
    if not axes:
        return [delta]
    place, count = v.positions_like(x, axes[-1]), v.shape_of(x)[axes[-1]]
    for axis in reversed(axes[:-1]):
        here = v.positions_like(x, axis)
        place = v.add(v.multiply(here, v.number_like(count, here)), place)
        count *= v.shape_of(x)[axis]
    greatest = v.equal(x, spread_back(v, op.results[0], op))
    first = v.min(v.select(greatest, place, v.number_like(count, place)), axes=axes)
    return [where(v, v.equal(place, spread_back(v, first, op)), spread_back(v, delta, op))]


@REDUCTIONS.of("product")
def _product(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    # Along one dimension: the product of the elements before times that of the elements after, which is exact where there are zeros.
    axes = sorted(get_i64s(op, "axes"), reverse=True)
    partial = [op.operands[0]]
    for axis in axes:
        partial.append(v.product(partial[-1], axes=[axis]))
    for axis, x in zip(reversed(axes), reversed(partial[:-1]), strict=True):
        before = v.cumulative_product(x, axis=axis, exclusive=True)
        after = v.cumulative_product(x, axis=axis, exclusive=True, reverse=True)
        delta = v.multiply(v.broadcast_like(delta, x, others(v, x, [axis])), v.multiply(before, after))
    return [delta]


# ---- cumulative


@REDUCTIONS.of("cumulative_sum")
def _cumulative_sum(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    reverse, exclusive = get_bool(op, "reverse"), get_bool(op, "exclusive")
    return [v.cumulative_sum(delta, axis=get_i64(op, "axis"), reverse=not reverse, exclusive=exclusive)]


@REDUCTIONS.of("cumulative_product")
def _cumulative_product(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    # Row i of `rest` holds the products of the elements between i and each later j, so no division by x is
    # needed; quadratic in the length of the axis.
    (x,), axis = op.operands, get_i64(op, "axis")
    reverse, exclusive = get_bool(op, "reverse"), get_bool(op, "exclusive")
    wide = v.repeat(x, axis, x, axis)
    i, j = v.positions_like(wide, axis), v.positions_like(wide, axis + 1)
    later = v.less(j, i) if reverse else v.greater(j, i)
    inside = v.select(later, wide, v.number_like(1, wide))
    rest = v.cumulative_product(inside, axis=axis + 1, reverse=reverse, exclusive=exclusive)
    counted = later if exclusive else v.bitwise_or(later, v.equal(i, j))
    flow = where(v, counted, v.multiply(rest, v.rename_like(v.repeat(delta, axis, x, axis), rest)))
    before = v.cumulative_product(x, axis=axis, reverse=reverse, exclusive=True)
    return [v.multiply(before, v.rename_like(v.sum(flow, axes=[axis + 1]), x))]


def _at_most_one(length: int) -> int:
    return min(length, 1)


@REDUCTIONS.of("cumulative_max", "cumulative_min")
def _cumulative_extreme(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    # Each result is the newest record at or before its place.
    (x,), axis = op.operands, get_i64(op, "axis")
    reverse, exclusive = get_bool(op, "reverse"), get_bool(op, "exclusive")
    running = v.cumulative_max if op.op is ng.CumulativeMaxOp else v.cumulative_min
    record = v.equal(x, running(x, axis=axis, reverse=reverse) if exclusive else op.results[0])
    here = v.positions_like(x, axis)
    size = v.shape_of(x)[axis]
    if reverse:
        places = v.cumulative_min(v.select(record, here, v.number_like(size, here)), axis=axis, reverse=True)
    else:
        places = v.cumulative_max(v.select(record, here, v.number_like(-1, here)), axis=axis)
    if exclusive:
        rank = len(v.shape_of(x))
        first = derived(_at_most_one, size)  # an axis without positions has none to move
        one: list[Size] = [first if d == axis else 0 for d in range(rank)]
        none: list[Size] = [0] * rank
        kept = v.window(places, axis, first, size) if reverse else v.window(places, axis, 0, size - first)
        places = v.pad_like(kept, places, none if reverse else one, one if reverse else none, fill=-1)
    nowhere = v.bitwise_or(
        v.less(places, v.number_like(0, places)), v.greater_equal(places, v.number_like(size, places))
    )
    delta = v.select(nowhere, v.number_like(0, delta), delta)
    places = v.select(nowhere, v.number_like(0, places), places)
    return [added_at(v, delta, places, axis, x)]
