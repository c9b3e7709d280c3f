# SPDX-License-Identifier: Apache-2.0
"""How matrix products are cut on a GPU: the tile of a block of threads, how deep it reads at once, how many threads it has."""

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
    COPIES_WRITTEN_OUT,
    GPU_REGISTERS,
    MEMORY_LATENCY,
    PIECE_BYTES,
    THREAD_REGISTERS,
    WARP,
    MatrixAtom,
)
from ...support.target import Target
from ..analysis.product import Product
from .candidate import Candidate, fixed, fixed_pair, spilled
from .staging import asked_bytes, bytes_waiting, can_wait, copies

#: Parts of a multiprocessor, each of which begins an instruction of one of its warps in a cycle; threads of all those.
_PARTS = 4
_ISSUED = _PARTS * WARP
#: Tiles, steps and threads that are tried; of the first two those that are largest only where there are matrix instructions.
_TILES, _STEPS, _THREADS = (16, 32, 64, 128, 256), (16, 32, 64, 128), (64, 128, 256)
#: Rounds under way that are tried: more than two where sides wait in shared memory, not in registers.
_STAGES = (1, 2, 3, 4)
#: Registers of a thread: those of addresses and loops, and all that it may take before some have no place.
_OTHER_REGISTERS, _MOST_REGISTERS = 48, 240
#: The same beside what is held of each element when a kernel ends: a few elements are computed side by side.
_END_REGISTERS = 64
#: Bytes that shared memory moves at once.
_WAVEFRONT_BYTES = 128
#: Bytes of sectors that one multiprocessor is given in a cycle.
_SECTORS = 64
#: Cycles of a round in which all threads of a block meet, and the first operands come from shared memory.
_MEETING = 64
#: What a block takes of shared memory beside what it asks for.
_BLOCK_BYTES = 1024


def blocks(product: Product, target: Target, given: Given) -> Iterator[Candidate[Blocks]]:
    """One block of threads per tile of the result; by matrix instructions where there is one for the elements."""
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
    """What is given, or else all that is tried."""
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
    for made in _cuts(product, given, _TILES, steps, _STAGES if can_wait(product, target) else (1,)):
        registers = _registers(product, target, made)
        if free and (
            registers > _MOST_REGISTERS or _shared_bytes(product, target, made) > target.shared_bytes
        ):
            continue
        if free and _waits(product, target, made) and _copies_in_loops(product, made):
            continue
        if free and made.tile[0] * made.tile[1] < made.threads * atom.rows * atom.columns // 32:
            continue  # warps without a product of their own
        yield _timed(product, target, made, registers, _by_warps(product, target, made))


def _step_bytes(product: Product, made: Blocks) -> int:
    """Of both sides of a tile, in shared memory."""
    left, right = (item_bytes(e) for e in (product.lhs_element, product.rhs_element))
    return made.step * (made.tile[0] * left + made.tile[1] * right)


def _waits(product: Product, target: Target, made: Blocks) -> bool:
    """Whether tiles of later rounds wait in shared memory."""
    return made.stages > 1 and can_wait(product, target)


def _copies_in_loops(product: Product, made: Blocks) -> bool:
    """Whether copies of a round are too many to be written out: loops take several times as long to issue them."""
    return copies(product, made.tile, made.step) > COPIES_WRITTEN_OUT * made.threads


def _shared_bytes(product: Product, target: Target, made: Blocks) -> int:
    """Of one block: the tiles of all rounds under way, and the result on its way to whole rows; or one after the other."""
    rows, columns = made.tile
    if _waits(product, target, made):
        item = max(item_bytes(product.result), product.end.item if product.end else 0)
        result = rows * (columns * item + PIECE_BYTES)
        under_way = min(made.stages, -(-product.depth // made.step))  # of few rounds all
        return under_way * bytes_waiting(product, made.tile, made.step) + result
    return _step_bytes(product, made)


@cache
def _warp_tile(tile: tuple[int, int], threads: int) -> tuple[int, ...]:
    """Rows and columns of each warp where matrix instructions compute a tile."""
    return matrix_fragments(*tile, 0, threads).accumulator.part(warps=True)


def _registers(product: Product, target: Target, made: Blocks) -> int:
    """Of one thread: sums, what it brings for the next step, and what one step of a matrix instruction reads."""
    rows, columns = _warp_tile(made.tile, made.threads)
    item = item_bytes(product.lhs_element)
    wide = all(length * item % 16 == 0 for length in product.row_lengths)
    brought = _step_bytes(product, made) // (4 if wide else item) // made.threads
    brought *= 0 if _waits(product, target, made) else made.stages
    sums = rows * columns // 32
    multiplied = sums + brought + rows // 4 + columns // 4
    return max(multiplied + _OTHER_REGISTERS, sums * _words(product) + _END_REGISTERS)


def _words(product: Product) -> int:
    """Registers that an element of the result takes at the end."""
    return max(1, product.end.words) if product.end else 1


class _Feed(NamedTuple):
    """Multiply-adds of one multiprocessor in a cycle; of one step, the cycles in which its instructions begin where each of
    them multiplies one number, and the wavefronts that answer those that read."""

    rate: float
    issue: float
    reads: float


def _by_warps(product: Product, target: Target, made: Blocks) -> _Feed:
    """Of matrix instructions: each warp reads its part of both sides."""
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
    """Rows and columns of each thread where multiply-adds compute a tile."""
    return product_blocks(tile, threads).part()


def _by_threads(product: Product, target: Target, made: Blocks) -> _Feed:
    """Of multiply-adds: each thread reads for itself, 16 bytes at once."""
    read = sum(_thread_tile(made.tile, made.threads)) * max(
        map(item_bytes, (product.lhs_element, product.rhs_element))
    )
    read *= made.step * made.threads
    begun = made.tile[0] * made.tile[1] * made.step + read / PIECE_BYTES
    adds = target.gpu.multiply_adds
    rate = adds.get(product.accumulator.text.lstrip("u"), adds["i32"])
    return _Feed(rate, begun / _ISSUED, read / _WAVEFRONT_BYTES)


def _registers_of_threads(product: Product, made: Blocks) -> int:
    """Of a thread: sums, what it brings for the next step, and what it multiplies now and next."""
    rows, columns = _thread_tile(made.tile, made.threads)
    brought = _step_bytes(product, made) // 4 // made.threads * made.stages
    brought *= 1 + any(product.implicit)  # of windows also where each piece lies
    words = max(1, item_bytes(product.accumulator) // 4)
    multiplied = (rows * columns + 2 * (rows + columns)) * words + brought
    ends = rows * columns * max(words, _words(product)) + _END_REGISTERS
    return max(multiplied + _OTHER_REGISTERS, ends)


def _timed(product: Product, target: Target, made: Blocks, registers: int, feed: _Feed) -> Candidate[Blocks]:
    """Cycles of one multiprocessor: of its blocks in turn, each of which waits in every step for memory, or in several for
    what came meanwhile."""
    gpu, (rows, columns) = target.gpu, made.tile
    bytes, depth = _step_bytes(product, made), made.step
    arithmetic = max(rows * columns * depth / feed.rate, feed.issue)
    # What comes from memory is written once.
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
    # Fewer warps than parts of a multiprocessor leave some of them idle.
    round = max(step, arithmetic * max(1, _PARTS * WARP // made.threads)) + _MEETING
    alone = max(wait / (made.stages - 1), round) if made.stages > 1 else wait + round
    turns = [together] * (each // together) + [each % together] * (each % together > 0)
    begin = wait if made.stages > 1 else 0
    # Numbers that no register holds are stored and loaded again in each step.
    lost = 2 * max(0, registers - THREAD_REGISTERS) * made.threads / _ISSUED
    cycles = sum(steps * (max(blocks * step, alone) + blocks * lost) + begin for blocks in turns) + ends
    roof = _multiplications(product) / feed.rate / target.multiprocessors
    # As few rounds as may be: in each of them all threads of a block meet.
    return Candidate(
        made, cycles, roof, steps, spilled(registers, THREAD_REGISTERS, "registers in each thread")
    )
