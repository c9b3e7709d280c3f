# SPDX-License-Identifier: Apache-2.0
"""Tiles that are a line of memory: whole rows of a matrix that lies in one piece, or a part of one row.

Where rows begin off a sector, what a warp asks for along one of them lies in five sectors where four would do, and one
thread cannot move several neighbours. So the line moves from the last sector on that begins no later than it does, in
whole pieces of 16 bytes, and waits in shared memory, where any element is as near as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import gcd
from typing import NamedTuple

from ...ir.core import Op
from ...ir.types import MemRefType
from ...llvm.types import Value, constant, i32, i64
from ...ops import tile
from ...ops.fields import find_i64s
from ..layouts import Layout
from .access import SECTOR_BYTES, WIDEST, Access, Bound, alignment, is_shared, memory_of
from .block import Tile, memory_element
from .facts import Facts
from .memory import Buffer, Inside, Memory

#: So many times the sectors of the line an access asks for at least where the line is worth the way through shared memory.
_WORTH = 1.05
#: Bytes of the shortest line: what a warp asks for at once.
_LEAST = 4 * SECTOR_BYTES


@dataclass(frozen=True)
class Line:
    """A tile of `rows` x `columns` elements that follow each other in memory. `whole`: its rows are those of memory, and
    the tile may be wider; `begins`: bytes of which the place of its first element is a multiple, `tile_begins` of that of
    the tile; `access` that of the tile; `ends`: a part of a row may lack elements at the row's ends; `afloat`: nothing is
    known of where the buffer begins."""

    access: Access
    memory: MemRefType
    dimension: int  # of the memory, along which columns lie
    rows: int
    columns: int
    whole: bool
    begins: int
    tile_begins: int
    ends: Bound | None
    afloat: bool

    @property
    def piece(self) -> int:
        """Elements that a thread moves at once."""
        return WIDEST // self.access.item

    @property
    def sector(self) -> int:
        """Elements of a sector, with one of which the first piece begins."""
        return SECTOR_BYTES // self.access.item

    @property
    def count(self) -> int:
        """Its elements, at most."""
        return self.rows * self.columns

    @property
    def shifted(self) -> bool:
        """Whether it may begin within a sector."""
        return self.begins % SECTOR_BYTES != 0

    @property
    def moved(self) -> int:
        """Elements of all pieces in which it may lie."""
        reach = self.count + (self.sector - 1 if self.shifted else 0)
        return -(-reach // self.piece) * self.piece

    @property
    def pieces(self) -> Access:
        return Access((self.moved,), self.access.item, (1,), (), 0, self.piece)

    def pays(self, layout: Layout) -> bool:
        """Whether threads that hold the tile so would ask for more sectors than the line has."""
        starts = range(0, SECTOR_BYTES, gcd(self.tile_begins, SECTOR_BYTES))
        more = SECTOR_BYTES / (self.count * self.access.item) if self.shifted else 0.0
        return self.access.waste(layout, starts) >= _WORTH * (1 + more)

    @property
    def apart(self) -> Access:
        """The tile in shared memory, by its place in a row of the line."""
        access, closest = self.access, self.access.closest
        strides = tuple(
            (1 if d == closest else self.columns) if size > 1 else 0 for d, size in enumerate(access.shape)
        )
        bounds = tuple(bound._replace(dimension=0) for bound in access.bounds if bound.along == closest)
        # Where the line begins anywhere in its first sector, so does every row.
        width = 1 if self.shifted or not self.whole else gcd(self.columns, self.piece)
        return Access(access.shape, access.item, strides, bounds, closest if width > 1 else None, width)


def line_of(op: Op, access: Access, facts: Facts) -> Line | None:
    """The line that a tile.load or tile.store moves, if it does and begins off a sector."""
    buffer, indices = (
        (op.buffer, op.indices) if isinstance(op, tile.LoadOp) else (op.operands[1], op.operands[2:])
    )
    closest = access.closest
    if closest is None or is_shared(buffer):
        return None
    memory = memory_of(buffer, op)
    rank, item = len(access.shape), access.item
    dims = find_i64s(op, "dims") or tuple(range(memory.rank - rank, memory.rank))
    dimension, width = dims[closest], access.shape[closest]
    at = facts.of(indices[dimension])
    whole = at.high <= 0 and at.low + width >= memory.shape[dimension]
    columns = memory.shape[dimension] if whole else width
    others = [d for d, size in enumerate(access.shape) if size > 1 and d != closest]
    if others and not (len(others) == 1 and whole and access.strides[others[0]] == columns):
        return None
    rows = access.shape[others[0]] if others else 1
    if rows * columns * item < _LEAST:
        return None
    afloat = alignment(buffer, facts) * item % WIDEST != 0
    begins = tile_begins = item if afloat else SECTOR_BYTES
    for d, (index, stride) in enumerate(zip(indices, memory.row_strides, strict=True)):
        step = facts.of(index).divisor * stride * item
        tile_begins = gcd(tile_begins, step)
        begins = begins if whole and d == dimension else gcd(begins, step)
    ends = next((bound for bound in access.bounds if bound.along == closest and not whole), None)
    return Line(access, memory, dimension, rows, columns, whole, begins, tile_begins, ends, afloat)


class _Place(NamedTuple):
    """Where a line is: its first piece begins at element `first` of the buffer, it begins `start` elements behind that and
    ends before `end`; the tile in shared memory has its row's first element `back` behind where the pieces begin."""

    first: Value
    start: Value | None  # None: 0
    end: Value | int
    back: Value | None


class Lines:
    """Writes the moving of lines into a block."""

    def __init__(self, memory: Memory):
        self.memory, self.block, self.b = memory, memory.block, memory.b

    def load(
        self, line: Line, buffer: Buffer, indices: Sequence[Value], layout: Layout, pad: Value
    ) -> tuple[Value, ...]:
        """As `Memory.load`; where some rows are not there, by that."""

        def as_it_lies() -> tuple[Value, ...]:
            return self.memory.load(line.access, buffer, indices, layout, pad)

        def by_the_line() -> tuple[Value, ...]:
            place = self._place(line, buffer, indices)
            source, kept = self._from(buffer, place.first), self._kept(line, buffer.type)
            self._move(line, place, source, kept, alone)
            self.block.barrier()
            waiting = self._from(kept, place.back) if place.back else kept
            loaded = self.memory.load(line.apart, waiting, self._inside(line, indices), layout, pad)
            self.block.scratch_done()
            return loaded

        # What others write meanwhile, or what is no buffer's, is not even to be looked at.
        alone = not buffer.steady or line.afloat
        return self._either(line, buffer, indices, not alone, by_the_line, as_it_lies)

    def store(self, line: Line, buffer: Buffer, indices: Sequence[Value], stored: Tile) -> None:
        """As `Memory.store`; where some rows are not there, by that."""

        def as_it_lies() -> tuple[Value, ...]:
            self.memory.store(line.access, buffer, indices, stored)
            return ()

        def by_the_line() -> tuple[Value, ...]:
            place, kept = self._place(line, buffer, indices), self._kept(line, buffer.type)
            waiting = self._from(kept, place.back) if place.back else kept
            self.memory.store(line.apart, waiting, self._inside(line, indices), stored)
            self.block.barrier()
            self._move(line, place, kept, self._from(buffer, place.first), alone=True)
            self.block.scratch_done()
            return ()

        self._either(line, buffer, indices, False, by_the_line, as_it_lies)

    def _move(self, line: Line, place: _Place, source: Buffer, target: Buffer, alone: bool) -> None:
        """By whole pieces, also where the line has only a part of them; or `alone`, which leaves the elements of others in
        its first and last piece as they are. Both buffers begin where the first piece does."""
        block, b, memory, pieces = self.block, self.b, self.memory, line.pieces
        kind, spread = memory_element(source.type.element), pieces.layout(block.threads)
        piece = pieces.piece(spread)

        def fetched(at: Value, count: int, inside: Inside) -> tuple[Value, Value, Inside]:
            read = b.getelementptr(kind, source.pointer, b.zext(at, i64))
            return at, memory.fetch(source, read, kind, count, inside, constant(kind, 0)), inside

        def put(at: Value, found: Value, inside: Inside) -> None:
            memory.put(target, b.getelementptr(kind, target.pointer, b.zext(at, i64)), found, inside)

        under_way: list[tuple[Value, Value, Inside]] = []
        for register in range(0, spread.registers, piece):
            (at,) = block.coordinates(spread, register)
            reach = sum(basis[0] for basis in spread.thread) + at.constant + (piece if alone else 1)
            if at.constant >= line.moved:
                continue
            position = constant(i32, at.constant) if at.thread is None else b.add(at.thread, at.constant)
            inside: Value | bool = block.speaks(spread)
            if not isinstance(place.end, int) or reach > place.end:
                last = b.add(position, piece) if alone else b.add(position, 1)
                inside = block.both(inside, b.icmp("sle", last, place.end))
            if alone and place.start is not None:
                inside = block.both(inside, b.icmp("sge", position, place.start))
            assert inside is not False
            under_way.append(fetched(position, piece, inside))
        for each in under_way:
            put(*each)
        fits = place.start is None and isinstance(place.end, int) and place.end % piece == 0
        if not alone or piece == 1 or fits:
            return
        # A thread for each place of the pieces in which the line begins and ends; none where one is whole.
        with b.when(b.icmp("ult", block.thread, 2 * piece)), block.branch():
            start = constant(i32, 0) if place.start is None else place.start
            end = constant(i32, place.end) if isinstance(place.end, int) else place.end
            front = b.icmp("ult", block.thread, piece)
            first = b.and_(b.add(start, piece - 1), -piece)  # whole piece
            behind = b.add(b.and_(end, -piece), b.sub(block.thread, piece))
            at = b.select(front, b.add(start, block.thread), behind)
            low, high = b.select(front, start, first), b.select(front, b.smin(first, end), end)
            put(*fetched(at, 1, b.and_(b.icmp("sge", at, low), b.icmp("slt", at, high))))

    def _place(self, line: Line, buffer: Buffer, indices: Sequence[Value]) -> _Place:
        key = (line, buffer.pointer if line.afloat else None, tuple(indices))
        return self.block.once(key, partial(self._compute, line, buffer, indices))

    def _compute(self, line: Line, buffer: Buffer, indices: Sequence[Value]) -> _Place:
        b, zero = self.b, constant(i64, 0)
        low = zero if line.whole else indices[line.dimension]
        end: Value | int = line.count
        if line.ends is not None:
            index = low
            if not line.ends.positive:
                low = b.smax(index, zero)
            high = b.smin(b.add(index, line.count), constant(i64, line.ends.size))
            end = b.trunc(b.sub(high, low), i32)
        places = [low if d == line.dimension else i for d, i in enumerate(indices)]
        first = (
            self.block.linear([None if i.name == "0" else i for i in places], line.memory.row_strides) or zero
        )
        back = None if low.name == "0" else b.sub(zero, low)
        if not line.shifted:
            return _Place(first, None, end, back)
        shift = b.and_(self._number(line, buffer, first), line.sector - 1)
        back = shift if back is None else b.add(shift, back)
        start = b.trunc(shift, i32)
        end = b.add(start, end)
        return _Place(b.sub(first, shift), start, end, back)

    def _number(self, line: Line, buffer: Buffer, first: Value) -> Value:
        """The number of an element, counted from the beginning of some sector."""
        b = self.b
        if not line.afloat:
            return first
        item = line.access.item
        base = b.cast("ptrtoint", buffer.pointer, i64)
        return b.add(b.lshr(base, item.bit_length() - 1), first)

    def _kept(self, line: Line, type: MemRefType) -> Buffer:
        """The line in shared memory."""
        place = self.block.scratch(line.moved * line.access.item)
        return Buffer(place, MemRefType((line.moved,), type.element, None, 0, 3), False)

    def _from(self, buffer: Buffer, first: Value) -> Buffer:
        """What lies in a buffer from an element on, as one line."""
        element = buffer.type.element
        pointer = self.b.getelementptr(memory_element(element), buffer.pointer, first)
        return Buffer(pointer, MemRefType((1,), element, None, 0, buffer.type.space), buffer.steady)

    def _inside(self, line: Line, indices: Sequence[Value]) -> list[Value]:
        """Where the tile begins in a row."""
        return [indices[line.dimension]]

    def _either(
        self,
        line: Line,
        buffer: Buffer,
        indices: Sequence[Value],
        pieces: bool,
        by_the_line: Callable[[], tuple[Value, ...]],
        as_it_lies: Callable[[], tuple[Value, ...]],
    ) -> tuple[Value, ...]:
        """The first where all rows of the line are there, and all `pieces` in which it lies."""
        b, block, access = self.b, self.block, line.access
        known: Value | bool = True
        for bound in access.bounds:
            if bound.along == access.closest:
                continue
            index = indices[bound.dimension]
            span = 0 if bound.along is None else (access.shape[bound.along] - 1) * bound.step
            if not bound.positive:
                known = block.both(known, b.icmp("sge", index, 0))
            known = block.both(known, b.icmp("slt", index, bound.size - span))
        if pieces and (line.moved > line.count or line.ends is not None):
            place = self._place(line, buffer, indices)
            end = constant(i32, place.end) if isinstance(place.end, int) else place.end
            reach = b.zext(b.and_(b.add(end, line.piece - 1), -line.piece), i64)
            known = block.both(known, b.icmp("sle", b.add(place.first, reach), line.memory.extent))
        if not isinstance(known, Value):
            return by_the_line()
        ways = [(b.label("line"), by_the_line), (b.label("apart"), as_it_lies)]
        after = b.label("moved")
        b.branch_if(known, *(label for label, _ in ways))
        ends: list[tuple[tuple[Value, ...], str]] = []
        for label, way in ways:
            b.place(label)
            with block.region():
                ends.append((way(), b.block))
            b.branch(after)
        b.place(after)
        (first, one), (second, other) = ends
        return tuple(b.phi(v.type, (v, one), (w, other)) for v, w in zip(first, second, strict=True))
