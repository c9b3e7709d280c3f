# SPDX-License-Identifier: Apache-2.0
"""Pooling: windows reduced to their greatest element, mean or sum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from ...ir.literals import dtype_of
from ...ir.types import FloatType, i1
from ..axes import Axis
from ..errors import UserError, fail
from ..tensor import Tensor
from ..values import constant
from ..verbs import VERBS
from ..verbs import cast as cast_elements
from .coerce import as_op, floating, result_element
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
    inside = [_inside(s, *pair) for s, pair in zip(sliding, around, strict=True)]
    sides = {s.axis.name: pair for s, pair in zip(sliding, around, strict=True)}
    windows = windows_of(pad(x, [sides.get(a.name, 0) for a in x.axes], value=_least(x, kind)), sliding)
    places = tuple(range(len(sliding)))
    if kind == "max":
        made = VERBS.first_max(windows, axes=places)
    elif kind == "sum":
        made = VERBS.sum(windows, axes=places)
    elif all(s.taps.length == count for s, counts in zip(sliding, inside, strict=True) for count in counts):
        made = VERBS.mean(windows, axes=places)
    else:
        total = VERBS.sum(windows, axes=places)
        made = divide(total, _counts(sliding, inside, total), total.dtype)
    return cast_elements(made, element)


def _least(x: Tensor, kind: str) -> float:
    """What is padded: it is greater than nothing, and adds nothing."""
    if kind != "max":
        return 0
    return float("-inf") if isinstance(x.element, FloatType) else int(np.iinfo(dtype_of(x.element)).min)


def _inside(slide: Slide, before: int, after: int) -> list[int]:
    """The number of elements of each window along an axis that are no padding."""
    length = slide.axis.known_length
    starts = range(-before, length + after - slide.span + 1, slide.stride)
    found = [
        sum(0 <= start + t * slide.dilation < length for t in range(slide.taps.known_length))
        for start in starts
    ]
    if 0 in found:
        fail(
            UserError,
            f"window {found.index(0)} along {slide.axis.name} lies entirely in the padding",
            "pad less",
        )
    return found


def _counts(sliding: list[Slide], inside: list[list[int]], like: Tensor) -> Tensor:
    """How many elements each window has."""
    found = constant(1, dtype=like.element)
    for slide, counts in zip(sliding, inside, strict=True):
        axis = like.axes[like.axes.index(slide.axis)]
        line = constant(np.array(counts), axes=[axis], dtype=like.element)
        found = multiply(found, line, like.dtype)
    return found
