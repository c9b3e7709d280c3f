# SPDX-License-Identifier: Apache-2.0
"""Where a transformer keeps the contents of storage between runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
from numpy.lib.array_utils import byte_bounds

from ..op_graph.errors import AxisLengthError, NotAssignable, UserError, fail
from ..op_graph.node import Op
from ..op_graph.state import AssignableTensorOp
from ..op_graph.tensor import Tensor
from ..op_graph.values import ValueFor, broadcast_value, converted, numbers
from ..op_graph.verbs import resolved
from ..ops import ng
from ..ops.lengths import READING, reading
from ..support.arrays import copy_into


class UninitializedVariable(UserError):
    """A variable is read before it has a value."""


def fit(value: Any, op: Tensor, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """A value as fed: broadcast to the shape and converted (see `converted`); itself where nothing is to be done."""
    if type(value) is np.ndarray and value.shape == shape and value.dtype == dtype:
        return value
    what = ValueFor(op)
    array = numbers(value, what)
    if array.shape == shape and array.dtype == dtype:
        return array
    made = f"it was made at {op.location}"
    whole = broadcast_value(array, op.axes, shape, lambda: op.called, made)
    return whole if array.dtype == dtype else np.broadcast_to(converted(array, op.element, what), shape)


class DeviceBufferStorage:
    """One allocation, made when it is first needed. On a GPU it moves there with its first use."""

    def __init__(self, op: AssignableTensorOp):
        self.op = op
        self.initialized = False
        self.shape: tuple[int, ...] | None = None
        self.lengths: Mapping[int, int] = {}  # that were given when it was made
        self._host: np.ndarray[Any, Any] | None = None
        self._device: Any = None

    @property
    def host(self) -> np.ndarray[Any, Any]:
        """The array itself (of storage that is not on a device); programs write to it in place."""
        if self._host is None:
            self.allocate()
        assert self._host is not None
        return self._host

    def allocate(self) -> None:
        """Makes the buffer and gives it the initial value, once."""
        if self._host is not None or self._device is not None:
            return
        self.shape, self.lengths = self.op.axes.known_shape, READING.given or {}
        initial = self.op.initial_value
        self._host = np.zeros(self.shape, self.op.dtype)
        if initial is not None:
            self._host[...] = initial()
            self.initialized = True

    def check_shape(self) -> None:
        """AxisLengthError where the axes have other lengths now than when the storage was made."""
        if self.shape != (now := self.op.axes.known_shape):
            assert self.shape is not None
            differing = [i for i, n in enumerate(now) if n != self.shape[i]]
            names = ", ".join(f"{self.shape[i]} along {self.op.axes[i].name}" for i in differing)
            fail(
                AxisLengthError,
                f"{self.op.called} holds {names}, and cannot be used with {', '.join(str(now[i]) for i in differing)}",
                f"what is kept from call to call keeps its lengths; it was made at {self.op.location}",
            )

    def on(self, device: Any) -> Any:
        """The buffer on a GPU."""
        if self._device is None:
            from ..runtime.gpu import to_device

            self._device = to_device(device, self.host, self.op.element.text)
            self._host = None
        return self._device

    def get(self) -> np.ndarray[Any, Any]:
        """A copy of the contents."""
        return self._device.numpy() if self._device is not None else self.host.copy()

    def whole(self) -> np.ndarray[Any, Any]:
        """The contents, to change and `write`: where they lie, or a copy of those on a device."""
        return self.get() if self._device is not None else self.host

    def part(self, show: Callable[[Any], Any]) -> np.ndarray[Any, Any]:
        """A copy of what `show` gives of the contents, and of no more than it spans."""
        if self._device is None:
            return np.array(show(self.host))
        assert self.shape is not None
        like = np.empty(self.shape, self.op.dtype)  # memory that is not touched takes no room
        shown: Any = show(like)
        if not np.size(shown):
            return np.array(shown)
        if not isinstance(shown, np.ndarray) or not np.shares_memory(cast(Any, shown), like):
            return np.array(show(self.get()))
        first, end = byte_bounds(cast(Any, shown))
        self._device.read_range(first - like.ctypes.data, like.reshape(-1).view(np.uint8), end - first)
        return np.array(cast(Any, shown))

    def set(self, value: Any) -> None:
        """Replaces the contents; the value is broadcast and converted as a fed one is."""
        self.write(self.fitted(value))

    def fitted(self, value: Any) -> np.ndarray[Any, Any]:
        """A value as it can be written."""
        self.allocate()
        assert self.shape is not None
        return fit(value, self.op, self.shape, self.op.dtype)

    def write(self, array: np.ndarray[Any, Any]) -> None:
        """Replaces the contents with an array that fits."""
        if self._device is not None:
            self._device.write(array)
        elif array is not self._host:
            copy_into(self.host, array)
        self.initialized = True

    def release(self) -> None:
        self._host = self._device = None


class DeviceTensor:
    """A storage, or a view of it (offset, shape, strides), to read and to set from the host."""

    def __init__(self, storage: DeviceBufferStorage, op: Tensor):
        self.storage = storage
        self.op = op

    @property
    def shape(self) -> tuple[int, ...]:
        with reading(self.storage.lengths):
            return self.op.axes.known_shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.op.dtype

    def get(self, tensor: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
        """A copy of the contents; in `tensor`, which must have their shape, if one is given."""
        value = self.storage.part(self._shown)
        if tensor is None:
            return value
        if tensor.shape != value.shape:
            fail(UserError, f"{self.op.called} has the shape {value.shape}, the array to fill {tensor.shape}")
        tensor[...] = value
        return tensor

    def _shown(self, base: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        with reading(self.storage.lengths):
            return _view(self.op, base)

    def __getitem__(self, item: Any) -> np.ndarray[Any, Any]:
        places: tuple[Any, ...] = cast("tuple[Any, ...]", item) if isinstance(item, tuple) else (item,)
        if not any(place is Ellipsis for place in places):
            places = (*places, ...)  # then one element is a part too
        return self.storage.part(lambda base: self._shown(base)[places])[()]

    def __setitem__(self, item: Any, value: Any) -> None:
        whole = self.storage.whole()
        view = self._shown(whole)
        if not np.shares_memory(view, whole) and view.size:
            fail(NotAssignable, f"{self.op.called} is no view that can be written to from the host")
        what = ValueFor(self.op)
        array = converted(numbers(value, what), self.op.element, what)
        try:
            view[item] = array
        except (IndexError, ValueError) as error:
            fail(
                UserError,
                f"a value of shape {array.shape} cannot be put at {item!r} of {self.op.called}, of shape {view.shape}",
                str(error),
            )
        self.storage.write(whole)


def _view(op: Op, base: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What a view shows of its storage."""
    op = op.forwarded
    if not op.is_view:
        return base
    assert isinstance(op, Tensor)
    below, attributes = _view(op.args[0], base), resolved(op.attributes)
    if op.operation is ng.SliceOp:
        places = zip(attributes["starts"], attributes["limits"], attributes["steps"], strict=True)
        return below[tuple(slice(a, None if s < 0 and b < 0 else b, s) for a, b, s in places)]
    if op.operation is ng.TransposeOp:
        return below.transpose(attributes["permutation"])
    if op.operation is ng.ReshapeOp:
        return below.reshape(op.axes.known_shape)
    if op.operation is ng.BroadcastOp:
        places = attributes["dimensions"]
        return np.broadcast_to(
            np.expand_dims(below, [d for d in range(len(op.axes)) if d not in places]), op.axes.known_shape
        )
    return below
