# SPDX-License-Identifier: Apache-2.0
"""Pooling: windows reduced to their greatest element, mean or sum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NoReturn

import numpy as np

from ...ir.literals import dtype_of
from ...ir.types import FloatType, i1
from ...ops.sliding import count_of
from ...support.lengths import is_same
from ..axes import Axis
from ..errors import UserError, fail
from ..tensor import Tensor
from ..values import constant
from ..verbs import VERBS
from ..verbs import cast as cast_elements
from .coerce import as_op, broadcast, floating, result_element
from .elementwise import divide, multiply
from .shape import pad
from .sliding import Padding, PerAxis, Slide, borders, slides, whole_number, windows_of

KINDS = ("max", "mean", "sum")


def pool(
    x: Any,
    over: Mapping[Any, int],
    kind: Literal["max", "mean", "sum"] = "max",
    strides: PerAxis | None = None,
    dilations: PerAxis = 1,
    padding: Padding = "valid",
    dtype: Any = None,
) -> Tensor:
    """Each window of x reduced to one element: its greatest one, their mean or their sum.

    `over` gives the number of taps for each axis that windows slide along: `{H: 2, W: 2}`. Windows are adjacent and do not
    overlap unless `strides` are given; `padding` is that of `ng.convolve`. Axes and their order stay those of x.

    Padding is ignored: it is never the maximum, and the mean is over the elements
    inside. The gradient of `max` goes to the first of equal elements in each window.

    Raises UserError for a kind that is none, settings that fit no axis, and windows that contain padding only;
    AxisNotFound; AxisLengthError for windows longer than their axis.
    """
    if kind not in KINDS:
        fail(UserError, f"the pooling operation must be one of {', '.join(KINDS)}, not {kind!r}")
    x, element = as_op(x), result_element(dtype)
    if kind in ("mean", "sum") or x.element is i1:
        x = floating(x, dtype)
    if not isinstance(over, Mapping) or not over:  # pyright: ignore[reportUnnecessaryIsInstance]
        fail(UserError, f"`over` says how many taps windows have: {{H: 2, W: 2}}, not {over!r}")
    taps = {axis: Axis(whole_number(count, "number of taps", 1)) for axis, count in over.items()}
    sliding = slides(x.axes, taps, over if strides is None else strides, dilations)
    around = borders(sliding, padding)
    for slide, pair in zip(sliding, around, strict=True):
        _refuse_padding_only(slide, *pair)
    sides = {s.axis.name: pair for s, pair in zip(sliding, around, strict=True)}
    windows = windows_of(pad(x, [sides.get(a.name, 0) for a in x.axes], value=_least(x, kind)), sliding)
    places = tuple(range(len(sliding)))
    if kind == "max":
        made = VERBS.first_max(windows, axes=places)
    elif kind == "sum":
        made = VERBS.sum(windows, axes=places)
    elif all(is_same(n, 0) for pair in around for n in pair):
        made = VERBS.mean(windows, axes=places)
    else:
        total = VERBS.sum(windows, axes=places)
        made = divide(total, _counts(sliding, around, total), total.dtype)
    return cast_elements(made, element)


def _least(x: Tensor, kind: str) -> float:
    """What is padded: it is greater than nothing, and adds nothing."""
    if kind != "max":
        return 0
    return float("-inf") if isinstance(x.element, FloatType) else int(np.iinfo(dtype_of(x.element)).min)


def _refuse_padding_only(slide: Slide, before: int, after: int) -> None:
    """UserError where a window contains padding only: one that begins before the axis, or the last one."""
    length, taps = slide.axis.known_length, slide.taps.known_length
    for place, start in enumerate(range(-before, 0, slide.stride)):
        tap = -(start // slide.dilation)  # the first one that is not before the axis
        if tap >= taps or start + tap * slide.dilation >= length:
            _refuse_window(slide, place)
    last = count_of(before + length + after, slide.span, slide.stride) - 1
    if last * slide.stride - before >= length:
        _refuse_window(slide, -(-(length + before) // slide.stride))


def _refuse_window(slide: Slide, place: int) -> NoReturn:
    fail(UserError, f"window {place} along {slide.axis.name} lies entirely in the padding", "pad less")


def _counts(sliding: list[Slide], around: list[tuple[int, int]], like: Tensor) -> Tensor:
    """How many elements of each window are no padding."""
    found = constant(1, dtype=like.element)
    for slide, (before, after) in zip(sliding, around, strict=True):
        ones = broadcast(constant(1, dtype=like.element), [slide.axis])
        windows = windows_of(pad(ones, [(before, after)]), [slide])
        found = multiply(found, VERBS.sum(windows, axes=(0,)), like.dtype)
    return found
