# SPDX-License-Identifier: Apache-2.0
"""Memory of a GPU: a stream-ordered pool, a record of its allocations, and pinned memory for copies."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from ...support.diagnostics import UNKNOWN, Diagnostic, Location
from .driver import Driver, OutOfMemory

#: Pinned memory for copies, and the largest part of a copy: while one part is copied, the next is filled.
RING_BYTES = 16 << 20
CHUNK_BYTES = RING_BYTES // 4
#: How many parts may be in flight at the same time.
_EVENTS = 256
#: How many of the largest buffers an error lists.
_LISTED = 8


class Memory:
    """The buffers of a device. Callers hold the device's lock and have its context current; `free` needs neither."""

    def __init__(self, driver: Driver, ordinal: int, handle: Any, stream: Any):
        self.driver = driver
        self.ordinal = ordinal
        self.stream = stream
        #: Allocations by address: bytes, purpose, and source location.
        self.live: dict[int, tuple[int, str, Location]] = {}
        #: Addresses that were freed, and are not released yet.
        self.freed: deque[int] = deque()
        #: Addresses that were passed to other libraries, which may use them in any stream.
        self.shared: set[int] = set()
        self._pool = self._make_pool(handle)

    def _make_pool(self, handle: Any) -> Any | None:
        """A pool that retains freed memory; None if the device does not support pools."""
        api, value = self.driver.api, self.driver.value
        supported = api.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED
        if not value(api.cuDeviceGetAttribute(supported, handle)):
            return None
        properties, place = api.CUmemPoolProps(), api.CUmemLocation()
        place.type, place.id = api.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, self.ordinal
        properties.location = place
        properties.allocType = api.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        pool = value(api.cuMemPoolCreate(properties))
        threshold = api.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        value(api.cuMemPoolSetAttribute(pool, threshold, api.cuuint64_t(2**64 - 1)))
        return pool

    def allocate(self, size: int, what: str = "", location: Location = UNKNOWN) -> int:
        """The address of `size` bytes, for work on the stream; OutOfMemory if there is not enough."""
        size = max(size, 1)
        self.drain()
        answer = self._try(size)
        if answer[0].name == "CUDA_ERROR_OUT_OF_MEMORY":
            self._make_room()
            answer = self._try(size)
        if answer[0].name == "CUDA_ERROR_OUT_OF_MEMORY":
            raise self._no_room(size, what, location)
        address = int(self.driver.value(answer))
        self.live[address] = size, what, location
        return address

    def _try(self, size: int) -> tuple[Any, ...]:
        api = self.driver.api
        if self._pool is None:
            return api.cuMemAlloc(size)
        return api.cuMemAllocFromPoolAsync(size, self._pool, self.stream)

    def _make_room(self) -> None:
        """Releases the retained memory of the pool to the driver."""
        api, value = self.driver.api, self.driver.value
        value(api.cuStreamSynchronize(self.stream))
        if self._pool is not None:
            value(api.cuMemPoolTrimTo(self._pool, 0))

    def free(self, address: int) -> None:
        """Marks memory to be released by the next call of the device: the garbage collector may call this at any
        moment."""
        self.freed.append(address)

    def drain(self) -> None:
        """Releases freed memory in stream order, after the work that still uses it."""
        api = self.driver.api
        while self.freed:
            address = self.freed.popleft()
            del self.live[address]
            if address in self.shared:
                self.shared.remove(address)
                self.driver.value(api.cuCtxSynchronize())
            if self._pool is None:
                self.driver.value(api.cuMemFree(address))  # waits for the device
            else:
                self.driver.value(api.cuMemFreeAsync(address, self.stream))

    def _no_room(self, size: int, what: str, location: Location) -> OutOfMemory:
        free, total = self._left()
        largest = sorted(self.live.values(), key=lambda each: -each[0])
        notes = [
            Diagnostic(f"{amount(held)}: {name or 'a buffer'}", place, "note")
            for held, name, place in largest[:_LISTED]
        ]
        if rest := largest[_LISTED:]:
            held = amount(sum(each[0] for each in rest))
            notes.append(Diagnostic(f"{held}: {len(rest)} more", severity="note"))
        held = amount(sum(each[0] for each in largest))
        text = (
            f"GPU {self.ordinal} has no room for {amount(size)} ({what or 'a buffer'}): "
            f"{amount(free)} of {amount(total)} are free, these programs hold {held}"
        )
        hint = "delete results and programs that are not needed, or compile for smaller batches"
        return OutOfMemory([Diagnostic(text, location, hint=hint, notes=tuple(notes))])

    def _left(self) -> tuple[int, int]:
        status, *numbers = self.driver.api.cuMemGetInfo()
        return (int(numbers[0]), int(numbers[1])) if status == self.driver.success else (0, 0)


def amount(size: int) -> str:
    """Bytes as text: `1.5 GiB`."""
    for unit, bits in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >= 1 << bits:
            return f"{size / (1 << bits):.1f} {unit}"
    return f"{size} bytes"


class Ring:
    """A ring buffer of pinned memory, for copies to and from the device in stream order."""

    def __init__(self, driver: Driver, stream: Any):
        self.driver = driver
        self.stream = stream
        self._base = 0
        self._at = 0  # offset of the next part
        self._used: deque[tuple[int, int, Any]] = deque()  # begin, end, and the event after which it is free
        self._events: list[Any] = []

    def take(self, size: int) -> int:
        """The address of `size` bytes, at most CHUNK_BYTES, that no copy uses any more. `done` must follow."""
        api, value = self.driver.api, self.driver.value
        if not self._base:
            self._base = int(value(api.cuMemHostAlloc(RING_BYTES, 0)))
        if self._at + size > RING_BYTES:  # the rest up to the end is skipped
            self._wait_for(self._at, RING_BYTES)
            self._at = 0
        begin, end = self._at, self._at + size
        self._wait_for(begin, end)
        self._at = -(-end // 256) * 256
        return self._base + begin

    def _wait_for(self, begin: int, end: int) -> None:
        """Waits until no copy uses this range. The oldest parts follow the current position in the ring."""
        while self._used and self._used[0][0] < end and begin < self._used[0][1]:
            event = self._used.popleft()[2]
            self.driver.value(self.driver.api.cuEventSynchronize(event))
            self._events.append(event)

    def done(self, address: int, size: int) -> Any:
        """Records that the work on the stream so far uses this part; returns the event that completes when it is done."""
        api = self.driver.api
        if not self._events and len(self._used) < _EVENTS:
            disable_timing = api.CUevent_flags.CU_EVENT_DISABLE_TIMING
            self._events.append(self.driver.value(api.cuEventCreate(disable_timing)))
        if not self._events:
            begin, end, _ = self._used[0]
            self._wait_for(begin, end)
        event = self._events.pop()
        self.driver.value(api.cuEventRecord(event, self.stream))
        self._used.append((address - self._base, address - self._base + size, event))
        return event

    def write(self, wanted: Sequence[tuple[int, int, int]]) -> None:
        """Copies from the host to the device: (source, target, bytes). When it returns, the host memory may be changed
        while the copies continue."""
        copy = self.driver.api.cuMemcpyHtoDAsync
        for pieces in _pieces(wanted):
            total = sum([-(-size // 16) * 16 for _, _, size in pieces])
            pinned = at = self.take(total)
            try:
                for source, address, size in pieces:
                    ctypes.memmove(at, source, size)
                    self.driver.value(copy(address, at, size, self.stream))
                    at += -(-size // 16) * 16
            finally:  # if one fails, earlier ones are in flight
                self.done(pinned, total)

    def read(self, wanted: Sequence[tuple[int, int, int]]) -> None:
        """Copies from the device to the host, after all work of the stream: (source, target, bytes).

        The host copies from one part while the device fills the next.
        """
        coming: deque[tuple[Any, list[tuple[int, int, int]]]] = deque()
        parts = list(_pieces(wanted))
        for pieces in parts:
            if len(coming) == 2:
                self._arrive(*coming.popleft())
            total = sum([-(-size // 16) * 16 for _, _, size in pieces])
            pinned = at = self.take(total)
            moves: list[tuple[int, int, int]] = []
            try:
                for address, to, size in pieces:
                    self.driver.value(self.driver.api.cuMemcpyDtoHAsync(at, address, size, self.stream))
                    moves.append((to, at, size))
                    at += -(-size // 16) * 16
            except BaseException:
                self.done(pinned, total)
                raise
            coming.append((None if len(parts) == 1 else self.done(pinned, total), moves))
        for each in coming:
            self._arrive(*each)

    def _all_done(self) -> None:
        """Waits for the stream: afterwards no part is in use."""
        self.driver.value(self.driver.api.cuStreamSynchronize(self.stream))
        self._events += [event for _, _, event in self._used]
        self._used.clear()

    def _arrive(self, event: Any, moves: Sequence[tuple[int, int, int]]) -> None:
        if event is None:
            self._all_done()
        else:
            self.driver.value(self.driver.api.cuEventSynchronize(event))
        for to, pinned, size in moves:
            ctypes.memmove(to, pinned, size)


def _pieces(wanted: Sequence[tuple[int, int, int]]) -> Iterator[list[tuple[int, int, int]]]:
    """Groups of copies of at most CHUNK_BYTES: long copies are split, short ones are grouped."""
    together: list[tuple[int, int, int]] = []
    room = CHUNK_BYTES
    for source, to, size in wanted:
        for begin in range(0, size, CHUNK_BYTES):
            part = min(CHUNK_BYTES, size - begin)
            if part > room:
                yield together
                together, room = [], CHUNK_BYTES
            together.append((source + begin, to + begin, part))
            room -= -(-part // 16) * 16
    if together:
        yield together
