# SPDX-License-Identifier: Apache-2.0
"""The table from opcodes to decoders, and the accessors of operands that decoders share.

A decoder analyses one instruction once and returns a step: a function of the frame and the running threads.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .frame import Frame
from .program import Address, Instruction, Operand, Register, Symbol
from .registers import Slots, Threads

Step = Callable[[Frame, Threads], None]
Decoder = Callable[[Slots, Instruction], Step]
Reader = Callable[[Frame, Threads], np.ndarray]
Writer = Callable[[Frame, Threads, np.ndarray], None]

#: The elementwise function of an instruction.
Elementwise = (
    Callable[[np.ndarray], np.ndarray]
    | Callable[[np.ndarray, np.ndarray], np.ndarray]
    | Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
    | Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
)

DECODERS: dict[str, Decoder] = {}

#: Modifiers that change the meaning of an opcode, and the opcodes with which each is supported.
_MODELLED: dict[str, frozenset[str]] = {
    "sat": frozenset({"add", "sub", "mul", "mad", "fma", "cvt"}),
    "relu": frozenset({"fma", "cvt", "min", "max"}),
    "satfinite": frozenset({"mma"}),
    "async": frozenset({"cp", "fence"}),
    "bulk": frozenset({"cp"}),
    "cc": frozenset(),
    "sp": frozenset(),
    "b128": frozenset(),
}


def decoder_of(slots: Slots, instruction: Instruction) -> Decoder:
    """The decoder of an instruction; Limit if there is none, or if it would ignore a modifier."""
    for modifier in instruction.modifiers:
        heads = _MODELLED.get(modifier.partition("::")[0])
        if heads is not None and instruction.head not in heads:
            raise slots.limit(instruction, f".{modifier} of {instruction.head} is not simulated")
    decoder = DECODERS.get(instruction.head)
    if decoder is None:
        raise slots.limit(instruction)
    return decoder


def decodes(*heads: str) -> Callable[[Decoder], Decoder]:
    """Registers a decoder for the opcodes that begin with one of `heads`."""

    def enter(decoder: Decoder) -> Decoder:
        for head in heads:
            DECODERS[head] = decoder
        return decoder

    return enter


def reader(slots: Slots, instruction: Instruction, operand: Operand, kind: str) -> Reader:
    slot = slots.read(instruction, operand, kind)
    if isinstance(operand, Register) and operand.negated:
        return lambda frame, threads: ~frame.views[slot][threads]
    return lambda frame, threads: frame.views[slot][threads]


def writer(slots: Slots, instruction: Instruction, operand: Operand, kind: str) -> Writer:
    slot = slots.write(instruction, operand, kind)
    if slot is None:
        return lambda frame, threads, value: None

    def write(frame: Frame, threads: Threads, value: np.ndarray) -> None:
        frame.views[slot][threads] = value

    return write


def address(slots: Slots, instruction: Instruction, operand: Operand) -> Reader:
    """The address `[base+offset]`, as 64-bit integers."""
    if not isinstance(operand, Address):
        raise slots.wrong(instruction, "expected an address in brackets")
    base, offset = operand.base, operand.offset
    if isinstance(base, Symbol):
        base, offset = Symbol(base.name, base.offset + offset), 0
    narrow = slots.width(base) == 4
    read = reader(slots, instruction, base, "u32" if narrow else "s64")
    if narrow:
        return lambda frame, threads: read(frame, threads).astype(np.int64) + offset
    if offset:
        return lambda frame, threads: read(frame, threads) + offset
    return read
