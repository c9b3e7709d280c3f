# SPDX-License-Identifier: Apache-2.0
"""How matrix products are cut on a GPU: the tile of a block of threads, how deep it reads at once, how many threads it has."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product as iterate

from ...ir.literals import item_bytes
from ...ops.schedules import Blocks, Given
from ...support.machines import COPIES_WRITTEN_OUT, MEMORY_LATENCY, WAVEFRONT_BYTES, MatrixAtom
from ...support.target import Target
from ..kernels.frame import power_of_two
from ..kernels.product import Product
from ..kernels.staging import asked_bytes, bytes_waiting, can_wait, copies
from .candidate import Candidate, fixed, fixed_pair

#: A tile whose products are single multiply-adds has so many rows and columns at most, and is read in steps of `STEP`.
BLOCK, STEP = 64, 16
#: Tiles, steps and threads that are tried where there are matrix instructions.
_TILES, _STEPS, _THREADS = (16, 32, 64, 128, 256), (16, 32, 64, 128), (64, 128, 256)
#: Rounds under way that are tried where sides wait in shared memory.
_STAGES = (1, 2, 3, 4)
#: Registers of a thread: those of addresses and loops, and all that it may take before some have no place.
_OTHER_REGISTERS, _MOST_REGISTERS = 48, 240
#: Registers of one multiprocessor, of 4 bytes; bytes of sectors in a cycle.
_REGISTERS, _SECTORS = 65536, 64
#: Cycles of a round in which all threads of a block meet, and the first operands come from shared memory.
_MEETING = 64
#: What a block takes of shared memory beside what it asks for.
_BLOCK_BYTES = 1024


def blocks(product: Product, target: Target, given: Given) -> Iterator[Candidate[Blocks]]:
    """One block of threads per tile of the result; by matrix instructions where there is one for the elements."""
    atom = target.gpu.atom(*product.multiplied, product.accumulator.text)
    if atom is not None and not any(product.implicit):
        found = list(_by_matrix(product, target, given, atom))
        if found:
            yield from found
            return
    rows = min(BLOCK, max(16, power_of_two(product.rows)))
    columns = min(BLOCK, max(16, power_of_two(product.columns)))
    tile = fixed_pair(given, "tile") or (rows, columns)
    step, threads = fixed(given, "step", STEP), fixed(given, "threads", target.threads)
    tiles = _tiles(product, tile)
    work = tile[0] * tile[1] * -(-product.depth // step) * step
    made = Blocks(tile=tile, step=step, threads=threads, stages=fixed(given, "stages", 1))
    yield Candidate(made, tiles * work / threads, _multiplications(product) / threads)


def _tiles(product: Product, tile: tuple[int, int]) -> int:
    return -(-product.rows // tile[0]) * -(-product.columns // tile[1]) * max(1, product.batch)


def _multiplications(product: Product) -> int:
    return max(1, product.batch) * product.rows * product.columns * product.depth


def _by_matrix(
    product: Product, target: Target, given: Given, atom: MatrixAtom
) -> Iterator[Candidate[Blocks]]:
    stated = fixed_pair(given, "tile")
    pairs = (
        [(r, c) for r in _sizes(product.rows) for c in _sizes(product.columns)] if not stated else [stated]
    )
    most = max(atom.depth, power_of_two(product.depth))
    steps = [step for step in _STEPS if atom.depth <= step <= most]
    for tile in pairs:
        for step in [fixed(given, "step", 0)] if "step" in given else steps:
            rounds = _STAGES if can_wait(product) else (1,)
            for threads, stages in iterate(
                [fixed(given, "threads", 0)] if "threads" in given else _THREADS,
                [fixed(given, "stages", 1)] if "stages" in given else rounds,
            ):
                made = Blocks(tile=tile, step=step, threads=threads, stages=stages)
                registers = _registers(product, made)
                free = not {"tile", "step", "threads", "stages"} <= given.keys()
                if free and (
                    registers > _MOST_REGISTERS or _shared_bytes(product, made) > target.shared_bytes
                ):
                    continue
                if free and _waits(product, made) and _copies_in_loops(product, made):
                    continue
                if free and tile[0] * tile[1] < threads * atom.rows * atom.columns // 32:
                    continue  # warps without a product of their own
                yield _timed(product, target, made, registers)


def _sizes(size: int) -> list[int]:
    """Tiles that are not twice as large as what there is."""
    return [tile for tile in _TILES if tile <= max(16, power_of_two(size))]


def _step_bytes(product: Product, made: Blocks) -> int:
    """Of both sides of a tile, in shared memory."""
    left, right = (item_bytes(e) for e in (product.lhs_element, product.rhs_element))
    return made.step * (made.tile[0] * left + made.tile[1] * right)


def _waits(product: Product, made: Blocks) -> bool:
    """Whether tiles of later rounds wait in shared memory."""
    return made.stages > 1 and can_wait(product)


def _copies_in_loops(product: Product, made: Blocks) -> bool:
    """Whether copies of a round are too many to be written out: loops take several times as long to issue them."""
    return copies(product, made.tile, made.step) > COPIES_WRITTEN_OUT * made.threads


def _shared_bytes(product: Product, made: Blocks) -> int:
    """Of one block: the tiles of all rounds under way, and the result on its way to whole rows; or one after the other."""
    rows, columns = made.tile
    if _waits(product, made):
        result = rows * columns * item_bytes(product.result)
        return made.stages * bytes_waiting(product, made.tile, made.step) + result
    return _step_bytes(product, made)


def _warp_tile(made: Blocks) -> tuple[int, int]:
    """Rows and columns of each warp, which part a tile into squares."""
    rows, columns = made.tile
    warps = made.threads // 32
    while warps > 1:
        rows, columns = (rows // 2, columns) if rows >= columns else (rows, columns // 2)
        warps //= 2
    return max(16, rows), max(8, columns)


def _registers(product: Product, made: Blocks) -> int:
    """Of one thread: sums, what it brings for the next step, and what one step of a matrix instruction reads."""
    rows, columns = _warp_tile(made)
    item = item_bytes(product.lhs_element)
    wide = all(length * item % 16 == 0 for length in product.row_lengths)
    brought = _step_bytes(product, made) // (4 if wide else item) // made.threads
    brought *= 0 if _waits(product, made) else made.stages
    return rows * columns // 32 + brought + rows // 4 + columns // 4 + _OTHER_REGISTERS


def _timed(product: Product, target: Target, made: Blocks, registers: int) -> Candidate[Blocks]:
    """Cycles of one multiprocessor: of its blocks in turn, each of which waits in every step for memory, or in several for
    what came to wait in shared memory meanwhile."""
    gpu, (rows, columns) = target.gpu, made.tile
    warp_rows, warp_columns = _warp_tile(made)
    bytes, depth = _step_bytes(product, made), made.step
    item = item_bytes(product.lhs_element)
    matrix = 2 * rows * columns * depth / max(1, gpu.matrix_flops)
    # Each warp reads its part of both sides, and what comes from memory is written once.
    reads = made.threads // 32 * (warp_rows + warp_columns) * depth * item / WAVEFRONT_BYTES
    step = max(matrix, reads + bytes / WAVEFRONT_BYTES, asked_bytes(product, made.tile, depth) / _SECTORS)
    wait = MEMORY_LATENCY * gpu.clock * 1e6
    each = -(-_tiles(product, made.tile) // target.multiprocessors)  # blocks of the busiest multiprocessor
    room = min(
        gpu.blocks,
        gpu.threads // made.threads,
        gpu.shared // (_shared_bytes(product, made) + _BLOCK_BYTES),
        _REGISTERS // (registers * made.threads),
    )
    together = max(1, min(room, each))
    steps = -(-product.depth // depth)
    ends = each * rows * columns * item_bytes(product.result) / _SECTORS
    alone = max(wait / (made.stages - 1), step + _MEETING) if made.stages > 1 else wait + step
    turns = [together] * (each // together) + [each % together] * (each % together > 0)
    begin = wait if made.stages > 1 else 0
    cycles = sum(steps * max(blocks * step, alone) + begin for blocks in turns) + ends
    roof = 2 * _multiplications(product) / max(1, gpu.matrix_flops) / target.multiprocessors
    # As few rounds as may be: in each of them all threads of a block meet.
    return Candidate(made, cycles, roof, steps)
