# SPDX-License-Identifier: Apache-2.0
"""Copies on a CPU of what windows read across a border, with the border filled in, so that each tap is read without a mask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ....ir.core import Value
from ....ir.literals import item_bytes
from ....ir.nest import AffineExpr
from ....ir.types import DYNAMIC, MemRefType, Type, VectorType, element_type, shape_of
from ....ops.positions import known
from ....support.lengths import at_least, below
from ...analysis.access import Access
from .kernel_builder import KernelBuilder
from .reading import position, read
from .tiling import Span, exact_tiles

#: Registers of a row, and rows, that are copied in one iteration.
_TOGETHER = 4


class _Chunk(NamedTuple):
    """A chunk of rows: where the copy begins and ends in the buffer, the offset of the chunk in a row of the buffer and of the copy, and
    whether some of it may be beyond the border."""

    first: Sequence[Value]
    ends: Sequence[Value]
    at: Value
    span: Span
    masked: bool


class Staged:
    """A copy of the part of an operand that is needed for a block of results: up to `counts` iterations of some loops from where the copy
    begins. The other loops are at one position."""

    def __init__(
        self,
        builder: KernelBuilder,
        access: Access,
        buffer: Value,
        counts: Mapping[int, int],
        copies: int = 1,
    ):
        self.builder, self.b, self.access, self.buffer, self.counts = (
            builder,
            builder.b,
            access,
            buffer,
            counts,
        )
        self.moving = [{l: s for l, s in p.terms.items() if l in counts} for p in access.places]
        self.moved = [d for d, terms in enumerate(self.moving) if terms]
        *rows, row = (1 + sum(s * (counts[l] - 1) for l, s in self.moving[d].items()) for d in self.moved)
        self.element = element_type(buffer.type)
        self.lanes = builder.target.lanes(item_bytes(self.element))
        # Whole registers are read and written beyond the end of a row, into the next row, which is written later.
        shape = (rows[0] + 1, *rows[1:], -(-row // self.lanes) * self.lanes)
        self.copies = self.b.alloc(type=MemRefType((copies, *shape), self.element, None, 0, 3))
        self.one = MemRefType(shape, self.element, None, DYNAMIC, 3)
        self.copy = self.copies
        self.near = Access(
            shape, tuple(AffineExpr(0, self.moving[d]) for d in self.moved), (), access.sizes, None
        )
        #: Positions in the copy, by positions in the loops.
        self.places: dict[Value, Value] = {}

    def choose(self, number: Value) -> None:
        """Selects one of the copies."""
        zeros = [self.b.index(0)] * len(self.moved)
        self.copy = self.b.subview(self.copies, [number, *zeros], type=self.one)

    def read(self, spans: Sequence[Span], type: Type) -> Value:
        """A tile that results need, read from the copy."""
        here = [Span(self.places.get(s.start, s.start), s.size) for s in spans]
        return read(self.builder, here, self.near, type, self.copy)

    def fill(self, spans: Sequence[Span], needed: Mapping[int, Value]) -> None:
        """Makes the copy for these positions of the loops. Of some loops only so many iterations are needed."""
        b = self.b
        first = [position(b, place, spans) for place in self.access.places]
        ends = [self._end(d, needed) for d in self.moved]
        row = self.moved[-1]

        def chunk(span: Span) -> None:
            at = b.add(first[row], span.start)

            def copied(masked: bool) -> None:
                self._rows(_Chunk(first, ends, at, span, masked), [], True)

            if known(at) is not None:
                copied(True)
                return
            low, high = b.index(0), b.index(self.access.shape[row] - span.size)
            inside = b.bitwise_and(b.less_equal(low, at), b.less_equal(at, high))
            b.branch(inside, lambda: copied(False), lambda: copied(True))

        end = known(ends[-1])
        if end is None:
            # Whole registers: `needed` is rounded up to them.
            start: Value | int = 0
            for registers in (_TOGETHER, 1):
                size = registers * self.lanes
                stop = b.bitwise_and(b.add(ends[-1], b.index(self.lanes - 1)), b.index(-size))
                b.loop(start, stop, size, (), lambda i, _, size=size: chunk(Span(i, size)))
                start = stop
        else:
            whole = -(-end // self.lanes) * self.lanes
            exact_tiles(b, whole, min(whole, _TOGETHER * self.lanes), (), lambda span, _: chunk(span))

    def _end(self, dimension: int, needed: Mapping[int, Value]) -> Value:
        """How many elements of a dimension of the copy are needed."""
        b, terms = self.b, self.moving[dimension]
        total = b.index(
            1 + sum(s * ((self.counts[l] if l not in needed else 0) - 1) for l, s in terms.items())
        )
        for l in terms.keys() & needed.keys():
            total = b.add(total, b.multiply(needed[l], b.index(terms[l])))
        return total

    def _rows(self, chunk: _Chunk, done: Sequence[Value], inside: bool) -> None:
        """Copies a chunk of the rows at index `done` of the copy's outer dimensions. `inside`: none of them is beyond a border."""
        b, number = self.b, len(done)
        d, first, end = self.moved[number], chunk.first[self.moved[number]], chunk.ends[number]
        lowest, highest = self.access.places[d].ends(self.access.sizes)
        size, zero = self.access.shape[d], b.index(0)
        last = number == len(self.moved) - 2

        def run(start: Value, stop: Value, inside: bool) -> None:
            def one(i: Value, _: object) -> None:
                here = [*done, i]
                return self._copy(chunk, here, 1, inside) if last else self._rows(chunk, here, inside)

            if last and inside and not below(size, _TOGETHER):
                # The mask of a chunk is computed once for several rows.
                step = b.index(_TOGETHER)

                def several(i: Value, _: object) -> list[Value]:
                    self._copy(chunk, [*done, i], _TOGETHER, True)
                    return [b.add(i, step)]

                (start,) = b.loop(
                    start, b.subtract(stop, b.index(_TOGETHER - 1)), _TOGETHER, [start], several
                )
            b.loop(start, stop, 1, (), one)

        if not inside:
            run(zero, end, False)
            return
        low = zero if at_least(lowest, 0) else b.minimum(b.maximum(b.subtract(zero, first), zero), end)
        high = end if below(highest, size) else b.minimum(b.subtract(b.index(size), first), end)
        high = b.maximum(high, low)
        if low is not zero:
            run(zero, low, False)
        run(low, high, True)
        if not below(highest, size):
            run(high, end, False)

    def _copy(self, chunk: _Chunk, done: Sequence[Value], rows: int, inside: bool) -> None:
        """Copies a chunk of consecutive rows."""
        b, fill, whole = self.b, self.access.fill, shape_of(self.buffer.type)
        assert fill is not None
        type = VectorType((rows, chunk.span.size), self.element)
        if inside:
            indices = [*chunk.first[:-1], b.index(0)]
            for d, i in zip(self.moved, done, strict=False):
                indices[d] = b.add(chunk.first[d], i)
            # A view from the first of these rows on: loads from it need no mask for the rows.
            near = self.moved[-2]
            shape = (rows, *[1] * (len(whole) - near - 2), whole[-1])
            view = b.window(self.buffer, indices, shape)
            tile = b.load(
                view,
                [*[b.index(0)] * (len(shape) - 1), chunk.at],
                type=type,
                dims=[0, len(shape) - 1],
                masked=chunk.masked,
                pad=fill if chunk.masked else None,
            )
        else:
            tile = b.number(fill, type)
        b.store(tile, self.copy, [*done, chunk.span.start])
