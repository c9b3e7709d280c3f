# SPDX-License-Identifier: Apache-2.0
"""Packing for matrix products: the right side is copied into panels, whose rows a register tile reads consecutively;
the left side into rows along the depth, at distances that avoid conflicts in the cache. Here a side has rows and
columns: the right side those of the product (depth x columns), the left side its own (rows x depth)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from ....ir.attributes import Attribute, IntegerAttr, integers
from ....ir.core import Block, Op, Value
from ....ir.literals import item_bytes
from ....ir.types import FloatType, MemRefType, Type, VectorType, i16, i64, index, with_element
from ....ops import tile as tile_ops
from ....ops.builder import Builder, function
from ....support.diagnostics import Location
from ....support.lengths import is_multiple, is_open
from ....support.target import Target
from ...analysis.product import Product, part_of, word_bits
from ...analysis.sides import Side
from .reading import Matrix
from .tiling import Span, exact_tiles, peel_last

#: Bytes of a cache line.
LINE_BYTES = 64
#: Bytes that are copied at once: more would only make the code longer.
BAND_BYTES = 256
#: Columns of a left side that one program packs.
LEFT_WIDTH = 64


@dataclass(frozen=True)
class Packing:
    """Panels of `width` columns, of elements of type `element`. `transposed`: the side is stored columns x rows, and
    transposed in registers, `block` x `block` elements at once. The panels of a left side, whose columns are the depth,
    are adjacent in rows of `line` elements; those of the right one, for which that is 0, follow each other."""

    batch: int
    rows: int
    columns: int
    width: int
    transposed: bool
    stored: Type
    element: Type
    block: int
    side: Side | None = None
    words: str = ""  # if an element is a word of adjacent ones along the depth: their type, as `ui8`
    steps: int = 0  # the number of these
    line: int = 0

    @property
    def left(self) -> bool:
        """Whether this is a left side, whose columns are the depth."""
        return self.line > 0

    @property
    def stored_shape(self) -> tuple[int, int]:
        """Rows and columns of the side as it is stored."""
        size = (self.rows, self.columns)
        if self.words:
            size = (self.rows, self.steps) if self.left else (self.steps, self.columns)
        rows, columns = size
        return (columns, rows) if self.transposed else size

    @property
    def shape(self) -> tuple[int, ...]:
        """[batch,] panels, rows, width; or rows, line."""
        shape = (self.rows, self.line) if self.left else (self.panels, self.rows, self.width)
        return (self.batch, *shape) if self.batch else shape

    @property
    def panels(self) -> int:
        return -(-self.columns // self.width)

    @property
    def type(self) -> MemRefType:
        return MemRefType(self.shape, self.element)

    @property
    def band(self) -> int:
        """Rows that are copied at once: if they are transposed those that share cache lines, which are then read once."""
        if self.transposed:
            return max(self.block, LINE_BYTES // item_bytes(self.stored))
        return max(1, BAND_BYTES // (self.width * item_bytes(self.element)))

    @property
    def step(self) -> int:
        """Columns that are copied at once: blocks to be transposed are square, other rows are copied whole. Words need registers
        for their parts."""
        return self.block if self.transposed else 2 * self.block if self.words else self.width

    @property
    def in_parts(self) -> Packing:
        """A left side with the elements of words instead of these, in the same bytes. The unused elements of the last word do not matter:
        in the right side they are zero."""
        return replace(
            self,
            columns=self.steps,
            line=self.line * self.group,
            width=self.width * self.group,
            element=part_of(self.words),
            words="",
            steps=0,
        )

    @property
    def fills(self) -> bool:
        """Whether the last word must be filled up with zeros: floats that were in memory before may be NaN, also multiplied by the zeros
        of the other side."""
        return self.words.startswith("bf") and self.steps % self.group != 0

    @property
    def bits(self) -> int:
        """Bits of an element in a word."""
        return word_bits(self.words)

    @property
    def group(self) -> int:
        """Elements of a word."""
        return 8 * item_bytes(self.element) // self.bits


def right_side(product: Product, width: int, target: Target) -> Packing:
    """The packing of the right side for the register tiles of a product, in the type in which they compute or in half words."""
    turned, element = not product.rhs_depth_first, product.packed_right
    sizes = (product.batch, product.depth, product.columns)
    words = product.words.partition("_")[2]
    if element is not product.packed_element:  # half words
        words = element.text.replace("16", "8")
    block = _block(element, words, target)
    return Packing(
        *sizes, width, turned, product.rhs_element, element, block, product.rhs, words, product.steps
    )


def left_side(product: Product, target: Target) -> Packing:
    """The same for the left side."""
    turned, element = product.lhs_depth_first, product.packed_element
    sizes = (product.batch, product.rows, product.depth)
    words = product.words.partition("_")[0]
    block, line = (
        _block(element, words, target),
        conflict_free_stride(product.depth, item_bytes(element), target),
    )
    stored = product.lhs_element
    return Packing(
        *sizes, LEFT_WIDTH, turned, stored, element, block, product.lhs, words, product.steps, line
    )


def conflict_free_stride(run: int, item: int, target: Target) -> int:
    """The distance of lines of so many elements of `item` bytes with which they do not map to few sets of the L1
    cache."""
    way = target.l1_bytes // target.l1_ways
    return run + (LINE_BYTES // item if is_open((run,)) or run * item % (way // 8) == 0 else 0)


def _block(element: Type, words: str, target: Target) -> int:
    """The side of a square block that takes half of the registers: transposing it needs as many again. The parts of words
    take half of them too."""
    lanes, most = target.lanes(item_bytes(element)), target.vector_registers // (4 if words else 2)
    return max(side for side in (2, 4, 8, 16) if side * -(-side // lanes) <= most)


def pack_kernel(packing: Packing, location: Location) -> Op:
    """The kernel that copies a side into panels, one panel per program."""
    batch = (packing.batch,) if packing.batch else ()
    shape = packing.side.shape if packing.side else (*batch, *packing.stored_shape)
    types = [MemRefType(shape, packing.stored), packing.type]
    grid = (*batch, packing.panels)
    block = Block([*types, *[index] * len(grid)], ["from", "to", *"ij"[: len(grid)]])
    b = Builder(block, location)
    source, target = block.args[:2]
    if packing.words and packing.left and not packing.transposed and not packing.fills:
        # Adjacent elements along the depth are contiguous: they are copied one by one, and so form words.
        packing = packing.in_parts
        target = b.view(target, offset=0, type=packing.type)
    outer, panel = list(block.args[2:-1]), block.args[-1]
    column = b.multiply(panel, b.index(packing.width))
    matrix = Matrix(b, source, outer, packing.side)

    def copy(width: int, masked: bool = False) -> None:
        inner = outer if packing.left else [*outer, panel]
        place = Panel(b, packing, matrix, target, inner, width, masked)
        place.copy(b.index(0), packing.rows, column)

    whole = is_multiple(packing.columns, packing.width)
    if whole:
        copy(packing.width)
    elif is_open((packing.columns,)):
        peel_last(b, panel, packing.panels, lambda: copy(packing.width), lambda: copy(packing.width, True))
    else:
        rest = packing.columns % packing.width
        peel_last(b, panel, packing.panels, lambda: copy(packing.width), lambda: copy(rest))
    b.end(tile_ops.ReturnOp)
    attributes: dict[str, Attribute] = {"grid": integers(grid), "outputs": IntegerAttr(1, i64)}
    return function("pack", block, attributes, kind=tile_ops.KernelOp, location=location)


@dataclass(frozen=True)
class Panel:
    """One panel of `width` columns that is copied from `source` to `target`, at the indices `inner`.

    The end of a narrower panel of the right side is zero: registers that extend into it are computed with, and uninitialized
    memory might be denormal, which is slow. `masked`: the side may end before the panel does.
    """

    b: Builder
    packing: Packing
    source: Matrix
    target: Value
    inner: Sequence[Value]
    width: int
    masked: bool = False

    def copy(self, first: Value, rows: int, column: Value) -> None:
        """Copies all rows from `first` on, to the start of the panel."""
        exact_tiles(self.b, rows, self.packing.band, (), lambda band, _: self.band(first, band, column))

    def band(self, first: Value, rows: Span, column: Value) -> None:
        """Copies a few rows of the panel: `rows` of the side, counted from row `first`."""
        b, whole = self.b, self.packing.width
        step = min(self.width, self.packing.step)
        exact_tiles(b, self.width, step, (), lambda columns, _: self.piece(first, rows, column, columns))
        if self.width < whole and not self.packing.left:
            rest = b.number(0, VectorType((rows.size, whole - self.width), self.packing.element))
            b.store(rest, self.target, [*self.inner, rows.start, b.index(self.width)])

    def piece(self, first: Value, rows: Span, column: Value, columns: Span) -> None:
        """Copies a few columns of a few rows."""
        b, block = self.b, self.packing.block
        if not self.packing.transposed or rows.size <= block:
            return self.some(first, rows, column, columns)

        def square(span: Span, _: object) -> None:
            self.some(first, Span(b.add(rows.start, span.start), span.size), column, columns)

        exact_tiles(b, rows.size, block, (), square)

    def some(self, first: Value, rows: Span, column: Value, columns: Span) -> None:
        b, packing = self.b, self.packing
        shape = (rows.size, columns.size)
        places = (b.add(first, rows.start), b.add(column, columns.start))
        tile = self.neighbours(*places, shape) if packing.words else self.load(*places, shape)
        b.store(tile, self.target, [*self.inner, rows.start, places[1] if packing.left else columns.start])

    def load(self, row: Value, column: Value, shape: tuple[int, int]) -> Value:
        """A tile of the side, in the type of the panels."""
        packing, type = self.packing, VectorType(shape, self.packing.stored)
        if packing.transposed:
            tile = self.source.load(column, row, type, turned=True, masked=self.masked)
        else:
            tile = self.source.load(row, column, type, masked=self.masked)
        if packing.stored is packing.element:
            return tile
        return self.b.cast(tile, type=with_element(type, packing.element))

    def neighbours(self, row: Value, column: Value, shape: tuple[int, int]) -> Value:
        """A tile of words: the first element in the lowest bits. They are formed in memory order, and then transposed if necessary."""
        b, packing = self.b, self.packing
        count = packing.group
        at, size = ([column, row], shape[::-1]) if packing.transposed else ([row, column], shape)
        depth = int(packing.left != packing.transposed)  # the dimension of the side that is the depth
        at[depth] = first = b.multiply(at[depth], b.index(count))
        rest = packing.steps % count
        parts: list[Value] = []
        for i in range(count):
            at[depth] = b.add(first, b.index(i))
            part = self.element(at, size, depth, count, 0 < rest <= i)  # the last word may not be full
            if i < count - 1:
                part = b.bitwise_and(part, b.number((1 << packing.bits) - 1, part.type))
            parts.append(b.shift_left(part, b.number(i * packing.bits, part.type)) if i else part)
        made = reduce(b.bitwise_or, parts)
        return b.transpose(made, permutation=[1, 0]) if packing.transposed else made

    def element(self, at: Sequence[Value], size: Sequence[int], depth: int, step: int, masked: bool) -> Value:
        """One element of each word along the depth, in the type of the panels."""
        type = VectorType(tuple(size), self.packing.stored)
        steps = (1, step) if depth else (step, 1)
        tile = self.source.load(at[0], at[1], type, masked=masked or self.masked, steps=steps)
        if isinstance(self.packing.stored, FloatType):
            tile = self.b.bitcast(tile, type=with_element(type, i16))
        return self.b.cast(tile, type=with_element(type, self.packing.element))
