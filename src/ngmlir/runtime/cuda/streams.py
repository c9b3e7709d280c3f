# SPDX-License-Identifier: Apache-2.0
"""Events of a GPU's stream, what waits for them, and streams of other libraries."""

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
    """The driver's handle of a stream: a number, or what torch, CuPy, Numba and cuda-core have for one."""
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
    """A moment of a device's stream: when all that was asked for before is done."""

    def __init__(self, device: Context):
        self.device = device
        api, value = device.driver.api, device.driver.value
        with device:
            self._event = value(api.cuEventCreate(0))
            device.destroy_after(self, api.cuEventDestroy, self._event)
            value(api.cuEventRecord(self._event, device.stream))

    def done(self) -> bool:
        """Whether the moment has come. DeviceLost where it cannot come any more."""
        driver = self.device.driver
        with self.device:
            (status,) = driver.api.cuEventQuery(self._event)
            if status.name == "CUDA_ERROR_NOT_READY":
                return False
            driver.value((status,))
            return True

    def wait(self) -> None:
        """Returns when the moment has come; others may give the device work meanwhile."""
        self.device.wait(self._event)

    def seconds_since(self, earlier: Event) -> float:
        """The time between two moments, both of which have come, as the device counts it."""
        driver = self.device.driver
        with self.device:
            return driver.value(driver.api.cuEventElapsedTime(earlier._event, self._event)) / 1000


class Pinned:
    """Pieces of pinned memory. One that is given back is taken again only once no copy uses it any more."""

    def __init__(self, device: Context):
        self.device = device
        #: By their size: each with the event after which it is free, None until one is recorded.
        self._given: dict[int, deque[tuple[int, Event | None]]] = {}

    def take(self, size: int) -> tuple[int, int]:
        """A piece that nothing uses: its address, and its size, for `give`. The caller holds the device."""
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
        """Takes a piece back. It is free after the event; without one, once all that was asked of the device by then is
        done. May be called by the garbage collector at any moment, so it asks the device nothing."""
        self._given[room].append((address, free))


class LaterOnHost:
    """Bytes of a device on their way to the host, in pinned memory."""

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
