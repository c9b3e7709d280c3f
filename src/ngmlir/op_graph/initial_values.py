# SPDX-License-Identifier: Apache-2.0
"""What storage begins with: a number, an array, a constant, a computed tensor, or what a function of axes gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from ..ops import ng
from .axes import Axes
from .calls import takes
from .errors import IncompatibleAxesError, UserError, fail
from .node import Op, closure
from .tensor import Tensor
from .values import ConstantOp, FollowingOp, as_elements, broadcast_value
from .verbs import VERBS
from .writes import InitTensorOp

Array = np.ndarray[Any, Any]


class DrawnOnce:
    """A function from axes to an array, called once for the lengths that the axes of a storage have.

    So all transformers of a graph, and files that it is saved to, begin with the same values, also where the function draws
    random numbers. It is called when the storage is made, or, where a length is not set then, when the value is first needed.
    """

    def __init__(self, storage: Tensor, function: Callable[[Axes], Any], called: Callable[[], str]):
        self.storage, self.function, self.called = storage, function, called
        self._drawn: dict[tuple[int, ...], Array] = {}

    def __call__(self, *lengths: int) -> Array:
        """The values for the lengths that the axes have now; the arguments are these lengths."""
        axes, shape = self.storage.axes, self.storage.axes.known_shape
        found = self._drawn.get(shape)
        if found is None:
            what = f"the initial value of {self.called()}"
            value = as_elements(self.function(axes), self.storage.element, what)
            found = self._drawn[shape] = broadcast_value(value, axes, shape, self.called)
        return found


def initial_value(storage: Tensor, given: Any, called: Callable[[], str]) -> Tensor:
    """The op that gives an initial value of a storage: a constant, repeated where it has fewer axes; what a function gives;
    or what computes it.

    Raises IncompatibleAxesError and AxisLengthError for a value that does not fit, UserError for one that is not known now.
    """
    axes, element = storage.axes, storage.element
    if isinstance(given, Tensor):
        if given.const is None:
            return _computed(storage, given)
        given = _by_name(given, axes)
    elif callable(given):
        takes(given, 1, "the initial value")
        drawn = DrawnOnce(storage, given, called)
        if None not in axes.lengths:
            drawn()
        return FollowingOp(drawn, tuple(axes), axes, element)
    value = as_elements(given, element, "the initial value")
    broadcast_value(value, axes, axes.lengths, called)
    here = list(axes[len(axes) - value.ndim :])
    # One element is repeated along an axis; but one row is no batch.
    kept = [d for d, n in enumerate(value.shape) if n != 1 or here[d].length == 1 or here[d].is_batch]
    array = value.reshape([value.shape[d] for d in kept])
    if len(kept) in (0, len(axes)):  # one number is one number whatever the axes
        return ConstantOp(array, axes, element)
    constant = ConstantOp(array, axes.like(here[d] for d in kept), element)
    places = tuple([len(axes) - value.ndim + d for d in kept])
    return VERBS.stated(ng.BroadcastOp, [constant], {"dimensions": places}, axes, element)


def _computed(storage: Tensor, value: Tensor) -> Tensor:
    """A computed initial value, with the axes and elements of its storage."""
    for op in closure([value]):
        if op.region is not None or (op.storage is op and not op.initializers):
            fail(
                UserError,
                f"the initial value of a variable must be known when it is created, but {value.called} depends on {op.called}",
                "compute it from constants, random numbers and variables with an initial value",
            )
    if not value.axes.is_sub_set(storage.axes):
        _refuse_axes(value.axes, storage.axes)
    family = storage.family
    return family.broadcast(family.cast(value, storage.element), storage.axes)


def known_initial_value(init: InitTensorOp) -> Array | None:
    """What an initializer writes, with the lengths that the axes have now; None where it has to be computed."""
    value = init.value
    if isinstance(value, (ConstantOp, FollowingOp)):
        return value.array()
    below: Op | None = value.args[0].forwarded if value.operation is ng.BroadcastOp else None
    if not isinstance(below, (ConstantOp, FollowingOp)):
        return None
    missing = [d for d in range(len(value.axes)) if d not in value.attributes["dimensions"]]
    return np.broadcast_to(np.expand_dims(below.array(), missing), value.axes.known_shape)


def _refuse_axes(given: Axes, axes: Axes) -> NoReturn:
    fail(
        IncompatibleAxesError,
        f"the initial value has axes ({', '.join(given.names)}), the storage ({', '.join(axes.names)})",
    )


def _by_name(constant: Tensor, axes: Axes) -> Array:
    """The elements of a constant, its axes matched by name with those of a storage.

    A constant that was made of an array without axes has new ones, which match by their places.
    """
    array = np.asarray(constant.const)
    if array.ndim == 0 or (isinstance(constant, ConstantOp) and constant.has_new_axes):
        return array
    if not constant.axes.is_sub_set(axes):
        _refuse_axes(constant.axes, axes)
    order = [constant.axes.index(a) for a in axes if a in constant.axes]
    missing = [i for i, a in enumerate(axes) if a not in constant.axes]
    return np.expand_dims(array.transpose(order), missing)
