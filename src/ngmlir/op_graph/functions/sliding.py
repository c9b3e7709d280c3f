# SPDX-License-Identifier: Apache-2.0
"""Windows that slide along axes, their sum, and the arguments by which functions describe windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ...ops import ng
from ...ops.sliding import count_of, covered_by, described, same_border, span_of
from ...support.lengths import as_index
from ...support.spelling import counted
from ..axes import Axes, Axis, make_axes
from ..errors import AxisLengthError, IncompatibleAxesError, UserError, fail
from ..ragged import refuse_ragged
from ..tensor import Tensor
from ..verbs import VERBS
from .coerce import as_op

#: A number for all axes, one for each in their order, or {axis: number}; an axis that is not named has the default.
PerAxis: TypeAlias = int | Sequence[int] | Mapping[Any, int]
#: Elements before and after: a number for both, or the two.
Border: TypeAlias = int | Sequence[int]
#: The name of a rule; or a border for all axes, one for each in their order, or {axis: border}.
Padding: TypeAlias = str | Border | Sequence[Border] | Mapping[Any, Border]

RULES = ("valid", "same", "full", "causal")


@dataclass(frozen=True)
class Slide:
    """How windows slide along one axis: `taps` elements `dilation` apart, from every `stride`-th place."""

    axis: Axis
    taps: Axis
    stride: int
    dilation: int

    @property
    def span(self) -> int:
        """Elements from the first tap to the last one."""
        return span_of(self.taps.known_length, self.dilation)

    @property
    def covered(self) -> int:
        """Elements that as many windows as the axis has elements cover."""
        return covered_by(self.axis.known_length, self.span, self.stride)

    def border(self, rule: str) -> tuple[int, int]:
        """Elements before and after the axis by which a rule pads it."""
        match rule:
            case "same":
                return same_border(self.axis.known_length, self.span, self.stride)
            case "full":
                return self.span - 1, self.span - 1
            case "causal":
                return self.span - 1, 0
            case _:
                return 0, 0


def slides(held: Axes, over: Mapping[Any, Axis], strides: PerAxis, dilations: PerAxis) -> list[Slide]:
    """How windows slide along those of the `held` axes that `over` names; UserError where they cannot."""
    if not isinstance(over, Mapping) or not over:  # pyright: ignore[reportUnnecessaryIsInstance]
        fail(UserError, f"`over` says which axes windows slide along: {{axis: axis of taps}}, not {over!r}")
    axes = Axes(held[held.index(axis)] for axis in over)
    refuse_ragged(
        axes, "windows cannot slide along", "a recurrent layer or ng.scan goes along it, sequence by sequence"
    )
    taps = make_axes(over.values())
    clash = [a.name for a in taps if a in held]
    if clash:
        fail(
            IncompatibleAxesError,
            f"the taps of windows need axes of their own: {', '.join(clash)} is one of ({', '.join(held.names)}) already",
            "rename the one or the other with ng.cast_role",
        )
    by = zip(
        axes, taps, _each(strides, axes, 1, "stride"), _each(dilations, axes, 1, "dilation"), strict=True
    )
    return [Slide(*each) for each in by]


def _each(given: PerAxis, axes: Axes, default: int, what: str) -> list[int]:
    """One whole number above zero for each axis."""
    if isinstance(given, Mapping):
        named = by_axis(given, axes, what)
        found = [named.get(a.name, default) for a in axes]
    elif isinstance(given, Sequence) and not isinstance(given, str):
        found = list(given)
        if len(found) != len(axes):
            fail(
                UserError,
                f"{len(found)} {what}s for the {counted(len(axes), 'axis')} ({', '.join(axes.names)})",
            )
    else:
        found = [given] * len(axes)
    return [whole_number(number, what, 1) for number in found]


def by_axis(given: Mapping[Any, Any], axes: Axes, what: str) -> dict[str, Any]:
    """Settings by the names of the axes that they are for; UserError for one that is none of these."""
    named = {axis if isinstance(axis, str) else axis.name: setting for axis, setting in given.items()}
    lost = [name for name in named if name not in axes.names]
    if lost:
        fail(UserError, f"a {what} for {', '.join(lost)}, but windows slide along ({', '.join(axes.names)})")
    return named


def whole_number(number: Any, what: str, least: int) -> int:
    """A setting that is a whole number; UserError for any other."""
    try:
        whole = as_index(number)
    except TypeError:
        whole = least - 1
    if whole < least or isinstance(number, bool):
        fail(UserError, f"a {what} is a whole number of at least {least}, not {number!r}")
    return whole


def borders(sliding: Sequence[Slide], padding: Padding) -> list[tuple[int, int]]:
    """Elements before and after each axis that windows slide along."""
    if isinstance(padding, str):
        if padding not in RULES:
            fail(UserError, f"padding must be one of {', '.join(RULES)}, or numbers, not {padding!r}")
        return [slide.border(padding) for slide in sliding]
    axes = Axes(slide.axis for slide in sliding)
    if isinstance(padding, Mapping):
        named = by_axis(padding, axes, "padding")
        return [_border(named.get(a.name, 0)) for a in axes]
    if isinstance(padding, Sequence):
        if len(padding) != len(axes):
            fail(
                UserError,
                f"{counted(len(padding), 'padding')} for the {counted(len(axes), 'axis')} ({', '.join(axes.names)})",
            )
        return [_border(each) for each in padding]
    return [_border(padding)] * len(axes)


def _border(given: Border) -> tuple[int, int]:
    pair = tuple(given) if isinstance(given, Sequence) else (given, given)
    if len(pair) != 2:
        fail(UserError, f"a padding must be a number or a pair (before, after), not {given!r}")
    return whole_number(pair[0], "padding", 0), whole_number(pair[1], "padding", 0)


def _attributes(axes: Axes, sliding: Sequence[Slide]) -> dict[str, tuple[int, ...]]:
    return {
        "axes": tuple([axes.index(s.axis) for s in sliding]),
        "steps": tuple([s.stride for s in sliding]),
        "dilations": tuple([s.dilation for s in sliding]),
    }


def windows_of(x: Tensor, sliding: Sequence[Slide]) -> Tensor:
    """The windows; UserError where one is longer than its axis."""
    lengths: dict[str, Axis] = {}
    for slide in sliding:
        length = x.axes[x.axes.index(slide.axis)].known_length
        if slide.span > length:
            fail(
                AxisLengthError,
                f"{described(slide.taps.known_length, slide.dilation)} does not fit into axis {slide.axis.name}, "
                f"which has {length}",
                "pad the axis, or use smaller windows",
            )
        lengths[slide.axis.name] = Axis(count_of(length, slide.span, slide.stride), slide.axis.name)
    positions = Axes(lengths.get(a.name, a) for a in x.axes)
    axes = Axes((*(slide.taps for slide in sliding), *positions))
    return VERBS.stated(ng.WindowsOp, [x], _attributes(x.axes, sliding), axes, x.element)


def overlapped(x: Tensor, sliding: Sequence[Slide], lengths: Mapping[str, int]) -> Tensor:
    """Windows summed to axes of these lengths."""
    positions = [a for a in x.axes if all(a.name != s.taps.name for s in sliding)]
    whole = Axes(Axis(lengths[a.name], a.name) if a.name in lengths else a for a in positions)
    order = Axes((*(s.taps for s in sliding), *positions))
    if order != x.axes:
        x = VERBS.transpose(x, permutation=tuple([x.axes.index(a) for a in order]))
    return VERBS.stated(ng.OverlapAddOp, [x], _attributes(whole, sliding), whole, x.element)


def windows(x: Any, over: Mapping[Any, Axis], strides: PerAxis = 1, dilations: PerAxis = 1) -> Tensor:
    """The windows that slide along some axes.

    `over` gives for each of these axes a new one, as long as a window has taps. The result has the new axes, then
    those of x; element (t, p) along an axis and its taps is element p * stride + t * dilation of x. Of an axis of n
    elements (n - (taps - 1) * dilation - 1) // stride + 1 are left: windows never reach outside (ng.pad before).

    Raises UserError for strides and dilations below 1, AxisNotFound, AxisLengthError for a window longer than its
    axis, and IncompatibleAxesError for taps along an axis that x has.
    """
    x = as_op(x)
    return windows_of(x, slides(x.axes, over, strides, dilations))


def overlap_add(
    x: Any,
    over: Mapping[Any, Axis],
    strides: PerAxis = 1,
    dilations: PerAxis = 1,
    lengths: Mapping[Any, int] | None = None,
) -> Tensor:
    """Windows summed, each at the place from which `ng.windows` takes it; the adjoint of that function.

    `x` has the axes of positions and of taps that `over` names, in any order; the result has no taps. Along an axis it
    is as long as the windows reach, or as `lengths` says.

    Raises what `ng.windows` raises, and AxisLengthError for a length that the windows do not fit.
    """
    x = as_op(x)
    order = make_axes(over.values())
    for axis in order:
        x.axes.index(axis)
    sliding = slides(x.axes - order, over, strides, dilations)
    wanted = by_axis(lengths or {}, Axes(s.axis for s in sliding), "length")
    found: dict[str, int] = {}
    for slide in sliding:
        length = found[slide.axis.name] = whole_number(
            wanted.get(slide.axis.name, slide.covered), "length", 1
        )
        if not 0 <= length - slide.covered < slide.stride:
            fail(
                AxisLengthError,
                f"{slide.axis.length} windows along {slide.axis.name} reach over {slide.covered} elements, not {length}",
            )
    return overlapped(x, sliding, found)
