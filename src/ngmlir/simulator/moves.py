# SPDX-License-Identifier: Apache-2.0
"""mov: between registers, and between one wide register and several narrow ones."""

from __future__ import annotations

import numpy as np

from .decoding import Step, decodes, reader, writer
from .formats import STORAGE
from .frame import Frame
from .program import Instruction, Vector
from .registers import Slots, Threads


@decodes("mov")
def _mov(slots: Slots, instruction: Instruction) -> Step:
    result, source = instruction.operands
    kind = instruction.type
    if isinstance(source, Vector):
        return _pack(slots, instruction, source)
    if isinstance(result, Vector):
        return _unpack(slots, instruction, result)
    if kind != "pred":
        kind = f"b{8 * STORAGE[kind][0].itemsize}"
    read = reader(slots, instruction, source, kind)
    write = writer(slots, instruction, result, kind)
    return lambda frame, threads: write(frame, threads, read(frame, threads))


def _pack(slots: Slots, instruction: Instruction, source: Vector) -> Step:
    """{low, ..., high} -> one wider register."""
    size = STORAGE[instruction.type][0].itemsize // len(source.items)
    part = f"b{8 * size}"
    whole = f"b{8 * size * len(source.items)}"
    reads = [reader(slots, instruction, item, part) for item in source.items]
    write = writer(slots, instruction, instruction.operands[0], whole)
    dtype = STORAGE[whole][0]

    def step(frame: Frame, threads: Threads) -> None:
        parts = np.stack([read(frame, threads) for read in reads], axis=-1)
        write(frame, threads, parts.view(dtype).reshape(-1))

    return step


def _unpack(slots: Slots, instruction: Instruction, result: Vector) -> Step:
    size = STORAGE[instruction.type][0].itemsize // len(result.items)
    part = f"b{8 * size}"
    read = reader(slots, instruction, instruction.operands[1], f"b{8 * size * len(result.items)}")
    writes = [writer(slots, instruction, item, part) for item in result.items]
    dtype, count = STORAGE[part][0], len(result.items)

    def step(frame: Frame, threads: Threads) -> None:
        parts = np.ascontiguousarray(read(frame, threads)).view(dtype).reshape(-1, count)
        for index, write in enumerate(writes):
            write(frame, threads, parts[:, index])

    return step
