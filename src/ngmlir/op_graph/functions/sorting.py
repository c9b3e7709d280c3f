# SPDX-License-Identifier: Apache-2.0
"""The order of elements along an axis. Equal elements keep their places; a NaN counts as greater than every number."""

from __future__ import annotations

from typing import Any

from ...ir.types import Type, i1, ui8
from ...ops import ng
from ..axes import Axes, Axis
from ..building import BUILDING
from ..errors import AxisLengthError, fail
from ..ragged import refuse_ragged
from ..tensor import Tensor
from ..values import element_of
from ..verbs import VERBS
from ..verbs import cast as cast_elements
from .coerce import as_op, one_of
from .index import gather_elements
from .shape import slice_along_axis


def _axis(x: Tensor, axis: Any) -> Axis:
    found = x.axes[x.axes.index(one_of(x, None, axis))]
    refuse_ragged(
        [found], "elements cannot be sorted along", "ng.max(x, axis) is the greatest of each sequence"
    )
    return found


def argsort(x: Any, axis: Any, descending: bool = False, dtype: Any = None) -> Tensor:
    """The positions along an axis that sort it, int32: ascending, or descending with `descending`."""
    x = as_op(x)
    element = BUILDING.integer if dtype is None else element_of(dtype)
    return _order(x, _axis(x, axis), descending, element, x.axes)


def _order(x: Tensor, axis: Axis, descending: bool, element: Type, axes: Axes) -> Tensor:
    """As many of the first positions as `axes` says."""
    place = x.axes.index(axis)
    x = cast_elements(x, ui8) if x.element is i1 else x
    return VERBS.stated(ng.ArgsortOp, [x], {"axis": place, "descending": descending}, axes, element)


def sort(x: Any, axis: Any, descending: bool = False) -> Tensor:
    """The elements sorted along an axis."""
    x = as_op(x)
    return gather_elements(x, argsort(x, axis, descending), _axis(x, axis))


def top_k(x: Any, k: int, axis: Any) -> tuple[Tensor, Tensor]:
    """The k greatest elements along an axis, the greatest first, and their positions. Of equal elements the first ones.

    The axis keeps its name, and has k elements. Raises AxisLengthError where it has fewer.
    """
    x = as_op(x)
    along = _axis(x, axis)
    if k < 0 or (along.length is not None and k > along.length):
        fail(AxisLengthError, f"the {k} greatest of {along.length} elements along {along.name}")
    kept = slice_along_axis(x, along, slice(k)).axes
    at = _order(x, along, True, BUILDING.integer, kept)
    return gather_elements(x, at, along), at
