# SPDX-License-Identifier: Apache-2.0
"""Functions on segments: runs of rows that follow each other along one axis, as offsets say.

`offsets` has one integer more than there are segments: segment s is the rows from offsets[s] to offsets[s + 1]. They begin with
0, never fall, and end with the number of rows. A segment may be empty. Nothing is padded. A ragged axis includes its offsets.
"""

from __future__ import annotations

from typing import Any, Literal

from ...ir.types import i1, i8, i32
from ...ops import ng
from ...ops.lengths import Length, same
from ..axes import Axes, Axis, DerivedAxis
from ..errors import IncompatibleAxesError, UserError, fail
from ..fed_checks import check_offsets
from ..ragged import RaggedAxis
from ..tensor import Tensor
from ..values import constant, numbers
from ..verbs import VERBS
from ..verbs import cast as cast_elements
from .coerce import as_op, broadcast, floating, number


def _offsets(given: Any) -> Tensor:
    """Offsets as a tensor of i32 with one axis."""
    if not isinstance(given, Tensor):
        array = numbers(given)
        if array.ndim != 1:
            fail(UserError, f"offsets have one axis, not {array.ndim}", "offsets = np.cumsum([0, *lengths])")
        given = constant(array, axes=[Axis(len(array))], dtype=i32)
    offsets = as_op(given)
    if len(offsets.axes) != 1:
        fail(
            IncompatibleAxesError,
            f"offsets have one axis, not ({', '.join(offsets.axes.names)})",
            "one integer more than there are segments",
        )
    return cast_elements(offsets, i32)


def segments_axis(offsets: Tensor, name: str) -> Axis:
    """An axis with a position for each segment that offsets tell of."""
    return DerivedAxis(name, Length(same, offsets.axes[0]) - 1)


def _of_axis(x: Tensor, offsets: Any, axis: Any, segments: Axis | None = None) -> tuple[Tensor, int, Axis]:
    """The offsets, the place of the axis, and the axis that has a position for each segment: of a ragged axis its own."""
    place = x.axes.index(axis)
    own: Axis = x.axes[place]
    if offsets is None and isinstance(own, RaggedAxis):
        return own.offsets, place, segments or own.outer
    if offsets is None:
        fail(
            UserError,
            f"axis {own.name} is not ragged, so offsets are needed",
            "ng.ragged_axis(N, name), or offsets=",
        )
    offsets = _offsets(offsets)
    return offsets, place, segments or segments_axis(offsets, f"{own.name}_segments")


def _reduced(combine: str, x: Tensor, offsets: Any, axis: Any, segments: Axis | None) -> Tensor:
    offsets, place, segments = _of_axis(x, offsets, axis, segments)
    axes = Axes((*x.axes[:place], segments, *x.axes[place + 1 :]))
    attributes = {"axis": place, "combine": combine}
    made = VERBS.stated(ng.SegmentReduceOp, [x, offsets], attributes, axes, x.element)
    return check_offsets(made, offsets, x.axes[place])


def segment_sum(
    x: Any, offsets: Any = None, axis: Any = None, segments: Axis | None = None, dtype: Any = None
) -> Tensor:
    """The sum of the rows of each segment along an axis; 0 for an empty one.

    The axis `segments` of the result replaces `axis`; its default has the name `<axis>_segments`.
    """
    return _reduced("sum", number(x, dtype), offsets, axis, segments)


def segment_prod(
    x: Any, offsets: Any = None, axis: Any = None, segments: Axis | None = None, dtype: Any = None
) -> Tensor:
    """The product of the rows of each segment; 1 for an empty one. Axes as of `segment_sum`."""
    return _reduced("product", number(x, dtype), offsets, axis, segments)


def _kept(combine: str, x: Any, offsets: Any, axis: Any, segments: Axis | None) -> Tensor:
    """A reduction that keeps the element type."""
    x = as_op(x)
    if x.element is not i1:
        return _reduced(combine, x, offsets, axis, segments)
    return cast_elements(_reduced(combine, cast_elements(x, i8), offsets, axis, segments), i1)


def segment_max(x: Any, offsets: Any = None, axis: Any = None, segments: Axis | None = None) -> Tensor:
    """The maximum of the rows of each segment; -inf or the smallest integer for an empty one. Axes as of `segment_sum`.

    The gradient goes to every row that is the maximum.
    """
    return _kept("max", x, offsets, axis, segments)


def segment_min(x: Any, offsets: Any = None, axis: Any = None, segments: Axis | None = None) -> Tensor:
    """The minimum of the rows of each segment; +inf or the largest integer for an empty one. As `segment_max`."""
    return _kept("min", x, offsets, axis, segments)


def segment_first(x: Any, offsets: Any = None, axis: Any = None, segments: Axis | None = None) -> Tensor:
    """The first row of each segment; 0 for an empty one. Axes as of `segment_sum`."""
    return _kept("first", x, offsets, axis, segments)


def segment_last(x: Any, offsets: Any = None, axis: Any = None, segments: Axis | None = None) -> Tensor:
    """The last row of each segment; 0 for an empty one. Axes as of `segment_sum`."""
    return _kept("last", x, offsets, axis, segments)


def segment_bounds(offsets: Tensor, segments: Axis) -> tuple[Tensor, Tensor]:
    """Where each segment begins, and where it ends (behind its last row), along the axis `segments`."""
    count = Length(same, offsets.axes[0])
    ends = (VERBS.window(offsets, 0, 0, count - 1), VERBS.window(offsets, 0, 1, count))
    first, end = (VERBS.stated(ng.CastAxesOp, [end], {}, Axes((segments,)), i32) for end in ends)
    return first, end


def segment_lengths(offsets: Any, segments: Axis | None = None) -> Tensor:
    """int32: how many rows each segment has."""
    offsets = _offsets(offsets)
    first, end = segment_bounds(
        offsets, segments or segments_axis(offsets, f"{offsets.axes[0].name}_segments")
    )
    return VERBS.subtract(end, first)


def segment_mean(
    x: Any, offsets: Any = None, axis: Any = None, segments: Axis | None = None, dtype: Any = None
) -> Tensor:
    """The mean of the rows of each segment: the sum divided by their number; 0 for an empty one. Axes as of `segment_sum`."""
    x = floating(x, dtype)
    offsets, _, segments = _of_axis(x, offsets, axis, segments)
    total = _reduced("sum", x, offsets, axis, segments)
    lengths = segment_lengths(offsets, segments)
    count = cast_elements(VERBS.maximum(lengths, VERBS.number_like(1, lengths)), x.element)
    return VERBS.divide(total, broadcast(count, total.axes))


def segment_expand(x: Any, offsets: Any, axis: Any, rows: Axis) -> Tensor:
    """Row s of x along an axis for each row of segment s.

    The axis `rows` of the result replaces `axis`; its length is the last of the offsets. The gradient is the sum of
    each segment.
    """
    x, offsets = as_op(x), _offsets(offsets)
    place = x.axes.index(axis)
    axes = Axes((*x.axes[:place], rows, *x.axes[place + 1 :]))
    made = VERBS.stated(ng.SegmentExpandOp, [x, offsets], {"axis": place}, axes, x.element)
    return check_offsets(made, offsets, rows)


def segment_softmax(x: Any, offsets: Any = None, axis: Any = None) -> Tensor:
    """Softmax along each segment of an axis."""
    x = floating(x)
    offsets, place, _ = _of_axis(x, offsets, axis)
    return check_offsets(VERBS.segment_softmax(x, offsets, axis=place), offsets, x.axes[place])


Combine = Literal["sum", "product", "max", "min"]


def _cumulative(
    combine: Combine, x: Any, offsets: Any, axis: Any, reverse: bool, exclusive: bool, dtype: Any
) -> Tensor:
    x = number(x, dtype)
    offsets, place, _ = _of_axis(x, offsets, axis)
    made = VERBS.segment_cumulative(
        x, offsets, axis=place, combine=combine, reverse=reverse, exclusive=exclusive
    )
    return check_offsets(made, offsets, x.axes[place])


def segment_cumulative_sum(
    x: Any,
    offsets: Any = None,
    axis: Any = None,
    reverse: bool = False,
    exclusive: bool = False,
    dtype: Any = None,
) -> Tensor:
    """The sum up to each row, from the first of its segment; `reverse` from the last, `exclusive` without the row itself."""
    return _cumulative("sum", x, offsets, axis, reverse, exclusive, dtype)


def segment_cumulative_prod(
    x: Any,
    offsets: Any = None,
    axis: Any = None,
    reverse: bool = False,
    exclusive: bool = False,
    dtype: Any = None,
) -> Tensor:
    """The product up to each row, from the first of its segment; as `segment_cumulative_sum`."""
    return _cumulative("product", x, offsets, axis, reverse, exclusive, dtype)


def segment_cumulative_max(
    x: Any,
    offsets: Any = None,
    axis: Any = None,
    reverse: bool = False,
    exclusive: bool = False,
    dtype: Any = None,
) -> Tensor:
    """The maximum up to each row, from the first of its segment; as `segment_cumulative_sum`."""
    return _cumulative("max", x, offsets, axis, reverse, exclusive, dtype)


def segment_cumulative_min(
    x: Any,
    offsets: Any = None,
    axis: Any = None,
    reverse: bool = False,
    exclusive: bool = False,
    dtype: Any = None,
) -> Tensor:
    """The minimum up to each row, from the first of its segment; as `segment_cumulative_sum`."""
    return _cumulative("min", x, offsets, axis, reverse, exclusive, dtype)
