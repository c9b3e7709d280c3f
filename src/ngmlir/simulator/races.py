# SPDX-License-Identifier: Apache-2.0
"""Shared-memory races: two warps touch the same bytes, one of them writes, and nothing orders the two.

Time is a counter. `seen[w, v]` says up to which moment warp w knows what warp v has done: a barrier brings
the participants' knowledge together. An access made by v at time t is ordered before w when t < seen[w, v].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import numpy as np

from .program import Instruction

#: Stops the simulation: the kind of fault, a message, the instruction and the thread.
Stop = Callable[[str, str, Instruction, int], NoReturn]

_ATOMIC = -1


class Shadow:
    """Who wrote and who read each granule of the batch's shared memory, and when.

    `warps` are those of one block, `warp_of` gives the warp of each thread, counted over all blocks.
    """

    def __init__(
        self, warps: int, granule: int, blocks: int, shared_bytes: int, warp_of: np.ndarray, stop: Stop
    ):
        self.warps = warps
        self.granule = granule
        self.blocks = blocks
        self.warp_of = warp_of
        self.stop = stop
        granules = shared_bytes // granule
        self.now = 1
        self.written_at = np.zeros(granules, np.int32)
        self.written_by = np.zeros(granules, np.int16)  # warp within its block
        self.read_at = np.zeros((warps, granules), np.int32)
        self.seen = np.ones((blocks * warps, warps), np.int32)
        # The moment that each warp knows everything before; most accesses are settled by it alone.
        self.floor = np.ones(blocks * warps, np.int32)
        self.busy = np.zeros(granules, np.bool_)  # destination of an asynchronous copy in flight

    def read(self, threads: np.ndarray, offset: np.ndarray, size: int, instruction: Instruction) -> None:
        warp = self.warp_of[threads]
        within = warp % self.warps
        self.now += 1
        floor = self.floor[warp]
        for granule in self._granules(offset, size):
            self._check_busy(threads, granule, instruction)
            late = self.written_at[granule] >= floor
            if late.any():
                self._check_write(threads, warp, within, granule, late, instruction, atomic=False)
            self.read_at[within, granule] = self.now

    def write(
        self,
        threads: np.ndarray,
        offset: np.ndarray,
        size: int,
        instruction: Instruction,
        atomic: bool = False,
    ) -> None:
        warp = self.warp_of[threads]
        within = warp % self.warps
        self.now += 1
        floor = self.floor[warp]
        mark = _ATOMIC if atomic else within
        for granule in self._granules(offset, size):
            self._check_busy(threads, granule, instruction)
            late = self.written_at[granule] >= floor
            if late.any():
                self._check_write(threads, warp, within, granule, late, instruction, atomic)
            for other in range(self.warps):
                unseen = (self.read_at[other, granule] >= self.seen[warp, other]) & (within != other)
                if unseen.any():
                    self._race(threads, unseen, other, "read", instruction)
            self.written_at[granule] = self.now
            self.written_by[granule] = mark
            if not atomic:
                clash = self.written_by[granule] != within
                if clash.any():
                    self._race(threads, clash, self.written_by[granule][clash][0], "write", instruction)

    def _granules(self, offset: np.ndarray, size: int) -> list[np.ndarray]:
        first = offset // self.granule
        return [first + k for k in range(max(1, size // self.granule))]

    def _check_busy(self, threads: np.ndarray, granule: np.ndarray, instruction: Instruction) -> None:
        busy = self.busy[granule]
        if busy.any():
            self.stop(
                "in flight",
                "shared memory is used while an asynchronous copy into it is not waited for",
                instruction,
                int(threads[busy][0]),
            )

    def _check_write(
        self,
        threads: np.ndarray,
        warp: np.ndarray,
        within: np.ndarray,
        granule: np.ndarray,
        late: np.ndarray,
        instruction: Instruction,
        atomic: bool,
    ) -> None:
        at, by = self.written_at[granule][late], self.written_by[granule][late]
        known = self.seen[warp[late], np.maximum(by, 0)]
        unseen = (at >= known) & (by != within[late])
        unseen &= (by != _ATOMIC) | (not atomic)
        if unseen.any():
            every = np.zeros(len(threads), np.bool_)
            every[np.flatnonzero(late)[unseen]] = True
            self._race(threads, every, int(by[unseen][0]), "write", instruction)

    def _race(self, threads: np.ndarray, which: np.ndarray, other: int, what: str, instruction: Instruction):
        thread = int(threads[which][0])
        warp = int(self.warp_of[thread]) % self.warps
        peer = "an atomic operation of another warp" if other == _ATOMIC else f"a {what} by warp {int(other)}"
        self.stop("race", f"no barrier orders this access of warp {warp} after {peer}", instruction, thread)

    # ---- asynchronous copies

    def issued(self, offset: np.ndarray, size: int) -> None:
        for granule in self._granules(offset, size):
            self.busy[granule] = True

    def landed(self, threads: np.ndarray, offset: np.ndarray, size: int) -> None:
        """The issuing thread has waited: from now on this is a write of its own."""
        self.now += 1
        within = self.warp_of[threads] % self.warps
        for granule in self._granules(offset, size):
            self.busy[granule] = False
            self.written_at[granule] = self.now
            self.written_by[granule] = within

    def delivered(self, place: int, size: int) -> None:
        """A bulk copy has landed; its mbarrier tells whoever waits for it."""
        granules = slice(place // self.granule, (place + size) // self.granule)
        self.busy[granules] = False
        self.written_at[granules] = 0

    # ---- order

    def join(self, warps: np.ndarray) -> None:
        """All of `warps` (batch numbers of one block) have met: each knows what any of them knew or did."""
        self.now += 1
        knowledge = self.seen[warps].max(axis=0)
        knowledge[warps % self.warps] = self.now
        self.seen[warps] = knowledge
        self.floor[warps] = knowledge.min()

    def join_blocks(self, blocks: np.ndarray) -> None:
        """All threads of each of `blocks` have met."""
        self.now += 1
        self.seen.reshape(self.blocks, -1)[blocks] = self.now
        self.floor.reshape(self.blocks, -1)[blocks] = self.now

    def knowledge(self, warp: int) -> np.ndarray:
        """What `warp` knows now, itself included: the clock that an arrival at an mbarrier carries."""
        self.now += 1
        clock = self.seen[warp].copy()
        clock[warp % self.warps] = self.now
        return clock

    def learn(self, warp: int, clock: np.ndarray) -> None:
        np.maximum(self.seen[warp], clock, out=self.seen[warp])
        self.floor[warp] = self.seen[warp].min()
