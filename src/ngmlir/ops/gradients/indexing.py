# SPDX-License-Identifier: Apache-2.0
"""The gradients of what reads and writes by index."""

from __future__ import annotations

from collections.abc import Sequence

from ..fields import get_i64, get_str
from ..lengths import Length, Size, derived, product
from .rules import Applied, GradientVerbs, Rules, V, where

INDEXING = Rules()


def _from_start(v: GradientVerbs[V], indices: V, size: Length) -> V:
    """Indices counted from the start."""
    return v.select(
        v.less(indices, v.number_like(0, indices)), v.add(indices, v.number_like(size, indices)), indices
    )


def _clamped(v: GradientVerbs[V], indices: V, size: Length) -> V:
    """Indices as gather reads them: counted from the start and held within the axis."""
    indices = _from_start(v, indices, size)
    return v.minimum(v.maximum(indices, v.number_like(0, indices)), v.number_like(size - 1, indices))


@INDEXING.of("gather", "lookup")
def _gather(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    table, indices = op.operands
    axis = get_i64(op, "axis")
    rows = _clamped(v, indices, v.shape_of(table)[axis])
    pad = op.find_size("pad")
    if pad is not None:
        spared = v.equal(rows, v.number_like(pad, rows))
        inner = range(axis, axis + len(v.shape_of(indices)))
        delta = v.select(v.broadcast_like(spared, delta, list(inner)), v.number_like(0, delta), delta)
    return [v.scatter(v.number_like(0, table), rows, delta, axis=axis, combine="add"), None]


def added_at(v: GradientVerbs[V], delta: V, places: V, axis: int, like: V) -> V:
    """Like `like`: at i along the axis, the sum of those elements of `delta` whose place is i, which are places of it."""
    # Elements are counted row by row, so that one scatter reaches all of them.
    sizes = v.shape_of(like)
    counted: V | None = None
    for d in range(len(sizes)):
        here = v.positions_like(places, d)
        position = v.cast_like(places, here) if d == axis else here
        stride = derived(product, *sizes[d + 1 :])
        term = v.multiply(position, v.number_like(stride, position)) if d + 1 < len(sizes) else position
        counted = term if counted is None else v.add(counted, term)
    assert counted is not None
    line = v.progression(0, 1, _size(v, delta))
    whole = v.number_like(0, v.cast_like(v.progression(0, 1, _size(v, like)), delta))
    counted, delta = (v.reshape_like(x, v.cast_like(line, x)) for x in (counted, delta))
    return v.reshape_like(v.scatter(whole, counted, delta, axis=0, combine="add"), like)


@INDEXING.of("gather_elements")
def _gather_elements(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    table, indices = op.operands
    axis = get_i64(op, "axis")
    return [added_at(v, delta, _clamped(v, indices, v.shape_of(table)[axis]), axis, table), None]


@INDEXING.of("scatter")
def _scatter(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    base, indices, updates = op.operands
    axis, how = get_i64(op, "axis"), get_str(op, "combine")
    size = v.shape_of(base)[axis]
    inner = list(range(axis, axis + len(v.shape_of(indices))))
    rows = _from_start(v, indices, size)
    within = v.bitwise_and(
        v.greater_equal(rows, v.number_like(0, rows)), v.less(rows, v.number_like(size, rows))
    )
    taken = v.gather(delta, indices, axis=axis)
    if how == "add":
        to_base = delta
    elif how == "set":
        to_base = v.scatter(delta, indices, v.number_like(0, updates), axis=axis, combine="set")
        # Of updates to one place the last one stays; it finds its own serial number there.
        serial = v.progression(0, 1, _size(v, indices))
        serial = v.reshape_like(serial, v.cast_like(indices, serial))
        last = v.scatter(v.progression(-1, 0, size), indices, serial, axis=0, combine="set")
        within = v.bitwise_and(within, v.equal(v.gather(last, indices, axis=0), serial))
    else:
        to_base = where(v, v.equal(op.results[0], base), delta)
        taken = where(v, v.equal(v.gather(op.results[0], indices, axis=axis), updates), taken)
    to_updates = where(v, v.broadcast_like(within, taken, inner), taken)
    return [to_base, None, v.rename_like(to_updates, updates)]


def _size(v: GradientVerbs[V], value: V) -> Size:
    return derived(product, *v.shape_of(value))
