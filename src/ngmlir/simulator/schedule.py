# SPDX-License-Identifier: Apache-2.0
"""Runs the threads of one batch of blocks, segment by segment.

A segment is straight-line code up to a branch, an exit or an operation that threads execute together. While all threads
have the same program counter they run together without masks. Threads that have diverged reconverge only where an
instruction requires it (`.sync`, `.aligned`) or where they happen to reach the same instruction; programs that rely on
more than that are stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from .barriers import release_after_exit
from .decoding import Reader, Step
from .frame import AT_COLLECTIVE, AT_MBARRIER, DONE, READY, WARP, Frame
from .program import Instruction
from .registers import Threads
from .unset import Watched, check, follow
from .wgmma import check_registers, disturb

Array = np.ndarray

#: Every this many turns the threads that have waited longest run, whatever the order says.
_FAIRNESS = 64


@dataclass
class Operation:
    """One decoded instruction. `group` threads must converge for it (0: none need to)."""

    instruction: Instruction
    kind: Literal["step", "branch", "table", "exit", "barrier", "wait"]
    step: Step | None = None
    guard: Reader | None = None
    members: Reader | None = None  # mask of the participating lanes, if the instruction has one
    group: int = 0
    targets: tuple[int, ...] = ()
    choose: Reader | None = None  # index into `targets`
    ready: Callable[[Frame, Threads], Array] | None = None
    touched: frozenset[str] = frozenset()  # registers, in kernels with asynchronous matrix products
    written: frozenset[str] = frozenset()
    disturbs: frozenset[str] = frozenset()  # those that matrix products use, maybe through copies
    watched: Watched | None = None
    copies: bool = False  # whether it is a copy, which the assembler may eliminate

    @property
    def ends_segment(self) -> bool:
        return self.kind != "step" or self.group > 0


class Code:
    """A decoded kernel: operations, the ends of segments, and the order in which instructions are best visited."""

    def __init__(self, operations: Sequence[Operation], entry_points: set[int]):
        self.operations = operations
        self.ends = self._segment_ends(entry_points)
        self.rank = self._ranks()

    def _segment_ends(self, entry_points: set[int]) -> list[int]:
        """For each instruction, the end of the straight-line code after it."""
        ends = [0] * len(self.operations)
        following = len(self.operations)
        for index in range(len(self.operations) - 1, -1, -1):
            if self.operations[index].ends_segment:
                ends[index] = index
            else:
                following = index + 1
                ends[index] = following if following in entry_points else ends[following]
        return ends

    def successors(self, index: int) -> tuple[int, ...]:
        operation = self.operations[index]
        if operation.kind == "exit" and operation.guard is None:
            return ()
        following = (index + 1,)
        if operation.kind in ("branch", "table"):
            conditional = operation.guard is not None
            return operation.targets + (following if conditional else ())
        return following

    def _ranks(self) -> Array:
        """Reverse postorder: threads that are behind run first, so that those ahead wait where paths join."""
        count = len(self.operations)
        rank = np.full(count + 1, count, np.int64)
        seen = {0}
        order: list[int] = []
        stack = [(0, iter(self.successors(0)))]
        while stack:
            index, successors = stack[-1]
            for successor in successors:
                if successor < count and successor not in seen:
                    seen.add(successor)
                    stack.append((successor, iter(self.successors(successor))))
                    break
            else:
                order.append(index)
                stack.pop()
        for position, index in enumerate(reversed(order)):
            rank[index] = position
        return rank


def run(frame: Frame, code: Code, step_limit: int) -> None:
    """Runs until every thread has exited; a `SimulationFault` if that cannot happen."""
    _Scheduler(frame, code, step_limit).run()


class _Scheduler:
    def __init__(self, frame: Frame, code: Code, step_limit: int):
        self.frame = frame
        self.code = code
        self.turns_left = step_limit
        self.visited = np.zeros(len(code.operations) + 1, np.int64)
        self.turn = 0

    def run(self) -> None:
        while True:
            choice = self._choose()
            if choice is None:
                return
            self._advance(*choice)

    # ---- choosing threads

    def _choose(self) -> tuple[int, Threads] | None:
        frame = self.frame
        while True:
            ready = frame.status == READY
            if ready.any():
                break
            if frame.alive == 0:
                self._check_end()
                return None
            if not self._let_something_happen():
                self._stuck()
        self.turn += 1
        if frame.random is not None:
            ready = self._some(ready)
            if frame.events and frame.random.random() < 0.3:
                self._let_something_happen()
        candidates = np.flatnonzero(ready)
        places = frame.pc[candidates]
        if self.turn % _FAIRNESS == 0:
            distinct = np.unique(places)
            place = int(distinct[np.argmin(self.visited[distinct])])
        else:
            place = int(places[np.argmin(self.code.rank[places])])
        self.visited[place] = self.turn
        chosen = candidates[places == place]
        return place, (... if len(chosen) == frame.count else chosen)

    def _some(self, ready: Array) -> Array:
        """A random half of the warps: the results of a correct program do not depend on the order."""
        frame = self.frame
        assert frame.random is not None
        lucky = frame.random.random(frame.blocks * frame.shape.warps) < 0.5
        chosen = ready & lucky[frame.warp_of]
        return chosen if chosen.any() else ready

    def _check_end(self) -> None:
        """Reports copies that still need the shared memory of a block that has ended."""
        for store in self.frame.bulk_stores:
            message = "the block ends before this store is waited for"
            self.frame.fault("in flight", message, store.instruction, store.thread)

    def _let_something_happen(self) -> bool:
        """Runs one asynchronous event; False if none is outstanding."""
        frame = self.frame
        if not frame.events:
            return False
        index = 0 if frame.random is None else int(frame.random.integers(len(frame.events)))
        frame.events.pop(index)()
        return True

    # ---- running

    def _advance(self, place: int, threads: Threads) -> None:
        """Runs `threads` from `place` until they diverge, wait or reach an instruction where others may join."""
        frame, code = self.frame, self.code
        operations = code.operations
        while True:
            self._count_turn(place)
            end = code.ends[place]
            for operation in operations[place:end]:
                self._execute(operation, threads)
            place = end
            if place >= len(operations):
                self._exit(threads, threads)
                return
            operation = operations[place]
            if not operation.ends_segment:  # a label: others may come here too
                if threads is ...:
                    continue
                frame.pc[threads] = place
                return
            if operation.group:
                complete = self._gather(operation, place, threads)
                if complete is None:
                    return
                threads = complete
            if operation.watched is not None and operation.kind != "step":
                follow(frame, threads, operation.watched, operation.instruction)
            if frame.counters is not None and operation.kind != "step":
                self._count(operation, threads)
            match operation.kind:
                case "step":
                    self._execute(operation, threads)
                    place += 1
                case "branch" | "table":
                    target = self._branch(operation, place, threads)
                    if target is None:
                        return
                    place = target
                    if threads is not ...:
                        frame.pc[threads] = place
                        return
                case "exit":
                    leaving = self._guarded(operation, threads)
                    self._exit(threads, leaving)
                    frame.pc[threads] = place + 1
                    return
                case "barrier":
                    if not self._barrier(operation, place, threads):
                        return
                    place += 1
                case "wait":
                    if not self._wait(operation, place, threads):
                        return
                    place += 1

    def _count_turn(self, place: int) -> None:
        self.turns_left -= 1
        if self.turns_left < 0:
            instruction = self.code.operations[place].instruction
            self.frame.fault("endless", "the kernel does not terminate", instruction)

    def _execute(self, operation: Operation, threads: Threads) -> None:
        assert operation.step is not None
        if operation.touched:
            if self.frame.products:
                check_registers(
                    self.frame, threads, operation.instruction, operation.touched, operation.written
                )
            if operation.disturbs:
                disturb(self.frame, threads, operation.disturbs, operation.written, operation.copies)
        chosen = threads
        if operation.guard is not None:
            if operation.watched is not None and operation.instruction.guard is not None:
                check(self.frame, threads, operation.instruction.guard.name, operation.instruction)
            chosen = self._guarded(operation, threads)
        if chosen is ... or len(chosen):
            if operation.watched is not None:
                follow(self.frame, chosen, operation.watched, operation.instruction)
            if self.frame.counters is not None:
                self._count(operation, chosen)
            operation.step(self.frame, chosen)

    def _count(self, operation: Operation, threads: Threads) -> None:
        frame = self.frame
        assert frame.counters is not None
        running = frame.threads(threads)
        warps = len(np.unique(frame.warp_of[running]))
        frame.counters.executed(operation.instruction, warps, len(running))

    def _guarded(self, operation: Operation, threads: Threads) -> Threads:
        """The threads whose guard is true."""
        if operation.guard is None:
            return threads
        holds = operation.guard(self.frame, threads)
        return threads if holds.all() else self.frame.threads(threads)[holds]

    def _branch(self, operation: Operation, place: int, threads: Threads) -> int | None:
        """The common target, or None after each thread's program counter has been set."""
        frame = self.frame
        if operation.choose is not None:
            index = operation.choose(frame, threads).astype(np.int64)
            if (index >= len(operation.targets)).any():
                frame.fault("out of bounds", "a branch past the end of its table", operation.instruction)
            taken = np.array(operation.targets, np.int32)[index]
        elif operation.guard is None:
            return operation.targets[0]
        else:
            holds = operation.guard(frame, threads)
            taken = np.where(holds, np.int32(operation.targets[0]), np.int32(place + 1))
        if (taken == taken[0]).all():
            return int(taken[0])
        frame.pc[threads] = taken
        return None

    def _exit(self, threads: Threads, leaving: Threads) -> None:
        frame = self.frame
        gone = frame.threads(leaving)
        if len(gone):
            frame.status[gone] = DONE
            frame.alive -= len(gone)
            leavers = np.bincount(frame.block_of[gone], minlength=frame.blocks)
            frame.alive_in_block -= leavers
            if frame.barriers:
                release_after_exit(frame, np.flatnonzero(leavers))
            self._recheck_collectives()

    def _recheck_collectives(self) -> None:
        """Lanes that waited for a lane that has exited check again."""
        frame = self.frame
        frame.status[frame.status == AT_COLLECTIVE] = READY

    # ---- convergence

    def _gather(self, operation: Operation, place: int, threads: Threads) -> Threads | None:
        """The threads whose groups are complete here; the others wait. None if no group is complete."""
        frame = self.frame
        if threads is ...:
            if operation.members is not None:
                self._check_members(operation, threads)
            return threads
        here = np.zeros(frame.count, np.bool_)
        here[threads] = True
        here |= (frame.status == AT_COLLECTIVE) & (frame.pc == place)
        arrived = np.flatnonzero(here)
        group = frame.warp_of[arrived]
        bit = np.uint64(1) << frame.lane[arrived].astype(np.uint64)
        warps = frame.blocks * frame.shape.warps
        present = np.bincount(group, bit.astype(np.float64), warps).astype(np.uint64)
        alive = np.flatnonzero(frame.status != DONE)
        living = np.bincount(
            frame.warp_of[alive],
            (np.uint64(1) << frame.lane[alive].astype(np.uint64)).astype(np.float64),
            warps,
        ).astype(np.uint64)
        needed = living[group]
        if operation.members is not None:
            mask = self._check_members(operation, arrived)
            needed = needed & mask
        complete = (present[group] & needed) == needed
        if operation.group > WARP:
            span = operation.group // WARP
            whole = np.ones(-(-warps // span) * span, np.bool_)
            whole[:warps] = np.equal(present & living, living)
            complete &= np.all(whole.reshape(-1, span), axis=1)[group // span]
        waiting = arrived[~complete]
        frame.status[waiting] = AT_COLLECTIVE
        frame.pc[waiting] = place
        going = arrived[complete]
        if not len(going):
            return None
        frame.status[going] = READY
        frame.pc[going] = place
        return ... if len(going) == frame.count else going

    def _check_members(self, operation: Operation, threads: Threads) -> Array:
        """The masks of the participating lanes; each thread must be in its own."""
        frame = self.frame
        assert operation.members is not None
        mask = operation.members(frame, threads)
        if not mask.strides[0] and mask[0] == 0xFFFFFFFF:  # a constant: all lanes
            return mask[:1].astype(np.uint64)
        mask = mask.astype(np.uint64)
        outside = (mask >> frame.lane[threads].astype(np.uint64)) & np.uint64(1) == 0
        if outside.any():
            message = "a lane executes this without being in its own member mask"
            thread = int(frame.threads(threads)[outside][0])
            frame.fault("not converged", message, operation.instruction, thread)
        return mask

    def _barrier(self, operation: Operation, place: int, threads: Threads) -> bool:
        """True if all threads may continue together."""
        frame = self.frame
        going = self._guarded(operation, threads)
        frame.pc[threads] = place
        if going is not threads:
            passing = np.setdiff1d(frame.threads(threads), frame.threads(going))
            frame.pc[passing] = place + 1
            if not len(frame.threads(going)):
                return False
        assert operation.step is not None
        operation.step(frame, going)
        if going is ... and frame.status[0] == READY and frame.pc[0] == place:
            return True  # no thread had to wait
        if "arrive" in operation.instruction.modifiers:
            frame.pc[going] = place + 1
        return False

    def _wait(self, operation: Operation, place: int, threads: Threads) -> bool:
        """True if the phases of all threads are complete."""
        frame = self.frame
        assert operation.ready is not None and operation.step is not None
        done = operation.ready(frame, threads)
        if done.all():
            operation.step(frame, threads)
            return True
        running = frame.threads(threads)
        if done.any():
            operation.step(frame, running[done])
        frame.pc[running[done]] = place + 1
        frame.pc[running[~done]] = place
        frame.status[running[~done]] = AT_MBARRIER
        return False

    # ---- deadlocks

    def _stuck(self) -> None:
        """No thread can run: reports which threads wait where."""
        frame = self.frame
        waiting = frame.status != DONE
        parted = frame.status == AT_COLLECTIVE
        first = int(np.flatnonzero(parted if parted.any() else waiting)[0])
        block = frame.block_of[first]
        lines: list[str] = []
        for place in map(int, np.unique(frame.pc[waiting & (frame.block_of == block)])):
            threads = frame.within[waiting & (frame.block_of == block) & (frame.pc == place)]
            instruction = self.code.operations[place].instruction
            lines.append(f"threads {_ranges(threads)} wait at line {instruction.line}, {instruction.text!r}")
        exited = frame.within[(frame.status == DONE) & (frame.block_of == block)]
        if len(exited):
            lines.append(f"threads {_ranges(exited)} have exited")
        kind = "not converged" if parted.any() else "deadlock"
        instruction = self.code.operations[int(frame.pc[first])].instruction
        frame.fault(kind, "nobody can go on; " + "; ".join(lines) + "; first", instruction, first)


def _ranges(numbers: Array) -> str:
    """`0-15, 20` for sorted numbers."""
    cuts = np.flatnonzero(np.diff(numbers) > 1)
    starts, ends = np.r_[0, cuts + 1], np.r_[cuts, len(numbers) - 1]
    pieces = [
        f"{numbers[a]}-{numbers[b]}" if a != b else f"{numbers[a]}" for a, b in zip(starts, ends, strict=True)
    ]
    return ", ".join(pieces[:8]) + (", ..." if len(pieces) > 8 else "")
