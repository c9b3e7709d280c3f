# SPDX-License-Identifier: Apache-2.0
"""`x[...]` as NumPy means it, reading and writing; and the functions that take by index.

Numbers, slices and None move or drop axes. Arrays of positions are broadcast together and replace the axes that
they index (or come first, where other indices separate them); boolean arrays select the positions that are true, which must be
known when the graph is built. Positions that are tensors are clamped to their axis, where NumPy would raise an IndexError.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, cast

import numpy as np

from ..ir.types import FloatType, IntegerType, i1, i32, i64
from ..op_graph.errors import IncompatibleAxesError, NotAssignable, UserError, fail
from ..op_graph.foreign import refuse_sameness
from ..op_graph.functions.shape import with_all_axes
from ..op_graph.state import AssignOp, assign
from ..op_graph.tensor import Tensor
from ..op_graph.verbs import VERBS
from ..support.lengths import are_same, as_index, range_size, slice_indices
from ..support.spelling import counted
from .arrays import (
    Axis,
    aligned,
    as_array,
    as_type,
    common_shape,
    count,
    expand,
    joined,
    known,
    of_type,
    permute,
    place,
    places,
    reshape,
    shape,
    weak,
    with_axis,
)
from .composed import where
from .elementwise import add, greater_equal, maximum, minimum, multiply, remainder

#: How a write combines with the old element.
Combine = Literal["set", "add", "max", "min"]


class OutOfBounds(UserError, IndexError):
    """An index that is known now, of an element that is not there."""

    __str__ = UserError.__str__


class Index:
    """The index of `x[...]` for a shape: one part for each axis, and the positions of new axes."""

    def __init__(self, item: Any, lengths: Sequence[int]):
        given: list[Any] = list(item) if isinstance(item, tuple) else [item]
        given = [self._part(part) for part in given]
        used = sum(_rank(part) for part in given)
        if sum(part is Ellipsis for part in given) > 1:
            fail(UserError, "an index can only have a single ellipsis ('...')")
        if used > len(lengths):
            fail(
                OutOfBounds,
                f"too many indices for array: array is {len(lengths)}-dimensional, but {used} were indexed",
            )
        given = with_all_axes(given, len(lengths) - used)
        self.parts: list[Any] = []  # None, an int, a slice, or an array of positions
        axis = 0
        for part in given:
            if isinstance(part, np.ndarray) and part.dtype == bool:
                array = cast("np.ndarray[Any, Any]", part)
                if array.shape != tuple(lengths[axis : axis + array.ndim]):
                    fail(
                        OutOfBounds,
                        f"boolean index of shape {array.shape} did not match axes of lengths "
                        f"{tuple(lengths[axis : axis + array.ndim])}",
                    )
                self.parts += array.nonzero()
                axis += array.ndim
                continue
            self.parts.append(part)
            if part is not None:
                if isinstance(part, (int, np.ndarray)):
                    _check(part, axis, lengths[axis])
                axis += 1

    @staticmethod
    def _part(part: Any) -> Any:
        if part is None or part is Ellipsis or isinstance(part, slice):
            return cast(Any, part)
        if isinstance(part, Tensor):
            part = as_array(part)
            if part.const is not None:
                part = np.broadcast_to(part.const, shape(part))
            elif part.element is i1:
                fail(
                    IncompatibleAxesError,
                    f"{part.called} is a computed boolean mask, so the shape of the result would depend on data",
                    "write ng.numpy.where(condition, x, y), reductions with where=, or x[ng.numpy.nonzero(condition, size=n)]",
                )
            elif isinstance(part.element, IntegerType):
                return part
            else:
                fail(UserError, f"{part.called} holds {part.element}; indices must be integers or booleans")
        if isinstance(part, (list, tuple)) and isinstance(weak(part), np.dtype):
            tensor = as_array(part)
            if tensor.const is None:
                return Index._part(tensor)
        if isinstance(part, (bool, np.bool_)):
            fail(UserError, "a boolean index would make an axis of length 1 or 0", "use None for a new axis")
        try:
            return as_index(part)
        except TypeError:
            pass
        array = np.asarray(part)
        if array.size == 0 and not isinstance(part, np.ndarray):
            array = array.astype(np.int64)
        if array.dtype.kind not in "biu":
            fail(
                OutOfBounds,
                f"only integers, slices (`:`), ellipsis (`...`), None and integer or boolean arrays are valid indices, not {part!r}",
            )
        return array

    @property
    def arrays(self) -> list[int]:
        """The places of arrays among the parts; of numbers too, where there is an array, as NumPy counts them."""
        if not any(isinstance(p, (np.ndarray, Tensor)) for p in self.parts):
            return []
        return [i for i, p in enumerate(self.parts) if isinstance(p, (int, np.ndarray, Tensor))]

    @property
    def is_known(self) -> bool:
        """Whether all positions are known now."""
        return not any(isinstance(p, Tensor) for p in self.parts)


def _rank(part: Any) -> int:
    """How many axes a part stands for."""
    if part is None or part is Ellipsis:
        return 0
    return part.ndim if isinstance(part, np.ndarray) and part.dtype == bool else 1


def _check(part: Any, axis: int, length: int) -> None:
    numbers = [part] if isinstance(part, int) else part.reshape(-1).tolist()
    wrong = [n for n in numbers if not -length <= n < length]
    if wrong:
        fail(OutOfBounds, f"index {wrong[0]} is out of bounds for axis {axis} with size {length}")


def getitem(x: Any, item: Any) -> Tensor:
    """`x[item]`."""
    x = as_array(x)
    index = Index(item, shape(x))
    arrays = index.arrays
    basic = [slice(None) if i in arrays else p for i, p in enumerate(index.parts)]
    x = _basic(x, basic)
    return _advanced(x, {_axis(basic, i): index.parts[i] for i in arrays}) if arrays else x


def _axis(basic: Sequence[Any], at: int) -> int:
    """The axis of the result of the basic parts that part `at` is."""
    return sum(not isinstance(p, int) for p in basic[:at])


def _basic(x: Tensor, parts: Sequence[Any]) -> Tensor:
    have, axis = shape(x), 0
    starts, limits, steps, kept = [], [], [], []
    for part in parts:
        if part is None:
            kept.append(1)
            continue
        n = have[axis]
        if isinstance(part, int):
            at = part + n if part < 0 else part
            start, limit, step = at, at + 1, 1
        else:
            try:
                start, stop, step = slice_indices(part, n)
            except (TypeError, ValueError) as error:
                fail(UserError, f"{part} is not a valid slice: {error}")
            taken = range_size(start, stop, step)
            limit = start + taken * step
            if step < 0 and taken:
                limit -= step + 1
            kept.append(taken)
        starts.append(start)
        limits.append(limit)
        steps.append(step)
        axis += 1
    if not are_same(starts, [0] * len(have)) or not are_same(limits, have) or set(steps) - {1}:
        x = VERBS.slice(x, starts=tuple(starts), limits=tuple(limits), steps=tuple(steps))
    return reshape(x, kept)


def _positions(part: Any, length: int) -> Tensor:
    """Positions counted from the start and held within an axis, in a type that counts them."""
    kind = i32 if length < 1 << 31 else i64
    if not isinstance(part, Tensor):
        return known(np.asarray(part) % max(length, 1), kind)
    if isinstance(part.element, IntegerType) and part.element.width > kind.width:
        kind = i64
    part = as_type(part, kind)
    part = where(VERBS.less(part, expand(known(0, kind), shape(part))), add(part, length), part)
    return minimum(maximum(part, 0), length - 1)


def _advanced(x: Tensor, by_axis: dict[int, Any]) -> Tensor:
    """Elements at arrays of positions along some axes."""
    axes, have = list(by_axis), shape(x)
    inner = common_shape(*(shape(p) if isinstance(p, Tensor) else np.shape(p) for p in by_axis.values()))
    if math.prod(inner) and any(have[a] == 0 for a in axes):
        fail(OutOfBounds, f"an array of shape {have} has no elements to take")
    together = axes == [*range(axes[0], axes[-1] + 1)]
    if len(axes) == 1:
        return VERBS.gather(x, _positions(by_axis[axes[0]], have[axes[0]]), axis=axes[0])
    # The indexed axes as one, and with them their positions.
    rest = [d for d in range(len(have)) if d not in axes]
    before = axes[0] if together else 0
    x = permute(x, [*rest[:before], *axes, *rest[before:]])
    size = math.prod(have[a] for a in axes)
    x = reshape(x, [*(have[d] for d in rest[:before]), size, *(have[d] for d in rest[before:])])
    if not any(isinstance(p, Tensor) for p in by_axis.values()):
        wrapped = [np.asarray(p) % max(have[a], 1) for a, p in by_axis.items()]
        at = known(np.ravel_multi_index(np.broadcast_arrays(*wrapped), [have[a] for a in axes]), _kind(size))
    else:
        at = known(0, _kind(size))
        for axis, part in by_axis.items():
            at = add(multiply(at, have[axis]), as_type(_positions(part, have[axis]), at.element))
    return VERBS.gather(x, at, axis=before)


def _kind(size: int) -> Any:
    return i32 if size < 1 << 31 else i64


# ---- writing


def written(x: Tensor, item: Any, value: Any, combine: Combine | Literal["multiply"] = "set") -> Tensor:
    """x with the elements that `x[item]` reads combined with a value."""
    index = Index(item, shape(x))
    have, size = shape(x), math.prod(shape(x))
    moved = [i for i, p in enumerate(index.parts) if not (isinstance(p, slice) and p == slice(None))]
    if combine == "multiply":
        return written(x, item, multiply(getitem(x, item), value))
    value = of_type(value, x.element)
    if len(moved) == 1 and index.parts[moved[0]] is not None:
        # Along one axis: whole slices of it are written.
        axis, part = moved[0], index.parts[moved[0]]
        if isinstance(part, slice):
            part = np.arange(have[axis])[part]
        at = _positions(part, have[axis])
        value = expand(value, (*have[:axis], *shape(at), *have[axis + 1 :]))
        return x if 0 in shape(at) else VERBS.scatter(x, at, value, axis=axis, combine=combine)
    if index.is_known:
        at = known(np.arange(size).reshape(have)[tuple(index.parts)], _kind(size))
    else:
        at = getitem(reshape(count((size,), 0, _kind(size)), have), tuple(index.parts))
    value = expand(value, shape(at))
    count_ = math.prod(shape(at))
    if count_ == 0:
        return x
    made = VERBS.scatter(
        reshape(x, (size,)), reshape(at, (count_,)), reshape(value, (count_,)), axis=0, combine=combine
    )
    return reshape(made, have)


def set_item(x: Tensor, item: Any, value: Any) -> AssignOp:
    """`x[item] = value` of storage: a write, as `ng.assign` makes it. Raises NotAssignable for what is computed."""
    if x.storage_now is None:
        fail(
            NotAssignable,
            f"{x.called} is a computed value and cannot be assigned to",
            "x.at[item].set(value) returns a changed array",
        )
    if Index(item, shape(x)).arrays:
        return assign(x, written(x, item, value))
    part = getitem(x, item)
    return assign(part, expand(of_type(value, x.element), shape(part)))


class At:
    """`x.at[item]`: what to do with the elements that `x[item]` reads; each method gives a new array."""

    def __init__(self, x: Tensor, item: Any = ...):
        self._x, self._item = x, item

    def __getitem__(self, item: Any) -> At:
        refuse_sameness(*(item if isinstance(item, tuple) else (item,)))
        return At(self._x, item)

    def get(self) -> Tensor:
        """The elements themselves."""
        return getitem(self._x, self._item)

    def set(self, value: Any) -> Tensor:
        """With them set to a value; of several for one element the last one stays."""
        return written(self._x, self._item, value)

    def add(self, value: Any) -> Tensor:
        """With a value added to them; several for one element add up."""
        return written(self._x, self._item, value, "add")

    def multiply(self, value: Any) -> Tensor:
        """With them multiplied by a value."""
        return written(self._x, self._item, value, "multiply")

    def max(self, value: Any) -> Tensor:
        """With the greater of them and a value."""
        return written(self._x, self._item, value, "max")

    def min(self, value: Any) -> Tensor:
        """With the lesser of them and a value."""
        return written(self._x, self._item, value, "min")


# ---- functions


def _wrapped(indices: Any, length: int, mode: str) -> Any:
    if mode == "raise":
        return indices
    if mode == "wrap":
        return as_array(indices) % length
    if mode == "clip":
        return minimum(maximum(indices, 0), length - 1)
    fail(UserError, f"mode must be 'raise', 'wrap' or 'clip', not {mode!r}")


def take(a: Any, indices: Any, axis: int | None = None, mode: str = "raise") -> Tensor:
    """Elements by position along an axis; without one, of the array row by row."""
    x, axis = with_axis(a, axis)
    indices = _wrapped(indices, shape(x)[axis], mode)
    if isinstance(indices, (list, tuple)) and not indices:
        indices = np.zeros(0, np.int64)
    return getitem(x, (*[slice(None)] * axis, indices))


def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Tensor:
    """One element per index: at the index along an axis, at its own place along the others."""
    x, at = _along(arr, indices, axis)
    axis = 0 if axis is None else place(axis, len(shape(x)))
    wanted = [*common_shape(_without(x, axis), _without(at, axis))]
    x, at = (expand(v, [*wanted[:axis], shape(v)[axis], *wanted[axis + 1 :]]) for v in (x, at))
    return VERBS.gather_elements(x, at, axis=axis)


def put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None = -1) -> Tensor:
    """`arr` with one element per index set, the mirror of `take_along_axis`; a new array, unlike NumPy's."""
    x, at = _along(arr, indices, axis)
    shaped, axis = shape(as_array(arr)), 0 if axis is None else place(axis, len(shape(x)))
    grid = [
        at if d == axis else np.arange(n).reshape([-1 if i == d else 1 for i in range(len(shape(x)))])
        for d, n in enumerate(shape(x))
    ]
    return reshape(written(x, tuple(grid), values), shaped)


def _without(x: Tensor, axis: int) -> tuple[int, ...]:
    return tuple(1 if d == axis else n for d, n in enumerate(shape(x)))


def _along(arr: Any, indices: Any, axis: int | None) -> tuple[Tensor, Tensor]:
    x, at = as_array(arr), as_array(indices)
    if isinstance(at.element, FloatType) or at.element is i1:
        fail(UserError, f"indices must be integers, not {at.element}")
    if axis is None:
        x = reshape(x, (math.prod(shape(x)),))
    if len(shape(x)) != len(shape(at)):
        fail(
            IncompatibleAxesError,
            f"an array of shape {shape(x)} and indices of shape {shape(at)} must have the same number of axes",
        )
    return x, at


def compress(condition: Any, a: Any, axis: int | None = None) -> Tensor:
    """Slices along an axis where a condition, which is known now, holds."""
    return take(a, np.flatnonzero(np.asarray(condition)), axis)


def choose(a: Any, choices: Sequence[Any], *, mode: str = "clip") -> Tensor:
    """At each position, the element of choice number `a`. Numbers out of range are clamped by `clip`, and taken modulo the number
    of choices by `wrap`. `raise`, NumPy's default, is not supported, since values raise no errors. UserError for another mode."""
    if mode not in ("clip", "wrap"):
        fail(UserError, f"mode is '{mode}'", "it is 'clip' or 'wrap'")
    at, *given = aligned(as_array(a), *(as_array(c) for c in choices))
    at = remainder(at, len(given)) if mode == "wrap" else at
    made = given[0]
    for i, choice in enumerate(given[1:], 1):
        made = where(greater_equal(at, i), choice, made)
    return made


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Tensor:
    """At each position, the element of the first choice whose condition holds."""
    if len(condlist) != len(choicelist) or not condlist:
        fail(UserError, f"{counted(len(condlist), 'condition')} for {counted(len(choicelist), 'choice')}")
    kind = joined(*choicelist, default)
    made = of_type(default, kind)
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        made = where(condition, of_type(choice, kind), made)
    return made


def piecewise(x: Any, condlist: Sequence[Any], funclist: Sequence[Any]) -> Tensor:
    """Functions (or values) of x where their conditions hold; one more is for the rest."""
    x = as_array(x)
    rest = list(funclist[len(condlist) :]) or [0]
    values = [
        as_type(as_array(f(x) if callable(f) else f), x.element)
        for f in (*funclist[: len(condlist)], rest[0])
    ]
    # Of conditions that overlap, NumPy's last one decides.
    return select(list(reversed(condlist)), list(reversed(values[:-1])), values[-1])


def flip(m: Any, axis: Axis = None) -> Tensor:
    """In reverse order along axes (all by itself)."""
    x = as_array(m)
    turned = places(axis, len(shape(x)))
    return getitem(
        x, tuple(slice(None, None, -1) if d in turned else slice(None) for d in range(len(shape(x))))
    )
