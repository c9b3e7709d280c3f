# SPDX-License-Identifier: Apache-2.0
"""The gradients of moves: the move the other way round."""

from __future__ import annotations

from collections.abc import Sequence

from ...support.lengths import is_same
from ..borders import place
from ..fields import get_enum, get_i64, get_i64s
from ..lengths import Length, Size, derived, same
from ..ng_shape_rules import slice_size
from .rules import Applied, GradientVerbs, Rules, V, others

SHAPE = Rules()


@SHAPE.of("broadcast")
def _broadcast(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    new = others(v, delta, get_i64s(op, "dimensions"))
    return [v.sum(delta, axes=new) if new else delta]


@SHAPE.of("transpose")
def _transpose(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    order = get_i64s(op, "permutation")
    return [v.transpose(delta, permutation=[order.index(d) for d in range(len(order))])]


@SHAPE.of("reshape")
def _reshape(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    return [v.reshape_like(delta, op.operands[0])]


@SHAPE.of("cast_axes")
def _cast_axes(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    return [v.rename_like(delta, op.operands[0])]


@SHAPE.of("slice")
def _slice(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    (source,) = op.operands
    shape = v.shape_of(source)
    low: list[Size] = [0] * len(shape)
    high: list[Size] = [0] * len(shape)
    places = zip(*(op.sizes(name) for name in ("starts", "limits")), get_i64s(op, "steps"), strict=True)
    for d, (start, limit, step) in enumerate(places):
        if start == 0 and step == 1 and _is_length(limit, shape[d]):
            continue
        count = derived(slice_size, start, limit, step)
        if step < 0:
            delta = v.window(delta, d, count - 1, -1, -1)
            start, step = start + (count - 1) * step, -step
        start = derived(_least, start, count)
        if step > 1:
            delta = v.spaced_like(delta, source, d, start, step)
        else:
            low[d] = start
            high[d] = shape[d] - count - start
    return [v.pad_like(delta, source, low, high) if any((*low, *high)) else delta]


def _is_length(limit: Size, length: Length) -> bool:
    """Whether a slice ends where its dimension ends, whatever that is."""
    return limit is length.parts[0]


def _least(start: int, count: int) -> int:
    """Where a slice of so many elements starts; one without elements starts anywhere, so at 0."""
    return start if count else 0


def _is_zero(size: Size) -> bool:
    """Whether a size is 0 for all lengths."""
    return isinstance(size, int) and is_same(size, 0)


@SHAPE.of("pad")
def _pad(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    size = v.shape_of(op.operands[0])
    for d, (low, high) in enumerate(zip(op.sizes("low"), op.sizes("high"), strict=True)):
        if not (_is_zero(low) and _is_zero(high)):
            delta = v.window(delta, d, low, low + size[d])
    return [v.rename_like(delta, op.operands[0])]


@SHAPE.of("border_pad")
def _border_pad(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    size = v.shape_of(op.operands[0])
    for d, (low, high) in enumerate(zip(op.sizes("low"), op.sizes("high"), strict=True)):
        if not (_is_zero(low) and _is_zero(high)):
            at = v.progression(0, 1, low + size[d] + high)
            at = v.subtract(at, v.number_like(derived(same, low), at))
            places = place(v, get_enum(op, "border"), at, size[d], lambda n, at=at: v.number_like(n, at))
            inside = v.number_like(0, v.window(delta, d, 0, size[d]))
            delta = v.scatter(inside, places, delta, axis=d, combine="add")
    return [v.rename_like(delta, op.operands[0])]


@SHAPE.of("concatenate")
def _concatenate(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    axis = get_i64(op, "axis")
    at: Size = 0
    parts: list[V] = []
    for part in op.operands:
        end = at + v.shape_of(part)[axis]
        parts.append(v.window(delta, axis, at, end))
        at = end
    return parts


@SHAPE.of("stack")
def _stack(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    axis = get_i64(op, "axis")
    return [v.reshape_like(v.window(delta, axis, i, i + 1), part) for i, part in enumerate(op.operands)]


@SHAPE.of("windows")
def _windows(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    return [v.overlap_add_like(delta, op.operands[0], op)]


@SHAPE.of("overlap_add")
def _overlap_add(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    return [v.windows_like(delta, op.operands[0], op)]
