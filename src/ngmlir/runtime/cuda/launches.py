# SPDX-License-Identifier: Apache-2.0
"""Prepared launches: issued one by one the first time, and as one CUDA graph from the second time on."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np

from .context import Context
from .modules import CudaModule


def one_by_one() -> bool:
    """Whether to wait for each kernel, so that an error names the one that failed: NGMLIR_CUDA_BLOCKING=1."""
    return os.environ.get("NGMLIR_CUDA_BLOCKING", "0") not in ("", "0")


class Bound:
    """One kernel with its arguments: numbers of 8 bytes, or bytes passed by value. The driver reads `void*[]`:
    addresses of the arguments, which are stored in `_values`."""

    def __init__(
        self,
        module: CudaModule,
        kernel: str,
        grid: tuple[int, int, int],
        threads: int,
        shared_bytes: int,
        arguments: Sequence[int | bytes],
    ):
        self.module = module  # keeps it loaded
        self.kernel = kernel
        words = [a if isinstance(a, bytes) else a.to_bytes(8, "little") for a in arguments]
        begins = list(accumulate((len(word) for word in words), initial=0))[:-1]
        self._values = np.frombuffer(b"".join(words) or b"\0", np.uint8)
        self._places = np.array(begins, np.uint64) + np.uint64(self._values.ctypes.data)
        self._launch: Callable[..., tuple[Any, ...]] = module.driver.api.cuLaunchKernel
        self._before = (module.function(kernel, shared_bytes), *grid, threads, 1, 1, shared_bytes)
        self._after = (self._places.ctypes.data, 0)

    def on(self, stream: Any) -> Callable[[], tuple[Any, ...]]:
        """The launch on a stream, as a call of the driver; valid as long as this object."""
        return partial(self._launch, *self._before, stream, *self._after)


class Copy:
    """A copy between pinned host memory and the device, as a function of the driver with its addresses."""

    kernel = ""

    def __init__(self, ask: Callable[..., tuple[Any, ...]], to: int, source: int, size: int):
        self._ask = partial(ask, to, source, size)

    def on(self, stream: Any) -> Callable[[], tuple[Any, ...]]:
        """The copy on a stream, as a call of the driver."""
        return partial(self._ask, stream)


class Piece:
    """Launches and copies in sequence, with no decision of the host between them; with `waits`, a call returns when
    they are done. May be called many times."""

    def __init__(self, device: Context, launches: Sequence[Bound | Copy], waits: bool = False):
        self.device = device
        self.launches = launches
        self.kernels = [launch.kernel for launch in launches if launch.kernel]
        self._wait = device.driver.api.cuStreamSynchronize if waits else None
        self._called = False
        #: Launches all of it by one call of the driver; None until that is possible.
        self._start: Callable[[], tuple[Any, ...]] | None = None

    def __call__(self) -> None:
        device, start = self.device, self._start
        device.since.append(self.kernels)
        if start is None or device.lost or device.doomed or device.memory.freed:
            self._slowly()
            return
        # Like `with device`, in half the time: these few calls need no lock.
        (status,) = device.push(device.context)
        wait = self._wait
        if status is device.success:
            (status,) = start()
            if wait is not None and status is device.success:
                (status,) = wait(device.stream)
            device.pop()
        if status is not device.success:
            with device:
                raise device.driver.failure(status, self.kernels[0] if len(self.kernels) == 1 else "")
        if wait is not None:
            device.since.clear()

    def _slowly(self) -> None:
        device = self.device
        with device:
            if one_by_one():
                self._launch(device.stream, device.driver.api.cuStreamSynchronize)
            elif self._start is not None:
                device.driver.value(self._start())
            elif len(self.launches) == 1:
                self._launch(device.stream)
                self._start = self.launches[0].on(device.stream)
            elif self._called:
                self._capture()
            else:
                self._called = True
                self._launch(device.stream)
            if self._wait is not None:
                device.synchronize()

    def _launch(self, stream: Any, wait: Callable[[Any], tuple[Any, ...]] | None = None) -> None:
        """Launches one by one; with `wait`, waits for each."""
        success = self.device.success
        for each in self.launches:
            (status,) = each.on(stream)()
            if wait is not None and status is success:
                (status,) = wait(stream)
            if status is not success:
                raise self.device.driver.failure(status, each.kernel)

    def _capture(self) -> None:
        """Captures a graph, and launches it."""
        api, value = self.device.driver.api, self.device.driver.value
        stream = self.device.captures
        value(api.cuStreamBeginCapture(stream, api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
        try:
            self._launch(stream)
        finally:
            captured = value(api.cuStreamEndCapture(stream))
        graph = value(api.cuGraphInstantiate(captured, 0))
        value(api.cuGraphDestroy(captured))
        self.device.destroy_after(self, api.cuGraphExecDestroy, graph)
        self._start = partial(api.cuGraphLaunch, graph, self.device.stream)
        value(self._start())
