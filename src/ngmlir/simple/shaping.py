# SPDX-License-Identifier: Apache-2.0
"""Moves of features: in another shape or order, by parts, joined. Samples and steps stay what they are."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, SupportsIndex, cast

from ..op_graph import functions as ng_functions
from ..op_graph.axis import Axis
from ..op_graph.calls import listed
from ..op_graph.errors import IncompatibleAxesError, UserError, fail
from ..op_graph.functions.coerce import broadcast as broadcast_to_axes
from ..op_graph.functions.shape import with_all_axes
from ..op_graph.state import set_item as set_item_of
from ..op_graph.tensor import Tensor
from ..ops.roles import STEPS
from .operands import as_simple, named, place, renamed, shape, simple, simple_axes, with_features


def reshape(x: Any, *wanted: Any) -> Tensor:
    """The same features, row by row, in another shape, given as one or as several numbers; -1 is what is left."""
    x = as_simple(x)
    given = wanted[0] if len(wanted) == 1 else wanted
    lengths = (
        [operator.index(n) for n in cast("Iterable[Any]", given)] if isinstance(given, Iterable) else [given]
    )
    count = math.prod(shape(x))
    if lengths.count(-1) == 1:
        rest = math.prod(n for n in lengths if n != -1)
        lengths = [(count // rest if rest else 0) if n == -1 else n for n in lengths]
    if math.prod(lengths) != count or any(n < 0 for n in lengths):
        fail(IncompatibleAxesError, f"features of shape {shape(x)} cannot be reshaped to {tuple(lengths)}")
    return with_features(x, lengths)


def flatten(x: Any) -> Tensor:
    """All features as one."""
    return reshape(x, -1) if math.prod(shape(as_simple(x))) else reshape(x, 0)


def transpose(x: Any, *order: Any) -> Tensor:
    """The features in another order, in the reverse one unless told."""
    x = as_simple(x)
    rank = len(shape(x))
    given = order[0] if len(order) == 1 and not isinstance(order[0], int) else order
    places = [place(a, rank) for a in given] if given else [*reversed(range(rank))]
    if sorted(places) != [*range(rank)]:
        fail(UserError, f"{given} is not a permutation of {rank} features")
    names = [f"_place{d}" for d in range(rank)]
    made = renamed(x, *names)
    return simple(broadcast_to_axes(made, [*simple_axes(x).roles, *(names[d] for d in places)]))


Transpose = transpose


def expand_dims(x: Any, axis: int) -> Tensor:
    """A feature of length 1 more, at a position."""
    x = as_simple(x)
    have = [*shape(x)]
    have.insert(place(axis, len(have) + 1), 1)
    return with_features(x, have)


def squeeze(x: Any, axis: int | None = None) -> Tensor:
    """Without the features of length 1, or without one of them."""
    x = as_simple(x)
    have = shape(x)
    gone = [d for d, n in enumerate(have) if n == 1] if axis is None else [place(axis, len(have))]
    if any(have[d] != 1 for d in gone):
        fail(IncompatibleAxesError, f"feature {axis} of shape {have} has another length than 1")
    return with_features(x, [n for d, n in enumerate(have) if d not in gone])


def broadcast(x: Any, axes: Any) -> Tensor:
    """Repeated to axes of this family."""
    return broadcast_to_axes(as_simple(x), axes)


def getitem(x: Tensor, item: Any) -> Tensor:
    """Features by integers, slices, `...` and None, as NumPy takes them."""
    parts: list[Any] = list(cast("tuple[Any, ...]", item)) if isinstance(item, tuple) else [item]
    rank, roles = len(shape(x)), simple_axes(x).roles
    taken = sum(p is not None and p is not Ellipsis for p in parts)
    if sum(p is Ellipsis for p in parts) > 1:
        fail(UserError, "an index can have only one `...`")
    if taken > rank:
        fail(
            IncompatibleAxesError,
            f"{taken} indices for features of shape {shape(x)}",
            "indices are those of features: for steps there are ng.simple.step and scan",
        )
    for part in parts:
        if part is not None and part is not Ellipsis and not isinstance(part, (slice, SupportsIndex)):
            fail(
                UserError,
                f"features are indexed with integers and slices, not with {part!r}",
                "ng.simple.take(x, indices, axis) looks up several",
            )
    parts = with_all_axes(parts, rank - taken)
    made = ng_functions.tensor_slice(
        named(x), [*(slice(None) for _ in roles), *(p for p in parts if p is not None)]
    )
    made = simple(made)
    if None not in parts:
        return made
    lengths = iter(shape(made))
    left = [p for p in parts if p is None or isinstance(p, slice)]
    return with_features(made, [1 if p is None else next(lengths) for p in left])


def set_item(x: Tensor, item: Any, value: Any) -> Any:
    """A write of features of storage by integers and slices."""
    return set_item_of(x, item, value)


def iterate(x: Tensor) -> Iterator[Tensor]:
    """The parts along the first feature, one after the other."""
    if not shape(x):
        fail(UserError, f"{x.called} has no features to go through")
    return (getitem(x, i) for i in range(shape(x)[0]))


def step(x: Any, index: int) -> Tensor:
    """What a tensor is at one step; negative ones count from the last."""
    x = as_simple(x)
    return simple(ng_functions.slice_along_axis(named(x), STEPS, index))


def concatenate(xs: Iterable[Any], axis: int = 0) -> Tensor:
    """Joined along a feature, of which each may have its own length; samples and steps that one lacks are repeated."""
    made = [as_simple(x) for x in listed(xs, "tensors")]
    if not made:
        fail(UserError, "nothing to concatenate")
    rank = len(shape(made[0]))
    at = place(axis, rank)
    if any(len(shape(x)) != rank for x in made):
        fail(
            IncompatibleAxesError,
            f"features of shapes {' '.join(str(shape(x)) for x in made)} cannot be joined",
        )
    names = [f"_place{d}" for d in range(rank)]
    roles = _all_roles(made)
    named_ones = [_repeated(renamed(x, *names), roles) for x in made]
    return simple(ng_functions.concat_along_axis(named_ones, names[at]))


def stack(xs: Sequence[Any], axis: int = 0) -> Tensor:
    """Joined along a new feature that stands at a position."""
    return concatenate([expand_dims(x, axis) for x in listed(xs, "tensors")], axis)


def _all_roles(xs: Sequence[Tensor]) -> list[Axis]:
    found = {a.name: a for x in xs for a in simple_axes(x).roles}
    return [found[n] for n in sorted(found)]


def _repeated(x: Tensor, roles: Sequence[Axis]) -> Tensor:
    lacking = [a for a in roles if a not in x.axes]
    return broadcast_to_axes(x, [*lacking, *x.axes]) if lacking else x


def pad(x: Any, paddings: Sequence[Any], value: float = 0) -> Tensor:
    """Elements of `value` around features: a number, or (before, after), for each of them."""
    x = as_simple(x)
    around = [0] * len(simple_axes(x).roles)
    return simple(ng_functions.pad(named(x), [*around, *paddings], value=value))
