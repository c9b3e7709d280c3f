# SPDX-License-Identifier: Apache-2.0
"""Schedules of loops over tiles: of elementwise kernels, of reductions of rows, and of columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import gcd, prod

from ...ir.core import Value
from ...ir.literals import item_bytes
from ...ir.types import element_type
from ...ops.library import MATH_WORK, in_library
from ...ops.schedules import Columns, Tiles, families
from ...ops.settings import MOST_THREADS, Given, Schedule
from ...support.lengths import is_open, power_of_two, usual
from ...support.machines import GPU_REGISTERS, REGISTER_BYTES, WARP
from ...support.target import Target
from ..analysis.group import FREE
from ..analysis.loop_nest import LoopNest, chunk_width, widest_item
from ..analysis.reduction import Reduction, reductions
from .candidate import Candidate, fixed, tile_sizes
from .moves import boxes, flat, rows_together
from .programs import PROGRAM_ELEMENTS, RESIDENT, part_of, tile_width
from .windows import staged_windows

#: Overhead of one loop iteration, in cycles: counting, comparing, branching.
TURN = 2.0
#: Instructions to search a register of elements for one: compare, select, combine with the others.
SEARCH = 4
#: Instructions in the reorder window of a core, within which independent work overlaps (448 on Zen 5, 512 on Golden Cove).
WINDOW = 448
#: Registers of one tile that are tried: several give the core independent work, too many are spilled.
REGISTERS = (4, 2, 1)
#: Rows of a column reduction that are added up before the sums are stored to scratch.
BAND = 8
#: Chunks of 16 bytes that a thread of a GPU requests at once in a loop that accumulates.
_PIECES = 8
#: Registers of a thread for the rows of a band on a GPU.
_BAND_REGISTERS = 128
#: Bytes of these rows per block: a quarter of the registers of a multiprocessor, all of which a block has if it has the most
#: threads.
_HELD_BYTES = GPU_REGISTERS * REGISTER_BYTES // 4
#: Numbers of reduced elements, of windows and of rows in memory, that are too few to fill a tile (simulated): tiles then have
#: several rows of results.
_FEW, _FEW_ROWS = 64, 8
#: The most columns of all tiles, with padding, relative to the actual ones.
_ROOMY = 1.25
#: Bytes of each row that one program of a column reduction reads at least: whole pages, in order.
STRIPE_BYTES = 4096
#: Rows of at most so many registers of elements are computed several in one tile, of at most so many registers: 600 rows of 9 take 0.6 to 0.8
#: times the time, of 28 (AVX2) and 60 (AVX-512) up to 1.2 times.
SHORT, LINE = 3, 16
#: Number of programs of a column reduction that keeps all cores busy; above it programs are not made smaller.
PROGRAMS = 8


@dataclass(frozen=True)
class Work:
    """The cost of one register of elements of a fusion: instructions, the longest chain of dependent ones (`depth`), loads, stores, and
    the number of live registers."""

    instructions: int
    depth: int
    loads: int
    stores: int
    live: int

    def cycles(self, target: Target, registers: int) -> float:
        """Cycles of a tile of this many registers; spilled values are stored and loaded once more."""
        spilled = max(0, registers * self.live - target.vector_registers)
        busy = registers * self.instructions / target.fmas
        # The next tile is begun meanwhile, if it is within the reorder window.
        wait = self.depth * target.fma_cycles / max(1, WINDOW // (registers * self.instructions))
        return max(
            busy, wait, (registers * self.loads + spilled) / target.loads, registers * self.stores + spilled
        )

    def roof(self, target: Target) -> float:
        """The least cycles for one register of elements."""
        return max(self.instructions / target.fmas, self.loads / target.loads, self.stores)


def work_of(nest: LoopNest) -> Work:
    """The cost of all ops of a fusion, in order; values that are known before the loop (constants) are free."""
    computed = [op for op in nest.ops if op.name not in FREE]
    last = {v: at for at, op in enumerate(nest.ops) for v in op.operands}
    last |= dict.fromkeys(nest.outputs, len(nest.ops))
    live = most = 0
    depth = dict[Value, int]()
    for at, op in enumerate(nest.ops):
        depth[op.results[0]] = max((depth.get(v, 0) for v in op.operands), default=0)
        if op.name not in FREE:
            depth[op.results[0]] += MATH_WORK if in_library(op) else 1
            live += 1
            most = max(most, live)
        live -= sum(last[v] == at for v in {*op.operands} if v in nest.loops)
        live = max(0, live)
    instructions = sum(MATH_WORK if in_library(op) else 1 for op in computed)
    return Work(
        max(1, instructions),
        max(depth.values(), default=0),
        sum(v in nest.loops for v in nest.inputs),
        len(nest.outputs),
        max(1, most),
    )


def elementwise(nest: LoopNest, target: Target, given: Given) -> Iterator[Candidate[Schedule]]:
    """Schedules of elementwise kernels."""
    fitting = {family.by for family in families("map", given)}
    for by, family in (("boxes", boxes), ("flat", flat)):
        found = family(nest, target, given) if by in fitting else None
        if found is not None:
            yield found
            return
    if "tiles" in fitting:
        yield from _tiles(nest, target, given)


def _tiles(nest: LoopNest, target: Target, given: Given) -> Iterator[Candidate[Tiles]]:
    sizes, item = usual(nest.sizes), widest_item(nest)
    if target.has_thread_blocks:
        # Intermediate values are in registers, whatever their width.
        moved = (item_bytes(element_type(v.type)) for v in (*nest.inputs, *nest.outputs) if nest.loops.get(v))
        width = tile_width(target, max(moved, default=item))
        tile = fixed(given, "tile", min(width, power_of_two(sizes[-1])) if sizes else 1)
        most = width // tile if nest.ops or len(sizes) < 2 else rows_together(target, sizes, item)
        made = Tiles(
            tile=tile,
            part=fixed(given, "part", 0),
            rows=fixed(given, "rows", max(1, min(most, nest.most_rows))),
            threads=fixed(given, "threads", target.threads),
        )
        yield Candidate(made, prod(sizes) / target.threads, prod(sizes) / target.threads)
        return
    work, lanes = work_of(nest), target.lanes(item)
    for width in tile_sizes(given, [registers * lanes for registers in REGISTERS]):
        part = part_of(sizes, width)
        made = Tiles(tile=width, part=fixed(given, "part", part))
        registers = -(-width // lanes)
        turns = prod(sizes[:-1]) * -(-sizes[-1] // width) if sizes else 1
        roof = prod(sizes) / lanes * work.roof(target)
        yield Candidate(made, turns * (work.cycles(target, registers) + TURN), roof, registers)
    if len(sizes) > 1 and given.get("tile", sizes[-1]) == sizes[-1]:
        yield from _short_rows(nest, target, given)


def _short_rows(nest: LoopNest, target: Target, given: Given) -> Iterator[Candidate[Tiles]]:
    """Schedules with several short rows in one tile, if each can be loaded separately and ends in a part of a register."""
    sizes, item = usual(nest.sizes), widest_item(nest)
    work, lanes, columns = work_of(nest), target.lanes(item), sizes[-1]
    if not _is_short(columns, lanes) or nest.in_line is None:
        return
    apart = sum({len(sizes) - 2, len(sizes) - 1} <= {*nest.loops[v]} for v in nest.accesses)
    # Rows that fill whole registers, or all that there are.
    whole = lanes // gcd(lanes, columns)
    most = dict.fromkeys(min(n * whole, sizes[-2]) for n in (1, 2, 4) if n * whole * columns <= LINE * lanes)
    for rows in [fixed(given, "rows", 0)] if "rows" in given else [rows for rows in most if rows > 1]:
        made = Tiles(tile=columns, part=fixed(given, "part", part_of(sizes, lanes)), rows=rows)
        registers = -(-rows * columns // lanes)
        # Rows that are not adjacent in memory are loaded separately, and moved to their places in a register.
        cycles = max(work.cycles(target, registers), rows * apart / target.loads) + rows * apart / target.fmas
        turns = prod(sizes[:-2]) * -(-sizes[-2] // rows)
        roof = prod(sizes) / lanes * work.roof(target)
        yield Candidate(made, turns * (cycles + TURN), roof, registers)


def requests_in_flight(nest: LoopNest) -> int:
    """Elements that a thread of a GPU requests at once in a loop that accumulates, as far as there are registers."""
    most = min(_PIECES * chunk_width(nest, 1), _BAND_REGISTERS // (work_of(nest).live + 1))
    return 1 << max(0, most.bit_length() - 1)


def column_loops(nest: LoopNest, target: Target) -> tuple[list[Reduction], list[int], list[int]]:
    """The reductions of a nest of columns, and which of its loops but the last they keep and reduce."""
    found = reductions(nest.ops, target)
    kept, outside = nest.loops[found[0].result], range(len(nest.sizes) - 1)
    return found, [l for l in outside if l in kept], [l for l in outside if l not in kept]


def columns(nest: LoopNest, target: Target, given: Given) -> Iterator[Candidate[Columns]]:
    """Schedules of reductions over outer loops. Data that fit into the L1 cache are read one tile of columns after the other; more
    data in memory order: bands of some rows by a stripe of many columns, whose sums are in scratch."""
    found, outer, inner = column_loops(nest, target)
    sizes = usual(nest.sizes)
    reduced = [sizes[l] for l in inner]
    count, steps, size = prod(sizes[l] for l in outer), prod(reduced), sizes[-1]
    if target.has_thread_blocks:
        cycles = count * steps * size / target.threads
        yield Candidate(_bands(nest, target, given, count, outer, inner), cycles, cycles)
        return
    windows = staged_windows(nest, target, given, outer)
    if windows is not None:
        yield windows
        return
    item = _gathered_item(found, nest)
    work, lanes = _column_work(found, nest), target.lanes(item)
    row = size * item
    stated = fixed(given, "tile", 0)
    if merged(nest, inner, target, stated):
        yield from _merged_columns(found, nest, target, given, count, steps)
        if stated:
            return
    held = size <= target.vector_registers // 2 * lanes and not is_open(nest.sizes[-1:])
    whole = [size] if held else []
    for width in tile_sizes(
        given, dict.fromkeys([*whole, *(min(size, registers * lanes) for registers in REGISTERS)])
    ):
        far = steps * row > target.l1_bytes and size > width and reduced[-1] >= BAND
        # The hardware prefetches page by page: accesses to several rows of a band in one page would jump back and forth in it.
        as_it_lies = count * steps * row > target.l2_bytes and (
            row <= STRIPE_BYTES or (row <= target.l1_bytes // 4 and count >= PROGRAMS)
        )
        band = fixed(given, "band", (1 if as_it_lies else BAND) if far else 0)
        least = 1 if not band else row if as_it_lies else STRIPE_BYTES
        if band and not as_it_lies and count * row >= PROGRAMS * target.l1_bytes // 2:
            least = target.l1_bytes // 2
        stripe = max(1, PROGRAM_ELEMENTS // steps, least // item)
        stripe = fixed(given, "stripe", -(-min(stripe, size) // width) * width)
        group = 1 if stripe < size else max(1, min(count, PROGRAM_ELEMENTS // (steps * size)))
        made = Columns(tile=width, band=band, stripe=stripe, rows=fixed(given, "rows", group))
        registers = -(-width // lanes)
        wait = 0 if band else target.fma_cycles
        turns = count * steps * -(-size // width)
        cycles = turns * (max(work.cycles(target, registers), wait) + TURN)
        yield Candidate(made, cycles, count * steps * size / lanes * work.roof(target), registers)


def merged(nest: LoopNest, reduced: Sequence[int], target: Target, tile: int = 0) -> LoopNest | None:
    """The loops of a reduction of columns on a CPU with several short rows in one tile: of results, or of what is reduced to these. None if
    that is not possible, a given `tile` has no more than one row, or rows are read through an indexing map: one by one, which is slower
    (pools of 28 columns: 1.7 times)."""
    columns, near = nest.sizes[-1], len(nest.sizes) - 2
    if target.has_thread_blocks or near < 0 or is_open(nest.sizes[-2:]) or 0 < tile < 2 * columns:
        return None
    if near in reduced:
        most = _most_in_line(reductions(nest.ops, target), nest, target)
        fits = not nest.accesses and 2 * columns <= most
    else:
        mapped = any({near, near + 1} <= {*nest.loops[v]} for v in nest.accesses)
        fits = not mapped and _is_short(columns, target.lanes(widest_item(nest)))
    return nest.in_line if fits else None


def _is_short(columns: int, lanes: int) -> bool:
    """Whether rows leave many lanes of their registers idle."""
    return columns <= SHORT * lanes and columns % lanes != 0


def _most_in_line(found: Sequence[Reduction], nest: LoopNest, target: Target) -> int:
    """The most elements in a tile of several rows: the accumulators must stay in registers."""
    parts = max(len(r.carried) for r in found)
    return target.vector_registers // (1 + parts) * target.lanes(_gathered_item(found, nest))


def _gathered_item(found: Sequence[Reduction], nest: LoopNest) -> int:
    """Bytes of the largest element that a reduction of columns computes with or carries."""
    return max(widest_item(nest), *[item_bytes(element) for r in found for element in r.carried])


def _column_work(found: Sequence[Reduction], nest: LoopNest) -> Work:
    """The cost of one register of elements if each is compared with the best of its column, and the carried values are selected."""
    work = work_of(nest)
    more = sum(len(r.carried) - 1 for r in found)
    return replace(work, instructions=work.instructions + SEARCH * more, live=work.live + 2 * more)


def _merged_columns(
    found: Sequence[Reduction], nest: LoopNest, target: Target, given: Given, count: int, steps: int
) -> Iterator[Candidate[Columns]]:
    """Schedules of `count` rows of results, each of `steps` steps, with several rows of narrow columns in one tile. Those that are reduced
    are combined one by one at the end."""
    near, columns = usual(nest.sizes[-2:])
    work, lanes = _column_work(found, nest), target.lanes(_gathered_item(found, nest))
    # Rows that fill whole registers are loaded as such.
    whole = lanes // gcd(lanes, columns)
    pair = {len(nest.sizes) - 2, len(nest.sizes) - 1}
    joining = repeated = 0
    if pair <= {*nest.loops[found[0].result]}:
        rows, size = {min(n * whole, near) for n in REGISTERS}, near * columns
        # Elements of a row or a column are repeated.
        repeated = sum(len(pair & {*nest.loops.get(v, ())}) == 1 for v in nest.inputs)
    else:
        most = _most_in_line(found, nest, target) // columns
        tried = [most // n for n in (1, 2, 4, 8)]
        rows = {r // whole * whole if r >= whole else r for r in tried} | {whole}
        rows = {r for r in rows if r <= min(near, most)}
        size, joining = columns, count * sum(r.steps_of_joining for r in found)
    groups = count * columns // size
    roof = count * steps * columns / lanes * work.roof(target)
    for width in tile_sizes(given, [r * columns for r in sorted(rows) if r > 1]):
        registers = -(-width // lanes)
        cycles = max(work.cycles(target, registers), target.fma_cycles) + registers * repeated / target.fmas
        turns = count * steps // near * -(-near // (width // columns))
        stripe = max(1, PROGRAM_ELEMENTS // steps, STRIPE_BYTES // widest_item(nest))
        stripe = fixed(given, "stripe", -(-min(stripe, size) // width) * width)
        group = max(1, min(groups, PROGRAM_ELEMENTS // (steps * size)))
        group = fixed(given, "rows", 1 if stripe < size else group)
        made = Columns(tile=width, band=0, stripe=stripe, rows=group)
        yield Candidate(made, turns * (cycles + TURN) + joining * (width // columns), roof, registers)


def _filling_rows(nest: LoopNest, target: Target, count: int, outer: Sequence[int], width: int) -> int:
    """How many rows of results are in one tile, so that each thread has 16 bytes and there are enough blocks."""
    rows = prod(rows_at_once(nest, outer, tile_width(target, widest_item(nest)) // width))
    while rows > 1 and count * -(-nest.sizes[-1] // width) < rows * RESIDENT * target.multiprocessors:
        rows //= 2
    return max(1, rows)


def _filled(given: Given, target: Target, tile: int, band: int, rows: int, threads: int = 0) -> Columns:
    """The schedule of threads that share columns: the given settings, and those chosen for the rest."""
    tile, band, rows = fixed(given, "tile", tile), fixed(given, "band", band), fixed(given, "rows", rows)
    needed = max(WARP, min(tile * rows * max(1, band), threads or target.threads))
    return Columns(
        tile=tile,
        band=band,
        stripe=fixed(given, "stripe", tile),
        rows=rows,
        threads=fixed(given, "threads", needed),
    )


def _bands(
    nest: LoopNest, target: Target, given: Given, count: int, outer: Sequence[int], reduced: Sequence[int]
) -> Columns:
    """How thread blocks reduce the columns of `count` rows of results: loads of several rows are in flight at once, as far as
    there are registers."""
    size = nest.sizes[-1]
    # Requests of a warp are as wide as possible: then no lanes have to be combined. But tiles have as little padding as possible,
    # and with little work more blocks are faster, unless one has all its rows in flight at once.
    width = min(power_of_two(size), max(target.threads, chunk_width(nest, WARP)))
    each = requests_in_flight(nest)
    rows = power_of_two(nest.sizes[reduced[-1]]) if reduced and nest.has_tiles(reduced[-1]) else 1
    busy = target.multiprocessors

    rows_of_tile = 1
    if outer and prod(nest.sizes[l] for l in reduced) <= (_FEW if nest.accesses else _FEW_ROWS):
        rows_of_tile = _filling_rows(nest, target, count, outer, fixed(given, "tile", width))
    if fixed(given, "rows", rows_of_tile) > 1 and not given.get("band"):
        return _filled(given, target, tile=width, band=0, rows=rows_of_tile)

    def blocks() -> int:
        return count * -(-size // width)

    while width > 2 * WARP and -(-size // width) * width > _ROOMY * size:
        width //= 2
    while 1 < rows < each * target.threads // width and 2 * width <= size and blocks() >= 2 * RESIDENT * busy:
        width *= 2
    while rows > each * target.threads // width and (
        (width > target.threads and blocks() < RESIDENT * busy) or (width > WARP and 2 * blocks() <= busy)
    ):
        width //= 2
    width, threads = fixed(given, "tile", width), target.threads
    most = min(MOST_THREADS, _HELD_BYTES // (each * widest_item(nest)))
    while threads < most and rows > each * threads // width and blocks() < busy:
        threads *= 2
    band = min(rows, each * threads // width) if rows > 1 else 0
    return _filled(given, target, tile=width, band=band, rows=1, threads=threads)


def rows_at_once(nest: LoopNest, outer: Sequence[int], rows: int) -> list[int]:
    """How many steps of each of the `outer` loops one tile has, so that it has `rows` rows of results: an outer loop has several only
    if the loops inside it are whole."""
    found: list[int] = []
    tiled: list[int] = []
    for l in reversed(outer):
        whole = power_of_two(nest.sizes[l])
        found.insert(0, min(rows, whole) if nest.has_tiles(l, *tiled) else 1)
        tiled += [l] * (found[0] > 1)
        rows = rows // whole if found[0] == whole else 1
    return found
