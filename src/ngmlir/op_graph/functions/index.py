# SPDX-License-Identifier: Apache-2.0
"""Functions that look up elements by tensors of indices."""

from __future__ import annotations

from typing import Any, Literal

from ...ir.types import FloatType, i1, i32
from ...ops import ng
from ...ops.lengths import Length, total
from ..axes import Axes, AxesLike, AxesOrNames, Axis, make_axes
from ..errors import IncompatibleAxesError, UserError, fail
from ..tensor import Tensor
from ..verbs import VERBS
from ..verbs import cast as cast_elements
from .coerce import as_op, broadcast, result_element
from .composed import stop_gradient


def indices_of(x: Any) -> Tensor:
    """What is looked up by: floats are truncated."""
    x = as_op(x)
    return cast_elements(x, i32) if isinstance(x.element, FloatType) or x.element is i1 else x


def one_hot(x: Any, axis: Axis, dtype: Any = None) -> Tensor:
    """1 at the index and 0 elsewhere, along a new first axis; all 0 for an index out of range."""
    x = indices_of(x)
    return VERBS.stated(
        ng.OneHotOp, [x], {"axis": 0}, Axes((*make_axes(axis), *x.axes)), result_element(dtype)
    )


def gather(x: Any, indices: Any, axis: Any) -> Tensor:
    """Slices of x by index along an axis; the axes of the indices replace it."""
    x = as_op(x)
    return VERBS.gather(x, indices_of(indices), axis=x.axes.index(axis))


def gather_elements(x: Any, indices: Any, axis: Any) -> Tensor:
    """One element for each index: at the index along the axis, and at the same position along the others."""
    x, indices = as_op(x), indices_of(indices)
    place = x.axes.index(axis)
    along = indices.axes[indices.axes.index(axis)]
    axes = Axes((*x.axes[:place], along, *x.axes[place + 1 :]))
    made = broadcast(indices, axes)
    return VERBS.stated(ng.GatherElementsOp, [x, made], {"axis": place}, axes, x.element)


def scatter(
    x: Any, indices: Any, updates: Any, axis: Any, combine: Literal["set", "add", "max", "min"] = "set"
) -> Tensor:
    """x with slices along an axis set (or `add`, `max`, `min`) to updates at indices."""
    x, indices = as_op(x), indices_of(indices)
    place = x.axes.index(axis)
    axes = Axes((*x.axes[:place], *indices.axes, *x.axes[place + 1 :]))
    return VERBS.scatter(
        x, indices, broadcast(cast_elements(as_op(updates), x.element), axes), axis=place, combine=combine
    )


def lookuptable(
    lut: Any, idx: Any, axes: AxesOrNames, update: bool = True, pad_idx: int | None = None
) -> Tensor:
    """An embedding: rows of `lut`, which has two axes, by index.

    `axes` are those of the result, in its order: if the second axis of `lut` is one of them its first is looked up, else the
    second; the axes of `idx`, any number of them, replace it. Negative indices count from the end, and floats
    are truncated. The gradient by `lut` adds up what comes to each row, by a scatter. Row `pad_idx` gets no gradient
    (its value is looked up as any other's); with `update=False` no row does.

    Raises IncompatibleAxesError for axes that are not these, UserError for a `pad_idx` that is no row.
    """
    lut, idx = as_op(lut), indices_of(idx)
    wanted = (lut.axes | idx.axes).chosen(axes)
    if len(lut.axes) != 2:
        fail(IncompatibleAxesError, f"a lookup table must have two axes, not ({', '.join(lut.axes.names)})")
    looked_up = 0 if lut.axes[1] in wanted else 1
    made = Axes((*lut.axes[:looked_up], *idx.axes, *lut.axes[looked_up + 1 :]))
    if made != wanted:
        fail(
            IncompatibleAxesError,
            f"looking up {lut.axes[looked_up].name} gives ({', '.join(made.names)}), not ({', '.join(wanted.names)})",
            "reorder with ng.axes_with_order",
        )
    pad = None if pad_idx is None else _row(pad_idx, lut.axes[looked_up])
    return VERBS.lookup(lut if update else stop_gradient(lut), idx, axis=looked_up, pad=pad)


def _row(index: int, rows: Axis) -> Any:
    """The position of a row, counted from the start."""
    length = rows.length
    if length is not None and not -length <= index < length:
        fail(UserError, f"there is no row {index} along {rows.name}, which has {length}")
    return index if index >= 0 else Length(total, index, rows)


def iota(axes: AxesLike, axis: Any, dtype: Any = "i32") -> Tensor:
    """The position of each element along an axis."""
    axes = make_axes(axes)
    return VERBS.stated(ng.IotaOp, [], {"dimension": axes.index(axis)}, axes, result_element(dtype))
