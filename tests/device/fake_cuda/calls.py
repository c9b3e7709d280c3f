# SPDX-License-Identifier: Apache-2.0
"""The functions of the driver: what each takes, and what it does with the machine."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from ctypes import c_int, c_uint, c_ulonglong, c_void_p
from math import prod
from typing import Any

import numpy as np

from ngmlir.simulator.limits import check_launch
from ngmlir.simulator.module import Module
from ngmlir.support.diagnostics import NgmlirError

from .machine import (
    Allocation,
    Answered,
    Event,
    Function,
    Graph,
    Loaded,
    Machine,
    Node,
    Owned,
    Stream,
    Violation,
    merge,
)
from .pinned import PinnedMemory

_P, _I, _U, _Q = c_void_p, c_int, c_uint, c_ulonglong

#: Function -> the types of its arguments. Every result is returned through a pointer.
CALLS: dict[str, tuple[Any, ...]] = {
    "cuGetErrorString": (_I, _P),
    "cuGetErrorName": (_I, _P),
}

_ATTRIBUTES = {75: 0, 76: 1}
_MULTIPROCESSORS, _SHARED_OPTIN, _POOLS = 16, 97, 115
_MAX_SHARED, _LOG, _LOG_BYTES = 8, 5, 6
#: The addresses that belong to GPUs.
_FIRST_ADDRESS = 0x7F00_0000_0000
_LAST_ADDRESS = 0x7F80_0000_0000


def _call(*types: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def enter(method: Callable[..., None]) -> Callable[..., None]:
        CALLS[method.__name__] = types
        return method

    return enter


def _give(place: int, value: int, kind: Any = c_void_p) -> None:
    kind.from_address(place).value = value


def _octets(address: int, size: int) -> np.ndarray[Any, Any]:
    """Memory of the host."""
    return np.frombuffer((ctypes.c_uint8 * size).from_address(address), np.uint8)


class Calls:
    """The functions, for a machine. A method raises Violation where the program is wrong, Answered where it is unlucky."""

    def __init__(self, machine: Machine):
        self.m = machine

    def _working(self) -> int:
        """The device of the current context; it is not lost."""
        device = self.m.device()
        self.m.check_alive(device)
        return device

    def _stream(self, handle: int | None) -> Stream:
        self._working()
        return self.m.stream(handle)

    def _waited(self) -> None:
        self.m.check_alive(self.m.device())

    # ---- devices and contexts

    @_call(_U)
    def cuInit(self, flags: int) -> None:
        pass

    @_call(_P)
    def cuDriverGetVersion(self, out: int) -> None:
        _give(out, self.m.version, c_int)

    @_call(_P)
    def cuDeviceGetCount(self, out: int) -> None:
        _give(out, self.m.devices, c_int)

    @_call(_P, _I)
    def cuDeviceGet(self, out: int, ordinal: int) -> None:
        if not 0 <= ordinal < self.m.devices:
            raise Answered("CUDA_ERROR_INVALID_DEVICE")
        _give(out, ordinal, c_int)

    @_call(_P, _I, _I)
    def cuDeviceGetName(self, out: int, size: int, device: int) -> None:
        ctypes.memmove(out, b"Fake GPU\0", min(size, 9))

    @_call(_P, _I)
    def cuDeviceTotalMem(self, out: int, device: int) -> None:
        _give(out, self.m.memory_bytes)

    @_call(_P, _I, _I)
    def cuDeviceGetAttribute(self, out: int, attribute: int, device: int) -> None:
        known = {75: self.m.capability[0], 76: self.m.capability[1], _MULTIPROCESSORS: 132}
        known |= {_SHARED_OPTIN: 227 * 1024, _POOLS: int(self.m.pools)}
        if attribute not in known:
            raise Violation(f"attribute {attribute} of a device is not modelled")
        _give(out, known[attribute], c_int)

    @_call(_P, _I)
    def cuDevicePrimaryCtxRetain(self, out: int, device: int) -> None:
        found = next((c for c, d in self.m.contexts.items() if d == device), None)
        if found is None:
            found = self.m.put(object())
            self.m.contexts[found] = device
        _give(out, found)

    @_call(_I)
    def cuDevicePrimaryCtxRelease(self, device: int) -> None:
        pass

    @_call(_I)
    def cuDevicePrimaryCtxReset(self, device: int) -> None:
        self.m.reset(device)

    @_call(_P)
    def cuCtxPushCurrent(self, context: int | None) -> None:
        if context not in self.m.contexts:
            raise Violation("a context is pushed that there is not")
        self.m.stack.append(context)

    @_call(_P)
    def cuCtxPopCurrent(self, out: int) -> None:
        if not self.m.stack:
            raise Violation("no context is current")
        _give(out, self.m.stack.pop())

    @_call()
    def cuCtxSynchronize(self) -> None:
        self._working()
        self.m.finish(None)
        self._waited()

    # ---- memory

    @_call(_P, _P)
    def cuMemGetInfo(self, free: int, total: int) -> None:
        _give(free, self.m.memory_bytes - self.m.used(self._working()))
        _give(total, self.m.memory_bytes)

    @_call(_P, _Q)
    def cuMemAlloc(self, out: int, size: int) -> None:
        self._no_capture("cuMemAlloc")
        _give(out, self.m.allocate(size, self._working(), None))

    @_call(_Q)
    def cuMemFree(self, address: int) -> None:
        self._no_capture("cuMemFree")
        self._working()
        self.m.free(address, None)

    @_call(_P, _P)
    def cuMemPoolCreate(self, out: int, properties: int) -> None:
        kind, _, place, device = (c_int.from_address(properties + 4 * i).value for i in range(4))
        if (kind, place) != (1, 1):
            raise Violation("a pool holds pinned memory (1) of a device (1)")
        _give(out, self.m.put(_Pool(device)))

    @_call(_P, _I, _P)
    def cuMemPoolSetAttribute(self, pool: int, attribute: int, value: int) -> None:
        self.m.get(_Pool, pool)

    @_call(_P, _Q)
    def cuMemPoolTrimTo(self, pool: int, kept: int) -> None:
        self.m.get(_Pool, pool)

    @_call(_P, _Q, _P, _P)
    def cuMemAllocFromPoolAsync(self, out: int, size: int, pool: int, stream: int | None) -> None:
        found = self._stream(stream)
        if self.m.get(_Pool, pool).device != found.device:
            raise Violation("the pool is another device's")
        _give(out, self.m.allocate(size, found.device, found))

    @_call(_Q, _P)
    def cuMemFreeAsync(self, address: int, stream: int | None) -> None:
        self.m.free(address, self._stream(stream))

    @_call(_P, _Q, _U)
    def cuMemHostAlloc(self, out: int, size: int, flags: int) -> None:
        self._working()
        held = (ctypes.c_uint8 * size)()
        self.m.pinned[ctypes.addressof(held)] = PinnedMemory(held)
        _give(out, ctypes.addressof(held))

    @_call(_P)
    def cuMemFreeHost(self, address: int) -> None:
        self._working()
        self.m.free_host(address)

    @_call(_Q, _P, _Q, _P)
    def cuMemcpyHtoDAsync(self, to: int, source: int, size: int, stream: int | None) -> None:
        found, memory = self._stream(stream), self.m.memory
        what = "cuMemcpyHtoDAsync"
        self.m.at(to, size, what)
        # Memory that is not pinned is copied before the call returns; what is pinned, when the stream comes to it.
        here = self.m.host_range(source, size, "read")
        data = _octets(source, size) if here is not None else _octets(source, size).copy()

        def run() -> None:
            memory.bytes_at(to, size)[:] = data

        self.m.enqueue(found, Node(what, run, lambda: ((self.m.at(to, size, what), "write"),), here))

    @_call(_P, _Q, _Q, _P)
    def cuMemcpyDtoHAsync(self, to: int, source: int, size: int, stream: int | None) -> None:
        found, memory = self._stream(stream), self.m.memory
        what = "cuMemcpyDtoHAsync"

        def run() -> None:
            _octets(to, size)[:] = memory.bytes_at(source, size)

        here = self.m.host_range(to, size, "write")
        self.m.enqueue(found, Node(what, run, lambda: ((self.m.at(source, size, what), "read"),), here))
        if here is None:
            self.m.finish(found)
            self._waited()

    @_call(_Q, _Q, _Q, _P)
    def cuMemcpyDtoDAsync(self, to: int, source: int, size: int, stream: int | None) -> None:
        memory = self.m.memory
        what = "cuMemcpyDtoDAsync"

        def run() -> None:
            memory.bytes_at(to, size)[:] = memory.bytes_at(source, size)

        def uses() -> Iterable[tuple[Allocation, str]]:
            return (self.m.at(source, size, what), "read"), (self.m.at(to, size, what), "write")

        self.m.enqueue(self._stream(stream), Node(what, run, uses))

    @_call(_P, _I, _Q)
    def cuPointerGetAttribute(self, out: int, attribute: int, address: int) -> None:
        try:
            found = self.m.at(address, 1, "cuPointerGetAttribute")
        except Violation:
            raise Answered("CUDA_ERROR_INVALID_VALUE") from None
        _give(out, {2: 2, 9: found.device}[attribute], c_int)

    # ---- streams and events

    @_call(_P, _U)
    def cuStreamCreate(self, out: int, flags: int) -> None:
        _give(out, self.m.put(self.m.new_stream(self._working())))

    @_call(_P)
    def cuStreamDestroy(self, stream: int) -> None:
        found = self._stream(stream)
        found.alive = False

    @_call(_P)
    def cuStreamSynchronize(self, stream: int | None) -> None:
        found = self._stream(stream)
        if found.captured is not None:
            raise Violation("a stream that is captured is waited for")
        self.m.finish(found)
        self._waited()

    @_call(_P)
    def cuStreamQuery(self, stream: int | None) -> None:
        found = self._stream(stream)
        if any(work.stream is found for work in self.m.queue):
            self.m.progress()
            raise Answered("CUDA_ERROR_NOT_READY")
        self.m.finish(found)

    @_call(_P, _P, _U)
    def cuStreamWaitEvent(self, stream: int | None, event: int, flags: int) -> None:
        merge(self._stream(stream).clock, self.m.get(Event, event).clock)

    @_call(_P, _I)
    def cuStreamBeginCapture(self, stream: int | None, mode: int) -> None:
        found = self._stream(stream)
        if found.captured is not None or not stream:
            raise Violation("a stream cannot be captured twice, and the default stream not at all")
        found.captured = []

    @_call(_P, _P)
    def cuStreamEndCapture(self, stream: int | None, out: int) -> None:
        found = self._stream(stream)
        if found.captured is None:
            raise Violation("the stream is not captured")
        nodes, found.captured = found.captured, None
        _give(out, self.m.put(Graph(found.device, nodes)))

    def _no_capture(self, what: str) -> None:
        if any(stream.captured is not None for stream in self.m.of_kind(Stream)):
            raise Violation(f"{what} while a stream is captured")

    @_call(_P, _U)
    def cuEventCreate(self, out: int, flags: int) -> None:
        _give(out, self.m.put(Event(self._working())))

    @_call(_P)
    def cuEventDestroy(self, event: int) -> None:
        self.m.get(Event, event).alive = False

    @_call(_P, _P)
    def cuEventRecord(self, event: int, stream: int | None) -> None:
        found, stands = self.m.get(Event, event), self._stream(stream)
        found.work = self.m.enqueue(stands, Node("an event", lambda: None, lambda: ()))
        found.clock = dict(stands.clock)

    @_call(_P)
    def cuEventQuery(self, event: int) -> None:
        found: Event = self.m.get(Event, event)
        self._working()
        if found.work in self.m.queue:
            self.m.progress()
            self._waited()
            raise Answered("CUDA_ERROR_NOT_READY")
        self._waited()
        merge(self.m.host, found.clock)

    @_call(_P)
    def cuEventSynchronize(self, event: int) -> None:
        found: Event = self.m.get(Event, event)
        self._working()
        if found.work is not None:
            self.m.finish(None, found.work)
        self._waited()
        merge(self.m.host, found.clock)

    @_call(_P, _P, _P)
    def cuEventElapsedTime(self, out: int, first: int, last: int) -> None:
        a, b = self.m.get(Event, first).work, self.m.get(Event, last).work
        if a is None or b is None or a.time is None or b.time is None:
            raise Violation("the time between events that have not come")
        _give(out, b.time - a.time, ctypes.c_float)

    # ---- kernels

    @_call(_P, _P)
    def cuModuleLoadData(self, out: int, image: int) -> None:
        self._load(out, image)

    @_call(_P, _P, _U, _P, _P)
    def cuModuleLoadDataEx(self, out: int, image: int, count: int, options: int, values: int) -> None:
        named = {c_uint.from_address(options + 4 * i).value: values + 8 * i for i in range(count)}
        try:
            self._load(out, image)
        except NgmlirError as error:
            words = str(error).encode()
            if _LOG in named:
                size = c_uint.from_address(named[_LOG_BYTES]).value
                buffer = c_void_p.from_address(named[_LOG]).value
                assert buffer is not None
                ctypes.memmove(buffer, words[: size - 1] + b"\0", min(len(words) + 1, size))
            raise Answered("CUDA_ERROR_INVALID_PTX") from None

    def _load(self, out: int, image: int) -> None:
        device = self._working()
        self._no_capture("a module is loaded")
        data = ctypes.string_at(image, 4)
        if data == b"\x7fELF":
            code = ctypes.string_at(image, _elf_bytes(image))
            if code not in self.m.cubins:
                raise Answered("CUDA_ERROR_NO_BINARY_FOR_GPU")
            text = self.m.cubins[code]
        else:
            text = ctypes.string_at(image).decode()
        module = Module(text, self.m.memory)
        for name in module.program.entries:
            module.kernel(name)  # raises for what is no PTX
        _give(out, self.m.put(Loaded(device, module)))

    @_call(_P)
    def cuModuleUnload(self, module: int) -> None:
        found: Loaded = self.m.get(Loaded, module)
        for work in self.m.queue:
            if work.node.function is not None and work.node.function.owner is found:
                raise Violation(
                    f"a module is unloaded, and nobody has waited for its kernel {work.node.what}"
                )
        found.alive = False

    @_call(_P, _P, ctypes.c_char_p)
    def cuModuleGetFunction(self, out: int, module: int, name: bytes) -> None:
        loaded: Loaded = self.m.get(Loaded, module)
        if name.decode() not in loaded.module.program.entries:
            raise Answered("CUDA_ERROR_NOT_FOUND")
        _give(out, self.m.put(Function(loaded, loaded.module.kernel(name.decode()))))

    @_call(_P, _I, _I)
    def cuFuncSetAttribute(self, function: int, attribute: int, value: int) -> None:
        found: Function = self.m.get(Function, function)
        if attribute != _MAX_SHARED:
            raise Violation(f"attribute {attribute} of a function is not modelled")
        if value + found.kernel.static_shared > 227 * 1024:
            raise Answered("CUDA_ERROR_INVALID_VALUE")
        found.dynamic_bytes = value

    @_call(_P, *([_U] * 7), _P, _P, _P)
    def cuLaunchKernel(self, function: int, *rest: Any) -> None:
        grid, block = rest[:3], rest[3:6]
        shared_bytes, handle, places, extra = rest[6:]
        stream = self._stream(handle)
        found: Function = self.m.get(Function, function)
        if found.device != stream.device:
            raise Violation(f"{found.name} is a kernel of device {found.device}")
        if extra:
            raise Violation("parameters are given by address, and nothing else")
        name, kernel = found.name, found.kernel
        if shared_bytes > found.dynamic_bytes:
            raise Violation(f"{name} was not allowed {shared_bytes} bytes of shared memory")
        target = found.module.program.target
        try:
            check_launch(kernel.function, target, grid, block, kernel.static_shared, shared_bytes)
        except NgmlirError as error:
            raise Violation(str(error)) from None
        values: list[bytes] = []
        pointers: list[int] = []
        for i, parameter in enumerate(kernel.function.parameters):
            address = c_void_p.from_address(places + 8 * i).value
            if not address:
                raise Violation(f"{name}: no address of parameter {i}")
            values.append(ctypes.string_at(address, parameter.bytes))
            # What is passed by value, a tensor map or a table, holds addresses too.
            words = [
                int.from_bytes(values[-1][at : at + 8], "little") for at in range(0, parameter.bytes - 7, 8)
            ]
            pointers += [word for word in words if _FIRST_ADDRESS <= word < _LAST_ADDRESS]

        def run() -> None:
            found.module.launch(name, grid, block, values, shared_bytes)
            self.m.launched.append(name)

        def uses() -> Iterable[tuple[Allocation, str]]:
            return [(self.m.at(pointer, 1, name), "use") for pointer in pointers]

        uses()
        assert prod(grid)
        self.m.enqueue(stream, Node(name, run, uses, function=found))

    # ---- graphs

    @_call(_P, _P, _Q)
    def cuGraphInstantiateWithFlags(self, out: int, graph: int, flags: int) -> None:
        found: Graph = self.m.get(Graph, graph)
        _give(out, self.m.put(_Executable(found.device, found.nodes)))

    @_call(_P)
    def cuGraphDestroy(self, graph: int) -> None:
        self.m.get(Graph, graph).alive = False

    @_call(_P)
    def cuGraphExecDestroy(self, graph: int) -> None:
        self._no_capture("a graph is destroyed")
        self.m.get(_Executable, graph).alive = False

    @_call(_P, _P)
    def cuGraphUpload(self, graph: int, stream: int | None) -> None:
        self.m.get(_Executable, graph)
        self._stream(stream)

    @_call(_P, _P)
    def cuGraphLaunch(self, graph: int, stream: int | None) -> None:
        found: _Executable = self.m.get(_Executable, graph)
        stands = self._stream(stream)
        if found.device != stands.device:
            raise Violation("a graph of another device")
        for node in found.nodes:
            self.m.enqueue(stands, node)


class _Pool(Owned):
    pass


class _Executable(Owned):
    def __init__(self, device: int, nodes: list[Node]):
        super().__init__(device)
        self.nodes = nodes


def _elf_bytes(image: int) -> int:
    """How long an ELF file is that lies in memory."""
    head = ctypes.string_at(image, 64)
    at_segments, at_sections = (int.from_bytes(head[i : i + 8], "little") for i in (32, 40))
    size, count, section, sections = (int.from_bytes(head[i : i + 2], "little") for i in (54, 56, 58, 60))
    end = max(at_segments + size * count, at_sections + section * sections)
    for i in range(sections):
        entry = ctypes.string_at(image + at_sections + i * section, section)
        kind, place, length = (int.from_bytes(entry[a:b], "little") for a, b in ((4, 8), (24, 32), (32, 40)))
        if kind not in (0, 8):  # nothing, and what has no bytes in the file
            end = max(end, place + length)
    return end
