# SPDX-License-Identifier: Apache-2.0
"""From tensors of this family to those that functions of named axes take, and back."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from numbers import Number
from typing import Any, cast

import numpy as np

from ..op_graph.axes import Axes
from ..op_graph.axis import Axis
from ..op_graph.errors import AxisNotFound, IncompatibleAxesError, UserError, fail
from ..op_graph.functions.coerce import broadcast, of_kind
from ..op_graph.simple_axes import SimpleAxes, canonical
from ..op_graph.stating import FamilyOp
from ..op_graph.tensor import Tensor
from ..op_graph.values import ConstantOp, constant, numbers
from ..op_graph.verbs import VERBS
from ..ops import ng
from ..ops.roles import SAMPLES, STEPS, feature_name

#: What names axes: features by position, samples and steps by role.
Where = int | str | Sequence[int | str] | None

#: The axes of samples and of steps wherever their lengths come with what is fed.
N, REC = Axis(name=SAMPLES), Axis(name=STEPS)

_SIMPLE = SimpleAxes()


def as_simple(x: Any) -> Tensor:
    """The tensor itself; of an array a constant without samples and steps. IncompatibleAxesError for other families."""
    if isinstance(x, Tensor):
        if x.lacks_value:
            x.refuse_use()
        return of_kind(x, _SIMPLE)
    return constant(x, SimpleAxes.of(numbers(x).shape))


def simple_axes(x: Tensor) -> SimpleAxes:
    return cast(SimpleAxes, x.axes)


def named(x: Any) -> Tensor:
    """A tensor of this family as one whose axes are known by their names."""
    x = as_simple(x)
    if isinstance(x, ConstantOp) and x.value.ndim == 0:
        return ConstantOp(x.value, Axes(x.axes), x.element)
    return _as(x, Axes(x.axes))


def _as(x: Tensor, axes: Axes) -> Tensor:
    """The tensor with axes of another kind that are called the same; of storage a view, which can be written to."""
    if x.storage is not None:
        return VERBS.stated(ng.CastAxesOp, [x], {}, axes, x.element)
    return FamilyOp(x, axes)


def simple(x: Tensor) -> Tensor:
    """A tensor with named axes as one of this family: its axes that are no samples and no steps are features."""
    if isinstance(x.axes, SimpleAxes):
        return x
    x = broadcast(x, canonical(x.axes))
    roles = sum(axis.is_batch or axis.is_recurrent for axis in x.axes)
    features = [
        axis if axis.name == name else axis.renamed(name)
        for axis, name in (
            (axis, feature_name(len(x.axes) - 1 - roles - d)) for d, axis in enumerate(x.axes[roles:])
        )
    ]
    axes = SimpleAxes([*x.axes[:roles], *features])
    if axes.names == x.axes.names:
        return _as(x, axes)
    return VERBS.stated(ng.CastAxesOp, [x], {}, axes, x.element)


def simple_each(made: Any) -> Any:
    """`simple` of one tensor, or of several."""
    if isinstance(made, (tuple, list)):
        return tuple(simple_each(one) for one in cast("Sequence[Any]", made))
    return simple(made) if isinstance(made, Tensor) else made


def is_number(x: Any) -> bool:
    """Whether something is a single number, which belongs to every family."""
    return isinstance(x, (Number, np.generic)) or (isinstance(x, np.ndarray) and not x.ndim)


def shape(x: Tensor) -> tuple[int, ...]:
    """The lengths of the features."""
    return simple_axes(x).feature_lengths


def renamed(x: Any, *names: str) -> Tensor:
    """As `named`, the features called so."""
    x = named(x)
    axes = canonical(x.axes)
    roles = len(axes) - len(names)
    return VERBS.stated(
        ng.CastAxesOp,
        [x],
        {},
        Axes([*axes[:roles], *(a.renamed(n) for a, n in zip(axes[roles:], names, strict=True))]),
        x.element,
    )


def with_features(x: Tensor, lengths: Iterable[int]) -> Tensor:
    """The same elements with features of other lengths."""
    if shape(x) == tuple(lengths := tuple(lengths)):
        return x
    axes = simple_axes(x)
    wanted = SimpleAxes.of(lengths, axes.samples, axes.steps)
    if isinstance(x, ConstantOp) and x.value.ndim == 0:
        return ConstantOp(x.value, wanted, x.element)
    return VERBS.stated(ng.ReshapeOp, [x], {}, wanted, x.element)


def aligned(*xs: Any) -> list[Any]:
    """Operands whose features are to be matched from the last one on, as NumPy does: those of length 1 go where others are
    longer. Numbers stay what they are."""
    made = [x if is_number(x) else as_simple(x) for x in xs]
    shapes = [shape(x) for x in made if isinstance(x, Tensor)]
    try:
        whole = np.broadcast_shapes(*shapes)
    except ValueError:
        fail(
            IncompatibleAxesError,
            f"features of shapes {' '.join(map(str, shapes))} cannot be matched",
            "they are matched from the last one; where one has length 1, or is missing, it is repeated",
        )
    return [named(_without_ones(x, whole)) if isinstance(x, Tensor) else x for x in made]


def _without_ones(x: Tensor, whole: Sequence[int]) -> Tensor:
    """The tensor without features of length 1 where the whole has more."""
    have = shape(x)
    kept = [d for d in range(len(have)) if have[d] == whole[len(whole) - len(have) + d]]
    if len(kept) == len(have):
        return x
    axes = simple_axes(x)
    left = Axes([*axes.roles, *(axes.features[d] for d in kept)])
    made = VERBS.stated(ng.ReshapeOp, [named(x)], {}, left, x.element)
    return FamilyOp(made, SimpleAxes(left))


def place(axis: Any, rank: int) -> int:
    """A feature counted from the first. Raises AxisNotFound where there is none."""
    try:
        at = operator.index(axis)
    except TypeError:
        fail(
            UserError,
            f"a feature axis is a position, not {axis!r}",
            f"samples are {SAMPLES!r}, steps {STEPS!r}",
        )
    if not -rank <= at < rank:
        fail(AxisNotFound, f"there is no feature number {at} among {rank}")
    return at % rank


def chosen(x: Tensor, axis: Where) -> list[Axis]:
    """The axes meant: all features for None, else those of positions and roles."""
    axes = simple_axes(x)
    if axis is None:
        return [*axes.features]
    given = [axis] if isinstance(axis, (int, str)) or not isinstance(axis, Iterable) else [*axis]  # pyright: ignore[reportUnnecessaryIsInstance]
    found = [axes[a] if isinstance(a, str) else axes.features[place(a, len(axes.features))] for a in given]
    if len({a.name for a in found}) != len(found):
        fail(UserError, f"duplicate axis in {axis}")
    return found
