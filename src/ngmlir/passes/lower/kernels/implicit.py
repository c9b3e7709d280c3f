# SPDX-License-Identifier: Apache-2.0
"""Matrix products of windows for a CPU: the register tiles of `panels`, over blocks of the windows that each program
packs before it multiplies them. So no more than a block of them is ever in memory, and the fill value beyond a
border is added while packing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from ....ir.attributes import numeric_literal
from ....ir.core import Value
from ....ir.literals import item_bytes
from ....ir.types import MemRefType, VectorType, element_type, with_element
from ....support.lengths import is_open, is_same, power_of_two
from ...analysis.product import part_of
from ...analysis.sides import Implicit
from .extents import Extent
from .packing import conflict_free_stride
from .panels import PanelKernel
from .reading import Matrix, read
from .tiling import Span, delinearize, exact_tiles, following

#: Registers that are copied at once.
REGISTERS = 8
#: The same for a run of open length, whose last tile may compute as many unused elements.
OPEN_REGISTERS = 2


class ImplicitKernel(PanelKernel):
    """Builds the kernel of a product one of whose sides, or both, are implicit."""

    left_block: Matrix
    left_pieces: Value  # the buffer of the packed block
    first: tuple[Value, Value]  # row and depth at which the packed block of the left side begins

    def allocate(self) -> None:
        product, schedule, lhs = self.product, self.schedule, self.product.lhs
        depth = schedule.depth if is_open((product.depth,)) else min(schedule.depth, product.depth)
        if isinstance(lhs, Implicit):
            rows = self.block_rows if is_open((product.rows,)) else min(self.block_rows, product.rows)
            shape = (
                self.block_shape(lhs, rows, depth) if lhs.along_depth else self.block_shape(lhs, depth, rows)
            )
            if product.words:
                # Adjacent elements along the depth are packed one by one, and read as the words that they form.
                narrow = MemRefType((rows, shape[1] * product.group), part_of(product.words), None, 0, 3)
                self.left_pieces = self.b.alloc(type=narrow)
                words = MemRefType((rows, shape[1]), product.packed_element, None, 0, 3)
                block = self.b.view(self.left_pieces, offset=0, type=words)
            else:
                block = self.left_pieces = self.b.alloc(
                    type=MemRefType(shape, product.packed_element, None, 0, 3)
                )
            self.left_block = Matrix(self.b, block, (), None)
        if isinstance(product.rhs, Implicit):
            shape = self.block_shape(product.rhs, depth, schedule.part)
            self.packed = self.b.alloc(type=MemRefType(shape, product.packed_element, None, 0, 3))
        else:
            super().allocate()

    def block_shape(self, side: Implicit, lines: int, run: int) -> tuple[int, int]:
        """The shape of a block of `lines` lines of a side. Tiles of iterations of open length may extend beyond a line."""
        item, target = item_bytes(self.product.packed_element), self.kernel.target
        along = side.depth if side is self.product.lhs and side.along_depth else side.across
        room = OPEN_REGISTERS * target.lanes(item) if is_open(side.sizes(along)[-1:]) else 0
        return lines, conflict_free_stride(run + room, item, target)

    def prepare(self, row: Value, rows: Extent, first: Value, depth: int) -> None:
        lhs, product = self.product.lhs, self.product
        if not isinstance(lhs, Implicit):
            return
        b, group = self.b, product.group
        self.first = row, first
        # The last word may not be full.
        count = depth if group == 1 else min(depth * group, product.elements)
        lines, run = (row, rows), (b.multiply(first, b.index(group)), Extent(b, count))
        if not lhs.along_depth:
            lines, run = run, lines
        step = self.schedule.depth * group if lhs.along_depth else self.block_rows
        whole = product.elements if lhs.along_depth else product.rows
        along = lhs.depth if lhs.along_depth else lhs.across
        step = step if is_open((whole,)) or whole > step else 0
        self.copy(lhs, along, self.left_pieces, self.lhs, lines, run, step)

    def pack(self, first: Value, depth: int, column: Value, columns: Extent) -> None:
        rhs, product = self.product.rhs, self.product
        if not isinstance(rhs, Implicit):
            super().pack(first, depth, column, columns)
            return
        several = is_open((product.columns,)) or product.columns > self.schedule.part
        step = self.schedule.part if several else 0
        # Register tiles read rows of columns, whatever the distance between these.
        lines, run = (first, Extent(self.b, depth)), (column, columns)
        self.copy(rhs, rhs.across, self.packed, self.rhs, lines, run, step)

    def left(self, row: Value, rows: int, k: Value, size: int) -> Value:
        lhs = self.product.lhs
        if not isinstance(lhs, Implicit):
            return super().left(row, rows, k, size)
        b = self.b
        at, deep = b.subtract(row, self.first[0]), b.subtract(k, self.first[1])
        type = VectorType((rows, size), self.product.packed_element)
        return self.left_block.along(at, deep, type, not lhs.along_depth)

    def right(self, column: Value, columns: int, place: Value, first: Value, k: Value, size: int) -> Value:
        if not isinstance(self.product.rhs, Implicit):
            return super().right(column, columns, place, first, k, size)
        return self.b.load(
            self.packed, [k, place], type=VectorType((size, columns), self.product.packed_element)
        )

    def copy(
        self,
        side: Implicit,
        along: int,
        block: Value,
        source: Value,
        lines: tuple[Value, Extent],
        run: tuple[Value, Extent],
        step: int,
    ) -> None:
        """Copies a block of a side line by line, along one of its dimensions. `lines` and `run` are the first and the number
        of each; `step` divides the first one of the run (0: that is 0)."""
        b, product = self.b, self.product
        other = side.across if along == side.depth else side.depth
        sizes = side.sizes(along)
        piece = side.piece(along, run[1].most, step)
        element = product.lhs_element if side is product.lhs else product.rhs_element
        held = element_type(block.type)
        target = self.kernel.target
        lanes = target.lanes(item_bytes(element))
        width = REGISTERS * lanes
        batch = delinearize(b, self.batch[0], side.sizes(0)) if self.batch else []
        access = side.access
        if is_open(sizes[-1:]) and access.fill is None:
            access = replace(access, fill=numeric_literal(0, element))  # for tiles that extend beyond it

        def line(i: Value, _: object) -> None:
            across = delinearize(b, b.add(lines[0], i), side.sizes(other))

            def tile(here: Sequence[Span], to: Value) -> None:
                """A tile of the line: `here` is its position in the loops of the run, `to` that in the block."""
                pair = (across, here) if other < along else (here, across)
                size = here[-1].size if here else 0
                value = read(
                    self.kernel,
                    [*batch, *pair[0], *pair[1]],
                    access,
                    VectorType((size,), element) if here else element,
                    source,
                    aligned=size > 0 and piece % size == 0,
                )
                if held is not element:
                    value = b.cast(value, type=with_element(value.type, held))
                b.store(value, block, [i, to], masked=bool(here) and here[-1].masked)

            def place(spans: Sequence[Span], to: Value) -> None:
                """A chunk of the line, which begins at `spans` in the loops of the run."""

                def part(span: Span, _: object) -> None:
                    last = [Span(b.add(spans[-1].start, span.start), span.size)] if spans else []
                    tile([*spans[:-1], *last], b.add(to, span.start))

                exact_tiles(b, piece, width, (), part)

            if is_same(run[1].most, prod(sizes)):
                self.every(sizes, place)
            elif is_open(sizes[-1:]):
                # Each tile checks whether it crosses a border: most are inside, also if they extend into the next iteration.
                self.iterations(sizes, run, OPEN_REGISTERS * target.lanes(item_bytes(held)), tile, False)
            elif side.cuts_short(along, run[1].most, step, lanes):
                self.iterations(sizes, run, min(width, max(lanes, power_of_two(sizes[-1]))), tile, True)
            else:
                b.loop(
                    0,
                    run[1].end,
                    piece,
                    (),
                    lambda j, _: place(delinearize(b, b.add(run[0], j), sizes), j),
                )

        b.loop(0, lines[1].end, 1, (), line)

    def iterations(
        self,
        sizes: Sequence[int],
        run: tuple[Value, Extent],
        step: int,
        tile: Callable[[Sequence[Span], Value], None],
        masked: bool,
    ) -> None:
        """A part of a run whose innermost loop has an open length, or is divided by parts into short chunks: for each iteration of the
        loops around it, the elements in the part, in tiles of `step` elements, `masked` or not. The last tile may write elements that
        the next iteration overwrites, or that are never read."""
        b, length = self.b, self.b.index(sizes[-1])
        first, end = run[0], self.b.add(run[0], run[1].end)
        section = None if masked else (0, sizes[-1] + (step - 1))

        def one(number: Value, outer: Sequence[Value]) -> list[Value]:
            begin = b.multiply(number, length)
            start, stop = b.maximum(first, begin), b.minimum(end, b.add(begin, length))

            def part(at: Value, _: object) -> None:
                here = [*map(Span, outer), Span(b.subtract(at, begin), step, masked, section)]
                tile(here, b.subtract(at, first))

            b.loop(start, stop, step, (), part)
            return following(b, outer, sizes[:-1])

        number = b.floor_divide(first, length)
        last = b.floor_divide(b.add(end, b.subtract(length, b.index(1))), length)
        outer = [span.start for span in delinearize(b, number, sizes[:-1])]
        b.loop(number, last, 1, outer, one)

    def every(self, sizes: Sequence[int], place: Callable[[Sequence[Span], Value], None]) -> None:
        """The whole run: a chunk for each position of its outer loops."""
        b = self.b

        def one(outer: list[Span]) -> None:
            to, distance = b.index(0), sizes[-1] if sizes else 1
            for span, size in zip(reversed(outer), reversed(sizes[:-1]), strict=True):
                to = b.add(to, b.multiply(span.start, b.index(distance)))
                distance *= size
            place([*outer, Span(b.index(0))] if sizes else [], to)

        self.kernel.emit_loops(sizes[:-1], one)
