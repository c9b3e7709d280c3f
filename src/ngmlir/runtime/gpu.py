# SPDX-License-Identifier: Apache-2.0
"""Artifacts of kind "ptx" on a GPU, real or simulated: loaded code, and its executables."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np

from ..support.artifact import Artifact, Check, Entry, Place
from ..support.diagnostics import UserError
from ..support.lru import LruCache
from ..support.signature import Parameter
from . import timing
from .buffers import DTYPES, in_memory
from .executable import as_array, check_count, raise_noted
from .gpu_arrays import ALIGNMENT, DeviceArray, Pending, on_device
from .gpu_device import DeviceBuffer, GpuDevice, GpuFacts, to_device
from .gpu_steps import BINDINGS, Go, bound_steps, run

__all__ = [
    "DeviceArray",
    "DeviceBuffer",
    "GpuCode",
    "GpuDevice",
    "GpuExecutable",
    "GpuFacts",
    "Pending",
    "load",
    "to_device",
]


class GpuCode:
    """A loaded artifact: its kernels, its constants and the buffers prepared from them, on a device."""

    def __init__(self, artifact: Artifact, device: GpuDevice):
        if artifact.kind != "ptx":
            raise UserError(f"an artifact of kind {artifact.kind!r} does not run on a GPU")
        self.artifact = artifact.without_spent()
        self.device = device
        self.module = device.load(artifact.code.decode())
        name = artifact.entries[0].signature.name if artifact.entries else "a program"
        #: The profile that counts the costs of its kernels.
        self.profile = timing.current() if artifact.timed else None
        self.constants = [
            to_device(device, in_memory(c), "ui8", f"constant {number} of @{name}")
            for number, c in enumerate(artifact.constants)
        ]
        self.checks = DeviceBuffer(device, "i64", (len(artifact.checks),), f"checks of @{name}")
        self.checking = Lock()  # all calls share one buffer
        self.prepared = [
            DeviceBuffer(device, p.dtype, p.shape, f"prepared of constants of @{name}") for p in artifact.kept
        ]
        results = iter(self.prepared)
        for entry in artifact.prepared:
            GpuExecutable(self, entry).run((), [next(results) for _ in entry.signature.results])
        device.synchronize()
        for number in artifact.spent:
            self.constants[number] = DeviceBuffer(device, "ui8", (0,))


class GpuExecutable:
    """One entry of loaded code. Arguments and results may stay on the device between calls."""

    def __init__(self, code: GpuCode, entry: Entry):
        self.code = code
        self.signature = entry.signature
        self.device = code.device
        self._entry = entry
        self._checks = code.artifact.checks
        signature = self.signature
        places = [p.location for p in (*signature.results, *signature.arguments) if p.location.known]
        self._arena = DeviceBuffer(
            self.device, "ui8", (signature.arena_bytes,), f"temporaries of @{signature.name}", *places[:1]
        )
        self._staging: dict[tuple[str, int], DeviceBuffer] = {}
        #: Steps by the addresses of the buffers, and by the numbers of buffers that were checked before (see
        #: `_numbers`).
        self._bound: LruCache[tuple[int, ...], list[Go]] = LruCache(2 * BINDINGS)
        self._tied = dict(signature.tied)
        self._overwritten = set(self._tied.values())
        #: The indices of the results that overwrite no argument.
        self.free = [i for i in range(len(signature.results)) if i not in self._tied]
        self.lock = Lock()  # the arena serves one call at a time

    def entry(self, name: str) -> GpuExecutable:
        """Another function of the same program, sharing its code and constants. UserError if there is none of that
        name."""
        return GpuExecutable(self.code, self.code.artifact.entry(name))

    def run(
        self,
        arguments: Sequence[Any],
        results: Sequence[DeviceBuffer | None] | None = None,
        stream: Any = None,
    ) -> list[Any]:
        """Runs all kernels in order.

        An argument on the device (a buffer, or an array of another library) is used in place; anything else is copied
        to the device first, and is not changed. A result tied to an argument on the device overwrites it and is
        returned as that same buffer. Other results are written to the buffers in `results` and returned as those, or,
        without one, as new arrays. If all of them are on the device, the call returns before they are computed.

        With a CUDA `stream`, all this comes after the work that was submitted to that stream before, and before work
        that is submitted to it after the call.
        """
        wanted = [None] * len(self.signature.results) if results is None else results
        numbers = _numbers(arguments, wanted)
        with self.lock:
            if stream is None and (steps := self._bound.find(numbers)) is not None:
                self._go(steps)
                if not (tied := self._tied):
                    return list(wanted)
                return [arguments[tied[i]] if i in tied else buffer for i, buffer in enumerate(wanted)]
            inputs, outputs = self._run(arguments, wanted, stream)
            if all(wanted[i] is not None for i in self.free):
                self._note(numbers, inputs, outputs)
            return self._hand_over(arguments, wanted, inputs, outputs)

    def start(self, arguments: Sequence[Any], stream: Any = None) -> Pending:
        """As `run`, but returns before the results are computed: `Pending.result()` waits for the new arrays.

        A program with checks, or with a branch or a loop whose condition the host reads, runs before this returns.
        """
        free = self.free
        with self.lock:
            _, outputs = self._run(arguments, [None] * len(self.signature.results), stream)
            later = self.device.read_later([(outputs[i].address, outputs[i].bytes) for i in free])
        shapes = [(DTYPES[p.dtype], p.shape) for p in (self.signature.results[i] for i in free)]
        return Pending(later, shapes)

    def run_on_device(self, arguments: Sequence[Any], stream: Any = None) -> list[DeviceArray]:
        """As `run`, with the results that are not tied as new arrays on the device; returns before they are computed."""
        signature = self.signature
        wanted: list[DeviceBuffer | None] = [None] * len(signature.results)
        for i in self.free:
            p = signature.results[i]
            wanted[i] = DeviceBuffer(self.device, p.dtype, p.shape, p.name, p.location)
        with self.lock:
            self._run(arguments, wanted, stream)
        return [DeviceArray(buffer) for buffer in wanted if buffer is not None]

    def results(
        self, inputs: Sequence[DeviceBuffer], wanted: Sequence[DeviceBuffer | None] | None = None
    ) -> list[DeviceBuffer]:
        """The buffers of the results of a call with these arguments: those wanted, or else the executable's own."""
        given = [None] * len(self.signature.results) if wanted is None else wanted
        return [self._result(i, buffer, inputs) for i, buffer in enumerate(given)]

    def steps(
        self,
        inputs: Sequence[DeviceBuffer],
        outputs: Sequence[DeviceBuffer],
        before: Sequence[Any] = (),
        after: Sequence[Any] = (),
    ) -> list[Go]:
        """The steps of a call with these buffers, and of copies before and after it; the latter are waited for. Run
        them under `lock`."""
        self._check_apart(inputs, outputs)
        steps = bound_steps(
            self.device,
            self.code.module,
            self._entry.steps,
            lambda place: self._address(place, inputs, outputs),
            before,
            after,
        )
        if self.code.profile is None:
            return steps
        return self.code.profile.counted_steps(self.device, self.code.artifact, self._entry, steps)

    def _run(
        self, arguments: Sequence[Any], wanted: Sequence[DeviceBuffer | None], stream: Any
    ) -> tuple[list[DeviceBuffer], list[DeviceBuffer]]:
        """Submits the work of a call; returns the buffers of its arguments and results."""
        signature = self.signature
        check_count(signature.name, signature.arguments, arguments)
        if len(wanted) != len(signature.results):
            raise UserError(
                f"{signature.name} has {len(signature.results)} results, {len(wanted)} were given"
            )
        if stream is not None:
            self.device.wait_for(stream)
        written: list[tuple[int, np.ndarray]] = []
        inputs = [self._argument(i, given, written) for i, given in enumerate(arguments)]
        if written:
            self.device.copy_all_in(written)
        outputs = self.results(inputs, wanted)
        self._go(self._bind(inputs, outputs))
        owners = [buffer.owner for buffer in inputs if buffer.owner is not None]
        if owners:
            self.device.keep(owners)
        if stream is not None:
            self.device.let_wait(stream)
        return inputs, outputs

    def _note(
        self, numbers: tuple[int, ...], inputs: Sequence[DeviceBuffer], outputs: Sequence[DeviceBuffer]
    ) -> None:
        """Records buffers that passed the checks, so that a call with the same ones skips these. Not for buffers of
        other owners, which must be kept alive at each call."""
        _, *each = numbers
        fit = -1 not in each and 0 not in each[: len(inputs)]
        if fit and all(b.owner is None for b in (*inputs, *outputs)):
            self._bound.add(numbers, self._bind(inputs, outputs))

    def _go(self, steps: Sequence[Go]) -> None:
        checks = self._checks
        if not checks:
            for step in steps:
                step()
            return
        buffer = self.code.checks
        with self.code.checking:
            buffer.write(np.full(len(checks), Check.FINE, np.int64))
            run(steps)
            raise_noted(checks, buffer.numpy())

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        """The results for these arguments, like `run`."""
        return tuple(self.run(arguments))

    def _argument(self, index: int, given: Any, written: list[tuple[int, np.ndarray]]) -> DeviceBuffer:
        """The buffer of an argument; an array that must be copied there first is appended to `written`."""
        parameter = self.signature.arguments[index]
        if isinstance(given, DeviceBuffer):
            self._check(parameter, given)
            return given
        there = on_device(self.device, parameter, given, index in self._overwritten)
        if there is None:
            buffer, array = self.stage("argument", index), as_array(parameter, given)
            if array.nbytes:
                written.append((buffer.address, array))
            return buffer
        if there.address % ALIGNMENT == 0 or not there.bytes:
            return there
        buffer = self.stage("argument", index)
        self.device.copy(buffer.address, there.address, there.bytes)
        self.device.keep(there.owner)
        return buffer

    def _result(self, index: int, given: DeviceBuffer | None, inputs: Sequence[DeviceBuffer]) -> DeviceBuffer:
        parameter = self.signature.results[index]
        tied = self._tied.get(index)
        if tied is not None:
            if given is not None and given is not inputs[tied]:
                raise UserError(
                    f"result {parameter.name!r} overwrites argument {self.signature.arguments[tied].name!r} "
                    "and cannot go to another buffer",
                    parameter.location,
                )
            return inputs[tied]
        if given is None:
            return self.stage("result", index)
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
        """A buffer that a program writes must not be another argument or result: kernels rely on it."""
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

    def stage(self, role: str, index: int) -> DeviceBuffer:
        """The executable's own buffer for an argument or a result whose array is on the host."""
        buffer = self._staging.get((role, index))
        if buffer is None:
            parameter = (self.signature.arguments if role == "argument" else self.signature.results)[index]
            what = f"{role} {parameter.name} of @{self.signature.name}"
            buffer = DeviceBuffer(self.device, parameter.dtype, parameter.shape, what, parameter.location)
            self._staging[role, index] = buffer
        return buffer

    def _bind(self, inputs: Sequence[DeviceBuffer], outputs: Sequence[DeviceBuffer]) -> list[Go]:
        key = tuple([buffer.address for buffer in (*inputs, *outputs)])
        found = self._bound.find(key)
        return self._bound.add(key, self.steps(inputs, outputs)) if found is None else found

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
        arguments: Sequence[Any],
        wanted: Sequence[DeviceBuffer | None],
        inputs: Sequence[DeviceBuffer],
        outputs: Sequence[DeviceBuffer],
    ) -> list[Any]:
        """The return value of `run`: the caller's buffers, and arrays with the contents of the executable's own."""
        given: list[Any] = []
        reads: list[tuple[int, np.ndarray]] = []
        tied = self._tied
        for i, buffer in enumerate(outputs):
            owner = arguments[tied[i]] if i in tied else wanted[i]
            if i in tied and buffer.owner is not None:  # an array of another library
                given.append(owner)
            elif isinstance(owner, DeviceBuffer):
                given.append(owner)
            else:
                array = np.empty(buffer.shape, DTYPES[buffer.dtype])
                given.append(array)
                if array.nbytes:
                    reads.append((buffer.address, array))
        if reads:
            self.device.copy_all_out(reads)
        return given


def _numbers(arguments: Sequence[Any], wanted: Sequence[DeviceBuffer | None]) -> tuple[int, ...]:
    """The numbers of these buffers: 0 for None, as for a result that is tied, -1 for other objects. The first item
    encodes how many are arguments; it is negative, unlike every address."""
    numbers = [b.number if type(b) is DeviceBuffer else 0 if b is None else -1 for b in (*arguments, *wanted)]
    return (~len(arguments), *numbers)


def load(artifact: Artifact, device: GpuDevice, *, entry: str | None = None) -> GpuExecutable:
    """The executable of an artifact on `device`: of @main (or the only entry), or of the entry asked for."""
    return GpuExecutable(GpuCode(artifact, device), artifact.entry(entry))
