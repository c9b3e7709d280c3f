# SPDX-License-Identifier: Apache-2.0
"""One NVIDIA GPU: memory, copies, kernels, and order with other streams."""

from __future__ import annotations

import ctypes
import hashlib
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...support.diagnostics import UNKNOWN, Location
from ..gpu_device import GpuFacts, Later
from .context import Context
from .launches import Bound, Copy, Piece
from .memory import CHUNK_BYTES, Ring
from .modules import CudaModule, load
from .streams import Event, LaterOnHost, Pinned, handle_of


class CudaDevice(Context):
    """GPU number `ordinal`. All work goes through one stream."""

    together_bytes = CHUNK_BYTES

    def __init__(self, ordinal: int = 0):
        super().__init__(ordinal)
        #: Objects of others that the device uses, each with the event after which it does not any more.
        self._borrowed: deque[tuple[Event, object]] = deque()
        #: Modules that a program still uses.
        self._modules: weakref.WeakValueDictionary[str, CudaModule] = weakref.WeakValueDictionary()
        self.ring = Ring(self.driver, self.stream)
        self.pinned = Pinned(self)
        with self:
            self.facts = self._facts()

    def _facts(self) -> GpuFacts:
        api, value = self.driver.api, self.driver.value

        def ask(name: str) -> int:
            number = getattr(api.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
            return value(api.cuDeviceGetAttribute(number, self.handle))

        return GpuFacts(
            value(api.cuDeviceGetName(128, self.handle)).split(b"\0")[0].decode(),
            (ask("COMPUTE_CAPABILITY_MAJOR"), ask("COMPUTE_CAPABILITY_MINOR")),
            ask("MULTIPROCESSOR_COUNT"),
            ask("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
            value(api.cuDeviceTotalMem(self.handle)),
        )

    def describe(self) -> GpuFacts:
        return self.facts

    def __repr__(self) -> str:
        return f"<CudaDevice({self.ordinal}): {self.facts.name}>"

    # ---- memory

    def allocate(self, size: int, what: str = "", location: Location = UNKNOWN) -> int:
        with self:
            return self.memory.allocate(size, what, location)

    def free(self, address: int) -> None:
        self.memory.free(address)

    def copy_all_in(self, wanted: Sequence[tuple[int, np.ndarray]]) -> None:
        with self:
            self.ring.write([(array.ctypes.data, address, array.nbytes) for address, array in wanted])

    def copy_all_out(self, wanted: Sequence[tuple[int, np.ndarray]]) -> None:
        with self:
            self.ring.read([(address, array.ctypes.data, array.nbytes) for address, array in wanted])
            self.since.clear()

    def read_later(self, wanted: Sequence[tuple[int, int]]) -> Later:
        return LaterOnHost(self, self.pinned, wanted)

    def copy(self, to: int, source: int, size: int) -> None:
        with self:
            self.driver.value(self.driver.api.cuMemcpyDtoDAsync(to, source, size, self.stream))

    def share(self, address: int) -> None:
        self.memory.shared.add(address)

    def ordinal_of(self, address: int) -> int:
        """The number of the GPU to which this memory belongs; -1 if to none."""
        api = self.driver.api
        number = api.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        with self:
            status, found = api.cuPointerGetAttribute(number, address)
            return int(found) if status == self.success else -1

    # ---- kernels

    def load(self, ptx: str) -> CudaModule:
        key = hashlib.sha256(ptx.encode()).hexdigest()
        with self:
            module = self._modules.get(key)
            if module is None:
                module = self._modules[key] = load(self.driver, ptx, self.facts.capability)
                self.destroy_after(module, self._unload, module.handle)
            return module

    def _unload(self, handle: Any) -> tuple[Any, ...]:
        """Unloads kernels once none of them can run."""
        self.driver.value(self.driver.api.cuStreamSynchronize(self.stream))
        return self.driver.api.cuModuleUnload(handle)

    def bind(
        self,
        module: CudaModule,
        kernel: str,
        grid: tuple[int, int, int],
        threads: int,
        shared_bytes: int,
        arguments: Sequence[int | bytes],
    ) -> Bound:
        with self:
            return Bound(module, kernel, grid, threads, shared_bytes, arguments)

    def host_memory(self, owner: object, size: int) -> np.ndarray:
        with self:
            address, room = self.pinned.take(size)
        weakref.finalize(owner, self.pinned.give, address, room).atexit = False
        return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))

    def bind_copy_in(self, to: int, source: np.ndarray) -> Copy:
        return Copy(self.driver.api.cuMemcpyHtoDAsync, to, source.ctypes.data, source.nbytes)

    def bind_copy_out(self, source: int, to: np.ndarray) -> Copy:
        return Copy(self.driver.api.cuMemcpyDtoHAsync, to.ctypes.data, source, to.nbytes)

    def piece(self, launches: Sequence[Bound | Copy], waits: bool = False) -> Piece:
        return Piece(self, launches, waits)

    def launch(
        self,
        module: CudaModule,
        kernel: str,
        grid: tuple[int, int, int],
        threads: int,
        shared_bytes: int,
        arguments: Sequence[int | bytes],
    ) -> None:
        self.piece([self.bind(module, kernel, grid, threads, shared_bytes, arguments)])()

    # ---- order with other work

    def keep(self, owner: object) -> None:
        """Keeps `owner` alive until all work submitted so far is done."""
        with self.lock:
            while self._borrowed and self._borrowed[0][0].done():
                self._borrowed.popleft()
            self._borrowed.append((Event(self), owner))

    def event(self) -> Event:
        """An event that completes when all work submitted so far is done."""
        return Event(self)

    def wait_for(self, stream: Any) -> None:
        """Work submitted from now on waits for what is in the caller's stream now."""
        api, value, handle = self.driver.api, self.driver.value, handle_of(stream)
        with self:
            event = value(api.cuEventCreate(api.CUevent_flags.CU_EVENT_DISABLE_TIMING))
            value(api.cuEventRecord(event, handle))
            value(api.cuStreamWaitEvent(self.stream, event, 0))
            value(api.cuEventDestroy(event))

    def let_wait(self, stream: Any) -> None:
        """The caller's stream waits for all work submitted so far."""
        api, value, handle = self.driver.api, self.driver.value, handle_of(stream)
        with self:
            event = value(api.cuEventCreate(api.CUevent_flags.CU_EVENT_DISABLE_TIMING))
            value(api.cuEventRecord(event, self.stream))
            value(api.cuStreamWaitEvent(handle, event, 0))
            value(api.cuEventDestroy(event))
