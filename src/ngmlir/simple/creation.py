# SPDX-License-Identifier: Apache-2.0
"""Storage and constants of this family, and tensors of others as tensors of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..op_graph.axes import Axes
from ..op_graph.axis import Axis
from ..op_graph.errors import IncompatibleAxesError, UserError, fail
from ..op_graph.functions.coerce import broadcast, cast
from ..op_graph.positions import Positions
from ..op_graph.simple_axes import SimpleAxes
from ..op_graph.state import Role, make_storage
from ..op_graph.stating import FamilyOp
from ..op_graph.tensor import Tensor
from ..op_graph.values import ConstantOp, as_elements, default_dtype, element_of, numbers
from ..op_graph.values import constant as constant_of
from ..op_graph.verbs import VERBS
from ..ops import ng
from ..ops.roles import SAMPLES, STEPS
from .operands import REC, N, as_simple, place, simple

#: Whether there is an axis: no, yes (as long as what is fed), of a length, or this one.
Present = bool | int | Axis | None

Shape = int | Iterable[int]


def _role(given: Present, open: Axis) -> Axis | None:
    if given is None or given is False:
        return None
    if given is True:
        return open
    if isinstance(given, Axis):
        if given.name != open.name:
            fail(
                IncompatibleAxesError,
                f"axis {given.name} is not called {open.name}",
                f"ng.make_axis(length, {open.name!r})",
            )
        return given
    return Axis(given, open.name)


def _lengths(shape: Shape) -> tuple[int, ...]:
    return (int(shape),) if isinstance(shape, int) or not isinstance(shape, Iterable) else tuple(shape)  # pyright: ignore[reportUnnecessaryIsInstance]


def placeholder(
    shape: Shape = (),
    dtype: Any = None,
    *,
    samples: Present = True,
    steps: Present = False,
    initial_value: Any = None,
    name: str | None = None,
) -> Tensor:
    """An input of a computation: features of a shape, for each sample and, with `steps`, for each step.

    `samples` and `steps` say whether there is such an axis: True (what is fed says how long it is), a length, or an axis
    called N or REC. What is fed has the samples first, then the steps, then the features. float32 unless `dtype` says
    otherwise.
    """
    axes = SimpleAxes.of(_lengths(shape), _role(samples, N), _role(steps, REC))
    return make_storage(axes, element_of(default_dtype(dtype)), Role.PLACEHOLDER, initial_value, name)


def variable(
    initial_value: Any, dtype: Any = None, *, shape: Shape | None = None, name: str | None = None
) -> Tensor:
    """A trainable value that is kept from run to run: features as many as the initial value has, or those of `shape`."""
    return _kept(initial_value, dtype, shape, Role.VARIABLE, name)


def persistent_tensor(
    initial_value: Any, dtype: Any = None, *, shape: Shape | None = None, name: str | None = None
) -> Tensor:
    """A value that is kept from run to run and is not trained: as `variable`."""
    return _kept(initial_value, dtype, shape, Role.PERSISTENT, name)


def _kept(initial_value: Any, dtype: Any, shape: Shape | None, role: Role, name: str | None) -> Tensor:
    given = shape
    if given is None:
        given = (
            as_simple(initial_value).shape
            if isinstance(initial_value, Tensor)
            else numbers(initial_value).shape
        )
    return make_storage(
        SimpleAxes.of(_lengths(given)), element_of(default_dtype(dtype)), role, initial_value, name
    )


def asarray(x: Any, dtype: Any = None, *, samples: int | None = None, steps: int | None = None) -> Tensor:
    """A tensor of this family.

    Of a tensor with named axes N are the samples, REC the steps, and the others, in their order, the features. Of an
    array (of numbers, or a tensor of `ng.numpy`) `samples` and `steps` are the positions of such axes, if it has them.
    """
    if isinstance(x, Tensor) and isinstance(x.axes, SimpleAxes):
        made = x
    elif isinstance(x, Tensor) and not isinstance(x.axes, Positions):
        _no_positions(samples, steps, "whose axes have names")
        made = simple(x if type(x.axes) is Axes else FamilyOp(x, Axes(x.axes)))
    else:
        if not isinstance(x, Tensor):
            array = numbers(x)
            value = as_elements(array, element_of(default_dtype(dtype)))
            x = ConstantOp(value, Positions.of(array.shape), element_of(default_dtype(dtype)))
        roles = {}
        for at, role in ((samples, SAMPLES), (steps, STEPS)):
            if at is not None:
                roles[place(at, len(x.axes))] = role
        if len(roles) < (samples is not None) + (steps is not None):
            fail(UserError, f"axis {samples} is given as that of samples and as that of steps")
        names = [roles.get(d, f"a{d}") for d in range(len(x.axes))]
        axes = Axes([Axis(a.length, n) for a, n in zip(x.axes, names, strict=True)])
        made = simple(VERBS.stated(ng.CastAxesOp, [x], {}, axes, x.element))
    return made if dtype is None else cast(made, dtype)


def _no_positions(samples: Any, steps: Any, what: str) -> None:
    if samples is not None or steps is not None:
        fail(UserError, f"samples and steps are known for a tensor {what}", f"they are {SAMPLES} and {STEPS}")


def constant(const: Any, axes: Axes | None = None, dtype: Any = None) -> Tensor:
    """Numbers known now, repeated over axes where there are some; else their dimensions are features."""
    if axes is None:
        return (
            as_simple(const)
            if isinstance(const, Tensor)
            else constant_of(const, SimpleAxes.of(numbers(const).shape), dtype)
        )
    if isinstance(const, Tensor):
        return broadcast(as_simple(const), axes)
    array = numbers(const)
    # As in `ng.constant`, an array with as many dimensions has the order of the axes; fewer ones are features.
    given = axes if array.ndim in (0, len(axes)) else SimpleAxes.of(array.shape)
    return broadcast(constant_of(array, given, dtype), axes)


def zeros(shape: Shape = (), dtype: Any = None) -> Tensor:
    """Features of a shape that are 0."""
    return constant_of(0, SimpleAxes.of(_lengths(shape)), dtype)


def ones(shape: Shape = (), dtype: Any = None) -> Tensor:
    """Features of a shape that are 1."""
    return constant_of(1, SimpleAxes.of(_lengths(shape)), dtype)
