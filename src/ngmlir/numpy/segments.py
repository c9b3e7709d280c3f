# SPDX-License-Identifier: Apache-2.0
"""Functions on segments: runs of rows along one axis, where `offsets` says. docs/ragged.md tells of them.

`offsets` has one integer more than there are segments; they begin with 0, never fall, and end with the number of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..op_graph.axes import Axes, Axis, DerivedAxis
from ..op_graph.functions import segments as named
from ..op_graph.positions import Positions
from ..op_graph.tensor import Tensor
from ..op_graph.verbs import VERBS
from ..ops import ng
from ..ops.lengths import Length, same
from .arrays import as_array, place


def _with_names(x: Tensor) -> Tensor:
    """The array with a unique name for each axis."""
    axes = Axes(DerivedAxis(Axis().name, Length(same, axis)) for axis in x.axes)
    return VERBS.stated(ng.CastAxesOp, [x], {}, axes, x.element)


def _made(function: Callable[..., Tensor], a: Any, offsets: Any, axis: int, **more: Any) -> Tensor:
    """A function of named axes on an array, along the axis at a place."""
    x, bounds = as_array(a), as_array(offsets, None if isinstance(offsets, Tensor) else np.int32)
    inner = _with_names(x)
    found = function(inner, _with_names(bounds), axis=inner.axes[place(axis, len(x.axes))], **more)
    return VERBS.stated(ng.CastAxesOp, [found], {}, Positions(found.axes), found.element)


def segment_sum(a: Any, offsets: Any, axis: int = 0) -> Tensor:
    """The sum of the rows of each segment; 0 for an empty one. The type stays."""
    x = as_array(a)
    return _made(named.segment_sum, x, offsets, axis, dtype=x.element)


def segment_prod(a: Any, offsets: Any, axis: int = 0) -> Tensor:
    """The product of the rows of each segment; 1 for an empty one. The type stays."""
    x = as_array(a)
    return _made(named.segment_prod, x, offsets, axis, dtype=x.element)


def segment_mean(a: Any, offsets: Any, axis: int = 0) -> Tensor:
    """The mean of the rows of each segment; 0 for an empty one."""
    return _made(named.segment_mean, a, offsets, axis)


def segment_max(a: Any, offsets: Any, axis: int = 0) -> Tensor:
    """The maximum of the rows of each segment; -inf or the smallest integer for an empty one."""
    return _made(named.segment_max, a, offsets, axis)


def segment_min(a: Any, offsets: Any, axis: int = 0) -> Tensor:
    """The minimum of the rows of each segment; inf or the largest integer for an empty one."""
    return _made(named.segment_min, a, offsets, axis)


def segment_first(a: Any, offsets: Any, axis: int = 0) -> Tensor:
    """The first row of each segment; 0 for an empty one."""
    return _made(named.segment_first, a, offsets, axis)


def segment_last(a: Any, offsets: Any, axis: int = 0) -> Tensor:
    """The last row of each segment; 0 for an empty one."""
    return _made(named.segment_last, a, offsets, axis)


def segment_softmax(a: Any, offsets: Any, axis: int = 0) -> Tensor:
    """Softmax within each segment."""
    return _made(named.segment_softmax, a, offsets, axis)


def segment_cumsum(a: Any, offsets: Any, axis: int = 0) -> Tensor:
    """The sum up to each row, from the first of its segment. The type stays."""
    x = as_array(a)
    return _made(named.segment_cumulative_sum, x, offsets, axis, dtype=x.element)


def segment_cumprod(a: Any, offsets: Any, axis: int = 0) -> Tensor:
    """The product up to each row, from the first of its segment. The type stays."""
    x = as_array(a)
    return _made(named.segment_cumulative_prod, x, offsets, axis, dtype=x.element)


def segment_expand(a: Any, offsets: Any, rows: int, axis: int = 0) -> Tensor:
    """Row s for each row of segment s; `rows` is how many these are together, the last of the offsets."""
    return _made(named.segment_expand, a, offsets, axis, rows=Axis(rows))
