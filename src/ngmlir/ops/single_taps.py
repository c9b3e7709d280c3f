# SPDX-License-Identifier: Apache-2.0
"""Windows of one tap along an axis, and sums of such windows: slices and pads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from ..ir.attributes import numeric_literal
from ..ir.core import Op
from ..ir.elements import filled
from ..ir.types import TensorType, Type, element_type, shape_of
from . import rules
from .fields import get_i64s
from .ng import NgVerbs

V = TypeVar("V")


def windows_of_single_taps(verbs: NgVerbs[V], op: Op, operands: Sequence[V]) -> Sequence[V] | None:
    """Windows of one tap are slices."""
    source, target, axes = op.operands[0].type, op.result.type, get_i64s(op, "axes")
    steps, dilations = get_i64s(op, "steps"), get_i64s(op, "dilations")
    shape, sizes = shape_of(source), shape_of(target)[: len(axes)]
    if 1 not in sizes or not (isinstance(source, TensorType) and source.static):
        return None
    counts, names = shape_of(target)[len(axes) :], rules.names_of(target)
    limits, strides = list(shape), [1] * len(shape)
    for axis, size, step in zip(axes, sizes, steps, strict=True):
        if size == 1:
            limits[axis], strides[axis] = (counts[axis] - 1) * step + 1, step
    value = operands[0]
    if limits != list(shape) or max(strides) > 1:
        value = verbs.slice(value, starts=[0] * len(shape), limits=limits, steps=strides)
    kept = [i for i, size in enumerate(sizes) if size > 1]
    if kept:
        own = [names[i] for i in kept] + [*names[len(axes) :]] if names is not None else None
        type = rules.reshaped(target, [*(sizes[i] for i in kept), *counts], own)
        given = [[setting[i] for i in kept] for setting in (axes, steps, dilations)]
        value = verbs.windows(value, type=type, axes=given[0], steps=given[1], dilations=given[2])
    return [verbs.reshape(value, type=target)]


def sums_of_single_taps(verbs: NgVerbs[V], op: Op, operands: Sequence[V]) -> Sequence[V] | None:
    """Sums of windows of one tap are these with zeros between them. A zero is added all the same: no sum is -0.0."""
    source, target = op.operands[0].type, op.result.type
    axes, steps, dilations = (get_i64s(op, name) for name in ("axes", "steps", "dilations"))
    sizes, shape, whole = shape_of(source)[: len(axes)], [*shape_of(source)[len(axes) :]], shape_of(target)
    if 1 not in sizes or not all(isinstance(t, TensorType) and t.static for t in (source, target)):
        return None
    element = element_type(target)
    kept = [i for i, size in enumerate(sizes) if size > 1]
    value = verbs.reshape(operands[0], type=TensorType((*(sizes[i] for i in kept), *shape), element))
    if kept:
        for i in kept:
            shape[axes[i]] = whole[axes[i]]
        given = [[setting[i] for i in kept] for setting in (axes, steps, dilations)]
        type = TensorType(tuple(shape), element)
        value = verbs.overlap_add(value, type=type, axes=given[0], steps=given[1], dilations=given[2])
    else:
        type = TensorType(tuple(shape), element)
        zero = verbs.constant(type=type, value=filled(numeric_literal(0, element), type))
        value = verbs.add(value, zero)
    for axis, size, step in zip(axes, sizes, steps, strict=True):
        if size == 1:
            value = _spread(verbs, value, shape, axis, step, whole[axis], element)
            shape[axis] = whole[axis]
    return [verbs.reshape(value, type=target)]


def _spread(
    verbs: NgVerbs[V], value: V, shape: Sequence[int], axis: int, step: int, length: int, element: Type
) -> V:
    """The elements of a tensor of this shape at every place of an axis that a step comes to, zeros elsewhere."""
    before, after = [*shape[:axis]], [*shape[axis + 1 :]]
    count, none = shape[axis], [0] * len(shape)
    if step > 1:
        value = verbs.reshape(value, type=TensorType((*before, count, 1, *after), element))
        value = verbs.pad(value, low=[*none, 0], high=[*none[: axis + 1], step - 1, *none[axis + 1 :]])
        count *= step
        value = verbs.reshape(value, type=TensorType((*before, count, *after), element))
    if length < count:
        return verbs.slice(value, starts=none, limits=[*before, length, *after], steps=[1] * len(shape))
    return value
