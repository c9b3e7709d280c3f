# SPDX-License-Identifier: Apache-2.0
"""The interface of a GPU, real or simulated, that the runtime uses; and buffers in its memory."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from math import prod
from types import TracebackType
from typing import Any, Protocol

import numpy as np

from ..support.diagnostics import UNKNOWN, Location, UserError
from ..support.signature import ITEM_BYTES
from .buffers import DTYPES
from .copies import contiguous


@dataclass(frozen=True)
class GpuFacts:
    """Properties of a device."""

    name: str
    capability: tuple[int, int]  # (9, 0): sm_90
    multiprocessors: int
    shared_bytes: int  # per block, at most
    memory_bytes: int


class Later(Protocol):
    """Bytes of a device that are being copied to the host."""

    def done(self) -> bool:
        """Whether they have arrived; DeviceLost if they cannot arrive any more."""
        ...

    def arrays(self) -> list[np.ndarray]:
        """Waits for the bytes and returns them."""
        ...


class GpuDevice(Protocol):
    """What the runtime needs of a GPU; implemented by `CudaDevice` and `CudaSimDevice`.

    Work is done in the order in which it is submitted, and most calls return before it is done.
    """

    #: Why the device cannot be used any more; empty while it works.
    lost: str
    #: The most bytes that the bound copies of one piece should copy.
    together_bytes: int

    def __enter__(self) -> None:
        """Inside `with device:`, no other thread's calls come between those of this thread."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def allocate(self, size: int, what: str = "", location: Location = UNKNOWN) -> int:
        """The address of `size` bytes, aligned to 256; also for a size of 0. `what` and `location` are for messages."""
        ...

    def free(self, address: int) -> None:
        """Releases memory; may be called by the garbage collector at any moment."""
        ...

    def copy_all_in(self, wanted: Sequence[tuple[int, np.ndarray]]) -> None:
        """Copies C-contiguous arrays to the device; the arrays may change after the return."""
        ...

    def copy_all_out(self, wanted: Sequence[tuple[int, np.ndarray]]) -> None:
        """Fills C-contiguous arrays from the device, after all work submitted before."""
        ...

    def copy(self, to: int, source: int, size: int) -> None:
        """Copies bytes on the device."""
        ...

    def read_later(self, wanted: Sequence[tuple[int, int]]) -> Later:
        """Starts to copy bytes to the host: (address, bytes)."""
        ...

    def keep(self, owner: object) -> None:
        """Keeps `owner` alive until all work submitted so far is done."""
        ...

    def share(self, address: int) -> None:
        """Declares that other libraries may use this allocation in streams of their own until it is freed."""
        ...

    def wait_for(self, stream: Any) -> None:
        """Work submitted from now on waits for what is in the caller's stream now."""
        ...

    def let_wait(self, stream: Any) -> None:
        """The caller's stream waits for all work submitted so far."""
        ...

    def load(self, ptx: str) -> Any:
        """A module of kernels."""
        ...

    def bind(
        self,
        module: Any,
        kernel: str,
        grid: tuple[int, int, int],
        threads: int,
        shared_bytes: int,
        arguments: Sequence[int | bytes],
    ) -> Any:
        """A prepared launch, for `piece`; `arguments` are addresses on the device, and the bytes of arguments that a
        kernel takes by value."""
        ...

    def host_memory(self, owner: object, size: int) -> np.ndarray:
        """Bytes on the host for bound copies, valid as long as `owner`. The caller must not access them while a copy
        does."""
        ...

    def bind_copy_in(self, to: int, source: np.ndarray) -> Any:
        """A copy of an array in `host_memory` to the device, for `piece`."""
        ...

    def bind_copy_out(self, source: int, to: np.ndarray) -> Any:
        """A copy from the device to an array in `host_memory`, for `piece`."""
        ...

    def piece(self, launches: Sequence[Any], waits: bool = False) -> Callable[[], None]:
        """Bound launches and copies in sequence; with `waits`, a call returns when they are done. May be called many
        times."""
        ...

    def synchronize(self) -> None:
        """Waits for all work submitted so far."""
        ...

    def describe(self) -> GpuFacts: ...


#: The numbers of buffers, unique across threads.
_NUMBERS = count(1)


class DeviceBuffer:
    """An array in device memory, freed with its last reference. Its `number` is never reused, unlike its address."""

    def __init__(
        self,
        device: GpuDevice,
        dtype: str,
        shape: tuple[int, ...],
        what: str = "",
        location: Location = UNKNOWN,
    ):
        self.device = device
        self.dtype = dtype
        self.shape = shape
        self.bytes = prod(shape) * ITEM_BYTES[dtype]
        self.owner: object = None
        self.number = next(_NUMBERS)
        # Whole words: atomics on narrow elements exchange the word that contains them.
        self.address = device.allocate(-(-self.bytes // 4) * 4, what, location)
        # Not at exit: the driver may be unloaded by then, and its memory is released with the process.
        weakref.finalize(self, device.free, self.address).atexit = False

    @classmethod
    def borrowed(
        cls, device: GpuDevice, dtype: str, shape: tuple[int, ...], address: int, owner: object
    ) -> DeviceBuffer:
        """A buffer in memory of `owner`, who frees it."""
        made = cls.__new__(cls)
        made.device, made.dtype, made.shape = device, dtype, shape
        made.bytes = prod(shape) * ITEM_BYTES[dtype]
        made.address, made.owner = address, owner
        made.number = next(_NUMBERS)
        return made

    def write(self, array: np.ndarray) -> None:
        """Copies `array`, converted to this buffer's type, to the device."""
        host = contiguous(array, DTYPES[self.dtype])
        if host.shape != self.shape and not (host.size == 1 and prod(self.shape) == 1):
            raise UserError(f"an array of shape {host.shape} is written to a buffer of shape {self.shape}")
        if host.nbytes:
            self.device.copy_all_in([(self.address, host)])

    def read_into(self, array: np.ndarray) -> None:
        """Fills `array`, which has this buffer's type and shape and is contiguous."""
        if array.nbytes:
            self.device.copy_all_out([(self.address, array)])

    def read_pieces(self, octets: np.ndarray, pieces: Iterable[tuple[int, int]]) -> None:
        """Fills ranges of `octets`, the bytes of the whole buffer; each piece is (begin, end)."""
        self.device.copy_all_out([(self.address + begin, octets[begin:end]) for begin, end in pieces])

    def write_pieces(self, octets: np.ndarray, pieces: Iterable[tuple[int, int]]) -> None:
        """Copies ranges of `octets`, the bytes of the whole buffer, to the device; each piece is (begin, end)."""
        self.device.copy_all_in([(self.address + begin, octets[begin:end]) for begin, end in pieces])

    def numpy(self) -> np.ndarray:
        """A copy on the host."""
        array = np.empty(self.shape, DTYPES[self.dtype])
        self.read_into(array)
        return array


def to_device(
    device: GpuDevice, array: np.ndarray, dtype: str, what: str = "", location: Location = UNKNOWN
) -> DeviceBuffer:
    """`array` as a new buffer of element type `dtype` (MLIR spelling); `what` and `location` are for messages."""
    buffer = DeviceBuffer(device, dtype, tuple(array.shape), what, location)
    buffer.write(array)
    return buffer
