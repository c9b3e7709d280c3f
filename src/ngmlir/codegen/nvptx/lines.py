# SPDX-License-Identifier: Apache-2.0
"""Tiles that consist of lines, contiguous ranges of memory: whole rows of a contiguous matrix form one line, parts of
rows one line each.

If rows do not begin at a sector boundary, a warp that reads along one touches five sectors where four would do, and a
thread cannot move several neighbours at once. So a line is moved from the last sector boundary at or before its start,
in aligned accesses of 16 bytes, to shared memory, where all elements can be accessed at the same cost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd

from ...ir.core import Op
from ...ir.types import MemRefType
from ...ops import tile
from ...ops.fields import find_i64s
from ...ops.layouts import Layout
from .access import SECTOR_BYTES, WIDEST, Access, Bound, alignment, is_shared, memory_of
from .facts import Facts

#: An access goes through shared memory if it would touch at least this many times the sectors of the lines.
_WORTH = 1.05
#: Bytes of the smallest tile, which are those that a warp accesses at once; and bytes of shared memory for the largest.
_LEAST, _MOST = 4 * SECTOR_BYTES, 5 << 13
#: Lines of fewer bytes are short.
_SHORT = 16 * SECTOR_BYTES


@dataclass(frozen=True)
class Lines:
    """A tile of `number` lines of `count` contiguous elements, which begin `stride` elements apart in memory. If it is
    one line of whole rows, each row has `columns` elements. `begins`: a divisor of the offset of each line in bytes;
    `tile_begins`: the same of the tile; `access`: that of the tile. `ends`: the bound at which parts of rows may lack
    elements; `last`: the bound that the last rows may cross; `afloat`: the alignment of the buffer is unknown."""

    access: Access
    memory: MemRefType
    dimension: int  # dimension of the memory along which the columns run
    number: int
    count: int
    stride: int
    columns: int
    whole: bool
    begins: int
    tile_begins: int
    ends: Bound | None
    last: Bound | None
    afloat: bool

    @property
    def piece(self) -> int:
        """Elements that a thread moves with one vector access."""
        return WIDEST // self.access.item

    @property
    def sector(self) -> int:
        """Elements of a sector; the first vector access begins at a sector boundary."""
        return SECTOR_BYTES // self.access.item

    @property
    def shifted(self) -> bool:
        """Whether a line may begin inside a sector."""
        return self.begins % SECTOR_BYTES != 0

    @property
    def moved(self) -> int:
        """Elements of all vector accesses that may contain a part of a line."""
        reach = self.count + (self.sector - 1 if self.shifted else 0)
        return -(-reach // self.piece) * self.piece

    @property
    def pitch(self) -> int:
        """Elements from one line to the next in shared memory; equal to `stride` modulo a sector."""
        behind = self.stride % self.sector
        return behind + -(-(self.moved + self.sector - behind) // self.sector) * self.sector

    @property
    def kept(self) -> int:
        """Elements of shared memory in use."""
        return (self.number - 1) * self.pitch + self.moved + self.sector

    def pieces(self, alone: bool) -> Access:
        """The access that moves all lines: by single elements for short lines where elements at their ends would
        otherwise be moved separately, and touch the same sectors once more."""
        short = alone and self.count * self.access.item < _SHORT
        width = 1 if short else self.piece
        return Access((self.number, self.moved), self.access.item, (self.pitch, 1), (), 1, width)

    def pays(self, layout: Layout) -> bool:
        """Whether a direct access in this layout would touch more sectors than the lines have."""
        starts = range(0, SECTOR_BYTES, gcd(self.tile_begins, SECTOR_BYTES))
        more = SECTOR_BYTES / (self.count * self.access.item) if self.shifted else 0.0
        asked = self.access.waste(layout, starts, layout.threads // 32, self.columns if self.whole else None)
        return asked >= _WORTH * (1 + more)

    @property
    def in_shared(self) -> Access:
        """The access of the tile in shared memory, relative to the start of a row."""
        access, closest = self.access, self.access.closest
        far = self.pitch if self.number > 1 else self.columns
        strides = tuple(
            (1 if d == closest else far) if size > 1 else 0 for d, size in enumerate(access.shape)
        )
        bounds = tuple(
            bound._replace(dimension=int(bound.along != closest))
            for bound in access.bounds
            if bound.along is not None and access.shape[bound.along] > 1
        )
        # If the line may begin anywhere in its first sector, so may every row.
        together = self.number == 1 and self.whole and not self.shifted
        width = gcd(self.columns, self.piece) if together else 1
        return Access(access.shape, access.item, strides, bounds, closest if width > 1 else None, width)

    @property
    def filled(self) -> Access:
        """Like `in_shared`, for writing: elements beyond the ends have memory too, and are not moved on, so they need
        no mask. That matters since ptxas keeps all operands of a predicated store in registers until the predicate is
        known."""
        shared = self.in_shared
        needed = tuple(
            bound for bound in shared.bounds if not bound.positive or (self.whole and bound.dimension == 0)
        )
        return replace(shared, bounds=needed)


def lines_of(op: Op, access: Access, facts: Facts) -> Lines | None:
    """The lines that a tile.load or tile.store moves, or None if it moves none."""
    buffer, indices = (
        (op.buffer, op.indices) if isinstance(op, tile.LoadOp) else (op.operands[1], op.operands[2:])
    )
    closest, item = access.closest, access.item
    others = [d for d, size in enumerate(access.shape) if size > 1 and d != closest]
    if closest is None or len(others) > 1 or is_shared(buffer):
        return None
    if any(access.strides[d] < 0 for d in others):
        return None  # of a reversed tile the first lines may be missing, not the last
    memory, rank = memory_of(buffer, op), len(access.shape)
    dims = find_i64s(op, "dims") or tuple(range(memory.rank - rank, memory.rank))
    dimension, width = dims[closest], access.shape[closest]
    at = facts.of(indices[dimension])
    whole = at.high <= 0 and at.low + width >= memory.shape[dimension]
    columns = memory.shape[dimension] if whole else width
    rows, stride = (access.shape[others[0]], access.strides[others[0]]) if others else (1, 0)
    if whole and stride == columns:
        number, count, stride = 1, rows * columns, 0
    else:
        number, count = rows, columns
    afloat = alignment(buffer, facts) * item % WIDEST != 0
    begins = gcd(item if afloat else SECTOR_BYTES, stride * item)
    tile_begins = begins
    for d, (index, step) in enumerate(zip(indices, memory.row_strides, strict=True)):
        places = facts.of(index).divisor * step * item
        tile_begins = gcd(tile_begins, places)
        begins = begins if whole and d == dimension else gcd(begins, places)
    along = {bound.along: bound for bound in access.bounds}
    ends, last = None if whole else along.get(closest), along.get(others[0]) if others else None
    found = Lines(
        access,
        memory,
        dimension,
        number,
        count,
        stride,
        columns,
        whole,
        begins,
        tile_begins,
        ends,
        last,
        afloat,
    )
    return found if _LEAST <= number * count * item and found.kept * item <= _MOST else None
