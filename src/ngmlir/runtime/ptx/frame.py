# SPDX-License-Identifier: Apache-2.0
"""The state of one batch of blocks while it runs: registers, memory and where each thread stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from .fault import SimulationFault
from .memory import DeviceMemory
from .program import Instruction
from .races import Shadow
from .registers import Slot, Threads, fill

if TYPE_CHECKING:
    from .barriers import Barrier
    from .bulk import BulkStore
    from .copies import Copy
    from .mbarriers import MBarrier
    from .wgmma import Product

WARP = 32

# What a thread does at the moment.
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
    granule: int  # bytes that the race detector tells apart
    check_races: bool

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


class Frame:
    """Arrays over all threads of `blocks` blocks, the first of which has linear number `first_block`."""

    def __init__(
        self,
        shape: Shape,
        slots: list[Slot],
        registers: Mapping[str, str],
        memory: DeviceMemory,
        parameters: np.ndarray,
        first_block: int,
        blocks: int,
        random: np.random.Generator | None,
    ):
        self.shape = shape
        self.memory = memory
        self.parameters = parameters
        self.first_block = first_block
        self.blocks = blocks
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
        # 0xFF is NaN in every float format: reading what nobody wrote shows in the result.
        self.shared = np.full(blocks * shape.shared_span, 0xFF, np.uint8)
        self.shared_base = self.block_of * shape.shared_span
        self.local = np.full(count * shape.local_bytes, 0xFF, np.uint8)
        self.shadow = Shadow(self) if shape.check_races and shape.shared_bytes else None
        self._special: dict[str, np.ndarray] = {}
        self.views = fill(slots, registers, count, self._special_register)
        # Block number * 16 + barrier number -> the barrier that some have reached; offset -> the mbarrier.
        self.barriers: dict[int, Barrier] = {}
        self.mbarriers: dict[int, MBarrier] = {}
        # Asynchronous copies: of each thread, in groups; and what happens by itself at some later moment.
        self.copy_group = np.zeros(count, np.int64)
        self.copies: list[Copy] = []
        self.issued = 0
        self.events: list[Callable[[], None]] = []
        # Matrix products in flight, and bulk stores that have not read shared memory yet.
        self.product_group = np.zeros(count, np.int64)
        self.products: list[Product] = []
        self.bulk_group = np.zeros(count, np.int64)
        self.bulk_stores: list[BulkStore] = []

    def threads(self, threads: Threads) -> np.ndarray:
        """The numbers of the running threads."""
        return self.thread[threads]

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
            linear = self.within if name == "tid" else self.block_of + self.first_block
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
        """Stops the simulation, naming the line and the thread."""
        block = None
        within = None
        if thread is not None:
            x, y, _ = self.shape.grid
            linear = self.first_block + int(self.block_of[thread])
            block = (linear % x, linear // x % y, linear // (x * y))
            within = int(self.within[thread])
        raise SimulationFault(
            kind,
            f"{message}: {instruction.text}",
            kernel=self.shape.kernel,
            line=instruction.line,
            source=self.shape.source,
            block=block,
            thread=within,
        )
