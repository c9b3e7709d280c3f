# SPDX-License-Identifier: Apache-2.0
"""Schedules of matrix products on a CPU: the register tile, the blocks, and the packed sides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from math import gcd, inf, lcm

from ...ir.literals import item_bytes
from ...ops.schedules import Panels
from ...ops.settings import Given, Schedule
from ...support.lengths import is_open, usual
from ...support.target import Target
from ..analysis.product import Product, in_words, lies_in_words
from ..analysis.sides import Implicit, Strided
from .candidate import Candidate, fixed, fixed_pair, fixed_words, spilled
from .register_tiles import (
    FAR_CYCLES,
    adds,
    distinct_cache_sets,
    multiplications,
    rate,
    register_tiles,
    registers_of,
    tile_cost,
)

#: The most steps of the depth that are unrolled, and those of register tiles with so many accumulators, which hide the overhead of
#: a step of the loop: more code only takes longer to compile.
UNROLL, UNROLL_MANY = 4, {16: 1, 12: 2}
#: Register tiles that take this many times the cycles of the fastest are discarded.
WORTH_CUTTING = 1.5
#: Multiplications of one program on a CPU: some tens of microseconds.
PROGRAM_MULTIPLICATIONS = 1 << 21
#: The same if the right side is in the L1 or L2 cache of every program: fewer, so that small products use all cores.
NEAR_PROGRAM_MULTIPLICATIONS = 1 << 19
#: Bytes of a right side that is in the L1 or L2 cache in any case.
NEAR_BYTES = 1 << 19
#: Rows from which on a packed copy pays off of a right side that is in the L1 or L2 cache.
PACK_FROM_ROWS = 96
#: The same if it is not, or if its elements would be widened for each row.
PACK_FAR_FROM_ROWS = 12
#: Columns from which on a packed copy pays off of a large left side stored depth x rows, or of elements to be widened.
PACK_FROM_COLUMNS = 32
#: With at most this many rows the right side is read in memory order, a few of its rows at a time.
FEW_ROWS = 8
#: Depth of a block that a program packs itself, and of one that is read unpacked from beyond the L2 cache.
PART_DEPTH, FAR_DEPTH = 512, 64
#: Bytes of each row of the right side that one program reads at least, if rows are few: such products are bound by memory,
#: which is fastest for long contiguous ranges.
RUN_BYTES = 1 << 11
#: Columns of a part that each program packs, unless runs of elements are longer; parts with whole longer runs take at most so many
#: L2 caches.
PART_COLUMNS, PART_CACHES = 512, 4
#: Cycles to locate a contiguous chunk of windows: its index in each of its loops, and whether it crosses a border.
PIECE_CYCLES = 10
#: Bytes of sums that are stored between blocks of the depth.
WAITING_BYTES = 1 << 16


# -- register tiles over panels ----------------------------------------------------------------------------------------


def panels(product: Product, target: Target, given: Given) -> Iterator[Candidate[Panels]]:
    """A candidate for each register tile that fits, with blocks for which data that are read again stay in the caches."""
    near = product.depth * product.columns * item_bytes(product.rhs_element) <= NEAR_BYTES
    # If memory is the bottleneck, the next rows should be read before many columns of these.
    few = product.rows <= FEW_ROWS
    widest = max(2, 4 // product.rows) if few and not near else target.vector_registers
    stated = fixed_pair(given, "tile")
    counted = in_words(product, target, ("left", "right"))
    tiles = register_tiles(counted, target, widest) if stated is None else [stated]
    costs = {tile: tile_cost(counted, target, tile) for tile in tiles}
    # The cost of packing windows is added to these.
    most = WORTH_CUTTING * min(cycles for cycles, _ in costs.values())
    batch, lanes = max(1, product.batch), target.lanes(item_bytes(product.accumulator))
    for tile, (cycles, loads) in costs.items():
        if cycles <= most:
            made = blocked(product, target, tile, given)
            whole = (cycles + copying(counted, made, target)) * batch
            needed = registers_of(counted, target, tile[0], max(1, tile[1] // lanes))
            roof = multiplications(product) / rate(product, target)
            yield Candidate(
                made, whole, roof, loads * batch, spilled(needed, target.vector_registers, "vectors")
            )


def blocked(product: Product, target: Target, tile: tuple[int, int], given: Given) -> Panels:
    """The blocks for a register tile: the rows and columns of one program, the depth of a block, and which sides are packed."""
    if any(product.implicit):
        return packed_by_program(product, target, tile, given)
    tile_rows, tile_columns = tile
    item = item_bytes(product.accumulator)
    right_bytes = product.depth * product.columns * item_bytes(product.rhs_element)
    near, few, alone = right_bytes <= NEAR_BYTES, product.rows <= FEW_ROWS, False
    sides = fixed_words(given, "pack", _packed(product, target, tile_columns, near))
    pack, part = "right" in sides or bool(given.get("part")), 0
    product = in_words(product, target, {*sides, *(["right"] if pack else [])})
    steps = _steps(product, target, tile)
    unroll = fixed(given, "unroll", gcd(steps, fixed(given, "depth", steps)))
    if near:
        depth = fixed(given, "depth", _ceiling(product.depth, unroll))
        per_row = product.columns * product.depth
        block_rows = _whole(NEAR_PROGRAM_MULTIPLICATIONS // max(1, per_row), tile_rows, product.rows)
        columns = product.columns
        # Of such a right side each panel is read by one program, which needs no place in memory for it.
        once = not (product.kept or product.widens or is_open((product.rows,)))
        alone = pack and once and block_rows >= product.rows
    elif pack:
        # All rows of a block are multiplied by a panel while it is in the L1 or L2 cache, and are used again for the next one. They stay in
        # the L2 cache only if panels and results that are streamed through it do not evict them.
        rows_bytes = target.l2_bytes // 4
        near_depth = PART_DEPTH if product.rows > PACK_FROM_ROWS else PART_DEPTH // 2
        row_bytes = min(product.depth, near_depth) * item
        alone = not few and not product.kept and product.rows * row_bytes <= rows_bytes
        if not alone:
            panel_bytes = target.l1_bytes // 2
            if product.kept or product.rows > PACK_FROM_ROWS:
                # Reading the panel from the L2 cache costs less than sums that are stored until the rest of the depth.
                panel_bytes = max(panel_bytes, target.l2_bytes // 16)
            near_depth = panel_bytes // (tile_columns * item)
        if tile_rows >= usual(product.rows):
            near_depth = product.depth  # a panel is read once, in the order of memory
        depth = fixed(given, "depth", _depth(product.depth, near_depth, unroll))
        block_rows = product.rows if alone else _whole(rows_bytes // (depth * item), tile_rows, product.rows)
        columns = PROGRAM_MULTIPLICATIONS // max(1, block_rows * product.depth)
    else:
        depth = fixed(given, "depth", _depth(product.depth, 2 * unroll if few else FAR_DEPTH, unroll))
        block_rows = product.rows
        columns = PROGRAM_MULTIPLICATIONS // max(1, block_rows * product.depth)
        if few:
            columns = max(-(-product.columns // target.cores), RUN_BYTES // item)
        else:
            columns = max(columns, WAITING_BYTES // 4 // (block_rows * item))
    block = fixed_pair(given, "block")
    block_rows = block[0] if block else block_rows
    if alone and block_rows >= product.rows:
        part = _ceiling(min(target.l2_bytes // 8 // (depth * item), product.columns), tile_columns)
        columns = max(columns, part)
    part = fixed(given, "part", 0 if "pack" in given and "right" in sides else part)
    if part and "pack" not in given:
        sides = tuple([side for side in sides if side != "right"])  # no other program reads these columns
    work = product.rows * product.columns * product.depth
    batch = max(1, min(product.batch, PROGRAM_MULTIPLICATIONS // max(1, work)))
    others = -(-max(1, product.batch) // batch) * -(-product.rows // block_rows)
    columns = (
        block[1] if block else _even(product.columns, columns, part or tile_columns, others, target.cores)
    )
    return Panels(
        tile=tile,
        block=(block_rows, columns),
        depth=depth,
        unroll=unroll,
        pack=sides,
        part=part,
        batch=fixed(given, "batch", batch),
    )


def _steps(product: Product, target: Target, tile: tuple[int, int]) -> int:
    """Steps of the depth that are unrolled."""
    if not adds(product, target):
        # Products that are not added yet take registers, the more the more steps are unrolled.
        return 2 if product.words else 1
    lanes = target.lanes(item_bytes(product.accumulator))
    accumulators = tile[0] * tile[1] // lanes
    if tile[0] == 1:
        return UNROLL
    if tile[1] <= lanes:
        # As many elements of the left side as accumulators are read for each step: of several steps they take too many registers.
        # 300 x 300 by 8 columns take half the time with AVX2; other products of at most 13 rows as long as with 4 steps.
        return 1
    return next((steps for many, steps in UNROLL_MANY.items() if accumulators >= many), UNROLL)


def packed_by_program(product: Product, target: Target, tile: tuple[int, int], given: Given) -> Panels:
    """The same if a side is not stored as a matrix: each program packs blocks of it. If adjacent elements of the side are contiguous in
    memory, blocks consist of whole runs of them, or runs of whole blocks."""
    tile_rows, tile_columns = tile
    item = item_bytes(product.accumulator)
    product = in_words(product, target, ("left", "right"))
    lhs, rhs = product.lhs, product.rhs
    steps = _steps(product, target, tile)
    unroll = fixed(given, "unroll", gcd(steps, fixed(given, "depth", steps)))
    right_bytes = product.depth * product.columns * item
    depth = _ceiling(product.depth, unroll)
    if 2 * product.depth > 3 * PART_DEPTH and product.elements % product.group == 0:
        unit = unroll
        if isinstance(lhs, Implicit) and lhs.along_depth:
            run = _runs(lhs.run(lhs.depth), PART_DEPTH * product.group)
            unit = lcm(unroll, run // gcd(run, product.group))
        depth = _ceiling(min(product.depth, _depth(product.depth, PART_DEPTH, unroll)), unit)
    depth = fixed(given, "depth", depth)
    part = 0
    sides = ("left",) * (product.widens and not isinstance(lhs, Implicit))
    if (
        product.kept
        and not isinstance(rhs, Implicit)
        and product.columns > tile_columns
        and "part" not in given
    ):
        sides += ("right",)  # the same in all calls, so it is packed before the first
    sides = fixed_words(given, "pack", sides)
    once = "right" in sides
    if isinstance(rhs, Implicit):
        unit = lcm(tile_columns, _runs(rhs.run(rhs.across), PART_COLUMNS))
        wanted = target.l2_bytes // 4 // (depth * item)
        if is_open([rhs.run(rhs.across)]):
            # The end of a part divides a run: longer parts have fewer ends.
            wanted = max(wanted, min(PART_COLUMNS, PART_CACHES * target.l2_bytes // (depth * item)))
        part = _ceiling(product.columns, tile_columns)
        if part > max(wanted, unit):
            part = _ceiling(wanted, tile_columns)
            fits = unit * depth * item <= PART_CACHES * target.l2_bytes
            if unit <= PART_COLUMNS or (fits and rhs.cuts_short(rhs.across, part, part, target.lanes(item))):
                part = max(1, wanted // unit) * unit
    elif not once and (product.widens or not product.rhs_depth_first or right_bytes > NEAR_BYTES):
        part = _ceiling(min(target.l2_bytes // 4 // (depth * item), product.columns), tile_columns)
    part = fixed(given, "part", part)
    rows = target.l2_bytes // 2 // (depth * item)
    if isinstance(rhs, Implicit):
        rows = product.rows
    elif not part and not once:
        rows = min(rows, PROGRAM_MULTIPLICATIONS // (product.columns * depth))
    rows = max(rows, 4 * tile_rows)

    def whole(wanted: int) -> int:
        """About `wanted` rows, in whole tiles or runs."""
        if isinstance(lhs, Implicit) and not lhs.along_depth:
            return _whole(wanted, _runs(lhs.run(lhs.across), wanted), product.rows)
        return _whole(wanted, tile_rows, product.rows)

    columns = product.columns
    if isinstance(rhs, Implicit) or product.rows <= rows:
        columns = max(PROGRAM_MULTIPLICATIONS // (rows * product.depth), 8 * tile_columns)
    made = Panels(
        tile=tile,
        block=(whole(rows), _ceiling(min(columns, product.columns), part or tile_columns)),
        depth=depth,
        unroll=unroll,
        pack=sides,
        part=part,
        batch=fixed(given, "batch", 1),
    )
    return replace(made, block=fixed_pair(given, "block") or _shared(product, target, made, whole))


def _shared(product: Product, target: Target, made: Panels, whole: Callable[[int], int]) -> tuple[int, int]:
    """The block with which all cores finish the earliest, no larger than that of `made`: smaller ones are better balanced, but what
    several of them need is packed by each."""
    most_rows, most_columns = made.block
    batch, depth = -(-max(1, product.batch) // made.batch), product.depth
    each, lanes = rate(product, target), target.lanes(item_bytes(product.accumulator))
    unit = made.part or made.tile[1]
    counts = -(-product.rows // most_rows), -(-product.columns // most_columns)
    most = max(4 * target.cores, 2 * batch * counts[0] * counts[1])
    best = (inf, made.block)
    widths = _parts(product.columns, most_columns, most, lambda n: _ceiling(n, unit))
    for rows in _parts(product.rows, most_rows, most, whole):
        left, right = packing(product, made, target, rows)
        for columns in widths:
            programs = batch * -(-product.rows // rows) * -(-product.columns // columns)
            small = programs > most or rows * columns * depth < PROGRAM_MULTIPLICATIONS
            if small and (rows, columns) != made.block:
                continue
            # Vectors of the right side are loaded from the L2 cache while those before are multiplied.
            work = depth * max(rows * columns / each, columns / lanes * FAR_CYCLES)
            packed = product.elements * (rows * left + columns * right)
            cycles = -(-programs // target.cores) * (work + packed)
            if cycles < best[0]:
                best = (cycles, (rows, columns))
    return best[1]


def _parts(size: int, most: int, parts: int, whole: Callable[[int], int]) -> list[int]:
    """Lengths of at most `most` for parts of `size`: the longest, and shorter ones by halving until there are `parts`."""
    found = [most]
    count = -(-size // most)
    while (count := 2 * count) <= parts and (length := whole(-(-size // count))) < found[-1]:
        found.append(length)
    return found


def packing(product: Product, made: Panels, target: Target, block_rows: int) -> tuple[float, float]:
    """Cycles to pack an element of windows on the left and on the right, in blocks of this many rows: its share of the cost of a
    contiguous chunk and its vectors."""
    lhs, rhs = product.lhs, product.rhs
    rows, depth = min(product.rows, block_rows), min(product.elements, made.depth * product.group)

    def of(side: Implicit, along: int, size: int, length: int, item: int) -> float:
        piece = side.piece(along, length, length if size > length else 0)
        return (PIECE_CYCLES + -(-piece // target.lanes(item))) / piece

    left = right = 0.0
    if isinstance(lhs, Implicit):
        item = item_bytes(product.lhs_element)
        if lhs.along_depth:
            left = of(lhs, lhs.depth, product.elements, depth, item)
        else:
            left = of(lhs, lhs.across, product.rows, rows, item)
    if isinstance(rhs, Implicit):
        columns = min(product.columns, made.part)
        right = of(rhs, rhs.across, product.columns, columns, item_bytes(product.rhs_element))
    return left, right


def copying(product: Product, made: Panels, target: Target) -> float:
    """Cycles to pack windows: those on the left for each block of columns, those on the right for each block of rows."""
    left, right = packing(product, made, target, made.block[0])
    rows, columns = product.rows, product.columns
    row_blocks, column_blocks = -(-rows // made.block[0]), -(-columns // made.block[1])
    return product.elements * (column_blocks * rows * left + row_blocks * columns * right)


def product_conflicts(schedule: Schedule, product: Product, target: Target) -> Iterator[str]:
    """Why no kernel of a product can be built with a schedule."""
    implicit = product.implicit
    if not isinstance(schedule, Panels):
        if any(implicit):
            yield f"products of windows use 'panels', not '{schedule.by}'"
        return
    packs_right = bool(schedule.part) or "right" in schedule.pack
    if not (packs_right or implicit[1] or product.rhs_depth_first):
        yield "the right side is contiguous along its depth: it has to be packed, by a kernel (pack) or in parts (part)"
    if not any(implicit):
        return  # windows at one position are read in place
    for side, is_windows in zip(("left", "right"), implicit, strict=True):
        if is_windows and side in schedule.pack:
            yield f"the {side} operand consists of windows, which each program packs itself"
    if implicit[1] and not schedule.part:
        yield "the right operand consists of windows, which a program packs part by part (part above 0)"
    right = implicit[1] or packs_right
    words = in_words(product, target, {*schedule.packed, "left"})
    if words.words and words.elements % words.group and schedule.depth < words.depth:
        yield f"a depth of {words.elements} is not whole words of {words.group}: it is packed at once (depth = {words.depth})"
    if product.widens and not (right and (implicit[0] or "left" in schedule.pack)):
        yield f"windows are packed as {product.accumulator}, and the other operand must be packed too (part or pack)"


@lru_cache(maxsize=1024)
def _runs(run: int, most: int) -> int:
    """The length of a run of elements, or its greatest divisor up to `most`; 1 if the length is open."""
    if is_open([run]):
        return 1
    return max(d for d in range(1, min(run, max(1, most)) + 1) if run % d == 0)


def _packed(product: Product, target: Target, tile_columns: int, near: bool) -> tuple[str, ...]:
    """The sides that are read from packed copies."""
    right_bytes = product.depth * product.columns * item_bytes(product.rhs_element)
    # A single panel is stored as it would be packed, and a side in the L1 cache is read fast as it is.
    several = product.columns > tile_columns and right_bytes > target.l1_bytes
    from_rows = PACK_FROM_ROWS if near else PACK_FAR_FROM_ROWS
    # Rows of a matrix that is a part of others may conflict in a few sets of the cache.
    distance = usual(product.rhs.distance) if isinstance(product.rhs, Strided) else 0
    distance = distance * item_bytes(product.rhs_element)
    crowded = distance > 0 and product.depth > target.l1_ways * distinct_cache_sets(target, distance)
    right = product.kept and product.columns > tile_columns
    right |= not product.rhs_depth_first or (
        product.rows > (FEW_ROWS if crowded else from_rows) and (several or crowded)
    )
    # In a left side stored depth x rows, the elements of a register tile are in many pages.
    left_bytes = product.rows * product.depth * item_bytes(product.lhs_element)
    left = product.lhs_depth_first and left_bytes > NEAR_BYTES and product.columns > PACK_FROM_COLUMNS
    # Converting an element costs more than computing with it, so it should be done once; and for both sides.
    enough = product.rows >= PACK_FAR_FROM_ROWS and product.columns >= PACK_FROM_COLUMNS
    if product.widens and (enough or right or left):
        atom = product.dot_atom(target)
        left, right = atom is None or not lies_in_words(product, atom), True
    return ("left",) * left + ("right",) * right


def _ceiling(size: int, unit: int) -> int:
    """`size` rounded up to a multiple of `unit`, at least one unit."""
    return max(1, -(-size // unit)) * unit


def _whole(wanted: int, unit: int, size: int) -> int:
    """`wanted` rounded up to a multiple of `unit`, at least one unit, but not beyond `size`."""
    return min(size, _ceiling(wanted, unit))


def _even(size: int, wanted: int, unit: int, others: int, cores: int) -> int:
    """About `wanted` of `size` for each program, in equal multiples of `unit`. If there are few programs, `others` for each part of
    `size`, all cores get as many."""
    count = -(-size // max(1, wanted))
    if 1 < others * count < 4 * cores:
        programs = -(-others * count // cores) * cores
        count = min(2 * count, -(-programs // others))
    return _ceiling(-(-size // count), unit)


def _depth(depth: int, most: int, unit: int) -> int:
    """Equal blocks of the depth; one costs less than two with sums that are stored between them."""
    blocks = 1 if depth <= 2 * most else -(-depth // most)
    return _ceiling(-(-depth // blocks), unit)
