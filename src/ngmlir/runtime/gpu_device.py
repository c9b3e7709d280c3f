# SPDX-License-Identifier: Apache-2.0
"""What the runtime asks of a GPU, real or simulated, and arrays in its memory."""

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
    """What a device says about itself."""

    name: str
    capability: tuple[int, int]  # (9, 0): sm_90
    multiprocessors: int
    shared_bytes: int  # per block, at most
    memory_bytes: int


class Later(Protocol):
    """Bytes of a device that are on their way to the host."""

    def done(self) -> bool:
        """Whether they are there; DeviceLost where they cannot come any more."""
        ...

    def arrays(self) -> list[np.ndarray]:
        """Waits for them."""
        ...


class GpuDevice(Protocol):
    """The little that the runtime needs from a GPU; `CudaDevice` and `CudaSimDevice` offer it.

    What is asked for is done in that order, and most calls return before.
    """

    #: Why nothing can be done with this device any more; empty while it works.
    lost: str
    #: How long what is copied together, by bound copies of a piece, should be at most.
    together_bytes: int

    def __enter__(self) -> None:
        """`with device:` several calls follow one another, and nobody else's come between."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def allocate(self, size: int, what: str = "", location: Location = UNKNOWN) -> int:
        """The address of `size` bytes, aligned to 256; also for a size of 0. `what` and `location` are for messages."""
        ...

    def free(self, address: int) -> None:
        """Gives memory back; may be called by the garbage collector at any moment."""
        ...

    def copy_all_in(self, wanted: Sequence[tuple[int, np.ndarray]]) -> None:
        """Writes C-contiguous arrays to the device; the arrays may change after the return."""
        ...

    def copy_all_out(self, wanted: Sequence[tuple[int, np.ndarray]]) -> None:
        """Fills C-contiguous arrays from the device, after all work asked for before."""
        ...

    def copy(self, to: int, source: int, size: int) -> None:
        """Copies bytes on the device."""
        ...

    def read_later(self, wanted: Sequence[tuple[int, int]]) -> Later:
        """Begins to copy bytes to the host: where they are, and how many."""
        ...

    def keep(self, owner: object) -> None:
        """Keeps what work asked for so far uses, until that is done."""
        ...

    def share(self, address: int) -> None:
        """Says of memory that was allocated here that other libraries may use it, in streams of theirs, until it is freed."""
        ...

    def wait_for(self, stream: Any) -> None:
        """Work that is asked for from now on begins when what is in the caller's stream by now is done."""
        ...

    def let_wait(self, stream: Any) -> None:
        """The caller's stream goes on when all work asked for so far is done."""
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
        """A launch with all that it needs ready, for `piece`; `arguments` are addresses on the device, and the bytes of what
        a kernel takes by value."""
        ...

    def host_memory(self, owner: object, size: int) -> np.ndarray:
        """Bytes on the host that bound copies come from and go to, for as long as there is `owner`. Whoever reads or writes
        them sees to it that no copy does so at the same time."""
        ...

    def bind_copy_in(self, to: int, source: np.ndarray) -> Any:
        """A copy of an array in `host_memory` to the device, for `piece`."""
        ...

    def bind_copy_out(self, source: int, to: np.ndarray) -> Any:
        """A copy from the device to an array in `host_memory`, for `piece`."""
        ...

    def piece(self, launches: Sequence[Any], waits: bool = False) -> Callable[[], None]:
        """Bound launches and copies, one after the other; where it `waits`, it returns when they are done. Call it as often
        as wanted."""
        ...

    def synchronize(self) -> None:
        """Waits for all work asked for so far."""
        ...

    def describe(self) -> GpuFacts: ...


#: Given to buffers, in all threads.
_NUMBERS = count(1)


class DeviceBuffer:
    """An array that lives on a device, freed with its last reference. Its `number` is never another one's, as its address
    may be."""

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
        # Whole words: atomics on short elements exchange the word around them.
        self.address = device.allocate(-(-self.bytes // 4) * 4, what, location)
        # Not at exit: a driver may be gone by then, and with the process goes all its memory.
        weakref.finalize(self, device.free, self.address).atexit = False

    @classmethod
    def borrowed(
        cls, device: GpuDevice, dtype: str, shape: tuple[int, ...], address: int, owner: object
    ) -> DeviceBuffer:
        """Memory of `owner`, who frees it."""
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
        """Fills `octets`, which are those of the whole buffer, from where each piece begins to where it ends."""
        self.device.copy_all_out([(self.address + begin, octets[begin:end]) for begin, end in pieces])

    def write_pieces(self, octets: np.ndarray, pieces: Iterable[tuple[int, int]]) -> None:
        """Copies to the device what of `octets`, which are those of the whole buffer, lies in pieces."""
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
