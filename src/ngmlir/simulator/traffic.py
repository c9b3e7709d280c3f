# SPDX-License-Identifier: Apache-2.0
"""Global memory: races between the blocks, and within the blocks, of one launch.

Nothing orders two blocks of a launch, and only barriers order two threads of a block. So the accesses of a launch are
recorded while it runs, and compared when it has ended: two threads that access one location, one of them to write it,
with no barrier in between, are a race, in whatever order they happened to run. Memory that is read through the
read-only cache (`.nc`) must not be written by the launch at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import NoReturn

import numpy as np

from .memory import Region
from .program import Instruction

Array = np.ndarray

#: Stops the simulation: (kind, message, instruction, number of a thread in the launch).
Stop = Callable[[str, str, Instruction, int], NoReturn]

#: How many accesses are kept before they are compared.
_KEPT = 1 << 24
_SEVERAL = np.iinfo(np.int32).min


@dataclass(frozen=True, slots=True)
class Access:
    """One instruction of several threads: byte offsets in the store, and numbers of the threads in the launch."""

    instruction: Instruction
    use: str  # read, write, atomic
    offsets: Array
    threads: Array
    size: int
    phase: int  # number of barriers that the blocks of these threads have passed


class Traffic:
    """The accesses of one launch. `ordered`: only barriers of the whole block order its threads in this kernel."""

    def __init__(self, granule: int, block_threads: int, ordered: bool, stop: Stop):
        self.granule = granule
        self.block_threads = block_threads
        self.ordered = ordered
        self.stop = stop
        self.kept = 0
        self.accesses: dict[Region, list[Access]] = {}
        self.written: set[Region] = set()
        # For each region that is written: the writer of each granule (0, the thread counted from 1, or for atomics
        # minus the block counted from 1, if there was only one); its phase; and the block that has read it, counted
        # from 1.
        self.writers: dict[Region, Array] = {}
        self.phases: dict[Region, Array] = {}
        self.readers: dict[Region, Array] = {}

    def note(self, region: Region, access: Access) -> None:
        self.accesses.setdefault(region, []).append(access)
        if access.use != "read":
            self.written.add(region)
        self.kept += len(access.offsets)
        if self.kept > _KEPT:
            self.compare(last=False)

    def compare(self, last: bool = True) -> None:
        """Looks for races in the recorded accesses; except the `last` time, it keeps what was read."""
        for region, accesses in self.accesses.items():
            if region in self.written:
                self._compare(region, accesses)
            if not last:
                self._remember(region, accesses)
        self.accesses.clear()
        self.kept = 0

    def _places(self, region: Region, access: Access) -> list[Array]:
        first = (access.offsets - region.start) // self.granule
        return [first + k for k in range(max(1, access.size // self.granule))]

    def _table(self, tables: dict[Region, Array], region: Region) -> Array:
        if region not in tables:
            tables[region] = np.zeros(-(-(region.end - region.start) // self.granule), np.int32)
        return tables[region]

    def _compare(self, region: Region, accesses: list[Access]) -> None:
        # For each block in the order in which they happened: phases of a block only increase.
        in_turn = sorted(accesses, key=lambda a: a.phase)
        groups = [list(group) for _, group in groupby(in_turn, lambda a: a.phase)]
        for together in groups:
            for access in together:
                if access.use != "read":
                    self._write(region, access)
            if self.ordered:
                for access in together:
                    if access.use == "read":
                        self._read(region, access, same_block=True)
        if self.ordered and len(groups) == 1:
            return
        for access in accesses:
            if access.use == "read":
                self._read(region, access, same_block=False)

    def _write(self, region: Region, access: Access) -> None:
        writers = self._table(self.writers, region)
        phases = self._table(self.phases, region)
        mine = access.threads.astype(np.int32) + 1
        block = access.threads // self.block_threads
        atomic = access.use == "atomic"
        readers = self.readers.get(region)
        for place in self._places(region, access):
            before = writers[place]
            clash = (before != 0) & (before != mine)
            if atomic:
                clash &= before > 0
            if clash.any():
                self._check(access, clash, before, phases[place], "written", same_block=self.ordered)
            if readers is not None:
                read = readers[place]
                foreign = (read != 0) & (read != block + 1)
                if foreign.any():
                    self._stop(access, foreign, np.zeros_like(read), "read")
            if atomic:
                known = np.where((before >= 0) | (before == -1 - block), -1 - block, _SEVERAL)
                writers[place] = known
                different = writers[place] != known
                writers[place[different]] = _SEVERAL
            else:
                writers[place] = mine
                twice = writers[place] != mine
                if twice.any():
                    other = writers[place]
                    now = np.full_like(other, access.phase)
                    self._check(access, twice, other, now, "written", same_block=self.ordered)
            phases[place] = access.phase

    def _read(self, region: Region, access: Access, same_block: bool) -> None:
        writers, phases = self._table(self.writers, region), self._table(self.phases, region)
        mine = access.threads.astype(np.int32) + 1
        for place in self._places(region, access):
            before = writers[place]
            clash = before != 0
            if "nc" in access.instruction.modifiers and clash.any():
                thread = int(access.threads[clash][0])
                message = "the launch writes what this reads through the read-only cache"
                self.stop("read-only", message, access.instruction, thread)
            clash &= before != mine
            if clash.any():
                self._check(access, clash, before, phases[place], "written", same_block)

    def _check(
        self, access: Access, which: Array, before: Array, phases: Array, what: str, same_block: bool
    ) -> None:
        """Checks that the threads `which` are of the same blocks as those of `before`, and in a later phase."""
        block = np.where(before > 0, (before - 1) // self.block_threads, -1 - before)
        foreign = block != access.threads // self.block_threads
        if same_block:
            foreign |= phases == access.phase
        wrong = which & foreign
        if wrong.any():
            self._stop(access, wrong, before, what)

    def _stop(self, access: Access, wrong: Array, before: Array, what: str) -> NoReturn:
        other = int(before[wrong][0])
        thread = int(access.threads[wrong][0])
        if other > 0:
            block, within = divmod(other - 1, self.block_threads)
            peer = f"{what} by thread {within} of block number {block}"
        else:
            peer = f"{what} by another block" if what == "read" else "changed by atomic operations"
        message = f"no barrier orders this access of global memory and that it is {peer}"
        self.stop("race", message, access.instruction, thread)

    def _remember(self, region: Region, accesses: list[Access]) -> None:
        readers = self._table(self.readers, region)
        for access in accesses:
            if access.use == "read":
                mine = (access.threads // self.block_threads + 1).astype(np.int32)
                for place in self._places(region, access):
                    before = readers[place]
                    readers[place] = np.where((before == 0) | (before == mine), mine, _SEVERAL)
                    several = (readers[place] != mine) | (before == _SEVERAL)
                    readers[place[several]] = _SEVERAL
