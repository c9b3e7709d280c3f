# SPDX-License-Identifier: Apache-2.0
"""What a driver knows: devices, streams of work, memory, events, graphs; and the rules that programs must keep.

Work is done as late as a driver may do it: when somebody waits. What is ordered by what is known exactly, by a vector
clock for each stream and one for the host, so a use of memory that nothing orders is found whatever happens to run first.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ngmlir.simulator.fault import SimulationFault
from ngmlir.simulator.kernel import Kernel
from ngmlir.simulator.memory import DeviceMemory
from ngmlir.simulator.module import Module

from .pinned import PinnedMemory, Range, Use

#: Answers of the driver: name by number.
ANSWERS = {
    0: "CUDA_SUCCESS", 1: "CUDA_ERROR_INVALID_VALUE", 2: "CUDA_ERROR_OUT_OF_MEMORY", 100: "CUDA_ERROR_NO_DEVICE",
    101: "CUDA_ERROR_INVALID_DEVICE", 200: "CUDA_ERROR_INVALID_IMAGE", 201: "CUDA_ERROR_INVALID_CONTEXT",
    209: "CUDA_ERROR_NO_BINARY_FOR_GPU", 218: "CUDA_ERROR_INVALID_PTX", 222: "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
    304: "CUDA_ERROR_OPERATING_SYSTEM", 400: "CUDA_ERROR_INVALID_HANDLE", 500: "CUDA_ERROR_NOT_FOUND", 600: "CUDA_ERROR_NOT_READY",
    700: "CUDA_ERROR_ILLEGAL_ADDRESS", 701: "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", 715: "CUDA_ERROR_ILLEGAL_INSTRUCTION",
    716: "CUDA_ERROR_MISALIGNED_ADDRESS", 719: "CUDA_ERROR_LAUNCH_FAILED", 999: "CUDA_ERROR_UNKNOWN",
}  # fmt: skip
NUMBERS = {name: number for number, name in ANSWERS.items()}

Clock = dict[int, int]


class Violation(Exception):
    """A call that a driver would answer with an error, or do something else than was meant."""


class Answered(Exception):
    """A call that a driver answers with an error, in a program that may well make it."""

    def __init__(self, name: str):
        self.number = NUMBERS[name]
        super().__init__(name)


@dataclass(eq=False)
class Stream:
    device: int
    number: int
    clock: Clock = field(default_factory=dict)
    captured: list[Node] | None = None
    alive: bool = True


@dataclass(eq=False)
class Event:
    device: int
    clock: Clock = field(default_factory=dict)
    work: Work | None = None
    alive: bool = True


@dataclass(eq=False)
class Allocation:
    address: int
    bytes: int
    device: int
    born: tuple[int, int] | None  # the stream and its count, of memory that a stream allocates
    freed: str = ""
    uses: list[tuple[int, int, str, str]] = field(default_factory=list)  # stream, count, kind, by what


class Owned:
    """What belongs to a device, and lives until it is destroyed."""

    def __init__(self, device: int):
        self.device = device
        self.alive = True


class Loaded(Owned):
    def __init__(self, device: int, module: Module):
        super().__init__(device)
        self.module = module


@dataclass(eq=False)
class Function:
    owner: Loaded
    kernel: Kernel
    dynamic_bytes: int = 48 * 1024  # what launches may ask for

    @property
    def module(self) -> Module:
        return self.owner.module

    @property
    def device(self) -> int:
        return self.owner.device

    @property
    def name(self) -> str:
        return self.kernel.function.name


@dataclass(eq=False)
class Node:
    """Something a stream does: what it is called, how it is done, and the memory that it uses."""

    what: str
    run: Callable[[], None]
    uses: Callable[[], Iterable[tuple[Allocation, str]]]
    here: Range | None = None  # pinned memory of the host
    function: Function | None = None  # what is launched


@dataclass(eq=False)
class Work:
    stream: Stream
    node: Node
    time: int | None = None  # when it was done
    here: Use | None = None


@dataclass(eq=False)
class Graph:
    device: int
    nodes: list[Node]
    alive: bool = True


class Machine:
    """The state of a driver, from its beginning."""

    def __init__(
        self,
        devices: int = 2,
        memory_bytes: int = 1 << 30,
        capability: tuple[int, int] = (9, 0),
        version: int = 13000,
    ):
        self.devices = devices
        self.memory_bytes = memory_bytes
        self.capability = capability
        self.version = version
        self.pools = True
        self.memory = DeviceMemory()
        self.counts: Counter[str] = Counter()
        #: What the program did wrongly, and what its kernels did.
        self.violations: list[str] = []
        self.faults: list[str] = []
        #: Call -> answers that are given instead of making it, one each.
        self.answers: dict[str, list[str]] = {}
        #: Machine code -> the PTX that it was made of.
        self.cubins: dict[bytes, str] = {}
        self.launched: list[str] = []
        self.lost: dict[int, int] = {}
        self.contexts: dict[int, int] = {}
        self.objects: dict[int, Any] = {}
        self.allocations: dict[int, Allocation] = {}
        self.pinned: dict[int, PinnedMemory] = {}
        self.queue: deque[Work] = deque()
        self.host: Clock = {}
        self._stacks = threading.local()
        self._handles = 0x10000
        self._streams = 0
        self._time = 0
        self.default = [self.new_stream(device) for device in range(devices)]

    # ---- handles

    def put(self, thing: Any) -> int:
        self._handles += 16
        self.objects[self._handles] = thing
        return self._handles

    def get(self, kind: type[Any], handle: int | None) -> Any:
        found = self.objects.get(handle or 0)
        if not isinstance(found, kind) or not getattr(found, "alive", True):
            raise Violation(f"{handle or 0:#x} is no {kind.__name__.lower()}, or one that was destroyed")
        return found

    def new_stream(self, device: int) -> Stream:
        self._streams += 1
        return Stream(device, self._streams)

    def stream(self, handle: int | None) -> Stream:
        """A stream of the device whose context is current."""
        device = self.device()
        found: Stream = self.default[device] if (handle or 0) <= 2 else self.get(Stream, handle)
        if found.device != device:
            raise Violation(f"a stream of device {found.device} is used in a context of device {device}")
        return found

    # ---- contexts

    @property
    def stack(self) -> list[int]:
        """The contexts of this thread, the current one last."""
        if not hasattr(self._stacks, "contexts"):
            self._stacks.contexts = []
        return self._stacks.contexts

    def device(self) -> int:
        """The device of the context that is current in this thread."""
        if not self.stack or self.stack[-1] not in self.contexts:
            raise Violation("no context is current")
        return self.contexts[self.stack[-1]]

    def reset(self, device: int) -> None:
        """Ends the context of a device, with all that is in it."""
        self.contexts = {c: d for c, d in self.contexts.items() if d != device}
        self.objects = {h: o for h, o in self.objects.items() if getattr(o, "device", None) != device}
        for each in [a for a in self.allocations.values() if a.device == device and not a.freed]:
            each.freed = "the reset of the device"
        self.queue = deque(w for w in self.queue if w.stream.device != device)
        self.lost.pop(device, None)

    # ---- memory

    def used(self, device: int) -> int:
        return sum(a.bytes for a in self.allocations.values() if a.device == device and not a.freed)

    def allocate(self, size: int, device: int, stream: Stream | None) -> int:
        if not size:
            raise Violation("an allocation of 0 bytes")
        if self.used(device) + size > self.memory_bytes:
            raise Answered("CUDA_ERROR_OUT_OF_MEMORY")
        address = self.memory.allocate(size)
        born = None
        if stream is not None:
            self.enqueue(stream, Node("an allocation", lambda: None, lambda: ()))
            born = (stream.number, stream.clock[stream.number])
        self.allocations[address] = Allocation(address, size, device, born)
        return address

    def at(self, address: int, size: int, what: str) -> Allocation:
        """The allocation that `size` bytes at `address` lie in."""
        region = self.memory.find(address - 0x7F00_0000_0000)
        found = None if region is None else self.allocations.get(region.start + 0x7F00_0000_0000)
        if found is None:
            old = [a for a in self.allocations.values() if a.address <= address < a.address + a.bytes]
            state = f"memory that was freed by {old[-1].freed}" if old else "no memory of a device"
            raise Violation(f"{what}: {address:#x} is {state}")
        if found.freed:
            raise Violation(f"{what}: {address:#x} is memory that was freed by {found.freed}")
        if address + size > found.address + found.bytes:
            raise Violation(f"{what}: {size} bytes at {address:#x} are more than is left of {found.bytes}")
        return found

    def free(self, address: int, stream: Stream | None) -> None:
        found = self.allocations.get(address)
        if found is None or found.freed:
            raise Violation(f"{address:#x} is freed, but is " + ("free" if found else "no allocation"))
        if stream is None:
            if found.born is not None:
                self._ordered(found, "free", self.host, "cuMemFree")
            self.finish(None)
            found.freed = "cuMemFree"
            self.memory.free(address)
        else:
            node = Node("cuMemFreeAsync", lambda: self.memory.free(address), lambda: ((found, "free"),))
            self.enqueue(stream, node)
            found.freed = "cuMemFreeAsync"

    def host_range(self, address: int, size: int, kind: str) -> Range | None:
        """These bytes of the host for a copy that reads or writes them; None where they are not pinned."""
        for begin, memory in self.pinned.items():
            if begin <= address and address + size <= begin + len(memory):
                return Range(memory, address, size, kind)
        return None

    def free_host(self, address: int) -> None:
        if address not in self.pinned:
            raise Violation(f"{address:#x} is no pinned memory")
        for use in self.pinned[address].unseen(self.host):
            raise Violation(f"nobody has waited for {use.what}, which uses pinned memory at {address:#x}")
        del self.pinned[address]

    def _ordered(self, memory: Allocation, kind: str, clock: Clock, what: str) -> None:
        """Violation unless all that must be over is over for who has seen `clock`."""
        if memory.born is not None and clock.get(memory.born[0], 0) < memory.born[1]:
            raise Violation(f"{what} uses memory before the stream that allocates it has done so")
        for stream, count, before, by in memory.uses:
            conflicts = {"write", "free"} & {kind, before}
            if conflicts and clock.get(stream, 0) < count:
                raise Violation(f"nothing orders {what} after {by}: both use {memory.address:#x}")

    # ---- work

    def enqueue(self, stream: Stream, node: Node) -> Work | None:
        """Has a stream do something, or notes it where the stream is captured."""
        if stream.captured is not None:
            stream.captured.append(node)
            return None
        merge(stream.clock, self.host)
        stream.clock[stream.number] = count = stream.clock.get(stream.number, 0) + 1
        for memory, kind in node.uses():
            if memory.device != stream.device:
                raise Violation(f"{node.what}: {memory.address:#x} is memory of device {memory.device}")
            self._ordered(memory, kind, stream.clock, node.what)
            memory.uses = [u for u in memory.uses if u[0] != stream.number or (u[2] == "write" != kind)]
            memory.uses.append((stream.number, count, kind, node.what))
        if node.function is not None and not node.function.owner.alive:
            raise Violation(f"{node.what} is a kernel of a module that was unloaded")
        work = Work(stream, node)
        if node.here is not None:
            use = node.here.memory.begin(node.here, self.host, stream.number, count, node.what)
            if isinstance(use, str):
                raise Violation(use)
            work.here = use
        self.queue.append(work)
        return work

    def progress(self) -> None:
        """Does one thing more."""
        work = self.queue.popleft()
        if work.stream.device in self.lost:
            return
        self._time += 1
        if work.here is not None and (change := work.here.change()):
            self.violations.append(change)
        try:
            work.node.run()
            work.time = self._time
        except SimulationFault as fault:
            self.faults.append(str(fault))
            kinds = {"out of bounds": 700, "read-only": 700, "misaligned": 716, "trap": 715}
            self.lost[work.stream.device] = kinds.get(fault.kind, 719)

    def finish(self, stream: Stream | None, until: Work | None = None) -> None:
        """Waits for a stream, or for all, or until a piece of work is done; the host has seen it then."""
        if until is not None:
            while until.time is None and until in self.queue:
                self.progress()
            return
        while any(stream is None or work.stream is stream for work in self.queue):
            self.progress()
        streams = [stream] if stream else [*self.default, *self.of_kind(Stream)]
        for each in streams:
            merge(self.host, each.clock)

    def of_kind(self, kind: type[Any]) -> list[Any]:
        return [thing for thing in self.objects.values() if isinstance(thing, kind)]

    def check_alive(self, device: int) -> None:
        if device in self.lost:
            raise Answered(ANSWERS[self.lost[device]])


def merge(into: Clock, other: Clock) -> None:
    for stream, count in other.items():
        into[stream] = max(into.get(stream, 0), count)
