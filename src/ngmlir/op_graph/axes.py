# SPDX-License-Identifier: Apache-2.0
"""The axes of a tensor: several with names, in an order; flattened ones; and maps from names to names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, ClassVar, Self, Union, cast, overload

from ..support.spelling import counted, did_you_mean
from .axis import RECURRENT, check_axis
from .axis import Axis as Axis
from .axis import DerivedAxis as DerivedAxis
from .axis import slice_axis as slice_axis
from .descriptions import TensorDescription as TensorDescription
from .errors import AxisLengthError, AxisNotFound, DuplicateAxisNames, IncompatibleAxesError, UserError, fail
from .errors import UnmatchedAxesError as UnmatchedAxesError

#: What `make_axes` takes: an axis, or anything that gives axes (a one-shot iterator too), or {name: length}.
AxesLike = Union["Axis", "Axes", Iterable["AxesLike"], Mapping[str, int | None]]

#: What is taken where the axes of a tensor are meant: their names do.
AxesOrNames = AxesLike | str | Iterable["AxesOrNames"]


class FlattenedAxis(Axis):
    """Several axes flattened into one, in row-major order. Two are equal if the names of their parts are."""

    __slots__ = ("axes",)

    def __init__(self, axes: AxesLike):
        self.axes = axes = make_axes(axes)
        self._name = ".".join(axes.names) if len(axes) != 1 else f"{axes[0].name}."
        if not axes:
            self._name = "empty."
        self._length = None
        self.docstring = None

    @property
    def length(self) -> int | None:
        lengths = [a.length for a in self.axes]
        return None if None in lengths else prod(length for length in lengths if length is not None)

    @length.setter
    def length(self, length: int | None) -> None:
        fail(
            AxisLengthError,
            f"the length of {self.name} is the product of its parts",
            "set the lengths of the parts",
        )

    @property
    def is_open(self) -> bool:
        return False

    @property
    def parts(self) -> Sequence[object]:
        return tuple(self.axes)

    @property
    def is_flattened(self) -> bool:
        return True

    @property
    def is_batch(self) -> bool:
        return False


class Axes(Sequence[Axis]):
    """An ordered set of axes: what a tensor has.

    What kind of axes a tensor has decides which family of functions its operators and methods are: these are matched by
    name; those of a subclass as it says.
    """

    __slots__ = ("_axes", "names")

    #: The functions that operators and methods of tensors with such axes call.
    family: ClassVar[Any]
    #: What to write to get such axes, and what says so.
    called: ClassVar[str] = "axes with names"
    made_by: ClassVar[str] = "ng.cast_axes(x, axes) names the axes of x"

    def __init__(self, axes: Iterable[Axis] = ()):
        try:
            self._axes = tuple(axes)
            self.names: tuple[str, ...] = tuple([a.name for a in self._axes])
        except (TypeError, AttributeError):
            fail(
                IncompatibleAxesError,
                f"{axes!r} is not a list of axes",
                "ng.make_axes takes axes, names and lengths",
            )
        if len(set(self.names)) != len(self.names):
            twice = next(n for n in self.names if self.names.count(n) > 1)
            fail(
                DuplicateAxisNames,
                f"axis {twice} appears twice in ({', '.join(self.names)})",
                "rename one with ng.cast_role",
                duplicate_axis_names={twice: {twice}},
            )

    def like(self, axes: Iterable[Axis]) -> Self:
        """Other axes of the same kind."""
        return type(self)(axes)

    @property
    def type_names(self) -> tuple[str, ...] | None:
        """The names that types in the dialect tell; None for axes that have none."""
        return self.names

    # ---- sequence

    @overload
    def __getitem__(self, item: int) -> Axis: ...
    @overload
    def __getitem__(self, item: slice) -> Axes: ...
    @overload
    def __getitem__(self, item: str) -> Axis: ...
    def __getitem__(self, item: int | str | slice) -> Axis | Axes:
        """The axis at a place or of a name, or those of a slice."""
        if isinstance(item, slice):
            return self.like(self._axes[item])
        return self._axes[self.index(item) if isinstance(item, str) else item]

    def __len__(self) -> int:
        return len(self._axes)

    def __iter__(self) -> Iterator[Axis]:
        return iter(self._axes)

    def __contains__(self, axis: object) -> bool:
        return (axis.name if isinstance(axis, Axis) else axis) in self.names

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Axes):
            return self.names == other.names
        if isinstance(other, (list, tuple, Axis)):
            fail(
                IncompatibleAxesError,
                "axes can only be compared with axes",
                "wrap the other operand in ng.make_axes",
            )
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.names)

    def __repr__(self) -> str:
        return f"Axes({self.shown})"

    @property
    def shown(self) -> str:
        """The names and lengths, as messages tell them: `C: 3, N: ?`."""
        return ", ".join([f"{a.name}: {'?' if a.length is None else a.length}" for a in self])

    def index(self, axis: Any, start: int = 0, stop: int | None = None) -> int:
        """The place of an axis (or of a name); AxisNotFound if there is none."""
        if not isinstance(axis, str):
            check_axis(axis)
        name = axis if isinstance(axis, str) else axis.name
        if name not in self.names:
            fail(
                AxisNotFound,
                f"there is no axis {name} in ({', '.join(self.names)})",
                did_you_mean(name, self.names, ""),
            )
        return self.names.index(name)

    def chosen(self, axes: AxesOrNames) -> Axes:
        """Axes from axes or names; names are those of axes that are here."""
        return make_axes(self._named(axes))

    def _named(self, axes: Any) -> Any:
        if isinstance(axes, str):
            return self[axes]
        if isinstance(axes, (Axis, Axes)):
            return axes
        if isinstance(axes, Mapping) or not isinstance(axes, Iterable):
            return cast(Any, axes)
        return [self._named(axis) for axis in cast("Iterable[Any]", axes)]

    # ---- set operations, by name; the order is that of the left side

    def __add__(self, other: AxesLike) -> Axes:
        return Axes((*self, *make_axes(other)))

    def __radd__(self, other: AxesLike) -> Axes:
        return make_axes(other) + self

    def __sub__(self, other: AxesOrNames) -> Axes:
        gone = self.chosen(other).names
        return self.like(a for a in self if a.name not in gone)

    def __or__(self, other: AxesLike) -> Axes:
        return Axes((*self, *(a for a in make_axes(other) if a.name not in self.names)))

    def __and__(self, other: AxesOrNames) -> Axes:
        kept = self.chosen(other).names
        return self.like(a for a in self if a.name in kept)

    def is_sub_set(self, other: AxesLike) -> bool:
        return set(self.names) <= set(make_axes(other).names)

    def is_super_set(self, other: AxesLike) -> bool:
        return set(self.names) >= set(make_axes(other).names)

    def is_equal_set(self, other: AxesLike) -> bool:
        return set(self.names) == set(make_axes(other).names)

    def is_not_equal_set(self, other: AxesLike) -> bool:
        return not self.is_equal_set(other)

    # ---- lengths

    @property
    def lengths(self) -> tuple[int | None, ...]:
        return tuple(a.length for a in self)

    @property
    def full_lengths(self) -> tuple[Any, ...]:
        """Lengths, with those of the parts in the place of a flattened axis."""
        return tuple(a.axes.full_lengths if isinstance(a, FlattenedAxis) else a.length for a in self)

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths as a shape; DYNAMIC where not set."""
        return tuple([a.size for a in self._axes])

    @property
    def known_shape(self) -> tuple[int, ...]:
        """Lengths as a shape; an error where not set."""
        return tuple([a.known_length for a in self._axes])

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.known_shape)

    def set_shape(self, shape: Iterable[int]) -> None:
        """Sets all lengths."""
        shape = list(shape)
        if len(shape) != len(self):
            fail(AxisLengthError, f"{counted(len(shape), 'length')} for {counted(len(self), 'axis')}")
        for axis, length in zip(self, shape, strict=True):
            axis.length = length

    # ---- selecting

    def find_by_name(self, name: str) -> Axes:
        return Axes(a for a in self if a.name == name)

    def get_by_names(self, *names: str) -> Axes:
        return Axes(self[self.index(name)] for name in names)

    def batch_axis(self) -> Axis | None:
        return next((a for a in self if a.is_batch), None)

    def batch_axes(self) -> Axes:
        return self.like(a for a in self if a.is_batch)

    def recurrent_axis(self) -> Axis | None:
        """REC; where there is none, the ragged axis, if there is one."""
        return next((a for a in self if a.name == RECURRENT), next((a for a in self if a.is_recurrent), None))

    def channel_axis(self) -> Axis | None:
        return next((a for a in self if a.is_channel), None)

    def sample_axes(self) -> Axes:
        """All but the batch axis."""
        return self.like(a for a in self if not a.is_batch)

    def feature_axes(self) -> Axes:
        """All but the batch and the recurrent axis."""
        return self.like(a for a in self if not a.is_batch and not a.is_recurrent)

    def spatial_axes(self) -> Axes:
        """The feature axes without the channel axis."""
        return Axes(a for a in self.feature_axes() if not a.is_channel)

    def flatten(self, force: bool = False) -> Axis:
        """One axis in the place of all; a single axis stays itself unless forced."""
        return self[0] if len(self) == 1 and not force else FlattenedAxis(self)


Axis.several = Axes


class AxesMap(Mapping[str, str]):
    """An immutable mapping from axes to new names."""

    __slots__ = ("_names",)

    def __init__(self, names: Mapping[Any, Any] | Iterable[tuple[Any, Any]]):
        def text(axis: Any) -> str:
            if not isinstance(axis, (Axis, str)):
                fail(UserError, f"{axis!r} is neither an axis nor the name of one", "write {old: new}")
            return axis.name if isinstance(axis, Axis) else axis

        try:
            pairs = dict(names)
        except (TypeError, ValueError):
            fail(UserError, f"{names!r} is not a mapping of axes to names", "write {old: new}")
        self._names = {text(a): text(b) for a, b in pairs.items()}
        sources: dict[str, set[str]] = {}
        for old, new in self._names.items():
            sources.setdefault(new, set()).add(old)
        twice = {new: olds for new, olds in sources.items() if len(olds) > 1}
        if twice:
            fail(
                DuplicateAxisNames,
                f"two axes are mapped to the same name in {self._names}",
                duplicate_axis_names=twice,
            )

    def __getitem__(self, name: str) -> str:
        return self._names[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def map_axes(self, axes: Axes) -> Axes:
        """The axes under their new names."""
        return Axes(a.renamed(self[a.name]) if a.name in self._names else a for a in axes)


def make_axis(length: int | None = None, name: str | None = None, docstring: str | None = None) -> Axis:
    """A new axis. Without a name it gets a unique one, and is equal to no other axis."""
    return Axis(length, name, docstring)


def make_axes(axes: AxesLike = ()) -> Axes:
    """Axes from an axis, an iterable of axes (a nested one is a flattened axis), or {name: length}."""
    if isinstance(axes, Axes):
        return axes
    if isinstance(axes, Axis):
        return Axes((axes,))
    if isinstance(axes, Mapping):
        lengths = cast("Mapping[str, int | None]", axes)  # of the iterables the one with items
        return Axes(Axis(length, str(name)) for name, length in lengths.items())
    made: list[Axis] = []
    for item in axes if isinstance(axes, Iterable) else (axes,):  # pyright: ignore[reportUnnecessaryIsInstance]
        if isinstance(item, Axis):
            made.append(item)
        elif isinstance(item, Iterable) and not isinstance(item, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            made.append(FlattenedAxis(item))
        else:
            check_axis(item)
    return Axes(made)
