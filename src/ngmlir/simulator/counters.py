# SPDX-License-Identifier: Apache-2.0
"""The costs of a launch on a GPU, counted while it is simulated, and a lower bound on its time.

A request is one instruction of one warp. Global memory transfers sectors of 32 bytes, shared memory takes wavefronts of
32 banks of 4 bytes. The ideal is the number that the same bytes would need if they were contiguous; for global memory
at least the distinct sectors that contain them: reading one column of a matrix has to touch a sector for each row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, prod

import numpy as np

from ..support.machines import GPU_REGISTERS, MEMORY_LATENCY, SECTOR_BYTES, WARP, Gpu
from .program import Function, Instruction, Integer
from .uses import reads_and_writes

Array = np.ndarray

_BANKS = 32
#: Partitions of a multiprocessor, each of which issues one instruction of its own warps per cycle.
_PARTS = 4
#: Warp instructions that a multiprocessor can issue per cycle, by kind, where all GPUs have the same rate.
_RATES = {"special": 0.5, "shuffle": 1.0, "memory": 1.0}
#: Type of an instruction -> type of the multiply-adds that it counts as.
_MULTIPLIED = {"f32": "f32", "f64": "f64", "s32": "i32", "u32": "i32", "s64": "i64", "u64": "i64"}
_SPECIAL = ("ex2", "lg2", "sin", "cos", "tanh", "rcp", "rsqrt", "sqrt")
_MEMORY = ("ld", "st", "atom", "red", "ldmatrix", "stmatrix", "cp")


def kind_of(instruction: Instruction) -> str:
    """The execution unit of a multiprocessor that executes an instruction."""
    head = instruction.head
    if head in ("mma", "wgmma"):
        return "matrix"
    if head in _MEMORY:
        return "memory"
    if head in _SPECIAL:
        return "special"
    if head in ("shfl", "vote", "redux", "match"):
        return "shuffle"
    if head in ("bar", "barrier", "mbarrier"):
        return "barrier"
    if head in ("bra", "brx", "ret", "exit"):
        return "branch"
    if head in ("fma", "mad") or (head in ("add", "sub", "mul") and instruction.type in ("f32", "f64")):
        return _MULTIPLIED.get(instruction.type, "float")
    if instruction.type in ("f32", "f16", "bf16", "f16x2", "bf16x2", "f64") and head != "mov":
        return "float"
    return "integer"


@dataclass
class Requests:
    """Requests to one kind of memory: their number, the sectors or wavefronts that they take, the number if the bytes
    of each request were contiguous, and (for global memory) the distinct sectors that a launch touches."""

    count: int = 0
    parts: int = 0
    ideal: int = 0
    touched: int = 0
    sectors: list[Array] = field(default_factory=list[Array], repr=False, compare=False)  # during a launch

    def touch(self, sectors: Array) -> None:
        """Records that sectors were touched."""
        self.sectors.append(sectors)
        if len(self.sectors) > 64:
            self.sectors = [np.unique(np.concatenate(self.sectors))]

    def add(self, other: Requests, weight: float = 1.0) -> None:
        """Adds another's counts, multiplied by `weight`."""
        self.count += round(weight * other.count)
        self.parts += round(weight * other.parts)
        self.ideal += round(weight * other.ideal)
        self.touched += round(weight * other.touched)

    @property
    def ratio(self) -> float:
        """Sectors or wavefronts, divided by the ideal number."""
        ideal = max(self.ideal, self.touched)
        return self.parts / ideal if ideal else 1.0

    @property
    def per_request(self) -> float:
        """Sectors or wavefronts per request."""
        return self.parts / self.count if self.count else 0.0


@dataclass
class Counters:
    """The sums over all launches of one kernel."""

    kernel: str = ""
    launches: int = 0
    blocks: int = 0
    threads: int = 0  # of one block
    shared_bytes: int = 0
    flight_bytes: int = 0  # loads that one thread issues before it uses the first, at most
    warp_instructions: int = 0
    thread_instructions: int = 0
    mix: Counter[str] = field(default_factory=Counter[str])  # warp instructions by kind
    flops: int = 0  # of matrix instructions
    reads: Requests = field(default_factory=Requests)
    writes: Requests = field(default_factory=Requests)
    shared: Requests = field(default_factory=Requests)

    # ---- during a launch

    def begin(self, function: Function, blocks: int, threads: int, shared_bytes: int) -> None:
        self.kernel, self.threads, self.shared_bytes = function.name, threads, shared_bytes
        self.launches += 1
        self.blocks += blocks
        self.flight_bytes = flight_bytes(function)

    def executed(self, instruction: Instruction, warps: int, threads: int) -> None:
        self.warp_instructions += warps
        self.thread_instructions += threads
        self.mix[kind_of(instruction)] += warps
        if instruction.head == "mma" or "mma_async" in instruction.modifiers:
            shape = next(m for m in instruction.modifiers if m[0] == "m" and m[1:2].isdigit())
            flops = 2 * prod(
                int(n) for n in shape.replace("m", " ").replace("n", " ").replace("k", " ").split()
            )
            self.flops += flops * (warps if instruction.head == "mma" else warps // 4)

    def globally(self, warp: Array, offsets: Array, size: int, writes: bool) -> None:
        """One request of each of the warps: byte offsets of `size` bytes, by thread."""
        asked = self.writes if writes else self.reads
        keys = np.unique((warp.astype(np.int64) << 40) | (offsets // SECTOR_BYTES))
        places = np.unique((warp.astype(np.int64) << 40) | offsets)
        each = np.bincount(places >> 40, minlength=1)
        asked.count += int((each > 0).sum())
        asked.parts += len(keys)
        asked.ideal += int((-(-each * size // SECTOR_BYTES)).sum())
        asked.touch(np.unique(keys & ((1 << 40) - 1)))

    def in_shared(self, warp: Array, lane: Array, offsets: Array, size: int) -> None:
        """One request of each of the warps; wide accesses are served for half or a quarter of the warp at a time."""
        phases = max(1, size // 4)
        group = warp.astype(np.int64) * phases + lane // max(1, WARP // phases)
        words = np.concatenate([offsets // 4 + k for k in range(max(1, size // 4))])
        groups = np.tile(group, max(1, size // 4))
        distinct = np.unique((groups << 32) | words)
        banks = (distinct >> 32) * _BANKS + (distinct & 0xFFFFFFFF) % _BANKS
        per_bank = np.bincount(banks - banks.min() // _BANKS * _BANKS)
        per_bank = np.pad(per_bank, (0, -len(per_bank) % _BANKS)).reshape(-1, _BANKS)
        each = per_bank.sum(axis=1)
        self.shared.count += len(np.unique(warp))
        self.shared.parts += int(per_bank.max(axis=1).sum())
        self.shared.ideal += int((-(-each // _BANKS)).sum())

    def end(self, parts: Sequence[tuple[Counters, float]], regions: Sequence[tuple[int, int]]) -> None:
        """Adds the counts of a launch: for some of its blocks, and the number of blocks that each of them represents.

        Where a block represents several, the touched sectors are scaled too, up to those of the regions.
        """
        starts = np.array([start // SECTOR_BYTES for start, _ in regions], np.int64)
        for part, weight in parts:
            for name in ("warp_instructions", "thread_instructions", "flops"):
                setattr(self, name, getattr(self, name) + round(weight * getattr(part, name)))
            for kind, number in part.mix.items():
                self.mix[kind] += round(weight * number)
            for mine, its in (
                (self.reads, part.reads),
                (self.writes, part.writes),
                (self.shared, part.shared),
            ):
                mine.add(its, weight)
        most = [-(-end // SECTOR_BYTES) - start // SECTOR_BYTES for start, end in regions]
        for name in ("reads", "writes"):
            touched = np.zeros(len(regions))
            for part, weight in parts:
                if sectors := getattr(part, name).sectors:
                    which = np.searchsorted(starts, np.unique(np.concatenate(sectors)), "right") - 1
                    touched += weight * np.bincount(which, minlength=len(regions))
            getattr(self, name).touched += int(np.minimum(touched, most).sum())

    # ---- derived figures

    @property
    def useful_threads(self) -> float:
        """The fraction of the lanes of all instructions that were active."""
        return self.thread_instructions / max(1, WARP * self.warp_instructions)

    @property
    def globally_asked(self) -> Requests:
        """Reads and writes of global memory together."""
        every = Requests()
        every.add(self.reads)
        every.add(self.writes)
        return every

    @property
    def is_far_off(self) -> bool:
        """More than a tenth above the ideal number of sectors or wavefronts, or fewer than nine tenths of the lanes
        active."""
        return self.globally_asked.ratio > 1.1 or self.shared.ratio > 1.1 or self.useful_threads < 0.9

    @property
    def memory_bytes(self) -> int:
        """Bytes of all distinct sectors that a launch touches: the least traffic from and to memory."""
        return SECTOR_BYTES * (self.reads.touched + self.writes.touched)

    def blocks_at_once(self, gpu: Gpu, registers: int = 0) -> int:
        """Resident blocks per multiprocessor; `registers`: of a thread, if known."""
        threads = -(-self.threads // WARP) * WARP
        room = [gpu.blocks, gpu.threads // threads]
        if self.shared_bytes:
            room.append(gpu.shared // (self.shared_bytes + 1024))
        if registers:
            room.append(GPU_REGISTERS // (-(-registers // 8) * 8 * threads))
        return max(1, min(room))

    def bytes_in_flight(self, gpu: Gpu, registers: int = 0) -> int:
        """Bytes of loads in flight on one multiprocessor: those that threads issue before they use a result."""
        return self.flight_bytes * self.threads * self.blocks_at_once(gpu, registers)

    def bounds(self, gpu: Gpu, registers: int = 0) -> dict[str, float]:
        """Lower bounds on the seconds of an average launch, by resource; the largest is the bound."""
        launches = max(1, self.launches)
        blocks = self.blocks / launches
        # Blocks are not divided: the time is that of the multiprocessor with the most blocks. The number of resident
        # blocks does not change that: the last ones have the multiprocessor for themselves.
        busy = blocks / max(1, ceil(blocks / gpu.multiprocessors))
        cycles = busy * gpu.clock * 1e6 * launches
        memory = self.memory_bytes / launches / (gpu.bandwidth * 1e9)
        resident = min(self.blocks_at_once(gpu, registers), -(-blocks // gpu.multiprocessors))
        working = min(_PARTS, resident * -(-self.threads // WARP))  # partitions that have warps
        found = {
            "memory": memory,
            "sectors": SECTOR_BYTES * (self.reads.parts + self.writes.parts) / (64 * cycles),
            "shared": self.shared.parts / cycles,
            "issue": self.warp_instructions / (working * cycles),
            "matrix": self.flops * _PARTS / (gpu.matrix_flops * working * cycles) if self.flops else 0.0,
        }
        for type, each in gpu.multiply_adds.items():
            found[type] = self.mix[type] * WARP * _PARTS / (each * working * cycles)
        for kind, rate in _RATES.items():
            found[kind if kind != "memory" else "requests"] = self.mix[kind] / (rate * cycles)
        # Scattered loads do not wait more often: those of a thread are in flight together, each with a sector of its
        # own.
        loads = self.reads.ideal * SECTOR_BYTES / launches
        if self.flight_bytes and loads:
            found["latency"] = loads / busy / (self.flight_bytes * self.threads * resident) * MEMORY_LATENCY
        return found

    def bound(self, gpu: Gpu, registers: int = 0) -> tuple[float, str]:
        """A lower bound on the seconds of one launch, and the resource that limits it."""
        found = self.bounds(gpu, registers)
        most = max(found, key=lambda name: found[name])
        return found[most], most


#: Instructions that unpack or convert a loaded word: ptxas moves these after all loads of a sequence.
_BEHIND = ("mov", "cvt")


def flight_bytes(function: Function) -> int:
    """Bytes of global loads in sequence before the first of their results is used, at most; 0 if there are bulk copies,
    whose bytes in flight are limited by shared memory alone."""
    if any(instruction.opcode.startswith("cp.async.bulk") for instruction in function.instructions):
        return 0
    heads = set(function.labels.values())
    most = under_way = 0
    awaited: set[str] = set()
    for place, instruction in enumerate(function.instructions):
        reads, writes = reads_and_writes(instruction)
        if instruction.head in _BEHIND and place not in heads and not awaited.isdisjoint(reads):
            awaited.update(writes)
            continue
        if place in heads or not awaited.isdisjoint(reads):
            under_way, awaited = 0, set()
        modifiers = instruction.modifiers
        if instruction.head == "ld" and "global" in modifiers:
            width = next((int(m[1:]) for m in modifiers if m[0] == "v" and m[1:].isdigit()), 1)
            under_way += width * int("".join(filter(str.isdigit, instruction.type.partition("x")[0]))) // 8
            awaited.update(writes)
        elif instruction.opcode.startswith(("cp.async.ca.", "cp.async.cg.")):
            size = instruction.operands[2]
            under_way += size.value if isinstance(size, Integer) else 0
        most = max(most, under_way)
    return most
