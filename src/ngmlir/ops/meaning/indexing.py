# SPDX-License-Identifier: Apache-2.0
"""What the ops that move slices by index mean on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.core import Op
from ...ir.literals import dtype_of
from ...ir.types import shape_of
from ..fields import get_bool, get_i64, get_str
from .elementwise import in_f32, maximum, minimum
from .numbers import Array

#: How an old and a new element become one.
COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "set": lambda old, new: new,
    "add": in_f32(np.add),
    "max": in_f32(maximum),
    "min": in_f32(minimum),
}


def positions(indices: Array, size: int) -> Array:
    """Indices as int64 where a negative one counts from the end; what is out of range stays out of range."""
    if indices.dtype == np.uint64:
        indices = np.minimum(indices, np.uint64(np.iinfo(np.int64).max))
    indices = indices.astype(np.int64)
    return np.where(indices < 0, indices + size, indices)


def _clamped(indices: Array, size: int) -> Array:
    return np.clip(positions(indices, size), 0, size - 1)


def gather(op: Op, arrays: Sequence[Array]) -> Any:
    (source, indices), axis = arrays, get_i64(op, "axis")
    return np.take(source, _clamped(indices, source.shape[axis]), axis=axis)


def gather_elements(op: Op, arrays: Sequence[Array]) -> Any:
    (source, indices), axis = arrays, get_i64(op, "axis")
    return np.take_along_axis(source, _clamped(indices, source.shape[axis]), axis=axis)


def scatter(op: Op, arrays: Sequence[Array]) -> Any:
    (source, indices, updates), axis = arrays, get_i64(op, "axis")
    combine = COMBINE[get_str(op, "combine")]
    result = np.array(source)
    slices = np.moveaxis(result, axis, 0)
    size = len(slices)
    # The index dimensions first and as one, so that slices and updates meet in row order of the indices.
    given = np.moveaxis(updates, range(axis, axis + indices.ndim), range(indices.ndim))
    given = given.reshape((indices.size, *given.shape[indices.ndim :]))
    for i, position in enumerate(positions(indices, size).reshape(-1)):
        if 0 <= position < size:
            slices[position] = combine(slices[position], given[i])
    return result


def one_hot(op: Op, arrays: Sequence[Array]) -> Any:
    (indices,), axis, shape = arrays, get_i64(op, "axis"), shape_of(op.result.type)
    classes = np.arange(shape[axis]).reshape([-1 if d == axis else 1 for d in range(len(shape))])
    return (np.expand_dims(indices, axis) == classes).astype(dtype_of(op.result.type))


def argsort(op: Op, arrays: Sequence[Array]) -> Any:
    (x,), axis = arrays, get_i64(op, "axis")
    if x.dtype.kind == "V":  # NumPy sorts no small floats of others
        x = x.astype(np.float32)
    if not get_bool(op, "descending"):
        order = np.argsort(x, axis=axis, kind="stable")
    else:
        # Backwards twice, so that equal elements stay as they were.
        order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
    first = order.take(np.arange(shape_of(op.result.type)[axis]), axis)
    return first.astype(dtype_of(op.result.type))


INDEXING = {
    "ng.argsort": argsort,
    "ng.gather": gather,
    "ng.gather_elements": gather_elements,
    "ng.scatter": scatter,
    "ng.one_hot": one_hot,
    "ng.lookup": gather,
}
