# SPDX-License-Identifier: Apache-2.0
"""Tiles from layout to layout: by moves within threads, by shuffles within warps, or through shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...ir.literals import item_bytes
from ...ir.types import Type
from ...llvm.types import Type as LlvmType
from ...llvm.types import Value, i8, i64, vector
from ..elementwise import llvm_element
from ..layouts import Layout, Plan, Source, conversion
from .access import WIDEST
from .block import Block, Tile, memory_element

#: Above this many instructions per element, a conversion is cheaper through shared memory.
_SHUFFLES_PER_ELEMENT = 4
#: Rows of this many bytes or more are kept apart in shared memory.
_BANKED = 64


def convert(block: Block, tile: Tile, layout: Layout) -> Tile:
    """The same elements in another layout."""
    return convert_all(block, [(tile, layout)])[0]


def convert_all(block: Block, wanted: Sequence[tuple[Tile, Layout]]) -> list[Tile]:
    """Several conversions; those through shared memory go together."""
    results: list[Tile | None] = []
    through: list[tuple[Tile, Layout, Storage, int]] = []
    size = 0
    for tile, layout in wanted:
        results.append(_in_registers(block, tile, layout))
        if results[-1] is None:
            through.append((tile, layout, storage(layout, tile.element), size))
            size += through[-1][2].bytes
    if not through:
        return [result for result in results if result is not None]
    base = block.scratch(size)
    stored = [
        write(block, tile, place, block.b.getelementptr(i8, base, offset) if offset else base)
        for tile, _, place, offset in through
    ]
    block.barrier()
    back = iter(
        Tile(layout, tile.shape, tile.element, tuple(read(block, found, layout, tile.element)))
        for found, (tile, layout, _, _) in zip(stored, through, strict=True)
    )
    done = [result if result is not None else next(back) for result in results]
    block.scratch_done()
    return done


# ---- within a warp


def _in_registers(block: Block, tile: Tile, layout: Layout) -> Tile | None:
    """By moves and shuffles, where that is possible and not too much."""
    if layout == tile.layout:
        return tile
    plan = conversion(tile.layout, layout)
    if plan is None or plan.cost > _SHUFFLES_PER_ELEMENT * layout.registers:
        return None
    return Tile(layout, tile.shape, tile.element, _moved(block, tile, plan))


def _moved(block: Block, tile: Tile, plan: Plan) -> tuple[Value, ...]:
    b = block.b
    register = _chosen(block, [source.register for source in plan.threads])
    lane = _chosen(block, [source.lane for source in plan.threads])
    values: list[Value] = []
    for source in plan.registers:
        result: Value | None = None
        for variant in plan.variants:
            value = _fetched(block, tile.values[source.register ^ variant], source, lane, plan)
            if result is None or register is None:
                result = value
            else:
                result = b.select(b.icmp("eq", register, variant), value, result)
        assert result is not None
        values.append(result)
    return tuple(values)


def _fetched(block: Block, value: Value, source: Source, lane: Value | None, plan: Plan) -> Value:
    if not plan.moves:
        return value
    if lane is None:
        return block.shuffle(value, source.lane) if source.lane else value
    b = block.b
    own = b.and_(block.thread, 31)
    return block.shuffle(value, b.xor(b.xor(own, lane), source.lane))


def _chosen(block: Block, masks: Sequence[int]) -> Value | None:
    """The exclusive or of the masks whose bit of the thread number is 1."""
    b, result = block.b, None
    for bit, mask in enumerate(masks):
        if mask:
            part = b.and_(b.sub(0, b.and_(b.lshr(block.thread, bit), 1)), mask)
            result = part if result is None else b.xor(result, part)
    return result


# ---- through shared memory


@dataclass(frozen=True)
class Storage:
    """How a tile lies in shared memory: strides in elements, the dimension whose neighbours are adjacent."""

    strides: tuple[int, ...]
    closest: int
    elements: int
    item: int

    @property
    def bytes(self) -> int:
        return -(-self.elements * self.item // WIDEST) * WIDEST

    def piece(self, layout: Layout) -> int:
        """How many consecutive registers one instruction can move."""
        return min(layout.run(self.closest), WIDEST // self.item)


@dataclass(frozen=True)
class Stored:
    """A tile in shared memory, `start` elements behind `base`."""

    storage: Storage
    base: Value
    start: int = 0

    def at(self, dimension: int, position: int) -> Stored:
        """The part of the tile at one position along a dimension, without that dimension."""
        whole = self.storage
        strides = tuple(s for d, s in enumerate(whole.strides) if d != dimension)
        closest = whole.closest - (whole.closest > dimension)
        part = Storage(strides, closest, whole.elements, whole.item)
        return Stored(part, self.base, self.start + position * whole.strides[dimension])


def storage(reader: Layout, element: Type, order: Sequence[int] | None = None) -> Storage:
    """A place for a tile that is read in layout `reader`; `order` lists the dimensions, the closest last."""
    if order is None:
        closest = max(range(reader.rank), key=lambda d: (reader.run(d), d))
        order = [d for d in range(reader.rank) if d != closest] + [closest]
    item = item_bytes(element)
    strides = [0] * reader.rank
    step = 1
    for d in reversed(order):
        strides[d] = step
        step *= reader.shape[d]
        if d == order[-1] and reader.rank > 1 and step * item >= _BANKED:
            # Rows of a power of two would put a column into few banks; this keeps wide accesses aligned.
            step += WIDEST // item
    return Storage(tuple(strides), order[-1], step, item)


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

    speaks = block.speaks(layout)
    if isinstance(speaks, Value):
        with b.when(speaks), block.branch():
            write_all()
    else:
        write_all()
    return stored


def read(block: Block, stored: Stored, layout: Layout, element: Type) -> list[Value]:
    """A tile's elements as `layout` holds them."""
    piece = stored.storage.piece(layout)
    kind = memory_element(element)
    values: list[Value] = []
    for register in range(0, layout.registers, piece):
        place = _address(block, stored, layout, register, kind)
        whole = block.b.load(vector(piece, kind), place, align=piece * stored.storage.item)
        values += [block.from_memory(value, llvm_element(element)) for value in block.unpack(whole, piece)]
    return values


def _address(block: Block, stored: Stored, layout: Layout, register: int, kind: LlvmType) -> Value:
    coordinates = block.coordinates(layout, register)
    strides = stored.storage.strides

    def start() -> Value:
        offset = block.linear([c.thread for c in coordinates], strides)
        return block.b.getelementptr(kind, stored.base, block.b.zext(offset, i64)) if offset else stored.base

    known = stored.start + sum(c.constant * s for c, s in zip(coordinates, strides, strict=True))
    first = block.once((stored.base, layout, strides, kind), start)
    return block.b.getelementptr(kind, first, known) if known else first
