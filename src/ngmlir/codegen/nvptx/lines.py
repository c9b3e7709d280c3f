# SPDX-License-Identifier: Apache-2.0
"""Tiles that are a line of memory: whole rows of a matrix that lies in one piece, or a part of one row.

Where rows begin off a sector, what a warp asks for along one of them lies in five sectors where four would do, and one
thread cannot move several neighbours. So the line moves from the last piece of 16 bytes on that begins no later than it
does, in whole pieces, and waits in shared memory, where any element is as near as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd

from ...ir.core import Op
from ...ir.types import MemRefType
from ...llvm.types import Value, constant, i32, i64
from ...ops import tile
from ...ops.fields import find_i64s
from ..layouts import Layout
from .access import SECTOR, WIDEST, Access, Bound, alignment, is_shared, memory_of
from .block import Tile, memory_element
from .facts import Facts
from .memory import Buffer, Inside, Memory

#: So many times the sectors of the line an access asks for at least where the line is worth the way through shared memory.
_WORTH = 1.05
#: Bytes of the shortest line: what a warp asks for at once.
_LEAST = 4 * SECTOR


@dataclass(frozen=True)
class Line:
    """A tile of `rows` x `columns` elements that follow each other in memory. `whole`: its rows are those of memory, and
    the tile may be wider; `begins`: bytes of which the place of its first element is a multiple; `access` that of the tile."""

    access: Access
    memory: MemRefType
    dimension: int  # of the memory, along which columns lie
    rows: int
    columns: int
    whole: bool
    begins: int

    @property
    def piece(self) -> int:
        """Elements that a thread moves at once."""
        return WIDEST // self.access.item

    @property
    def count(self) -> int:
        return self.rows * self.columns

    @property
    def shifted(self) -> bool:
        """Whether it may begin within a piece."""
        return self.begins % WIDEST != 0

    @property
    def moved(self) -> int:
        """Elements of all pieces in which it may lie."""
        reach = self.count + (self.piece - 1 if self.shifted else 0)
        return -(-reach // self.piece) * self.piece

    @property
    def pieces(self) -> Access:
        return Access((self.moved,), self.access.item, (1,), (), 0, self.piece)

    def pays(self, layout: Layout) -> bool:
        """Whether threads that hold the tile so would ask for more sectors than the line has."""
        starts = range(0, SECTOR, gcd(self.begins, SECTOR))
        more = SECTOR / (self.count * self.access.item) if len(starts) > 1 else 0.0
        return self.access.waste(layout, starts) >= _WORTH * (1 + more)

    @property
    def apart(self) -> Access:
        """The tile in shared memory, where the line begins."""
        access, closest = self.access, self.access.closest
        strides = tuple(
            (1 if d == closest else self.columns) if size > 1 else 0 for d, size in enumerate(access.shape)
        )
        bounds = tuple(
            Bound(0, self.columns, closest, 1, bound.positive)
            for bound in access.bounds
            if self.whole and bound.along == closest
        )
        return Access(access.shape, access.item, strides, bounds, None, 1)


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
    if rows * columns * item < _LEAST or alignment(buffer, facts) * item % WIDEST:
        return None
    begins = SECTOR
    for d, (index, stride) in enumerate(zip(indices, memory.row_strides, strict=True)):
        if not (whole and d == dimension):
            begins = gcd(begins, facts.of(index).divisor * stride * item)
    return Line(access, memory, dimension, rows, columns, whole, begins)


class Lines:
    """Writes the moving of lines into a block."""

    def __init__(self, memory: Memory):
        self.memory, self.block, self.b = memory, memory.block, memory.b

    def load(
        self, line: Line, buffer: Buffer, indices: Sequence[Value], layout: Layout, pad: Value
    ) -> tuple[Value, ...]:
        """As `Memory.load`; where some of the line is not there, by that."""

        def as_it_lies() -> tuple[Value, ...]:
            return self.memory.load(line.access, buffer, indices, layout, pad)

        def by_the_line() -> tuple[Value, ...]:
            first, shift = self._begin(line, indices)
            source, kept = self._from(buffer, first), self._kept(line, buffer.type)
            if alone:
                self._move_own(line, source, kept, shift)
            else:
                pieces, zero = line.pieces, [constant(i64, 0)]
                spread = pieces.layout(self.block.threads)
                found = self.memory.load(pieces, source, zero, spread, pad)
                self.memory.store(pieces, kept, zero, Tile(spread, pieces.shape, buffer.type.element, found))
            self.block.barrier()
            waiting = self._from(kept, shift) if shift else kept
            loaded = self.memory.load(line.apart, waiting, self._inside(line, indices), layout, pad)
            self.block.scratch_done()
            return loaded

        # What others write meanwhile is not even to be looked at.
        alone = not buffer.steady
        return self._either(line, indices, line.count if alone else line.moved, by_the_line, as_it_lies)

    def store(self, line: Line, buffer: Buffer, indices: Sequence[Value], stored: Tile) -> None:
        """As `Memory.store`; where some of the line is not there, by that."""

        def as_it_lies() -> tuple[Value, ...]:
            self.memory.store(line.access, buffer, indices, stored)
            return ()

        def by_the_line() -> tuple[Value, ...]:
            first, shift = self._begin(line, indices)
            kept = self._kept(line, buffer.type)
            waiting = self._from(kept, shift) if shift else kept
            self.memory.store(line.apart, waiting, self._inside(line, indices), stored)
            self.block.barrier()
            self._move_own(line, kept, self._from(buffer, first), shift)
            self.block.scratch_done()
            return ()

        self._either(line, indices, line.count, by_the_line, as_it_lies)

    def _move_own(self, line: Line, source: Buffer, target: Buffer, shift: Value | None) -> None:
        """Whole pieces at once; of those at the ends, in which others have elements too, single elements. Both buffers begin
        where the first piece does."""
        block, b, memory, pieces = self.block, self.b, self.memory, line.pieces
        kind, spread = memory_element(source.type.element), pieces.layout(block.threads)
        piece = pieces.piece(spread)
        start = constant(i32, 0) if shift is None else b.trunc(shift, i32)
        end = b.add(start, line.count)

        def move(at: Value, count: int, inside: Inside) -> None:
            read, write = (b.getelementptr(kind, each.pointer, b.zext(at, i64)) for each in (source, target))
            found = memory.fetch(source, read, kind, count, inside, constant(kind, 0))
            memory.put(target, write, found, inside)

        for register in range(0, spread.registers, piece):
            (at,) = block.coordinates(spread, register)
            if at.constant >= line.moved:
                continue
            position = constant(i32, at.constant) if at.thread is None else b.add(at.thread, at.constant)
            inside = block.both(block.speaks(spread), b.icmp("sle", b.add(position, piece), end))
            inside = block.both(inside, b.icmp("sge", position, start)) if shift else inside
            assert inside is not False
            move(position, piece, inside)
        if piece == 1 or (shift is None and line.count % piece == 0):
            return
        # A thread for each place of the pieces in which the line begins and ends; none where one is whole.
        with b.when(b.icmp("ult", block.thread, 2 * piece)), block.branch():
            front = b.icmp("ult", block.thread, piece)
            before = b.add(b.and_(start, -piece), block.thread)
            behind = b.add(b.and_(end, -piece), b.sub(block.thread, piece))
            begins = b.add(b.and_(b.sub(start, 1), piece - 1), 1)
            inside = b.select(front, b.icmp("uge", block.thread, begins), b.icmp("slt", behind, end))
            move(b.select(front, before, behind), 1, inside)

    def _begin(self, line: Line, indices: Sequence[Value]) -> tuple[Value, Value | None]:
        """Where the first piece begins in the buffer, and how far behind that the line does."""
        places = [
            None if i.name == "0" or (line.whole and d == line.dimension) else i
            for d, i in enumerate(indices)
        ]
        first = self.block.linear(places, line.memory.row_strides) or constant(i64, 0)
        if not line.shifted:
            return first, None
        return self.b.and_(first, -line.piece), self.b.and_(first, line.piece - 1)

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
        """Where the tile begins in the line."""
        return [indices[line.dimension] if line.whole else constant(i64, 0)]

    def _either(
        self,
        line: Line,
        indices: Sequence[Value],
        reach: int,
        by_the_line: Callable[[], tuple[Value, ...]],
        as_it_lies: Callable[[], tuple[Value, ...]],
    ) -> tuple[Value, ...]:
        """The first where all of the line is there, and `reach` elements from where its first piece begins."""
        b, block, access = self.b, self.block, line.access
        known: Value | bool = True
        for bound in access.bounds:
            if line.whole and bound.along == access.closest:
                continue
            index = indices[bound.dimension]
            span = 0 if bound.along is None else (access.shape[bound.along] - 1) * bound.step
            if not bound.positive:
                known = block.both(known, b.icmp("sge", index, 0))
            known = block.both(known, b.icmp("slt", index, bound.size - span))
        if reach > line.count:
            first, _ = self._begin(line, indices)
            known = block.both(known, b.icmp("sle", first, line.memory.extent - reach))
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
