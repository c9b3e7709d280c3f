# SPDX-License-Identifier: Apache-2.0
"""Matrix product kernels for a CPU: register tiles over packed panels, with fused epilogue.

A program owns a block of rows and columns. It walks the columns in panels as wide as a few registers, and each
panel in register tiles of rows: one tile of accumulators stays in registers over a block of the depth, and
after the last one the epilogue is computed on it before it is stored. Between blocks of the depth the sums wait
in scratch. Rows are split evenly (64 rows by at most 14 are 13+13+13+13+12, never 14+14+14+14+8). A right side
whose rows are not contiguous along the columns, or that many rows of the left one meet, is packed first into
panels by a kernel of its own, so that it can be packed once and kept: rows that lie apart crowd a few sets of
the cache. No sum depends on how the work was shared.
Blocking as in Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...ir.core import Op, Value
from ...ir.literals import item_bytes
from ...ir.types import MemRefType, VectorType
from ...support.target import Target
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
#: Rows that are worth a packed copy of a right side that could be read where it lies.
PACK_FROM_ROWS = 96
#: Columns that are worth a packed copy of a large left side stored depth x rows.
PACK_FROM_COLUMNS = 32
#: With so few rows the right side is read in the order in which it lies, a few of its rows at a time.
FEW_ROWS = 8
#: Depth of a block whose panels come from a near cache, and of one that is read where it lies far away.
NEAR_DEPTH, FAR_DEPTH = 512, 64
#: Bytes of the right side that one program reads where rows are few: memory is what takes time then, and the runs
#: of bytes that are read one after the other must not become too short.
PROGRAM_BYTES, RUN_BYTES = 1 << 19, 1 << 11
#: Bytes of sums that wait between blocks of the depth.
WAITING_BYTES = 1 << 16


@dataclass(frozen=True)
class Blocking:
    """The register tile, what one program owns, how deep it goes at once, and which sides are packed."""

    tile_rows: int
    tile_columns: int
    block_rows: int
    block_columns: int
    depth: int
    pack: tuple[bool, bool]


def blocking(product: Product, target: Target) -> Blocking:
    """The register tile that keeps the most accumulators in registers with the fewest loads, and blocks for
    which the caches hold what is read again."""
    item = item_bytes(product.accumulator)
    lanes = target.lanes(item)
    free = target.vector_registers - 2
    wide = (
        4
        if target.vector_registers >= 32
        else 1
        if target.vector_bytes * target.vector_registers < 1024
        else 2
    )
    right_bytes = product.depth * product.columns * item_bytes(product.element)
    near = right_bytes <= NEAR_BYTES
    few = product.rows <= FEW_ROWS
    if product.rows == 1:
        wide = free - 4 if near else 8
    elif few and not near:
        wide = min(wide, 2)
    vectors = min(wide, -(-product.columns // lanes))
    tile_rows = max(1, min(product.rows, (free - vectors) // vectors))
    tile_columns = vectors * lanes
    # A single panel lies as it would be packed, and what the nearest cache holds is read fast as it is.
    apart = product.columns > tile_columns and right_bytes > target.l1_bytes
    pack = not product.rhs_depth_first or (product.rows > PACK_FROM_ROWS and apart)
    # A left side stored depth x rows has what a tile reads all over many pages.
    left_bytes = product.rows * product.depth * item_bytes(product.element)
    pack_left = product.lhs_depth_first and left_bytes > NEAR_BYTES and product.columns > PACK_FROM_COLUMNS
    if near:
        depth = product.depth
        per_row = product.columns * product.depth
        block_rows = _whole(NEAR_PROGRAM_MULTIPLICATIONS // max(1, per_row), tile_rows, product.rows)
        return Blocking(tile_rows, tile_columns, block_rows, product.columns, depth, (pack_left, pack))
    if pack:
        depth = _depth(product.depth, NEAR_DEPTH)
        block_rows = _whole(target.l2_bytes // 4 // (depth * item), tile_rows, product.rows)
    else:
        depth = _depth(product.depth, 2 * UNROLL if few else FAR_DEPTH)
        block_rows = product.rows
    columns = PROGRAM_MULTIPLICATIONS // max(1, block_rows * product.depth)
    if few:
        columns = min(columns, max(PROGRAM_BYTES // (product.depth * item), RUN_BYTES // item))
    elif not pack:
        columns = max(columns, WAITING_BYTES // 4 // (block_rows * item))
    block_columns = _whole(columns, tile_columns, product.columns)
    return Blocking(tile_rows, tile_columns, block_rows, block_columns, depth, (pack_left, pack))


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
            self.tiles(rows, columns, lambda i, m, j, n: self.direct(b.add(row, i), m, b.add(column, j), n))
            return
        sums = b.alloc(type=MemRefType((rows, columns), self.product.accumulator, None, 0, 3))

        def part(m: int, n: int) -> VectorType:
            return VectorType((m, n), self.product.accumulator)

        def deeper(i: Value, m: int, j: Value, n: int, first: Value, last: Value) -> None:
            total = b.load(sums, [i, j], type=part(m, n))
            b.store(self.deep(total, b.add(row, i), m, b.add(column, j), n, first, last), sums, [i, j])

        def along(first: Value, _: object) -> tuple[()]:
            last = b.minimum(b.add(first, b.index(step)), b.index(depth // UNROLL * UNROLL))
            self.tiles(rows, columns, lambda i, m, j, n: deeper(i, m, j, n, first, last))
            return ()

        def end(i: Value, m: int, j: Value, n: int) -> None:
            total = b.load(sums, [i, j], type=part(m, n))
            self.finish(total, b.add(row, i), m, b.add(column, j), n)

        def clear(i: Value, m: int, j: Value, n: int) -> None:
            b.store(b.number(0, part(m, n)), sums, [i, j])

        self.tiles(rows, columns, clear)
        b.loop(0, depth // UNROLL * UNROLL, step, (), along)
        self.tiles(rows, columns, end)

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

    def direct(self, row: Value, rows: int, column: Value, columns: int) -> None:
        """One register tile: the whole depth, then the epilogue."""
        b = self.b
        full = self.product.depth // UNROLL * UNROLL
        total = b.number(0, VectorType((rows, columns), self.product.accumulator))
        if full:
            total = self.deep(total, row, rows, column, columns, b.index(0), b.index(full))
        self.finish(total, row, rows, column, columns)

    def deep(
        self, total: Value, row: Value, rows: int, column: Value, columns: int, first: Value, last: Value
    ) -> Value:
        """The sums of a register tile and what a range of the depth adds."""

        def step(k: Value, sums: Sequence[Value]) -> list[Value]:
            return [self.step(sums[0], row, rows, column, columns, k, UNROLL)]

        return self.b.loop(first, last, UNROLL, [total], step)[0]

    def step(
        self, total: Value, row: Value, rows: int, column: Value, columns: int, k: Value, size: int
    ) -> Value:
        return self.b.dot_tile(self.left(row, rows, k, size), self.right(column, columns, k, size), total)

    def finish(self, total: Value, row: Value, rows: int, column: Value, columns: int) -> None:
        """The rest of the depth, and the epilogue."""
        depth = self.product.depth
        full = depth // UNROLL * UNROLL
        if depth > full:
            total = self.step(total, row, rows, column, columns, self.b.index(full), depth - full)
        store_epilogue(self.kernel, self.dot, self.product, self.batch, row, rows, column, columns, total)

    def left(self, row: Value, rows: int, k: Value, size: int) -> Value:
        type = VectorType((rows, size), self.product.element)
        first = len(self.batch)
        if self.blocks.pack[0]:
            width = self.b.index(LEFT_WIDTH)
            at = [self.b.floor_divide(k, width), row, self.b.remainder(k, width)]
            return self.b.load(self.lhs, [*self.batch, *at], type=type)
        if self.product.lhs_depth_first:
            return self.b.load(self.lhs, [*self.batch, k, row], type=type, dims=[first + 1, first])
        return self.b.load(self.lhs, [*self.batch, row, k], type=type)

    def right(self, column: Value, columns: int, k: Value, size: int) -> Value:
        type = VectorType((size, columns), self.product.element)
        b = self.b
        if not self.blocks.pack[1]:
            return b.load(self.rhs, [*self.batch, k, column], type=type)
        panel = b.floor_divide(column, b.index(self.blocks.tile_columns))
        return b.load(self.rhs, [*self.batch, panel, k, b.index(0)], type=type)
