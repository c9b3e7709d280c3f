# SPDX-License-Identifier: Apache-2.0
"""The state of one batch of blocks while it runs: registers, memory, program counters, and operations in flight."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn, TypeAlias

import numpy as np

from .counters import Counters
from .fault import SimulationFault
from .fences import FencedTraffic
from .memory import DeviceMemory
from .program import Instruction, Operand
from .races import Shadow
from .registers import Slot, Threads, fill
from .traffic import Access, Traffic

Array = np.ndarray

WARP = 32

# The status of a thread.
READY, AT_COLLECTIVE, AT_BARRIER, AT_MBARRIER, DONE = range(5)


@dataclass(frozen=True)
class Shape:
    """What all batches of one launch have in common."""

    kernel: str
    source: str
    grid: tuple[int, int, int]
    threads: tuple[int, int, int]
    shared_bytes: int
    local_bytes: int
    granule: int  # resolution of the race detector in bytes
    check_races: bool
    proxies: bool = False  # whether there are mbarriers, bulk copies or products of whole warp groups
    registers: int = 0  # per thread at the start
    watched: tuple[str, ...] = ()  # registers that may be read before they are written
    guesses: frozenset[Operand] = (
        frozenset()
    )  # addresses of compare-and-swap: what is loaded there is only a guess

    @property
    def block_threads(self) -> int:
        x, y, z = self.threads
        return x * y * z

    @property
    def warps(self) -> int:
        """Warps of one block."""
        return -(-self.block_threads // WARP)

    @property
    def shared_span(self) -> int:
        """Distance between the shared memories of two blocks of a batch."""
        return -(-max(self.shared_bytes, 16) // 16) * 16

    def fault(
        self, kind: str, message: str, instruction: Instruction, thread: int | None = None
    ) -> SimulationFault:
        """The error, with the line, and the thread by its number in the launch."""
        block = within = None
        if thread is not None:
            x, y, _ = self.grid
            linear, within = divmod(thread, self.block_threads)
            block = (linear % x, linear // x % y, linear // (x * y))
        return SimulationFault(
            kind,
            f"{message}: {instruction.text}",
            kernel=self.kernel,
            line=instruction.line,
            source=self.source,
            block=block,
            thread=within,
        )


# Operations in flight between instructions

#: Called for the waiting threads when a barrier completes.
Finish: TypeAlias = "Callable[[Frame, Array], None]"


@dataclass
class Barrier:
    """One barrier of one block at which some but not all of its threads have arrived; `count` 0: all threads."""

    count: int
    arrived: int = 0
    members: list[Array] = field(default_factory=list[Array])
    waiting: list[tuple[Array, Finish | None]] = field(default_factory=list[tuple[Array, "Finish | None"]])


@dataclass
class MBarrier:
    """One mbarrier in shared memory.

    `clock` accumulates the knowledge of the arriving warps; `completed` is that of the last complete phase. `maker` is
    the thread of the block that initialised it, at time `made`; `shown` says that a fence has made the initialisation
    visible to bulk copies.
    """

    count: int
    pending: int
    maker: int
    made: int = 0
    shown: bool = False
    phase: int = 0
    bytes: int = 0
    clock: Array | None = None
    completed: Array | None = None


@dataclass
class Copy:
    """One cp.async of several threads: byte offsets, and the commit group of each thread."""

    threads: Array
    source: Array
    target: Array
    kept: Array  # bytes that are copied; the rest of `size` becomes zero
    group: Array
    size: int
    instruction: Instruction
    order: int  # of issue, within the batch

    def part(self, which: Array) -> Copy:
        """The same copy for some of its threads."""
        return Copy(
            self.threads[which],
            self.source[which],
            self.target[which],
            self.kept[which],
            self.group[which],
            self.size,
            self.instruction,
            self.order,
        )


class BulkStore(NamedTuple):
    """A store of one thread that may still read shared memory, the time of its issue, and its commit group."""

    thread: int
    group: int
    moment: int
    write: Callable[[], None]
    instruction: Instruction


@dataclass
class Product:
    """A wgmma in flight: its warpgroup, its commit group, and the time since which it reads shared memory."""

    warpgroup: int
    group: int
    moment: int
    accumulators: frozenset[str]
    inputs: frozenset[str]
    instruction: Instruction


class Frame:
    """Arrays over all threads of some blocks; `numbers` are the numbers of the blocks in the grid."""

    def __init__(
        self,
        shape: Shape,
        slots: list[Slot],
        registers: Mapping[str, str],
        memory: DeviceMemory,
        parameters: np.ndarray,
        numbers: np.ndarray,
        random: np.random.Generator | None,
        traffic: Traffic | FencedTraffic | None = None,
        counters: Counters | None = None,
    ):
        self.shape = shape
        self.traffic = traffic
        self.counters = counters
        self.memory = memory
        self.parameters = parameters
        self.numbers = numbers
        self.blocks = blocks = len(numbers)
        self.random = random
        per_block = shape.block_threads
        self.count = count = blocks * per_block
        self.thread = np.arange(count)
        self.block_of = self.thread // per_block
        self.within = self.thread % per_block
        self.warp_of = self.block_of * shape.warps + self.within // WARP
        self.lane = self.within % WARP
        self.pc = np.zeros(count, np.int32)
        self.status = np.full(count, READY, np.int8)
        self.alive = count
        self.alive_in_block = np.full(blocks, per_block)
        # 0xFF is NaN in every float format: reads of unwritten memory show in the result.
        self.shared = np.full(blocks * shape.shared_span, 0xFF, np.uint8)
        self.shared_base = self.block_of * shape.shared_span
        self.local = np.full(count * shape.local_bytes, 0xFF, np.uint8)
        self.shadow: Shadow | None = None
        if shape.check_races and shape.shared_bytes:
            self.shadow = Shadow(
                shape.warps,
                shape.granule,
                blocks,
                len(self.shared),
                self.warp_of,
                self.within,
                shape.proxies,
                self.fault,
            )
        # How many barriers of the whole block each block has passed, and whether the numbers are equal.
        self.passed = np.zeros(blocks, np.int64)
        self.even = True
        self._special: dict[str, np.ndarray] = {}
        self.views = fill(slots, registers, count, self._special_register)
        # Block number * 16 + barrier number -> an incomplete barrier; offset -> mbarrier.
        self.barriers: dict[int, Barrier] = {}
        self.mbarriers: dict[int, MBarrier] = {}
        # Asynchronous copies: of each thread, in groups; and events that happen at some later time.
        self.copy_group = np.zeros(count, np.int64)
        self.copies: list[Copy] = []
        self.issued = 0
        self.events: list[Callable[[], None]] = []
        # Matrix products in flight, and bulk stores that have not read shared memory yet.
        self.product_group = np.zeros(count, np.int64)
        self.products: list[Product] = []
        self.unset = {name: np.full(count, 0xFFFF, np.uint16) for name in shape.watched}
        # Warpgroup -> registers used since its last wgmma.fence, those that hold results of products, and the products
        # since the fence, by shape.
        self.disturbed: dict[int, set[str]] = {}
        self.made: dict[int, set[str]] = {}
        self.multiplied: dict[int, list[tuple[str, frozenset[str]]]] = {}
        self.held_registers = np.full(blocks * shape.warps, shape.registers)
        self.free_registers = np.zeros(blocks, np.int64)
        self.bulk_group = np.zeros(count, np.int64)
        self.bulk_stores: list[BulkStore] = []

    def threads(self, threads: Threads) -> np.ndarray:
        """The numbers of the running threads."""
        return self.thread[threads]

    def in_launch(self, threads: np.ndarray) -> np.ndarray:
        """The numbers in the launch of threads of the batch."""
        return self.numbers[self.block_of[threads]] * self.shape.block_threads + self.within[threads]

    def pass_barrier(self, blocks: np.ndarray) -> None:
        """All threads of each of `blocks` have arrived at a barrier."""
        self.passed[blocks] += 1
        self.even = bool((self.passed == self.passed[0]).all())
        if self.shadow is not None:
            self.shadow.join_blocks(blocks)
        if isinstance(self.traffic, FencedTraffic):
            self.traffic.meet(self.numbers[blocks])

    def fence(self, threads: Threads) -> None:
        """A fence that orders accesses for other blocks."""
        if isinstance(self.traffic, FencedTraffic):
            self.traffic.fence(self.in_launch(self.threads(threads)))

    def note_global(
        self, threads: np.ndarray, offsets: np.ndarray, size: int, use: str, instruction: Instruction
    ) -> None:
        """Records accesses of `size` bytes of global memory by each thread, which are inside allocations."""
        if self.traffic is None or ((guesses := self.shape.guesses) and instruction.operands[-1] in guesses):
            return
        region = self.memory.find(int(offsets[0]))
        assert region is not None
        inside = (offsets >= region.start) & (offsets < region.end)
        if not inside.all():
            self.note_global(threads[~inside], offsets[~inside], size, use, instruction)
            threads, offsets = threads[inside], offsets[inside]
        numbers = self.in_launch(threads)
        if self.even:
            phase = int(self.passed[0])
            self.traffic.note(region, Access(instruction, use, offsets, numbers, size, phase))
            return
        phases = self.passed[self.block_of[threads]]
        for phase in np.unique(phases):
            at = phases == phase
            self.traffic.note(region, Access(instruction, use, offsets[at], numbers[at], size, int(phase)))

    def unset_bytes(self, name: str, threads: Threads) -> np.ndarray:
        """The bytes of a watched register that each thread has not written, one bit each; 0 for a register that is not
        watched."""
        flags = self.unset.get(name)
        return np.zeros(len(self.threads(threads)), np.uint16) if flags is None else flags[threads]

    def note_unset(self, name: str, threads: Threads, unset: np.ndarray | np.uint16) -> None:
        self.unset[name][threads] = unset

    def _special_register(self, name: str) -> np.ndarray:
        value = self._special.get(name)
        if value is None:
            value = np.ascontiguousarray(self._compute_special(name), np.uint32)
            value = np.broadcast_to(value, self.count).copy()
            self._special[name] = value
        return value

    def _compute_special(self, name: str) -> np.ndarray:
        shape = self.shape
        name, _, axis = name[1:].partition(".")
        number = "xyz".find(axis) if axis else 0
        if name in ("tid", "ntid", "ctaid", "nctaid"):
            extent = shape.threads if name in ("tid", "ntid") else shape.grid
            if name[0] == "n":
                return np.array(extent[number])
            linear = self.within if name == "tid" else self.numbers[self.block_of]
            stride = int(np.prod(extent[:number]))
            return linear // stride % extent[number]
        lane = self.lane.astype(np.uint64)
        bit = np.uint64(1) << lane
        table: dict[str, Callable[[], object]] = {
            "laneid": lambda: self.lane,
            "warpid": lambda: self.within // WARP,
            "nwarpid": lambda: shape.warps,
            "lanemask_eq": lambda: bit,
            "lanemask_lt": lambda: bit - np.uint64(1),
            "lanemask_le": lambda: 2 * bit - np.uint64(1),
            "lanemask_gt": lambda: np.uint64(0xFFFFFFFF) - (2 * bit - np.uint64(1)),
            "lanemask_ge": lambda: np.uint64(0xFFFFFFFF) - (bit - np.uint64(1)),
            "nsmid": lambda: 1,
            "dynamic_smem_size": lambda: shape.shared_bytes,
            "total_smem_size": lambda: shape.shared_bytes,
            "cluster_nctarank": lambda: 1,
            "cluster_nctaid": lambda: 1,
        }
        return np.asarray(table.get(name, lambda: 0)()).astype(np.uint32)

    def fault(self, kind: str, message: str, instruction: Instruction, thread: int | None = None) -> NoReturn:
        """Stops the simulation with the line and the thread."""
        if thread is not None:
            thread = int(self.in_launch(np.array(thread)))
        raise self.shape.fault(kind, message, instruction, thread)
