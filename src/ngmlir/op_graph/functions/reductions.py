# SPDX-License-Identifier: Apache-2.0
"""Functions that reduce axes. By default all but the batch axis N and the recurrent axis REC are reduced.

`axis` is another word for `reduction_axes`, and takes positions too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, cast

from ...ir.types import Type, i1, i8
from ...ops import ng
from ..axes import Axes, AxesOrNames, Axis
from ..building import BUILDING
from ..errors import IncompatibleAxesError, UserError, fail
from ..ragged import RaggedAxis, ragged_among, refuse_ragged
from ..tensor import Tensor
from ..values import element_of, size_op
from ..verbs import VERBS
from ..verbs import cast as cast_elements
from . import segments
from .coerce import Positions, as_op, broadcast, floating, number, one_of, result_element
from .elementwise import absolute, add, not_equal, sqrt, square, subtract


def compute_reduction_axes(
    x: Tensor,
    reduction_axes: AxesOrNames | None,
    out_axes: AxesOrNames | None,
    *,
    default: Callable[[Axes], Axes] = Axes.feature_axes,
) -> tuple[Axes, Axes]:
    """(axes to reduce, axes of the result): what is not given follows from the other, or from `default`."""
    if reduction_axes is None and out_axes is None:
        reduction_axes = default(x.axes)
    reduced = None if reduction_axes is None else x.axes.chosen(reduction_axes)
    kept = None if out_axes is None else x.axes.chosen(out_axes)
    for given in (reduced, kept):
        lost = [] if given is None else [n for n in given.names if n not in x.axes.names]
        if lost:
            fail(
                IncompatibleAxesError,
                f"there is no axis {', '.join(lost)} in ({', '.join(x.axes.names)})",
            )
    if reduced is None:
        reduced = x.axes - (kept or Axes())
    if kept is None:
        kept = x.axes - reduced
    if set(reduced.names) & set(kept.names) or len(reduced) + len(kept) != len(x.axes):
        fail(
            IncompatibleAxesError,
            f"reducing ({', '.join(reduced.names)}) of ({', '.join(x.axes.names)}) does not leave ({', '.join(kept.names)})",
            "pass either reduction_axes or out_axes",
        )
    return x.axes & reduced, kept


def _places(x: Tensor, axes: Axes) -> tuple[int, ...]:
    return tuple(x.axes.index(a) for a in axes)


def _reduce(
    name: str, x: Tensor, reduction_axes: AxesOrNames | None, out_axes: AxesOrNames | None, **more: Any
) -> Tensor:
    x, reduction_axes = _by_sequence(name, x, reduction_axes, out_axes)
    reduced, kept = compute_reduction_axes(x, reduction_axes, out_axes, **more)
    made = getattr(VERBS, name)(x, axes=_places(x, reduced)) if reduced else x
    return broadcast(made, kept)


def _by_sequence(
    name: str, x: Tensor, reduction_axes: AxesOrNames | None, out_axes: AxesOrNames | None
) -> tuple[Tensor, AxesOrNames | None]:
    """x reduced along its ragged axis, where that is asked for, to a value for each sequence; and the axes that are left to reduce.

    It is asked for where the axis is among those to reduce, or where those to keep have one that it is made of.
    """
    axis = ragged_among(x.axes)
    if axis is None:
        return x, reduction_axes
    kept = None if out_axes is None else (x.axes | axis.outer).chosen(out_axes)
    gone = None if reduction_axes is None else x.axes.chosen(reduction_axes)
    outer = {level.outer.name for level in axis.levels}
    if gone is None:
        asked = kept is not None and axis not in kept and not outer.isdisjoint(kept.names)
    else:
        asked = axis in gone and outer.isdisjoint(gone.names)
    if not asked:
        return x, reduction_axes
    if name not in SEQUENCE_REDUCTIONS:
        fail(
            UserError,
            f"{name} has no form along a ragged axis yet",
            f"{', '.join(SEQUENCE_REDUCTIONS)} have one",
        )
    made = SEQUENCE_REDUCTIONS[name](x, axis)
    left = None if gone is None else gone - axis
    if gone is None:
        return _by_sequence(name, made, None, out_axes)
    return made, left


def _truths(combine: Literal["max", "min"]) -> Callable[[Tensor, Axis], Tensor]:
    """Whether any, or all, are true, as an extreme: that of nothing is less, or greater, than those of both."""

    def reduced(x: Tensor, axis: Axis) -> Tensor:
        found = getattr(segments, f"segment_{combine}")(cast_elements(x, i8), axis=axis)
        return VERBS.greater(found, VERBS.number_like(0, found))

    return reduced


#: Reduction -> the same of each sequence along a ragged axis.
SEQUENCE_REDUCTIONS: dict[str, Callable[[Tensor, Axis], Tensor]] = {
    "sum": lambda x, axis: segments.segment_sum(x, axis=axis, dtype=x.element),
    "product": lambda x, axis: segments.segment_prod(x, axis=axis, dtype=x.element),
    "max": lambda x, axis: segments.segment_max(x, axis=axis),
    "min": lambda x, axis: segments.segment_min(x, axis=axis),
    "mean": lambda x, axis: segments.segment_mean(x, axis=axis, dtype=x.element),
    "any": _truths("max"),
    "all": _truths("min"),
}


def sum(
    x: Any,
    reduction_axes: AxesOrNames | None = None,
    out_axes: AxesOrNames | None = None,
    dtype: Any = None,
    axis: Positions = None,
) -> Tensor:
    """The sum."""
    x = number(x, dtype)
    return _reduce("sum", x, one_of(x, reduction_axes, axis), out_axes)


def prod(
    x: Any,
    reduction_axes: AxesOrNames | None = None,
    out_axes: AxesOrNames | None = None,
    dtype: Any = None,
    axis: Positions = None,
) -> Tensor:
    """The product."""
    x = number(x, dtype)
    return _reduce("product", x, one_of(x, reduction_axes, axis), out_axes)


def _extreme(
    name: str, x: Any, reduction_axes: AxesOrNames | None, out_axes: AxesOrNames | None, dtype: Any
) -> Tensor:
    # Reduced in its own elements, so that large integers are compared exactly.
    element, x = result_element(dtype, x, whole=True), as_op(x)
    if x.element is i1:
        x = cast_elements(x, element)
    return cast_elements(_reduce(name, x, reduction_axes, out_axes), element)


def max(
    x: Any,
    reduction_axes: AxesOrNames | None = None,
    out_axes: AxesOrNames | None = None,
    dtype: Any = None,
    axis: Positions = None,
) -> Tensor:
    """The maximum."""
    x = as_op(x)
    return _extreme("max", x, one_of(x, reduction_axes, axis), out_axes, dtype)


def min(
    x: Any,
    reduction_axes: AxesOrNames | None = None,
    out_axes: AxesOrNames | None = None,
    dtype: Any = None,
    axis: Positions = None,
) -> Tensor:
    """The minimum."""
    x = as_op(x)
    return _extreme("min", x, one_of(x, reduction_axes, axis), out_axes, dtype)


def _position(
    operation: type[ng.ArgmaxOp] | type[ng.ArgminOp],
    x: Any,
    dtype: Any,
    reduction_axes: Any,
    out_axes: Any,
    axis: Any,
) -> Tensor:
    x = as_op(x)
    # The element type stands where other reductions have their axes: what names axes of x is meant as there ("H" is also
    # NumPy's short name of an integer type).
    if (
        isinstance(dtype, (Axis, Axes))
        or isinstance(dtype, (list, tuple))
        or (isinstance(dtype, str) and dtype in x.axes.names)
    ):
        dtype, reduction_axes = None, one_of(x, reduction_axes, cast(Any, dtype))
    reduction_axes = one_of(x, reduction_axes, axis)
    element: Type = BUILDING.integer if dtype is None else element_of(dtype)
    if x.element is i1:
        x = floating(x)
    reduced, kept = compute_reduction_axes(x, reduction_axes, out_axes)
    refuse_ragged(
        reduced,
        "positions cannot be counted along",
        "ng.max and ng.min give the greatest and the least of each sequence",
    )
    if not reduced:
        fail(
            IncompatibleAxesError,
            "argmax and argmin need an axis",
            "give reduction_axes",
        )
    made = VERBS.stated(operation, [x], {"axes": _places(x, reduced)}, x.axes - reduced, element)
    return broadcast(made, kept)


def argmax(
    x: Any,
    dtype: Any = None,
    reduction_axes: AxesOrNames | None = None,
    out_axes: AxesOrNames | None = None,
    axis: Positions = None,
) -> Tensor:
    """The position of the first maximum, int32; over several axes in row-major order."""
    return _position(ng.ArgmaxOp, x, dtype, reduction_axes, out_axes, axis)


def argmin(
    x: Any,
    dtype: Any = None,
    reduction_axes: AxesOrNames | None = None,
    out_axes: AxesOrNames | None = None,
    axis: Positions = None,
) -> Tensor:
    """The position of the first minimum, int32; over several axes in row-major order."""
    return _position(ng.ArgminOp, x, dtype, reduction_axes, out_axes, axis)


def mean(
    x: Any,
    reduction_axes: AxesOrNames | None = None,
    out_axes: AxesOrNames | None = None,
    dtype: Any = None,
    axis: Positions = None,
) -> Tensor:
    """The mean: the sum divided by the number of elements."""
    x = floating(x, dtype)
    return _reduce("mean", x, one_of(x, reduction_axes, axis), out_axes)


def variance(
    x: Any,
    out_axes: AxesOrNames | None = None,
    reduction_axes: AxesOrNames | None = None,
    axis: Positions = None,
) -> Tensor:
    """The mean squared difference from the mean (divided by n)."""
    x = floating(x)
    reduction_axes = one_of(x, reduction_axes, axis)
    return mean(square(subtract(x, mean(x, reduction_axes, out_axes))), reduction_axes, out_axes)


def squared_L2(
    x: Any, out_axes: AxesOrNames | None = None, reduction_axes: AxesOrNames | None = None
) -> Tensor:
    """The sum of squares over all axes but the batch axis."""
    return _reduce("sum", square(x), reduction_axes, out_axes, default=Axes.sample_axes)


def L2_norm(
    x: Any, eps: float = 1e-8, out_axes: AxesOrNames | None = None, reduction_axes: AxesOrNames | None = None
) -> Tensor:
    """The square root of `eps` plus the sum of squares over all axes but the batch axis."""
    return sqrt(add(squared_L2(x, out_axes, reduction_axes), eps))


def L1_norm(x: Any, out_axes: AxesOrNames | None = None, reduction_axes: AxesOrNames | None = None) -> Tensor:
    """The sum of absolute values over all axes but the batch axis."""
    return _reduce("sum", absolute(x), reduction_axes, out_axes, default=Axes.sample_axes)


def _truth_of(x: Any) -> Tensor:
    x = as_op(x)
    return x if x.element is i1 else not_equal(x, 0)


def any(
    x: Any,
    reduction_axes: AxesOrNames | None = None,
    out_axes: AxesOrNames | None = None,
    axis: Positions = None,
) -> Tensor:
    """True if any element is true (not 0)."""
    x = _truth_of(x)
    return _reduce("any", x, one_of(x, reduction_axes, axis), out_axes)


def all(
    x: Any,
    reduction_axes: AxesOrNames | None = None,
    out_axes: AxesOrNames | None = None,
    axis: Positions = None,
) -> Tensor:
    """True if all elements are true (not 0)."""
    x = _truth_of(x)
    return _reduce("all", x, one_of(x, reduction_axes, axis), out_axes)


def tensor_size(
    x: Tensor, reduction_axes: AxesOrNames | None = None, out_axes: AxesOrNames | None = None
) -> Tensor:
    """The number of elements along some axes (all but the batch axis), as a number."""
    reduced, _ = compute_reduction_axes(x, reduction_axes, out_axes, default=Axes.sample_axes)
    return size_op(reduced, Axes(), BUILDING.float)


def batch_size(x: Tensor) -> Tensor:
    """The length of the batch axis, as a number; 1 if there is none."""
    return size_op(x.axes.batch_axes(), Axes(), BUILDING.float)


def _cumulative(name: str, x: Any, axis: Any, reverse: bool, exclusive: bool, dtype: Any) -> Tensor:
    x = number(x, dtype)
    if isinstance(x.axes[x.axes.index(axis)], RaggedAxis):
        along = {"product": "prod"}.get(name, name)
        function = getattr(segments, f"segment_cumulative_{along}")
        return function(x, axis=axis, reverse=reverse, exclusive=exclusive, dtype=x.element)
    verb = getattr(VERBS, f"cumulative_{name}")
    return verb(x, axis=x.axes.index(axis), reverse=reverse, exclusive=exclusive)


def cumulative_sum(
    x: Any, axis: Any, reverse: bool = False, exclusive: bool = False, dtype: Any = None
) -> Tensor:
    """The sum up to each element along an axis."""
    return _cumulative("sum", x, axis, reverse, exclusive, dtype)


def cumulative_prod(
    x: Any, axis: Any, reverse: bool = False, exclusive: bool = False, dtype: Any = None
) -> Tensor:
    """The product up to each element along an axis."""
    return _cumulative("product", x, axis, reverse, exclusive, dtype)


def cumulative_max(
    x: Any, axis: Any, reverse: bool = False, exclusive: bool = False, dtype: Any = None
) -> Tensor:
    """The maximum of the elements up to each one along an axis."""
    return _cumulative("max", x, axis, reverse, exclusive, dtype)


def cumulative_min(
    x: Any, axis: Any, reverse: bool = False, exclusive: bool = False, dtype: Any = None
) -> Tensor:
    """The minimum of the elements up to each one along an axis."""
    return _cumulative("min", x, axis, reverse, exclusive, dtype)
