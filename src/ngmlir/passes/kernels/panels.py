# SPDX-License-Identifier: Apache-2.0
"""Matrix product kernels for a CPU: register tiles over packed panels, with fused epilogue.

A program owns a block of rows and columns. It walks the columns in panels as wide as a few registers, and each
panel in register tiles of rows: one tile of accumulators stays in registers over a block of the depth, and
after the last one the epilogue is computed on it before it is stored. Between blocks of the depth the sums wait
in scratch. Rows are split evenly (64 rows by at most 14 are 13+13+13+13+12, never 14+14+14+14+8). A right side
whose rows are not contiguous along the columns, or that many rows of the left one meet, is packed first into
panels: rows that lie apart crowd a few sets of the cache, and elements of f16 and bf16 are widened once on the way.
Where several programs read the same columns, a kernel of its own packs them, so that it is done once and can be
kept; else each program packs, block by block, what it is about to read. No sum depends on how the work was shared.
Blocking as in Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd

from ...ir.core import Op, Value
from ...ir.literals import item_bytes
from ...ir.types import MemRefType, VectorType
from ...support.target import Target
from .packing import ROWS, Panel, right_side
from .plan import Kernel, Plan
from .product import Product, split, store_epilogue

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


# ---- the kernel --------------------------------------------------------------------------------------------


class PanelKernel:
    """Builds the kernel of one product; its extra inputs are the two sides, packed if so."""

    def __init__(
        self,
        planned: Plan,
        target: Target,
        dot: Op,
        product: Product,
        sides: Sequence[MemRefType],
        blocks: Blocking,
    ):
        self.dot, self.product, self.blocks = dot, product, blocks
        self.row_programs = -(-product.rows // blocks.block_rows)
        self.column_programs = -(-product.columns // blocks.block_columns)
        work = product.rows * product.columns * product.depth
        self.batch_block = max(1, min(product.batch, PROGRAM_MULTIPLICATIONS // max(1, work)))
        batch_programs = -(-product.batch // self.batch_block)
        sizes = (batch_programs, self.row_programs, self.column_programs)
        self.kernel = Kernel(planned, target, [size for size in sizes if size > 1], sides)
        self.b = self.kernel.b
        programs = iter(self.kernel.programs)
        self.places = [next(programs) if size > 1 else self.b.index(0) for size in sizes]
        self.lhs, self.rhs = self.kernel.extra
        self.batch: list[Value] = []

    def build(self, name: str) -> Op:
        b, product, blocks = self.b, self.product, self.blocks
        if blocks.part:
            panels = -(-blocks.part // blocks.tile_columns)
            shape = (panels, min(blocks.depth, product.depth), blocks.tile_columns)
            self.packed = b.alloc(type=MemRefType(shape, product.accumulator, None, 0, 3))

        def shares() -> None:
            self.share(1, product.rows, blocks.block_rows, lambda row, rows: (
                self.share(2, product.columns, blocks.block_columns, lambda column, columns: (
                    self.block(row, rows, column, columns)))))  # fmt: skip

        def element(i: Value, _: object) -> tuple[()]:
            self.batch = [i]
            shares()
            return ()

        if product.batch:
            start = b.multiply(self.places[0], b.index(self.batch_block))
            stop = b.minimum(b.add(start, b.index(self.batch_block)), b.index(product.batch))
            b.loop(start, stop, 1, (), element)
        else:
            shares()
        return self.kernel.finish(name)

    def share(self, which: int, size: int, block: int, body: Callable[[Value, int], None]) -> None:
        """This program's part of the rows or columns; the last part may be smaller."""
        b = self.b
        if size <= block:
            body(b.index(0), size)
            return
        start = b.multiply(self.places[which], b.index(block))
        rest = size % block
        if rest == 0:
            body(start, block)
            return
        whole = b.less(self.places[which], b.index(size // block))
        b.branch(whole, lambda: body(start, block), lambda: body(start, rest))

    def block(self, row: Value, rows: int, column: Value, columns: int) -> None:
        """A block of the result: all of the depth at once, or a block of it after the other."""
        b, depth, step = self.b, self.product.depth, self.blocks.depth
        if depth <= step:

            def all_of(at: Value, size: int) -> None:
                here = b.add(column, at)
                self.tiles(rows, size, lambda i, m, j, n: self.direct(b.add(row, i), m, b.add(here, j), n, j))

            self.parts(columns, b.index(0), depth, column, all_of)
            return
        sums = b.alloc(type=MemRefType((rows, columns), self.product.accumulator, None, 0, 3))

        def part(m: int, n: int) -> VectorType:
            return VectorType((m, n), self.product.accumulator)

        def clear(i: Value, m: int, j: Value, n: int) -> None:
            b.store(b.number(0, part(m, n)), sums, [i, j])

        def deeper(first: Value, size: int, at: Value, part_columns: int) -> None:
            def tile(i: Value, m: int, j: Value, n: int) -> None:
                place = [i, b.add(at, j)]
                here = b.add(column, place[1])
                total = b.load(sums, place, type=part(m, n))
                b.store(self.deep(total, b.add(row, i), m, here, n, j, first, size), sums, place)

            self.tiles(rows, part_columns, tile)

        def along(first: Value, size: int) -> tuple[()]:
            self.parts(columns, first, size, column, lambda at, n: deeper(first, size, at, n))
            return ()

        def end(i: Value, m: int, j: Value, n: int) -> None:
            total = b.load(sums, [i, j], type=part(m, n))
            self.finish(total, b.add(row, i), m, b.add(column, j), n)

        self.tiles(rows, columns, clear)
        full = depth // step * step
        b.loop(0, full, step, (), lambda first, _: along(first, step))
        if depth > full:
            along(b.index(full), depth - full)
        self.tiles(rows, columns, end)

    def parts(
        self, columns: int, first: Value, depth: int, column: Value, body: Callable[[Value, int], None]
    ) -> None:
        """Runs over the columns of a block, and packs those of each part before: `body(column of the block, columns)`."""
        b, size = self.b, self.blocks.part
        if not size:
            body(b.index(0), columns)
            return

        def one(at: Value, width: int) -> tuple[()]:
            self.pack(first, depth, b.add(column, at), width)
            body(at, width)
            return ()

        full = columns // size * size
        if full == size:
            one(b.index(0), size)
        elif full:
            b.loop(0, full, size, (), lambda at, _: one(at, size))
        if columns > full:
            one(b.index(full), columns - full)

    def pack(self, first: Value, depth: int, column: Value, columns: int) -> None:
        """Copies a part of the right side into panels, in the order in which it lies."""
        b, width = self.b, self.blocks.tile_columns
        packing = right_side(self.product, width)
        full = columns // width

        def panel(number: Value, size: int) -> Panel:
            return Panel(b, packing, self.rhs, self.batch, self.packed, [number], size)

        def whole(number: Value, _: object) -> tuple[()]:
            panel(number, width).copy(first, depth, b.add(column, b.multiply(number, b.index(width))))
            return ()

        def band(row: Value, rows: int) -> tuple[()]:
            def some(number: Value, size: int) -> tuple[()]:
                place = b.add(column, b.multiply(number, b.index(width)))
                return panel(number, size).band(first, row, rows, place)

            if full:
                b.loop(0, full, 1, (), lambda number, _: some(number, width))
            if columns > full * width:
                some(b.index(full), columns - full * width)
            return ()

        if packing.turned:
            if full:
                b.loop(0, full, 1, (), whole)
            if columns > full * width:
                rest = columns - full * width
                panel(b.index(full), rest).copy(first, depth, b.add(column, b.index(full * width)))
            return
        bands = depth // ROWS * ROWS
        if bands:
            b.loop(0, bands, ROWS, (), lambda row, _: band(row, ROWS))
        if depth > bands:
            band(b.index(bands), depth - bands)

    def tiles(self, rows: int, columns: int, body: Callable[[Value, int, Value, int], None]) -> None:
        """Runs over the register tiles of a block, panel by panel: `body(row, rows, column, columns)`."""
        b, width = self.b, self.blocks.tile_columns
        parts = split(rows, self.blocks.tile_rows)

        def panel(column: Value, size: int) -> tuple[()]:
            done = 0
            for count, tile_rows in parts:
                stop = done + count * tile_rows
                if count == 1:
                    body(b.index(done), tile_rows, column, size)
                else:
                    b.loop(
                        done, stop, tile_rows, (), lambda i, _, m=tile_rows: body(i, m, column, size) or ()
                    )
                done = stop
            return ()

        full = columns // width * width
        if full == width:
            panel(b.index(0), width)
        elif full:
            b.loop(0, full, width, (), lambda j, _: panel(j, width))
        if columns > full:
            panel(b.index(full), columns - full)

    def direct(self, row: Value, rows: int, column: Value, columns: int, place: Value) -> None:
        """One register tile: the whole depth, then the epilogue."""
        total = self.b.number(0, VectorType((rows, columns), self.product.accumulator))
        total = self.deep(total, row, rows, column, columns, place, self.b.index(0), self.product.depth)
        self.finish(total, row, rows, column, columns)

    def deep(
        self, total: Value, row: Value, rows: int, column: Value, columns: int, place: Value, first: Value, depth: int
    ) -> Value:  # fmt: skip
        """The sums of a register tile and what `depth` steps from `first` on add; `place`: its column in what is packed."""
        b, full = self.b, depth // UNROLL * UNROLL

        def step(k: Value, total: Value, size: int) -> Value:
            left = self.left(row, rows, b.add(first, k), size)
            return b.dot_tile(left, self.right(column, columns, place, first, k, size), total)

        if full:
            (total,) = b.loop(0, full, UNROLL, [total], lambda k, sums: [step(k, sums[0], UNROLL)])
        return step(b.index(full), total, depth - full) if depth > full else total

    def finish(self, total: Value, row: Value, rows: int, column: Value, columns: int) -> None:
        """The epilogue."""
        store_epilogue(self.kernel, self.dot, self.product, self.batch, row, rows, column, columns, total)

    def left(self, row: Value, rows: int, k: Value, size: int) -> Value:
        """A tile of rows by `size` of the depth."""
        b, first = self.b, len(self.batch)
        if self.blocks.pack[0]:
            width = b.index(LEFT_WIDTH)
            at = [b.floor_divide(k, width), row, b.remainder(k, width)]
            return b.load(
                self.lhs, [*self.batch, *at], type=VectorType((rows, size), self.product.accumulator)
            )
        type = VectorType((rows, size), self.product.element)
        if self.product.lhs_depth_first:
            return b.load(self.lhs, [*self.batch, k, row], type=type, dims=[first + 1, first])
        return b.load(self.lhs, [*self.batch, row, k], type=type)

    def right(self, column: Value, columns: int, place: Value, first: Value, k: Value, size: int) -> Value:
        """A tile of `size` of the depth, from `first` + `k` on, by columns."""
        b, width = self.b, self.blocks.tile_columns
        if self.blocks.part or self.blocks.pack[1]:
            type = VectorType((size, columns), self.product.accumulator)
            if self.blocks.part:
                return b.load(self.packed, [b.floor_divide(place, b.index(width)), k, b.index(0)], type=type)
            panel = b.floor_divide(column, b.index(width))
            return b.load(self.rhs, [*self.batch, panel, b.add(first, k), b.index(0)], type=type)
        type = VectorType((size, columns), self.product.element)
        return b.load(self.rhs, [*self.batch, b.add(first, k), column], type=type)
