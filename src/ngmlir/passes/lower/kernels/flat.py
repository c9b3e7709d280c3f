# SPDX-License-Identifier: Apache-2.0
"""Elementwise kernels over all loops as one: each element of a tile computes its positions from the linear index. For short rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from math import prod

from ....ir.core import Op, Value
from ....ir.literals import item_bytes
from ....ir.nest import AffineExpr
from ....ir.types import Type, VectorType, element_type, i64, with_element
from ....ops.schedules import Flat
from ....support.target import Target
from ...analysis.access import Access, leaves
from ...analysis.loop_nest import LoopNest, loop_nest
from ...analysis.sides import with_merged_loops
from ...schedule.programs import grid_for
from .finished import Finished
from .fusion_kernel import Kernel, Tile
from .single import unsigned_positions_in
from .tiling import Span


def flat_kernel(fusion: Op, target: Target, schedule: Flat) -> Finished:
    """The kernel of a `map` fusion. Its operands and results are seen as one-dimensional."""
    nest = loop_nest(fusion)
    sizes, total = nest.sizes, prod(nest.sizes)
    accesses = {
        v: nest.accesses.get(v) or _straight(nest, v)
        for v in nest.inputs
        if nest.loops[v] and v not in nest.gathered
    }
    line = _flat(
        Access(sizes, tuple(AffineExpr(0, {loop: 1}) for loop in range(len(sizes))), (), sizes, None)
    )
    flat = {value: _flat(access) for value, access in accesses.items()}
    nest = replace(nest, accesses=flat, written=dict.fromkeys(nest.outputs, line))
    kernel = Kernel(nest, target, grid_for(target, (total,), schedule.tile, 0))
    outputs = list(zip(nest.outputs, kernel.results, strict=True))
    kernel.visit((total,), schedule.tile, lambda spans: _FlatTile(kernel, spans[0], accesses).store(outputs))
    return kernel.done(schedule.threads)


def _straight(nest: LoopNest, value: Value) -> Access:
    """The indexing map of an operand that is read in the order of its loops."""
    places = tuple(AffineExpr(0, {loop: 1}) for loop in nest.loops[value])
    return Access(nest.shape(value), places, (), nest.sizes, None)


def _flat(access: Access) -> Access:
    """The same indexing map for the buffer seen as one dimension."""
    place = AffineExpr(0, {})
    for size, each in zip(access.shape, access.places, strict=True):
        place = place.times(size).plus(each)
    return replace(access, shape=(prod(access.shape),), places=(place,))


class _FlatTile(Tile):
    """The values of a fusion at consecutive linear indices. `borders`: the indexing maps of operands in their own shapes."""

    def __init__(self, kernel: Kernel, span: Span, borders: Mapping[Value, Access]):
        super().__init__(kernel, [])
        self.span, self.borders = span, borders

    def type(self, value: Value, element: Type | None = None) -> Type:
        element = element or element_type(value.type)
        return VectorType((self.span.size,), element) if self.kernel.nest.loops[value] else element

    def broadcast(self, operand: Value, source: Value, value: Value) -> Value:
        type = self.type(value, element_type(operand.type))
        return operand if self.kernel.nest.loops[source] else self.b.splat(operand, type)

    def has_rows(self, type: Type, found: Value) -> bool:
        return isinstance(type, VectorType)

    def along(self, loop: int, value: Value) -> Value:
        positions = unsigned_positions_in(self.b, self.span, self.kernel.nest.sizes)[loop]
        return self.b.cast(positions, type=with_element(self.type(value), i64))

    def iota(self, op: Op, type: Type) -> Value:
        (loop,) = self.kernel.nest.dimension_loops[op]
        return self.b.cast(unsigned_positions_in(self.b, self.span, self.kernel.nest.sizes)[loop], type=type)

    def load(self, value: Value, buffer: Value) -> Value:
        if not self.kernel.nest.loops[value]:
            return super().load(value, buffer)
        b, whole, flat = self.b, self.borders[value], self.kernel.nest.accesses[value]
        type, (length,) = self.type(value), flat.shape
        if whole.fill is None or not leaves(whole.places, whole.shape, whole.sizes):
            flat = with_merged_loops(flat)
            return b.gather_tile(
                buffer, [self.index(flat.places[0], self.positions(flat, length))], type=type
            )
        places = self.positions(whole, length)
        offset, inside = b.number(0, places[0].type), list[Value]()
        for place, size in zip(whole.places, whole.shape, strict=True):
            index, extent = self.index(place, places), b.number(size, offset.type)
            offset = b.add(b.multiply(offset, extent), index)
            if leaves([place], [size], whole.sizes):
                inside.append(b.less(index, extent))
        there = reduce(b.bitwise_and, inside)
        tile = b.gather_tile(buffer, [b.select(there, offset, b.number(0, offset.type))], type=type)
        return b.select(there, tile, b.number(whole.fill, type))

    def positions(self, access: Access, most: int) -> list[Value]:
        """The positions of the elements in the loops of an indexing map; `most` is the largest number that is computed from them."""
        return unsigned_positions_in(self.b, self.span, access.sizes, most)

    def index(self, place: AffineExpr, places: Sequence[Value]) -> Value:
        """The value of an affine expression. Negative values wrap round to large ones, which are out of bounds."""
        b, number = self.b, places[0].type
        modulus = 1 << (8 * item_bytes(element_type(number)))
        index = b.number(place.offset % modulus, number)
        for loop, step in place.terms.items():
            index = b.add(index, b.multiply(places[loop], b.number(step % modulus, number)))
        return index

    def store(self, outputs: Sequence[tuple[Value, Value]]) -> None:
        for value, buffer in outputs:
            self.b.store(self.at(value), buffer, [self.span.start], masked=self.span.masked)
