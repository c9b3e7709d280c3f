# SPDX-License-Identifier: Apache-2.0
"""The memory in which a transformer keeps the contents of storage between runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import prod
from typing import Any, Protocol, cast
from weakref import WeakSet

import numpy as np

from ..op_graph.attributes import resolved
from ..op_graph.errors import AxisLengthError, NotAssignable, UserError, fail
from ..op_graph.node import Op
from ..op_graph.state import AssignableTensorOp
from ..op_graph.tensor import Tensor
from ..op_graph.values import ValueFor, broadcast_value, converted, numbers
from ..ops import ng
from ..ops.lengths import READING, reading
from ..runtime.copies import contiguous, copy_into
from ..support.strides import Part


class UninitializedVariable(UserError):
    """A variable is read before it is initialized."""


def fit(value: Any, op: Tensor, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """A fed value: broadcast to the shape and converted (see `converted`); unchanged if it fits already."""
    if type(value) is np.ndarray and value.shape == shape and value.dtype == dtype:
        return value
    what = ValueFor(op)
    array = numbers(value, what)
    if array.shape == shape and array.dtype == dtype:
        return array
    if array.shape != shape and array.ndim:
        whole = broadcast_value(array, op.axes, shape, lambda: op.called, f"it was made at {op.location}")
        if array.dtype == dtype:
            return whole
    made = converted(array, op.element, what, contiguous)
    return made if made.shape == shape else np.full(shape, made)


class Owner(Protocol):
    """What storage needs of its transformer."""

    #: Storage registered by `transform_allocate`, which `allocate_storage` allocates.
    to_allocate: list[DeviceBufferStorage]

    def initialize_state(self, ops: Iterable[AssignableTensorOp]) -> None: ...


class DeviceBufferStorage:
    """One allocation, made when it is first needed. On a GPU it is moved there at its first use."""

    def __init__(self, op: AssignableTensorOp, transformer: Owner):
        self.op = op
        self.transformer = transformer
        self.initialized = False
        self.shape: tuple[int, ...] | None = None
        self.lengths: Mapping[int, int] = {}  # the lengths given at its allocation
        #: The tensors in this buffer.
        self.tensors: WeakSet[DeviceTensor] = WeakSet()
        self._host: np.ndarray[Any, Any] | None = None
        self._device: Any = None

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.op.dtype

    @property
    def is_allocated(self) -> bool:
        """Whether the memory is allocated."""
        return self._host is not None or self._device is not None

    @property
    def bytes(self) -> int:
        """The size of the allocation; 0 before it is made."""
        return 0 if self.shape is None else prod(self.shape) * self.dtype.itemsize

    @property
    def host(self) -> np.ndarray[Any, Any]:
        """The array itself (for storage that is not on a device); programs write to it in place."""
        if self._host is None:
            self.allocate()
        assert self._host is not None
        return self._host

    def transform_allocate(self) -> None:
        """Adds this allocation to those that `Transformer.allocate_storage` makes."""
        self.transformer.to_allocate.append(self)

    def reserve(self) -> bool:
        """Allocates the buffer, filled with zeros; returns whether there was none before."""
        if self.is_allocated:
            return False
        self.shape, self.lengths = self.op.axes.known_shape, READING.given or {}
        self._host = np.zeros(self.shape, self.op.dtype)
        return True

    def allocate(self) -> None:
        """Allocates the buffer with its initial value, once."""
        if not self.is_allocated:
            self.transformer.initialize_state([self.op])
            self.reserve()

    def check_shape(self) -> None:
        """AxisLengthError if the axes have other lengths now than when the storage was allocated."""
        if self.shape != (now := self.op.axes.known_shape):
            assert self.shape is not None
            differing = [i for i, n in enumerate(now) if n != self.shape[i]]
            names = ", ".join(f"{self.shape[i]} along {self.op.axes[i].name}" for i in differing)
            fail(
                AxisLengthError,
                f"{self.op.called} holds {names}, and cannot be used with {', '.join(str(now[i]) for i in differing)}",
                f"the shape of state cannot change between calls; it was created at {self.op.location}",
            )

    def on(self, device: Any) -> Any:
        """The buffer on a GPU."""
        if self._device is None:
            from ..runtime.gpu_device import to_device

            self._device = to_device(
                device, self.host, self.op.element.text, self.op.called, self.op.location
            )
            self._host = None
        return self._device

    def get(self) -> np.ndarray[Any, Any]:
        """A copy of the contents."""
        return self._device.numpy() if self._device is not None else self.host.copy()

    @property
    def device(self) -> Any:
        """The buffer on a GPU; None if it is not (yet) there."""
        return self._device

    def like(self) -> np.ndarray[Any, Any]:
        """The contents in place; for those on a device, an uninitialised array of their shape."""
        if self._device is None:
            return self.host
        assert self.shape is not None
        return np.empty(self.shape, self.dtype)

    def part(self, show: Callable[[Any], Any]) -> np.ndarray[Any, Any]:
        """A copy of `show(contents)`; of contents on a device only the bytes of that part are copied."""
        like = self.like()
        shown: Any = show(like)
        if self._device is None or not np.size(shown):
            return np.array(shown)
        if not isinstance(shown, np.ndarray) or not np.may_share_memory(cast(Any, shown), like):
            return np.array(show(self.get()))
        self._device.read_pieces(_octets(like), Part(cast(Any, shown), like).pieces())
        return np.array(cast(Any, shown))

    def change(self, show: Callable[[Any], np.ndarray[Any, Any]], item: Any, value: Any) -> None:
        """`show(contents)[item] = value`; of contents on a device only the bytes of that part are copied."""
        like = self.like()
        if self._device is None:
            show(like)[item] = value
        else:
            target = show(like)
            changed = target[_with_ellipsis(item)]
            whole = changed if np.may_share_memory(changed, like) else target
            part = Part(whole, like)
            if not part.exact or whole is target:
                self._device.read_pieces(_octets(like), part.pieces())
            target[item] = value
            self._device.write_pieces(_octets(like), part.pieces())
        self.initialized = True

    def set(self, value: Any) -> None:
        """Replaces the contents; the value is broadcast and converted like a fed one."""
        self.write(self.fitted(value))

    def fitted(self, value: Any) -> np.ndarray[Any, Any]:
        """A value, broadcast and converted to the contents' shape and type."""
        self.allocate()
        assert self.shape is not None
        return fit(value, self.op, self.shape, self.op.dtype)

    def write(self, array: np.ndarray[Any, Any]) -> None:
        """Replaces the contents by an array that fits."""
        if self._device is not None:
            self._device.write(array)
        elif array is not self._host:
            copy_into(self.host, array)
        self.initialized = True

    def release(self) -> None:
        self._host = self._device = None


def _octets(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.reshape(-1).view(np.uint8)


class DeviceTensor:
    """A tensor in a buffer: its offset, shape, strides and element type. It can be read and set from the host;
    `np.from_dlpack(tensor)` gives a view without a copy."""

    def __init__(self, storage: DeviceBufferStorage, op: Tensor, whole: bool = False):
        self.storage = storage
        self.op = op
        self._whole = whole  # the buffer has the op's own value, even if the op is a view
        storage.tensors.add(self)

    @property
    def device_buffer(self) -> DeviceBufferStorage:
        """Its allocation."""
        return self.storage

    @property
    def shape(self) -> tuple[int, ...]:
        with reading(self.storage.lengths):
            return self.op.axes.known_shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.op.dtype

    @property
    def offset(self) -> int:
        """The offset of its first element in the buffer, in bytes."""
        base, view = self._placed()
        return view.ctypes.data - base.ctypes.data if view.size else 0

    @property
    def strides(self) -> tuple[int, ...]:
        """The stride along each axis in bytes; 0 where elements are repeated."""
        return self._placed()[1].strides

    @property
    def c_contiguous(self) -> bool:
        """Whether its elements are contiguous in row-major order."""
        return self._placed()[1].flags.c_contiguous

    def _placed(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The buffer and the view of it that this tensor is; NotAssignable if it is not a view."""
        self.storage.allocate()
        base = self.storage.like()
        view = self._shown(base)
        if view.size and not np.may_share_memory(view, base):
            fail(
                NotAssignable,
                f"{self.op.called} cannot be written from the host",
                "it is not a strided view of its storage: reading it makes a copy",
            )
        return base, view

    def get(self, tensor: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
        """A copy of the contents; in `tensor`, which must have their shape, if one is given."""
        if tensor is None:
            return self.storage.part(self._shown)
        if tensor.shape != self.shape:
            fail(UserError, f"{self.op.called} has the shape {self.shape}, the array to fill {tensor.shape}")
        shown = self.storage.part(self._shown) if self.storage.device else self._shown(self.storage.host)
        copy_into(tensor, shown)
        return tensor

    def _shown(self, base: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if self._whole:
            return base
        with reading(self.storage.lengths):
            return view_of(self.op, base)

    def __getitem__(self, item: Any) -> np.ndarray[Any, Any]:
        """A copy of a part; only the bytes of that part are copied from a device."""
        return self.storage.part(lambda base: self._shown(base)[_with_ellipsis(item)])[()]

    def __setitem__(self, item: Any, value: Any) -> None:
        """Writes a part; NotAssignable if this is not a view, UserError for a value that does not fit."""
        self._placed()
        what = ValueFor(self.op)
        array = converted(numbers(value, what), self.op.element, what)
        try:
            self.storage.change(self._shown, item, array)
        except UserError:
            raise
        except (IndexError, ValueError) as error:
            fail(
                UserError,
                f"a value of shape {array.shape} cannot be put at {item!r} of {self.op.called}, of shape {self.shape}",
                str(error),
            )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return self.get() if dtype is None else self.get().astype(dtype)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The elements on a GPU without a copy; later calls of programs change them."""
        device = self._device
        if getattr(device, "ordinal", None) is None or self.dtype.kind == "V":  # the protocol has no bfloat16
            raise AttributeError(
                f"{self.op.called} has no __cuda_array_interface__: it is {self.dtype}, on the host or simulated"
            )
        base, view = self._placed()
        device.share(self.storage.device.address)
        return {
            "shape": view.shape,
            "typestr": view.dtype.str,
            "data": (self.storage.device.address + (view.ctypes.data - base.ctypes.data), False),
            "strides": view.strides,
            "version": 3,
            "stream": int(device.stream),
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        """(1, 0): the host; (2, number): a GPU. Contents on a simulated GPU are exported as a copy on the host."""
        number = getattr(self._device, "ordinal", None)
        return (1, 0) if number is None else (2, number)

    @property
    def _device(self) -> Any:
        buffer = self.storage.device
        return None if buffer is None else buffer.device

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The elements without a copy: later calls of programs change them. On the host if `dl_device` asks for that (a
        copy of those on a GPU), and for a simulated GPU."""
        here = self.__dlpack_device__()
        wanted = here if dl_device is None else tuple(dl_device)
        if wanted == (1, 0):
            lies = self.storage.device is None
            if copy is False and not lies:
                raise BufferError(
                    f"{self.op.called} is on a device: its elements can only be copied to the host"
                )
            array = self._placed()[1] if lies and not copy else self.get()
            return array.__dlpack__(max_version=max_version)
        if wanted != here or copy:
            raise BufferError(f"{self.op.called} is on device {here}, and cannot be moved to {wanted}")
        from ..runtime import dlpack

        base, view = self._placed()
        buffer = self.storage.device
        if stream != -1:  # -1: no synchronisation
            self._device.let_wait(1 if stream is None else stream)
        self._device.share(buffer.address)
        steps = [step // view.itemsize for step in view.strides]
        address = buffer.address + (view.ctypes.data - base.ctypes.data)
        return dlpack.capsule(address, view.shape, steps, buffer.dtype, here, buffer)


def _with_ellipsis(item: Any) -> tuple[Any, ...]:
    """The index with an ellipsis, so that a single element is an array too."""
    places: tuple[Any, ...] = cast("tuple[Any, ...]", item) if isinstance(item, tuple) else (item,)
    return places if any(place is Ellipsis for place in places) else (*places, ...)


def view_of(op: Op, base: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The part of the storage array that a view op shows."""
    op = op.forwarded
    if not op.is_view:
        return base
    assert isinstance(op, Tensor)
    below, attributes = view_of(op.args[0], base), resolved(op.attributes)
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
