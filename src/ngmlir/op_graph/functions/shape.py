# SPDX-License-Identifier: Apache-2.0
"""Functions that move elements without changing them: slices, padding, joining, renaming and reordering axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from ...ir.attributes import numeric_literal
from ...ops import ng
from ...ops.lengths import Length, total
from ...ops.ng_rules import slice_size
from ...support.borders import MODES, Border, has_room
from ...support.lengths import as_index, is_same, range_size, slice_indices
from ...support.spelling import counted, did_you_mean
from ..axes import (
    Axes,
    AxesLike,
    AxesMap,
    AxesOrNames,
    Axis,
    DerivedAxis,
    FlattenedAxis,
    make_axes,
)
from ..axis import check_axis
from ..calls import listed
from ..errors import AxisLengthError, AxisNotFound, IncompatibleAxesError, UserError, fail
from ..node_classes import node_class
from ..ragged import refuse_ragged
from ..source import user_location
from ..tensor import Index, Tensor
from ..values import as_op as any_tensor
from ..verbs import VERBS
from .coerce import as_op, broadcast, operand, result_element


def reshaped(x: Tensor, axes: Axes) -> Tensor:
    """The same elements in row-major order, with other axes."""
    return VERBS.stated(ng.ReshapeOp, [x], {}, axes, x.element)


def _rename(x: Tensor, axes: Axes) -> Tensor:
    return x if x.axes == axes else VERBS.stated(ng.CastAxesOp, [x], {}, axes, x.element)


# ---- slices


def getitem(x: Tensor, item: Index | tuple[Index, ...]) -> Tensor:
    """`x[...]`: an integer drops its axis, a slice keeps the name of its axis; `...` stands for any number of whole
    axes."""
    parts = list(item) if isinstance(item, tuple) else [item]
    dots = sum(p is Ellipsis for p in parts)
    if dots > 1:
        fail(UserError, "an index can have only one `...`")
    missing = len(x.axes) - len(parts) + dots
    if missing < 0:
        fail(
            IncompatibleAxesError,
            f"{len(parts) - dots} indices for the {counted(len(x.axes), 'axis')} ({', '.join(x.axes.names)})",
        )
    return tensor_slice(x, with_all_axes(parts, missing))


def with_all_axes(index: Sequence[Any], missing: int) -> list[Any]:
    """An index with whole ranges of as many axes as are missing, in the place of `...`, or behind it where there is none."""
    at = next((i for i, part in enumerate(index) if part is ...), len(index))
    return [*index[:at], *[slice(None)] * missing, *index[at + 1 :]]


def tensor_slice(x: Any, slices: Iterable[Index], axes: AxesOrNames | None = None) -> Tensor:
    """Indexes each axis with a slice or an integer; `axes` renames those of the result."""
    x, slices = as_op(x), listed(slices, "slices")
    if len(slices) != len(x.axes):
        fail(
            IncompatibleAxesError,
            f"{counted(len(slices), 'slice')} for the {counted(len(x.axes), 'axis')} ({', '.join(x.axes.names)})",
        )
    starts: list[Any] = []
    limits: list[Any] = []
    steps: list[int] = []
    sliced: list[Axis] = []
    kept: list[Axis] = []
    for axis, part in zip(x.axes, slices, strict=True):
        if isinstance(part, slice) and part == slice(None):
            # The axis itself stands for its length, which may still change.
            places: tuple[Any, Any, int] = (0, axis, 1)
            new = axis
        elif isinstance(part, slice):
            places, new = _bounds(part, axis)
        else:
            at = _position(part, axis)
            places, new = (at, at + 1, 1), Axis(1, axis.name)
        for column, place in zip((starts, limits, steps), places, strict=True):
            column.append(place)
        sliced.append(new)
        if isinstance(part, slice):
            kept.append(new)
    cut = [axis for axis, new in zip(x.axes, sliced, strict=True) if axis is not new]
    refuse_ragged(
        cut, "a slice cannot cut", "ng.segment_first and ng.segment_last give a row of each sequence"
    )
    made = x
    if any(a is not b for a, b in zip(sliced, x.axes, strict=True)):
        attributes = {"starts": tuple(starts), "limits": tuple(limits), "steps": tuple(steps)}
        made = node_class(ng.SliceOp)([x], attributes, x.axes.like(sliced), x.element)
    if len(kept) < len(sliced):
        made = reshaped(made, x.axes.like(kept))
    return made if axes is None else cast_axes(made, axes)


def _bounds(part: slice, axis: Axis) -> tuple[tuple[Any, Any, int], Axis]:
    """Where a slice starts and ends, and its step; and the axis of what it takes. All follow from the length of `axis`."""
    try:
        step = part.indices(0)[2]
    except (TypeError, ValueError) as error:
        fail(UserError, f"{part} cannot slice axis {axis.name}: {error}")
    start, limit = (Length(partial(_end, part, i), axis) for i in (0, 1))
    return (start, limit, step), DerivedAxis(axis.name, Length(slice_size, start, limit, step))


def _end(part: slice, which: int, length: int) -> int:
    """The first position (0) that a slice of an axis takes, or the one after the last (1)."""
    start, stop, step = slice_indices(part, length)
    count = range_size(start, stop, step)
    if step < 0 and count:
        return (start, start + (count - 1) * step - 1)[which]
    return (start, start + count * step)[which]


def _position(part: Any, axis: Axis) -> Any:
    try:
        at = as_index(part)
    except TypeError:
        fail(
            UserError,
            f"axis {axis.name} is indexed with integers and slices, not with {part!r}",
            _instead_of_index(part),
        )
    place = user_location()

    def found(length: int) -> int:
        if not -length <= at < length:
            fail(UserError, f"index {at} of axis {axis.name}, which has {length} elements", location=place)
        return at % length

    position = Length(found, axis)
    _ = position.length  # where the length is known, it is checked now
    return position


def _instead_of_index(part: Any) -> str:
    """What is written where NumPy is indexed with something else."""
    if part is None:
        return "ng.expand_dims(x, axis, position) makes a new axis; tensors are matched by names without it"
    if isinstance(part, str):
        return f"ng.slice_along_axis(x, {part!r}, ...) slices the axis of that name"
    first: Any = next(iter(cast("list[Any]", part)), None) if isinstance(part, list) else part
    if isinstance(first, bool) or getattr(getattr(first, "dtype", None), "kind", "") == "b":
        return "ng.where(mask, x, 0): lengths cannot depend on values; ng.assign(x, ng.where(mask, value, x)) writes"
    return "ng.gather(x, indices, axis) for tensors of indices, ng.scatter(x, indices, updates, axis) to set"


def slice_along_axis(x: Any, axis: Any, idx: Any) -> Tensor:
    """Indexes one axis with a slice or an integer."""
    x = as_op(x)
    place = x.axes.index(axis)
    return tensor_slice(x, [idx if i == place else slice(None) for i in range(len(x.axes))])


# ---- order and names


def axes_with_order(x: Any, axes: AxesOrNames) -> Tensor:
    """The same tensor with its axes in another order."""
    x = any_tensor(x)
    order = x.axes.chosen(axes)
    if not x.axes.is_equal_set(order):
        fail(
            IncompatibleAxesError,
            f"({', '.join(order.names)}) is not a permutation of ({', '.join(x.axes.names)})",
        )
    return broadcast(x, order)


def Transpose(x: Any) -> Tensor:
    """The axes in reverse order."""
    x = as_op(x)
    return broadcast(x, Axes(reversed(x.axes)))


def cast_axes(x: Any, axes: AxesOrNames) -> Tensor:
    """The same elements with other axes of the same lengths, position by position. A name makes an axis with the
    length of the one it replaces."""
    x, axes = any_tensor(x), _new_axes(axes)
    if len(axes) != len(x.axes):
        fail(
            IncompatibleAxesError,
            f"({', '.join(x.axes.names)}) cannot be named ({', '.join(axes.names)}): a different number of axes",
        )
    for old, new in zip(x.axes, axes, strict=True):
        if old.length != new.length and None not in (old.length, new.length):
            fail(
                AxisLengthError,
                f"{old.name} has {old.length} elements, {new.name} has {new.length}",
                "cast_role only renames",
            )
    return _rename(x, Axes(_as_long_as(old, new) for old, new in zip(x.axes, axes, strict=True)))


def _new_axes(axes: AxesOrNames) -> Axes:
    """Axes, of which names stand for new ones without a length."""
    given: Any = [axes] if isinstance(axes, str) else axes
    if isinstance(given, (list, tuple)):
        given = [Axis(name=a) if isinstance(a, str) else a for a in cast("Iterable[Any]", given)]
    return make_axes(given)


def _as_long_as(old: Axis, new: Axis) -> Axis:
    """`new` in place of `old`: an axis without a length gets that of the one it replaces."""
    return old.renamed(new.name) if new.length is None and new.name != old.name else new


def cast_role(x: Any, axes: AxesOrNames) -> Tensor:
    """Renames the axes, position by position, to these names (or those of these axes); lengths are kept."""
    given: Any = axes
    if isinstance(given, Mapping) and any(
        isinstance(a, (Axis, str)) for a in cast("Mapping[Any, Any]", given).values()
    ):
        fail(
            UserError,
            "cast_role takes one name for each axis, in order",
            "ng.map_roles(x, {old: new}) takes a dictionary",
        )
    x, roles = any_tensor(x), _new_axes(axes)
    if len(roles) != len(x.axes):
        fail(
            IncompatibleAxesError,
            f"({', '.join(x.axes.names)}) cannot be named ({', '.join(roles.names)}): a different number of axes",
        )
    return _rename(
        x,
        Axes(
            old.renamed(new.name) if new.length is None or new.length != old.length else new
            for old, new in zip(x.axes, roles, strict=True)
        ),
    )


def map_roles(x: Any, axes_map: Mapping[Any, Any]) -> Tensor:
    """Renames the axes that `axes_map` names."""
    x, names = as_op(x), AxesMap(axes_map)
    for name in names:
        x.axes.index(name)
    return _rename(x, names.map_axes(x.axes))


def expand_dims(x: Any, axis: Axis, dim: int) -> Tensor:
    """Repeats x along a new axis at position `dim`."""
    return as_op(x).insert_axis(dim, axis)


def flatten(x: Any, axes: AxesOrNames | None = None) -> Tensor:
    """Flattens all axes into one; with `axes` (possibly nested), into those groups."""
    x = as_op(x)
    wanted = Axes((x.axes.flatten(),)) if axes is None else x.axes.chosen(axes)
    order = Axes(
        part for axis in wanted for part in (axis.axes if isinstance(axis, FlattenedAxis) else (axis,))
    )
    if not order.is_equal_set(x.axes):
        return reshaped(x, wanted)
    return reshaped(broadcast(x, order), wanted)


def flatten_at(x: Any, idx: int) -> Tensor:
    """Two axes: the first `idx` ones and the rest, each flattened; a single axis stays itself."""
    x = as_op(x)
    return reshaped(x, Axes((x.axes[:idx].flatten(), x.axes[idx:].flatten())))


def unflatten(x: Any, axes: AxesLike | None = None) -> Tensor:
    """Replaces flattened axes by their parts; with `axes`, exactly these."""
    x = as_op(x)
    if axes is None:
        return reshaped(
            x,
            Axes(
                part
                for axis in x.axes
                for part in (axis.axes if isinstance(axis, FlattenedAxis) else (axis,))
            ),
        )
    return reshaped(x, make_axes(axes))


# ---- joining and padding


def pad(
    x: Any,
    paddings: Iterable[int | Sequence[int]],
    axes: AxesOrNames | None = None,
    value: float = 0,
    border: Border | None = None,
) -> Tensor:
    """Pads with `value`: per axis a number of elements, or (before, after). With `border` the elements are those of x, as `np.pad` takes
    them: `edge`, `reflect`, `symmetric` or `wrap`, each at most once on each side.

    Raises UserError where an axis has too few elements for that.
    """
    x, paddings = as_op(x), listed(paddings, "paddings")
    if len(paddings) != len(x.axes):
        fail(
            IncompatibleAxesError,
            f"{counted(len(paddings), 'padding')} for the {counted(len(x.axes), 'axis')} ({', '.join(x.axes.names)})",
        )
    pairs = [_padding(p) for p in paddings]
    if any(lo < 0 or hi < 0 for lo, hi in pairs):
        fail(UserError, f"negative padding in {pairs}", "slice to remove elements")
    stay = [is_same(lo, 0) and is_same(hi, 0) for lo, hi in pairs]
    if all(stay):
        return x if axes is None else cast_axes(x, axes)
    refuse_ragged(
        [a for a, stays in zip(x.axes, stay, strict=True) if not stays],
        "padding cannot lengthen",
        "pad what is fed",
    )
    padded = Axes(
        a if stays else DerivedAxis(a.name, Length(total, lo, a, hi))
        for a, stays, (lo, hi) in zip(x.axes, stay, pairs, strict=True)
    )
    low, high = tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)
    attributes: dict[str, Any] = {"low": low, "high": high}
    if border is not None:
        _check_border(border, x.axes, pairs, value)
        attributes["border"] = border
    elif value:
        attributes["value"] = numeric_literal(value, x.element)
    made = VERBS.stated(ng.PadOp if border is None else ng.BorderPadOp, [x], attributes, padded, x.element)
    return made if axes is None else cast_axes(made, axes)


def _check_border(border: str, axes: Axes, pairs: Sequence[tuple[int, int]], value: float) -> None:
    if border not in MODES:
        hint = did_you_mean(border, MODES) or f"there are {', '.join(sorted(MODES))}"
        fail(UserError, f"there is no border '{border}'", hint)
    if value:
        fail(UserError, f"a border of x's own elements has no value {value}", "leave out `value` or `border`")
    for axis, pair in zip(axes, pairs, strict=True):
        if any(pair) and not has_room(border, axis.known_length, *pair):
            fail(
                UserError,
                f"{axis.name} has {axis.known_length} elements, too few to be padded by {pair} with '{border}'",
                "ng.numpy.pad pads by more than there are",
            )


def _padding(given: int | Sequence[int]) -> tuple[int, int]:
    try:
        before, after = given if isinstance(given, Sequence) else (given, given)
        return as_index(before), as_index(after)
    except (TypeError, ValueError):
        fail(UserError, f"a padding must be an integer or a pair (before, after), not {given!r}")


def _alike(xs: Sequence[Tensor]) -> list[Tensor]:
    """All with one element type."""
    if len({x.element for x in xs}) == 1:
        return list(xs)
    element = result_element(None, *xs, whole=True)
    return [operand(x, element) for x in xs]


def stack(x_list: Iterable[Any], axis: Axis | str, pos: int = 0) -> Tensor:
    """Stacks tensors along a new axis (or one of that name) at position `pos`."""
    xs = _alike([as_op(x) for x in listed(x_list, "tensors")])
    if isinstance(axis, str):
        axis = Axis(len(xs), axis)
    check_axis(axis)
    if not xs:
        fail(UserError, "nothing to stack")
    if axis.length is None:
        axis.length = len(xs)
    if axis.length != len(xs):
        fail(
            AxisLengthError,
            f"{counted(len(xs), 'tensor')} stacked along {axis.name}, which has {axis.length} elements",
        )
    first = xs[0].axes
    xs = [axes_with_order(x, first) for x in xs]
    return VERBS.stated(
        ng.StackOp, xs, {"axis": pos}, Axes((*first[:pos], axis, *first[pos:])), xs[0].element
    )


def concat_along_axis(x_list: Iterable[Any], axis: Any) -> Tensor:
    """Concatenates tensors along an axis that all have. Its length may differ in each."""
    xs = _alike([as_op(x) for x in listed(x_list, "tensors")])
    if not xs:
        fail(UserError, "nothing to concatenate")
    first = xs[0].axes
    for x in xs:
        if not first.is_equal_set(x.axes):
            fail(
                AxisNotFound,
                f"({', '.join(x.axes.names)}) and ({', '.join(first.names)}) differ and cannot be concatenated",
            )
    place = first.index(axis)
    refuse_ragged(
        [x.axes[x.axes.index(axis)] for x in xs], "tensors cannot be joined along", "join what is fed"
    )
    ordered: list[Tensor] = []
    for x in xs:
        own = Axes(x.axes[x.axes.index(a)] if i == place else a for i, a in enumerate(first))
        ordered.append(broadcast(x, own))
    joined = [x.axes[place] for x in ordered]
    whole = DerivedAxis(first[place].name, Length(total, *joined))
    axes = Axes(whole if i == place else a for i, a in enumerate(first))
    return VERBS.stated(ng.ConcatenateOp, ordered, {"axis": place}, axes, ordered[0].element)
