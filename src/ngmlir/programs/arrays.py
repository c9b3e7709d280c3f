# SPDX-License-Identifier: Apache-2.0
"""Arrays of tensors, as values of the environment that a program is lowered in.

While every position is known, an array is a list of tensors, whose shapes may differ. A loop writes positions that are not: there
an array is one tensor, its elements one after the other, as many as it may get, and a number that says how many there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .. import numpy as np
from ..ir.types import i64
from ..op_graph.known import known_integer
from ..op_graph.tensor import Tensor
from ..op_graph.verbs import VERBS
from ..support.diagnostics import Limit, UserError
from ..support.lengths import are_same
from ..support.spelling import counted
from .definition import Levels


@dataclass(frozen=True)
class TensorArray:
    """An array whose positions are known; None where no element was written. `levels` holds the offsets of each element."""

    elements: tuple[Tensor | None, ...] = ()
    levels: tuple[Levels, ...] = ()

    @property
    def length(self) -> Tensor:
        return np.asarray([len(self.elements)], dtype="int64")

    def parts(self) -> list[Tensor]:
        return [e for e in self.elements if e is not None]

    def of(self, parts: Sequence[Tensor]) -> TensorArray:
        """An array of the same structure with other tensors."""
        left = iter(parts)
        return TensorArray(tuple([None if e is None else next(left) for e in self.elements]), self.levels)

    def has_none_at(self, index: Tensor) -> bool:
        """Whether no element was written at a position."""
        at = known_integer(index)
        return at is not None and (not 0 <= at < len(self.elements) or self.elements[at] is None)

    def read(self, index: Tensor) -> Tensor:
        at = known_integer(index)
        if at is None:
            return self.stacked(len(self.elements)).read(index)
        if self.has_none_at(index):
            raise UserError(
                f"position {at} of the array is read, and it has {counted(len(self.elements), 'element')}",
                hint="an operator before this one has to write that position",
            )
        found = self.elements[at]
        assert found is not None
        return found

    def levels_at(self, index: Tensor) -> Levels:
        """The offsets of the element at a position."""
        at = known_integer(index)
        return self.levels[at] if at is not None and 0 <= at < len(self.levels) else ()

    def written(self, index: Tensor, value: Tensor | None, levels: Levels = ()) -> TensorArray | StackedArray:
        """The array with another element at a position, and its offsets; with none, without."""
        at = known_integer(index)
        if at is None:
            return self.stacked(len(self.elements), value, levels).written(index, value, levels)
        if at < 0:
            raise UserError(f"position {at} of an array is written, and positions count from 0")
        held = [*self.elements, *[None] * (at + 1 - len(self.elements))]
        held[at] = value
        cuts = [*self.levels, *[()] * (len(held) - len(self.levels))]
        cuts[at] = levels
        return TensorArray(tuple(held), tuple(cuts))

    def stacked(self, capacity: int, like: Tensor | None = None, cuts: Levels = ()) -> StackedArray:
        """The array as one tensor, with place for so many elements, each as `like`, with its offsets. Elements that are ragged have
        place for the rows of the one that has most."""
        own = [*self.levels, *[()] * (len(self.elements) - len(self.levels))]
        every = zip([*self.elements, like], [*own, cuts], strict=True)
        found = [(e, levels) for e, levels in every if e is not None]
        held, ragged = [e for e, _ in found], [levels for _, levels in found]
        if not held:
            raise UserError(
                "an array without elements is read in a loop",
                hint="an operator before the loop writes its elements",
            )
        if len({(e.type.shape[1 if levels else 0 :], e.element, len(levels)) for e, levels in found}) > 1:
            shapes = ", ".join(sorted({str(list(e.type.shape)) for e in held}))
            raise Limit(f"the elements of an array that a loop uses have one shape, and these have {shapes}")
        count = max(capacity, 1)
        offsets = [
            _stacked([c[at] if c else None for c in own], [c[at] for c in ragged], count, "edge")
            for at in range(len(ragged[0]))
        ]
        return StackedArray(_stacked(self.elements, held, count, "constant"), self.length, tuple(offsets))


@dataclass(frozen=True)
class StackedArray:
    """An array whose positions are known when the program runs: its elements, and how many there are (int64, [1]). Where elements are
    ragged, `levels` holds the offsets of each, and `longest` is the greatest length of a sequence where that is known. All elements
    have place for as many rows and sequences: behind the last there are zeros and empty sequences. Where `has_more`, ragged elements
    were written to an array that keeps no offsets, so nothing says how many rows an element has. A loop around `has_room` for all that is
    written in it."""

    values: Tensor
    length: Tensor
    levels: Levels = ()
    longest: int = 0
    has_more: bool = False
    has_room: bool = False

    @property
    def capacity(self) -> int:
        return self.values.type.shape[0]

    def parts(self) -> list[Tensor]:
        return [self.values, self.length, *self.levels]

    def of(self, parts: Sequence[Tensor]) -> StackedArray:
        """An array of the same structure with other tensors; the number of elements is unchanged unless it is one of them."""
        length = parts[1] if len(parts) > 1 else self.length
        return replace(self, values=parts[0], length=length, levels=tuple(parts[2:]))

    def read(self, index: Tensor) -> Tensor:
        at = known_integer(index)
        if at is not None and self.capacity and not 0 <= at < self.capacity:
            raise UserError(
                f"position {at} of the array is read, and it has at most {counted(self.capacity, 'element')}",
                hint="an operator before this one has to write that position",
            )
        if not self.capacity:
            return np.zeros(self.values.type.shape[1:], dtype=self.values.dtype)
        return VERBS.gather(self.values, np.reshape(index, []), axis=0)

    def levels_at(self, index: Tensor) -> Levels:
        """The offsets of the element at a position."""
        if not self.capacity:
            return ()
        return tuple([VERBS.gather(each, np.reshape(index, []), axis=0) for each in self.levels])

    def written(self, index: Tensor, value: Tensor | None, levels: Levels = ()) -> StackedArray:
        """The array with another element at a position; with none, with zeros there. An element that is ragged may have more rows than
        those before: then all have place for them. An array whose first elements are not ragged keeps no offsets."""
        if self.longest:
            raise Limit("an array of the steps of sequences is not written")
        if self.levels and value is not None and len(levels) != len(self.levels):
            raise Limit(
                f"the elements of an array that a loop writes have as many ragged levels: {len(self.levels)}, not {len(levels)}"
            )
        element = self.values.type.shape[1:]
        if value is None:
            value = np.zeros(element, dtype=self.values.dtype)
        first = 1 if levels else 0
        if (
            not are_same(value.type.shape[first:], element[first:])
            or value.element is not self.values.element
        ):
            raise Limit(
                f"the elements of an array that a loop uses have one shape: {list(element)}, not {list(value.type.shape)}"
            )
        length = np.maximum(self.length, np.add(np.astype(np.reshape(index, [1]), "int64"), 1))
        cuts = zip(self.levels, levels, strict=False)
        return replace(
            self,
            values=_replaced(self.values, index, value, "constant"),
            length=np.astype(length, "int64"),
            levels=tuple([_replaced(whole, index, cut, "edge") for whole, cut in cuts])
            if levels
            else self.levels,
            has_more=self.has_more or bool(levels and not self.levels),
        )

    def stacked(self, capacity: int, like: Tensor | None = None, cuts: Levels = ()) -> StackedArray:
        """The array with place for at least so many elements."""
        parts = [_with_place(p, capacity, 0, "constant") for p in (self.values, *self.levels)]
        return replace(self, values=parts[0], levels=tuple(parts[1:]))

    def as_wide_as(self, other: StackedArray) -> StackedArray:
        """The array with place for as many rows and sequences in each element as another has."""
        levels = zip(self.levels, other.levels, strict=True)
        return replace(
            self,
            values=_as_wide_as(self.values, other.values, "constant"),
            levels=tuple([_as_wide_as(a, b, "edge") for a, b in levels]),
            has_more=other.has_more,
        )


def _with_place(x: Tensor, count: int, axis: int, mode: str) -> Tensor:
    """A tensor with place for at least so many along an axis: behind it zeros, or with the mode `edge` the last of it again."""
    more = count - x.type.shape[axis] if x.type.shape else 0
    return (
        x if more <= 0 else np.pad(x, [(0, more if d == axis else 0) for d in range(len(x.type.shape))], mode)
    )


def _as_wide_as(x: Tensor, other: Tensor, mode: str) -> Tensor:
    return _with_place(x, other.type.shape[1], 1, mode) if len(x.type.shape) > 1 else x


def _stacked(elements: Sequence[Tensor | None], like: Sequence[Tensor], count: int, mode: str) -> Tensor:
    """Elements, zeros where there are none, and zeros up to so many; each as long as the longest of some."""
    rows = max([e.type.shape[0] for e in like if e.type.shape], default=0)
    zero = np.zeros_like(_with_place(like[0], rows, 0, mode))
    held = [zero if e is None else _with_place(e, rows, 0, mode) for e in elements]
    return _with_place(np.stack(held or [zero]), count, 0, "constant")


def _replaced(whole: Tensor, index: Tensor, value: Tensor, mode: str) -> Tensor:
    """A stack of elements with another one at a position."""
    if value.type.shape:
        whole = _with_place(whole, value.type.shape[0], 1, mode)
        value = _with_place(value, whole.type.shape[1], 0, mode)
    return VERBS.scatter(whole, np.reshape(index, []), value, axis=0, combine="set")


#: An array in either form.
Array = TensorArray | StackedArray


def summed(arrays: Sequence[Array]) -> Array:
    """The sum of arrays, element by element; an element that some lack is that of the others."""
    known = [a for a in arrays if isinstance(a, TensorArray)]
    if len(known) == len(arrays):
        count = max(len(a.elements) for a in known)
        columns = [
            [a.elements[i] for a in known if i < len(a.elements) and a.elements[i] is not None]
            for i in range(count)
        ]
        return TensorArray(tuple([_added([e for e in column if e is not None]) for column in columns]))
    capacity = max(len(a.elements) if isinstance(a, TensorArray) else a.capacity for a in arrays)
    first = next(a for a in arrays if isinstance(a, StackedArray))
    like = first.read(np.asarray([0], dtype="int64"))
    whole = [a.stacked(capacity, like) for a in arrays]
    length = whole[0].length
    for other in whole[1:]:
        length = np.maximum(length, other.length)
    values = _added([a.values for a in whole])
    assert values is not None
    assert length.element is i64
    return StackedArray(values, length)


def _added(values: Sequence[Tensor]) -> Tensor | None:
    if not values:
        return None
    total = values[0]
    for other in values[1:]:
        total = np.add(total, other)
    return total
