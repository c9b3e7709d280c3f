# SPDX-License-Identifier: Apache-2.0
"""The device `cuda-sim`: a GPU for machines without one. It runs the final PTX in NumPy, with checks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from threading import RLock
from types import TracebackType
from typing import Any
from weakref import WeakValueDictionary, finalize

import numpy as np

from ..simulator.counters import Counters
from ..simulator.memory import DeviceMemory
from ..simulator.module import Module
from ..support.diagnostics import UNKNOWN, Location, UserError
from .gpu_device import GpuFacts, Later


class CudaSimDevice:
    """One simulated GPU.

    With a `seed`, warps and asynchronous copies run in a random order, which does not change the results of a correct
    program. `check_races` detects accesses that no barrier orders. With `count`, `counted` has the counters of each
    kernel (`simulator.counters`), which takes time. With a `sample`, about that many blocks of each launch run, and
    their counts are scaled to all blocks: the results are then wrong, and only the counts are meaningful.
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        check_races: bool = True,
        count: bool = False,
        sample: int | None = None,
        capability: tuple[int, int] = (9, 0),
    ):
        self.seed = seed
        self.check_races = check_races
        self.counted: dict[str, Counters] | None = {} if count else None
        self.sample = sample
        self.capability = capability
        # With a sample, memory is 0 at first: indices that no block computes then stay inside.
        self.memory = DeviceMemory() if sample is None else DeviceMemory(fresh=0)
        self.lost = ""
        self.together_bytes = 4 << 20
        #: Modules that a program still uses.
        self._modules: WeakValueDictionary[str, Module] = WeakValueDictionary()
        # One kernel or copy at a time. Memory that the garbage collector frees during one is released after it.
        self._lock = RLock()
        self._freed: deque[int] = deque()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def _release(self) -> None:
        while self._freed:
            self.memory.free(self._freed.popleft())

    def allocate(self, size: int, what: str = "", location: Location = UNKNOWN) -> int:
        with self._lock:
            self._release()
            return self.memory.allocate(size)

    def free(self, address: int) -> None:
        self._freed.append(address)

    def copy_all_in(self, wanted: Sequence[tuple[int, np.ndarray]]) -> None:
        with self._lock:
            for address, array in wanted:
                flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
                self.memory.bytes_at(address, array.nbytes)[:] = flat

    def copy_all_out(self, wanted: Sequence[tuple[int, np.ndarray]]) -> None:
        with self._lock:
            for address, array in wanted:
                array.reshape(-1).view(np.uint8)[:] = self.memory.bytes_at(address, array.nbytes)

    def copy(self, to: int, source: int, size: int) -> None:
        with self._lock:
            self.memory.bytes_at(to, size)[:] = self.memory.bytes_at(source, size)

    def read_later(self, wanted: Sequence[tuple[int, int]]) -> Later:
        arrays = [np.empty(size, np.uint8) for _, size in wanted]
        self.copy_all_out([(address, array) for (address, _), array in zip(wanted, arrays, strict=True)])
        return _There(arrays)

    def keep(self, owner: object) -> None:
        """No work is pending when a call returns, so nothing must be kept."""

    def share(self, address: int) -> None:
        """Other libraries have no streams that would use it."""

    def wait_for(self, stream: Any) -> None:
        raise UserError("the simulator of a GPU has no streams", hint="omit stream= on cuda-sim")

    let_wait = wait_for

    @contextmanager
    def counting(self, counted: dict[str, Counters]) -> Generator[None]:
        """Kernels that run inside are added to `counted`; no other thread's kernels run meanwhile."""
        with self._lock:
            around, self.counted = self.counted, counted
            try:
                yield
            finally:
                self.counted = around

    def load(self, ptx: str) -> Module:
        with self._lock:
            module = self._modules.get(ptx)
            if module is None:
                module = self._modules[ptx] = Module(ptx, self.memory)
                finalize(module, self._freed.extend, list(module.addresses.values())).atexit = False
            return module

    def bind(
        self,
        module: Module,
        kernel: str,
        grid: tuple[int, int, int],
        threads: int,
        shared_bytes: int,
        arguments: Sequence[int | bytes],
    ) -> Callable[[], None]:
        held = list(arguments)
        return lambda: self.launch(module, kernel, grid, threads, shared_bytes, held)

    def launch(
        self,
        module: Module,
        kernel: str,
        grid: tuple[int, int, int],
        threads: int,
        shared_bytes: int,
        arguments: Sequence[int | bytes],
    ) -> None:
        with self._lock:
            self._release()
            module.launch(
                kernel,
                grid,
                threads,
                arguments,
                shared_bytes,
                seed=self.seed,
                check_races=self.check_races,
                counters=None if self.counted is None else self.counted.setdefault(kernel, Counters()),
                sample=self.sample,
            )

    def host_memory(self, owner: object, size: int) -> np.ndarray:
        return np.empty(size, np.uint8)

    def bind_copy_in(self, to: int, source: np.ndarray) -> Callable[[], None]:
        return lambda: self.copy_all_in([(to, source)])

    def bind_copy_out(self, source: int, to: np.ndarray) -> Callable[[], None]:
        return lambda: self.copy_all_out([(source, to)])

    def piece(self, launches: Sequence[Callable[[], None]], waits: bool = False) -> Callable[[], None]:
        def go() -> None:
            for launch in launches:
                launch()

        return go

    def synchronize(self) -> None:
        """Launches are synchronous; this releases what was freed."""
        with self._lock:
            self._release()

    def describe(self) -> GpuFacts:
        return GpuFacts("PTX simulator", self.capability, 1, 227 * 1024, 1 << 34)


class _There:
    """A copy to the host that is complete already."""

    def __init__(self, arrays: list[np.ndarray]):
        self._arrays = arrays

    def done(self) -> bool:
        return True

    def arrays(self) -> list[np.ndarray]:
        return self._arrays
