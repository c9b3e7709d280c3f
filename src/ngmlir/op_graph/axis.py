# SPDX-License-Identifier: Apache-2.0
"""One axis: a name, and a length that is set or that follows from the lengths of other axes.

Two axes of one name are equal whatever their lengths. A length may be set, or changed, after the graph is built; it is
read when a computation is compiled.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, NoReturn

from ..ir.types import DYNAMIC
from ..ops.lengths import READING, Changes, Length, same
from ..support.diagnostics import Location
from ..support.lengths import exact, range_size, slice_indices
from .errors import AxisLengthError, IncompatibleAxesError, UserError, fail

_SERIAL = itertools.count()

BATCH, RECURRENT, CHANNEL = "N", "REC", "C"


def _whole(length: Any, name: str) -> int:
    """A length as an int; floats may be whole numbers."""
    try:
        made = exact(length)
    except (TypeError, ValueError, OverflowError):
        made = None
    if made is None or made != length or made < 0:
        fail(AxisLengthError, f"axis {name} cannot have the length {length!r}", "ng.make_axis(length, name)")
    return made


class Axis:
    """An axis: a name and a length, which may be set later."""

    __slots__ = ("_length", "_name", "docstring")

    #: What several axes are together; `axes` says it.
    several: ClassVar[Any]

    def __init__(self, length: int | None = None, name: str | None = None, docstring: str | None = None):
        if name is not None and not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            fail(
                UserError, f"the name of an axis must be a string, not {name!r}", "ng.make_axis(length, name)"
            )
        self._name = name if name is not None else f"Axis_{next(_SERIAL)}"
        self.docstring = docstring
        self._length: int | None = None
        if length is not None:
            self.length = length

    @property
    def name(self) -> str:
        """What the axis is; it cannot change."""
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        fail(
            UserError,
            f"the name of axis {self._name} cannot change: tensors are matched by it",
            f"{self._name}.named({name!r}) is an axis of that length, ng.cast_role renames the axes of a tensor",
        )

    @property
    def length(self) -> int | None:
        """Number of positions, or None while it is not set."""
        given = READING.given
        return self._length if given is None else given.get(id(self), self._length)

    @length.setter
    def length(self, length: int | None) -> None:
        self._length = None if length is None else _whole(length, self._name)
        Changes.note()

    @property
    def size(self) -> int:
        """The length; DYNAMIC while it is not set."""
        length = self.length
        return DYNAMIC if length is None else length

    @property
    def is_open(self) -> bool:
        """Whether what is fed says the length: of the batch axis, and of one whose length is not set."""
        return self._length is None or self.is_batch

    def said(self, length: int) -> tuple[Axis, int]:
        """Whose length a value says that has this length along the axis, and which."""
        return self, length

    @property
    def parts(self) -> Sequence[object]:
        """What its length follows from, where it was derived from others."""
        return ()

    @property
    def roots(self) -> tuple[Axis, ...]:
        """The axes whose lengths this one's follows from: itself, unless it was derived from others."""
        if not self.parts:
            return (self,)
        return tuple([part for part in _all_parts([self]) if isinstance(part, Axis) and not part.parts])

    @property
    def known_length(self) -> int:
        """The length; an error while it is not set."""
        length = self.length
        return self.unset() if length is None else length

    def unset(self, location: Location | None = None) -> NoReturn:
        """Says what to do about a length that is not set."""
        names = ", ".join(dict.fromkeys(root.name for root in self.roots if root.length is None))
        fail(
            AxisLengthError,
            f"the length of axis {names} is not set",
            f"set it before the computation runs: {names}.length = ..., or feed a value that has the axis",
            location,
        )

    @property
    def is_flattened(self) -> bool:
        return False

    @property
    def is_batch(self) -> bool:
        return self.name == BATCH

    @property
    def is_recurrent(self) -> bool:
        return self.name == RECURRENT

    @property
    def is_channel(self) -> bool:
        return self.name == CHANNEL

    def named(self, name: str) -> Axis:
        """An axis of the same length with another name."""
        return Axis(self.length, name)

    def renamed(self, name: str) -> Axis:
        """This axis under another name: always as long as it."""
        return DerivedAxis(name, Length(same, self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Axis) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __add__(self, other: Any) -> Any:
        return self.several((self,)) + other

    def __repr__(self) -> str:
        return f"Axis({self.name}: {'?' if self.length is None else self.length})"


class DerivedAxis(Axis):
    """An axis whose length follows from those of others: of a part of a tensor, or of several joined."""

    __slots__ = ("_follows",)

    def __init__(self, name: str, length: Length):
        self._name = name
        self.docstring = None
        self._length = None
        self._follows = length

    @property
    def length(self) -> int | None:
        return self._follows.length

    @length.setter
    def length(self, length: int | None) -> None:
        of = ", ".join(dict.fromkeys(root.name for root in self.roots))
        fail(
            AxisLengthError,
            f"the length of this axis {self.name} is determined by that of {of}",
            f"set the length of {of}",
        )

    @property
    def is_open(self) -> bool:
        return False

    @property
    def parts(self) -> Sequence[object]:
        return (self._follows,)


def _all_parts(given: Iterable[object]) -> Iterator[Axis | Length]:
    """The axes and lengths among what is given, and all that they follow from."""
    seen: set[int] = set()
    stack = [*given]
    while stack:
        part = stack.pop()
        if isinstance(part, (Axis, Length)) and id(part) not in seen:
            seen.add(id(part))
            yield part
            stack += reversed(part.parts)


def check_axis(axis: object) -> None:
    """IncompatibleAxesError for what is not an axis."""
    if not isinstance(axis, Axis):
        make = f"ng.make_axis(length, {axis!r})" if isinstance(axis, str) else "ng.make_axis(length, name)"
        of = f", or x.axes[{axis!r}] of a tensor x" if isinstance(axis, (str, int)) else ""
        by_place = f"; reductions and sorting take axis={axis}" if isinstance(axis, int) else ""
        fail(IncompatibleAxesError, f"{axis!r} is not an axis", f"make one with {make}{of}{by_place}")


def slice_axis(axis: Axis, s: slice) -> Axis:
    """The axis that a slice of `axis` has; step 1 or -1."""
    check_axis(axis)
    if not isinstance(s, slice) or s.step not in (None, 1, -1):  # pyright: ignore[reportUnnecessaryIsInstance]
        fail(AxisLengthError, f"the step of a slice along an axis must be 1 or -1, not {s!r}")

    def count(length: int) -> int:
        return range_size(*slice_indices(s, length))

    return DerivedAxis(axis.name, Length(count, axis))
