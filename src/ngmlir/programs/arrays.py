# SPDX-License-Identifier: Apache-2.0
"""Arrays of tensors, as values of the environment that a program is lowered in.

While every position is known, an array is a list of tensors, whose shapes may differ. A loop writes positions that are not: there
an array is one tensor, its elements one after the other, as many as it may get, and a number that says how many there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .. import numpy as np
from ..ir.types import i64
from ..op_graph.known import known_integer
from ..op_graph.tensor import Tensor
from ..op_graph.verbs import VERBS
from ..support.diagnostics import Limit, UserError
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
        """The same array of other tensors."""
        left = iter(parts)
        return TensorArray(tuple([None if e is None else next(left) for e in self.elements]), self.levels)

    def read(self, index: Tensor) -> Tensor:
        at = known_integer(index)
        if at is None:
            return self.stacked(len(self.elements)).read(index)
        if not 0 <= at < len(self.elements) or self.elements[at] is None:
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
            return self.stacked(len(self.elements), value).written(index, value, levels)
        if at < 0:
            raise UserError(f"position {at} of an array is written, and positions count from 0")
        held = [*self.elements, *[None] * (at + 1 - len(self.elements))]
        held[at] = value
        cuts = [*self.levels, *[()] * (len(held) - len(self.levels))]
        cuts[at] = levels
        return TensorArray(tuple(held), tuple(cuts))

    def stacked(self, capacity: int, like: Tensor | None = None) -> StackedArray:
        """The array as one tensor, with place for so many elements."""
        shapes = {(e.type.shape, e.element) for e in self.elements if e is not None}
        if like is not None:
            shapes.add((like.type.shape, like.element))
        if len(shapes) > 1:
            found = ", ".join(sorted(str(list(shape)) for shape, _ in shapes))
            raise Limit(f"the elements of an array that a loop uses have one shape, and these have {found}")
        first = next((e for e in self.elements if e is not None), like)
        if first is None:
            raise UserError(
                "an array without elements is read in a loop",
                hint="an operator before the loop writes its elements",
            )
        zero = np.zeros_like(first)
        held = [zero if e is None else e for e in self.elements]
        held += [zero] * (max(capacity, 1) - len(held))
        return StackedArray(np.stack(held), self.length)


@dataclass(frozen=True)
class StackedArray:
    """An array whose positions are known when the program runs: its elements, and how many there are (int64, [1]). Where elements are
    sequences of rows, `offsets` holds the offsets of each, and `longest` is the greatest length of a sequence."""

    values: Tensor
    length: Tensor
    offsets: Tensor | None = None
    longest: int = 0

    @property
    def capacity(self) -> int:
        return self.values.type.shape[0]

    def parts(self) -> list[Tensor]:
        return [self.values, self.length, *([] if self.offsets is None else [self.offsets])]

    def of(self, parts: Sequence[Tensor]) -> StackedArray:
        """The same array of other tensors; the number of elements stays where it is not among them."""
        length = parts[1] if len(parts) > 1 else self.length
        return StackedArray(parts[0], length, parts[2] if len(parts) > 2 else None, self.longest)

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
        if self.offsets is None or not self.capacity:
            return ()
        return (VERBS.gather(self.offsets, np.reshape(index, []), axis=0),)

    def written(self, index: Tensor, value: Tensor | None, levels: Levels = ()) -> StackedArray:
        """The array with another element at a position; with none, with zeros there."""
        if levels:
            raise Limit("an array that a loop writes holds tensors, and no sequences")
        shape = self.values.type.shape
        if value is None:
            value = np.zeros(shape[1:], dtype=self.values.dtype)
        if value.type.shape != shape[1:] or value.element is not self.values.element:
            raise Limit(
                f"the elements of an array that a loop uses have one shape: {list(shape[1:])}, not {list(value.type.shape)}"
            )
        at = np.astype(np.reshape(index, [1] * len(shape)), "int64")
        places = np.reshape(np.arange(self.capacity, dtype="int64"), [self.capacity, *[1] * (len(shape) - 1)])
        values = np.where(np.equal(places, at), np.expand_dims(value, 0), self.values)
        length = np.maximum(self.length, np.add(np.astype(np.reshape(index, [1]), "int64"), 1))
        return StackedArray(values, np.astype(length, "int64"))

    def stacked(self, capacity: int, like: Tensor | None = None) -> StackedArray:
        """The array with place for at least so many elements."""
        more = capacity - self.capacity
        if more <= 0:
            return self
        rest = np.zeros([more, *self.values.type.shape[1:]], dtype=self.values.dtype)
        return StackedArray(np.concatenate([self.values, rest]), self.length)


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
