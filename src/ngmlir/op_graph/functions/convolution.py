# SPDX-License-Identifier: Apache-2.0
"""Convolutions (without flipping) as products of windows, and their adjoints, as products summed over windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...ops.sliding import count_of
from ..axes import Axes, AxesLike, Axis, make_axes
from ..errors import AxisLengthError, IncompatibleAxesError, UserError, fail
from ..tensor import Tensor
from .coerce import floating
from .elementwise import multiply
from .linear import dot
from .shape import axes_with_order, cast_axes, pad, reshaped, tensor_slice
from .sliding import Padding, PerAxis, Slide, borders, by_axis, overlapped, slides, whole_number, windows_of


def convolve(
    x: Any,
    filters: Any,
    over: Mapping[Any, Any],
    strides: PerAxis = 1,
    dilations: PerAxis = 1,
    padding: Padding = "valid",
    groups: int = 1,
    axes: AxesLike | None = None,
    dtype: Any = None,
) -> Tensor:
    """The product of the filters with each window of x: a convolution in one, two, three or more dimensions.

    `over` pairs each axis of x that windows slide along with the axis of the filters' taps: `{H: R, W: S}`. As in
    `ng.dot`, all other axes that both sides hold are summed over (channels), the rest stays: axes of the result are
    those of x that are left, then those that only the filters have. `axes` puts them in another order, by name.

    `padding`: zeros around, as a number, a pair (before, after) or one of these for each axis; or `valid` (none), `same`
    (as many windows as elements, divided by the stride and rounded up; of an odd number the greater half comes after),
    `full` (every window that touches an element), `causal` (all before). Lengths: (n + before + after - span) // stride
    + 1, where a window spans (taps - 1) * dilation + 1 elements.

    `groups` cuts the channels, and the filters, into so many parts that do not see each other: of a channel axis of c
    elements the filters hold c / groups; as many groups as channels is a depthwise convolution.

    Raises UserError (and what `ng.windows` raises) for settings that fit no axis, IncompatibleAxesError and
    AxisLengthError for axes that do not fit.
    """
    x, filters = floating(x, dtype), floating(filters, dtype)
    sliding = slides(x.axes, _taps(filters, over), strides, dilations)
    around = {s.axis.name: pair for s, pair in zip(sliding, borders(sliding, padding), strict=True)}
    padded = pad(x, [around.get(a.name, 0) for a in x.axes])
    return ordered(_product(windows_of(padded, sliding), filters, _groups(groups), x.axes, sliding), axes)


def ordered(x: Tensor, axes: AxesLike | None) -> Tensor:
    """The axes reordered as those of the same names in `axes`, whatever their lengths; unchanged for None."""
    if axes is None:
        return x
    names = make_axes(axes)
    if not names.is_equal_set(x.axes):
        fail(
            IncompatibleAxesError,
            f"({', '.join(names.names)}) is not a permutation of ({', '.join(x.axes.names)})",
        )
    return axes_with_order(x, [x.axes[x.axes.index(a)] for a in names])


def _taps(filters: Tensor, over: Mapping[Any, Any]) -> dict[Any, Axis]:
    """`over` with the axes that the filters have."""
    if not isinstance(over, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        fail(UserError, f"`over` pairs axes with those of the filters' taps: {{H: R, W: S}}, not {over!r}")
    return {axis: filters.axes[filters.axes.index(tap)] for axis, tap in over.items()}


def _groups(groups: Any) -> int:
    return whole_number(groups, "number of groups", 1)


def _product(windows: Tensor, filters: Tensor, groups: int, held: Axes, sliding: list[Slide]) -> Tensor:
    """The windows by the filters, over taps and channels."""
    taps = Axes(s.taps for s in sliding)
    if groups == 1:
        return dot(windows, filters, dtype=windows.dtype)
    channel, out = _channels(held, filters, taps, "the filters")
    parts, group, inner = _parted(windows, channel, groups)
    cut, _, made = _parted(filters, out, groups, group)
    if cut.axes[cut.axes.index(channel)].length != inner.length:
        fail(
            AxisLengthError,
            f"{channel.name} has {channel.length} elements, so the filters of {groups} groups have "
            f"{inner.length} of them, not {filters.axes[filters.axes.index(channel)].length}",
        )
    product = dot(parts, cut, batch_axes=[group], dtype=parts.dtype)
    rest = [a for a in product.axes if a not in (group, made)]
    ordered = axes_with_order(product, [*rest, group, made])
    if made.length == 1:
        return cast_axes(_alone(ordered, made), [*rest, out])
    return reshaped(ordered, Axes((*rest, out)))


def _channels(held: Axes, filters: Tensor, taps: Axes, what: str) -> tuple[Axis, Axis]:
    """The one axis of channels that both sides have, and the one that only the filters have."""
    common = [a for a in held if a in filters.axes and a not in taps]
    new = [a for a in filters.axes if a not in held and a not in taps]
    if len(common) != 1 or len(new) != 1:
        fail(
            IncompatibleAxesError,
            f"groups need one axis of channels on both sides and one that only {what} have, not "
            f"({', '.join(a.name for a in common)}) and ({', '.join(a.name for a in new)})",
        )
    return common[0], new[0]


def _parted(x: Tensor, axis: Axis, groups: int, group: Axis | None = None) -> tuple[Tensor, Axis, Axis]:
    """The tensor with an axis cut into groups, the axis of groups, and what is left of the axis."""
    length = x.axes[x.axes.index(axis)].known_length
    if length % groups:
        fail(AxisLengthError, f"{length} elements of {axis.name} cannot be cut into {groups} equal groups")
    group = group or Axis(groups)
    inner = Axis(length // groups, axis.name)
    parts = Axes(new for a in x.axes for new in ((group, inner) if a == axis else (a,)))
    return reshaped(x, parts), group, inner


def _alone(x: Tensor, axis: Axis) -> Tensor:
    """Without an axis of one element."""
    return reshaped(x, x.axes - axis)


def deconvolve(
    x: Any,
    filters: Any,
    over: Mapping[Any, Any],
    strides: PerAxis = 1,
    dilations: PerAxis = 1,
    padding: Padding = "valid",
    groups: int = 1,
    lengths: Mapping[Any, int] | None = None,
    axes: AxesLike | None = None,
    dtype: Any = None,
) -> Tensor:
    """The adjoint of `ng.convolve` with the same filters and settings: a transposed convolution.

    Each element of x adds the filters, scaled by it, to the window that it stands for. All axes that both sides hold are
    summed over; the result has those of x that are left, then those that only the filters have, without taps.

    An axis of n elements becomes (n - 1) * stride + span - before - after long; with `same` n * stride; or as long as
    `lengths` says, if a convolution of that length would give n. `padding` takes away what `ng.convolve` adds.

    `groups` cuts the axis that both sides hold, and the one that the filters add: the latter holds so many parts.

    Raises what `ng.convolve` raises.
    """
    x, filters = floating(x, dtype), floating(filters, dtype)
    sliding = slides(x.axes, _taps(filters, over), strides, dilations)
    wanted = _lengths(sliding, padding, lengths)
    made = _spread(x, filters, _groups(groups), sliding)
    full: dict[str, int] = {}
    for slide, (before, length) in zip(sliding, wanted, strict=True):
        full[slide.axis.name] = max(slide.covered, before + length)
    # Of windows that do not reach the end no more than a stride is missing.
    summed = overlapped(made, sliding, full)
    cut = {
        s.axis.name: slice(before, before + length)
        for s, (before, length) in zip(sliding, wanted, strict=True)
    }
    return ordered(tensor_slice(summed, [cut.get(a.name, slice(None)) for a in summed.axes]), axes)


def _lengths(
    sliding: list[Slide], padding: Padding, lengths: Mapping[Any, int] | None
) -> list[tuple[int, int]]:
    """Where the result begins in what the windows cover, and how long it is, by axis."""
    given = by_axis(lengths or {}, Axes(s.axis for s in sliding), "length")
    found: list[tuple[int, int]] = []
    for slide, (before, after) in zip(sliding, borders(sliding, padding), strict=True):
        name, n = slide.axis.name, slide.axis.known_length
        usual = n * slide.stride if padding == "same" else slide.covered - before - after
        length = whole_number(given.get(name, usual), "length", 1)
        if padding == "same":
            before, after = replace(slide, axis=Axis(length, name)).border("same")
        if count_of(length + before + after, slide.span, slide.stride) != n:
            fail(
                AxisLengthError,
                f"a convolution along {length} elements of {name} does not give {n}",
                f"{slide.covered - before - after} do",
            )
        found.append((before, length))
    return found


def _spread(x: Tensor, filters: Tensor, groups: int, sliding: list[Slide]) -> Tensor:
    """The filters scaled by each element of x, summed over channels: axes of x, taps, and those that the filters add."""
    if groups == 1:
        return dot(x, filters, dtype=x.dtype)
    channel, out = _channels(x.axes, filters, Axes(s.taps for s in sliding), "the filters")
    parts, group, inner = _parted(x, channel, groups)
    cut, _, _ = _parted(filters, channel, groups, group)
    if inner.length == 1:
        product = multiply(_alone(parts, inner), _alone(cut, inner), parts.dtype)
    else:
        product = dot(parts, cut, batch_axes=[group], dtype=parts.dtype)
    whole = Axis(groups * out.known_length, out.name)
    rest = [a for a in product.axes if a not in (group, out)]
    return reshaped(axes_with_order(product, [*rest, group, out]), Axes((*rest, whole)))
