# SPDX-License-Identifier: Apache-2.0
"""The registers that an instruction reads, and those that it writes."""

from __future__ import annotations

from .program import Address, Instruction, Integer, Operand, Pair, Register, Vector

#: Instructions whose first operand is not a result.
_NO_RESULT = frozenset({"st", "red", "stmatrix", "cp", "bra", "brx", "setmaxnreg", "prefetch", "prefetchu", "applypriority"})  # fmt: skip


def names(operand: Operand, into: list[str]) -> None:
    """Appends the registers of an operand."""
    if isinstance(operand, Register):
        into.append(operand.name)
    elif isinstance(operand, Address):
        if isinstance(operand.base, Register):
            into.append(operand.base.name)
        for coordinate in operand.coordinates:
            names(coordinate, into)
    elif isinstance(operand, Vector):
        for item in operand.items:
            names(item, into)
    elif isinstance(operand, Pair):
        names(operand.first, into)
        names(operand.second, into)


def reads_and_writes(instruction: Instruction) -> tuple[list[str], list[str]]:
    """The registers that an instruction reads, including its guard, and those that it writes."""
    reads: list[str] = []
    writes: list[str] = []
    operands = instruction.operands
    head = instruction.head
    if operands and head not in _NO_RESULT and not isinstance(operands[0], Address):
        barrier = head in ("bar", "barrier") and "red" not in instruction.modifiers
        if head == "wgmma":
            names(operands[0], writes)
            if len(operands) > 3 and isinstance(operands[3], Integer) and operands[3].value:
                names(operands[0], reads)  # accumulates into its result
        else:
            names(operands[0], reads if barrier else writes)
        operands = operands[1:]
    for operand in operands:
        names(operand, reads)
    if instruction.guard is not None:
        reads.append(instruction.guard.name)
    return reads, writes
