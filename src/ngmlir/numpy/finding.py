# SPDX-License-Identifier: Apache-2.0
"""Functions whose results are as long as data says: `nonzero`, `flatnonzero`, `argwhere`, `unique`.

A graph has fixed shapes, so `size` says how long the result is (as in `jax.numpy`): further elements are left out, and where there
are fewer, `fill_value` follows. It may be left out where the elements are known while the graph is built.
"""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np

from ..ir.types import FloatType, i64
from ..op_graph.errors import UserError, fail, limit
from ..op_graph.tensor import Tensor
from ..op_graph.verbs import VERBS
from ..support.lengths import exact
from .arrays import as_array, as_type, constant_elements, expand, join, known, reshape, shape, truth
from .composed import floor_divide, where
from .creation import arange
from .elementwise import isnan, less, logical_and, logical_or, not_equal, remainder, subtract
from .indexing import getitem
from .joining import stack
from .reductions import cumsum
from .sorting import argsort


def _refuse(function: str, count: str) -> NoReturn:
    fail(
        UserError,
        f"{function}: the length of the result depends on data, and shapes are fixed when the graph is built",
        f"{function}(x, size=n) gives n of them, and fill_value where there are fewer; {count} counts them. Or call "
        f"numpy.{function} on the array that a computation gives",
    )


def _checked(size: Any) -> int:
    if not isinstance(size, (int, np.integer)) or size < 0:
        fail(UserError, f"size is how many elements the result has, not {size!r}")
    return exact(size)


def _found(flags: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The places of the first `size` true elements of a row, int64, and whether there are that many."""
    if size == 0 or shape(flags)[0] == 0:
        return expand(known(0, i64), (size,)), expand(known(False), (size,))
    count = shape(flags)[0]
    counts = cumsum(as_type(flags, i64))
    # Each true element writes its place where its number says; what is beyond the result is left out.
    numbers = where(flags, subtract(counts, known(1, i64)), known(size, i64))
    at = VERBS.scatter(expand(known(0, i64), (size,)), numbers, arange(count), axis=0, combine="set")
    return at, less(arange(size), getitem(counts, -1))


def flatnonzero(a: Any, *, size: int | None = None, fill_value: Any = 0) -> Tensor:
    """The places of elements that are not 0, of the array row by row; int64.

    Args:
        size: how many places the result has; needed unless the elements are known.
        fill_value: what follows where there are fewer.

    Raises UserError where the length would depend on data.
    """
    x = as_array(a)
    if size is None:
        elements = constant_elements(x)
        if elements is None:
            _refuse("flatnonzero", "count_nonzero(x)")
        return known(np.flatnonzero(elements))
    flags = reshape(truth(x), (math.prod(shape(x)),))
    at, there = _found(flags, _checked(size))
    return where(there, at, as_type(as_array(fill_value), i64))


def nonzero(a: Any, *, size: int | None = None, fill_value: Any = 0) -> tuple[Tensor, ...]:
    """The places of elements that are not 0: for each axis an array of indices, int64, in the order of rows.

    Args:
        size: how many places the result has; needed unless the elements are known.
        fill_value: the index that follows where there are fewer; several are those of the axes.

    Raises UserError where the length would depend on data, and for a 0-d array.
    """
    x = as_array(a)
    have = shape(x)
    if not have:
        fail(UserError, "Calling nonzero on 0d arrays is not allowed.", "nonzero(x[None], size=1)")
    if size is None:
        elements = constant_elements(x)
        if elements is None:
            _refuse("nonzero", "count_nonzero(x)")
        return tuple(known(each) for each in np.nonzero(elements))
    fills = np.broadcast_to(fill_value, (len(have),)).tolist()
    at, there = _found(reshape(truth(x), (math.prod(have),)), _checked(size))
    made: list[Tensor] = []
    for axis, length in enumerate(have):
        own = remainder(floor_divide(at, max(math.prod(have[axis + 1 :]), 1)), max(length, 1))
        made.append(where(there, own, as_type(known(fills[axis]), i64)))
    return tuple(made)


def argwhere(a: Any, *, size: int | None = None, fill_value: Any = 0) -> Tensor:
    """The places of elements that are not 0, one in each row: (size, number of axes), int64. Arguments as of `nonzero`."""
    x = as_array(a)
    if size is None and constant_elements(x) is None:
        _refuse("argwhere", "count_nonzero(x)")
    if not shape(x):
        count = shape(flatnonzero(reshape(x, (1,)), size=size))[0]
        return expand(known(0, i64), (count, 0))
    return stack(nonzero(x, size=size, fill_value=fill_value), axis=1)


def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The different elements in ascending order; NaN are one, the last. With any of the three flags a tuple.

    Args:
        return_index: whether to give the first place of each, row by row.
        return_inverse: whether to give, in the shape of the array, the place among the different ones of each element.
        return_counts: whether to give how often each occurs; 0 for those that fill the result.
        size: how many the result has; needed unless the elements are known. Further ones are left out.
        fill_value: what follows where there are fewer; the least element without it.

    Raises UserError where the length would depend on data; Limit for an axis.
    """
    if axis is not None:
        limit("unique along an axis is not there", "unique(x) is of all elements")
    x = as_array(ar)
    flags = (return_index, return_inverse, return_counts)
    if size is None:
        elements = constant_elements(x)
        if elements is None:
            _refuse("unique", "unique(x, return_inverse=True, size=n)[1].max() + 1")
        numpy_unique: Any = np.unique
        found = numpy_unique(elements, *flags)
        return tuple(known(each) for each in found) if any(flags) else known(found)
    size, have, count = _checked(size), shape(x), math.prod(shape(x))
    row = reshape(x, (count,))
    if count == 0 and size and fill_value is None:
        fail(
            UserError, "unique: an array without elements has nothing to fill the result with", "fill_value=0"
        )
    order = argsort(row)
    ordered = VERBS.gather(row, order, axis=0)
    first = _begins(ordered)
    at, there = _found(first, size)
    start = where(there, at, 0)
    fill = getitem(ordered, 0) if fill_value is None else as_type(as_array(fill_value), x.element)
    taken = VERBS.gather(ordered, start, axis=0) if count else expand(fill, (size,))
    made = [where(there, taken, fill)]
    if return_index:
        made.append(where(there, VERBS.gather(order, start, axis=0), 0) if count else start)
    if return_inverse:
        places = subtract(cumsum(as_type(first, i64)), 1)
        inverse = VERBS.scatter(expand(known(0, i64), (count,)), order, places, axis=0, combine="set")
        made.append(reshape(inverse, have) if count else expand(known(0, i64), have))
    if return_counts:
        at, there = _found(first, size + 1)
        ends = where(there, at, count)
        made.append(subtract(getitem(ends, slice(1, None)), getitem(ends, slice(None, -1))))
    return tuple(made) if any(flags) else made[0]


def _begins(ordered: Tensor) -> Tensor:
    """Whether an element of a sorted row differs from the one before."""
    count = shape(ordered)[0]
    if count < 2:
        return expand(known(True), (count,))
    here, before = getitem(ordered, slice(1, None)), getitem(ordered, slice(None, -1))
    differs = not_equal(here, before)
    if isinstance(ordered.element, FloatType):
        differs = logical_and(
            differs, logical_or(VERBS.bitwise_not(isnan(here)), VERBS.bitwise_not(isnan(before)))
        )
    return join([expand(known(True), (1,)), differs], 0)
