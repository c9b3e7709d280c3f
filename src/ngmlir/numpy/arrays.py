# SPDX-License-Identifier: Apache-2.0
"""Arrays as tensors whose axes are positions: element types by NumPy's rules, broadcasting, and moves by position.

Everything in this family is made of the ops of `ng` by the functions here, which know shapes only.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np

from ..ir.attributes import numeric_literal
from ..ir.literals import dtype_of, type_of_dtype
from ..ir.types import FloatType, Type, i1, shape_of
from ..op_graph.errors import AxisNotFound, IncompatibleAxesError, UserError, fail
from ..op_graph.foreign import defers
from ..op_graph.functions.coerce import of_kind
from ..op_graph.positions import Positions
from ..op_graph.tensor import Tensor
from ..op_graph.values import ConstantOp, FollowingOp, as_elements, element_of, numbers
from ..op_graph.verbs import VERBS
from ..op_graph.verbs import cast as cast_elements
from ..ops import ng
from ..ops.lengths import same
from ..support.lengths import Length, are_same, as_index, broadcast_shapes, is_same

#: What names an axis by position, several, or all (None).
Axis = int | Sequence[int] | None

#: What NumPy takes as a shape.
Shape = int | Iterable[int]

_POSITIONS = Positions()


def element(dtype: Any) -> Type:
    """The element type that NumPy means by a dtype; a name that only ngmlir has (`bf16`, `f32`) is taken too."""
    try:
        return type_of_dtype(dtype)
    except TypeError:
        return element_of(dtype)


def known(values: Any, dtype: Any = None) -> Tensor:
    """Numbers that are known now, as a constant; one that follows from lengths, as what follows from them."""
    if isinstance(values, Length):
        return FollowingOp(same, [values], _POSITIONS, element("int64" if dtype is None else dtype))
    array = numbers(values)
    kind = type_of_dtype(array.dtype) if dtype is None else element(dtype)
    # One number, repeated, is kept as one.
    single = array.ndim > 0 and array.size > 0 and not any(array.strides)
    value = as_elements(array.reshape(-1)[0] if single else array, kind)
    return ConstantOp(value, Positions.of(array.shape), kind)


def as_array(x: Any, dtype: Any = None) -> Tensor:
    """An operand: the array itself, or a constant (of a type). Raises IncompatibleAxesError for a tensor with named axes."""
    if isinstance(x, Tensor):
        if x.lacks_value:
            x.refuse_use()
        return of_kind(x, _POSITIONS)
    if isinstance(x, (list, tuple)) and _holds_tensors(cast("Sequence[Any]", x)):
        parts = [as_array(item) for item in cast("Sequence[Any]", x)]
        kind = joined(*parts)
        return join([reshape(as_type(p, kind), (1, *shape(p))) for p in parts], 0)
    if defers(x):
        hint = "its parts are tensors, z.real and z.imag; abs(z), z.angle() and z.conj() are there"
        fail(
            UserError,
            f"an operand is a {type(x).__name__}, a pair of tensors, which this function does not take",
            hint,
        )
    return known(x, dtype)


def _holds_tensors(items: Sequence[Any]) -> bool:
    """Whether some of them, or of those in them, are computed when the program runs."""
    return any(
        isinstance(i, (Tensor, Length))
        or (isinstance(i, (list, tuple)) and _holds_tensors(cast("Sequence[Any]", i)))
        for i in items
    )


def of_type(x: Any, kind: Type) -> Tensor:
    """An operand with elements of a type; a number is converted as one."""
    return as_type(as_array(x), kind) if isinstance(x, (Tensor, list, tuple)) else _converted(x, kind)


def _converted(x: Any, kind: Type) -> Tensor:
    if isinstance(x, np.ndarray) or isinstance(x, np.generic):
        return as_type(known(x), kind)
    return known(x, kind)


def as_type(x: Tensor, kind: Type) -> Tensor:
    """The array with other elements; itself if it has them."""
    between = isinstance(x.element, FloatType) and not isinstance(kind, FloatType)
    if isinstance(x, ConstantOp) and x.element is not kind and not between:
        with np.errstate(over="ignore", invalid="ignore"):
            value = x.value.astype(dtype_of(kind))
        value.flags.writeable = False
        return ConstantOp(value, x.axes, kind)
    return cast_elements(x, kind)


def weak(x: Any) -> Any:
    """What NumPy's promotion asks about an operand: its dtype, or the type of a Python number, which gives way."""
    if isinstance(x, Tensor):
        return x.dtype
    if isinstance(x, (int, float)) and not isinstance(x, (bool, np.generic)):
        return float if isinstance(x, float) else int
    if isinstance(x, (list, tuple)):
        return as_array(x).dtype
    return numbers(x).dtype


def joined(*xs: Any) -> Type:
    """The element type that NumPy gives several operands in common."""
    kinds = [weak(x) for x in xs]
    return type_of_dtype(np.result_type(*(k(0) if isinstance(k, type) else k for k in kinds)))


def constant_elements(x: Tensor) -> np.ndarray[Any, Any] | None:
    """The elements, if they are known while the graph is built."""
    return None if x.const is None else np.broadcast_to(x.const, shape(x))


def known_now(given: Any, name: str) -> Any:
    """What decides a shape: numbers that are known while the graph is built. UserError for a tensor whose elements are not."""
    if not isinstance(given, Tensor):
        return given
    elements = constant_elements(given)
    if elements is None:
        fail(UserError, f"{name} must be known while the graph is built, unlike {given.called}")
    return elements


def shape(x: Tensor) -> tuple[int, ...]:
    """The lengths of the axes."""
    return shape_of(x.type)


def lengths(given: Shape) -> tuple[int, ...]:
    """A shape as a tuple."""
    try:
        made = (as_index(given),)
    except TypeError:
        try:
            made = tuple(as_index(n) for n in cast("Iterable[int]", given))
        except TypeError:
            fail(UserError, f"a shape must be an integer or a sequence of integers, not {given!r}")
    if any(n < 0 for n in made):
        fail(UserError, f"a length is negative in the shape {made}")
    return made


def place(axis: Any, rank: int) -> int:
    """An axis counted from the start. Raises AxisNotFound (a ValueError) where there is none."""
    try:
        at = operator.index(axis)
    except TypeError:
        fail(
            UserError,
            f"an axis of an array must be an integer, not {axis!r}",
            "for named axes use the functions of ng",
        )
    if not -rank <= at < rank:
        fail(AxisNotFound, f"axis {at} is out of bounds for array of dimension {rank}")
    return at % rank


def places(axis: Axis, rank: int) -> tuple[int, ...]:
    """Axes counted from the start: all for None."""
    if axis is None:
        return tuple(range(rank))
    found = [place(a, rank) for a in (axis if isinstance(axis, Sequence) else (axis,))]
    if len(set(found)) != len(found):
        fail(UserError, f"duplicate axis in {axis}")
    return tuple(found)


def reduced(axis: Axis, rank: int) -> tuple[int, ...]:
    """The axes that a reduction takes: `places`, but a single number may be taken for an array of one axis, as in NumPy."""
    return () if rank == 0 and axis in (0, -1) else places(axis, rank)


# ---- moves by position


def with_axis(a: Any, axis: int | None) -> tuple[Tensor, int]:
    """An array and one of its axes, counted from the start; for None its elements row by row, which have one axis."""
    x = as_array(a)
    if axis is None:
        return reshape(x, (math.prod(shape(x)),)), 0
    return x, place(axis, len(shape(x)))


def turned(row: Tensor, axis: int, rank: int) -> Tensor:
    """A row along one of so many axes; the others have one element."""
    return reshape(row, [shape(row)[0] if d == axis else 1 for d in range(rank)])


def reshape(x: Tensor, wanted: Sequence[int]) -> Tensor:
    """The same elements in row-major order, in another shape."""
    if are_same(shape(x), tuple(wanted)):
        return x
    if isinstance(x, ConstantOp) and x.value.ndim == 0:
        return ConstantOp(x.value, Positions.of(wanted), x.element)
    return VERBS.stated(ng.ReshapeOp, [x], {}, Positions.of(wanted), x.element)


def permute(x: Tensor, order: Sequence[int]) -> Tensor:
    """Axis i of the result is axis order[i] of x."""
    return x if list(order) == [*range(len(order))] else VERBS.transpose(x, permutation=tuple(order))


def expand(x: Tensor, wanted: Sequence[int]) -> Tensor:
    """x repeated to a shape as NumPy broadcasts. Raises IncompatibleAxesError where it cannot."""
    have, wanted = shape(x), tuple(wanted)
    if are_same(have, wanted):
        return x
    new = len(wanted) - len(have)
    if new < 0 or any(
        not is_same(n, 1) and not is_same(n, w) for n, w in zip(have, wanted[max(new, 0) :], strict=False)
    ):
        fail(IncompatibleAxesError, f"an array of shape {have} cannot be broadcast to shape {wanted}")
    if isinstance(x, ConstantOp) and x.value.ndim == 0:
        return ConstantOp(x.value, Positions.of(wanted), x.element)
    kept = [i for i, n in enumerate(have) if is_same(n, wanted[new + i])]
    x = reshape(x, [have[i] for i in kept])
    dimensions = tuple(new + i for i in kept)
    return VERBS.stated(ng.BroadcastOp, [x], {"dimensions": dimensions}, Positions.of(wanted), x.element)


def common_shape(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that NumPy broadcasts shapes to."""
    try:
        return broadcast_shapes(*shapes)
    except ValueError:
        fail(
            IncompatibleAxesError,
            f"arrays of shapes {' '.join(str(tuple(s)) for s in shapes)} cannot be broadcast together",
            "shapes are broadcast from the last axis on, as in NumPy",
        )


def aligned(*xs: Tensor) -> list[Tensor]:
    """All repeated to their common shape."""
    wanted = common_shape(*map(shape, xs))
    return [expand(x, wanted) for x in xs]


def cut(x: Tensor, axis: int, start: int, stop: int, step: int = 1) -> Tensor:
    """Elements start, start + step, ... before stop along one axis (with a negative step: after stop, which may be -1)."""
    have = shape(x)
    starts = tuple(start if d == axis else 0 for d in range(len(have)))
    limits = tuple(stop if d == axis else n for d, n in enumerate(have))
    steps = tuple(step if d == axis else 1 for d in range(len(have)))
    if (starts, limits, steps) == ((0,) * len(have), have, (1,) * len(have)):
        return x
    return VERBS.slice(x, starts=starts, limits=limits, steps=steps)


def join(xs: Sequence[Tensor], axis: int) -> Tensor:
    """Arrays of one type, one after the other along an axis."""
    return xs[0] if len(xs) == 1 else VERBS.concatenate(list(xs), axis=axis)


def surround(x: Tensor, low: Sequence[int], high: Sequence[int], value: Any = 0) -> Tensor:
    """Elements of `value` before and after each axis."""
    if not any(low) and not any(high):
        return x
    return VERBS.pad(x, low=tuple(low), high=tuple(high), value=numeric_literal(value, x.element))


def count(wanted: Sequence[int], axis: int, kind: Type) -> Tensor:
    """The position along one axis of each element of a shape."""
    return VERBS.stated(ng.IotaOp, [], {"dimension": axis}, Positions.of(wanted), kind)


def truth(x: Any) -> Tensor:
    """Whether elements are not zero."""
    x = as_array(x)
    return x if x.element is i1 else VERBS.not_equal(x, expand(known(0, x.dtype), shape(x)))
