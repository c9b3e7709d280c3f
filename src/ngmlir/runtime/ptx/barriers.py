# SPDX-License-Identifier: Apache-2.0
"""Barriers of a block (bar, barrier) and mbarriers: arrival, waiting and release."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .decoding import Step, address, decodes, reader, writer
from .frame import AT_BARRIER, AT_MBARRIER, DONE, READY, WARP, Frame
from .program import Instruction, Sink
from .registers import Slots, Threads

Array = np.ndarray


# ---- barriers of a block


def barrier_kind(instruction: Instruction) -> str | None:
    """"sync", "arrive" or "red" of the block's barriers; None for other instructions, `bar.warp.sync` included."""
    if instruction.head not in ("bar", "barrier") or "warp" in instruction.modifiers:
        return None
    return next((m for m in instruction.modifiers if m in ("sync", "arrive", "red")), None)


@decodes("bar", "barrier")
def _barrier(slots: Slots, instruction: Instruction) -> Step:
    kind = barrier_kind(instruction)
    if instruction.opcode.startswith("bar.warp.sync"):
        return lambda frame, threads: None
    if kind is None:
        raise slots.limit(instruction)
    operands = list(instruction.operands)
    result = operands.pop(0) if kind == "red" else None
    vote_operand = operands.pop() if kind == "red" else None
    number = reader(slots, instruction, operands[0], "u32")
    count = reader(slots, instruction, operands[1], "u32") if len(operands) > 1 else None
    finish = None
    if result is not None and vote_operand is not None:
        operation = next(m for m in instruction.modifiers if m in ("popc", "and", "or"))
        vote = reader(slots, instruction, vote_operand, "pred")
        write = writer(slots, instruction, result, "b32" if operation == "popc" else "pred")

        def finish(frame: Frame, members: Array) -> None:
            votes = vote(frame, members)
            if operation == "popc":
                write(frame, members, np.uint32(votes.sum()))
            else:
                write(frame, members, votes.all() if operation == "and" else votes.any())

    def step(frame: Frame, threads: Threads) -> None:
        running = frame.threads(threads)
        numbers = np.broadcast_to(number(frame, threads), running.shape)
        counts = np.zeros(running.shape, np.int64) if count is None else count(frame, threads).astype(np.int64)
        if (numbers > 15).any():
            frame.fault("barrier", "a block has barriers 0 to 15", instruction, int(running[numbers > 15][0]))
        bad = counts % WARP != 0
        if bad.any():
            message = f"the thread count {int(counts[bad][0])} is not a multiple of the warp size"
            frame.fault("barrier", message, instruction, int(running[bad][0]))
        _arrive(frame, running, numbers.astype(np.int64), counts, kind != "arrive", instruction)

    if finish is not None:
        _FINISH[instruction] = finish
    return step


#: What a `bar.red` does for the threads that it releases.
_FINISH: dict[Instruction, Callable[[Frame, Array], None]] = {}


def _arrive(
    frame: Frame, running: Array, numbers: Array, counts: Array, waits: bool, instruction: Instruction
) -> None:
    blocks = frame.block_of[running]
    expected = frame.expected[blocks, numbers]
    mismatch = (expected >= 0) & (expected != counts)
    if not mismatch.any():
        frame.expected[blocks, numbers] = counts
        mismatch = frame.expected[blocks, numbers] != counts
    if mismatch.any():
        first = int(np.flatnonzero(mismatch)[0])
        message = (
            f"barrier {int(numbers[first])} is used with {_people(int(counts[first]))} and, before it was "
            f"complete, with {_people(int(frame.expected[blocks[first], numbers[first]]))}"
        )
        frame.fault("barrier", message, instruction, int(running[first]))
    np.add.at(frame.arrived, (blocks, numbers), 1)
    if waits:
        frame.status[running] = AT_BARRIER
        frame.barrier[running] = numbers
        frame.barrier_line[running] = instruction.line
    frame.arrivals.append((running, numbers, instruction))
    release(frame)


def _people(count: int) -> str:
    return f"{count} threads" if count else "all threads"


def release(frame: Frame) -> None:
    """Lets the threads of each complete barrier go on."""
    exited = np.bincount(frame.block_of[frame.status == DONE], minlength=frame.blocks)
    needed = np.where(frame.expected == 0, frame.shape.block_threads - exited[:, None], frame.expected)
    open_ = frame.expected >= 0
    complete = open_ & (frame.arrived >= needed)
    if not complete.any():
        return
    raise NotImplementedError
