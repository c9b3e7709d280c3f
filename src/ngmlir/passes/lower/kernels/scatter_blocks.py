# SPDX-License-Identifier: Apache-2.0
"""Scatters on a GPU: blocks of threads own some rows of the result, or some columns of these, as programs do in `scatter`."""

from __future__ import annotations

from ....ir.core import Op, Value
from ....ir.types import VectorType, element_type, i64
from ....ops.fields import find_unit
from ....support.lengths import power_of_two, usual
from ....support.target import Target
from ...analysis.indices import position, within
from .finished import Finished
from .scatter import Updates
from .segments import scatter_in_order
from .single import vector
from .tiling import Span, positions, share

#: Elements of operand and updates per owner, at least: every owner reads all indices.
_OWNED_ELEMENTS = 1 << 11


def scatter_by_blocks(op: Op, target: Target) -> Finished:
    """The kernel of a scatter; where the indices ascend, blocks of threads find their updates by binary search."""
    return scatter_in_order(op, target) if find_unit(op, "ascending") else _Scatter(op, target).build()


class _Scatter(Updates):
    def __init__(self, op: Op, target: Target):
        super().__init__(op, target)
        self.target = target
        self.rows = -(-self.size // self.most_owners())
        if self.after == 1:
            # Rows of one element are copied in tiles: an owner has whole tiles, so that no copy overlaps another owner's rows.
            self.tile = min(target.threads, power_of_two(self.rows))
            self.rows = -(-self.rows // self.tile) * self.tile
        self.begin(target, (-(-self.size // self.rows), self.before, self.after))

    def most_owners(self) -> int:
        """How many blocks to share the rows among."""
        before, size, count, after = usual((self.before, self.size, self.count, self.after))
        tiles = max(1, before) * -(-after // self.width)
        wanted = -(-2 * self.target.multiprocessors // tiles)
        return max(1, min(wanted, (size + count) * after // _OWNED_ELEMENTS, size))

    def build(self) -> Finished:
        builder = self.builder
        return builder.visited(lambda spans: self.program(*spans))

    def program(self, owner: Span, row: Span, span: Span) -> None:
        """Copies the columns of `span` of the rows of one owner and applies the updates to them, a tile of indices at a time."""
        b = self.b
        first, stop = share(b, owner.start, self.rows, self.size)
        self.copy(row, first, stop, span)
        b.barrier()
        self.own(first, stop)
        width = min(self.builder.width if self.after == 1 else self.target.threads, power_of_two(self.count))
        self.builder.tiles(self.count, width, (), lambda part, _: self.some(row, part, span))

    def copy(self, row: Span, first: Value, stop: Value, span: Span) -> None:
        """Copies the owner's rows from the operand: one row at a time, or a tile of rows of one element."""
        b = self.b
        if self.after == 1:
            self.copy_column(row, first, stop)
            return

        def one(r: Value, _: object) -> None:
            at = [row.start, r, span.start]
            tile = b.load(self.source, at, type=vector(span.size, self.element), masked=span.masked)
            b.store(tile, self.result, at, masked=span.masked)

        b.loop(first, stop, 1, (), one)

    def copy_column(self, row: Span, first: Value, stop: Value) -> None:
        b = self.b
        type = vector(self.tile, self.element)

        def some(start: Value, _: object) -> None:
            at, masked = [row.start, start, b.index(0)], self.size % self.tile != 0
            tile = b.load(self.source, at, type=type, dims=[1], masked=masked)
            b.store(tile, self.result, at, dims=[1], masked=masked)

        b.loop(first, stop, self.tile, (), some)

    def some(self, row: Span, part: Span, span: Span) -> None:
        """A tile of indices: where any is in the owner's rows, applies these updates in order."""
        b = self.b
        kind = vector(part.size, element_type(self.op.operands[1].type))
        place = position(b, b.load(self.indices, [part.start], type=kind, masked=part.masked), self.size)
        inside = self.owned(place)
        if part.masked:
            here = b.less(
                positions(b, part.start, VectorType((part.size,), i64)), b.number(self.count, place.type)
            )
            inside = b.bitwise_and(inside, here)

        def change() -> None:
            if self.after == 1:
                self.elements(row, part, place, inside)
                return
            stop = b.minimum(b.add(part.start, b.index(part.size)), b.index(self.count))
            self.apply(part.start, stop, lambda tile: tile(span), row)

        b.branch(b.any(inside, axes=[0]), change)

    def elements(self, row: Span, part: Span, place: Value, inside: Value) -> None:
        """Updates of one element each: `tile.scatter` keeps their order."""
        b = self.b
        place = within(b, place, self.size - 1)
        at = [row.start, part.start, b.index(0)]
        new = b.load(self.updates, at, type=vector(part.size, self.element), dims=[1], masked=part.masked)
        b.scatter_tile(new, inside, self.result, [row.start, place, b.index(0)], combine=self.combine)
