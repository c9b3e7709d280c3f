# SPDX-License-Identifier: Apache-2.0
"""Events of a GPU's stream, pinned memory and copies that wait for them, and streams of other libraries."""

from __future__ import annotations

import ctypes
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...support.diagnostics import UserError
from .context import Context


def handle_of(stream: Any) -> int:
    """The driver's handle of a stream: of a number, or of a stream object of torch, CuPy, Numba or cuda-core."""
    if isinstance(stream, int):
        return stream
    protocol: Any = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        answer: Any = protocol() if callable(protocol) else protocol
        return int(answer[1])  # after the version of the protocol
    for name in ("cuda_stream", "ptr", "handle"):
        if hasattr(stream, name):
            return int(getattr(stream, name))
    try:
        return int(stream)
    except (TypeError, ValueError):
        raise UserError(
            f"{stream!r} is not a CUDA stream",
            hint="use use a number (the driver's handle), or an object with __cuda_stream__",
        ) from None


class Event:
    """An event in a device's stream: it completes when all work submitted before is done."""

    def __init__(self, device: Context):
        self.device = device
        api, value = device.driver.api, device.driver.value
        with device:
            self._event = value(api.cuEventCreate(0))
            device.destroy_after(self, api.cuEventDestroy, self._event)
            value(api.cuEventRecord(self._event, device.stream))

    def done(self) -> bool:
        """Whether the event has completed. DeviceLost if it cannot complete any more."""
        driver = self.device.driver
        with self.device:
            (status,) = driver.api.cuEventQuery(self._event)
            if status.name == "CUDA_ERROR_NOT_READY":
                return False
            driver.value((status,))
            return True

    def wait(self) -> None:
        """Waits for the event; other threads may submit work meanwhile."""
        self.device.wait(self._event)

    def seconds_since(self, earlier: Event) -> float:
        """Seconds between two events, both of which have completed, by the device's clock."""
        driver = self.device.driver
        with self.device:
            return driver.value(driver.api.cuEventElapsedTime(earlier._event, self._event)) / 1000


class Pinned:
    """Buffers of pinned memory. A returned buffer is reused only once no copy uses it any more."""

    def __init__(self, device: Context):
        self.device = device
        #: Returned buffers by size: each with the event after which it is free, or None if none has been recorded.
        self._given: dict[int, deque[tuple[int, Event | None]]] = {}

    def take(self, size: int) -> tuple[int, int]:
        """A buffer that no copy uses: its address, and its size, for `give`. The caller holds the device's lock."""
        room = 1 << max(8, (size - 1).bit_length())
        pieces = self._given.setdefault(room, deque())
        for _ in range(len(pieces)):
            address, free = pieces.popleft()
            free = free or Event(self.device)
            if free.done():
                return address, room
            pieces.append((address, free))
        driver = self.device.driver
        return int(driver.value(driver.api.cuMemHostAlloc(room, 0))), room

    def give(self, address: int, room: int, free: Event | None = None) -> None:
        """Returns a buffer. It is free after the event; without one, after all work that was submitted by then. The
        garbage collector may call this at any moment, so it makes no call of the driver."""
        self._given[room].append((address, free))


class LaterOnHost:
    """An asynchronous copy from the device to the host, into pinned memory."""

    def __init__(self, device: Context, pinned: Pinned, wanted: Sequence[tuple[int, int]]):
        self._sizes = [size for _, size in wanted]
        api, value = device.driver.api, device.driver.value
        with device:
            total = sum(-(-size // 16) * 16 for size in self._sizes)
            at, room = self._pinned, _ = pinned.take(total)
            try:
                for address, size in wanted:
                    if size:
                        value(api.cuMemcpyDtoHAsync(at, address, size, device.stream))
                    at += -(-size // 16) * 16
            finally:  # the copies go on whether or not anybody still wants the result
                self._event = Event(device)
                weakref.finalize(self, pinned.give, self._pinned, room, self._event).atexit = False

    def done(self) -> bool:
        return self._event.done()

    def arrays(self) -> list[np.ndarray]:
        self._event.wait()
        arrays: list[np.ndarray] = []
        at = self._pinned
        for size in self._sizes:
            arrays.append(np.empty(size, np.uint8))
            ctypes.memmove(arrays[-1].ctypes.data, at, size)
            at += -(-size // 16) * 16
        return arrays
