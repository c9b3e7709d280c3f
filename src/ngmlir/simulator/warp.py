# SPDX-License-Identifier: Apache-2.0
"""Operations between the lanes of one warp: shuffles, votes, matches and reductions.

The scheduler runs these steps only when all participating lanes have converged; `threads` are whole groups.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .decoding import Step, decodes, reader, writer
from .frame import WARP, Frame
from .program import Instruction, Operand, Pair
from .registers import Slots, Threads

Array = np.ndarray


def member_mask_operand(instruction: Instruction) -> Operand | None:
    """The operand of a `.sync` instruction that is its mask of lanes; None for `.aligned` ones: the whole warp."""
    if instruction.head in ("shfl", "vote", "match", "redux", "elect"):
        return instruction.operands[-1]
    if instruction.opcode.startswith("bar.warp.sync"):
        return instruction.operands[0]
    return None


def _table(frame: Frame, running: Array, values: Array, fill: int = 0) -> Array:
    """`values` by (warp of the batch, lane); lanes that do not run have `fill`."""
    whole = np.full(frame.blocks * frame.shape.warps * WARP, fill, values.dtype)
    whole[frame.warp_of[running] * WARP + frame.lane[running]] = values
    return whole.reshape(-1, WARP)


@decodes("shfl")
def _shuffle(slots: Slots, instruction: Instruction) -> Step:
    modifiers = instruction.modifiers
    mode = next((m for m in ("up", "down", "bfly", "idx") if m in modifiers), None)
    if mode is None or "sync" not in modifiers:
        raise slots.limit(instruction)
    result, source, by, clamp, members = instruction.operands
    value = reader(slots, instruction, source, "b32")
    distance = reader(slots, instruction, by, "s32")
    limits = reader(slots, instruction, clamp, "s32")
    mask = reader(slots, instruction, members, "u32")
    first, second = (result.first, result.second) if isinstance(result, Pair) else (result, None)
    write = writer(slots, instruction, first, "b32")
    valid = writer(slots, instruction, second, "pred") if second is not None else None

    def step(frame: Frame, threads: Threads) -> None:
        running = frame.threads(threads)
        lane = frame.lane[running]
        own = value(frame, threads)
        amount, limit = distance(frame, threads) & 31, limits(frame, threads)
        segment = (limit >> 8) & 31
        clamped = limit & 31
        lowest, highest = lane & segment, (lane & segment) | (clamped & ~segment)
        if mode == "up":
            origin = lane - amount
            inside = origin >= highest
        elif mode == "down":
            origin = lane + amount
            inside = origin <= highest
        elif mode == "bfly":
            origin = lane ^ amount
            inside = origin <= highest
        else:
            origin = lowest | (amount & ~segment)
            inside = origin <= highest
        origin = np.where(inside, origin, lane)
        row = frame.warp_of[running]
        here = _table(frame, running, np.ones(len(running), np.bool_))
        named = (mask(frame, threads).astype(np.int64) >> origin) & 1
        missing = ~here[row, origin] | (named == 0)
        if missing.any():
            thread = int(running[missing][0])
            message = f"lane {int(origin[missing][0])}, which does not take part, is read"
            frame.fault("shuffle", message, instruction, thread)
        write(frame, threads, _table(frame, running, own)[row, origin])
        if valid is not None:
            valid(frame, threads, inside)

    return step


@decodes("vote")
def _vote(slots: Slots, instruction: Instruction) -> Step:
    modifiers = instruction.modifiers
    mode = next((m for m in ("all", "any", "uni", "ballot") if m in modifiers), None)
    if mode is None or "sync" not in modifiers:
        raise slots.limit(instruction)
    vote = reader(slots, instruction, instruction.operands[1], "pred")
    write = writer(slots, instruction, instruction.operands[0], "b32" if mode == "ballot" else "pred")

    def step(frame: Frame, threads: Threads) -> None:
        running = frame.threads(threads)
        votes = vote(frame, threads)
        row = frame.warp_of[running]
        table = _table(frame, running, votes)
        if mode == "ballot":
            weights = np.uint64(1) << np.arange(WARP, dtype=np.uint64)
            write(frame, threads, (table * weights).sum(axis=1)[row].astype(np.uint32))
            return
        absent = ~_table(frame, running, np.ones(len(running), np.bool_))
        every, some = np.all(table | absent, axis=1)[row], np.any(table, axis=1)[row]
        write(frame, threads, {"all": every, "any": some, "uni": every | ~some}[mode])

    return step


@decodes("activemask")
def _activemask(slots: Slots, instruction: Instruction) -> Step:
    write = writer(slots, instruction, instruction.operands[0], "b32")

    def step(frame: Frame, threads: Threads) -> None:
        running = frame.threads(threads)
        bits = _table(
            frame, running, np.ones(len(running), np.uint64) << frame.lane[running].astype(np.uint64)
        )
        write(frame, threads, bits.sum(axis=1)[frame.warp_of[running]].astype(np.uint32))

    return step


@decodes("match")
def _match(slots: Slots, instruction: Instruction) -> Step:
    kind, everyone = instruction.type, "all" in instruction.modifiers
    result, source = instruction.operands[:2]
    value = reader(slots, instruction, source, kind)
    first, second = (result.first, result.second) if isinstance(result, Pair) else (result, None)
    write = writer(slots, instruction, first, "b32")
    agreed = writer(slots, instruction, second, "pred") if second is not None else None

    def step(frame: Frame, threads: Threads) -> None:
        running = frame.threads(threads)
        values = value(frame, threads)
        row = frame.warp_of[running]
        table = _table(frame, running, values)
        here = _table(frame, running, np.ones(len(running), np.bool_))
        same = (table[row] == values[:, None]) & here[row]
        weights = np.uint64(1) << np.arange(WARP, dtype=np.uint64)
        bits = (same * weights).sum(axis=1).astype(np.uint32)
        if everyone:
            equal = (same == here[row]).all(axis=1)
            bits = np.where(equal, bits, np.uint32(0))
            if agreed is not None:
                agreed(frame, threads, equal)
        write(frame, threads, bits)

    return step


_REDUCE: dict[str, tuple[np.ufunc, Callable[[np.dtype], int]]] = {
    "add": (np.add, lambda dtype: 0),
    "min": (np.minimum, lambda dtype: int(np.iinfo(dtype).max)),
    "max": (np.maximum, lambda dtype: int(np.iinfo(dtype).min)),
    "and": (np.bitwise_and, lambda dtype: 0xFFFFFFFF),
    "or": (np.bitwise_or, lambda dtype: 0),
    "xor": (np.bitwise_xor, lambda dtype: 0),
}


@decodes("redux")
def _redux(slots: Slots, instruction: Instruction) -> Step:
    name = next((m for m in instruction.modifiers if m in _REDUCE), None)
    kind = instruction.type
    if name is None or kind not in ("u32", "s32", "b32"):
        raise slots.limit(instruction)
    combine, neutral = _REDUCE[name]
    value = reader(slots, instruction, instruction.operands[1], kind)
    write = writer(slots, instruction, instruction.operands[0], kind)

    def step(frame: Frame, threads: Threads) -> None:
        running = frame.threads(threads)
        values = value(frame, threads)
        table = _table(frame, running, values, neutral(values.dtype))
        write(frame, threads, combine.reduce(table, axis=1, dtype=values.dtype)[frame.warp_of[running]])

    return step


@decodes("elect")
def _elect(slots: Slots, instruction: Instruction) -> Step:
    """Elects one lane of the mask: the lowest."""
    result, members = instruction.operands
    mask = reader(slots, instruction, members, "u32")
    lane, chosen = (result.first, result.second) if isinstance(result, Pair) else (None, result)
    write = writer(slots, instruction, lane, "b32") if lane is not None else None
    elected = writer(slots, instruction, chosen, "pred")

    def step(frame: Frame, threads: Threads) -> None:
        running = frame.threads(threads)
        bits = mask(frame, threads).astype(np.int64)
        lowest = np.bitwise_count((bits & -bits) - 1).astype(np.uint32)
        if write is not None:
            write(frame, threads, lowest)
        elected(frame, threads, frame.lane[running] == lowest)

    return step
