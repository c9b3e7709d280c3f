# SPDX-License-Identifier: Apache-2.0
"""Reductions and cumulative ops of tiles: first within a thread, then across lanes, then across warps.

The order is a tree that depends only on the layout, so the bits are the same on every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ...ir.core import Op
from ...ir.types import FloatType, Type, f32
from ...llvm.types import Value, constant
from ...ops.fields import RARE, get_bool, get_i64, get_i64s
from ...ops.layouts import LANE_BITS, Layout
from ..elementwise import JOINS, apply, cast, identity, llvm_element, tree
from .block import Block, Tile


def _wider(element: Type) -> Type:
    """The element type in which sums and products are computed."""
    return f32 if isinstance(element, FloatType) and element.width == 16 else element


def _prepared(block: Block, tile: Tile, join: str, axes: Sequence[int]) -> tuple[list[Value], Type]:
    """The elements, widened if the sum needs it; those outside the tile are the identity."""
    b = block.b
    wide = _wider(tile.element) if join in ("add", "multiply") else tile.element
    neutral = constant(llvm_element(wide), identity(join, wide))
    # Only the reduced dimensions matter: along the others, elements outside the tile stay outside.
    shape = [size if d in axes else tile.layout.shape[d] for d, size in enumerate(tile.shape)]
    values: list[Value] = []
    for register, value in enumerate(tile.values):
        alive = block.alive(tile.layout, register, shape)
        if alive is False:
            values.append(neutral)
            continue
        value = cast(b, value, tile.element, wide)
        values.append(value if alive is True else b.select(alive, value, neutral))
    return values, wide


def reduce(block: Block, op: Op, tile: Tile) -> Tile:
    """`ng.sum` and the other reductions; the result has the layout without the reduced axes."""
    b, layout = block.b, tile.layout
    name = op.name.partition(".")[2]
    axes = get_i64s(op, "axes")
    kept = [d for d in range(layout.rank) if d not in axes]
    target = layout.drop(axes)
    join = JOINS["sum" if name == "mean" else name]
    if RARE in op.attributes:
        # Each thread tests its own elements; including those outside the tile is harmless.
        return Tile(target, (), op.result.type, (tree(b.or_, tile.values),))
    values, wide = _prepared(block, tile, join, axes)
    groups: dict[tuple[int, ...], list[Value]] = {at: [] for at in target.held}
    for register, value in enumerate(values):
        groups[tuple(layout.held[register][d] for d in kept)].append(value)
    joined = partial(apply, b, join, wide)
    partials = [tree(joined, group) for group in groups.values()]
    for bit, basis in enumerate(layout.lane):
        if any(basis[d] for d in axes):
            partials = [joined(value, block.shuffle(value, 1 << bit)) for value in partials]
    crossing = [bit for bit, basis in enumerate(layout.warp) if any(basis[d] for d in axes)]
    if crossing:
        others = block.exchange(partials, _subsets([1 << bit for bit in crossing]))
        partials = [tree(joined, row) for row in others]
    if name == "mean":
        count = 1
        for d in axes:
            count *= tile.shape[d]
        partials = [b.fdiv(value, constant(value.type, count)) for value in partials]
    results = tuple(cast(b, value, wide, tile.element) for value in partials)
    return Tile(target, tuple(tile.shape[d] for d in kept), tile.element, results)


def _subsets(bits: Sequence[int]) -> list[int]:
    """The sums of all subsets of the bits, that of all bits last."""
    sums = [0]
    for bit in bits:
        sums += [s + bit for s in sums]
    return sums


def cumulate(block: Block, op: Op, tile: Tile) -> Tile:
    """`ng.cumulative_sum` and its kin, in the layout of the operand.

    One step per bit of the position, from the lowest: two neighbouring runs become one of twice the length. The
    elements of the later run are combined with the total of the earlier one. Each element also keeps the total of its
    run, which is the same for all elements of the run; so it is exchanged across threads along one bit.
    """
    b, layout = block.b, tile.layout
    join = JOINS[op.name.partition(".")[2]]
    axis = get_i64(op, "axis")
    reverse, exclusive = (get_bool(op, name) for name in ("reverse", "exclusive"))
    totals, wide = _prepared(block, tile, join, [axis])
    sums = list(totals)
    if exclusive:
        sums = [constant(llvm_element(wide), identity(join, wide))] * len(totals)
    joined = partial(apply, b, join, wide)
    for level in range(layout.shape[axis].bit_length() - 1):
        others = _along(block, layout, axis, 1 << level, totals)
        merged: dict[tuple[Value, Value], Value] = {}
        upper = [_upper(block, layout, axis, level, register) for register in range(layout.registers)]
        for register, other in enumerate(others):
            own = totals[register]
            later = upper[register]
            if isinstance(later, bool):
                if later != reverse:
                    sums[register] = joined(other, sums[register])
            else:
                taken = b.select(later, sums[register], joined(other, sums[register])) if reverse else None
                sums[register] = taken or b.select(later, joined(other, sums[register]), sums[register])
            pair = (own, other) if later is False else (other, own)
            if pair not in merged:
                merged[pair] = joined(*pair)
            totals[register] = merged[pair]
    return tile.with_values([cast(b, value, wide, tile.element) for value in sums])


def _upper(block: Block, layout: Layout, axis: int, level: int, register: int) -> Value | bool:
    """Whether a bit of the position along the axis is 1."""
    coordinate = block.coordinates(layout, register)[axis]
    if not any(basis[axis] >> level & 1 for basis in layout.thread):
        return bool(coordinate.constant >> level & 1)
    thread = coordinate.thread
    assert thread is not None

    def test() -> Value:
        return block.b.icmp("ne", block.b.and_(thread, 1 << level), 0)

    return block.once(("bit", thread, level), test)


def _along(block: Block, layout: Layout, axis: int, step: int, values: Sequence[Value]) -> list[Value]:
    """The values of the position that differs in one bit along the axis."""
    move = tuple(step if d == axis else 0 for d in range(layout.rank))
    if move in layout.register:
        bit = 1 << layout.register.index(move)
        return [values[register ^ bit] for register in range(len(values))]
    bit = layout.thread.index(move)
    if bit < LANE_BITS:
        return [block.shuffle(value, 1 << bit) for value in values]
    # The values of both warps of the pair, of which the other warp's are selected.
    warp = 1 << (bit - LANE_BITS)
    b = block.b
    own_is_second = b.icmp("ne", b.and_(block.thread, 1 << bit), 0)
    pairs = block.exchange(values, [0, warp])
    return [b.select(own_is_second, first, second) for first, second in pairs]
