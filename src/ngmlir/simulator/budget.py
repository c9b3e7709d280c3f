# SPDX-License-Identifier: Apache-2.0
"""setmaxnreg: the registers of a block, which warpgroups release and acquire.

The block starts with the maximum for each thread, as ptxas allocates it: `.maxnreg`, else an equal share of the
register file. A warpgroup that requests more waits until others have released enough, as on the device; if they never
do, that is a deadlock.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..support.machines import GPU_REGISTERS, THREAD_REGISTERS
from .decoding import Step, decodes
from .frame import AT_MBARRIER, READY, WARP, Frame
from .program import Instruction, Integer
from .registers import Slots, Threads

Array = np.ndarray

GROUP = 4 * WARP
#: The most registers of one thread.
MOST = THREAD_REGISTERS
_STEP = 8


def at_launch(threads: int, directives: dict[str, tuple[int, ...]]) -> int:
    """Registers of each thread when a block of `threads` starts."""
    if "maxnreg" in directives:
        return directives["maxnreg"][0]
    blocks = directives.get("minnctapersm", (1,))[0]
    return min(MOST + 1, GPU_REGISTERS // (threads * blocks) // _STEP * _STEP)


def _wanted(slots: Slots, instruction: Instruction) -> int:
    (operand,) = instruction.operands
    if not isinstance(operand, Integer) or operand.value % _STEP or not 24 <= operand.value <= MOST + 1:
        raise slots.wrong(instruction, "a number of registers is a multiple of 8 from 24 to 256")
    return operand.value


def decode_ready(slots: Slots, instruction: Instruction) -> Callable[[Frame, Threads], Array]:
    """For which threads' warpgroups there are enough registers."""
    wanted = _wanted(slots, instruction)
    grows = "inc" in instruction.modifiers

    def ready(frame: Frame, threads: Threads) -> Array:
        running = frame.threads(threads)
        free = frame.free_registers.copy()
        leaders = running[::GROUP]
        answers = np.zeros(len(leaders), np.bool_)
        for index, leader in enumerate(leaders.tolist()):
            need = GROUP * (wanted - int(frame.held_registers[frame.warp_of[leader]]))
            block = frame.block_of[leader]
            if need <= free[block] or not grows:
                answers[index] = True
                free[block] -= need
        return np.repeat(answers, GROUP)[: len(running)]

    return ready


@decodes("setmaxnreg")
def _setmaxnreg(slots: Slots, instruction: Instruction) -> Step:
    wanted = _wanted(slots, instruction)
    grows = "inc" in instruction.modifiers

    def step(frame: Frame, threads: Threads) -> None:
        running = frame.threads(threads)
        if frame.shape.block_threads % GROUP:
            message = "a block must be whole groups of 128 threads"
            frame.fault("not converged", message, instruction, int(running[0]))
        for leader in running[::GROUP].tolist():
            first = int(frame.warp_of[leader])
            held = int(frame.held_registers[first])
            if grows and wanted < held:
                continue  # the assembler may have allocated fewer at the start
            if not grows and wanted > held:
                message = f"the threads hold {held} registers, and give none back"
                frame.fault("registers", message, instruction, leader)
            frame.free_registers[frame.block_of[leader]] -= GROUP * (wanted - held)
            frame.held_registers[first : first + 4] = wanted
        frame.status[frame.status == AT_MBARRIER] = READY

    return step
