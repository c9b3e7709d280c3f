# SPDX-License-Identifier: Apache-2.0
"""Kernels that access by index: gather, gather_elements, scatter. The bounds of every index are looked at here."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ....ir.core import Op, Value
from ....ir.literals import item_bytes
from ....ir.types import DYNAMIC, MemRefType, VectorType, element_type, i64, index, shape_of
from ....ops.fields import find_unit, get_i64, get_str
from ....support.lengths import is_open, power_of_two, usual
from ....support.target import Target
from ...analysis.indices import clamped, position, within
from ...analysis.reduction import merged
from ...schedule.moves import take_turns
from ...schedule.programs import tile_width
from .finished import Finished
from .frame import Span, peel_last, positions, share
from .segments import scatter_in_order
from .single import SingleFrame, flat_frame, places_in, vector


def _axis(op: Op) -> int:
    return get_i64(op, "axis")


def gather_kernel(op: Op, target: Target) -> Finished:
    """Rows copied by index; single elements gathered in registers when nothing stands after the axis."""
    axis = _axis(op)
    source, indices = (shape_of(o.type) for o in op.operands)
    before, size, after = merged(source, axis)
    _, count, _ = merged(indices, 0, len(indices))
    operands = [(before, size, after), (count,)]
    element = element_type(op.results[0].type)
    if take_turns(target, before * count) and after < tile_width(target, item_bytes(element)):
        return _short_rows(op, target, operands)
    if after == 1:
        frame = SingleFrame(op, target, (before, count), operands, [(before, count)])
        b = frame.b

        def pick(spans: list[Span]) -> None:
            row, span = spans
            found = b.load(
                frame.sources[1],
                [span.start],
                type=vector(span.size, element_type(op.operands[1].type)),
                masked=span.masked,
            )
            place = clamped(b, found, size)
            tile = b.gather_tile(
                frame.sources[0], [row.start, place, b.index(0)], type=vector(span.size, element)
            )
            b.store(tile, frame.results[0], [row.start, span.start], masked=span.masked)

        frame.visit(frame.sizes, frame.width, pick)
        return frame.done()
    frame = SingleFrame(op, target, (before, count, after), operands, [(before, count, after)])
    b = frame.b

    def copy(spans: list[Span]) -> None:
        row, number, span = spans
        place = b.cast(clamped(b, frame.scalar(frame.sources[1], [number.start]), size), type=index)
        tile = b.load(
            frame.sources[0],
            [row.start, place, span.start],
            type=vector(span.size, element),
            masked=span.masked,
        )
        b.store(tile, frame.results[0], [row.start, number.start, span.start], masked=span.masked)

    frame.visit(frame.sizes, frame.width, copy)
    return frame.done()


def _short_rows(op: Op, target: Target, operands: Sequence[tuple[int, ...]]) -> Finished:
    """Rows by index, of one element or more, many in one tile of a block of threads: the result is one line."""
    (before, size, after), (count,) = operands
    element, number = (element_type(o.type) for o in op.operands)
    frame = flat_frame(op, target, before * count * after, operands)
    b = frame.b

    def pick(spans: list[Span]) -> None:
        (span,) = spans
        row, at, column = places_in(b, span, (before, count, after))
        found = b.gather_tile(frame.sources[1], [at], type=VectorType((span.size,), number))
        place = clamped(b, found, size)
        tile = b.gather_tile(frame.sources[0], [row, place, column], type=VectorType((span.size,), element))
        b.store(tile, frame.results[0], [span.start], masked=span.masked)

    frame.visit(frame.sizes, frame.width, pick)
    return frame.done()


def gather_elements_kernel(op: Op, target: Target) -> Finished:
    """One element per index, along any axis; of many rows on a GPU the result is one line."""
    axis = _axis(op)
    source, shape = (shape_of(v.type) for v in (op.operands[0], op.results[0]))
    in_line = take_turns(target, prod(shape[:-1]))
    if in_line:
        frame = flat_frame(op, target, prod(shape), [source, (prod(shape),)])
    else:
        frame = SingleFrame(op, target, shape)
    b = frame.b
    element = element_type(op.results[0].type)
    last = len(source) - 1

    def pick(spans: list[Span]) -> None:
        span = spans[-1]
        starts = [s.start for s in spans]
        kind = vector(span.size, element_type(op.operands[1].type))
        found = clamped(b, b.load(frame.sources[1], starts, type=kind, masked=span.masked), source[axis])
        places = places_in(b, span, shape) if in_line else list(starts)
        if axis != last and not in_line:
            wide = VectorType((span.size,), i64)
            # A masked tile reaches beyond the row; what is read there is not stored.
            places[-1] = b.minimum(positions(b, span.start, wide), b.number(source[-1] - 1, wide))
        places[axis] = found
        tile = b.gather_tile(frame.sources[0], places, type=vector(span.size, element))
        b.store(tile, frame.results[0], starts, masked=span.masked)

    frame.visit(frame.sizes, frame.width, pick)
    return frame.done()


_COMBINE = {"add": "add", "max": "maximum", "min": "minimum"}


#: Elements that are worth a program which looks at all indices for those of its rows: on a CPU, and on a GPU.
OWNER_ELEMENTS, BLOCK_ELEMENTS = 1 << 16, 1 << 11
#: Programs that share the rows of a CPU's scatter, at most: each looks at all indices.
OWNERS = 16
#: Bytes of an update that take four times as long as looking at its index in vain: where the next owner stands, a branch
#: goes another way than was foreseen.
LOOK_BYTES = 512


def scatter_kernel(op: Op, target: Target) -> Finished:
    """Each program has some rows of the result for itself: it copies them from the operand, then goes through all
    indices in order and makes those updates that are its own. So repeated indices need no agreement."""
    return _Scatter(op, target).build()


def scatter_by_blocks(op: Op, target: Target) -> Finished:
    """The same; where the indices ascend, blocks of threads look for theirs."""
    return (scatter_in_order if find_unit(op, "ascending") else scatter_kernel)(op, target)


class _Scatter:
    def __init__(self, op: Op, target: Target):
        self.op, self.combine = op, get_str(op, "combine")
        indices = shape_of(op.operands[1].type)
        self.before, self.size, self.after = merged(shape_of(op.operands[0].type), _axis(op))
        _, self.count, _ = merged(indices, 0, len(indices))
        self.element = element_type(op.results[0].type)
        self.width = tile_width(target, item_bytes(self.element))
        self.rows = -(-self.size // self._owners(target))
        if target.shares_tiles and self.after == 1:
            # Whole tiles of single elements: what is copied reaches into no other owner's.
            self.tile = min(target.threads, power_of_two(self.rows))
            self.rows = -(-self.rows // self.tile) * self.tile
        self.owners = -(-self.size // self.rows)
        shape = (self.before, self.size, self.after)
        share = (self.rows + self.count) * self.after
        space = (self.owners * self.before, share)
        if target.shares_tiles:
            space = (self.owners, self.before, self.after)
        operands = [shape, (self.count,), (self.before, self.count, self.after)]
        self.frame = SingleFrame(op, target, space, operands, [shape], width=self.width)
        self.b = self.frame.b
        self.source, self.indices, self.updates = self.frame.sources
        (self.result,) = self.frame.results
        if not target.shares_tiles:
            self.frame.pairs = [
                0,
                3,
            ]  # the operand's buffer may be the result's: then nothing but the updates is written

    def _owners(self, target: Target) -> int:
        """How many programs share the rows. Of a number that follows from lengths the last ones might have none."""
        if is_open([self.size]):
            return 1
        before, size, count, after = usual((self.before, self.size, self.count, self.after))
        elements = (size + count) * after
        if target.shares_tiles:
            tiles = max(1, before) * -(-after // self.width)
            wanted = min(-(-2 * target.multiprocessors // tiles), elements // BLOCK_ELEMENTS, size)
            return max(1, wanted)
        looks = after * item_bytes(self.element) // LOOK_BYTES
        return max(1, min(OWNERS // max(1, before), elements // OWNER_ELEMENTS, size, looks))

    def build(self) -> Finished:
        frame = self.frame
        if frame.shares_tiles:
            frame.visit(frame.sizes, frame.width, lambda spans: self.program(spans[0], spans[1], spans[2]))
        else:

            def program(span: Span) -> None:
                owner, row = frame.delinearize(span.start, (self.owners, self.before))
                self.program(owner, row, None)

            frame.each_row(program)
        return frame.done()

    def program(self, owner: Span, row: Span, span: Span | None) -> None:
        """One owner's rows; of them, where a block of threads owns but some columns, those of `span`."""
        b = self.b
        first, stop = share(b, owner.start, self.rows, self.size)
        self.copy(row, first, stop, span)
        if self.frame.shares_tiles:
            b.barrier()
        self.first, self.stop = (b.cast(place, type=i64) for place in (first, stop))
        if not self.frame.shares_tiles:
            self.updates_between(row, b.index(0), b.index(self.count), span)
            return
        width = min(
            self.frame.width if self.after == 1 else self.frame.target.threads, power_of_two(self.count)
        )
        self.frame.tiles(self.count, width, (), lambda part, _: self.some(row, part, span))

    def copy(self, row: Span, first: Value, stop: Value, span: Span | None) -> None:
        """The owner's rows as they were."""
        b = self.b

        def one(r: Value, _: object) -> None:
            assert span is not None
            at = [row.start, r, span.start]
            tile = b.load(self.source, at, type=vector(span.size, self.element), masked=span.masked)
            b.store(tile, self.result, at, masked=span.masked)

        def lines(count: int) -> None:
            """So many rows at once, which lie in one piece; nothing, where the result is the operand's buffer."""
            whole = MemRefType((count, self.after), self.element, (self.after, 1), DYNAMIC)
            at = [row.start, first, b.index(0)]
            b.copy(b.subview(self.source, at, type=whole), b.subview(self.result, at, type=whole))

        if span is None:
            peel_last(
                b,
                b.floor_divide(first, b.index(self.rows)),
                self.owners,
                lambda: lines(self.rows),
                lambda: lines(self.size - (self.owners - 1) * self.rows),
            )
        elif self.after == 1:
            self.copy_column(row, first, stop)
        else:
            b.loop(first, stop, 1, (), one)

    def copy_column(self, row: Span, first: Value, stop: Value) -> None:
        """The same where the rows are single elements: a tile of them at once."""
        b = self.b
        type = vector(self.tile, self.element)

        def some(start: Value, _: object) -> None:
            at, masked = [row.start, start, b.index(0)], self.size % self.tile != 0
            b.store(
                b.load(self.source, at, type=type, dims=[1], masked=masked), self.result, at,
                dims=[1], masked=masked,
            )  # fmt: skip

        b.loop(first, stop, self.tile, (), some)

    def some(self, row: Span, part: Span, span: Span | None) -> None:
        """A tile of indices: whether any is the owner's, then one by one."""
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
            self.updates_between(row, part.start, stop, span)

        b.branch(b.any(inside, axes=[0]), change)

    def elements(self, row: Span, part: Span, place: Value, inside: Value) -> None:
        """Single elements: tile.scatter keeps their order."""
        b = self.b
        place = within(b, place, self.size - 1)
        new = b.load(
            self.updates, [row.start, part.start, b.index(0)], type=vector(part.size, self.element),
            dims=[1], masked=part.masked,
        )  # fmt: skip
        b.scatter_tile(new, inside, self.result, [row.start, place, b.index(0)], combine=self.combine)

    def updates_between(self, row: Span, start: Value, stop: Value, span: Span | None) -> None:
        """Whole updates, one after the other."""
        b, frame = self.b, self.frame

        def one(number: Value, _: object) -> None:
            place = position(b, frame.scalar(self.indices, [number]), self.size)
            at = b.cast(place, type=index)

            def tile(span: Span) -> None:
                type = vector(span.size, self.element) if self.after > 1 else self.element
                new = b.load(self.updates, [row.start, number, span.start], type=type, masked=span.masked)
                if self.combine != "set":
                    old = b.load(self.result, [row.start, at, span.start], type=type, masked=span.masked)
                    new = getattr(b, _COMBINE[self.combine])(old, new)
                b.store(new, self.result, [row.start, at, span.start], masked=span.masked)

            def change() -> None:
                if span is None:
                    frame.tiles(self.after, frame.width, (), lambda s, _: tile(s))
                else:
                    tile(span)

            b.branch(self.owned(place), change)

        b.loop(start, stop, 1, (), one)

    # -- indices -----------------------------------------------------------------------------------------

    def owned(self, place: Value) -> Value:
        """Which positions are the owner's."""
        b = self.b
        first, stop = (
            b.broadcast(v, type=place.type, dimensions=()) if isinstance(place.type, VectorType) else v
            for v in (self.first, self.stop)
        )
        return b.bitwise_and(b.greater_equal(place, first), b.less(place, stop))
