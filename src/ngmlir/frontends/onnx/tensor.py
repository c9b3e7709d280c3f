# SPDX-License-Identifier: Apache-2.0
"""What operators are written with: tensors with Python's operators, NumPy's broadcasting, and the verbs of `ng`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any, TypeAlias

import numpy as np

from ...ir.attributes import numeric_literal
from ...ir.core import Value
from ...ir.literals import bit_width, item_bytes, type_of_dtype
from ...ir.types import FloatType, IntegerType, TensorType, Type, element_type, f32, i1, i64, shape_of
from ...ops import ng
from ...support.borders import Border
from ...support.diagnostics import UserError
from ...support.lengths import are_same, broadcast_shapes, exact, is_open, is_same

Array: TypeAlias = np.ndarray[Any, Any]
Number: TypeAlias = "Tensor | float | int | bool"


class Verbs(ng.NgVerbs["Tensor"]):
    """The verbs of `ng` on tensors, and what makes tensors of numbers."""

    #: Whether sums have the meaning of f32 products, and inputs are not rounded where a model permits it.
    exact = False
    #: Whether a model is read for more lengths than those that its tensors have: then what follows from lengths is computed by ops.
    several: bool
    #: Whether what runs on the host, while shapes are computed, is compiled where that pays.
    compiles = False

    @abstractmethod
    def known(self, array: Any) -> Tensor:
        """A tensor whose elements are known."""

    @abstractmethod
    def later(self, x: Tensor) -> Tensor:
        """The tensor, excluded from constant folding."""

    @abstractmethod
    def numbers(self, value: Any, element: Type, shape: Sequence[int] = ()) -> Tensor:
        """A number in every place."""

    @abstractmethod
    def settle(self, x: Tensor, decided: str = "the shape of a tensor") -> Array:
        """The elements, where they can be known before the program runs; `decided` is what they decide."""

    # ---- functions of several tensors

    def where(self, condition: Tensor, lhs: Tensor, rhs: Tensor) -> Tensor:
        """lhs where the condition is true, else rhs."""
        return self.select(*broadcast([condition, lhs, rhs]))

    def joined(self, parts: Sequence[Tensor], axis: int) -> Tensor:
        """The tensors one after the other along an axis."""
        parts = list(parts)
        return parts[0] if len(parts) == 1 else self.concatenate(parts, axis=axis % parts[0].rank)

    def stacked(self, parts: Sequence[Tensor], axis: int = 0) -> Tensor:
        """The tensors along a new axis."""
        return self.joined([p.with_axes([axis]) for p in parts], axis)

    @abstractmethod
    def arange(self, count: int, element: Type = i64) -> Tensor:
        """0, 1, 2 ..."""

    @abstractmethod
    def counted(self, count: int, element: Type) -> Tensor:
        """The same, of which nothing is computed while the model is read: masks of such numbers are computed where they are used."""

    @abstractmethod
    def length(self, length: int, element: Type = i64) -> Tensor:
        """A length as a number of the program."""


class Tensor:
    """A tensor while a model is read: an array where its elements are known, else a value of the program."""

    __slots__ = ("item", "verbs")

    def __init__(self, item: Array | Value, verbs: Verbs):
        self.item = item
        self.verbs = verbs

    @property
    def type(self) -> TensorType:
        return TensorType(self.shape, self.element)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.item.shape) if isinstance(self.item, np.ndarray) else shape_of(self.item.type)

    @property
    def element(self) -> Type:
        if isinstance(self.item, np.ndarray):
            return type_of_dtype(self.item.dtype)
        return element_type(self.item.type)

    @property
    def array(self) -> Array | None:
        """The elements, if they are known."""
        return self.item if isinstance(self.item, np.ndarray) else None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def is_float(self) -> bool:
        return isinstance(self.element, FloatType)

    @property
    def is_unsigned(self) -> bool:
        return isinstance(self.element, IntegerType) and (self.element.unsigned or self.element is i1)

    def axis(self, axis: int) -> int:
        """An axis that may be counted from the end; UserError for one that is none."""
        if not -self.rank <= axis < max(self.rank, 1):
            raise UserError(f"axis {axis} of a tensor with {self.rank} dimensions")
        return axis % max(self.rank, 1)

    def axes(self, axes: Sequence[int] | None) -> tuple[int, ...]:
        """Axes in ascending order; of None all."""
        if axes is None:
            return tuple(range(self.rank))
        return tuple(sorted({self.axis(int(a)) for a in axes}))

    # ---- shape and elements

    def cast(self, element: Type) -> Tensor:
        """With other elements."""
        if element is self.element:
            return self
        return self.verbs.cast(self, type=TensorType(self.shape, element))

    def reshape(self, shape: Sequence[int]) -> Tensor:
        """The elements in another shape."""
        shape = tuple([exact(d) for d in shape])
        if shape == self.shape:
            return self
        if isinstance(self.item, np.ndarray) and prod(shape) == self.size:
            return Tensor(self.item.reshape(shape), self.verbs)
        return self.verbs.reshape(self, type=TensorType(shape, self.element))

    def with_axes(self, axes: Sequence[int]) -> Tensor:
        """With axes of one element at these places of the result."""
        rank = self.rank + len(axes)
        places = {a % rank for a in axes}
        if len(places) != len(axes) or any(not -rank <= a < rank for a in axes):
            raise UserError(f"axes {list(axes)} of a tensor with {rank} dimensions")
        rest = iter(self.shape)
        return self.reshape([1 if d in places else next(rest) for d in range(rank)])

    def without_axes(self, axes: Sequence[int]) -> Tensor:
        """Without these axes, which have one element each."""
        gone = self.axes(axes)
        wrong = [a for a in gone if self.shape[a] != 1]
        if wrong:
            raise UserError(
                f"axis {wrong[0]} of {list(self.shape)} has {self.shape[wrong[0]]} elements, not one"
            )
        return self.reshape([d for i, d in enumerate(self.shape) if i not in gone])

    def broadcast(self, shape: Sequence[int]) -> Tensor:
        """Repeated to a shape, as NumPy does it."""
        shape = tuple([exact(d) for d in shape])
        if are_same(shape, self.shape):
            return self
        if self.rank > len(shape) or any(
            not (is_same(a, b) or a in (1, b))
            for a, b in zip(reversed(self.shape), reversed(shape), strict=False)
        ):
            raise UserError(f"a tensor of shape {list(self.shape)} cannot be broadcast to {list(shape)}")
        if isinstance(self.item, np.ndarray) and self.size == 1 and not is_open(shape):
            return Tensor(np.broadcast_to(self.item.reshape(()), shape), self.verbs)
        first = len(shape) - self.rank
        # What is as long stays, also where that is 1: so a program of one sample is that of several.
        kept = [
            first + i
            for i, (a, b) in enumerate(zip(self.shape, shape[first:], strict=True))
            if is_same(a, b) or (not is_same(a, 1) and a == b)
        ]
        inner = self.reshape([shape[d] for d in kept])
        return self.verbs.broadcast(inner, type=TensorType(shape, self.element), dimensions=kept)

    def transpose(self, order: Sequence[int]) -> Tensor:
        """Dimension i of the result is dimension order[i]."""
        order = [self.axis(int(a)) for a in order]
        if all(a < b for a, b in pairwise(order)) and len(order) == self.rank:
            return self
        return self.verbs.transpose(self, permutation=order)

    def moved(self, source: int, target: int) -> Tensor:
        """With one axis at another place."""
        order = list(range(self.rank))
        order.insert(target % self.rank, order.pop(source % self.rank))
        return self.transpose(order)

    def slice(
        self, starts: Sequence[int], limits: Sequence[int], steps: Sequence[int] | None = None
    ) -> Tensor:
        """Elements start, start + step ... before limit of each dimension."""
        steps = [1] * self.rank if steps is None else steps
        whole = all(s == 0 and e == d and t == 1 for s, e, t, d in zip(starts, limits, steps, self.shape))
        return self if whole else self.verbs.slice(self, starts=starts, limits=limits, steps=steps)

    def part(self, axis: int, start: int, limit: int, step: int = 1) -> Tensor:
        """A slice along one axis."""
        axis = self.axis(axis)
        return self.slice(
            [start if d == axis else 0 for d in range(self.rank)],
            [limit if d == axis else n for d, n in enumerate(self.shape)],
            [step if d == axis else 1 for d in range(self.rank)],
        )

    def at(self, axis: int, position: int) -> Tensor:
        """One position along an axis, which goes."""
        return self.part(axis, position, position + 1).without_axes([axis])

    def reversed(self, axis: int) -> Tensor:
        """The elements of an axis from the last to the first."""
        return self.part(axis, self.shape[axis] - 1, -1, -1) if self.shape[axis] > 1 else self

    def border_pad(self, low: Sequence[int], high: Sequence[int], border: Border) -> Tensor:
        """With elements of its own before and after."""
        if not any([*low, *high]):
            return self
        return self.verbs.border_pad(self, low=low, high=high, border=border)

    def pad(self, low: Sequence[int], high: Sequence[int], value: float | int = 0) -> Tensor:
        """With elements before and after; where the number is negative, without."""
        ends = list(zip(self.shape, low, high, strict=True))
        if any(max(0, -before) >= d - max(0, -after) for d, before, after in ends if before < 0 or after < 0):
            # Nothing is left of an axis.
            return self.verbs.numbers(value, self.element, [d + before + after for d, before, after in ends])
        cut = self.slice(
            [max(0, -p) for p in low], [d - max(0, -p) for d, p in zip(self.shape, high, strict=True)]
        )
        low, high = [max(0, p) for p in low], [max(0, p) for p in high]
        if not any([*low, *high]):
            return cut
        return self.verbs.pad(cut, low=low, high=high, value=numeric_literal(value, self.element))

    def take(self, indices: Tensor | Sequence[int], axis: int) -> Tensor:
        """Slices by index along an axis."""
        given = indices if isinstance(indices, Tensor) else self.verbs.known(np.array(indices, np.int64))
        return self.verbs.gather(self, given, axis=self.axis(axis))

    def bitcast(self, element: Type) -> Tensor:
        """Reinterprets the bits as elements of another type of that width."""
        if bit_width(element) != bit_width(self.element):
            raise UserError(f"{self.element} and {element} differ in width")
        return self.verbs.bitcast(self, type=TensorType(self.shape, element))

    # ---- arithmetic, with numbers and tensors of the same elements

    def _both(self, other: Number) -> tuple[Tensor, Tensor]:
        rhs = other if isinstance(other, Tensor) else self.verbs.numbers(other, self.element)
        lhs, rhs = broadcast([self, rhs])
        return lhs, rhs

    def __add__(self, other: Number) -> Tensor:
        return self.verbs.add(*self._both(other))

    def __sub__(self, other: Number) -> Tensor:
        return self.verbs.subtract(*self._both(other))

    def __mul__(self, other: Number) -> Tensor:
        return self.verbs.multiply(*self._both(other))

    def __radd__(self, other: float) -> Tensor:
        return self.verbs.numbers(other, self.element) + self

    def __rsub__(self, other: float) -> Tensor:
        return self.verbs.numbers(other, self.element) - self

    def __rmul__(self, other: float) -> Tensor:
        return self.verbs.numbers(other, self.element) * self

    def __truediv__(self, other: Number) -> Tensor:
        return self.verbs.divide(*self._both(other))

    def __rtruediv__(self, other: float) -> Tensor:
        return self.verbs.numbers(other, self.element) / self

    def __floordiv__(self, other: Number) -> Tensor:
        return self.verbs.floor_divide(*self._both(other))

    def __mod__(self, other: Number) -> Tensor:
        return self.verbs.remainder(*self._both(other))

    def __pow__(self, other: Number) -> Tensor:
        return self.verbs.power(*self._both(other))

    def __neg__(self) -> Tensor:
        return self.verbs.negative(self) if not self.is_unsigned else 0 - self

    def __invert__(self) -> Tensor:
        return self.verbs.bitwise_not(self)

    def __and__(self, other: Number) -> Tensor:
        return self.verbs.bitwise_and(*self._both(other))

    def __or__(self, other: Number) -> Tensor:
        return self.verbs.bitwise_or(*self._both(other))

    def __lt__(self, other: Number) -> Tensor:
        return self.verbs.less(*self._both(other))

    def __le__(self, other: Number) -> Tensor:
        return self.verbs.less_equal(*self._both(other))

    def __gt__(self, other: Number) -> Tensor:
        return self.verbs.greater(*self._both(other))

    def __ge__(self, other: Number) -> Tensor:
        return self.verbs.greater_equal(*self._both(other))

    def equals(self, other: Number) -> Tensor:
        """Where both are equal (`==` asks whether two tensors are one)."""
        return self.verbs.equal(*self._both(other))

    def differs(self, other: Number) -> Tensor:
        """Where both differ."""
        return self.verbs.not_equal(*self._both(other))

    def maximum(self, other: Number) -> Tensor:
        return self.verbs.maximum(*self._both(other))

    def minimum(self, other: Number) -> Tensor:
        return self.verbs.minimum(*self._both(other))

    def where(self, lhs: Number, rhs: Number) -> Tensor:
        """lhs where this is true, else rhs; at least one of them is a tensor."""
        like = lhs if isinstance(lhs, Tensor) else rhs
        assert isinstance(like, Tensor)
        made = [x if isinstance(x, Tensor) else self.verbs.numbers(x, like.element) for x in (lhs, rhs)]
        return self.verbs.where(self, *made)

    # ---- reductions

    def _reduced(self, verb: Any, axes: Sequence[int] | None, keep: bool) -> Tensor:
        places = self.axes(axes)
        made: Tensor = verb(self, axes=places)
        return made.reshape([1 if d in places else n for d, n in enumerate(self.shape)]) if keep else made

    def sum(self, axes: Sequence[int] | None = None, keep: bool = False) -> Tensor:
        return self._reduced(self.verbs.sum, axes, keep)

    def mean(self, axes: Sequence[int] | None = None, keep: bool = False) -> Tensor:
        return self._reduced(self.verbs.mean, axes, keep)

    def max(self, axes: Sequence[int] | None = None, keep: bool = False) -> Tensor:
        return self._reduced(self.verbs.any if self.element is i1 else self.verbs.max, axes, keep)

    def min(self, axes: Sequence[int] | None = None, keep: bool = False) -> Tensor:
        return self._reduced(self.verbs.all if self.element is i1 else self.verbs.min, axes, keep)

    def product(self, axes: Sequence[int] | None = None, keep: bool = False) -> Tensor:
        return self._reduced(self.verbs.product, axes, keep)

    def any(self, axes: Sequence[int] | None = None, keep: bool = False) -> Tensor:
        return self._reduced(self.verbs.any, axes, keep)

    def computed(self) -> Tensor:
        """In f32, if the elements are shorter floats: what sums and roots are computed in."""
        return self.cast(f32) if self.is_float and item_bytes(self.element) < 4 else self


def broadcast(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The tensors in the shape that NumPy gives their sum."""
    try:
        shape = broadcast_shapes(*[t.shape for t in tensors])
    except ValueError:
        shapes = ", ".join(str(list(t.shape)) for t in tensors)
        raise UserError(f"shapes {shapes} cannot be broadcast together") from None
    return [t.broadcast(shape) for t in tensors]


class TensorList(list["Tensor"]):
    """A sequence of ONNX: its length is known while a model is read."""


class Absent:
    """An optional of ONNX that holds nothing."""


@dataclass(frozen=True)
class Words:
    """A tensor of texts: the places of its elements in a table. They are looked up in what a call gives back."""

    table: tuple[str, ...]
    places: Tensor


@dataclass(frozen=True)
class Maps:
    """A sequence of dictionaries, one for each row of a matrix, with a key for each column."""

    keys: tuple[int | str, ...]
    rows: Tensor


#: What a name stands for while a model is read.
Thing: TypeAlias = "Tensor | TensorList | Absent | Words | Maps"
