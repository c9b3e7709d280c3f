# SPDX-License-Identifier: Apache-2.0
"""How a tile is distributed over vector registers, and how lanes move between registers.

The last dimension is split into registers with the target's number of lanes; a remainder takes a register with the next
power of two of lanes, of which those beyond the tile are undefined and never stored, reduced or divided by. The
dimensions before the last are rows of such registers. A scalar is one register of one lane. All tiles of a kernel are
split alike, whatever their element type, so that ops between element types go register by register; LLVM splits
registers that are wider than the machine's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import prod

from ...llvm.instructions import Instructions
from ...llvm.types import Type, Value, bits_of, lanes_of, poison, vector


@dataclass(frozen=True, slots=True)
class Chunk:
    """One register of a row: elements `offset` to `offset + count`, in `width` lanes."""

    offset: int
    count: int
    width: int


class Layout:
    """The registers of a tile of one shape, in row-major order."""

    __slots__ = ("chunks", "lanes", "outer", "rows", "shape", "size")

    def __init__(self, shape: tuple[int, ...], lanes: int):
        self.shape = shape
        self.lanes = lanes
        self.outer = shape[:-1]
        self.rows = prod(self.outer)
        self.chunks = _chunks(shape[-1] if shape else 1, lanes)
        self.size = self.rows * len(self.chunks)

    def row_coordinates(self) -> Iterator[tuple[int, ...]]:
        """The coordinates of each row, in order."""
        return product(*map(range, self.outer))

    def each(self) -> Iterator[tuple[tuple[int, ...], Chunk]]:
        """Row coordinates and chunk of each register, in order."""
        for row in self.row_coordinates():
            for chunk in self.chunks:
                yield row, chunk

    def locate(self, position: int) -> tuple[int, int]:
        """Register and lane of the element at a row-major position."""
        row, at = divmod(position, self.shape[-1]) if self.shape else (0, 0)
        chunk, lane = divmod(at, self.lanes)
        return row * len(self.chunks) + chunk, lane


@cache
def layout(shape: tuple[int, ...], lanes: int) -> Layout:
    return Layout(shape, lanes)


@cache
def _chunks(size: int, lanes: int) -> tuple[Chunk, ...]:
    full = [Chunk(at, lanes, lanes) for at in range(0, size - lanes + 1, lanes)]
    rest = size % lanes
    if rest:
        full.append(Chunk(size - rest, rest, 1 << (rest - 1).bit_length()))
    return tuple(full)


def resize(b: Instructions, register: Value, width: int) -> Value:
    """The first `width` lanes of a register; lanes beyond its own are undefined."""
    have = lanes_of(register.type)
    if have == width:
        return register
    if width == 1:
        return b.extract(register, 0)
    if have == 1:
        return b.insert(poison(vector(width, register.type)), register, 0)
    return b.shuffle(register, None, [i if i < have else -1 for i in range(width)])


def half(b: Instructions, register: Value, which: int) -> Value:
    """The lower or the upper lanes of a register."""
    lanes = lanes_of(register.type) // 2
    return b.shuffle(register, None, list(range(which * lanes, (which + 1) * lanes)))


def splat_lane(b: Instructions, register: Value, lane: int, width: int) -> Value:
    """One lane of a register, broadcast to `width` lanes."""
    if lanes_of(register.type) == 1:
        return b.splat(register, width)
    if width == 1:
        return b.extract(register, lane)
    return b.shuffle(register, None, [lane] * width)


def assemble(
    b: Instructions, element: Type, sources: Sequence[tuple[Value, int] | None], width: int
) -> Value:
    """A register built from lanes of others; a lane is undefined where `sources` is None or has ended."""
    wanted: dict[Value, list[tuple[int, int]]] = {}
    for lane, source in enumerate(sources):
        if source is not None:
            wanted.setdefault(source[0], []).append((lane, source[1]))
    if width == 1:
        (register, lane) = sources[0] or (poison(element), 0)
        return b.extract(register, lane)
    result: Value | None = None
    filled: set[int] = set()
    for register, moves in wanted.items():
        if lanes_of(register.type) == 1:
            for lane, _ in moves:
                result = b.insert(result or poison(vector(width, element)), register, lane)
        else:
            result = _merge(b, result, filled, register, moves, width)
        filled.update(lane for lane, _ in moves)
    return result or poison(vector(width, element))


def _merge(
    b: Instructions,
    into: Value | None,
    filled: set[int],
    register: Value,
    moves: Sequence[tuple[int, int]],
    width: int,
) -> Value:
    picks = dict(moves)
    have = lanes_of(register.type)
    if into is None:
        if have == width and all(lane == pick for lane, pick in moves):
            return register
        return b.shuffle(register, None, [picks.get(lane, -1) for lane in range(width)])
    if have != width:
        register = b.shuffle(register, None, [picks.get(lane, -1) for lane in range(width)])
        picks = {lane: lane for lane in picks}
    indices = [width + picks[i] if i in picks else i if i in filled else -1 for i in range(width)]
    return b.shuffle(into, register, indices)


#: Bits of the 128-bit lanes within which one instruction interleaves two registers.
_PIECE = 128
#: From this number of elements per 128-bit lane, it is transposed by interleaving. With fewer, half of the exchanges
#: are blends, which more execution units do; but not for registers of four 128-bit lanes.
_INTERLEAVED = 8


def transpose_blocks(b: Instructions, rows: Sequence[Value]) -> list[Value]:
    """Transposes n registers of n lanes as a matrix, n a power of two: log2(n) rounds of n shuffles.

    Registers with more lanes hold several such matrices next to each other; each is transposed in place.
    """
    rows = list(rows)
    n, width = len(rows), lanes_of(rows[0].type)
    piece = _PIECE // bits_of(rows[0].type)
    half = n // 2
    while half >= piece:
        rows = _exchanged(b, rows, half)
        half //= 2
    if half == piece // 2 and (piece >= _INTERLEAVED or width >= 4 * piece):
        return _interleaved(b, rows, piece)
    while half:
        rows = _exchanged(b, rows, half)
        half //= 2
    return rows


def _exchanged(b: Instructions, rows: Sequence[Value], half: int) -> list[Value]:
    """Swaps the off-diagonal half x half blocks of every 2 half x 2 half block."""
    rows, width = list(rows), lanes_of(rows[0].type)
    low = [i - half + width if i & half else i for i in range(width)]
    high = [i + width if i & half else i + half for i in range(width)]
    for i in range(len(rows)):
        if not i & half:
            x, y = rows[i], rows[i + half]
            rows[i], rows[i + half] = b.shuffle(x, y, low), b.shuffle(x, y, high)
    return rows


def _interleaved(b: Instructions, rows: Sequence[Value], piece: int) -> list[Value]:
    """Transposes each group of `piece` rows within 128-bit lanes: rows half a group apart are interleaved, log2(piece)
    times."""
    rows, width, half = list(rows), lanes_of(rows[0].type), piece // 2
    low = [
        base + lane + source * width
        for base in range(0, width, piece)
        for lane in range(half)
        for source in (0, 1)
    ]
    high = [lane + half for lane in low]
    size = half
    while size:
        for first in range(0, len(rows), piece):
            pairs = [(rows[first + i], rows[first + half + i]) for i in range(half)]
            rows[first : first + piece] = [b.shuffle(x, y, way) for x, y in pairs for way in (low, high)]
        size //= 2
    return rows
