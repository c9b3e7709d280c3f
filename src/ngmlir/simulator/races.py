# SPDX-License-Identifier: Apache-2.0
"""Shared memory: reads of unwritten memory, and accesses of two threads, one of them a write, that nothing orders.

Time is a counter. `seen[w, v]` is the time up to which warp w knows the accesses of warp v, `seen[w, w]` the time up to
which the lanes of w know one another's: a barrier merges the knowledge of its participants. An access made at time t by
v is ordered before w if t < seen[w, v]; a thread is always ordered after itself. After the columns of the warps there
are columns for asynchronous operations: bulk stores, by the warp that issues them; matrix products, by their warpgroup;
and bulk loads, by the mbarrier that signals them.

A bulk store and a matrix product read shared memory from when they are issued until they are waited for. So their reads
have the time of the issue, and only a wait tells a warp that reads up to some time are complete: a write by a warp that
does not know of that wait is an error, even if it comes long after.

Matrix products and bulk copies go through the asynchronous proxy. `fenced[w, t]` is the time up to which the writes of
thread t are known to w *and* visible to that proxy. A proxy fence makes those of the fencing thread visible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

import numpy as np

from .program import Instruction

#: Stops the simulation: (kind of fault, message, instruction, thread).
Stop = Callable[[str, str, Instruction, int], NoReturn]

WARP = 32
_ATOMIC = -1
_SEVERAL = -1
#: The time of bytes that are the destination of an asynchronous copy in flight: later than all others.
_BUSY = np.iinfo(np.int32).max
#: How many mbarriers are distinguished, by their addresses; more than that share columns.
_MBARRIERS = 32


class Shadow:
    """For each granule of the batch's shared memory: who wrote and read it last, and when.

    `warps` are those of one block, `warp_of` gives the warp of each thread, counted over all blocks. Threads are
    identified by their number within the block.
    """

    def __init__(
        self,
        warps: int,
        granule: int,
        blocks: int,
        shared_bytes: int,
        warp_of: np.ndarray,
        within: np.ndarray,
        proxies: bool,
        stop: Stop,
    ):
        self.warps = warps
        self.granule = granule
        self.blocks = blocks
        self.warp_of = warp_of
        self.within = within.astype(np.int16)
        self.stop = stop
        self.granules = granules = shared_bytes // granule
        self.now = 1
        self.written_at = np.zeros(granules, np.int32)
        self.written_by = np.zeros(granules, np.int16)  # thread within its block, or less than 0
        self.read_at = np.zeros(granules, np.int32)  # by any thread
        #: Sources of reads: the warps, then their bulk stores, then the products of their warpgroups.
        self.sources = warps + (warps + -(-warps // 4) if proxies else 0)
        columns = self.sources + (_MBARRIERS if proxies else 0)
        self.seen = np.ones((blocks * warps, columns), np.int32)
        self.fenced = np.ones((blocks * warps, warps * WARP), np.int32) if proxies else None
        self.reads = np.zeros(self.sources * granules, np.int32)  # by each source
        self.readers = np.zeros(warps * granules, np.int8)  # the lane, or several
        # The time up to which each warp knows all accesses; it decides most checks alone.
        self.floor = np.ones(blocks * warps, np.int32)

    # ---- accesses

    def read(
        self,
        threads: np.ndarray,
        offset: np.ndarray,
        size: int,
        instruction: Instruction,
        source: int | None = None,
    ) -> None:
        """`source`: an asynchronous operation that the threads have issued, which reads through the asynchronous proxy."""
        warp = self.warp_of[threads]
        self.now += 1
        floor = self.floor[warp]
        lane = (self.within[threads] & (WARP - 1)).astype(np.int8)
        own = self.seen[warp, warp % self.warps]
        base = warp % self.warps * self.granules
        for granule in self._granules(offset, size):
            at = self.written_at[granule]
            late = at >= floor
            if late.any():
                self._check_write(threads, granule, late, instruction, atomic=False)
            if not at.all():
                message = "shared memory that nobody has written is read"
                self.stop("uninitialised", message, instruction, int(threads[at == 0][0]))
            self.read_at[granule] = self.now
            if source is not None:
                self._check_fence(threads, granule, instruction)
                self.reads[source * self.granules + granule] = self.now
                continue
            place = base + granule
            others = (self.reads[place] >= own) & (self.readers[place] != lane)
            self.reads[place] = self.now
            self.readers[place] = lane
            others |= self.readers[place] != lane
            if others.any():
                self.readers[place[others]] = _SEVERAL

    def write(
        self,
        threads: np.ndarray,
        offset: np.ndarray,
        size: int,
        instruction: Instruction,
        atomic: bool = False,
        proxy: bool = False,
    ) -> None:
        self.now += 1
        floor = self.floor[self.warp_of[threads]]
        thread = self.within[threads]
        for granule in self._granules(offset, size):
            at = self.written_at[granule]
            late = at >= floor
            if late.any():
                self._check_write(threads, granule, late, instruction, atomic)
            if atomic and not at.all():
                message = "an atomic operation on shared memory that nobody has written"
                self.stop("uninitialised", message, instruction, int(threads[at == 0][0]))
            if proxy:
                self._check_fence(threads, granule, instruction)
            late = self.read_at[granule] >= floor
            if late.any():
                self._check_reads(threads[late], granule[late], instruction)
            self.written_at[granule] = self.now
            self.written_by[granule] = _ATOMIC if atomic else thread
            if not atomic:
                # Lanes of one warp that write one location are checked where their values are known.
                clash = self.written_by[granule] >> 5 != thread >> 5
                if clash.any():
                    other = int(self.written_by[granule][clash][0])
                    self._race(int(threads[clash][0]), other, "write", instruction)

    def _granules(self, offset: np.ndarray, size: int) -> list[np.ndarray]:
        first = offset // self.granule
        return [first + k for k in range(max(1, size // self.granule))]

    def _check_write(
        self,
        threads: np.ndarray,
        granule: np.ndarray,
        late: np.ndarray,
        instruction: Instruction,
        atomic: bool,
    ) -> None:
        """Checks that the accesses `late` are ordered after the writes of the same granules."""
        threads, granule = threads[late], granule[late]
        at, by = self.written_at[granule], self.written_by[granule]
        busy = at == _BUSY
        if busy.any():
            message = "shared memory is used while an asynchronous copy into it is not waited for"
            self.stop("in flight", message, instruction, int(threads[busy][0]))
        column = np.where(by >= 0, by >> 5, np.where(by == _ATOMIC, 0, self.sources - 2 - by))
        known = self.seen[self.warp_of[threads], column]
        unseen = (at >= known) & (by != self.within[threads])
        if atomic:
            unseen &= by != _ATOMIC
        if unseen.any():
            self._race(int(threads[unseen][0]), int(by[unseen][0]), "write", instruction)

    def _check_reads(self, threads: np.ndarray, granule: np.ndarray, instruction: Instruction) -> None:
        """Checks that a write is ordered after the reads of every warp."""
        warp = self.warp_of[threads]
        lane = self.within[threads] & (WARP - 1)
        for other in range(self.warps):
            place = other * self.granules + granule
            unseen = self.reads[place] >= self.seen[warp, other]
            unseen &= (warp % self.warps != other) | (self.readers[place] != lane)
            if unseen.any():
                reader = int(self.readers[place][unseen][0])
                by = other * WARP + max(reader, 0)
                self._race(int(threads[unseen][0]), by, "read", instruction)
        for source in range(self.warps, self.sources):
            at = self.reads[source * self.granules + granule]
            unseen = at >= self.seen[warp, source]
            if unseen.any():
                self._overwritten(int(threads[unseen][0]), int(at[unseen][0]), source, instruction)

    def _overwritten(self, thread: int, moment: int, source: int, instruction: Instruction) -> NoReturn:
        """Reports a write to memory that a bulk store or a product still reads, or has read without the writer knowing."""
        name = "bulk store" if source < 2 * self.warps else "matrix product"
        block = int(self.warp_of[thread]) // self.warps
        known = self.seen[block * self.warps : (block + 1) * self.warps, source].max()
        if moment >= known:
            message = f"shared memory is overwritten while a {name} that reads it is not waited for"
            self.stop("in flight", message, instruction, thread)
        warp = int(self.warp_of[thread]) % self.warps
        message = f"nothing orders this access of warp {warp} after the wait for the {name} that reads what is there"
        self.stop("race", message, instruction, thread)

    def _race(self, thread: int, by: int, what: str, instruction: Instruction) -> NoReturn:
        warp = int(self.warp_of[thread]) % self.warps
        if by == _ATOMIC:
            peer = "an atomic operation of another warp"
        elif by < 0:
            peer = "a bulk copy whose mbarrier it has not waited for"
        elif by >> 5 == warp:
            peer = f"a {what} by another lane of it"
        else:
            peer = f"a {what} by warp {by >> 5}"
        self.stop("race", f"no barrier orders this access of warp {warp} after {peer}", instruction, thread)

    # ---- asynchronous copies

    def issued(self, offset: np.ndarray, size: int) -> None:
        for granule in self._granules(offset, size):
            self.written_at[granule] = _BUSY

    def landed(self, threads: np.ndarray, offset: np.ndarray, size: int) -> None:
        """The issuing thread has waited: from now on the copy counts as a write of this thread."""
        self.now += 1
        for granule in self._granules(offset, size):
            self.written_at[granule] = self.now
            self.written_by[granule] = self.within[threads]

    def delivered(self, place: int, size: int, mbarrier: int) -> None:
        """A bulk copy has completed; its mbarrier passes that on to threads that wait for it."""
        self.now += 1
        granules = slice(place // self.granule, (place + size) // self.granule)
        self.written_at[granules] = self.now
        self.written_by[granules] = -2 - mbarrier // 8 % _MBARRIERS

    def told(self, mbarrier: int) -> np.ndarray:
        """The clock of the completed copies of an mbarrier."""
        self.now += 1
        clock = np.ones_like(self._clock(0))
        clock[self.sources + mbarrier // 8 % _MBARRIERS] = self.now
        return clock

    # ---- bulk stores and products

    def store_source(self, warp: int) -> int:
        """The source number of the bulk stores that a warp issues."""
        return self.warps + warp % self.warps

    def product_source(self, warp: int) -> int:
        """The source number of the matrix products of a warp's warpgroup."""
        return 2 * self.warps + warp % self.warps // 4

    def waited(self, warps: np.ndarray, source: int, running: Sequence[int]) -> None:
        """Warps (batch numbers) have waited for the operations of a source, except those issued at the times `running`."""
        self.now += 1
        self.seen[warps, source] = np.maximum(self.seen[warps, source], min(running, default=self.now))
        self.floor[warps] = self.seen[warps].min(axis=1)

    # ---- the asynchronous proxy

    def _check_fence(self, threads: np.ndarray, granule: np.ndarray, instruction: Instruction) -> None:
        assert self.fenced is not None
        at, by = self.written_at[granule], self.written_by[granule]
        known = self.fenced[self.warp_of[threads], np.maximum(by, 0)]
        hidden = (at >= known) & (by >= 0) & (at > 0)
        if hidden.any():
            thread = int(threads[hidden][0])
            message = f"no fence.proxy.async shows it what thread {int(by[hidden][0])} wrote to shared memory"
            self.stop("fence", message, instruction, thread)

    def fence(self, threads: np.ndarray) -> None:
        """Makes the writes of each of `threads` visible to the asynchronous proxy."""
        if self.fenced is not None:
            self.now += 1
            self.fenced[self.warp_of[threads], self.within[threads]] = self.now

    def is_fenced(self, thread: int, moment: int, by: int) -> bool:
        """Whether the writes of thread `by` of its block at `moment` are visible to copies that `thread` starts."""
        return self.fenced is None or moment < int(self.fenced[self.warp_of[thread], by])

    def is_known(self, thread: int, moment: int, by: int) -> bool:
        """Whether the accesses of thread `by` of its block at `moment` are ordered before `thread`."""
        same = int(self.within[thread]) == by
        return same or moment < int(self.seen[self.warp_of[thread], by >> 5])

    # ---- order

    def join(self, warps: np.ndarray) -> None:
        """A barrier of all of `warps` (batch numbers of one block): each knows the accesses and the knowledge of all."""
        self.now += 1
        knowledge = self.seen[warps].max(axis=0)
        knowledge[warps % self.warps] = self.now
        self.seen[warps] = knowledge
        self.floor[warps] = knowledge.min()
        if self.fenced is not None:
            self.fenced[warps] = self.fenced[warps].max(axis=0)

    def join_blocks(self, blocks: np.ndarray) -> None:
        """A barrier of all threads of each of `blocks`."""
        self.now += 1
        seen = self.seen.reshape(self.blocks, self.warps, -1)
        if self.fenced is None:
            seen[blocks] = self.now
            self.floor.reshape(self.blocks, -1)[blocks] = self.now
            return
        seen[blocks] = seen[blocks].max(axis=1, keepdims=True)
        seen[blocks, :, : self.warps] = self.now
        self.floor.reshape(self.blocks, -1)[blocks] = seen[blocks].min(axis=2)
        fenced = self.fenced.reshape(self.blocks, self.warps, -1)
        fenced[blocks] = fenced[blocks].max(axis=1, keepdims=True)

    def join_lanes(self, threads: np.ndarray) -> None:
        """The lanes of each warp of `threads` have synchronised."""
        self.now += 1
        warps = np.unique(self.warp_of[threads])
        self.seen[warps, warps % self.warps] = self.now
        self.floor[warps] = self.seen[warps].min(axis=1)

    def _clock(self, warp: int) -> np.ndarray:
        return (
            self.seen[warp] if self.fenced is None else np.concatenate([self.seen[warp], self.fenced[warp]])
        )

    def knowledge(self, warp: int) -> np.ndarray:
        """What `warp` knows now, including its own accesses: the clock that an arrival at an mbarrier carries."""
        self.now += 1
        clock = self._clock(warp).copy()
        clock[warp % self.warps] = self.now
        return clock

    def learn(self, warp: int, clock: np.ndarray) -> None:
        columns = self.seen.shape[1]
        np.maximum(self.seen[warp], clock[:columns], out=self.seen[warp])
        self.floor[warp] = self.seen[warp].min()
        if self.fenced is not None:
            np.maximum(self.fenced[warp], clock[columns:], out=self.fenced[warp])
