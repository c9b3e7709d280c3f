# SPDX-License-Identifier: Apache-2.0
"""Reductions and running totals under NumPy's names: `axis`, `keepdims`, `dtype`, `where`, `initial`, `ddof`.

The types of results are NumPy's: sums of small integers are int64, means of integers float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.literals import dtype_of, type_of_dtype
from ..ir.types import FloatType, Type, f64, i1, i64
from ..op_graph.errors import UserError, fail
from ..op_graph.positions import Positions
from ..op_graph.tensor import Tensor
from ..op_graph.verbs import VERBS
from ..ops import ng
from . import composed, elementwise
from .arrays import (
    Axis,
    as_array,
    as_type,
    element,
    expand,
    join,
    known,
    place,
    places,
    reduced,
    reshape,
    shape,
    truth,
    with_axis,
)
from .elementwise import add, divide, isnan, logical_not, maximum, minimum, multiply, sqrt, square, subtract


def _result(function: Callable[..., Any], x: Tensor, dtype: Any) -> Type:
    """The type that NumPy gives a reduction: it is asked with one element."""
    if dtype is not None:
        return element(dtype)
    if x.dtype.kind == "V":  # NumPy's own reductions know no bfloat16
        return x.element
    return type_of_dtype(function(np.ones(1, x.dtype)).dtype)


def kept(made: Tensor, x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """A reduction of x with axes of length 1 in the place of those that are gone, where they are wanted."""
    if not keepdims:
        return made
    return reshape(made, [1 if d in axes else n for d, n in enumerate(shape(x))])


def _only(x: Tensor, where: Any, identity: Any) -> Tensor:
    """x with what a reduction leaves alone in the place of what is not wanted."""
    return x if where is None or where is True else composed.where(where, x, _number(identity, x.element))


def _number(value: Any, kind: Type) -> Tensor:
    return as_type(known(value), kind)


def _reduce(verb: str, x: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    axes = reduced(axis, len(shape(x)))
    return kept(getattr(VERBS, verb)(x, axes=axes) if axes else x, x, axes, keepdims)


def _begun(made: Tensor, initial: Any, join: Callable[[Any, Any], Tensor]) -> Tensor:
    """A reduction that begins with `initial`, where that is given."""
    return made if initial is None else as_type(join(made, initial), made.element)


def sum(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    *,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Tensor:
    """The sum over axes (all by itself)."""
    x = as_array(a)
    x = as_type(x, _result(np.sum, x, dtype))
    return _begun(_reduce("sum", _only(x, where, 0), axis, keepdims), initial, add)


def prod(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    *,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Tensor:
    """The product over axes (all by itself)."""
    x = as_array(a)
    x = as_type(x, _result(np.prod, x, dtype))
    return _begun(_reduce("product", _only(x, where, 1), axis, keepdims), initial, multiply)


def _extreme(verb: str, x: Tensor, axis: Axis, keepdims: bool, initial: Any, where: Any) -> Tensor:
    axes = reduced(axis, len(shape(x)))
    if initial is None and math.prod(shape(x)[d] for d in axes) == 0:
        fail(
            UserError, f"zero-size array to reduction operation {verb} which has no identity", "give initial="
        )
    if where is not None and initial is None:
        fail(
            UserError,
            f"reduction operation {verb} does not have an identity",
            "where= needs initial=",
        )
    if x.element is i1:
        made = _reduce("any" if verb == "max" else "all", _only(x, where, verb == "min"), axis, keepdims)
        initial = None if initial is None else bool(initial)
    else:
        made = _reduce(verb, _only(x, where, initial), axis, keepdims)
    return _begun(made, initial, maximum if verb == "max" else minimum)


def max(
    a: Any, axis: Axis = None, *, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Tensor:
    """The greatest element over axes (all by itself); NaN if there is one."""
    return _extreme("max", as_array(a), axis, keepdims, initial, where)


def min(
    a: Any, axis: Axis = None, *, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Tensor:
    """The least element over axes (all by itself); NaN if there is one."""
    return _extreme("min", as_array(a), axis, keepdims, initial, where)


amax, amin = max, min


def ptp(a: Any, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """The greatest less the least."""
    return subtract(max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims))


def any(a: Any, axis: Axis = None, *, keepdims: bool = False, where: Any = None) -> Tensor:
    """Whether one is not zero."""
    return _reduce("any", _only(truth(a), where, False), axis, keepdims)


def all(a: Any, axis: Axis = None, *, keepdims: bool = False, where: Any = None) -> Tensor:
    """Whether none is zero."""
    return _reduce("all", _only(truth(a), where, True), axis, keepdims)


def count_nonzero(a: Any, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """How many are not zero."""
    return sum(truth(a), axis, keepdims=keepdims)


def _count(x: Tensor, axis: Axis, where: Any, keepdims: bool) -> Any:
    """How many elements a reduction takes: a number, or an array where a mask says it."""
    if where is None or where is True:
        return math.prod(shape(x)[d] for d in reduced(axis, len(shape(x))))
    return sum(expand(truth(where), shape(x)), axis, keepdims=keepdims)


def mean(
    a: Any, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False, where: Any = None
) -> Tensor:
    """The mean over axes (all by itself); float64 of integers. An integer `dtype` is that of the sum, and of the mean without
    its fraction."""
    x = as_array(a)
    kind = _result(np.mean, x, dtype)
    x = as_type(x, kind)
    if isinstance(kind, FloatType) and (where is None or where is True):
        return _reduce("mean", x, axis, keepdims)
    total = sum(x, axis, x.dtype, keepdims=keepdims, where=where)
    return as_type(divide(total, _count(x, axis, where, keepdims)), kind)


def var(
    a: Any, axis: Axis = None, dtype: Any = None, *, ddof: float = 0, keepdims: bool = False, where: Any = None,
    correction: float | None = None,
) -> Tensor:  # fmt: skip
    """The mean squared distance to the mean, of n - ddof. An integer `dtype` is that of both means, without their fractions."""
    x = as_array(a)
    kind = _result(np.var, x, dtype)
    floats, sums = isinstance(kind, FloatType), dtype_of(kind)
    x = as_type(x, kind) if floats else x
    apart = square(subtract(x, mean(x, axis, sums, keepdims=True, where=where)))
    ddof = ddof if correction is None else correction
    if floats and (where is None or where is True) and ddof == 0:
        return mean(apart, axis, keepdims=keepdims)
    number = _count(x, axis, where, keepdims)
    left = (
        maximum(subtract(number, ddof), 0)
        if isinstance(number, Tensor)
        else float(np.maximum(number - ddof, 0))
    )
    return as_type(divide(sum(apart, axis, sums, keepdims=keepdims, where=where), left), kind)


def std(
    a: Any, axis: Axis = None, dtype: Any = None, *, ddof: float = 0, keepdims: bool = False, where: Any = None,
    correction: float | None = None,
) -> Tensor:  # fmt: skip
    """The root of `var`; of its type."""
    made = var(a, axis, dtype, ddof=ddof, keepdims=keepdims, where=where, correction=correction)
    return as_type(sqrt(made), made.element)


def average(a: Any, axis: Axis = None, weights: Any = None, *, keepdims: bool = False) -> Tensor:
    """The mean, weighted."""
    x = as_array(a)
    if weights is None:
        return mean(x, axis, keepdims=keepdims)
    w = as_array(weights)
    if shape(w) != shape(x):
        (at,) = places(axis, len(shape(x)))
        w = reshape(w, [n if d == at else 1 for d, n in enumerate(shape(x))])
    w = expand(w, shape(x))
    product = multiply(x, w)
    if not isinstance(product.element, FloatType):
        product = as_type(product, f64)
    return divide(sum(product, axis, keepdims=keepdims), sum(w, axis, dtype=product.dtype, keepdims=keepdims))


def _position(operation: Any, a: Any, axis: int | None, keepdims: bool) -> Tensor:
    x = as_array(a)
    axes = reduced(axis, len(shape(x)))
    if math.prod(shape(x)[d] for d in axes) == 0:
        fail(UserError, "attempt to get the position of an extreme of an empty sequence")
    if x.element is i1:
        x = as_type(x, type_of_dtype(np.uint8))
    if not axes:
        return as_type(known(0), i64)
    rest = Positions.of(n for d, n in enumerate(shape(x)) if d not in axes)
    return kept(VERBS.stated(operation, [x], {"axes": axes}, rest, i64), x, axes, keepdims)


def argmax(a: Any, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """The position of the first greatest element, int64; without an axis counted row by row."""
    return _position(ng.ArgmaxOp, a, axis, keepdims)


def argmin(a: Any, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """The position of the first least element, int64; without an axis counted row by row."""
    return _position(ng.ArgminOp, a, axis, keepdims)


# ---- without NaN


def _numbers(a: Any, instead: Any) -> Tensor:
    x = as_array(a)
    return composed.where(isnan(x), _number(instead, x.element), x) if isinstance(x.element, FloatType) else x


def _there(a: Any, where: Any = None) -> Tensor:
    there = logical_not(isnan(a))
    return there if where is None else elementwise.logical_and(there, where)


def nansum(
    a: Any, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Tensor:  # fmt: skip
    """The sum of what is not NaN."""
    return sum(_numbers(a, 0), axis, dtype, keepdims=keepdims, initial=initial, where=where)


def nanprod(
    a: Any, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Tensor:  # fmt: skip
    """The product of what is not NaN."""
    return prod(_numbers(a, 1), axis, dtype, keepdims=keepdims, initial=initial, where=where)


def _nan_extreme(a: Any, axis: Axis, low: bool, initial: Any, where: Any, keepdims: bool) -> Tensor:
    x = as_array(a)
    reduce = min if low else max
    if not isinstance(x.element, FloatType):
        return reduce(x, axis, keepdims=keepdims, initial=initial, where=where)
    made = reduce(
        _numbers(x, math.inf if low else -math.inf), axis, keepdims=keepdims, initial=initial, where=where
    )
    if initial is not None:
        return made
    return composed.where(any(_there(x), axis, keepdims=keepdims), made, math.nan)


def nanmax(
    a: Any, axis: Axis = None, *, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Tensor:
    """The greatest that is not NaN; NaN where there is none."""
    return _nan_extreme(a, axis, False, initial, where, keepdims)


def nanmin(
    a: Any, axis: Axis = None, *, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Tensor:
    """The least that is not NaN; NaN where there is none."""
    return _nan_extreme(a, axis, True, initial, where, keepdims)


def nanmean(
    a: Any, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False, where: Any = None
) -> Tensor:
    """The mean of what is not NaN."""
    return mean(_numbers(a, 0), axis, dtype, keepdims=keepdims, where=_there(a, where))


def nanvar(
    a: Any, axis: Axis = None, dtype: Any = None, *, ddof: float = 0, keepdims: bool = False, where: Any = None
) -> Tensor:  # fmt: skip
    """The variance of what is not NaN; NaN where n - ddof leaves nothing."""
    x = _numbers(a, 0)
    there = expand(_there(a, where), shape(x))
    made = var(x, axis, dtype, ddof=ddof, keepdims=keepdims, where=there)
    enough = elementwise.greater(sum(there, axis, keepdims=keepdims), ddof)
    return composed.where(enough, made, math.nan)


def nanstd(
    a: Any, axis: Axis = None, dtype: Any = None, *, ddof: float = 0, keepdims: bool = False, where: Any = None
) -> Tensor:  # fmt: skip
    """The root of `nanvar`."""
    return sqrt(nanvar(a, axis, dtype, ddof=ddof, keepdims=keepdims, where=where))


def nanargmax(a: Any, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """The position of the first greatest that is not NaN; 0 where there is none."""
    return argmax(_numbers(a, -math.inf), axis, keepdims=keepdims)


def nanargmin(a: Any, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """The position of the first least that is not NaN; 0 where there is none."""
    return argmin(_numbers(a, math.inf), axis, keepdims=keepdims)


# ---- running totals


def _running(verb: str, x: Tensor, axis: int | None) -> Tensor:
    x, axis = with_axis(x, axis)
    return getattr(VERBS, verb)(x, axis=axis)


def cumsum(a: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
    """The sum up to each element; without an axis, row by row."""
    x = as_array(a)
    return _running("cumulative_sum", as_type(x, _result(np.cumsum, x, dtype)), axis)


def cumprod(a: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
    """The product up to each element; without an axis, row by row."""
    x = as_array(a)
    return _running("cumulative_product", as_type(x, _result(np.cumprod, x, dtype)), axis)


def nancumsum(a: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
    """`cumsum` with NaN as 0."""
    return cumsum(_numbers(a, 0), axis, dtype)


def nancumprod(a: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
    """`cumprod` with NaN as 1."""
    return cumprod(_numbers(a, 1), axis, dtype)


def _cumulative(
    running: Callable[..., Tensor], start: int, x: Any, axis: int | None, dtype: Any, initial: bool
) -> Tensor:
    x = as_array(x)
    if axis is None and len(shape(x)) != 1:
        fail(UserError, f"an array of {len(shape(x))} dimensions needs axis=")
    axis = 0 if axis is None else place(axis, len(shape(x)))
    made = running(x, axis, dtype)
    if not initial:
        return made
    first = expand(_number(start, made.element), [1 if d == axis else n for d, n in enumerate(shape(x))])
    return join([first, made], axis)


def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """`cumsum` along an axis, which a row may leave out; with `include_initial`, one longer: it begins with 0."""
    return _cumulative(cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """`cumprod` along an axis, which a row may leave out; with `include_initial`, one longer: it begins with 1."""
    return _cumulative(cumprod, 1, x, axis, dtype, include_initial)
