# SPDX-License-Identifier: Apache-2.0
"""How loops over tiles are cut: those of elementwise kernels, of reductions of rows, and of columns."""

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
from ..analysis.plan import Plan, pieces_wide, widest_item
from ..analysis.reduction import Reduction, reductions
from .candidate import Candidate, fixed, tile_sizes
from .moves import boxes, flat, rows_together
from .programs import PROGRAM_ELEMENTS, RESIDENT, part_of, tile_width
from .windows import staged_windows

#: Cycles of one turn of a loop beside its work: counting, comparing, jumping.
TURN = 2.0
#: Instructions by which a register of elements is searched for one: compared, selected, joined with the others.
SEARCH = 4
#: Instructions that a core looks ahead over, to begin what need not wait for what is under way (448 on Zen 5, 512 on Golden Cove).
WINDOW = 448
#: Registers of one tile that are tried: several have independent work for the core, too many have no place.
REGISTERS = (4, 2, 1)
#: Rows of a column kernel that are added up before the sums go back to scratch.
BAND = 8
#: Pieces of 16 bytes that a thread of a GPU asks for at once in a loop that gathers.
_PIECES = 8
#: Registers of a thread that hold such rows on a GPU.
_BAND_REGISTERS = 128
#: Bytes of such rows that a block may hold: a quarter of the registers of a multiprocessor, all of which it has where its threads
#: are the most.
_HELD_BYTES = GPU_REGISTERS * REGISTER_BYTES // 4
#: Steps of such a reduction that are too few to fill a tile, of a window and of rows of memory (simulated): its results lie side by
#: side there.
_FEW, _FEW_ROWS = 64, 8
#: How many places the tiles of columns have for each column, at most.
_ROOMY = 1.25
#: Bytes of each row that one program of a column kernel reads at least: whole pages, in order.
STRIPE_BYTES = 4096
#: Programs of a column kernel from which on they need not be made smaller for the sake of more.
PROGRAMS = 8


@dataclass(frozen=True)
class Work:
    """What one register of elements of a fusion costs: instructions, of which so many wait for one another, loads, stores, and
    how many registers are live."""

    instructions: int
    depth: int
    loads: int
    stores: int
    live: int

    def cycles(self, target: Target, registers: int) -> float:
        """Of a tile of so many registers; what finds no register is stored and loaded once more."""
        spilled = max(0, registers * self.live - target.vector_registers)
        busy = registers * self.instructions / target.fmas
        # The next tile is begun meanwhile, if that is near enough.
        wait = self.depth * target.fma_cycles / max(1, WINDOW // (registers * self.instructions))
        return max(
            busy, wait, (registers * self.loads + spilled) / target.loads, registers * self.stores + spilled
        )

    def roof(self, target: Target) -> float:
        """The least cycles for one register of elements."""
        return max(self.instructions / target.fmas, self.loads / target.loads, self.stores)


def work_of(plan: Plan) -> Work:
    """Counted over all ops of a fusion, in order; what is known before the loop (a constant) costs nothing in it."""
    computed = [op for op in plan.ops if op.name not in FREE]
    last = {v: at for at, op in enumerate(plan.ops) for v in op.operands}
    last |= dict.fromkeys(plan.outputs, len(plan.ops))
    live = most = 0
    depth = dict[Value, int]()
    for at, op in enumerate(plan.ops):
        depth[op.results[0]] = max((depth.get(v, 0) for v in op.operands), default=0)
        if op.name not in FREE:
            depth[op.results[0]] += MATH_WORK if in_library(op) else 1
            live += 1
            most = max(most, live)
        live -= sum(last[v] == at for v in {*op.operands} if v in plan.loops)
        live = max(0, live)
    instructions = sum(MATH_WORK if in_library(op) else 1 for op in computed)
    return Work(
        max(1, instructions),
        max(depth.values(), default=0),
        sum(v in plan.loops for v in plan.inputs),
        len(plan.outputs),
        max(1, most),
    )


def elementwise(plan: Plan, target: Target, given: Given) -> Iterator[Candidate[Schedule]]:
    """For elementwise kernels."""
    fitting = {family.by for family in families("map", given)}
    for by, family in (("boxes", boxes), ("flat", flat)):
        found = family(plan, target, given) if by in fitting else None
        if found is not None:
            yield found
            return
    if "tiles" in fitting:
        yield from _tiles(plan, target, given)


def _tiles(plan: Plan, target: Target, given: Given) -> Iterator[Candidate[Tiles]]:
    sizes, item = usual(plan.sizes), widest_item(plan)
    if target.shares_tiles:
        # What is computed in between is in registers, of whatever width.
        moved = (item_bytes(element_type(v.type)) for v in (*plan.inputs, *plan.outputs) if plan.loops.get(v))
        width = tile_width(target, max(moved, default=item))
        tile = fixed(given, "tile", min(width, power_of_two(sizes[-1])) if sizes else 1)
        most = width // tile if plan.ops or len(sizes) < 2 else rows_together(target, sizes, item)
        made = Tiles(
            tile=tile,
            part=fixed(given, "part", 0),
            rows=fixed(given, "rows", max(1, min(most, plan.most_rows))),
            threads=fixed(given, "threads", target.threads),
        )
        yield Candidate(made, prod(sizes) / target.threads, prod(sizes) / target.threads)
        return
    work, lanes = work_of(plan), target.lanes(item)
    for width in tile_sizes(given, [registers * lanes for registers in REGISTERS]):
        part = part_of(sizes, width)
        made = Tiles(tile=width, part=fixed(given, "part", part))
        registers = -(-width // lanes)
        turns = prod(sizes[:-1]) * -(-sizes[-1] // width) if sizes else 1
        roof = prod(sizes) / lanes * work.roof(target)
        yield Candidate(made, turns * (work.cycles(target, registers) + TURN), roof, registers)
    if len(sizes) > 1 and given.get("tile", sizes[-1]) == sizes[-1]:
        yield from _short_rows(plan, target, given)


def _short_rows(plan: Plan, target: Target, given: Given) -> Iterator[Candidate[Tiles]]:
    """Several rows of which a register has room for two, where each can be read by itself."""
    sizes, item = usual(plan.sizes), widest_item(plan)
    work, lanes, columns = work_of(plan), target.lanes(item), sizes[-1]
    if 2 * columns > lanes or plan.in_line is None:
        return
    apart = sum({len(sizes) - 2, len(sizes) - 1} <= {*plan.loops[v]} for v in plan.accesses)
    # Rows that fill whole registers, or all that there are.
    whole = lanes // gcd(lanes, columns)
    most = dict.fromkeys(min(n * whole, sizes[-2]) for n in (1, 2, 4) if n * whole * columns <= 8 * lanes)
    for rows in [fixed(given, "rows", 0)] if "rows" in given else [rows for rows in most if rows > 1]:
        made = Tiles(tile=columns, part=fixed(given, "part", part_of(sizes, lanes)), rows=rows)
        registers = -(-rows * columns // lanes)
        # Each row of what lies apart is loaded by itself, and moved to its place in a register.
        cycles = max(work.cycles(target, registers), rows * apart / target.loads) + rows * apart / target.fmas
        turns = prod(sizes[:-2]) * -(-sizes[-2] // rows)
        roof = prod(sizes) / lanes * work.roof(target)
        yield Candidate(made, turns * (cycles + TURN), roof, registers)


def at_once(plan: Plan) -> int:
    """Elements that a thread of a GPU asks for at once in a loop that gathers, as far as registers have room."""
    most = min(_PIECES * pieces_wide(plan, 1), _BAND_REGISTERS // (work_of(plan).live + 1))
    return 1 << max(0, most.bit_length() - 1)


def columns(plan: Plan, target: Target, given: Given) -> Iterator[Candidate[Columns]]:
    """For reductions over outer loops. What fits into the near cache is read one tile of columns after the other; more
    is read in the order in which it lies: bands of some rows by a stripe of many columns, whose sums wait in scratch."""
    found = reductions(plan.ops, target)
    kept = set(plan.loops[found[0].result])
    last = len(plan.sizes) - 1
    sizes = usual(plan.sizes)
    outer = [sizes[l] for l in range(last) if l in kept]
    inner = [l for l in range(last) if l not in kept]
    reduced = [sizes[l] for l in inner]
    count, steps, size = prod(outer), prod(reduced), sizes[-1]
    if target.shares_tiles:
        yield Candidate(
            _bands(plan, target, given, count, [l for l in range(last) if l in kept], inner),
            count * steps * size / target.threads,
            count * steps * size / target.threads,
        )
        return
    windows = staged_windows(plan, target, given, [l for l in range(last) if l in kept])
    if windows is not None:
        yield windows
        return
    item = _gathered_item(found, plan)
    work, lanes = _column_work(found, plan), target.lanes(item)
    row = size * item
    stated = fixed(given, "tile", 0)
    if collapsed(plan, inner, target, stated):
        yield from _lines(found, plan, target, given, count, steps)
        if stated:
            return
    held = size <= target.vector_registers // 2 * lanes and not is_open(plan.sizes[-1:])
    whole = [size] if held else []
    for width in tile_sizes(
        given, dict.fromkeys([*whole, *(min(size, registers * lanes) for registers in REGISTERS)])
    ):
        far = steps * row > target.l1_bytes and size > width and reduced[-1] >= BAND
        # Memory is read ahead page by page: rows of a band that share a page would be read to and fro in it.
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


def collapsed(plan: Plan, reduced: Sequence[int], target: Target, tile: int = 0) -> Plan | None:
    """The loops of narrow columns on a CPU, several rows of which are in one tile, in registers; None where they cannot be, or a given
    `tile` has but one."""
    columns, near = plan.sizes[-1], len(plan.sizes) - 2
    if target.shares_tiles or near not in reduced or plan.accesses or 0 < tile < 2 * columns:
        return None
    return plan.in_line if 2 * columns <= _most_in_line(reductions(plan.ops, target), plan, target) else None


def _most_in_line(found: Sequence[Reduction], plan: Plan, target: Target) -> int:
    """Elements of the rows of one tile, at most: what is gathered has to stay in registers."""
    parts = max(len(r.carried) for r in found)
    return target.vector_registers // (1 + parts) * target.lanes(_gathered_item(found, plan))


def _gathered_item(found: Sequence[Reduction], plan: Plan) -> int:
    """Bytes of the largest element that a reduction of columns computes with, or carries."""
    return max(widest_item(plan), *[item_bytes(element) for r in found for element in r.carried])


def _column_work(found: Sequence[Reduction], plan: Plan) -> Work:
    """What one register of elements costs where each is compared with the best of its column, and what it carries is chosen."""
    work = work_of(plan)
    more = sum(len(r.carried) - 1 for r in found)
    return replace(work, instructions=work.instructions + SEARCH * more, live=work.live + 2 * more)


def _lines(
    found: Sequence[Reduction], plan: Plan, target: Target, given: Given, count: int, steps: int
) -> Iterator[Candidate[Columns]]:
    """Of so many rows of results, each of so many `steps`: some rows of narrow columns in one tile. In the end they are joined, one
    by one."""
    columns, near = usual(plan.sizes[-1:])[0], usual(plan.sizes[-2:])[0]
    work, lanes = _column_work(found, plan), target.lanes(_gathered_item(found, plan))
    most = _most_in_line(found, plan, target)
    joining = sum(r.steps_of_joining for r in found)
    roof = count * steps * columns / lanes * work.roof(target)
    # Rows that fill whole registers are read as these.
    whole = lanes // gcd(lanes, columns)
    rows = {most // n // columns for n in (1, 2, 4, 8)}
    rows = {r // whole * whole if r >= whole else r for r in rows} | {whole}
    for width in tile_sizes(
        given, [r * columns for r in sorted(rows) if 2 <= r <= near and r * columns <= most]
    ):
        registers = -(-width // lanes)
        turns = count * steps // near * -(-near // (width // columns))
        cycles = turns * (max(work.cycles(target, registers), target.fma_cycles) + TURN)
        joined = count * (width // columns) * joining
        group = max(1, min(count, PROGRAM_ELEMENTS // (steps * columns)))
        made = Columns(tile=width, band=0, stripe=width, rows=fixed(given, "rows", group))
        yield Candidate(made, cycles + joined, roof, registers)


def _filling_rows(plan: Plan, target: Target, count: int, outer: Sequence[int], width: int) -> int:
    """How many rows of results stand side by side in one tile, so that each thread has 16 bytes and blocks are enough."""
    rows = prod(rows_at_once(plan, outer, tile_width(target, widest_item(plan)) // width))
    while rows > 1 and count * -(-plan.sizes[-1] // width) < rows * RESIDENT * target.multiprocessors:
        rows //= 2
    return max(1, rows)


def _filled(given: Given, target: Target, tile: int, band: int, rows: int, threads: int = 0) -> Columns:
    """What is given of how threads share columns, and what is chosen for the rest."""
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
    plan: Plan, target: Target, given: Given, count: int, outer: Sequence[int], reduced: Sequence[int]
) -> Columns:
    """Of `count` rows of results, how blocks of threads reduce the columns: what is loaded for several rows at once is under
    way at once, as far as registers have room."""
    size = plan.sizes[-1]
    # A request of a warp is as wide as it can be: then no lanes have to be joined. But tiles are no emptier than they must,
    # and where there is little to do, more blocks are quicker, unless one has all its rows under way at once.
    width = min(power_of_two(size), max(target.threads, pieces_wide(plan, WARP)))
    each = at_once(plan)
    rows = power_of_two(plan.sizes[reduced[-1]]) if reduced and plan.has_tiles(reduced[-1]) else 1
    busy = target.multiprocessors

    rows_of_tile = 1
    if outer and prod(plan.sizes[l] for l in reduced) <= (_FEW if plan.accesses else _FEW_ROWS):
        rows_of_tile = _filling_rows(plan, target, count, outer, fixed(given, "tile", width))
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
    most = min(MOST_THREADS, _HELD_BYTES // (each * widest_item(plan)))
    while threads < most and rows > each * threads // width and blocks() < busy:
        threads *= 2
    band = min(rows, each * threads // width) if rows > 1 else 0
    return _filled(given, target, tile=width, band=band, rows=1, threads=threads)


def rows_at_once(plan: Plan, outer: Sequence[int], rows: int) -> list[int]:
    """Of how many steps of each of the `outer` loops one tile holds results, so that these are `rows`: loops further out have
    several where those further in are held whole."""
    found: list[int] = []
    tiled: list[int] = []
    for l in reversed(outer):
        whole = power_of_two(plan.sizes[l])
        found.insert(0, min(rows, whole) if plan.has_tiles(l, *tiled) else 1)
        tiled += [l] * (found[0] > 1)
        rows = rows // whole if found[0] == whole else 1
    return found
