# SPDX-License-Identifier: Apache-2.0
"""Covariances, histograms, and polynomials through points."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.types import FloatType, f64, i64
from ..op_graph.errors import IncompatibleAxesError, UserError, fail
from ..op_graph.tensor import Tensor
from ..op_graph.verbs import VERBS
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
    reshape,
    shape,
)
from .composed import clip, where
from .creation import arange, zeros
from .differences import diff
from .elementwise import (
    add,
    divide,
    equal,
    greater_equal,
    less_equal,
    logical_and,
    maximum,
    multiply,
    sqrt,
    subtract,
)
from .indexing import getitem
from .joining import concatenate
from .products import dot
from .shaping import atleast_2d, diag, ravel, squeeze
from .sorting import searchsorted


def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None,
    fweights: Any = None, aweights: Any = None, *, dtype: Any = None,
) -> Tensor:  # fmt: skip
    """The covariances of variables, each a row of m, and of y if it is given; without `rowvar`, each a column.

    Args:
        ddof: sums are divided by the number of observations less it: 1, or 0 with `bias`.
        fweights: how often each observation was made; integers.
        aweights: how much each observation counts.

    The result is square, float64 unless `dtype` says otherwise; of one variable it is a number.
    """
    kind = joined(m, *([] if y is None else [y]), np.float64(0))
    rows = _variables(m, rowvar, dtype, kind)
    if y is not None:
        rows = concatenate([rows, _variables(y, rowvar, dtype, kind)], axis=0)
    ddof = (0 if bias else 1) if ddof is None else ddof
    count = shape(rows)[1]
    weights = None
    for given, name in ((fweights, "fweights"), (aweights, "aweights")):
        if given is not None:
            own = as_type(as_array(given), f64)
            if shape(own) != (count,):
                fail(IncompatibleAxesError, f"{name} of shape {shape(own)} for {count} observations")
            weights = own if weights is None else multiply(weights, own)
    total = float(count) if weights is None else reductions.sum(weights)
    left = total - ddof
    if aweights is not None and ddof:
        assert weights is not None
        left = total - ddof * reductions.sum(multiply(weights, aweights)) / total
    middle = reductions.average(rows, axis=1, weights=weights)
    rows = subtract(rows, reshape(middle, (shape(rows)[0], 1)))
    weighted = rows if weights is None else multiply(rows, weights)
    made = multiply(dot(rows, weighted.T), divide(1.0, maximum(left, 0.0)))
    return squeeze(as_type(made, rows.element))


def _variables(m: Any, rowvar: bool, dtype: Any, kind: Any) -> Tensor:
    x = as_array(m)
    if len(shape(x)) > 2:
        fail(UserError, f"cov takes arrays of 1 or 2 dimensions, not {len(shape(x))}")
    rows = atleast_2d(as_type(x, kind) if dtype is None else of_type(x, known(0, dtype).element))
    return rows if rowvar or len(shape(x)) == 1 else rows.T


def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Tensor:
    """The correlations of variables: their covariances, divided by the deviations of both; from -1 to 1."""
    made = cov(x, y, rowvar, dtype=dtype)
    if not shape(made):
        return divide(made, made)
    deviation = sqrt(diag(made))
    made = divide(divide(made, reshape(deviation, (*shape(deviation), 1))), deviation)
    return clip(made, -1, 1)


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Tensor:
    """The bounds of so many bins of equal width over a `range` (low, high), or from the least to the greatest element; a row of
    bounds is given back. Rules that choose a number of bins (`"auto"`) have no fixed shape, and are a UserError."""
    if isinstance(bins, str):
        fail(UserError, f"bins={bins!r} chooses a number that depends on data", "give a number, or bounds")
    if not isinstance(bins, int):
        bounds = as_array(bins)
        if len(shape(bounds)) != 1:
            fail(UserError, f"bins are a number or a row of bounds, not an array of shape {shape(bounds)}")
        elements = constant_elements(bounds)
        if elements is not None and (np.diff(elements) < 0).any():
            fail(UserError, "bounds of bins must increase")
        return bounds
    if bins < 1:
        fail(UserError, f"{bins} bins")
    x = ravel(a)
    low, high = _ends(x, range)
    kind = joined(low, high, x)
    kind = kind if isinstance(kind, FloatType) else f64
    low, high = of_type(low, kind), of_type(high, kind)
    places = as_type(arange(bins), kind)
    edges = add(multiply(places, divide(subtract(high, low), float(bins))), low)
    return join([edges, reshape(high, (1,))], 0)


def _ends(x: Tensor, range: Any) -> tuple[Any, Any]:
    """The least and the greatest bound; where they are equal, half a step below and above."""
    if range is not None:
        low, high = range
        if not (np.isfinite(low) and np.isfinite(high) and low <= high):
            fail(UserError, f"range is a finite low and high, not {range!r}")
        return (low, high) if low < high else (low - 0.5, high + 0.5)
    if 0 in shape(x):
        return 0.0, 1.0
    low, high = reductions.min(x), reductions.max(x)
    low, high = (v if isinstance(v.element, FloatType) else as_type(v, f64) for v in (low, high))
    one = equal(low, high)
    return where(one, subtract(low, 0.5), low), where(one, add(high, 0.5), high)


def histogram(
    a: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
) -> tuple[Tensor, Tensor]:
    """The number of elements in each bin, int64, and the bounds of bins as `histogram_bin_edges` gives them. A bin holds its lower
    bound, the last one its upper bound too.

    With `weights`, their sums, of their type; with `density`, divided by their total and by the width of the bin, float64.
    """
    x, edges = ravel(a), histogram_bin_edges(a, bins, range)
    count = shape(edges)[0] - 1
    first, last = getitem(edges, 0), getitem(edges, -1)
    at = subtract(searchsorted(edges, x, "right"), 1)
    at = where(equal(x, last), count - 1, at)
    inside = logical_and(greater_equal(x, first), less_equal(x, last))
    each = expand(known(1, i64), shape(x)) if weights is None else ravel(weights)
    if shape(each) != shape(x):
        fail(UserError, f"{shape(each)[0]} weights for {shape(x)[0]} elements")
    wide = each if weights is None else as_type(each, f64)
    places = where(inside, at, count)  # one more bin for elements that are in none
    made = VERBS.scatter(zeros(count + 1, wide.dtype), places, wide, axis=0, combine="add")
    made = as_type(getitem(made, slice(count)), each.element)
    if density:
        made = divide(divide(made, diff(edges)), reductions.sum(made))
    return made, edges
