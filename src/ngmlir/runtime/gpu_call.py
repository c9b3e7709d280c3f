# SPDX-License-Identifier: Apache-2.0
"""A program on a GPU with fixed state, prepared for repeated calls: the copies of values and results from and to the
host are part of the step, so that one submission to the device does all of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from ..support.diagnostics import UserError
from ..support.lru import LruCache
from .buffers import DTYPES
from .executable import Prepare
from .gpu import GpuExecutable
from .gpu_arrays import ALIGNMENT, DeviceArray, Pending
from .gpu_device import DeviceBuffer
from .gpu_steps import BINDINGS, Go, run


@dataclass(frozen=True)
class _Bound:
    """A step for values some of which are on the device, at these addresses."""

    taken: list[tuple[int, np.ndarray]]  # index of a value, and the host array it is copied to
    steps: list[Go]
    given: list[np.ndarray]


class GpuCall:
    """An executable with some arguments fixed, the state; called with the values of the others, it returns the results
    that overwrite no state. `prepare` converts values to arrays of the right shape and type."""

    def __init__(self, executable: GpuExecutable, state: Mapping[int, DeviceBuffer], prepare: Prepare):
        self._executable = executable
        self._device = executable.device
        self._state = state
        self._prepare = prepare
        signature = executable.signature
        overwritten = {argument for _, argument in signature.tied}
        self._count = len(signature.arguments)
        self._open = [i for i in range(self._count) if i not in state]
        taken = [signature.arguments[i] for i in self._open]
        given = [signature.results[i] for i in executable.free]
        self._kinds = [(DTYPES[p.dtype], p.shape) for p in taken]
        self._results = [(DTYPES[p.dtype], p.shape) for p in given]
        # Not as one step: programs with checks, and those that overwrite an argument that is no state; nor if there are
        # no results to wait for, or if the copies are long: in parts, one is copied while the host writes the next.
        moved = [sum(p.bytes for p in each) for each in (taken, given)]
        self._together = (
            not executable.code.artifact.checks
            and overwritten <= state.keys()
            and moved[1] > 0
            and max(moved) <= self._device.together_bytes
        )
        #: Host memory of values and results.
        self._here: tuple[list[np.ndarray], list[np.ndarray]] | None = None
        self._bound: LruCache[tuple[int, ...], _Bound] = LruCache(BINDINGS)

    def __call__(self, *values: Any) -> Sequence[Any]:
        ready: Sequence[Any] = values
        places = self._places(ready)
        if places is None:
            ready = self._prepare(values)
            places = self._places(ready)
        if places is None or not self._together:
            results = self._executable.run(self._arguments(ready))
            return [results[i] for i in self._executable.free]
        with self._executable.lock:
            bound = self._bound.find(places) or self._bind(places, ready)
            for at, array in bound.taken:
                array[...] = ready[at]
            try:
                run(bound.steps)  # returns when the results are complete
            except BaseException:
                # Copies in flight use the host's memory: wait until they are complete.
                with suppress(UserError):
                    self._device.synchronize()
                raise
            return [array.copy() for array in bound.given]

    def _places(self, values: Sequence[Any]) -> tuple[int, ...] | None:
        """The address of each value on the device, 0 for those on the host; None unless all have the types and shapes
        of the program."""
        if len(values) != len(self._kinds):
            return None
        places: list[int] = []
        for value, (dtype, shape) in zip(values, self._kinds, strict=True):
            if type(value) is np.ndarray:
                places.append(0)
            elif type(value) is DeviceArray and value.buffer.device is self._device:
                places.append(value.buffer.address)
            else:
                return None
            if value.dtype != dtype or value.shape != shape:
                return None
        return tuple(places)

    def _bind(self, places: tuple[int, ...], values: Sequence[Any]) -> _Bound:
        """The step for values at these addresses."""
        executable, device = self._executable, self._device
        if self._here is None:
            self._here = self._memory()
        here, given = self._here
        buffers = dict(self._state)
        taken: list[tuple[int, np.ndarray]] = []
        before: list[Any] = []
        for at, (number, place, value) in enumerate(zip(self._open, places, values, strict=True)):
            buffer = buffers[number] = value.buffer if place else executable.stage("argument", number)
            if not place and buffer.bytes:
                taken.append((at, here[at]))
                before.append(device.bind_copy_in(buffer.address, here[at]))
        inputs = [buffers[i] for i in range(self._count)]
        outputs = executable.results(inputs)
        after = [
            device.bind_copy_out(outputs[i].address, array)
            for i, array in zip(executable.free, given, strict=True)
            if array.nbytes
        ]
        return self._bound.add(places, _Bound(taken, executable.steps(inputs, outputs, before, after), given))

    def _memory(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Arrays on the host for the values and the results, in one allocation."""
        kinds = [*self._kinds, *self._results]
        sizes = [dtype.itemsize * prod(shape) for dtype, shape in kinds]
        begins = [0, *accumulate(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes)]
        octets = self._device.host_memory(self, begins[-1])
        arrays = [
            octets[begin : begin + size].view(dtype).reshape(shape)
            for begin, size, (dtype, shape) in zip(begins, sizes, kinds, strict=False)
        ]
        return arrays[: len(self._kinds)], arrays[len(self._kinds) :]

    def _arguments(self, ready: Sequence[Any]) -> list[Any]:
        given = iter(ready)
        return [self._state[i] if i in self._state else next(given) for i in range(self._count)]

    def _prepared(self, values: Sequence[Any]) -> list[Any]:
        """All arguments, converted unless all values are arrays that the program accepts."""
        return self._arguments(values if self._places(values) is not None else self._prepare(values))

    def start(self, values: Sequence[Any], stream: Any = None) -> Pending:
        """Like a call, but returns before the results are computed."""
        return self._executable.start(self._prepared(values), stream)

    def run_on_device(self, values: Sequence[Any], stream: Any = None) -> list[DeviceArray]:
        """Like a call, with the results on the device."""
        return self._executable.run_on_device(self._prepared(values), stream)
