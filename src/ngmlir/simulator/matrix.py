# SPDX-License-Identifier: Apache-2.0
"""Matrix instructions of one warp: ldmatrix, stmatrix, movmatrix and mma.sync.

The layouts are those of the PTX manual: lane 4*r+c of a warp holds row r and neighbouring columns 2*c, 2*c+1
of an 8x8 tile of 16-bit elements (one column c of 32-bit ones).
"""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np

from .access import shared_space
from .decoding import Reader, Step, Writer, address, decodes, reader, writer
from .formats import from_bf16
from .frame import WARP, Frame
from .memory import SHARED_WINDOW
from .program import Instruction, Operand, Vector
from .registers import Slots, Threads

Array = np.ndarray

_COUNTS = {"x1": 1, "x2": 2, "x4": 4}


def _items(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


def _whole_warps(frame: Frame, threads: Threads, instruction: Instruction) -> Array:
    running = frame.threads(threads)
    if len(running) % WARP:
        frame.fault("not converged", "all 32 lanes of the warp must take part", instruction, int(running[0]))
    return running


def _row_places(
    frame: Frame, running: Array, where: Array, count: int, use: str, instruction: Instruction
) -> tuple[Array, Array]:
    """Indices of the 16-bit words of the rows to which the lanes 8*k .. 8*k+7 point, by (warp, matrix, row, column)."""
    where = np.where(where >= SHARED_WINDOW, where - SHARED_WINDOW, where).reshape(-1, WARP)[:, : 8 * count]
    owners = running.reshape(-1, WARP)[:, : 8 * count].reshape(-1)
    words, index = shared_space(frame, owners, where.reshape(-1), 2, 8, use, instruction)
    return words, index.reshape(-1, count, 8, 1) + np.arange(8)


def _form(slots: Slots, instruction: Instruction) -> tuple[int, bool]:
    modifiers = instruction.modifiers
    count = next((_COUNTS[m] for m in modifiers if m in _COUNTS), None)
    if count is None or "m8n8" not in modifiers or "b16" not in modifiers:
        raise slots.limit(instruction)
    return count, "trans" in modifiers


@decodes("ldmatrix")
def _ldmatrix(slots: Slots, instruction: Instruction) -> Step:
    count, transposed = _form(slots, instruction)
    where = address(slots, instruction, instruction.operands[1])
    writes = [writer(slots, instruction, item, "b32") for item in _items(instruction.operands[0])]

    def step(frame: Frame, threads: Threads) -> None:
        running = _whole_warps(frame, threads, instruction)
        words, index = _row_places(frame, running, where(frame, threads), count, "read", instruction)
        tiles = words[index]
        if transposed:
            tiles = tiles.swapaxes(2, 3)
        pairs = np.ascontiguousarray(tiles).view(np.uint32).reshape(-1, count, WARP)
        for number, write in enumerate(writes):
            write(frame, threads, pairs[:, number].reshape(-1))

    return step


@decodes("stmatrix")
def _stmatrix(slots: Slots, instruction: Instruction) -> Step:
    count, transposed = _form(slots, instruction)
    where = address(slots, instruction, instruction.operands[0])
    reads = [reader(slots, instruction, item, "b32") for item in _items(instruction.operands[1])]

    def step(frame: Frame, threads: Threads) -> None:
        running = _whole_warps(frame, threads, instruction)
        words, index = _row_places(frame, running, where(frame, threads), count, "write", instruction)
        pairs = np.stack([read(frame, threads).reshape(-1, WARP) for read in reads], axis=1)
        tiles = np.ascontiguousarray(pairs).view(np.uint16).reshape(-1, count, 8, 8)
        words[index] = tiles.swapaxes(2, 3) if transposed else tiles

    return step


@decodes("movmatrix")
def _movmatrix(slots: Slots, instruction: Instruction) -> Step:
    read = reader(slots, instruction, instruction.operands[1], "b32")
    write = writer(slots, instruction, instruction.operands[0], "b32")

    def step(frame: Frame, threads: Threads) -> None:
        _whole_warps(frame, threads, instruction)
        tiles = np.ascontiguousarray(read(frame, threads)).view(np.uint16).reshape(-1, 8, 8)
        write(frame, threads, np.ascontiguousarray(tiles.swapaxes(1, 2)).view(np.uint32).reshape(-1))

    return step


# ---- mma.sync

_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)$")


_EIGHT_BITS = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}


def _decode_words(words: Array, kind: str) -> Array:
    """The elements in 32-bit registers, along a new last axis."""
    if kind == "f32":
        return words.view(np.float32)[..., None]
    if kind == "tf32":  # the low 13 bits are ignored
        return (words & np.uint32(0xFFFFE000)).view(np.float32)[..., None]
    if kind in ("f16", "bf16"):
        halves = np.ascontiguousarray(words)[..., None].view(np.uint16)
        return from_bf16(halves) if kind == "bf16" else halves.view(np.float16).astype(np.float32)
    octets = np.ascontiguousarray(words)[..., None].view(np.int8 if kind == "s8" else np.uint8)
    if kind in _EIGHT_BITS:
        return octets.view(_EIGHT_BITS[kind]).astype(np.float32)
    return octets.astype(np.int32)


def _gather(frame: Frame, threads: Threads, reads: list[Reader], kind: str) -> Array:
    """Elements by (warp, register, row of 8, quad of 4, element)."""
    words = [np.broadcast_to(read(frame, threads), frame.threads(threads).shape) for read in reads]
    stacked = np.stack([word.reshape(-1, 8, 4) for word in words], axis=1)
    return _decode_words(stacked, kind)


@decodes("mma")
def _mma(slots: Slots, instruction: Instruction) -> Step:
    modifiers = instruction.modifiers
    shape = next((m for m in map(_SHAPE.match, modifiers) if m), None)
    kinds = modifiers[-4:]
    if shape is None or shape.group(1, 2) != ("16", "8"):
        raise slots.limit(instruction)
    depth = int(shape.group(3))
    _, a_kind, b_kind, c_kind = kinds
    known = ("f16", "bf16", "tf32", "s8", "u8", *_EIGHT_BITS)
    if a_kind not in known or b_kind not in known or c_kind not in ("f32", "s32", "f16"):
        raise slots.limit(instruction, f"products of {a_kind} and {b_kind} into {c_kind} are not simulated")
    accumulate = "f16" if c_kind == "f16" else "f32"
    integer = c_kind == "s32"
    d, a, b, c = (_items(operand) for operand in instruction.operands[:4])
    a_reads, b_reads, c_reads = (
        [reader(slots, instruction, item, "b32") for item in items] for items in (a, b, c)
    )
    writes = [writer(slots, instruction, item, "b32") for item in d]

    def step(frame: Frame, threads: Threads) -> None:
        running = _whole_warps(frame, threads, instruction)
        left = _left(_gather(frame, threads, a_reads, a_kind), depth)
        right = _right(_gather(frame, threads, b_reads, b_kind), depth)
        if integer:
            words = [np.broadcast_to(read(frame, threads), running.shape) for read in c_reads]
            start = _accumulator([word.view(np.int32).reshape(-1, 8, 4) for word in words])
            total = np.matmul(left.astype(np.int64), right.astype(np.int64)) + start
            if "satfinite" in modifiers:
                total = np.clip(total, -(1 << 31), (1 << 31) - 1)
            _scatter(frame, threads, writes, total.astype(np.int32).view(np.uint32))
            return
        start = _gather(frame, threads, c_reads, accumulate)
        if accumulate == "f16":
            total = np.matmul(left, right) + start.reshape(-1, 2, 8, 8).reshape(-1, 16, 8)
            _scatter_halves(frame, threads, writes, total.astype(np.float16))
            return
        start = _accumulator([start[:, number, :, :, 0] for number in range(4)])
        # The products are exact in f32 and the sum is computed in f64: the order of the sum is not specified.
        total = np.matmul(left.astype(np.float64), right.astype(np.float64)) + start
        _scatter(frame, threads, writes, total.astype(np.float32).view(np.uint32))

    return step


def _left(fragments: Array, depth: int) -> Array:
    """A, 16 x depth: registers alternate between the row halves first, then advance along the depth."""
    warps, registers, rows, quads, elements = fragments.shape
    columns = registers // 2
    tiles = fragments.reshape(warps, columns, 2, rows, quads, elements)
    return np.ascontiguousarray(tiles.transpose(0, 2, 3, 1, 4, 5)).reshape(warps, 16, depth)


def _right(fragments: Array, depth: int) -> Array:
    """B, depth x 8: the lane's row is the column."""
    warps, _, rows, _, _ = fragments.shape
    return np.ascontiguousarray(fragments.transpose(0, 1, 3, 4, 2)).reshape(warps, depth, rows)


def _accumulator(parts: list[Array]) -> Array:
    """C, 16 x 8, from four registers: two neighbouring columns of row r, then of row r + 8."""
    warps = len(parts[0])
    stacked = np.stack(parts, axis=-1).reshape(warps, 8, 4, 2, 2)
    return np.ascontiguousarray(stacked.transpose(0, 3, 1, 2, 4)).reshape(warps, 16, 8)


def _scatter(frame: Frame, threads: Threads, writes: list[Writer], total: Array) -> None:
    parts = total.reshape(-1, 2, 8, 4, 2).transpose(0, 2, 3, 1, 4).reshape(-1, 4)
    for number, write in enumerate(writes):
        write(frame, threads, parts[:, number])


def _scatter_halves(frame: Frame, threads: Threads, writes: list[Writer], total: Array) -> None:
    pairs = np.ascontiguousarray(total).view(np.uint32).reshape(-1, 2, WARP)
    for number, write in enumerate(writes):
        write(frame, threads, pairs[:, number].reshape(-1))
