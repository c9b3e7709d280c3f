# SPDX-License-Identifier: Apache-2.0
"""How the loops of a kernel are divided among its programs."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod

from ...support.lengths import may_be_several, power_of_two, usual
from ...support.machines import MEETING_BLOCKS, SECTOR_BYTES
from ...support.target import Target

#: Blocks of one multiprocessor that loops over tiles count on, and rounds of such a loop that are under way at most.
RESIDENT, _MOST_UNDER_WAY = 4, 4


def stages_for(target: Target, bytes: int, blocks: int) -> int:
    """Rounds of a loop that are under way at once on a GPU, so that memory is kept busy: so many blocks load so many bytes in
    each round, and then wait. If several are, one of them is what they wait for."""
    together = min(RESIDENT, max(1, blocks // target.multiprocessors))
    rounds = min(_MOST_UNDER_WAY, ceil(target.gpu.bytes_under_way / (max(1, bytes) * together)))
    return rounds + 1 if rounds > 1 else 1


#: Elements of a row that one thread of a block has for itself, at most.
_ROW_ELEMENTS = 128


def a_row_each(target: Target, columns: int, lines: Sequence[int], rows: int, near: int) -> bool:
    """Whether each thread of a block has a short row of its own: there are many, `near` of them in a line, and few of those
    that lie in memory (`lines`, in bytes) begin where a sector does."""
    return (
        1 < columns <= _ROW_ELEMENTS
        and any(line % SECTOR_BYTES for line in lines)
        and target.threads * sum(lines) <= target.shared_bytes // 2
        and near >= target.threads
        and rows
        >= target.threads * target.multiprocessors * (1 if min(lines) >= 4 * columns else MEETING_BLOCKS)
    )


#: Elements of one program on a CPU, of a reduction: enough that handing it to another thread is worth it.
PROGRAM_ELEMENTS = 1 << 15


def flat_width(target: Target, size: int, item: int) -> int:
    """Elements of a tile of a line of `size`. Of little, each thread takes one element, so that all multiprocessors have blocks."""
    several = power_of_two(size // max(1, 2 * target.multiprocessors))
    return max(target.threads, min(several, tile_width(target, item)))


def part_of(sizes: Sequence[int], width: int) -> int:
    """How many steps of the outermost loop one program on a CPU takes; tiles, if it is the only loop."""
    if len(sizes) <= 1:
        return PROGRAM_TILES
    sizes = usual(tuple(sizes))
    return max(1, min(sizes[0], PROGRAM_TILES * width // max(1, prod(sizes[1:]))))


def steps_of(part: int, sizes: Sequence[int], width: int) -> int:
    """Steps of the outermost loop that one program takes, of a part in tiles where that loop is the only one."""
    return part * width if len(sizes) == 1 else part


def tile_steps(sizes: Sequence[int], width: int, rows: int) -> list[int]:
    """How many steps of each loop a tile has, of `width` of the last one and `rows` of the two around it, the nearest first."""
    steps = [1] * len(sizes)
    steps[-1] = min(width, power_of_two(sizes[-1]))
    for loop in range(len(sizes) - 2, max(-1, len(sizes) - 4), -1):
        steps[loop] = min(rows, power_of_two(sizes[loop]))
        rows //= steps[loop]
    return steps


def grid_for(target: Target, sizes: Sequence[int], width: int, part: int, rows: int = 1) -> tuple[int, ...]:
    """The programs that visit a space: one for each `part` steps of the outermost loop (each so many tiles of the only
    one), or for each tile if that is 0 (`tile_steps`)."""
    if not sizes:
        programs = 1
    elif part == 0:
        steps = tile_steps(sizes, width, rows)
        programs = prod(-(-size // step) for size, step in zip(sizes, steps, strict=True))
    else:
        programs = -(-sizes[0] // steps_of(part, sizes, width))
    return (programs,) if may_be_several(programs) or target.shares_tiles else ()


#: The same of other kernels, in tiles: these hold more elements the narrower and the cheaper the elements are, so
#: that a program takes some 10 us.
PROGRAM_TILES = 1 << 10


def tile_width(target: Target, item: int) -> int:
    """Elements of `item` bytes in one tile: 16 bytes of each thread, or a few registers."""
    return target.threads * max(1, 16 // item) if target.shares_tiles else 4 * target.lanes(item)
