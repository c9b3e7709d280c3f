# SPDX-License-Identifier: Apache-2.0
"""Writes as values: what a storage holds after one of its views was written to."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..ir.core import Value
from ..ir.elements import elements
from ..ir.types import TensorType, i32
from ..ops import ng
from ..ops.builder import Builder
from .attributes import resolved
from .errors import NotAssignable, fail
from .node import Op
from .tensor import Tensor, as_tensor


def written(builder: Builder, view: Tensor, value: Value, read: Callable[[Op], Value]) -> Value:
    """The contents of the storage below `view` after `value` has been written to the view."""
    if not view.is_view:
        return value
    base = as_tensor(view.args[0].forwarded)
    attributes = resolved(view.attributes)
    if view.operation is ng.SliceOp:
        places = list(zip(attributes["starts"], attributes["limits"], attributes["steps"], strict=True))
        return written(builder, base, _with_slice(builder, read(base), value, places, 0), read)
    if view.operation is ng.TransposeOp:
        order = attributes["permutation"]
        value = builder.transpose(value, permutation=[order.index(d) for d in range(len(order))])
    elif view.operation is ng.ReshapeOp:
        value = builder.reshape(value, type=base.type)
    elif view.operation is ng.CastAxesOp:
        value = builder.cast_axes(value, type=base.type)
    else:
        fail(
            NotAssignable,
            f"{view.called} has repeated elements, so it cannot be assigned to",
            location=view.location,
        )
    return written(builder, base, value, read)


def _with_slice(
    builder: Builder, whole: Value, part: Value, places: list[tuple[int, int, int]], d: int
) -> Value:
    """`whole` with a slice of it replaced, looking at dimensions from `d` on."""
    if d == len(places):
        return part
    assert isinstance(whole.type, TensorType) and isinstance(part.type, TensorType)
    start, limit, step = places[d]
    size, count = whole.type.shape[d], part.type.shape[d]
    if count == 0:
        return whole
    if (start, count, step) == (0, size, 1):
        return _with_slice(builder, whole, part, places, d + 1)
    slab = _with_slice(builder, _window(builder, whole, d, start, limit, step), part, places, d + 1)
    if step == 1:
        pieces = [_window(builder, whole, d, 0, start, 1)] if start else []
        pieces.append(slab)
        if start + count < size:
            pieces.append(_window(builder, whole, d, start + count, size, 1))
        return builder.concatenate(pieces, axis=d)
    indices = [start + i * step for i in range(count)]
    line = TensorType((count,), i32)
    at = builder.constant(type=line, value=elements(np.array(indices, np.int32), line))
    return builder.scatter(whole, at, slab, axis=d, combine="set")


def _window(builder: Builder, value: Value, d: int, start: int, limit: int, step: int) -> Value:
    assert isinstance(value.type, TensorType)
    rank = value.type.rank
    return builder.slice(
        value,
        starts=[start if i == d else 0 for i in range(rank)],
        limits=[limit if i == d else value.type.shape[i] for i in range(rank)],
        steps=[step if i == d else 1 for i in range(rank)],
    )
