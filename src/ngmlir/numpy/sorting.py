# SPDX-License-Identifier: Apache-2.0
"""Sorting, and what is found in sorted arrays. NaN comes last, as in NumPy; equal elements keep their order."""

from __future__ import annotations

import builtins
import math
from typing import Any, Literal, cast

import numpy as np

from ..ir.literals import type_of_dtype
from ..ir.types import FloatType, f64, i1, i64, ui8
from ..op_graph.errors import UserError, fail
from ..op_graph.positions import Positions
from ..op_graph.tensor import Tensor
from ..op_graph.verbs import VERBS
from ..ops import ng
from . import reductions
from .arrays import (
    as_array,
    as_type,
    expand,
    joined,
    known,
    of_type,
    permute,
    place,
    reshape,
    shape,
)
from .elementwise import add, isnan, less, less_equal, multiply, subtract, where
from .indexing import getitem, take_along_axis


def _order(x: Tensor, axis: int, descending: bool, count: int | None = None) -> Tensor:
    """All positions, or the first `count`."""
    x = as_type(x, ui8) if x.element is i1 else x
    attributes = {"axis": axis, "descending": descending}
    kept = [n if count is None or d != axis else count for d, n in enumerate(shape(x))]
    return VERBS.stated(ng.ArgsortOp, [x], attributes, Positions.of(kept), i64)


def argsort(a: Any, axis: int | None = -1, *, kind: str | None = None, stable: bool | None = None) -> Tensor:
    """The positions, int64, in the order of the elements along an axis; always stable."""
    x, axis = _along(a, axis)
    return _order(x, axis, False)


def _along(a: Any, axis: int | None) -> tuple[Tensor, int]:
    x = as_array(a)
    if axis is None:
        return reshape(x, (math.prod(shape(x)),)), 0
    return x, place(axis, len(shape(x)))


def sort(a: Any, axis: int | None = -1, *, kind: str | None = None, stable: bool | None = None) -> Tensor:
    """The elements in their order along an axis; without one, of all."""
    x, axis = _along(a, axis)
    return take_along_axis(x, _order(x, axis, False), axis)


def top_k(
    x: Any, k: int, /, *, axis: int = -1, mode: Literal["largest", "smallest"] = "largest"
) -> tuple[Tensor, Tensor]:
    """The k greatest (or least) elements along an axis, the most extreme first, and their positions. Of equals the first."""
    array, axis = _along(x, axis)
    if not 0 <= k <= shape(array)[axis]:
        fail(UserError, f"k={k} of {shape(array)[axis]} elements")
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
    """Where v would stand in a sorted row, int64: before its equals, or after them on the `right`."""
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
    # By halves: `low` is how many are known to stand before.
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
    """The number of the bin of each element, of bins with ascending bounds."""
    return searchsorted(bins, x, "left" if right else "right")


def bincount(x: Any, weights: Any = None, minlength: int = 0) -> Tensor:
    """How often each integer below `minlength` occurs; how many there are must be said, as it would depend on data."""
    at = as_array(x)
    if minlength <= 0:
        if at.const is None:
            fail(
                UserError,
                "the length of the result of bincount would depend on data",
                "pass minlength=; larger integers are ignored",
            )
        minlength = int(np.max(at.const, initial=-1)) + 1
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
    if not n:
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
    hundred = x.dtype.type(100) if isinstance(x.element, FloatType) else 100
    return quantile(x, np.true_divide(q, hundred), axis, method=method, keepdims=keepdims)


def quantile(a: Any, q: Any, axis: Any = None, *, method: str = "linear", keepdims: bool = False) -> Tensor:
    """What a part q of the elements is below: between two neighbours `linear`, or `lower`, `higher`, `nearest`, `midpoint`.

    q is known now; several stand along a new first axis. NaN where an element is NaN.
    """
    x = as_array(a)
    row = _rows(x, axis)
    *rest, n = shape(row)
    if method not in ("linear", "lower", "higher", "nearest", "midpoint"):
        fail(UserError, f"method {method!r} is not there", "linear, lower, higher, nearest or midpoint")
    parts = np.asarray(q, np.float64)
    if n == 0 or ((parts < 0) | (parts > 1)).any():
        fail(UserError, "Quantiles must be in the range [0, 1], of a non-empty array")
    one_of = x.dtype if x.dtype.kind != "b" else np.dtype(np.uint8)
    kind = type_of_dtype(np.quantile(np.ones(1, one_of), q, method=cast(Any, method)).dtype)
    at = parts * (n - 1)
    low, high = np.floor(at).astype(int), np.ceil(at).astype(int)
    if method in ("lower", "higher", "nearest"):
        low = high = {"lower": low, "higher": high, "nearest": np.rint(at).astype(int)}[method]
    weight = np.where(low == high, 0.0, 0.5) if method == "midpoint" else at - low
    both = _ranked(row, np.stack([low, high]))
    before = (slice(None),) * len(rest)
    one, other = (getitem(both, (*before, i)) for i in (0, 1))
    if method in ("lower", "higher", "nearest"):
        made = as_type(one, kind)
    else:
        apart = as_type(
            subtract(other, one) if isinstance(x.element, FloatType) else other - as_type(one, kind), kind
        )
        one, other = as_type(one, kind), as_type(other, kind)
        # From the nearer end, as NumPy does it.
        made = add(one, multiply(apart, as_type(known(weight), kind)))
        back = subtract(other, multiply(apart, as_type(known(1 - weight), kind)))
        made = where(known(weight >= 0.5), back, made)
        # Of equal neighbours, infinite ones too, that one.
        made = where(VERBS.equal(one, other), one, made)
    if isinstance(x.element, FloatType):
        greatest = isnan(reductions.max(row, axis=-1, keepdims=bool(parts.ndim)))
        made = where(expand(greatest, shape(made)), math.nan, made)
    if parts.ndim:
        made = permute(made, [*range(len(rest), len(rest) + parts.ndim), *range(len(rest))])
    if keepdims:
        made = reshape(made, [*parts.shape, *_left(x, axis)])
    return made


def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None) -> Tensor:
    """The broken line through points of ascending xp, at x; beyond its ends the first and the last of fp."""
    given, xs, ys = (as_type(as_array(v), f64) for v in (x, xp, fp))
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
