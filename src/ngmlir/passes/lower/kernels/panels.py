# SPDX-License-Identifier: Apache-2.0
"""Matrix product kernels for a CPU: register tiles over packed panels, with fused epilogue.

A program computes a block of rows and columns. It visits the columns in panels as wide as a few registers, and each
panel in register tiles of rows: one tile of accumulators stays in registers over a block of the depth, and
after the last one the epilogue is computed on it before it is stored. Between blocks of the depth the sums are
in scratch. Rows are split evenly (64 rows by at most 14 are 13+13+13+13+12, never 14+14+14+14+8). A right side
whose rows are not contiguous along the columns, or that is multiplied by many rows of the left one, is packed first
into panels: rows at large distances conflict in a few sets of the cache, and elements of f16 and bf16 are widened once
while packing. If several programs read the same columns, a separate kernel packs them, so that it is done once and can
be kept; otherwise each program packs, block by block, what it reads next. No sum depends on how the work is divided.
The schedule states all sizes; the method is that of Goto and van de Geijn, "Anatomy of High-Performance Matrix
Multiplication" (2008).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ....ir.core import Op, Value
from ....ir.literals import item_bytes
from ....ir.types import MemRefType, VectorType, element_type, shape_of
from ....ops.schedules import Panels
from ....support.lengths import is_multiple, is_open, usual
from ....support.target import Target
from ...analysis.loop_nest import LoopNest
from ...analysis.product import Product
from .epilogue import store_epilogue
from .extents import Extent
from .finished import Finished
from .fusion_kernel import Kernel
from .packing import LINE_BYTES, Panel, right_side
from .reading import Matrix
from .tiling import Span, several

#: Panels that are multiplied once are prefetched from so many multiplications of a line on: with fewer, loads far enough ahead are in
#: flight. On a Zen 4, 4096 x 4096 of f32 by 4 rows (4 of a line) take 1.99 ms, prefetched 2.6; by 6 rows 2.89 and 2.46; in vectors of 32 bytes
#: by 2 rows (4 of a line) 2.20 and 2.18; by 4 rows 3.69 and 2.50.
_MULTIPLIED_LINE = 5
#: How many bytes ahead: measured there, 2048 and 8192 are up to 12 % slower.
_AHEAD = 4096


def blocks_of(schedule: Panels, product: Product) -> tuple[int, int]:
    """Rows and columns of a program. If their number is open, whole tiles: only the last program has less."""
    (rows, columns), (tile_rows, tile_columns) = schedule.block, schedule.tile
    if is_open((product.rows,)):
        rows = -(-rows // tile_rows) * tile_rows
    if is_open((product.columns,)):
        unit = schedule.part or tile_columns
        columns = -(-columns // unit) * unit
    return rows, columns


class PanelKernel:
    """Builds the kernel of one product; its extra inputs are the two sides, packed or not."""

    def __init__(
        self,
        nest: LoopNest,
        target: Target,
        schedule: Panels,
        dot: Op,
        product: Product,
        sides: Sequence[MemRefType],
        kernel: Kernel | None = None,
    ):
        self.dot, self.product, self.schedule = dot, product, schedule
        self.tile_rows, self.tile_columns = schedule.tile
        self.block_rows, self.block_columns = blocks_of(schedule, product)
        #: Whether the columns of the result may end within the current tile.
        self.masked = False
        sizes = (
            -(-product.batch // schedule.batch),
            -(-product.rows // self.block_rows),
            -(-product.columns // self.block_columns),
        )
        self.kernel = kernel or Kernel(nest, target, several(sizes), sides)
        self.b = self.kernel.b
        self.places = self.kernel.program_indices(sizes) if kernel is None else [self.b.index(0)] * len(sizes)
        self.lhs, self.rhs = self.kernel.extra[:2]
        if product.words and "left" not in schedule.pack and not any(product.implicit):
            whole = (product.rows, product.depth)
            type = MemRefType((product.batch, *whole) if product.batch else whole, product.packed_element)
            self.lhs = self.b.view(self.lhs, offset=0, type=type)
        self.batch: list[Value] = []
        self.first_row = self.b.index(0)
        self.left_matrix = Matrix(self.b, self.lhs, (), None)
        self.right_matrix = Matrix(self.b, self.rhs, (), None)

    def build(self) -> Finished:
        b, product = self.b, self.product
        self.allocate()

        def shares(batch: list[Value]) -> None:
            self.batch = batch
            self.left_matrix = Matrix(b, self.lhs, self.batch, product.lhs)
            self.right_matrix = Matrix(b, self.rhs, self.batch, product.rhs)
            self.share(1, product.rows, self.block_rows, lambda row, rows: (
                self.share(2, product.columns, self.block_columns, lambda column, columns: (
                    self.block(row, rows, column, columns)))))  # fmt: skip

        self.kernel.each_product(self.places[0], self.schedule.batch, product.batch, shares)
        return self.kernel.done()

    def allocate(self) -> None:
        """Allocates scratch for what this program packs."""
        product, schedule = self.product, self.schedule
        if schedule.part:
            panels = schedule.part // self.tile_columns
            depth = schedule.depth if is_open((product.depth,)) else min(schedule.depth, product.depth)
            shape = (panels, depth, self.tile_columns)
            self.packed = self.b.alloc(type=MemRefType(shape, product.packed_right, None, 0, 3))

    def prepare(self, row: Value, rows: Extent, first: Value, depth: int) -> None:
        """Called before a block of rows is multiplied over `depth` steps of the depth, from `first` on."""

    def share(self, which: int, size: int, block: int, body: Callable[[Value, Extent], None]) -> None:
        """Runs over this program's part of the rows or columns; the last part may be smaller."""
        b = self.b
        if not is_open((size,)) and size <= block:
            body(b.index(0), Extent(b, size))
            return
        start = b.multiply(self.places[which], b.index(block))
        if is_multiple(size, block):
            body(start, Extent(b, block))
            return
        rest = size % block
        body(start, Extent(b, block, rest, b.less(self.places[which], b.index(size // block))))

    def block(self, row: Value, rows: Extent, column: Value, columns: Extent) -> None:
        """A block of the result: all of the depth at once, or one block of it after the other."""
        b, depth, step = self.b, self.product.depth, self.schedule.depth
        self.first_row = row
        # Scratch for packing has the size of one block of the depth.
        packs = self.schedule.part > 0 or any(self.product.implicit)
        if usual(depth) <= step and not (packs and is_open((depth,))):

            def all_of(at: Value, size: Extent) -> None:
                here = b.add(column, at)
                self.tiles(rows, size, lambda i, m, j, n: self.direct(b.add(row, i), m, b.add(here, j), n, j))

            self.prepare(row, rows, b.index(0), depth)
            self.parts(columns, b.index(0), depth, column, all_of)
            return
        sums = b.alloc(type=MemRefType((rows.most, columns.most), self.product.accumulator, None, 0, 3))

        def part(m: int, n: int) -> VectorType:
            return VectorType((m, n), self.product.accumulator)

        def clear(i: Value, m: int, j: Value, n: int) -> None:
            b.store(b.number(0, part(m, n)), sums, [i, j])

        def deeper(first: Value, size: int, at: Value, part_columns: Extent) -> None:
            def tile(i: Value, m: int, j: Value, n: int) -> None:
                place = [i, b.add(at, j)]
                here = b.add(column, place[1])
                total = b.load(sums, place, type=part(m, n))
                b.store(self.deep(total, b.add(row, i), m, here, n, j, first, size), sums, place)

            self.tiles(rows, part_columns, tile)

        def along(first: Value, size: int) -> None:
            self.prepare(row, rows, first, size)
            self.parts(columns, first, size, column, lambda at, n: deeper(first, size, at, n))

        def end(i: Value, m: int, j: Value, n: int) -> None:
            total = b.load(sums, [i, j], type=part(m, n))
            self.finish(total, b.add(row, i), m, b.add(column, j), n)

        self.tiles(rows, columns, clear, 1)
        if is_open((depth,)):
            whole = depth // step * step
            b.loop(0, whole, step, (), lambda k, _: along(k, step))
            along(b.index(whole), depth - whole)
        else:
            self.kernel.tiles(depth, step, (), lambda span, _: along(span.start, span.size))
        self.tiles(rows, columns, end, 1)

    def parts(
        self, columns: Extent, first: Value, depth: int, column: Value, body: Callable[[Value, Extent], None]
    ) -> None:
        """Runs over the parts of the columns of a block, each of which is packed before: `body(column of the block, columns)`."""
        b, size = self.b, self.schedule.part
        if not size:
            body(b.index(0), columns)
            return

        def one(start: Value, part: Extent) -> None:
            self.pack(first, depth, b.add(column, start), part)
            body(start, part)

        columns.parts(size, one)

    def pack(self, first: Value, depth: int, column: Value, columns: Extent) -> None:
        """Copies a part of the right side into panels, in memory order."""
        b, width = self.b, self.tile_columns
        packing = right_side(self.product, width, self.kernel.target)

        def panels(body: Callable[[Panel, Value], object]) -> None:
            """Runs over the panels, each with its first column."""

            def one(span: Span) -> None:
                number = b.floor_divide(span.start, b.index(width))
                panel = Panel(b, packing, self.right_matrix, self.packed, [number], span.size, span.masked)
                body(panel, b.add(column, span.start))

            columns.tiles(width, one)

        if packing.transposed:
            panels(lambda panel, at: panel.copy(first, depth, at))
        else:
            self.kernel.tiles(
                depth,
                packing.band,
                (),
                lambda rows, _: panels(lambda panel, at: panel.band(first, rows, at)),
                masks=False,
            )

    def tiles(
        self,
        rows: Extent,
        columns: Extent,
        body: Callable[[Value, int, Value, int], None],
        tile_rows: int = 0,
    ) -> None:
        """Runs over the register tiles of a block, panel by panel: `body(row, rows, column, columns)`; or over tiles of `tile_rows`
        rows."""

        def panel(span: Span) -> None:
            most = tile_rows or self.tile_rows
            self.masked = span.masked
            rows.even_tiles(most, lambda i, m: body(i, m, span.start, span.size), "m")

        lanes = self.kernel.target.lanes(item_bytes(self.product.accumulator))
        columns.tiles(self.tile_columns, panel, "n", lanes if self.tile_columns % lanes == 0 else 0)

    def direct(self, row: Value, rows: int, column: Value, columns: int, place: Value) -> None:
        """One register tile: the whole depth, then the epilogue."""
        self.prefetch_epilogue(row, rows, column, columns)
        total = self.b.number(0, VectorType((rows, columns), self.product.accumulator))
        total = self.deep(total, row, rows, column, columns, place, self.b.index(0), self.product.depth)
        self.finish(total, row, rows, column, columns)

    def deep(
        self, total: Value, row: Value, rows: int, column: Value, columns: int, place: Value, first: Value, depth: int
    ) -> Value:  # fmt: skip
        """The sums of a register tile after `depth` more steps, from `first` on; `place`: its column in what is packed."""
        b = self.b
        ask = None
        wide = usual(self.product.columns) > self.tile_columns
        if "right" in self.schedule.pack and wide:
            ask = self.prefetcher(row, rows, column, first, depth)

        def step(k: Span, sums: Sequence[Value]) -> list[Value]:
            if ask is not None:
                ask(k.start)
            left = self.left(row, rows, b.add(first, k.start), k.size)
            right = self.right(column, columns, place, first, k.start, k.size)
            return [b.dot_tile(left, right, sums[0], self.product.words)]

        return self.kernel.tiles(depth, self.schedule.unroll, [total], step, "k", masks=False)[0]

    def prefetcher(
        self, row: Value, rows: int, column: Value, first: Value, depth: int
    ) -> Callable[[Value], None] | None:
        """A function that prefetches some lines of the next panel in a step of the depth. Each tile prefetches those after the lines of
        the tile above it, as many in every step as it takes for the whole panel to be in flight when the last rows have been
        multiplied by this one."""
        b, steps = self.b, self.schedule.unroll
        line = LINE_BYTES // item_bytes(self.product.packed_right)
        tiles = -(-min(self.block_rows, usual(self.product.rows)) // self.tile_rows)
        if tiles == 1:
            return self.prefetcher_of_streams(rows, column, first)
        lines = -(-steps * self.tile_columns // (line * tiles))
        tile = b.floor_divide(b.subtract(row, self.first_row), b.index(rows))
        start = b.multiply(tile, b.index(-(-depth // steps) * lines * line))
        panel = b.add(b.floor_divide(column, b.index(self.tile_columns)), b.index(1))

        def ask(k: Value) -> None:
            if lines * line % steps == 0:
                far = b.multiply(k, b.index(lines * line // steps))
            else:
                far = b.multiply(b.floor_divide(k, b.index(steps)), b.index(lines * line))
            at = b.add(start, far)
            for i in range(lines):
                b.prefetch(self.rhs, [*self.batch, panel, first, b.add(at, b.index(i * line))])

        return ask

    def prefetcher_of_streams(self, rows: int, column: Value, first: Value) -> Callable[[Value], None] | None:
        """A function that prefetches what the same tile reads soon, in the order of memory; None where loads of it are in flight early enough
        by themselves."""
        b, width, target = self.b, self.tile_columns, self.kernel.target
        if rows * (LINE_BYTES // target.vector_bytes) < _MULTIPLIED_LINE:
            return None
        item = item_bytes(self.product.packed_right)
        line, read = LINE_BYTES // item, self.schedule.unroll * width
        panel = b.floor_divide(column, b.index(width))

        def ask(k: Value) -> None:
            at = b.add(b.multiply(k, b.index(width)), b.index(_AHEAD // item))
            for i in range(0, read, line):
                b.prefetch(self.rhs, [*self.batch, panel, first, b.add(at, b.index(i))])

        return ask

    def prefetch_epilogue(self, row: Value, rows: int, column: Value, columns: int) -> None:
        """Prefetches what the epilogue reads from beyond the L2 cache, while the depth is summed. Each row of a tile is in a
        different page, so the hardware would not prefetch it."""
        b, kernel = self.b, self.kernel
        loops = kernel.nest.loops[self.dot.results[0]]
        for value, buffer in kernel.buffers.items():
            moved = self.product.turned or value in kernel.nest.accesses or value in kernel.strips
            item = item_bytes(element_type(value.type))
            far = usual(prod(shape_of(buffer.type))) * item > kernel.target.l2_bytes
            if len(loops) == 2 and kernel.nest.loops[value] == loops and far and not moved:
                for i in range(rows):
                    for at in range(0, columns, LINE_BYTES // item):
                        b.prefetch(buffer, [b.add(row, b.index(i)), b.add(column, b.index(at))])

    def finish(self, total: Value, row: Value, rows: int, column: Value, columns: int) -> None:
        """Computes the epilogue of a tile and stores it."""
        place = Span(row, rows), Span(column, columns, self.masked)
        store_epilogue(self.kernel, self.dot, self.product, self.batch, place, total)

    def left(self, row: Value, rows: int, k: Value, size: int) -> Value:
        """A tile of rows by `size` steps of the depth."""
        b = self.b
        if "left" in self.schedule.pack:
            type = VectorType((rows, size), self.product.packed_element)
            return b.load(self.lhs, [*self.batch, row, k], type=type)
        type = VectorType(
            (rows, size), self.product.packed_element if self.product.words else self.product.lhs_element
        )
        return self.left_matrix.along(row, k, type, self.product.lhs_depth_first)

    def right(self, column: Value, columns: int, place: Value, first: Value, k: Value, size: int) -> Value:
        """A tile of `size` steps of the depth, from `first` + `k` on, by columns."""
        b, width = self.b, self.tile_columns
        if self.schedule.part or "right" in self.schedule.pack:
            type = VectorType((size, columns), self.product.packed_right)
            if self.schedule.part:
                return b.load(self.packed, [b.floor_divide(place, b.index(width)), k, b.index(0)], type=type)
            panel = b.floor_divide(column, b.index(width))
            return b.load(self.rhs, [*self.batch, panel, b.add(first, k), b.index(0)], type=type)
        type = VectorType((size, columns), self.product.rhs_element)
        return self.right_matrix.load(b.add(first, k), column, type, masked=self.masked)
