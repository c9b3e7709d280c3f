# SPDX-License-Identifier: Apache-2.0
"""Where a transformer keeps the contents of storage between runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..op_graph.errors import NotAssignable, UserError, fail
from ..op_graph.node import Op
from ..op_graph.state import AssignableTensorOp
from ..op_graph.tensor import Tensor
from ..op_graph.values import converted, numbers
from ..op_graph.verbs import resolved
from ..ops import ng


class UninitializedVariable(UserError):
    """A variable is read before it has a value."""


def fit(value: Any, op: Tensor, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """A value as fed: broadcast to the shape and converted (see `converted`); itself where nothing is to be done."""
    what = f"the value for {op.name}"
    array = numbers(value, what)
    if array.shape == shape and array.dtype == dtype:
        return array
    try:
        whole = np.broadcast_to(array, shape)
    except ValueError:
        names = ", ".join(f"{a.name}: {a.length}" for a in op.axes)
        fail(
            UserError,
            f"{op.name} has axes ({names}), a value of shape {array.shape} cannot be broadcast to them",
            f"it was made at {op.location}",
        )
    return whole if array.dtype == dtype else converted(whole, op.element, what)


class DeviceBufferStorage:
    """One allocation, made when it is first needed. On a GPU it moves there with its first use."""

    def __init__(self, op: AssignableTensorOp):
        self.op = op
        self.initialized = False
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
        shape = self.op.axes.known_shape
        initial = self.op.initial_value
        self._host = np.zeros(shape, self.op.dtype)
        if initial is not None:
            self._host[...] = initial()
            self.initialized = True

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

    def set(self, value: Any) -> None:
        """Replaces the contents; the value is broadcast and converted as a fed one is."""
        self.allocate()
        array = fit(value, self.op, self.op.axes.known_shape, self.op.dtype)
        if self._device is not None:
            self._device.write(array)
        else:
            self.host[...] = array
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
        return self.op.axes.known_shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.op.dtype

    def get(self, tensor: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
        """A copy of the contents; in `tensor`, which must have their shape, if one is given."""
        value = _view(self.op, self.storage.get())
        if tensor is None:
            return value
        if tensor.shape != value.shape:
            fail(UserError, f"{self.op.name} has the shape {value.shape}, the array to fill {tensor.shape}")
        tensor[...] = value
        return tensor

    def __getitem__(self, item: Any) -> np.ndarray[Any, Any]:
        return self.get()[item]

    def __setitem__(self, item: Any, value: Any) -> None:
        whole = self.storage.get()
        view = _view(self.op, whole)
        if not np.shares_memory(view, whole) and view.size:
            fail(NotAssignable, f"{self.op.name} is no view that can be written to from the host")
        what = f"the value for {self.op.name}"
        array = converted(numbers(value, what), self.op.element, what)
        try:
            view[item] = array
        except (IndexError, ValueError) as error:
            fail(
                UserError,
                f"a value of shape {array.shape} cannot be put at {item!r} of {self.op.name}, of shape {view.shape}",
                str(error),
            )
        self.storage.set(whole)


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
