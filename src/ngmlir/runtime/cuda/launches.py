# SPDX-License-Identifier: Apache-2.0
"""Launches with all that they need ready: one by one the first time, and as one graph from the second on."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .context import Context


def one_by_one() -> bool:
    """Whether each kernel is waited for, so that one that fails is named: NGMLIR_CUDA_BLOCKING=1."""
    return os.environ.get("NGMLIR_CUDA_BLOCKING", "0") not in ("", "0")


class Bound:
    """One kernel with its arguments. The driver reads `void*[]`: addresses of the arguments, which lie in `_values`."""

    def __init__(
        self,
        api: Any,
        kernel: str,
        function: Any,
        grid: tuple[int, int, int],
        threads: int,
        shared_bytes: int,
        arguments: Sequence[int],
    ):
        self.kernel = kernel
        self._values = np.array(arguments, np.uint64)
        self._places = self._values.ctypes.data + 8 * np.arange(len(arguments), dtype=np.uint64)
        self.launch: Callable[..., tuple[Any, ...]] = api.cuLaunchKernel
        self.before = (function, *grid, threads, 1, 1, shared_bytes)
        self.after = (self._places.ctypes.data, 0)


class Piece:
    """Launches that follow one another with no question between them. Call it as often as wanted."""

    def __init__(self, device: Context, launches: Sequence[Bound]):
        self.device = device
        self.launches = launches
        self.kernels = [launch.kernel for launch in launches]
        self._called = False
        self._graph: Any = None
        self._start = device.driver.api.cuGraphLaunch

    def __call__(self) -> None:
        device = self.device
        device.since.append(self.kernels)
        with device:
            if self._graph is None:
                self._begin()
            if self._graph is not None:
                (status,) = self._start(self._graph, device.stream)
                if status != device.success:
                    raise device.driver.failure(status)

    def _begin(self) -> None:
        """Makes the graph, if this is no longer the first call; else launches."""
        if one_by_one():
            self._launch_and_wait()
        elif self._called and len(self.launches) > 1:
            self._capture()
        else:
            self._called = True
            self._launch(self.device.stream)

    def _launch(self, stream: Any) -> None:
        success = self.device.success
        for each in self.launches:
            (status,) = each.launch(*each.before, stream, *each.after)
            if status != success:
                raise self.device.driver.failure(status, each.kernel)

    def _launch_and_wait(self) -> None:
        device = self.device
        for each in self.launches:
            (status,) = each.launch(*each.before, device.stream, *each.after)
            if status == device.success:
                (status,) = device.driver.api.cuStreamSynchronize(device.stream)
            if status != device.success:
                raise device.driver.failure(status, each.kernel)

    def _capture(self) -> None:
        api, value = self.device.driver.api, self.device.driver.value
        stream = self.device.captures
        value(api.cuStreamBeginCapture(stream, api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
        try:
            self._launch(stream)
        finally:
            graph = value(api.cuStreamEndCapture(stream))
        self._graph = value(api.cuGraphInstantiate(graph, 0))
        value(api.cuGraphDestroy(graph))
        self.device.destroy_after(self, api.cuGraphExecDestroy, self._graph)
