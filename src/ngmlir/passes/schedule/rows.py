# SPDX-License-Identifier: Apache-2.0
"""Schedules of reductions of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import gcd, prod

from ...ir.literals import item_bytes
from ...ir.types import element_type
from ...ops.schedules import Rows
from ...ops.settings import MOST_THREADS, Given
from ...support.lengths import is_open, power_of_two, usual
from ...support.machines import GPU_REGISTERS, REGISTER_BYTES, WARP
from ...support.target import Target
from ..analysis.loop_nest import LoopNest, widest_item
from ..analysis.reduction import Position, reductions
from .candidate import Candidate, fixed, tile_sizes
from .loops import REGISTERS, SEARCH, TURN, requests_in_flight, work_of
from .programs import PROGRAM_ELEMENTS, RESIDENT, row_per_thread, stages_for, tile_width

#: Cycles to search the lanes of a register.
LANES = 8.0
#: The most registers of a row that is held in one tile on a CPU. With rows of 9 to 16 layer normalization takes 0.7 to 1.0 times the time
#: (Zen 4), with rows of 19 other reductions up to 1.1 times.
ROW_REGISTERS = 16
#: The most registers of rows that are reduced at once on a CPU, and the fewest rows for which this takes less time.
ROWS_REGISTERS, FEWEST_ROWS = 16, 4
#: The widest tile of a row that a thread block holds.
BLOCK_TILE = 4096
#: The most registers of a thread for elements of a row, and how many it needs for each, including computed values.
_HELD, _REGISTERS_EACH = 32, 3.5
#: Tiles in one partial sum of a long row.
PARTIAL_TILES = 64


def rows(nest: LoopNest, target: Target, given: Given) -> Iterator[Candidate[Rows]]:
    """Schedules of reductions over the innermost loops."""
    found = reductions(nest.ops, target)
    kept = len(nest.loops[found[0].result])
    inner, opened = usual(nest.sizes[kept:]), is_open(nest.sizes[kept:])
    outer = usual(nest.sizes[:kept])
    count, columns = prod(outer), prod(inner)
    if target.has_thread_blocks:
        width, around = power_of_two(columns), 1
        if len(inner) == 1 and kept and nest.has_tiles(-2):
            # Several narrow rows, until each thread has 16 bytes; or a row for each thread, if rows do not begin at sectors.
            room = tile_width(target, widest_item(nest)) // width
            room = target.threads if _row_for_each_thread(nest, target, kept) else room
            around = max(1, min(room, power_of_two(nest.sizes[kept - 1])))
        together = fixed(given, "rows", around)
        several = len(found) + any(len(nest.loops[v]) > kept for v in nest.outputs) > 1
        tile, threads = _tile_of_rows(nest, target, count, inner, several)
        if given.keys() & {"tile", "threads"}:
            tile, threads = min(BLOCK_TILE, tile), target.threads
        threads = max(WARP, min(threads, width * together))
        made = Rows(
            tile=fixed(given, "tile", min(tile, power_of_two(inner[-1]))),
            partial=fixed(given, "partial", 0),
            rows=together,
            keep=bool(given.get("keep", False)),  # the threads of a block would have to share it
            threads=fixed(given, "threads", threads),
        )
        # The inputs of each tile of a long row are loaded from memory.
        item = sum(item_bytes(element_type(v.type)) for v in nest.inputs if len(nest.loops.get(v, ())) > kept)
        stages = stages_for(target, made.tile * together * item, count // together)
        made = replace(made, stages=fixed(given, "stages", stages if columns > made.tile else 1))
        yield Candidate(made, count * columns / target.threads, count * columns / target.threads)
        return
    item = widest_item(nest)
    work, lanes = work_of(nest), target.lanes(item)
    one = len(inner) == 1 and not opened and inner[0] <= ROW_REGISTERS * lanes
    whole = [inner[0]] if one else []
    # Approximately: each reduction waits for the one before, and outputs as long as the row for all of them.
    phases = len(found) + any(len(nest.loops[v]) > kept for v in nest.outputs)
    # A sum has to wait for the one before, so it takes more registers than others.
    widths = [registers * lanes for registers in (2 * REGISTERS[0], *REGISTERS)]
    for width in tile_sizes(given, [*whole, *[w for w in widths if w < columns or not whole]]):
        registers = -(-width // lanes)
        held = width in whole
        unroll = fixed(given, "unroll", _unrolled(nest, target, given, kept, registers) if held else 1)
        groups = prod(outer[:-1]) * -(-outer[-1] // unroll) if outer else 1
        part = unroll * max(1, min(groups, PROGRAM_ELEMENTS // max(1, unroll * columns)))
        made = Rows(
            tile=width,
            partial=fixed(given, "partial", PARTIAL_TILES),
            rows=fixed(given, "rows", part),
            keep=bool(given.get("keep", True)),
            stages=fixed(given, "stages", 1),
            unroll=unroll,
        )
        cycles, roof = work.cycles(target, registers), count * columns / lanes * work.roof(target)
        # At the end a tile is searched for the best element; in a long row, before that, the lanes that say which tile.
        searches = [r for r in found if isinstance(r, Position)]
        places = sum(width * item_bytes(r.count) for r in searches) / target.vector_bytes
        searched = places * SEARCH / target.fmas
        if width >= inner[-1] and len(inner) == 1:
            yield Candidate(made, count * (cycles + TURN + searched), roof, registers)
        else:
            turns = phases * columns // inner[-1] * -(-inner[-1] // width)
            cycles = turns * (max(cycles, target.fma_cycles) + TURN) + searched + LANES * len(searches)
            yield Candidate(made, count * cycles, roof, registers)


def _unrolled(nest: LoopNest, target: Target, given: Given, kept: int, registers: int) -> int:
    """How many rows are reduced at once, whose tiles have so many registers: as many as fit, if that pays off."""
    if not kept or not nest.has_tiles(-2) or nest.gathered or any(nest.cuts(target)):
        return 1
    room = min(ROWS_REGISTERS, target.vector_registers // work_of(nest).live) // registers
    most = min(room, target.lanes(widest_item(nest)), *usual(nest.sizes[kept - 1 : kept]))
    if most < FEWEST_ROWS:
        return 1
    return gcd(1 << most.bit_length() - 1, fixed(given, "rows", 0))


def _tile_of_rows(
    nest: LoopNest, target: Target, count: int, inner: Sequence[int], several: bool
) -> tuple[int, int]:
    """The elements of a row that a thread block computes at once, and its threads; `several`: several values are computed from a row,
    which is read once if one tile holds it."""
    columns, tile, threads = inner[-1], min(BLOCK_TILE, power_of_two(inner[-1])), target.threads
    if several and len(inner) == 1 and (holding := _threads_that_hold(nest, target, columns)):
        return power_of_two(columns), holding
    # The narrower the elements, the more a thread has; the fewer rows, the more threads a block has.
    each, few = requests_in_flight(nest), 2 * count < RESIDENT * target.multiprocessors
    while few and 2 * each * threads <= min(columns // 2, GPU_REGISTERS / _REGISTERS_EACH):
        threads *= 2
    while tile >= BLOCK_TILE and 2 * tile <= min(columns, each * threads):
        tile *= 2
    return tile, threads


def _threads_that_hold(nest: LoopNest, target: Target, columns: int) -> int:
    """The fewest threads of a block whose registers hold a whole row; 0 if a row is too long."""
    words = -(-widest_item(nest) // REGISTER_BYTES)
    for threads in (1 << n for n in range(target.threads.bit_length() - 1, MOST_THREADS.bit_length())):
        held = -(-columns // threads) * words
        if held <= min(_HELD, GPU_REGISTERS // threads // _REGISTERS_EACH):
            return threads
    return 0


def _row_for_each_thread(nest: LoopNest, target: Target, kept: int) -> bool:
    """Whether each thread of a block reduces a short row of its own: of rows in memory order, which are loaded as contiguous ranges."""
    if nest.accesses or nest.gathered or nest.written:
        return False
    columns = nest.sizes[kept]
    full = [v for v in (*nest.inputs, *nest.outputs) if len(nest.loops.get(v, ())) > kept]
    lines = [columns * item_bytes(element_type(v.type)) for v in full]
    return row_per_thread(target, columns, lines, prod(nest.sizes[:kept]), nest.sizes[kept - 1])
