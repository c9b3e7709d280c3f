# SPDX-License-Identifier: Apache-2.0
"""How the loops of a kernel are divided among its programs."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod

from ...support.lengths import may_be_several, power_of_two, usual
from ...support.machines import MEETING_BLOCKS, SECTOR_BYTES
from ...support.target import Target

#: Blocks of one multiprocessor that loops over tiles assume, and the most iterations of such a loop in flight.
RESIDENT, _MOST_IN_FLIGHT = 4, 4


def stages_for(target: Target, bytes: int, blocks: int) -> int:
    """Iterations of a loop that are in flight at once on a GPU, so that memory is kept busy: each block loads so many bytes in an
    iteration, and then waits. If there are several, one more is added: the one that is waited for."""
    together = min(RESIDENT, max(1, blocks // target.multiprocessors))
    rounds = min(_MOST_IN_FLIGHT, ceil(target.gpu.bytes_in_flight / (max(1, bytes) * together)))
    return rounds + 1 if rounds > 1 else 1


#: The most elements of a row that one thread of a block computes alone.
_ROW_ELEMENTS = 128


def row_per_thread(target: Target, columns: int, lines: Sequence[int], rows: int, near: int) -> bool:
    """Whether each thread of a block has a short row of its own: there are many, `near` of them adjacent, and few of those
    in memory (`lines`: bytes of each) begin at a sector."""
    return (
        1 < columns <= _ROW_ELEMENTS
        and any(line % SECTOR_BYTES for line in lines)
        and target.threads * sum(lines) <= target.shared_bytes // 2
        and near >= target.threads
        and rows
        >= target.threads * target.multiprocessors * (1 if min(lines) >= 4 * columns else MEETING_BLOCKS)
    )


#: Elements of one program of a reduction on a CPU: enough for another thread to pay off.
PROGRAM_ELEMENTS = 1 << 15


def flat_width(target: Target, size: int, item: int) -> int:
    """Elements of a tile of a collapsed loop of `size`. With little data, each thread takes one element, so that all multiprocessors
    have blocks."""
    several = power_of_two(size // max(1, 2 * target.multiprocessors))
    return max(target.threads, min(several, tile_width(target, item)))


def part_of(sizes: Sequence[int], width: int) -> int:
    """Steps of the outermost loop in one program on a CPU; tiles, if it is the only loop."""
    if len(sizes) <= 1:
        return PROGRAM_TILES
    sizes = usual(tuple(sizes))
    return max(1, min(sizes[0], PROGRAM_TILES * width // max(1, prod(sizes[1:]))))


def steps_of(part: int, sizes: Sequence[int], width: int) -> int:
    """Steps of the outermost loop in one program, given `part`, which counts tiles if that loop is the only one."""
    return part * width if len(sizes) == 1 else part


def tile_steps(sizes: Sequence[int], width: int, rows: int) -> list[int]:
    """Steps of each loop in a tile, with `width` of the last one and `rows` of the two around it, the inner one first."""
    steps = [1] * len(sizes)
    steps[-1] = min(width, power_of_two(sizes[-1]))
    for loop in range(len(sizes) - 2, max(-1, len(sizes) - 4), -1):
        steps[loop] = min(rows, power_of_two(sizes[loop]))
        rows //= steps[loop]
    return steps


def grid_for(target: Target, sizes: Sequence[int], width: int, part: int, rows: int = 1) -> tuple[int, ...]:
    """The grid of programs for some loops: one for each `part` steps of the outermost loop (in tiles, if it is the only
    one), or for each tile if that is 0 (`tile_steps`)."""
    if not sizes:
        programs = 1
    elif part == 0:
        steps = tile_steps(sizes, width, rows)
        programs = prod(-(-size // step) for size, step in zip(sizes, steps, strict=True))
    else:
        programs = -(-sizes[0] // steps_of(part, sizes, width))
    return (programs,) if may_be_several(programs) or target.has_thread_blocks else ()


#: The same for other kernels, in tiles: these have more elements the narrower and the cheaper the elements are, so
#: that a program takes some 10 us.
PROGRAM_TILES = 1 << 10


def tile_width(target: Target, item: int) -> int:
    """Elements of `item` bytes in one tile: 16 bytes for each thread, or a few registers."""
    return target.threads * max(1, 16 // item) if target.has_thread_blocks else 4 * target.lanes(item)
