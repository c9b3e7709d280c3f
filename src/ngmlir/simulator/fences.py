# SPDX-License-Identifier: Apache-2.0
"""Races in global memory for kernels whose blocks synchronise by fences and strong operations (PTX's memory model).

A release (a fence of scope `gpu` or wider and a strong write after it, or one operation with `.release`) stores the
knowledge of its thread at the location that is written. An acquire (a strong read and a fence after it, or `.acquire`)
adds the knowledge stored at the location. A barrier of the whole block shares the knowledge of all its threads. Two
accesses of one location, of which one is a write and not both are strong, must be ordered in this way: the later thread
knows of the earlier access, whichever came first in this run.

A fence releases what happened before it to the thread that executes it. Writes of other threads of the block are
included only if a barrier came between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from .memory import Region
from .program import Instruction
from .traffic import Access, Stop

Array = np.ndarray

_STRONG = {"relaxed", "acquire", "release", "acq_rel", "volatile", "mmio"}


def reaches_blocks(instruction: Instruction) -> bool:
    """Whether blocks of a kernel may synchronise by this instruction."""
    modifiers = set(instruction.modifiers)
    if instruction.head == "membar":
        return bool({"gl", "sys"} & modifiers)
    if not {"gpu", "sys"} & modifiers or instruction.opcode.startswith("fence.proxy"):
        return False
    return instruction.head == "fence" or bool({"acquire", "release", "acq_rel"} & modifiers)


@dataclass
class _Knowledge:
    """The times up to which the accesses of whole blocks, and of single threads, are known."""

    blocks: Array
    threads: dict[int, int] = field(default_factory=dict[int, int])

    def copy(self) -> _Knowledge:
        return _Knowledge(self.blocks.copy(), dict(self.threads))

    def add(self, other: _Knowledge) -> None:
        np.maximum(self.blocks, other.blocks, out=self.blocks)
        for thread, moment in other.threads.items():
            self.threads[thread] = max(moment, self.threads.get(thread, 0))

    def has(self, block: int, thread: int, moment: int) -> bool:
        return moment < self.blocks[block] or moment < self.threads.get(thread, 0)


class _Read(NamedTuple):
    access: Access
    moment: int
    strong: bool


class FencedTraffic:
    """The accesses of one launch, checked while it runs. `ordered`: only whole barriers order the threads of a block."""

    def __init__(self, granule: int, block_threads: int, blocks: int, ordered: bool, stop: Stop):
        self.granule = granule
        self.block_threads = block_threads
        self.blocks = blocks
        self.ordered = ordered
        self.stop = stop
        self.now = 1
        self.met = np.zeros(blocks, np.int64)  # time of the last barrier of each block
        self.common: dict[int, _Knowledge] = {}  # what all threads of a block know of other blocks
        self.own: dict[
            int, dict[int, _Knowledge]
        ] = {}  # what single threads have acquired since: block, thread
        self.heard: dict[int, _Knowledge] = {}  # what a thread has read, without a fence yet
        self.released: dict[int, _Knowledge] = {}  # what a thread knew at its last fence
        self.places: dict[int, _Knowledge] = {}  # what was released at a location
        # For each region: the last writer of each granule (counted from 1), the time, and whether it was a strong
        # write.
        self.writers: dict[Region, tuple[Array, Array, Array]] = {}
        self.reads: dict[Region, list[_Read]] = {}

    # ---- synchronisation

    def meet(self, blocks: Array) -> None:
        """A barrier of all threads of each of these blocks."""
        self.now += 1
        self.met[blocks] = self.now
        for block in blocks.tolist():
            for knowledge in self.own.pop(block, {}).values():
                self._common(block).add(knowledge)

    def fence(self, threads: Array) -> None:
        """Fences of scope `gpu` or wider by these threads of the launch."""
        self.now += 1
        for thread in threads.tolist():
            if thread in self.heard:
                self._acquire(thread, self.heard.pop(thread))
            self.released[thread] = self._knowledge(thread)

    def _common(self, block: int) -> _Knowledge:
        if block not in self.common:
            self.common[block] = _Knowledge(np.zeros(self.blocks, np.int64))
        return self.common[block]

    def _acquire(self, thread: int, what: _Knowledge) -> None:
        block = thread // self.block_threads
        if not self.ordered:  # the order within this block is not tracked
            self._common(block).add(what)
            return
        own = self.own.setdefault(block, {})
        if thread in own:
            own[thread].add(what)
        else:
            own[thread] = what.copy()

    def _knowledge(self, thread: int) -> _Knowledge:
        """Everything that a thread knows at this time."""
        block = thread // self.block_threads
        found = self._common(block).copy()
        if (own := self.own.get(block, {}).get(thread)) is not None:
            found.add(own)
        found.blocks[block] = self.met[block] if self.ordered else self.now
        found.threads[thread] = self.now
        return found

    def _signal(self, thread: int, place: int, instruction: Instruction) -> None:
        """A strong operation acquires what was released at a location, and releases what its thread has released."""
        modifiers, head = set(instruction.modifiers), instruction.head
        left = self.places.get(place)
        if head in ("ld", "atom") and left is not None:
            if {"acquire", "acq_rel"} & modifiers:
                self._acquire(thread, left)
            elif thread in self.heard:
                self.heard[thread].add(left)
            else:
                self.heard[thread] = left.copy()
        if head != "ld":
            given = (
                self._knowledge(thread) if {"release", "acq_rel"} & modifiers else self.released.get(thread)
            )
            if head != "st" and left is not None:  # extends the release sequence of others
                if given is not None:
                    left.add(given)
            elif given is not None:
                self.places[place] = given.copy()
            else:
                self.places.pop(place, None)

    # ---- accesses

    def note(self, region: Region, access: Access) -> None:
        self.now += 1
        instruction = access.instruction
        modifiers = set(instruction.modifiers)
        strong = access.use == "atomic" or bool(_STRONG & modifiers)
        strong &= "cta" not in modifiers
        writers, moments, strongly = self._table(region)
        for place in self._granules(region, access):
            before = writers[place]
            if "nc" in modifiers and before.any():
                self._stop_cached(access, int(access.threads[before != 0][0]))
            check = (before != 0) & ~(strongly[place] & strong)
            if check.any():
                self._check(access, check, before - 1, moments[place], "written")
        if access.use == "read":
            self.reads.setdefault(region, []).append(_Read(access, self.now, strong))
        else:
            self._check_reads(region, access, strong)
            for place in self._granules(region, access):
                writers[place], moments[place], strongly[place] = access.threads + 1, self.now, strong
                twice = writers[place] != access.threads + 1
                if not strong and twice.any():
                    self._check(access, twice, writers[place] - 1, moments[place], "written")
        if strong:
            for thread, place in zip(access.threads.tolist(), access.offsets.tolist(), strict=True):
                self._signal(thread, place, instruction)

    def compare(self) -> None:
        """Nothing: accesses are checked when they are recorded."""

    def _granules(self, region: Region, access: Access) -> list[Array]:
        first = (access.offsets - region.start) // self.granule
        return [first + k for k in range(max(1, access.size // self.granule))]

    def _table(self, region: Region) -> tuple[Array, Array, Array]:
        if region not in self.writers:
            count = -(-(region.end - region.start) // self.granule)
            self.writers[region] = (
                np.zeros(count, np.int64),
                np.zeros(count, np.int64),
                np.zeros(count, np.bool_),
            )
        return self.writers[region]

    def _check_reads(self, region: Region, access: Access, strong: bool) -> None:
        """Checks that a write is ordered after the reads of what it overwrites."""
        written = self._granules(region, access)
        for read in self.reads.get(region, ()):
            if strong and read.strong:
                continue
            places = np.concatenate(self._granules(region, read.access))
            readers = np.tile(read.access.threads, len(places) // len(read.access.threads))
            order = np.argsort(places, kind="stable")
            places, readers = places[order], readers[order]
            for place in written:
                first, end = np.searchsorted(places, place), np.searchsorted(places, place, "right")
                for turn in range(int((end - first).max(initial=0))):
                    at = np.minimum(first + turn, len(places) - 1)
                    found = first + turn < end
                    if "nc" in read.access.instruction.modifiers and found.any():
                        self._stop_cached(read.access, int(readers[at][found][0]))
                    self._check(access, found, readers[at], np.full(len(at), read.moment), "read")

    def _check(self, access: Access, which: Array, others: Array, moments: Array, what: str) -> None:
        """Checks that the threads `which` know of the accesses of `others` at `moments`."""
        threads = access.threads
        block, other_block = threads // self.block_threads, others // self.block_threads
        unknown = which & (threads != others)
        same = block == other_block
        unknown &= ~(same & (moments < self.met[block])) if self.ordered else ~same
        for at in np.flatnonzero(unknown).tolist():
            thread, other, moment = int(threads[at]), int(others[at]), int(moments[at])
            mine, theirs = int(block[at]), int(other_block[at])
            own = self.own.get(mine, {}).get(thread)
            known: Sequence[_Knowledge] = [k for k in (self.common.get(mine), own) if k is not None]
            if mine == theirs or not any(k.has(theirs, other, moment) for k in known):
                within = other % self.block_threads
                message = (
                    "neither a barrier nor a release and an acquire order this access of global memory and that it is "
                    f"{what} by thread {within} of block number {theirs}"
                )
                self.stop("race", message, access.instruction, thread)

    def _stop_cached(self, access: Access, thread: int) -> None:
        message = "the launch writes what this reads through the read-only cache"
        self.stop("read-only", message, access.instruction, thread)
