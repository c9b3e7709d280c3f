# SPDX-License-Identifier: Apache-2.0
"""Artifacts of kind "ptx" on a GPU, real or simulated: buffers on the device, and the executable that runs there."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from threading import Lock
from typing import Any, Protocol

import numpy as np

from ..support.arrays import contiguous
from ..support.artifact import Artifact, Branch, Check, Entry, Launch, Place, Repeat, Step
from ..support.diagnostics import UserError
from ..support.signature import ITEM_BYTES, Parameter
from .buffers import DTYPES, in_memory
from .executable import as_array, check_count, raise_noted

#: Bindings of buffers whose launches are kept ready; a training loop needs one.
_BINDINGS = 16


@dataclass(frozen=True)
class GpuFacts:
    """What a device says about itself."""

    name: str
    capability: tuple[int, int]  # (9, 0): sm_90
    multiprocessors: int
    shared_bytes: int  # per block, at most
    memory_bytes: int


class GpuDevice(Protocol):
    """The little that the runtime needs from a GPU; `CudaDevice` and `CudaSimDevice` offer it."""

    def allocate(self, size: int) -> int:
        """The address of `size` bytes, aligned to 256; also for a size of 0."""
        ...

    def free(self, address: int) -> None:
        """Gives memory back; may be called by the garbage collector at any moment."""
        ...

    def copy_in(self, address: int, array: np.ndarray) -> None:
        """Writes a C-contiguous array to the device; the array may change after the return."""
        ...

    def copy_out(self, address: int, array: np.ndarray) -> None:
        """Fills a C-contiguous array from the device, after all work asked for before."""
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
        arguments: Sequence[int],
    ) -> Callable[[], None]:
        """A launch with all that it needs ready; `arguments` are device addresses. Call it as often as wanted."""
        ...

    def launch(
        self,
        module: Any,
        kernel: str,
        grid: tuple[int, int, int],
        threads: int,
        shared_bytes: int,
        arguments: Sequence[int],
    ) -> None:
        """Runs a kernel once."""
        ...

    def synchronize(self) -> None:
        """Waits for all work asked for so far."""
        ...

    def describe(self) -> GpuFacts: ...


class DeviceBuffer:
    """An array that lives on a device, freed with its last reference."""

    def __init__(self, device: GpuDevice, dtype: str, shape: tuple[int, ...]):
        self.device = device
        self.dtype = dtype
        self.shape = shape
        self.bytes = prod(shape) * ITEM_BYTES[dtype]
        # Whole words: atomics on short elements exchange the word around them.
        self.address = device.allocate(-(-self.bytes // 4) * 4)
        # Not at exit: a driver may be gone by then, and with the process goes all its memory.
        weakref.finalize(self, device.free, self.address).atexit = False

    def write(self, array: np.ndarray) -> None:
        """Copies `array`, converted to this buffer's type, to the device."""
        host = contiguous(array, DTYPES[self.dtype])
        if host.shape != self.shape and not (host.size == 1 and prod(self.shape) == 1):
            raise UserError(f"an array of shape {host.shape} is written to a buffer of shape {self.shape}")
        if host.nbytes:
            self.device.copy_in(self.address, host)

    def read_into(self, array: np.ndarray) -> None:
        """Fills `array`, which has this buffer's type and shape and is contiguous."""
        if array.nbytes:
            self.device.copy_out(self.address, array)

    def read_pieces(self, octets: np.ndarray, pieces: Iterable[tuple[int, int]]) -> None:
        """Fills `octets`, which are those of the whole buffer, from where each piece begins to where it ends."""
        for begin, end in pieces:
            self.device.copy_out(self.address + begin, octets[begin:end])

    def write_pieces(self, octets: np.ndarray, pieces: Iterable[tuple[int, int]]) -> None:
        """Copies to the device what of `octets`, which are those of the whole buffer, lies in pieces."""
        for begin, end in pieces:
            self.device.copy_in(self.address + begin, octets[begin:end])

    def numpy(self) -> np.ndarray:
        """A copy on the host."""
        array = np.empty(self.shape, DTYPES[self.dtype])
        self.read_into(array)
        return array


def to_device(device: GpuDevice, array: np.ndarray, dtype: str) -> DeviceBuffer:
    """`array` as a new buffer of element type `dtype` (MLIR spelling)."""
    buffer = DeviceBuffer(device, dtype, tuple(array.shape))
    buffer.write(array)
    return buffer


class GpuCode:
    """A loaded artifact: its kernels, its constants and what is prepared of them on a device."""

    def __init__(self, artifact: Artifact, device: GpuDevice):
        if artifact.kind != "ptx":
            raise UserError(f"an artifact of kind {artifact.kind!r} does not run on a GPU")
        self.artifact = artifact.without_spent()
        self.device = device
        self.module = device.load(artifact.code.decode())
        self.constants = [to_device(device, in_memory(c), "ui8") for c in artifact.constants]
        self.checks = DeviceBuffer(device, "i64", (len(artifact.checks),))
        self.checking = Lock()  # one buffer serves all calls
        self.prepared = [DeviceBuffer(device, p.dtype, p.shape) for p in artifact.kept]
        results = iter(self.prepared)
        for entry in artifact.prepared:
            GpuExecutable(self, entry).run((), [next(results) for _ in entry.signature.results])
        device.synchronize()
        for number in artifact.spent:
            self.constants[number] = DeviceBuffer(device, "ui8", (0,))


class GpuExecutable:
    """One entry of loaded code. Arguments and results may stay on the device from call to call."""

    def __init__(self, code: GpuCode, entry: Entry):
        self.code = code
        self.signature = entry.signature
        self.device = code.device
        self._steps = entry.steps
        self._arena = DeviceBuffer(self.device, "ui8", (self.signature.arena_bytes,))
        self._staging: dict[tuple[str, int], DeviceBuffer] = {}
        self._bound: OrderedDict[tuple[int, ...], list[Callable[[], None]]] = OrderedDict()
        self._lock = Lock()  # the arena serves one call at a time

    def entry(self, name: str) -> GpuExecutable:
        """Another function of the same program, sharing its code and constants. UserError where there is none such."""
        return GpuExecutable(self.code, self.code.artifact.entry(name))

    def run(
        self,
        arguments: Sequence[Any],
        results: Sequence[DeviceBuffer | None] | None = None,
    ) -> list[np.ndarray | DeviceBuffer]:
        """Runs all kernels in order.

        An argument on the device is used where it lies; anything else is copied there first, and stays as it
        was. A result tied to an argument on the device overwrites it and is returned as that same buffer.
        Other results are written to the buffers in `results` and returned as those, or, without one, as new
        arrays.
        """
        signature = self.signature
        check_count(signature.name, signature.arguments, arguments)
        if results is not None and len(results) != len(signature.results):
            raise UserError(
                f"{signature.name} has {len(signature.results)} results, {len(results)} were given"
            )
        with self._lock:
            inputs = [self._argument(i, given) for i, given in enumerate(arguments)]
            wanted = results or [None] * len(signature.results)
            outputs = [self._result(i, buffer, inputs) for i, buffer in enumerate(wanted)]
            launches = self._bind(inputs, outputs)
            if self.code.artifact.checks:
                self._run_checked(launches)
            else:
                for launch in launches:
                    launch()
            return [self._hand_over(i, arguments, wanted[i], buffer) for i, buffer in enumerate(outputs)]

    def _run_checked(self, launches: Sequence[Callable[[], None]]) -> None:
        checks, buffer = self.code.artifact.checks, self.code.checks
        with self.code.checking:
            buffer.write(np.full(len(checks), Check.FINE, np.int64))
            for launch in launches:
                launch()
            raise_noted(checks, buffer.numpy())

    def __call__(self, *arguments: Any) -> tuple[np.ndarray | DeviceBuffer, ...]:
        """The results for these arguments, like `run`."""
        return tuple(self.run(arguments))

    def _argument(self, index: int, given: Any) -> DeviceBuffer:
        parameter = self.signature.arguments[index]
        if isinstance(given, DeviceBuffer):
            self._check(parameter, given)
            return given
        buffer = self._stage("argument", index, parameter)
        buffer.write(as_array(parameter, given))
        return buffer

    def _result(self, index: int, given: DeviceBuffer | None, inputs: Sequence[DeviceBuffer]) -> DeviceBuffer:
        parameter = self.signature.results[index]
        tied = self.signature.tied_argument(index)
        if tied is not None:
            if given is not None and given is not inputs[tied]:
                raise UserError(
                    f"result {parameter.name!r} overwrites argument {self.signature.arguments[tied].name!r} "
                    "and cannot go to another buffer",
                    parameter.location,
                )
            return inputs[tied]
        if given is None:
            return self._stage("result", index, parameter)
        self._check(parameter, given)
        return given

    def _check(self, parameter: Parameter, buffer: DeviceBuffer) -> None:
        if buffer.device is not self.device:
            raise UserError(f"the buffer for {parameter.name!r} lies on another device", parameter.location)
        if (buffer.dtype, buffer.shape) != (parameter.dtype, parameter.shape):
            raise UserError(
                f"the buffer for {parameter.name!r} holds {buffer.shape} {buffer.dtype}, "
                f"not {parameter.shape} {parameter.dtype}",
                parameter.location,
            )

    def _check_apart(self, inputs: Sequence[DeviceBuffer], outputs: Sequence[DeviceBuffer]) -> None:
        """What a program writes may not be read or written as something else: kernels rely on it."""
        signature = self.signature
        overwritten = {argument for _, argument in signature.tied}
        names = {
            buffer.address: parameter.name
            for i, (parameter, buffer) in enumerate(zip(signature.arguments, inputs, strict=True))
            if i not in overwritten
        }
        for parameter, buffer in zip(signature.results, outputs, strict=True):
            if buffer.address in names:
                raise UserError(
                    f"{parameter.name!r} is written, but {names[buffer.address]!r} is the same buffer",
                    parameter.location,
                    hint="give a copy of one of them",
                )
            names[buffer.address] = parameter.name

    def _stage(self, role: str, index: int, parameter: Parameter) -> DeviceBuffer:
        """The executable's own buffer, for callers whose arrays are on the host."""
        buffer = self._staging.get((role, index))
        if buffer is None:
            buffer = DeviceBuffer(self.device, parameter.dtype, parameter.shape)
            self._staging[role, index] = buffer
        return buffer

    def _bind(
        self, inputs: Sequence[DeviceBuffer], outputs: Sequence[DeviceBuffer]
    ) -> list[Callable[[], None]]:
        key = tuple(buffer.address for buffer in (*inputs, *outputs))
        bound = self._bound.get(key)
        if bound is None:
            self._check_apart(inputs, outputs)
            bound = self._bound_steps(self._steps, inputs, outputs)
            self._bound[key] = bound
            if len(self._bound) > _BINDINGS:
                self._bound.popitem(last=False)
        self._bound.move_to_end(key)
        return bound

    def _bound_steps(
        self, steps: Sequence[Step], inputs: Sequence[DeviceBuffer], outputs: Sequence[DeviceBuffer]
    ) -> list[Callable[[], None]]:
        def bind(step: Step) -> Callable[[], None] | None:
            match step:
                case Launch():
                    if not prod(step.grid):  # an empty grid has nothing to do, and no GPU accepts one
                        return None
                    places = [self._address(place, inputs, outputs) for place in step.buffers]
                    return self.device.bind(
                        self.code.module, step.kernel, step.grid, step.threads, step.shared_bytes, places
                    )
                case Branch():
                    flag = self._address(step.flag, inputs, outputs)
                    return self._branch(flag, *(every(part) for part in (step.then, step.other)))
                case Repeat():
                    flag = self._address(step.flag, inputs, outputs)
                    return self._repeat(flag, *(every(part) for part in (step.asked, step.steps)))

        def every(steps: Sequence[Step]) -> list[Callable[[], None]]:
            return [made for step in steps if (made := bind(step)) is not None]

        return every(steps)

    def _branch(
        self, flag: int, then: Sequence[Callable[[], None]], other: Sequence[Callable[[], None]]
    ) -> Callable[[], None]:
        def go() -> None:
            for step in then if self._is_true(flag) else other:
                step()

        return go

    def _repeat(
        self, flag: int, asked: Sequence[Callable[[], None]], steps: Sequence[Callable[[], None]]
    ) -> Callable[[], None]:
        def go() -> None:
            for step in asked:
                step()
            while self._is_true(flag):
                for step in (*steps, *asked):
                    step()

        return go

    def _is_true(self, flag: int) -> bool:
        """What a condition has come to. The host decides: it waits for the device, and goes on from there."""
        answer = np.empty(1, np.uint8)
        self.device.copy_out(flag, answer)
        return bool(answer[0])

    def _address(self, place: Place, inputs: Sequence[DeviceBuffer], outputs: Sequence[DeviceBuffer]) -> int:
        base = {
            "argument": lambda: inputs[place.index],
            "result": lambda: outputs[place.index],
            "arena": lambda: self._arena,
            "constant": lambda: self.code.constants[place.index],
            "checks": lambda: self.code.checks,
            "prepared": lambda: self.code.prepared[place.index],
        }[place.space]()
        return base.address + place.offset

    def _hand_over(
        self,
        index: int,
        arguments: Sequence[Any],
        wanted: DeviceBuffer | None,
        buffer: DeviceBuffer,
    ) -> np.ndarray | DeviceBuffer:
        tied = self.signature.tied_argument(index)
        owner = arguments[tied] if tied is not None else wanted
        return owner if isinstance(owner, DeviceBuffer) else buffer.numpy()


def load(artifact: Artifact, device: GpuDevice, *, entry: str | None = None) -> GpuExecutable:
    """Makes `artifact` callable on `device`: @main (or the only entry), or the entry asked for."""
    return GpuExecutable(GpuCode(artifact, device), artifact.entry(entry))
