# SPDX-License-Identifier: Apache-2.0
"""How operands are made to fit: element types, and axes matched by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from typing import cast as cast_type

import numpy as np

from ...ir.literals import dtype_of
from ...ir.types import FloatType, IntegerType, Type, f64, i1
from ...ops.ng import BroadcastOp, CastAxesOp, SegmentExpandOp
from ..axes import Axes, AxesOrNames, Axis
from ..building import BUILDING
from ..errors import AxisLengthError, AxisNotFound, IncompatibleAxesError, UserError, fail
from ..fed_checks import check_offsets
from ..ragged import levels_of
from ..source import called_functions
from ..tensor import Tensor
from ..values import ConstantOp, constant, element_of, numbers
from ..values import as_op as any_tensor
from ..verbs import VERBS
from ..verbs import cast as cast_elements


def of_kind(x: Tensor, axes: Axes) -> Tensor:
    """The tensor with axes of the kind of `axes`: the rule where families mix.

    A single number belongs to every family: the coercion is inserted. Anything else is refused, with the function that
    makes the one from the other: which name a position has, or which position a name, is for the user to say.
    """
    if type(x.axes) is type(axes):
        return x
    if not x.axes:
        return VERBS.stated(CastAxesOp, [x], {}, axes.like(()), x.element)
    # Where a function of named axes was called that the tensor's own family has too, that is the likelier wish.
    family = type(x.axes).family
    has = getattr(family, "__all__", ()) if type(axes) is Axes else ()
    own = [
        family.__name__.replace("ngmlir", "ng", 1) + "." + name for name in called_functions() if name in has
    ]
    fail(
        IncompatibleAxesError,
        f"{x.called} has {x.axes.called}, {x.axes!r}, where {axes.called} are needed",
        f"{own[0]} takes {x.axes.called}; {axes.made_by}" if own else axes.made_by,
    )


def as_op(x: Any) -> Tensor:
    """A tensor of this family: the tensor itself; numbers and arrays become constants."""
    return of_kind(any_tensor(x), _NAMED)


_NAMED = Axes()


def result_element(dtype: Any = None, *operands: Any, whole: bool = False) -> Type:
    """The element type of a result: float32 unless something else is asked for.

    Elements of 64 bits were asked for, and are not narrowed: with an f64 among the operands, or where all are integers
    and one has 64 bits, the result is f64; with `whole` (an op that integers have too) that of integers is an integer.
    """
    if dtype is not None:
        return element_of(dtype)
    elements = [x.element for x in operands if isinstance(x, Tensor)]
    if any(e is f64 for e in elements):
        return f64
    integers = [e for e in elements if isinstance(e, IntegerType)]
    if not any(e.width == 64 for e in integers) or len(integers) < len(elements):
        return BUILDING.float
    others = [numbers(x).dtype for x in operands if not isinstance(x, Tensor)]
    joined = element_of(np.result_type(*map(dtype_of, integers)))
    return (
        joined if whole and isinstance(joined, IntegerType) and all(d.kind in "biu" for d in others) else f64
    )


def operand(x: Any, element: Type) -> Tensor:
    """`x` as a tensor of these elements; numbers and arrays become constants of them."""
    return cast_elements(as_op(x), element) if isinstance(x, Tensor) else constant(x, dtype=element)


def floating(x: Any, dtype: Any = None) -> Tensor:
    """`x` with the elements that a result has which is a float."""
    return operand(x, result_element(dtype, x))


def number(x: Any, dtype: Any = None) -> Tensor:
    """`x` with the elements that a result has which may be an integer."""
    return operand(x, result_element(dtype, x, whole=True))


def common_element(x: Any, y: Any) -> Type:
    """The type in which two things are compared: that of both, or the one that holds both."""
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        if x.element is y.element:
            return x.element
        return element_of(np.result_type(x.dtype, y.dtype))
    tensor, other = (x, y) if isinstance(x, Tensor) else (y, x)
    if not isinstance(tensor, Tensor):
        return BUILDING.float
    whole = isinstance(other, (bool, int, np.bool_, np.integer))
    if isinstance(tensor.element, FloatType) or (whole and tensor.element is not i1):
        return tensor.element
    return element_of(np.result_type(tensor.dtype, numbers(other).dtype))


def cast(x: Any, dtype: Any) -> Tensor:
    """The tensor converted to another element type; itself if it has that type."""
    return cast_elements(any_tensor(x), element_of(dtype))


#: What may stand for axes where NumPy's word `axis` is used.
Positions = AxesOrNames | int | Sequence[int] | None


def one_of(x: Tensor, axes: AxesOrNames | None, axis: Positions) -> AxesOrNames | None:
    """The axes of x that were given, under one of two words; those of `axis` may be positions."""
    if isinstance(axes, Tensor):
        fail(UserError, f"axes are meant, not {axes.called}", "ng.maximum and ng.minimum are of two tensors")
    if axis is None:
        return axes
    if axes is not None:
        fail(UserError, "the axes are passed twice", "axis= is another name for reduction_axes=")
    given: Any = axis
    if isinstance(given, (tuple, list)):
        return [_at(x, a) for a in cast_type("Sequence[Any]", given)]
    return _at(x, given)


def _at(x: Tensor, axis: Any) -> Any:
    if not isinstance(axis, int):
        return axis
    if not -len(x.axes) <= axis < len(x.axes):
        fail(AxisNotFound, f"there is no axis number {axis} in ({', '.join(x.axes.names)})")
    return x.axes[axis]


def result_axes(x: Axes, y: Axes) -> Axes:
    """Axes of x combined with y: y's if it has all of x's, else x's and then those that only y has."""
    if set(x.names) <= set(y.names):
        return y
    made: list[Axis] = []
    # A ragged axis includes the positions of the axes that it consists of, and replaces them.
    outer = {level.outer.name: axis for axis in (*x, *y) for level in levels_of([axis])}
    for axis in (*x, *y):
        while axis.name in outer:
            axis = outer[axis.name]
        if axis not in made:
            made.append(axis)
    return Axes(made)


def check_lengths(x: Axes, y: Axes) -> None:
    """An axis held by both sides must have one length."""
    for axis in x:
        for other in y:
            if (
                axis.name == other.name
                and axis.length != other.length
                and None not in (axis.length, other.length)
            ):
                fail(
                    AxisLengthError,
                    f"axis {axis.name} has {axis.length} elements on the left and {other.length} on the right",
                    "slice or pad one operand, or rename its axis with ng.cast_role",
                )


def broadcast(x: Any, axes: AxesOrNames) -> Tensor:
    """The tensor with exactly these axes in this order, repeated along those that it does not have."""
    x = any_tensor(x)
    wanted = x.axes.chosen(axes)
    x = of_kind(x, wanted)
    if x.axes == wanted:
        check_lengths(x.axes, wanted)
        return x
    if isinstance(x, ConstantOp) and x.value.ndim == 0 and not x.axes:
        return ConstantOp(x.value, wanted, x.element)
    x = _along_rows(x, wanted)
    lost = [n for n in x.axes.names if n not in wanted.names]
    if lost:
        fail(
            IncompatibleAxesError,
            f"({', '.join(x.axes.names)}) cannot become ({', '.join(wanted.names)}): {', '.join(lost)} would be lost",
            "reduce over it first, or slice it",
        )
    check_lengths(x.axes, wanted)
    places = [wanted.index(a) for a in x.axes]
    if places != sorted(places):
        order = sorted(range(len(places)), key=places.__getitem__)
        x = VERBS.transpose(x, permutation=tuple(order))
    if len(wanted) == len(places):
        return x
    return VERBS.stated(BroadcastOp, [x], {"dimensions": tuple(sorted(places))}, wanted, x.element)


def _along_rows(x: Tensor, wanted: Axes) -> Tensor:
    """What has a value for each sequence, at each of its rows, where a ragged axis is wanted."""
    for level in levels_of(wanted):
        if level.outer in x.axes and level not in x.axes and level.outer not in wanted:
            place = x.axes.index(level.outer)
            axes = Axes((*x.axes[:place], level, *x.axes[place + 1 :]))
            made = VERBS.stated(SegmentExpandOp, [x, level.offsets], {"axis": place}, axes, x.element)
            x = check_offsets(made, level.offsets, level)
    return x


def align(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Both with the same axes."""
    if x.axes.names == y.axes.names:
        check_lengths(x.axes, y.axes)
        return x, y
    check_lengths(x.axes, y.axes)
    axes = result_axes(x.axes, y.axes)
    return broadcast(x, axes), broadcast(y, axes)
