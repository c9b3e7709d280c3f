# SPDX-License-Identifier: Apache-2.0
"""The numbered barriers of a block (bar, barrier): arrivals, waiting threads, and their release."""

from __future__ import annotations

import numpy as np

from .decoding import Step, decodes, reader, writer
from .frame import AT_BARRIER, READY, WARP, Barrier, Finish, Frame
from .program import Instruction
from .registers import Slots, Threads

Array = np.ndarray


def is_block_barrier(instruction: Instruction) -> bool:
    return instruction.head in ("bar", "barrier") and "warp" not in instruction.modifiers


@decodes("bar", "barrier")
def _barrier(slots: Slots, instruction: Instruction) -> Step:
    if not is_block_barrier(instruction):
        return _lanes_have_met
    kind = next((m for m in instruction.modifiers if m in ("sync", "arrive", "red")), None)
    if "cluster" in instruction.modifiers:
        raise slots.limit(instruction, "clusters of blocks are not simulated")
    if kind is None:
        raise slots.limit(instruction)
    operands = list(instruction.operands)
    finish = None
    if kind == "red":
        finish = _reduction(slots, instruction)
        operands = operands[1:-1]
    number = reader(slots, instruction, operands[0], "u32")
    count = reader(slots, instruction, operands[1], "u32") if len(operands) > 1 else None

    def step(frame: Frame, threads: Threads) -> None:
        running = frame.threads(threads)
        numbers = number(frame, threads)
        if (numbers > 15).any():
            frame.fault("barrier", "a block has barriers 0 to 15", instruction, int(running[numbers > 15][0]))
        counts = np.zeros(len(running), np.uint32) if count is None else count(frame, threads)
        if threads is ... and frame.alive == frame.count and not frame.barriers and not counts.any():
            _everyone(frame, finish)
            return
        keys = (frame.block_of[running] * 16 + numbers).astype(np.int64)
        if kind != "arrive":
            frame.status[running] = AT_BARRIER
        for key in np.unique(keys):
            chosen = keys == key
            required = np.unique(counts[chosen])
            members = running[chosen]
            if len(required) > 1 or required[0] % WARP:
                message = f"thread counts {required.tolist()}: one multiple of the warp size is needed"
                frame.fault("barrier", message, instruction, int(members[0]))
            _arrive(frame, int(key), int(required[0]), members, kind != "arrive", finish, instruction)

    return step


def _lanes_have_met(frame: Frame, threads: Threads) -> None:
    """bar.warp.sync: the scheduler has already converged the lanes."""
    if frame.shadow is not None:
        frame.shadow.join_lanes(frame.threads(threads))


def _everyone(frame: Frame, finish: Finish | None) -> None:
    """All threads of all blocks arrive at once: none has to wait."""
    frame.pass_barrier(np.arange(frame.blocks))
    if finish is not None:
        for members in frame.thread.reshape(frame.blocks, -1):
            finish(frame, members)


def _reduction(slots: Slots, instruction: Instruction) -> Finish:
    operation = next((m for m in instruction.modifiers if m in ("popc", "and", "or")), None)
    if operation is None:
        raise slots.limit(instruction)
    vote = reader(slots, instruction, instruction.operands[-1], "pred")
    write = writer(slots, instruction, instruction.operands[0], "b32" if operation == "popc" else "pred")

    def finish(frame: Frame, members: Array) -> None:
        votes = vote(frame, members)
        outcome = {"popc": np.sum, "and": np.all, "or": np.any}[operation](votes)
        write(frame, members, np.asarray(outcome))

    return finish


def _arrive(
    frame: Frame,
    key: int,
    count: int,
    members: Array,
    waits: bool,
    finish: Finish | None,
    instruction: Instruction,
) -> None:
    barrier = frame.barriers.setdefault(key, Barrier(count))
    if barrier.count != count:
        message = (
            f"barrier {key % 16} is used with {_people(count)} while {_people(barrier.count)} are awaited"
        )
        frame.fault("barrier", message, instruction, int(members[0]))
    barrier.arrived += len(members)
    barrier.members.append(members)
    if waits:
        barrier.waiting.append((members, finish))
    if count and barrier.arrived > count:
        message = f"{barrier.arrived} threads arrive at barrier {key % 16}, which awaits {count}"
        frame.fault("barrier", message, instruction, int(members[0]))
    _release(frame, key, barrier)


def _people(count: int) -> str:
    return f"{count} threads" if count else "all threads of the block"


def _release(frame: Frame, key: int, barrier: Barrier) -> None:
    """Releases the waiting threads if all have arrived; threads that have exited are not expected."""
    block = key // 16
    if barrier.arrived < (barrier.count or int(frame.alive_in_block[block])):
        return
    del frame.barriers[key]
    members = np.concatenate(barrier.members)
    waiting = [threads for threads, _ in barrier.waiting]
    if waiting:
        everyone = np.sort(np.concatenate(waiting))
        for finish in {finish for _, finish in barrier.waiting if finish is not None}:
            finish(frame, everyone)
        frame.status[everyone] = READY
        frame.pc[everyone] += 1
    if not barrier.count:
        frame.pass_barrier(np.array([block]))
    elif frame.shadow is not None:
        frame.shadow.join(np.unique(frame.warp_of[members]))


def release_after_exit(frame: Frame, blocks: Array) -> None:
    """Completes barriers that were waiting only for threads that have just exited."""
    for key, barrier in list(frame.barriers.items()):
        if key // 16 in blocks:
            _release(frame, key, barrier)
