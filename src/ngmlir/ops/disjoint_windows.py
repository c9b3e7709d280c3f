# SPDX-License-Identifier: Apache-2.0
"""Windows of one tap along an axis, and sums of windows that do not overlap, as slices, pads and transposes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from ..ir.attributes import numeric_literal
from ..ir.core import Op, Value
from ..ir.elements import filled
from ..ir.types import TensorType, element_type, shape_of
from ..support.lengths import is_same
from . import rules
from .fields import get_i64s
from .ng import NgVerbs

V = TypeVar("V")


def windows_of_single_taps(verbs: NgVerbs[V], op: Op, operands: Sequence[V]) -> Sequence[V] | None:
    """Replaces windows of one tap along an axis by slices."""
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
    if max(strides) > 1 or not all(map(is_same, limits, shape)):
        value = verbs.slice(value, starts=[0] * len(shape), limits=limits, steps=strides)
    kept = [i for i, size in enumerate(sizes) if size > 1]
    if kept:
        own = [names[i] for i in kept] + [*names[len(axes) :]] if names is not None else None
        type = rules.reshaped(target, [*(sizes[i] for i in kept), *counts], own)
        given = [[setting[i] for i in kept] for setting in (axes, steps, dilations)]
        value = verbs.windows(value, type=type, axes=given[0], steps=given[1], dilations=given[2])
    return [verbs.reshape(value, type=target)]


def sums_of_disjoint_windows(verbs: NgVerbs[V], op: Op, operands: Sequence[V]) -> Sequence[V] | None:
    """Replaces sums of windows of one tap along an axis by these windows one after the other, with zeros between; also longer ones that do
    not reach the next, if they come from a transpose, which can then move them there. A zero is added so that no sum is -0.0."""
    source, target = op.operands[0].type, op.result.type
    axes, steps, dilations = (get_i64s(op, name) for name in ("axes", "steps", "dilations"))
    sizes, shape, whole = shape_of(source)[: len(axes)], [*shape_of(source)[len(axes) :]], shape_of(target)
    if not all(isinstance(t, TensorType) and t.static for t in (source, target)):
        return None
    each = zip(sizes, steps, dilations, strict=True)
    moved = _is_transposed(op.operands[0])
    alone = [
        i for i, (n, step, dilation) in enumerate(each) if n == 1 or (moved and n <= step and dilation == 1)
    ]
    if not alone:
        return None
    element, count = element_type(target), len(alone)
    kept = [i for i in range(len(axes)) if i not in alone]
    value = operands[0]
    if kept:
        order = [*kept, *alone, *range(len(axes), len(axes) + len(shape))]
        value = verbs.transpose(value, permutation=order)
        for i in kept:
            shape[axes[i]] = whole[axes[i]]
        given = [[setting[i] for i in kept] for setting in ([a + count for a in axes], steps, dilations)]
        type = TensorType((*[sizes[i] for i in alone], *shape), element)
        value = verbs.overlap_add(value, type=type, axes=given[0], steps=given[1], dilations=given[2])
    # The taps of an axis become the dimension after it, padded to the step from one window to the next.
    order, behind, joined = list[int](), list[int](), list[int]()
    for d, size in enumerate(shape):
        number = next((n for n, i in enumerate(alone) if axes[i] == d), None)
        order += [count + d] if number is None else [count + d, number]
        behind += [0] if number is None else [0, steps[alone[number]] - sizes[alone[number]]]
        joined.append(size if number is None else size * steps[alone[number]])
    value = verbs.pad(verbs.transpose(value, permutation=order), low=[0] * len(order), high=behind)
    value = verbs.reshape(value, type=TensorType(tuple(joined), element))
    none = [0] * len(joined)
    limits = [min(size, wanted) for size, wanted in zip(joined, whole, strict=True)]
    value = verbs.slice(value, starts=none, limits=limits, steps=[1] * len(joined))
    value = verbs.pad(value, low=none, high=[n - limit for n, limit in zip(whole, limits, strict=True)])
    if not kept:
        type = TensorType(whole, element)
        value = verbs.add(value, verbs.constant(type=type, value=filled(numeric_literal(0, element), type)))
    return [verbs.reshape(value, type=target)]


def _is_transposed(value: Value) -> bool:
    owner = value.owner
    while isinstance(owner, Op) and owner.name == "ng.reshape":
        owner = owner.operands[0].owner
    return isinstance(owner, Op) and owner.name == "ng.transpose"
