# SPDX-License-Identifier: Apache-2.0
"""What constants and the ops that move elements mean on NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, cast

import numpy as np

from ...ir.attributes import Attribute, FloatAttr, IntegerAttr
from ...ir.core import Op
from ...ir.elements import ElementsAttr
from ...ir.literals import dtype_of
from ...ir.types import DYNAMIC, shape_of
from ...support.diagnostics import Limit
from ..fields import get_enum, get_i64, get_i64s
from .numbers import Array


def literal_array(literal: Attribute) -> Array:
    """The array that a literal stands for."""
    if isinstance(literal, ElementsAttr):
        return literal.array()
    assert isinstance(literal, (FloatAttr, IntegerAttr))
    dtype = dtype_of(literal.type)
    if isinstance(literal, FloatAttr):
        return np.array(literal.bits, f"u{dtype.itemsize}").view(dtype)
    return np.array(literal.value, dtype)


def constant(op: Op, arrays: Sequence[Array]) -> Any:
    return literal_array(op.attributes["value"])


def _known_shape(op: Op) -> tuple[int, ...]:
    shape = shape_of(op.result.type)
    if DYNAMIC in shape:
        raise Limit(
            f"the size of {op.result.type} does not follow from the operands of {op.name}", op.location
        )
    return shape


def extent(op: Op, arrays: Sequence[Array]) -> Any:
    return np.broadcast_to(
        np.asarray(get_i64(op, "value")).astype(dtype_of(op.result.type)), _known_shape(op)
    )


def iota(op: Op, arrays: Sequence[Array]) -> Any:
    shape, dtype = _known_shape(op), dtype_of(op.result.type)
    if not shape:
        return np.zeros((), dtype)
    along = get_i64(op, "dimension")
    line = np.arange(shape[along]).reshape([-1 if d == along else 1 for d in range(len(shape))])
    return np.broadcast_to(line, shape).astype(dtype)


def broadcast(op: Op, arrays: Sequence[Array]) -> Any:
    (source,), places = arrays, get_i64s(op, "dimensions")
    sizes = dict(zip(places, source.shape, strict=True))
    target = shape_of(op.result.type)
    if all(size != DYNAMIC or d in sizes for d, size in enumerate(target)):
        target = tuple(sizes.get(d, size) for d, size in enumerate(target))
    else:
        target = _known_shape(op)
    return np.broadcast_to(source.reshape([sizes.get(d, 1) for d in range(len(target))]), target)


def transpose(op: Op, arrays: Sequence[Array]) -> Any:
    return arrays[0].transpose(get_i64s(op, "permutation"))


def reshape(op: Op, arrays: Sequence[Array]) -> Any:
    (source,), shape = arrays, list(shape_of(op.result.type))
    if shape.count(DYNAMIC) == 1:
        known = prod(s for s in shape if s != DYNAMIC)
        shape[shape.index(DYNAMIC)] = source.size // known if known else 0
    elif DYNAMIC in shape:
        _known_shape(op)
    return source.reshape(shape)


def cast_axes(op: Op, arrays: Sequence[Array]) -> Any:
    return arrays[0]


def slice_(op: Op, arrays: Sequence[Array]) -> Any:
    (result,) = arrays
    ranges = zip(get_i64s(op, "starts"), get_i64s(op, "limits"), get_i64s(op, "steps"), strict=True)
    for d, (start, limit, step) in enumerate(ranges):
        result = np.take(result, np.arange(start, limit, step), axis=d)
    return result


def pad(op: Op, arrays: Sequence[Array]) -> Any:
    (source,), low, high = arrays, get_i64s(op, "low"), get_i64s(op, "high")
    value = op.attributes.get("value")
    sizes = [lo + n + hi for lo, n, hi in zip(low, source.shape, high, strict=True)]
    result = np.full(sizes, literal_array(value) if value is not None else 0, source.dtype)
    result[tuple(slice(lo, lo + n) for lo, n in zip(low, source.shape, strict=True))] = source
    return result


def border_pad(op: Op, arrays: Sequence[Array]) -> Any:
    widths = zip(get_i64s(op, "low"), get_i64s(op, "high"), strict=True)
    return np.pad(arrays[0], [*widths], cast("Any", get_enum(op, "border")))


def concatenate(op: Op, arrays: Sequence[Array]) -> Any:
    return np.concatenate(arrays, axis=get_i64(op, "axis"))


def stack(op: Op, arrays: Sequence[Array]) -> Any:
    return np.stack(arrays, axis=get_i64(op, "axis"))


def _tapped(op: Op, tap: Sequence[int], counts: Sequence[int]) -> tuple[slice, ...]:
    """Where, in what is or becomes whole, one tap of so many windows lies."""
    places = [slice(None)] * len(counts)
    axes, steps, dilations = (get_i64s(op, name) for name in ("axes", "steps", "dilations"))
    for t, axis, step, dilation in zip(tap, axes, steps, dilations, strict=True):
        first = t * dilation
        places[axis] = slice(first, first + (counts[axis] - 1) * step + 1, step)
    return tuple(places)


def windows(op: Op, arrays: Sequence[Array]) -> Any:
    (source,), axes = arrays, get_i64s(op, "axes")
    taps = shape_of(op.result.type)[: len(axes)]
    shape = list(source.shape)
    for axis, size, step, dilation in zip(
        axes, taps, get_i64s(op, "steps"), get_i64s(op, "dilations"), strict=True
    ):
        shape[axis] = (shape[axis] - (size - 1) * dilation - 1) // step + 1
    result = np.empty((*taps, *shape), source.dtype)
    for tap in np.ndindex(*taps):
        result[tap] = source[_tapped(op, tap, shape)]
    return result


def overlap_add(op: Op, arrays: Sequence[Array]) -> Any:
    (source,), axes = arrays, get_i64s(op, "axes")
    taps, counts = source.shape[: len(axes)], source.shape[len(axes) :]
    whole = [size if d in axes else counts[d] for d, size in enumerate(shape_of(op.result.type))]
    narrow = source.dtype.itemsize < 4 and source.dtype.kind not in "iu"
    result = np.zeros(whole, np.float32 if narrow else source.dtype)
    for tap in np.ndindex(*taps):
        result[_tapped(op, tap, counts)] += source[tap]
    return result.astype(source.dtype)


SHAPE = {
    "ng.constant": constant,
    "ng.iota": iota,
    "ng.extent": extent,
    "ng.broadcast": broadcast,
    "ng.transpose": transpose,
    "ng.reshape": reshape,
    "ng.cast_axes": cast_axes,
    "ng.slice": slice_,
    "ng.pad": pad,
    "ng.border_pad": border_pad,
    "ng.concatenate": concatenate,
    "ng.stack": stack,
    "ng.windows": windows,
    "ng.overlap_add": overlap_add,
}
