# SPDX-License-Identifier: Apache-2.0
"""Storage of tiles in shared memory: the one for which writers and readers take the fewest wavefronts.

Shared memory has 32 banks of 4 bytes, and serves one instruction of a warp in as many wavefronts as there are different
words in one bank. If rows are padded, or the 16-byte chunks of each row are permuted (swizzled), the elements of a
column are in different banks. The best storage is found by counting wavefronts for the very threads that will use it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import NamedTuple

from ...ir.literals import item_bytes
from ...ir.types import MemRefType, Type
from ...llvm.types import Type as LlvmType
from ...llvm.types import Value, i32, i64, vector
from ...ops.layouts import Basis, Layout, padded
from ..elementwise import llvm_element
from .access import WIDEST, Access
from .block import Block, Tile, memory_element

_BANKS, _BANK = 32, 4
#: Bytes of a chunk that a swizzle permutes: smaller ones spread over more banks, but one instruction then moves less.
_GRAINS = (WIDEST, 8, 4)
#: Rows of tiles may be padded by this many chunks of 16 bytes.
_PADDINGS = (0, 1, 2, 4)


@dataclass(frozen=True)
class Storage:
    """How a tile is stored: the stride in elements of each dimension; `closest` is the contiguous one. If `permuted` is
    more than 0, strides are powers of two, and that many low bits of the number of a chunk of `grain` bytes are xored
    with the bits that are `above` higher, with those twice as much higher, and so on: so the far end of a long row, or
    many rows, also influence the bank."""

    strides: tuple[int, ...]
    closest: int
    elements: int
    item: int
    permuted: int = 0
    above: int = 0
    grain: int = WIDEST

    @property
    def bytes(self) -> int:
        return -(-self.elements * self.item // WIDEST) * WIDEST

    def at(self, coordinates: Sequence[int]) -> int:
        """The offset of an element, in elements."""
        place = sum(c * s for c, s in zip(coordinates, self.strides, strict=True))
        if not self.permuted:
            return place
        low = (self.grain // self.item).bit_length() - 1
        mixed, rest = 0, place >> low
        while rest := rest >> self.above:
            mixed ^= rest
        return place ^ (mixed & (1 << self.permuted) - 1) << low

    def piece(self, layout: Layout) -> int:
        """How many consecutive registers one instruction can move."""
        return min(layout.run(self.closest), self.grain // self.item)

    def wavefronts(self, layout: Layout, piece: int) -> int:
        """Wavefronts of one instruction of a warp whose lanes each move `piece` elements, the first of which `layout`
        gives."""
        words = max(1, piece * self.item // _BANK)
        lanes = 32 // words  # lanes that are served together
        total = 0
        for first in range(0, 32, lanes):
            banks: dict[int, set[int]] = {}
            for lane in range(first, first + lanes):
                word = self.at(layout.of_thread(lane)) * self.item // _BANK
                for each in range(word, word + words):
                    banks.setdefault(each % _BANKS, set()).add(each)
            total += max(map(len, banks.values()))
        return total


class User(NamedTuple):
    """A writer or reader of a tile: in a layout of its elements, or by `ldmatrix`, whose lanes each point at 16 bytes."""

    layout: Layout
    by_matrix: bool = False

    def cost(self, storage: Storage) -> int:
        """Wavefronts and instructions of each warp."""
        if self.by_matrix and (rows := matrix_rows(self.layout, storage)) is not None:
            instructions, layout, piece = rows.layout.registers, rows.layout, WIDEST // storage.item
        else:
            piece = storage.piece(self.layout)
            instructions, layout = self.layout.registers // piece, self.layout
        return instructions * (1 + storage.wavefronts(layout, piece))


@cache
def best(element_bytes: int, users: tuple[User, ...], orders: tuple[tuple[int, ...], ...]) -> Storage:
    """The storage of the least total cost for `users`; then of the least cost for the last user, which waits for the
    result; then the smallest. Each of `orders` lists the dimensions, the contiguous one last."""

    def price(storage: Storage) -> tuple[int, ...]:
        costs = [user.cost(storage) for user in users]
        return sum(costs), costs[-1], storage.bytes, storage.permuted

    layouts = [user.layout for user in users]
    return min((s for order in orders for s in _candidates(layouts, element_bytes, order)), key=price)


def storage(element: Type, users: Sequence[User], orders: Sequence[Sequence[int]] | None = None) -> Storage:
    """The best storage for a tile, over all choices of the contiguous dimension if no orders are given."""
    rank = users[0].layout.rank
    if orders is None:
        orders = [[d for d in range(rank) if d != last] + [last] for last in range(rank)] or [[]]
    return best(item_bytes(element), tuple(users), tuple(map(tuple, orders)))


def _candidates(layouts: Sequence[Layout], item: int, order: Sequence[int]) -> Iterator[Storage]:
    shape = layouts[0].shape

    def placed(padding: int) -> tuple[tuple[int, ...], int]:
        strides, step = [0] * len(shape), 1
        for d in reversed(order):
            strides[d] = step
            step *= shape[d]
            step += padding if d == order[-1] else 0
        return tuple(strides), step

    closest = order[-1] if order else 0
    piece = WIDEST // item
    row = shape[closest] if shape else 1
    several = prod(shape) > row
    for padding in _PADDINGS if several and row >= piece else (0,):
        strides, elements = placed(padding * piece)
        yield Storage(strides, closest, elements, item)
    strides, elements = placed(0)
    # If all users move 16 bytes at once, smaller chunks gain nothing.
    narrow = any(layout.run(closest) < piece for layout in layouts) if shape else False
    for grain in _GRAINS:
        if grain < item or (grain < WIDEST and not narrow):
            continue
        pieces = (elements * item // grain).bit_length() - 1
        for permuted in range(1, (_BANKS * _BANK // grain).bit_length()):
            for above in reversed(range(permuted, pieces - permuted + 1)):
                yield Storage(strides, closest, elements, item, permuted, above, grain)


class MatrixRows(NamedTuple):
    """How `ldmatrix` reads a tile: register i and the thread in `layout` give the position of the 16 bytes to which a
    lane points for the i-th instruction. Each instruction gives `words` words, in order; `transposed`: with `.trans`."""

    layout: Layout
    words: int
    transposed: bool


def matrix_rows(layout: Layout, storage: Storage) -> MatrixRows | None:
    """How `ldmatrix` can give each thread the elements that `layout` assigns to it, or None if it cannot. It reads 8
    rows of 16 bytes for each word; lane 4 * r + c gets word c of row r, or with `.trans` the elements 2 * c and 2 * c +
    1 of column r."""
    inside = (_BANK // storage.item).bit_length() - 1
    closest, rank = storage.closest, layout.rank

    def runs(bases: Sequence[Basis]) -> bool:
        """Whether the bits step along the contiguous dimension by 1, 2, 4 ..."""
        return list(bases) == [
            tuple(1 << bit if d == closest else 0 for d in range(rank)) for bit in range(len(bases))
        ]

    if storage.item > _BANK or storage.grain < WIDEST or len(layout.register) < inside:
        return None
    low, lane = layout.register[:inside], layout.lane
    if runs([*low, *lane[:2]]):
        pointed, transposed = lane[2:], False
    elif storage.item == 2 and runs(lane[2:]):
        pointed, transposed = (*low, *lane[:2]), True
    else:
        return None
    others = layout.register[inside:]
    taken = others[:2]
    rest = (*others[2:], *layout.warp, *others[:2])
    if any(basis[closest] * storage.item % WIDEST for basis in (*rest, *pointed)):
        return None
    unused = ((0,) * rank,) * (2 - len(taken))
    made = Layout(layout.shape, others[2:], (*pointed, *taken, *unused, *layout.warp))
    return MatrixRows(made, 1 << len(taken), transposed)


def stored_at(access: Access, buffer: MemRefType) -> Storage | None:
    """The storage of the tile of an access to a shared buffer, if its rows begin at multiples of 16 bytes; else None."""
    if access.closest is None or access.bounds or access.width * access.item != WIDEST:
        return None
    if padded(access.shape) != access.shape:
        return None
    return Storage(access.strides, access.closest, buffer.extent, access.item)


@cache
def with_banks_apart(layout: Layout, place: Storage, piece: int) -> Layout:
    """The layout with its lanes, and the rows that a warp moves at once, renumbered so that what is served together is
    in as many different banks as possible; a warp moves the same number of rows, but different ones."""
    rows = [d for d in range(layout.rank) if d != place.closest and layout.shape[d] > 1][-1:]
    bits = layout.shape[rows[0]].bit_length() - 1 if rows else 0

    def turned(bases: Sequence[Basis], by: int) -> list[Basis]:
        """The bases with the bits of the row number rotated: its lowest bits become its highest."""
        return [
            tuple((c << by | c >> bits - by) & (1 << bits) - 1 if d in rows else c for d, c in enumerate(b))
            for b in bases
        ]

    def candidates() -> Iterator[Layout]:
        for by in range(max(1, bits)):
            register, (*thread,) = turned(layout.register, by), turned(layout.thread, by)
            lane, warp = thread[: len(layout.lane)], thread[len(layout.lane) :]
            for first in range(len(lane)):
                yield Layout(layout.shape, tuple(register), (*lane[first:], *lane[:first], *warp))

    return min(candidates(), key=lambda each: place.wavefronts(each, piece))


# ---- writing and reading


@dataclass(frozen=True)
class Stored:
    """A tile in shared memory, `start` elements after `base`."""

    storage: Storage
    base: Value
    start: int = 0

    def at(self, dimension: int, position: int) -> Stored:
        """The part of the tile at one position along a dimension, without that dimension."""
        whole = self.storage
        strides = tuple(s for d, s in enumerate(whole.strides) if d != dimension)
        closest = whole.closest - (whole.closest > dimension)
        before = whole.at([position if d == dimension else 0 for d in range(len(whole.strides))])
        return Stored(replace(whole, strides=strides, closest=closest), self.base, self.start + before)


def write(block: Block, tile: Tile, place: Storage, base: Value) -> Stored:
    """Writes a tile to shared memory at `base`, each element once."""
    b, layout = block.b, tile.layout
    stored = Stored(place, base)
    piece = place.piece(layout)
    kind = memory_element(tile.element)

    def write_all() -> None:
        for register in range(0, layout.registers, piece):
            to = _address(block, stored, layout, register, kind)
            packed = block.pack([block.to_memory(v) for v in tile.values[register : register + piece]])
            b.store(packed, to, align=piece * place.item)

    speaks = block.is_first_copy(layout)
    if isinstance(speaks, Value):
        with b.when(speaks), block.branch():
            write_all()
    else:
        write_all()
    return stored


def read(block: Block, stored: Stored, layout: Layout, element: Type) -> list[Value]:
    """A tile's elements in the layout `layout`."""
    piece = stored.storage.piece(layout)
    kind = memory_element(element)
    values: list[Value] = []
    for register in range(0, layout.registers, piece):
        place = _address(block, stored, layout, register, kind)
        whole = block.b.load(vector(piece, kind), place, align=piece * stored.storage.item)
        values += [block.from_memory(value, llvm_element(element)) for value in block.unpack(whole, piece)]
    return values


def read_words(block: Block, stored: Stored, rows: MatrixRows, element: Type) -> list[Value]:
    """A tile's elements read by `ldmatrix`, as words of 4 bytes, in the order of the layout that `rows` was made for."""
    b, layout, count = block.b, rows.layout, rows.words
    kind = memory_element(element)
    name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if rows.transposed else ''}.b16.p3"
    result = "{" + ", ".join([i32] * count) + "}" if count > 1 else i32
    words: list[Value] = []
    for register in range(layout.registers):
        place = _address(block, stored, layout, register, kind)
        got = b.intrinsic(name, result, place, overload=())
        words += [b.extract_value(got, i, i32) for i in range(count)] if count > 1 else [got]
    return words


def words_apart(block: Block, words: Sequence[Value], element: Type) -> tuple[Value, ...]:
    """The elements of words of 4 bytes."""
    count, kind = _BANK // item_bytes(element), memory_element(element)
    whole = (block.b.bitcast(word, vector(count, kind)) for word in words)
    return tuple(block.from_memory(v, llvm_element(element)) for w in whole for v in block.unpack(w, count))


def _address(block: Block, stored: Stored, layout: Layout, register: int, kind: LlvmType) -> Value:
    b, place = block.b, stored.storage
    held = layout.held[register]
    if not place.permuted:
        coordinates = block.coordinates(layout, register)

        def start() -> Value:
            offset = block.linear([c.thread for c in coordinates], place.strides)
            return b.getelementptr(kind, stored.base, b.zext(offset, i64)) if offset else stored.base

        known = stored.start + place.at(held)
        first = block.once((stored.base, layout, place, kind), start)
        return b.getelementptr(kind, first, known) if known else first
    bases = [place.at(basis) for basis in layout.thread]
    moving = 0
    for basis in bases:
        moving |= basis
    # The part of a register's offset in bits that are the same in all threads is a constant of the instruction.
    known = place.at(held) ^ stored.start
    mixed, known = known & moving, known & ~moving

    def start_of() -> Value:
        offset = block.once((layout, place), lambda: block.bits(bases))
        if offset is None:
            return stored.base
        offset = b.xor(offset, mixed) if mixed else offset
        return b.getelementptr(kind, stored.base, b.zext(offset, i64))

    first = block.once((stored.base, layout, place, kind, mixed), start_of)
    return b.getelementptr(kind, first, known) if known else first
