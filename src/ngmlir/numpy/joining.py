# SPDX-License-Identifier: Apache-2.0
"""Joining and splitting."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import numpy as np

from ..op_graph.errors import IncompatibleAxesError, UserError, fail
from ..op_graph.tensor import Tensor
from .arrays import (
    as_array,
    cut,
    expand,
    join,
    joined,
    known_now,
    lengths,
    of_type,
    permute,
    place,
    reshape,
    shape,
    with_axis,
)
from .indexing import getitem, take
from .shaping import astype, atleast_1d, atleast_2d, atleast_3d, expand_dims, moveaxis, ndim, ravel, size


def _alike(given: Any, what: str) -> list[Tensor]:
    if isinstance(given, Tensor):
        given = [getitem(given, i) for i in range(shape(as_array(given))[0])]
    xs = list(cast("Iterable[Any]", given))
    if not xs:
        fail(UserError, f"need at least one array to {what}")
    kind = joined(*[as_array(x) for x in xs])
    return [of_type(x, kind) for x in xs]


def concatenate(arrays: Iterable[Any], axis: int | None = 0, *, dtype: Any = None) -> Tensor:
    """One after the other along an axis; without one, all row by row."""
    xs = _alike(arrays, "concatenate")
    if axis is None:
        xs, axis = [ravel(x) for x in xs], 0
    first = shape(xs[0])
    if not first:
        fail(
            UserError,
            "zero-dimensional arrays cannot be concatenated",
            "ng.numpy.stack joins along a new axis",
        )
    axis = place(axis, len(first))
    for x in xs:
        if len(shape(x)) != len(first) or builtins.any(
            a != b for d, (a, b) in enumerate(zip(first, shape(x), strict=True)) if d != axis
        ):
            fail(
                IncompatibleAxesError,
                f"arrays of shapes {first} and {shape(x)} cannot be concatenated along axis {axis}",
            )
    made = join(xs, axis)
    return made if dtype is None else astype(made, dtype)


concat = concatenate


def stack(arrays: Iterable[Any], axis: int = 0, *, dtype: Any = None) -> Tensor:
    """Joined along a new axis."""
    xs = _alike(arrays, "stack")
    if len({shape(x) for x in xs}) != 1:
        fail(IncompatibleAxesError, f"all arrays must have the same shape, not {[shape(x) for x in xs]}")
    return concatenate([expand_dims(x, axis) for x in xs], axis, dtype=dtype)


def vstack(tup: Iterable[Any]) -> Tensor:
    """Joined as rows."""
    return concatenate([atleast_2d(x) for x in _alike(tup, "stack")], 0)


row_stack = vstack


def hstack(tup: Iterable[Any]) -> Tensor:
    """Joined along the second axis, or the only one."""
    xs = [atleast_1d(x) for x in _alike(tup, "stack")]
    return concatenate(xs, 0 if len(shape(xs[0])) == 1 else 1)


def dstack(tup: Iterable[Any]) -> Tensor:
    """Joined along the third axis."""
    return concatenate([atleast_3d(x) for x in _alike(tup, "stack")], 2)


def column_stack(tup: Iterable[Any]) -> Tensor:
    """Joined as columns."""
    xs = _alike(tup, "stack")
    return concatenate([expand_dims(x, 1) if len(shape(x)) == 1 else x for x in xs], 1)


def append(arr: Any, values: Any, axis: int | None = None) -> Tensor:
    """With values at the end."""
    return concatenate([arr, values], axis)


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Tensor:
    """With values before some positions along an axis; without one, of the array row by row. `obj` is a position, several, a
    slice or a mask, known now; the values have the type of the array and are repeated to the shape of what is inserted."""
    x, axis = with_axis(arr, axis)
    n, given = shape(x)[axis], of_type(values, x.element)
    at = np.arange(n)[obj] if isinstance(obj, slice) else np.asarray(known_now(obj, "obj"))
    at = np.flatnonzero(at) if at.dtype == bool else at.astype(np.int64) if at.size == 0 else at
    rank, single = len(shape(x)), at.ndim == 0
    given = reshape(given, (*[1] * (rank - len(shape(given))), *shape(given)))
    given = moveaxis(given, 0, axis) if single else given
    count = shape(given)[axis] if at.size == 1 else at.size
    given = expand(given, [count if d == axis else size for d, size in enumerate(shape(x))])
    # NumPy says where each goes.
    order = np.insert(np.arange(n), int(at.reshape(-1)[0]) if at.size == 1 else at, n + np.arange(count))
    return take(join([x, given], axis), order, axis)


def delete(arr: Any, obj: Any, axis: int | None = None) -> Tensor:
    """Without some positions along an axis; without one, of the array row by row. `obj` is a position, several, a slice or a mask,
    known now."""
    x, axis = with_axis(arr, axis)
    return take(x, np.delete(np.arange(shape(x)[axis]), known_now(obj, "obj")), axis)


def block(arrays: Any) -> Tensor:
    """Joined from nested lists: the innermost along the last axis, those around them along the one before it, and so on."""

    def depth_of(part: Any) -> int:
        if not isinstance(part, list):
            return 0
        depths = {depth_of(each) for each in cast("list[Any]", part)}
        if len(depths) != 1:
            fail(UserError, "lists of blocks are nested to different depths, or empty")
        return 1 + depths.pop()

    def leaves(part: Any) -> Iterable[Any]:
        if isinstance(part, list):
            for each in cast("list[Any]", part):
                yield from leaves(each)
        else:
            yield part

    most = depth_of(arrays)
    rank = builtins.max(most, *(ndim(leaf) for leaf in leaves(arrays)), 0)

    def joined_blocks(part: Any, depth: int) -> Tensor:
        if depth < most:
            return concatenate([joined_blocks(each, depth + 1) for each in part], axis=depth - most)
        x = as_array(part)
        return reshape(x, (*[1] * (rank - ndim(x)), *shape(x)))

    return joined_blocks(arrays, 0)


def resize(a: Any, new_shape: Any) -> Tensor:
    """The elements row by row in another shape, from the first on again where there are too few."""
    x, wanted = ravel(a), lengths(new_shape)
    count, n = math.prod(wanted), shape(x)[0]
    if builtins.any(size < 0 for size in wanted):
        fail(UserError, f"all lengths of a shape are 0 or more, unlike {wanted}")
    if n == 0:
        return expand(of_type(0, x.element), wanted)
    return reshape(take(x, np.arange(count) % n), wanted)


def array_split(ary: Any, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """In parts along an axis, of almost equal lengths or at places."""
    x = as_array(ary)
    axis = place(axis, len(shape(x)))
    if isinstance(indices_or_sections, Tensor):
        fail(UserError, f"the number of sections must be constant, not {indices_or_sections.called}")
    bounds = np.array_split(np.arange(shape(x)[axis]), indices_or_sections)
    parts: list[Tensor] = []
    end = 0
    for part in bounds:
        start = int(part[0]) if len(part) else end
        end = start + len(part)
        parts.append(cut(x, axis, start, end))
    return parts


def split(ary: Any, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """In parts along an axis, of equal lengths or at places."""
    sections = indices_or_sections
    if isinstance(sections, int):
        n = size(ary, axis)
        if sections <= 0 or n % sections:
            fail(UserError, "array split does not result in an equal division", "use array_split")
    return array_split(ary, sections, axis)


def vsplit(ary: Any, indices_or_sections: int | Sequence[int]) -> list[Tensor]:
    """In parts along the first axis."""
    return split(ary, indices_or_sections, 0)


def hsplit(ary: Any, indices_or_sections: int | Sequence[int]) -> list[Tensor]:
    """In parts along the second axis, or the only one."""
    return split(ary, indices_or_sections, 1 if ndim(ary) > 1 else 0)


def dsplit(ary: Any, indices_or_sections: int | Sequence[int]) -> list[Tensor]:
    """In parts along the third axis."""
    return split(ary, indices_or_sections, 2)


def unstack(x: Any, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis."""
    x = moveaxis(x, axis, 0)
    return tuple(getitem(x, i) for i in range(shape(x)[0]))


def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Tensor:
    """What a function gives for each row along an axis, in the place of that axis. It is called once for each row."""
    x = moveaxis(arr, axis, -1)
    axis, outer, n = place(axis, ndim(x)), shape(x)[:-1], shape(x)[-1]
    rows = reshape(x, (math.prod(outer), n))
    if not math.prod(outer):
        fail(UserError, "there is no row to apply a function to")
    made = stack([func1d(row, *args, **kwargs) for row in unstack(rows)])
    inner = shape(made)[1:]
    made = reshape(made, (*outer, *inner))
    order = [*range(axis), *range(len(outer), len(outer) + len(inner)), *range(axis, len(outer))]
    return permute(made, order)


def apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Tensor:
    """What a function of an array and an axis gives, applied for one axis after the other. Its results keep the axis, or get it
    back with one element."""
    x = as_array(a)
    for axis in np.atleast_1d(axes).tolist():
        axis = place(axis, ndim(a))
        made = as_array(func(x, axis))
        x = made if ndim(made) == ndim(x) else expand_dims(made, axis)
        if ndim(x) != ndim(a):
            fail(UserError, "the function must give an array of as many axes, or one less", "sum and max do")
    return x
