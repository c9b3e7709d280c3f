# SPDX-License-Identifier: Apache-2.0
"""How a CPU's matrix products are cut: the register tile, the blocks, and what is packed. `panels.py` builds what is
chosen here."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from ...ir.literals import item_bytes
from ...support.target import Target
from .product import Product, split

#: Steps of the depth loop that are written out.
UNROLL = 4
#: Depth of a panel of a packed left side.
LEFT_WIDTH = 64
#: Multiplications of one program on a CPU: some tens of microseconds.
PROGRAM_MULTIPLICATIONS = 1 << 21
#: The same where the right side is near for every program: shorter, so that small products use all cores.
NEAR_PROGRAM_MULTIPLICATIONS = 1 << 19
#: Bytes of a right side that lies in a near cache whatever is done.
NEAR_BYTES = 1 << 19
#: Rows that are worth a packed copy of a right side that could be read where it lies near.
PACK_FROM_ROWS = 96
#: The same where it lies far away, or holds elements that would be widened for each row.
PACK_FAR_FROM_ROWS = 12
#: Columns that are worth a packed copy of a large left side stored depth x rows, or of elements to be widened.
PACK_FROM_COLUMNS = 32
#: With so few rows the right side is read in the order in which it lies, a few of its rows at a time.
FEW_ROWS = 8
#: Depth of a block whose panels come from a near cache, and of one that is read where it lies far away.
NEAR_DEPTH, FAR_DEPTH = 512, 64
#: Bytes of each row of the right side that one program reads at least, where rows are few: memory is what takes time
#: then, and it wants to be read in long runs.
RUN_BYTES = 1 << 11
#: Bytes of sums that wait between blocks of the depth.
WAITING_BYTES = 1 << 16


@dataclass(frozen=True)
class Blocking:
    """The register tile, what one program owns, how deep it goes at once, and which sides are packed.

    `pack`: sides that kernels of their own pack before; `part`: columns of the right side that a program packs by
    itself at once, over one block of the depth (0: none).
    """

    tile_rows: int
    tile_columns: int
    block_rows: int
    block_columns: int
    depth: int
    pack: tuple[bool, bool]
    part: int = 0


def blocking(product: Product, target: Target) -> Blocking:
    """The register tile that keeps the most accumulators in registers with the fewest loads, and blocks for
    which the caches hold what is read again."""
    item = item_bytes(product.accumulator)
    right_bytes = product.depth * product.columns * item_bytes(product.element)
    near, few = right_bytes <= NEAR_BYTES, product.rows <= FEW_ROWS
    # Where memory is what takes time, the next rows should come before many columns of these.
    widest = max(2, 4 // product.rows) if few and not near else target.vector_registers
    tile_rows, vectors = register_tile(product, target, widest)
    tile_columns = vectors * target.lanes(item)
    # A single panel lies as it would be packed, and what the nearest cache holds is read fast as it is.
    apart = product.columns > tile_columns and right_bytes > target.l1_bytes
    from_rows = PACK_FROM_ROWS if near else PACK_FAR_FROM_ROWS
    pack = not product.rhs_depth_first or (product.rows > from_rows and apart)
    # A left side stored depth x rows has what a tile reads all over many pages.
    left_bytes = product.rows * product.depth * item_bytes(product.element)
    pack_left = product.lhs_depth_first and left_bytes > NEAR_BYTES and product.columns > PACK_FROM_COLUMNS
    # Converting an element costs more than computing with it, so that it should be done once; and for both sides.
    enough = product.rows >= PACK_FAR_FROM_ROWS and product.columns >= PACK_FROM_COLUMNS
    if product.element is not product.accumulator and (enough or pack or pack_left):
        pack = pack_left = True
    sides = (pack_left, pack)
    if near:
        depth = product.depth
        per_row = product.columns * product.depth
        block_rows = _whole(NEAR_PROGRAM_MULTIPLICATIONS // max(1, per_row), tile_rows, product.rows)
        return Blocking(tile_rows, tile_columns, block_rows, product.columns, depth, sides)
    if pack:
        depth = _depth(product.depth, NEAR_DEPTH)
        block_rows = _whole(target.l2_bytes // 4 // (depth * item), tile_rows, product.rows)
    else:
        depth = _depth(product.depth, 2 * UNROLL if few else FAR_DEPTH)
        block_rows = product.rows
    columns = PROGRAM_MULTIPLICATIONS // max(1, block_rows * product.depth)
    part = 0
    if pack and block_rows == product.rows and not few:
        # Nobody else reads these columns.
        sides = (sides[0], False)
        part = _whole(target.l2_bytes // 4 // (depth * item), tile_columns, product.columns)
        columns = max(columns, part)
    elif few:
        columns = max(-(-product.columns // target.cores), RUN_BYTES // item)
    elif not pack:
        columns = max(columns, WAITING_BYTES // 4 // (block_rows * item))
    block_columns = _whole(columns, part or tile_columns, product.columns)
    return Blocking(tile_rows, tile_columns, block_rows, block_columns, depth, sides, part)


def register_tile(product: Product, target: Target, widest: int) -> tuple[int, int]:
    """Rows and vectors of the accumulators that stay in registers, of at most `widest` vectors.

    The tile with which the whole product takes the fewest cycles: each step of the depth begins a multiply-add per
    accumulator, a load per vector and one per row, and no accumulator is added to again before its sum is there.
    Of equal ones that with the fewest loads.
    """
    lanes = target.lanes(item_bytes(product.accumulator))
    columns = -(-product.columns // lanes)  # in vectors

    def cycles(rows: int, vectors: int) -> float:
        return max(rows * vectors / target.fmas, (rows + vectors) / target.loads, target.fma_cycles)

    def cost(tile: tuple[int, int]) -> tuple[float, float]:
        most, wide = tile
        panels = [(columns // wide, wide), (1, columns % wide)]
        tiles = [(n * m, rows, v) for n, rows in split(product.rows, most) for m, v in panels if m and v]
        loads = sum(count * (rows + v) for count, rows, v in tiles)
        return sum(count * cycles(rows, v) for count, rows, v in tiles), loads

    def fits(rows: int, vectors: int) -> bool:
        """Beside the accumulators: a row of the right side, unless that is used once, an element of the left, and what
        register allocation has to have in hand: one in sixteen."""
        used = rows * vectors + (vectors if rows > 1 else 0) + 1
        return used + target.vector_registers // 16 <= target.vector_registers

    tiles = [
        (rows, vectors)
        for vectors in range(1, min(widest, columns, target.vector_registers) + 1)
        for rows in range(1, min(product.rows, target.vector_registers, _rows_beside(product, target)) + 1)
        if fits(rows, vectors)
    ]
    return min(tiles, key=cost)


def _rows_beside(product: Product, target: Target) -> int:
    """How many rows of the left side can be read at once before they drive each other out of the near cache: rows whose
    distance is a multiple of what one way holds share its sets. Two ways are left to the rest."""
    if product.lhs_depth_first:
        return target.vector_registers
    way = target.l1_bytes // target.l1_ways
    distance = product.depth * item_bytes(product.element)
    return max(1, target.l1_ways - 2) * (way // gcd(way, distance))


def _whole(wanted: int, unit: int, size: int) -> int:
    """About `wanted`, in whole units, at least one of them and not beyond `size`."""
    return min(size, max(1, -(-wanted // unit)) * unit)


def _depth(depth: int, most: int) -> int:
    """Equal blocks of the depth; one that is hardly too deep stays whole."""
    if 2 * depth <= 3 * most:
        return depth
    blocks = -(-depth // most)
    return -(-depth // (blocks * UNROLL)) * UNROLL
