# SPDX-License-Identifier: Apache-2.0
"""Schedules of matrix products on a GPU: the tile of a thread block, the depth of a step, and the number of threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product as iterate
from typing import NamedTuple

from ...ir.literals import item_bytes
from ...ops.layouts import matrix_fragments, product_blocks
from ...ops.schedules import Blocks
from ...ops.settings import Given
from ...support.lengths import power_of_two
from ...support.machines import (
    CHUNK_BYTES,
    COPIES_WRITTEN_OUT,
    GPU_REGISTERS,
    MEMORY_LATENCY,
    THREAD_REGISTERS,
    WARP,
    MatrixAtom,
)
from ...support.target import Target
from ..analysis.product import Product
from .candidate import Candidate, fixed, fixed_pair, spilled
from .staging import asked_bytes, can_stage, copies, stage_bytes

#: Partitions of a multiprocessor, each of which issues an instruction of one of its warps per cycle; threads that issue per cycle.
_PARTS = 4
_ISSUED = _PARTS * WARP
#: Tiles, steps and threads that are tried; the largest tiles and steps only if there are matrix instructions.
_TILES, _STEPS, _THREADS = (16, 32, 64, 128, 256), (16, 32, 64, 128), (64, 128, 256)
#: Numbers of stages that are tried: more than two only if tiles wait in shared memory, not in registers.
_STAGES = (1, 2, 3, 4)
#: Registers of a thread for addresses and loops, and the most that it may need before some are spilled.
_OTHER_REGISTERS, _MOST_REGISTERS = 48, 240
#: The same in the epilogue, in addition to those of each element: a few elements are computed at once.
_END_REGISTERS = 64
#: Bytes that shared memory transfers at once.
_WAVEFRONT_BYTES = 128
#: Bytes of sectors that one multiprocessor receives per cycle.
_SECTORS = 64
#: Cycles of an iteration for the barrier of all threads of a block, and for the first operands from shared memory.
_MEETING = 64
#: Shared memory that a block takes in addition to what it requests.
_BLOCK_BYTES = 1024


def blocks(product: Product, target: Target, given: Given) -> Iterator[Candidate[Blocks]]:
    """One thread block per tile of the result; with matrix instructions if there is one for the elements."""
    atom = product.atom(target)
    if atom is not None and not any(product.implicit):
        found = list(_by_matrix(product, target, given, atom))
        if found:
            yield from found
            return
    stages = _STAGES[:2] if atom is None and not any(product.implicit) else (1,)
    cuts = list(_cuts(product, given, _TILES[:4], _STEPS[:2], stages))
    for made in [c for c in cuts if _registers_of_threads(product, c) <= _MOST_REGISTERS] or cuts:
        yield _timed(
            product, target, made, _registers_of_threads(product, made), _by_threads(product, target, made)
        )


def _cuts(
    product: Product, given: Given, tiles: Sequence[int], steps: Sequence[int], stages: Sequence[int]
) -> Iterator[Blocks]:
    """All combinations of what is tried, where no setting is given."""
    stated = fixed_pair(given, "tile")
    sizes = [
        [n for n in tiles if n <= max(16, power_of_two(size))] for size in (product.rows, product.columns)
    ]
    for tile in iterate(*sizes) if not stated else [stated]:
        for step, threads, under_way in iterate(
            [fixed(given, "step", 0)] if "step" in given else steps,
            [fixed(given, "threads", 0)] if "threads" in given else _THREADS,
            [fixed(given, "stages", 1)] if "stages" in given else stages,
        ):
            yield Blocks(tile=(tile[0], tile[1]), step=step, threads=threads, stages=under_way)


def _all_given(given: Given) -> bool:
    return {"tile", "step", "threads", "stages"} <= given.keys()


def _tiles(product: Product, tile: tuple[int, int]) -> int:
    return -(-product.rows // tile[0]) * -(-product.columns // tile[1]) * max(1, product.batch)


def _multiplications(product: Product) -> int:
    return max(1, product.batch) * product.rows * product.columns * product.depth


def _by_matrix(
    product: Product, target: Target, given: Given, atom: MatrixAtom
) -> Iterator[Candidate[Blocks]]:
    most = max(atom.depth, power_of_two(product.depth))
    steps = [step for step in _STEPS if atom.depth <= step <= most]
    free = not _all_given(given)
    for made in _cuts(product, given, _TILES, steps, _STAGES if can_stage(product, target) else (1,)):
        registers = _registers(product, target, made)
        if free and (
            registers > _MOST_REGISTERS or _shared_bytes(product, target, made) > target.shared_bytes
        ):
            continue
        if free and _waits(product, target, made) and _copies_in_loops(product, made):
            continue
        if free and made.tile[0] * made.tile[1] < made.threads * atom.rows * atom.columns // 32:
            continue  # some warps would have no fragment
        yield _timed(product, target, made, registers, _by_warps(product, target, made))


def _step_bytes(product: Product, made: Blocks) -> int:
    """Bytes of one step of both sides of a tile, in shared memory."""
    left, right = (item_bytes(e) for e in (product.lhs_element, product.rhs_element))
    return made.step * (made.tile[0] * left + made.tile[1] * right)


def _waits(product: Product, target: Target, made: Blocks) -> bool:
    """Whether tiles of later iterations are loaded into shared memory."""
    return made.stages > 1 and can_stage(product, target)


def _copies_in_loops(product: Product, made: Blocks) -> bool:
    """Whether an iteration has too many copies to be unrolled: loops take several times as long to issue them."""
    return copies(product, made.tile, made.step) > COPIES_WRITTEN_OUT * made.threads


def _shared_bytes(product: Product, target: Target, made: Blocks) -> int:
    """Shared memory of one block: the tiles of all iterations in flight, and the result before it is stored in whole rows; otherwise the
    tiles of one step."""
    rows, columns = made.tile
    if _waits(product, target, made):
        item = max(item_bytes(product.result), product.end.item if product.end else 0)
        result = rows * (columns * item + CHUNK_BYTES)
        under_way = min(made.stages, -(-product.depth // made.step))  # with few iterations all of them
        return under_way * stage_bytes(product, made.tile, made.step) + result
    return _step_bytes(product, made)


@cache
def _warp_tile(tile: tuple[int, int], threads: int) -> tuple[int, ...]:
    """Rows and columns of each warp if matrix instructions compute a tile."""
    return matrix_fragments(*tile, 0, threads).accumulator.part(warps=True)


def _registers(product: Product, target: Target, made: Blocks) -> int:
    """Registers of one thread: accumulators, elements loaded for the next steps, and operands of one step of a matrix instruction."""
    rows, columns = _warp_tile(made.tile, made.threads)
    item = item_bytes(product.lhs_element)
    wide = all(length * item % 16 == 0 for length in product.row_lengths)
    brought = _step_bytes(product, made) // (4 if wide else item) // made.threads
    brought *= 0 if _waits(product, target, made) else made.stages
    sums = rows * columns // 32
    multiplied = sums + brought + rows // 4 + columns // 4
    return max(multiplied + _OTHER_REGISTERS, sums * _words(product) + _END_REGISTERS)


def _words(product: Product) -> int:
    """Registers per element of the result in the epilogue."""
    return max(1, product.end.words) if product.end else 1


class _Feed(NamedTuple):
    """Multiply-adds of one multiprocessor per cycle; for one step, the cycles to issue its instructions if each of them multiplies
    one number, and the wavefronts of its reads from shared memory."""

    rate: float
    issue: float
    reads: float


def _by_warps(product: Product, target: Target, made: Blocks) -> _Feed:
    """With matrix instructions: each warp reads its part of both sides."""
    read = (
        made.threads
        // WARP
        * sum(_warp_tile(made.tile, made.threads))
        * made.step
        * item_bytes(product.lhs_element)
    )
    return _Feed(max(1, target.gpu.matrix_flops) / 2, 0, read / _WAVEFRONT_BYTES)


@cache
def _thread_tile(tile: tuple[int, int], threads: int) -> tuple[int, ...]:
    """Rows and columns of each thread if multiply-adds compute a tile."""
    return product_blocks(tile, threads).part()


def _by_threads(product: Product, target: Target, made: Blocks) -> _Feed:
    """With multiply-adds: each thread reads its own operands, 16 bytes at once."""
    read = sum(_thread_tile(made.tile, made.threads)) * max(
        map(item_bytes, (product.lhs_element, product.rhs_element))
    )
    read *= made.step * made.threads
    begun = made.tile[0] * made.tile[1] * made.step + read / CHUNK_BYTES
    adds = target.gpu.multiply_adds
    rate = adds.get(product.accumulator.text.lstrip("u"), adds["i32"])
    return _Feed(rate, begun / _ISSUED, read / _WAVEFRONT_BYTES)


def _registers_of_threads(product: Product, made: Blocks) -> int:
    """Registers of one thread: accumulators, elements loaded for the next steps, and operands of this step and the next one."""
    rows, columns = _thread_tile(made.tile, made.threads)
    brought = _step_bytes(product, made) // 4 // made.threads * made.stages
    brought *= 1 + any(product.implicit)  # for windows also the indices of each chunk
    words = max(1, item_bytes(product.accumulator) // 4)
    multiplied = (rows * columns + 2 * (rows + columns)) * words + brought
    ends = rows * columns * max(words, _words(product)) + _END_REGISTERS
    return max(multiplied + _OTHER_REGISTERS, ends)


def _timed(product: Product, target: Target, made: Blocks, registers: int, feed: _Feed) -> Candidate[Blocks]:
    """Predicted cycles, as those of one multiprocessor, whose blocks run in turns. Each block waits for memory in every step; with
    several stages, the latency is divided among them."""
    gpu, (rows, columns) = target.gpu, made.tile
    bytes, depth = _step_bytes(product, made), made.step
    arithmetic = max(rows * columns * depth / feed.rate, feed.issue)
    # What is loaded from memory is written once to shared memory.
    asked = asked_bytes(product, made.tile, depth)
    step = max(arithmetic, feed.reads + bytes / _WAVEFRONT_BYTES, asked / _SECTORS)
    wait = MEMORY_LATENCY * gpu.clock * 1e6
    each = -(-_tiles(product, made.tile) // target.multiprocessors)  # blocks of the busiest multiprocessor
    room = min(
        gpu.blocks,
        gpu.threads // made.threads,
        gpu.shared // (_shared_bytes(product, target, made) + _BLOCK_BYTES),
        GPU_REGISTERS // (registers * made.threads),
    )
    together = max(1, min(room, each))
    steps = -(-product.depth // depth)
    ends = each * rows * columns * item_bytes(product.result) / _SECTORS
    # Fewer warps than partitions leave some of these idle.
    round = max(step, arithmetic * max(1, _PARTS * WARP // made.threads)) + _MEETING
    alone = max(wait / (made.stages - 1), round) if made.stages > 1 else wait + round
    turns = [together] * (each // together) + [each % together] * (each % together > 0)
    begin = wait if made.stages > 1 else 0
    # Spilled values are stored and loaded again in each step.
    lost = 2 * max(0, registers - THREAD_REGISTERS) * made.threads / _ISSUED
    cycles = sum(steps * (max(blocks * step, alone) + blocks * lost) + begin for blocks in turns) + ends
    roof = _multiplications(product) / feed.rate / target.multiprocessors
    # As few iterations as possible: each has a barrier of all threads of a block.
    return Candidate(
        made, cycles, roof, steps, spilled(registers, THREAD_REGISTERS, "registers in each thread")
    )
