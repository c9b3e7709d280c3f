# SPDX-License-Identifier: Apache-2.0
"""Loads and stores of tiles that are `Lines`, through shared memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from ...ir.types import MemRefType
from ...llvm.instructions import Instructions
from ...llvm.types import Value, constant, i32, i64
from ...ops.layouts import Layout
from .access import Access
from .block import Coordinate, Tile, memory_element
from .lines import Lines
from .memory import Buffer, Inside, Memory

#: Bytes per thread from which a tile is large: registers do not suffice for it twice, in addition to the other
#: operands.
_LARGE = 128


class _Place(NamedTuple):
    """Where lines are: the first vector access begins at element `first` of the buffer, and the first line `start`
    elements after that. There are `number` lines of `length` elements. In shared memory, the first element of the
    tile's row is `back` elements after the start of the first vector access."""

    first: Value
    start: Value | None  # None: 0
    number: Value | int
    length: Value | int
    back: Value | None


class _Row(NamedTuple):
    """One line. Its first vector access is `far` elements after that of the first line in memory, and `near` in shared
    memory; the line begins at `start` and ends at `end`, relative to that."""

    far: Value | None  # None: 0
    near: Value | None
    start: Value | None
    end: Value | int


class LineMemory:
    """Emits loads and stores of lines."""

    def __init__(self, memory: Memory):
        self.memory, self.block, self.b = memory, memory.block, memory.b

    def load(
        self, lines: Lines, buffer: Buffer, indices: Sequence[Value], layout: Layout, pad: Value
    ) -> tuple[Value, ...]:
        """Like `Memory.load`, and by it at run time if some lines are outside the buffer."""

        def as_it_lies() -> tuple[Value, ...]:
            return self.memory.load(lines.access, buffer, indices, layout, pad)

        # Elements that others may write meanwhile, or that do not belong to the buffer, must not even be read.
        steady = buffer.steady and not lines.afloat
        # If both alternatives returned registers, each would need registers for the whole tile: for a large one both
        # end in shared memory.
        large = layout.registers * lines.access.item > _LARGE
        whole = steady and self._are_whole(lines, buffer, indices)

        def by_lines() -> tuple[Value, ...]:
            place = self._place(lines, buffer, indices)
            source, kept = self._from(buffer, place.first), self._kept(lines, buffer.type)

            def move(alone: bool) -> tuple[()]:
                _Mover(self.memory, lines, place, source, kept, alone).move()
                return ()

            if large and isinstance(whole, Value):
                self._choose(whole, "pieces", lambda: move(False), lambda: move(True))
            else:
                move(not whole)
            self.block.barrier()
            waiting = self._from(kept, place.back) if place.back else kept
            loaded = self.memory.load(lines.in_shared, waiting, self._inside(lines, indices), layout, pad)
            self.block.scratch_done()
            return loaded

        return self._either(lines, indices, by_lines, as_it_lies, True if large or not whole else whole)

    def store(self, lines: Lines, buffer: Buffer, indices: Sequence[Value], stored: Tile) -> None:
        """Like `Memory.store`, and by it at run time if some lines are outside the buffer."""

        def as_it_lies() -> tuple[Value, ...]:
            self.memory.store(lines.access, buffer, indices, stored)
            return ()

        def by_lines() -> tuple[Value, ...]:
            place, kept = self._place(lines, buffer, indices), self._kept(lines, buffer.type)
            waiting = self._from(kept, place.back) if place.back else kept
            self.memory.store(lines.filled, waiting, self._inside(lines, indices), stored)
            self.block.barrier()
            _Mover(self.memory, lines, place, kept, self._from(buffer, place.first), True).move()
            self.block.scratch_done()
            return ()

        self._either(lines, indices, by_lines, as_it_lies)

    def _place(self, lines: Lines, buffer: Buffer, indices: Sequence[Value]) -> _Place:
        key = (lines, buffer.pointer if lines.afloat else None, tuple(indices))
        return self.block.once(key, partial(self._compute, lines, buffer, indices))

    def _compute(self, lines: Lines, buffer: Buffer, indices: Sequence[Value]) -> _Place:
        b, zero = self.b, constant(i64, 0)
        low = zero if lines.whole else indices[lines.dimension]
        count: Value | int = lines.count
        if lines.ends is not None:
            index = low
            if not lines.ends.positive:
                low = b.smax(index, zero)
            high = b.smin(b.add(index, lines.count), constant(i64, lines.ends.size))
            count = b.trunc(b.sub(high, low), i32)
        number: Value | int = lines.number
        if lines.last is not None:
            there = b.sub(constant(i64, lines.last.size + lines.last.step - 1), indices[lines.last.dimension])
            there = b.sdiv(there, lines.last.step) if lines.last.step > 1 else there
            rows = constant(i64, self._rows(lines))
            there = b.trunc(b.smax(b.smin(there, rows), constant(i64, 0)), i32)
            if lines.number > 1:
                number = there
            else:
                count = b.mul(there, lines.columns)
        places = [low if d == lines.dimension else i for d, i in enumerate(indices)]
        first = self.block.linear([None if i.name == "0" else i for i in places], lines.memory.row_strides)
        first = first or zero
        back = None if low.name == "0" else b.sub(zero, low)
        if not lines.shifted:
            return _Place(first, None, number, count, back)
        at = first
        if lines.afloat:
            base = b.cast("ptrtoint", buffer.pointer, i64)
            at = b.add(b.lshr(base, lines.access.item.bit_length() - 1), first)
        shift = b.and_(at, lines.sector - 1)
        back = shift if back is None else b.add(shift, back)
        return _Place(b.sub(first, shift), b.trunc(shift, i32), number, count, back)

    def _kept(self, lines: Lines, type: MemRefType) -> Buffer:
        """The lines in shared memory."""
        place = self.block.scratch(lines.kept * lines.access.item)
        return Buffer(place, MemRefType((lines.kept, 1), type.element, (1, 0), 0, 3), False)

    def _from(self, buffer: Buffer, first: Value) -> Buffer:
        """A buffer from its element `first` on, as one line."""
        element = buffer.type.element
        pointer = self.b.getelementptr(memory_element(element), buffer.pointer, first)
        return Buffer(pointer, MemRefType((1, 1), element, (1, 0), 0, buffer.type.space), buffer.steady)

    def _rows(self, lines: Lines) -> int:
        """Rows of the tile."""
        return lines.number if lines.number > 1 else lines.count // lines.columns

    def _inside(self, lines: Lines, indices: Sequence[Value]) -> list[Value]:
        """The index of the tile within a row, and of its first row."""
        row = lines.last.dimension if lines.last is not None else lines.dimension
        return [indices[lines.dimension], indices[row]]

    def _either(
        self,
        lines: Lines,
        indices: Sequence[Value],
        by_lines: Callable[[], tuple[Value, ...]],
        as_it_lies: Callable[[], tuple[Value, ...]],
        known: Value | bool = True,
    ) -> tuple[Value, ...]:
        """`by_lines` if all lines are inside the buffer and `known` holds, else `as_it_lies`."""
        b, block, access = self.b, self.block, lines.access
        for bound in access.bounds:
            if bound.along == access.closest:
                continue
            index = indices[bound.dimension]
            if not bound.positive:
                known = block.both(known, b.icmp("sge", index, 0))
            if bound is not lines.last:
                known = block.both(known, b.icmp("slt", index, bound.size))
        return self._choose(known, "lines", by_lines, as_it_lies) if isinstance(known, Value) else by_lines()

    def _are_whole(self, lines: Lines, buffer: Buffer, indices: Sequence[Value]) -> Value | bool:
        """Whether all vector accesses that contain the lines are inside the buffer."""
        if lines.moved <= lines.count and lines.ends is None and lines.last is None:
            return True
        b, place = self.b, self._place(lines, buffer, indices)
        number, length = (
            constant(i64, each) if isinstance(each, int) else b.sext(each, i64)
            for each in (place.number, place.length)
        )
        last = b.add(b.mul(b.sub(number, 1), lines.stride), b.add(place.first, length))
        reach = b.add(last, lines.sector + lines.piece - 2)
        return b.icmp("sle", reach, lines.memory.extent)

    def _choose(
        self,
        condition: Value,
        name: str,
        one: Callable[[], tuple[Value, ...]],
        other: Callable[[], tuple[Value, ...]],
    ) -> tuple[Value, ...]:
        """The result of one of two alternatives; `name` labels the first one."""
        b = self.b
        ways = [(b.label(name), one), (b.label("apart"), other)]
        after = b.label("moved")
        b.branch_if(condition, *(label for label, _ in ways))
        ends: list[tuple[tuple[Value, ...], str]] = []
        for label, way in ways:
            b.place(label)
            with self.block.region():
                ends.append((way(), b.block))
            b.branch(after)
        b.place(after)
        (first, begun), (second, ended) = ends
        return tuple(b.phi(v.type, (v, begun), (w, ended)) for v, w in zip(first, second, strict=True))


class _Mover:
    """Copies lines between memory and shared memory; both buffers begin where the first vector access begins. Either
    only with whole vector accesses, even where just a part of one belongs to a line; or `alone`, without touching other
    elements in the first and last vector access of a line."""

    def __init__(
        self, memory: Memory, lines: Lines, place: _Place, source: Buffer, target: Buffer, alone: bool
    ):
        self.memory, self.block, self.b = memory, memory.block, memory.b
        self.lines, self.place, self.alone = lines, place, alone
        self.source, self.target = source, target
        self.kind = memory_element(source.type.element)

    def move(self) -> None:
        block, b, lines = self.block, self.b, self.lines
        pieces = lines.pieces(self.alone)
        spread = pieces.layout(block.threads)
        piece = pieces.piece(spread)
        under_way: list[Callable[[], None]] = []
        for register in range(0, spread.registers, piece):
            row_at, at = block.coordinates(spread, register)
            alive = block.both(block.is_first_copy(spread), block.alive(spread, register, pieces.shape))
            if alive is False:
                continue
            alive = self._there(alive, row_at)
            row, position = self._row(row_at), _position(b, at)
            if self.alone or lines.shifted or not isinstance(row.end, int) or row.end < lines.moved:
                alive = block.both(alive, b.icmp("sle", b.add(position, piece if self.alone else 1), row.end))
            if self.alone and row.start is not None:
                alive = block.both(alive, b.icmp("sge", position, row.start))
            assert alive is not False
            under_way.append(self._begun(row, position, piece, alive))
        place = self.place
        fits = place.start is None and isinstance(place.length, int) and place.length % piece == 0
        if self.alone and piece > 1 and not fits:
            under_way += self._at_the_ends(piece)
        for finish in under_way:
            finish()

    def _at_the_ends(self, piece: int) -> list[Callable[[], None]]:
        """Copies the vector accesses in which lines begin and end, one element per thread; none where such an access is
        complete."""
        block, b = self.block, self.b
        shape = (self.lines.number, 2 * piece)
        spread = Access(shape, self.lines.access.item, (shape[1], 1), (), 1, 1).layout(block.threads)
        under_way: list[Callable[[], None]] = []
        for register in range(spread.registers):
            row_at, at = block.coordinates(spread, register)
            alive = block.both(block.is_first_copy(spread), block.alive(spread, register, shape))
            if alive is False:
                continue
            alive = self._there(alive, row_at)
            row, thread = self._row(row_at), _position(b, at)
            start = constant(i32, 0) if row.start is None else row.start
            end = constant(i32, row.end) if isinstance(row.end, int) else row.end
            front = b.icmp("ult", thread, piece)
            first = b.and_(b.add(start, piece - 1), -piece)  # first complete vector access
            behind = b.add(b.and_(end, -piece), b.sub(thread, piece))
            position = b.select(front, b.add(start, thread), behind)
            low, high = b.select(front, start, first), b.select(front, b.smin(first, end), end)
            found = b.and_(b.icmp("sge", position, low), b.icmp("slt", position, high))
            alive = block.both(alive, found)
            assert alive is not False
            under_way.append(self._begun(row, position, 1, alive))
        return under_way

    def _there(self, alive: Value | bool, row: Coordinate) -> Value | bool:
        """`alive`, and whether the line exists."""
        number = self.place.number
        return (
            alive
            if isinstance(number, int)
            else self.block.both(alive, self.b.icmp("slt", _position(self.b, row), number))
        )

    def _begun(self, row: _Row, at: Value, count: int, inside: Inside) -> Callable[[], None]:
        """Loads `count` neighbours; returns a function that stores them."""
        source, target = (
            self._address(each, row.near if each.type.space else row.far, at)
            for each in (self.source, self.target)
        )
        found = self.memory.fetch(self.source, source, self.kind, count, inside, constant(self.kind, 0))
        return lambda: self.memory.put(self.target, target, found, inside)

    def _address(self, buffer: Buffer, line: Value | None, at: Value) -> Value:
        b = self.b
        at = b.zext(at, i64)
        return b.getelementptr(self.kind, buffer.pointer, at if line is None else b.add(line, at))

    def _row(self, at: Coordinate) -> _Row:
        return self.block.once((self, at), partial(self._compute, at))

    def _compute(self, at: Coordinate) -> _Row:
        b, lines, place = self.b, self.lines, self.place
        start, count = place.start, place.length
        if at.thread is None and at.constant == 0:
            return _Row(None, None, start, count if start is None else b.add(start, count))
        row = b.zext(_position(b, at), i64)
        far, near = b.mul(row, lines.stride), b.mul(row, lines.pitch)
        if start is None:
            return _Row(far, near, None, count)
        far, near = (b.add(each, b.zext(start, i64)) for each in (far, near))
        start = b.and_(b.trunc(near, i32), lines.sector - 1)
        far, near = (b.and_(each, -lines.sector) for each in (far, near))
        return _Row(far, near, start, b.add(start, count))


def _position(b: Instructions, at: Coordinate) -> Value:
    if at.thread is None:
        return constant(i32, at.constant)
    return b.add(at.thread, at.constant) if at.constant else at.thread
