# SPDX-License-Identifier: Apache-2.0
"""Sorting, and what is found in sorted arrays. NaN comes last, as in NumPy; equal elements keep their order."""

from __future__ import annotations

import builtins
import math
from typing import Any, Literal, cast

import numpy as np

from ..ir.literals import type_of_dtype
from ..ir.types import FloatType, Type, f64, i1, i64, ui8
from ..op_graph.errors import UserError, fail
from ..op_graph.positions import Positions
from ..op_graph.tensor import Tensor
from ..op_graph.verbs import VERBS
from ..ops import ng
from . import reductions
from .arrays import (
    as_array,
    as_type,
    constant_elements,
    expand,
    join,
    joined,
    known,
    of_type,
    permute,
    reshape,
    shape,
    with_axis,
)
from .composed import floor_divide, where
from .elementwise import (
    add,
    ceil,
    floor,
    greater_equal,
    isnan,
    less,
    less_equal,
    logical_not,
    maximum,
    minimum,
    multiply,
    remainder,
    rint,
    subtract,
)
from .indexing import getitem, take_along_axis


def _order(x: Tensor, axis: int, descending: bool, count: int | None = None) -> Tensor:
    """All positions, or the first `count`."""
    x = as_type(x, ui8) if x.element is i1 else x
    attributes = {"axis": axis, "descending": descending}
    kept = [n if count is None or d != axis else count for d, n in enumerate(shape(x))]
    return VERBS.stated(ng.ArgsortOp, [x], attributes, Positions.of(kept), i64)


def argsort(a: Any, axis: int | None = -1, *, kind: str | None = None, stable: bool | None = None) -> Tensor:
    """The positions, int64, in the order of the elements along an axis; always stable."""
    x, axis = with_axis(a, axis)
    return _order(x, axis, False)


def sort(a: Any, axis: int | None = -1, *, kind: str | None = None, stable: bool | None = None) -> Tensor:
    """The elements in their order along an axis; without one, of all."""
    x, axis = with_axis(a, axis)
    return take_along_axis(x, _order(x, axis, False), axis)


def top_k(
    x: Any, k: int, /, *, axis: int = -1, mode: Literal["largest", "smallest"] = "largest"
) -> tuple[Tensor, Tensor]:
    """The k greatest (or least) elements along an axis, the most extreme first, and their positions. Of equals the first."""
    array, axis = with_axis(x, axis)
    if not 0 <= k <= shape(array)[axis]:
        fail(UserError, f"the {k} largest are asked for, and there are {shape(array)[axis]} elements")
    if mode not in ("largest", "smallest"):
        fail(UserError, f"mode must be 'largest' or 'smallest', not {mode!r}")
    at = _order(array, axis, mode == "largest", k)
    return take_along_axis(array, at, axis), at


def partition(a: Any, kth: Any, axis: int | None = -1) -> Tensor:
    """Wholly sorted, so that every place holds what `numpy.partition` promises of the k-th."""
    return sort(a, axis)


def argpartition(a: Any, kth: Any, axis: int | None = -1) -> Tensor:
    """The positions of `partition`."""
    return argsort(a, axis)


def lexsort(keys: Any, axis: int = -1) -> Tensor:
    """The positions in the order of the last key; of equals in that of the one before, and so on."""
    rows = [
        as_array(k)
        for k in (keys if not isinstance(keys, Tensor) else [getitem(keys, i) for i in range(shape(keys)[0])])
    ]
    if not rows:
        fail(UserError, "need sequence of keys with len > 0 in lexsort")
    made: Tensor | None = None
    for row in rows:
        at = argsort(row if made is None else take_along_axis(row, made, axis), axis)
        made = at if made is None else take_along_axis(made, at, axis)
    assert made is not None
    return made


def searchsorted(a: Any, v: Any, side: Literal["left", "right"] = "left", sorter: Any = None) -> Tensor:
    """The index at which v would be inserted into a sorted vector, int64: before equal elements, or after them with `right`."""
    row = as_array(a)
    if sorter is not None:
        row = getitem(row, sorter)
    if len(shape(row)) != 1:
        fail(UserError, f"searchsorted needs a 1-D array, not an array of shape {shape(row)}")
    if side not in ("left", "right"):
        fail(UserError, f"side must be 'left' or 'right', not {side!r}")
    kind = joined(row, v)
    row, values = of_type(row, kind), of_type(v, kind)
    wanted, n = shape(values), shape(row)[0]
    # Binary search: at least `low` elements are before the position.
    low = expand(known(0, i64), wanted)
    step = 1 << n.bit_length() >> 1
    before = less if side == "left" else less_equal
    while step and n:
        there = subtract(add(low, step), 1)
        found = VERBS.gather(row, there, axis=0)
        taken = before(found, values)
        if isinstance(kind, FloatType):  # NaN is the greatest
            taken = VERBS.bitwise_or(taken, _nan_after(found, values, side))
        inside = less(there, n)
        low = where(VERBS.bitwise_and(taken, inside), add(low, step), low)
        step >>= 1
    return low


def _nan_after(found: Tensor, values: Tensor, side: str) -> Tensor:
    values_nan = isnan(values)
    if side == "right":
        return values_nan
    return VERBS.bitwise_and(values_nan, VERBS.bitwise_not(isnan(found)))


def digitize(x: Any, bins: Any, right: bool = False) -> Tensor:
    """The number of the bin of each element, of bins with ascending or descending bounds."""
    bounds, side = as_array(bins), "left" if right else "right"
    ascending = searchsorted(bounds, x, side)
    n = shape(bounds)[0]
    if n < 2:
        return ascending
    descending = subtract(n, searchsorted(getitem(bounds, slice(None, None, -1)), x, side))
    known_bounds = constant_elements(bounds)
    if known_bounds is None:
        return where(less(getitem(bounds, -1), getitem(bounds, 0)), descending, ascending)
    steps = np.diff(known_bounds)
    if not ((steps >= 0).all() or (steps <= 0).all()):
        fail(UserError, "bins must be monotonically increasing or decreasing")
    return descending if (steps < 0).any() else ascending


def bincount(x: Any, weights: Any = None, minlength: int = 0) -> Tensor:
    """How often each integer occurs. Of integers that are not known yet, `minlength` says how many are counted."""
    at = as_array(x)
    elements = constant_elements(at)
    if elements is not None:
        minlength = builtins.max(minlength, int(np.max(elements, initial=-1)) + 1)
    elif minlength <= 0:
        fail(
            UserError,
            "the length of the result of bincount would depend on data",
            "pass minlength=; larger integers are ignored",
        )
    given = expand(known(1, i64), shape(at)) if weights is None else as_type(as_array(weights), f64)
    return VERBS.scatter(expand(known(0, given.dtype), (minlength,)), at, given, axis=0, combine="add")


def median(a: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The middle of the sorted elements, or the mean of the two; NaN where an element is NaN, and of no elements."""
    x = as_array(a)
    row = _rows(x, axis)
    n = shape(row)[-1]
    middle = np.arange(builtins.max(n - 1, 0) // 2, builtins.min(n // 2 + 1, n))
    made = reductions.mean(_ranked(row, middle), axis=-1)
    if n and isinstance(x.element, FloatType):
        made = where(isnan(reductions.max(row, axis=-1)), math.nan, made)
    return reshape(made, _left(x, axis)) if keepdims else made


def _rows(x: Tensor, axis: Any) -> Tensor:
    """What is reduced along these axes, as the last dimension."""
    axes = reductions.places(axis, len(shape(x)))
    rest = [d for d in range(len(shape(x))) if d not in axes]
    count = math.prod(shape(x)[d] for d in axes)
    return reshape(permute(x, [*rest, *axes]), [*(shape(x)[d] for d in rest), count])


def _ranked(row: Tensor, ranks: np.ndarray) -> Tensor:
    """The elements of such ranks along the last axis. From the nearer end on no more are sorted than are asked for."""
    n, last = shape(row)[-1], len(shape(row)) - 1
    if not n or not ranks.size:
        return getitem(row, (..., ranks))
    low, high = int(ranks.min()), int(ranks.max())
    from_end = n - low < high + 1
    at = _order(row, last, from_end, n - low if from_end else high + 1)
    return getitem(take_along_axis(row, at, last), (..., n - 1 - ranks if from_end else ranks))


def _left(x: Tensor, axis: Any) -> list[int]:
    """The shape of what is left, with `keepdims`."""
    axes = reductions.places(axis, len(shape(x)))
    return [1 if d in axes else size for d, size in enumerate(shape(x))]


def percentile(a: Any, q: Any, axis: Any = None, *, method: str = "linear", keepdims: bool = False) -> Tensor:
    """`quantile` of hundredths."""
    x = as_array(a)
    return quantile(x, _hundredths(x, q), axis, method=method, keepdims=keepdims)


def _hundredths(x: Tensor, q: Any) -> Any:
    return np.true_divide(q, x.dtype.type(100) if isinstance(x.element, FloatType) else 100)


def quantile(a: Any, q: Any, axis: Any = None, *, method: str = "linear", keepdims: bool = False) -> Tensor:
    """What a part q of the elements is below: between two neighbours `linear`, or `lower`, `higher`, `nearest`, `midpoint`; or
    by another of NumPy's methods with a continuous result.

    q must be known when the graph is built; several values give a new first axis. NaN where an element is NaN.
    """
    x = as_array(a)
    row = _rows(x, axis)
    *rest, n = shape(row)
    parts, kind = _parts(x, q, method)
    if n == 0:
        fail(UserError, "a quantile of no elements")
    at = np.clip(_rank_of(parts, n, method), 0, n - 1)
    low, high = np.floor(at).astype(int), np.ceil(at).astype(int)
    if method in ("lower", "higher", "nearest"):
        low = high = {"lower": low, "higher": high, "nearest": np.rint(at).astype(int)}[method]
    weight = np.where(low == high, 0.0, 0.5) if method == "midpoint" else at - low
    both = _ranked(row, np.stack([low, high]))
    before = (slice(None),) * len(rest)
    one, other = (getitem(both, (*before, i)) for i in (0, 1))
    made = as_type(one, kind) if low is high else _between(one, other, known(weight), kind)
    if isinstance(x.element, FloatType):
        greatest = reshape(isnan(reductions.max(row, axis=-1)), [*rest, *(1 for _ in parts.shape)])
        made = where(expand(greatest, shape(made)), math.nan, made)
    made = permute(made, [*range(len(rest), len(rest) + parts.ndim), *range(len(rest))])
    return reshape(made, [*parts.shape, *_left(x, axis)]) if keepdims else made


#: Methods that say how far from the first and the last rank a quantile lies, as Hyndman and Fan number them (4 to 9).
_PLACED = {
    "interpolated_inverted_cdf": (0, 1), "hazen": (1 / 2, 1 / 2), "weibull": (0, 0),
    "median_unbiased": (1 / 3, 1 / 3), "normal_unbiased": (3 / 8, 3 / 8),
}  # fmt: skip


def _rank_of(parts: Any, count: Any, method: str) -> Any:
    """The ranks, from 0 on, of quantiles of so many elements; below the first and above the last for some methods."""
    if method not in _PLACED:
        return parts * (count - 1)
    first, last = _PLACED[method]
    return count * parts + (first + parts * (1 - first - last)) - 1


def _parts(x: Tensor, q: Any, method: str) -> tuple[np.ndarray, Type]:
    """The parts that quantiles are asked for, and the element type of the result."""
    there = ("linear", "lower", "higher", "nearest", "midpoint", *_PLACED)
    if method not in there:
        fail(UserError, f"method {method!r} is not there", f"{', '.join(there[:-1])} or {there[-1]}")
    parts = np.asarray(q, np.float64)
    if ((parts < 0) | (parts > 1)).any():
        fail(UserError, "Quantiles must be in the range [0, 1]")
    one_of = x.dtype if x.dtype.kind != "b" else np.dtype(np.uint8)
    return parts, type_of_dtype(np.quantile(np.ones(1, one_of), q, method=cast(Any, method)).dtype)


def _between(one: Tensor, other: Tensor, weight: Tensor, kind: Type) -> Tensor:
    """Such a part of the way between two neighbours, from the nearer end, as in NumPy."""
    floats = isinstance(one.element, FloatType)
    apart = as_type(subtract(other, one) if floats else other - as_type(one, kind), kind)
    one, other = as_type(one, kind), as_type(other, kind)
    made = add(one, multiply(apart, as_type(weight, kind)))
    back = subtract(other, multiply(apart, as_type(subtract(1.0, weight), kind)))
    made = where(greater_equal(weight, 0.5), back, made)
    # Of equal neighbours, infinite ones too, that one.
    return where(VERBS.equal(one, other), one, made)


def _numbers_first(x: Tensor, axis: Any) -> tuple[Tensor, Tensor]:
    """What is reduced as the last dimension, in its order and NaN last, and how many of it are no NaN, with `keepdims`."""
    row = _rows(x, axis)
    return sort(row), reductions.sum(logical_not(isnan(row)), axis=-1, keepdims=True)


def nanmedian(a: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """`median` of what is not NaN; NaN where there is nothing else."""
    x = as_array(a)
    if not isinstance(x.element, FloatType) or 0 in shape(x):
        return median(x, axis, keepdims=keepdims)
    row, count = _numbers_first(x, axis)
    # Of no numbers at all that is the first element, which is NaN.
    middle = [floor_divide(maximum(subtract(count, 1), 0), 2), floor_divide(count, 2)]
    made = reductions.mean(take_along_axis(row, join(middle, len(shape(row)) - 1), -1), axis=-1)
    return reshape(made, _left(x, axis)) if keepdims else made


def nanpercentile(
    a: Any, q: Any, axis: Any = None, *, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """`nanquantile` of hundredths."""
    x = as_array(a)
    return nanquantile(x, _hundredths(x, q), axis, method=method, keepdims=keepdims)


def nanquantile(
    a: Any, q: Any, axis: Any = None, *, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """`quantile` of what is not NaN; NaN where there is nothing else."""
    x = as_array(a)
    if not isinstance(x.element, FloatType) or 0 in shape(x):
        return quantile(x, q, axis, method=method, keepdims=keepdims)
    parts, kind = _parts(x, q, method)
    row, count = _numbers_first(x, axis)
    last = maximum(subtract(count, 1), 0)
    at = _rank_of(as_array(parts.reshape(-1)), count, method)
    at = minimum(maximum(at, 0.0), last)
    if method == "nearest":
        at = rint(at)
    low, high = floor(at), ceil(at)
    one, other = (take_along_axis(row, as_type(rank, i64), -1) for rank in (low, high))
    if method not in ("lower", "higher", "nearest"):
        weight = where(VERBS.equal(low, high), 0.0, 0.5) if method == "midpoint" else subtract(at, low)
        made = _between(one, other, weight, kind)
    else:
        made = as_type(other if method == "higher" else one, kind)
    rest = shape(row)[:-1]
    made = reshape(made, [*rest, *parts.shape])
    made = permute(made, [*range(len(rest), len(rest) + parts.ndim), *range(len(rest))])
    return reshape(made, [*parts.shape, *_left(x, axis)]) if keepdims else made


def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: float | None = None
) -> Tensor:
    """The broken line through points of ascending xp, at x; beyond its ends the first and the last of fp. With a `period` the
    line repeats, and xp may have any order."""
    given, xs, ys = (as_type(as_array(v), f64) for v in (x, xp, fp))
    if period is not None:
        if not period:
            fail(UserError, "period must be a non-zero value")
        period, left, right = abs(period), None, None
        given, xs = remainder(given, period), remainder(xs, period)
        order = argsort(xs)
        xs, ys = take_along_axis(xs, order, 0), take_along_axis(ys, order, 0)
        xs = join([xs[-1:] - period, xs, xs[:1] + period], 0)
        ys = join([ys[-1:], ys, ys[:1]], 0)
    last = shape(xs)[0] - 1
    at = builtins.max(last - 1, 0)
    low = subtract(searchsorted(xs, given, "right"), 1)
    low = where(less(low, 0), 0, where(less(at, low), at, low))
    high = where(less(low, last), add(low, 1), last)
    x0, x1, y0, y1 = (VERBS.gather(v, p, axis=0) for v in (xs, ys) for p in (low, high))
    slope = (y1 - y0) / where(VERBS.equal(x0, x1), 1.0, x1 - x0)
    made = add(y0, multiply(slope, given - x0))
    made = where(less(given, getitem(xs, 0)), getitem(ys, 0) if left is None else left, made)
    made = where(VERBS.equal(given, expand(getitem(xs, -1), shape(given))), getitem(ys, -1), made)
    return where(less(getitem(xs, -1), given), getitem(ys, -1) if right is None else right, made)
