# SPDX-License-Identifier: Apache-2.0
"""What reductions and cumulative ops mean on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ...ir.core import Op
from ...ir.literals import dtype_of
from ...ir.types import element_type
from ..fields import get_bool, get_enum, get_i64, get_i64s
from ..ng_rules import count_positions
from .elementwise import maximum, minimum
from .numbers import Array, is_float, widened


def extreme(dtype: np.dtype[Any], sign: int) -> Any:
    """The least (sign -1) or greatest number of a type."""
    if is_float(dtype):
        return dtype.type(sign * np.inf)
    return np.iinfo(dtype).max if sign > 0 else np.iinfo(dtype).min


def rows(array: Array, axes: Sequence[int]) -> Array:
    """The array with the reduced elements (in the operand's order) as its last dimension.

    Contiguous, so that NumPy sums in pairs whichever dimensions were chosen.
    """
    kept = [d for d in range(array.ndim) if d not in axes]
    gone = sorted(axes)
    moved = array.transpose(*kept, *gone)
    shape = (*(array.shape[d] for d in kept), prod(array.shape[d] for d in gone))
    return np.ascontiguousarray(moved).reshape(shape)


def sum_over(array: Array, axes: Sequence[int]) -> Any:
    """The sum; of f16 and bf16 in f32, not rounded back. Of nothing 0, of negative zeros -0.0."""
    wide = widened(array)
    found = rows(wide, axes)
    start = -0.0 if is_float(wide.dtype) and found.shape[-1] else 0
    return np.sum(found, axis=-1, dtype=wide.dtype, initial=start)


def sum_(op: Op, arrays: Sequence[Array]) -> Any:
    return sum_over(arrays[0], get_i64s(op, "axes")).astype(arrays[0].dtype)


def product_over(array: Array, axes: Sequence[int]) -> Any:
    wide = widened(array)
    return np.prod(rows(wide, axes), axis=-1, dtype=wide.dtype)


def product(op: Op, arrays: Sequence[Array]) -> Any:
    return product_over(arrays[0], get_i64s(op, "axes")).astype(arrays[0].dtype)


def max_over(array: Array, axes: Sequence[int]) -> Any:
    wide = rows(widened(array), axes)
    found: Array = np.max(wide, axis=-1, initial=extreme(wide.dtype, -1))
    if not is_float(wide.dtype):
        return found
    positive = np.any((wide == 0) & ~np.signbit(wide), axis=-1)
    return np.where(found == 0, np.where(positive, 0.0, -0.0).astype(found.dtype), found)


def min_over(array: Array, axes: Sequence[int]) -> Any:
    wide = rows(widened(array), axes)
    found: Array = np.min(wide, axis=-1, initial=extreme(wide.dtype, 1))
    if not is_float(wide.dtype):
        return found
    negative = np.any((wide == 0) & np.signbit(wide), axis=-1)
    return np.where(found == 0, np.where(negative, -0.0, 0.0).astype(found.dtype), found)


def max_(op: Op, arrays: Sequence[Array]) -> Any:
    return max_over(arrays[0], get_i64s(op, "axes")).astype(arrays[0].dtype)


def min_(op: Op, arrays: Sequence[Array]) -> Any:
    return min_over(arrays[0], get_i64s(op, "axes")).astype(arrays[0].dtype)


def mean(op: Op, arrays: Sequence[Array]) -> Any:
    (source,), axes = arrays, get_i64s(op, "axes")
    total = np.asarray(sum_over(source, axes))
    count = total.dtype.type(prod(source.shape[a] for a in axes))
    return np.divide(total, count).astype(source.dtype)


def any_(op: Op, arrays: Sequence[Array]) -> Any:
    return np.any(rows(arrays[0], get_i64s(op, "axes")), axis=-1)


def all_(op: Op, arrays: Sequence[Array]) -> Any:
    return np.all(rows(arrays[0], get_i64s(op, "axes")), axis=-1)


def argmax(op: Op, arrays: Sequence[Array]) -> Any:
    return _position(np.argmax, op, arrays)


def argmin(op: Op, arrays: Sequence[Array]) -> Any:
    return _position(np.argmin, op, arrays)


def _position(find: Callable[..., Any], op: Op, arrays: Sequence[Array]) -> Any:
    lines = rows(widened(arrays[0]), get_i64s(op, "axes"))
    count_positions(lines.shape[-1], element_type(op.result.type))  # the program may not have known the size
    return find(lines, axis=-1).astype(dtype_of(op.result.type))


#: What each kind of cumulative op joins two numbers by, and what it begins with.
_CUMULATED: dict[str, tuple[Callable[[Any, Any], Any], Callable[[np.dtype[Any]], Any]]] = {
    "sum": (np.add, lambda dtype: 0),
    "product": (np.multiply, lambda dtype: 1),
    "max": (maximum, lambda dtype: extreme(dtype, -1)),
    "min": (minimum, lambda dtype: extreme(dtype, 1)),
}


def cumulated(kind: str, op: Op, source: Array, axis: int) -> Array:
    """Steps along an axis from the value of nothing, as `op` says reversed and exclusive."""
    combine, first = _CUMULATED[kind]
    line = np.moveaxis(source, axis, 0)
    result = np.empty_like(source)
    out = np.moveaxis(result, axis, 0)
    if get_bool(op, "reverse"):
        line, out = line[::-1], out[::-1]
    so_far = np.full(line.shape[1:], first(source.dtype), source.dtype)
    exclusive = get_bool(op, "exclusive")
    for i in range(len(line)):
        # Without the value of nothing in front, a sum that begins with -0.0 keeps its sign.
        after = combine(so_far, line[i]) if i or exclusive else line[i]
        out[i] = so_far if exclusive else after
        so_far = after
    return result


def cumulative(op: Op, arrays: Sequence[Array]) -> Any:
    source, kind = arrays[0], op.name.rpartition("_")[2]
    return cumulated(kind, op, widened(source), get_i64(op, "axis")).astype(source.dtype)


def cumulative_runs(op: Op, arrays: Sequence[Array]) -> Any:
    """Run by run, each joined to what comes before it."""
    axis, run, kind = get_i64(op, "axis"), get_i64(op, "run"), get_enum(op, "combine")
    source, before = widened(arrays[0]), arrays[1]
    parts = np.split(source, range(run, source.shape[axis], run), axis)
    alone = np.concatenate([cumulated(kind, op, part, axis) for part in parts], axis)
    spread = before.repeat([part.shape[axis] for part in parts], axis)
    return _CUMULATED[kind][0](spread.astype(source.dtype), alone).astype(arrays[0].dtype)


REDUCTIONS: dict[str, Callable[[Op, Sequence[Array]], Any]] = {
    "ng.sum": sum_,
    "ng.product": product,
    "ng.max": max_,
    "ng.first_max": max_,
    "ng.min": min_,
    "ng.mean": mean,
    "ng.any": any_,
    "ng.all": all_,
    "ng.argmax": argmax,
    "ng.argmin": argmin,
    **{f"ng.cumulative_{kind}": cumulative for kind in _CUMULATED},
    "ng.cumulative_runs": cumulative_runs,
}
