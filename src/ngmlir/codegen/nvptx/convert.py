# SPDX-License-Identifier: Apache-2.0
"""Conversions of tiles between layouts: by moves within threads, by shuffles within warps, or through shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from ...llvm.types import Value, i8
from ...ops.layouts import Layout, Plan, Source, conversion
from .block import Block, Tile
from .shared import Storage, User, read, storage, write

#: Above this many instructions per element, a conversion is cheaper through shared memory.
_SHUFFLES_PER_ELEMENT = 4


def convert(block: Block, tile: Tile, layout: Layout) -> Tile:
    """The same elements in another layout."""
    return convert_all(block, [(tile, layout)])[0]


def convert_all(block: Block, wanted: Sequence[tuple[Tile, Layout]]) -> list[Tile]:
    """Several conversions; those through shared memory share their barriers."""
    results: list[Tile | None] = []
    through: list[tuple[Tile, Layout, Storage, int]] = []
    size = 0
    for tile, layout in wanted:
        results.append(in_registers(block, tile, layout))
        if results[-1] is None:
            through.append((tile, layout, storage(tile.element, [User(tile.layout), User(layout)]), size))
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


def in_registers(block: Block, tile: Tile, layout: Layout, threads: bool = True) -> Tile | None:
    """The conversion by moves and shuffles; None if that is impossible or takes too many instructions, or if elements move
    between `threads` and may not."""
    if layout == tile.layout:
        return tile
    plan = conversion(tile.layout, layout)
    if plan is None or (plan.moves and not threads) or plan.cost > _SHUFFLES_PER_ELEMENT * layout.registers:
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
    """The xor of the masks whose bit of the thread number is 1."""
    b, result = block.b, None
    for bit, mask in enumerate(masks):
        if mask:
            part = b.and_(b.sub(0, b.and_(b.lshr(block.thread, bit), 1)), mask)
            result = part if result is None else b.xor(result, part)
    return result
