# SPDX-License-Identifier: Apache-2.0
"""Reads the loop nest of a fusion: loops, indexing maps and shapes of each value in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from ...ir.attributes import Attribute, FloatAttr, IntegerAttr, numeric_literal
from ...ir.core import Op, Value
from ...ir.elements import ElementsAttr
from ...ir.literals import item_bytes
from ...ir.nest import NEST, NestAttr
from ...ir.types import FloatType, element_type, shape_of
from ...ops.fields import get_i64
from ...support.diagnostics import Location
from ...support.lengths import is_open, power_of_two, usual
from ...support.machines import CHUNK_BYTES
from ...support.target import Target
from .access import Access, access_in, is_long
from .sides import Side, depths, side_in
from .views import without_broadcast

Shape = tuple[int, ...]

#: Least length of a row, in vector registers, that is split at borders although the machine has masked loads.
CUT_ROW = 32

#: Most selections by position at which loops are split, with separate code on either side.
MOST_CHOICES = 4


@dataclass
class LoopNest:
    """A fusion with its loop nest in the form that kernel builders use: `sizes` of the loops, and for each value the loops of its
    dimensions in memory, or for a value that is not in memory the loops that it varies along.

    An input may be read through an access of `accesses`, whose terms are loops. What a gather indexes is in `gathered`, with the
    access of its other dimensions; `loops` has those along which it changes.
    """

    fusion: Op
    sizes: tuple[int, ...]
    loops: dict[Value, tuple[int, ...]]
    dimension_loops: dict[Op, tuple[int, ...]]  # for an iota: the loops of the counted dimension
    accesses: dict[Value, Access]
    sides: Mapping[Value, Side]  # operands of products that are read through an access
    gathered: dict[Value, Access]
    written: dict[Value, Access]  # outputs that are written through a permutation
    merged: tuple[int, ...] = ()  # the two loops that the last one is the merge of, if there is such a loop

    @property
    def ops(self) -> list[Op]:
        return self.fusion.block.ops[:-1]

    @property
    def location(self) -> Location:
        """The location of the product or the first reduction; else that of the fusion."""
        heavy = (op for op in self.ops if op.name == "ng.dot" or "reduction" in op.traits)
        return next((op.location for op in heavy), self.fusion.location)

    @property
    def inputs(self) -> tuple[Value, ...]:
        return self.fusion.block.args

    @property
    def outputs(self) -> tuple[Value, ...]:
        return self.fusion.block.ops[-1].operands

    def shape(self, value: Value) -> tuple[int, ...]:
        """The shape of a value with its dimensions merged into loops."""
        return tuple(self.sizes[l] for l in self.loops[value])

    def result(self, value: Value) -> tuple[int, ...]:
        """The shape of the buffer to which an output is written."""
        access = self.written.get(value)
        return self.shape(value) if access is None else access.shape

    def source(self, value: Value) -> tuple[int, tuple[int, ...]]:
        """What an input is read from: the number of an operand of the fusion, and the shape in which it is viewed."""
        access = self.accesses.get(value) or self.gathered.get(value)
        return self.operand(value), self.shape(value) if access is None else access.shape

    def operand(self, value: Value) -> int:
        """The number of an input's operand; if that is listed several times, the first."""
        return self.fusion.operands.index(self.fusion.operands[self.inputs.index(value)])

    @property
    def has_borders(self) -> bool:
        """Whether an operand is padded with its own elements."""
        return any(access.border for access in self.accesses.values())

    def has_tiles(self, *loops: int) -> bool:
        """Whether threads can have tiles over some loops and the innermost one: in every access each of these loops runs along a
        different dimension, and no border is of elements of the operand."""
        if self.has_borders:
            return False
        tiled = [*(loop % len(self.sizes) for loop in loops), len(self.sizes) - 1]
        for access in (*self.accesses.values(), *self.written.values()):
            at = [[d for d, place in enumerate(access.places) if l in place.terms] for l in tiled]
            dims = [d for own in at for d in own]
            if any(len(own) > 1 for own in at) or len(dims) > len(set(dims)):
                return False
        return True

    @property
    def across(self) -> int | None:
        """The loop along which an operand is contiguous that is not contiguous along the innermost one, if tiles of both loops can be
        read; else None."""
        found = (max(access.closest) for access in self.accesses.values() if not access.in_order)
        loop = next(found, None)
        return loop if loop is not None and self.has_tiles(loop) else None

    @property
    def most_rows(self) -> int:
        """The most rows of a tile of threads: iterations of the two loops around the innermost one, rounded up to powers of two."""
        if len(self.sizes) < 2 or not self.has_tiles(-2):
            return 1
        *outer, near, _ = usual(tuple(self.sizes))
        near = power_of_two(near)
        return near * power_of_two(outer[-1]) if outer and self.has_tiles(-3, -2) else near

    def cuts(self, target: Target) -> list[list[int]]:
        """The positions at which each loop is split, on CPUs: at borders, if rows are long or the machine has no masked loads to read
        across them, and where a selection by position changes, if the parts are long enough."""
        found: list[set[int]] = [set() for _ in self.sizes]
        if not self.sizes or target.has_thread_blocks:
            return [[] for _ in self.sizes]
        for value, access in self.accesses.items():
            item = item_bytes(element_type(value.type))
            long = usual(self.sizes[-1]) >= CUT_ROW * target.lanes(item)
            if access.in_parts(item, target) or (long and access.crosses):
                found[-1].update(access.borders(len(self.sizes) - 1))
            # Copies are short: their outer loops are split too.
            if not self.ops and access.fill is not None and not access.border:
                outer = {loop: access.borders(loop) for loop in range(len(self.sizes) - 1)}
                for loop in [loop for loop, borders in outer.items() if borders][-2:]:
                    found[loop] |= outer[loop]
        choices = {choice for op in self.ops if (choice := self.choice(op)) is not None}
        for loop, at in choices if len(choices) <= MOST_CHOICES else ():
            if loop < len(self.sizes) - 1 or is_long(self.sizes[loop], widest_item(self), target):
                found[loop].add(at)
        return [
            sorted(cut for cut in own if (self.has_borders or not is_open((size,))) and 0 < cut < size)
            for own, size in zip(found, self.sizes, strict=True)
        ]

    def choice(self, op: Op) -> tuple[int, int] | None:
        """For a selection by position along one loop: the loop, and the position at which the second operand begins; else None."""
        if op.name != "ng.select":
            return None
        less = without_broadcast(op.operands[0]).owner
        if not isinstance(less, Op) or less.name != "ng.less":
            return None
        count, end = (v.owner for v in less.operands)
        loops = self.dimension_loops.get(count, ()) if isinstance(count, Op) else ()
        if len(loops) != 1 or not isinstance(end, Op) or end.name != "ng.constant":
            return None
        number = splat_number(end.attributes["value"])
        return (loops[0], number.value) if isinstance(number, IntegerAttr) else None

    @property
    def in_line(self) -> LoopNest | None:
        """The nest with one more loop, the merge of the last two, for all values that have both; None where such a value does not have
        them as its last dimensions in order, and is not read through an access with a dimension for each either."""
        near, last = len(self.sizes) - 2, len(self.sizes) - 1
        both = {v: loops for v, loops in self.loops.items() if {near, last} <= {*loops}}
        moved = (
            self.written
            or self.dimension_loops
            or self.gathered
            or is_open(self.sizes[-2:])
            or not self.has_tiles(-2)
        )
        lies = [loops[-2:] for v, loops in both.items() if v not in self.accesses]
        if moved or any(own != (near, last) for own in lies):
            return None
        sizes = (*self.sizes, prod(self.sizes[-2:]))
        lines = {v: (*(l for l in loops if l < near), last + 1) for v, loops in both.items()}
        accesses = {v: replace(access, sizes=sizes) for v, access in self.accesses.items()}
        return replace(
            self, sizes=sizes, loops={**self.loops, **lines}, accesses=accesses, merged=(near, last)
        )

    def side(self, value: Value) -> tuple[int, tuple[int, ...]]:
        """The same as `source` for an operand of a product."""
        side = self.sides.get(value)
        return self.operand(value), shape_of(value.type) if side is None else side.shape

    @property
    def sources(self) -> list[tuple[int, tuple[int, ...]]]:
        """The sources of all inputs, each once."""
        return list(dict.fromkeys(self.source(v) for v in self.inputs if v in self.loops))


def loop_nest(fusion: Op) -> LoopNest:
    """The loops of a fusion that carries its nest as an attribute."""
    nest = fusion.attributes[NEST]
    assert isinstance(nest, NestAttr)
    body, sizes = fusion.block, nest.space
    loops: dict[Value, tuple[int, ...]] = {}
    accesses: dict[Value, Access] = {}
    sides: dict[Value, Side] = {}
    gathered: dict[Value, Access] = {}
    summed = {
        v: d for op in body.ops if op.name == "ng.dot" for v, d in zip(op.operands, depths(op), strict=True)
    }
    for value, own in zip(body.args, nest.reads, strict=True):
        if own.matrix:
            if own.places is not None:
                sides[value] = side_in(own, summed[value])
            continue
        loops[value] = own.loops if own.places is None else own.used
        if own.gathered is not None:
            gathered[value] = access_in(own, sizes)
        elif own.places is not None:
            accesses[value] = access_in(own, sizes)
    counted: dict[Op, tuple[int, ...]] = {}
    for op in body.ops[:-1]:
        (result,) = op.results
        loops[result] = nest.loops_of(result.type)
        if op.name == "ng.iota":
            counted[op] = (loops[result][get_i64(op, "dimension")],)
        elif op.name == "ng.reshape":  # the result of a product, as a matrix, is reshaped to loops
            loops[op.operands[0]] = loops[result]
    written: dict[Value, Access] = {}
    for value, own in zip(body.ops[-1].operands, nest.writes, strict=True):
        if own.places is not None:
            written[value] = access_in(own, sizes)
        elif value not in body.args:
            loops[value] = own.loops
    return LoopNest(fusion, sizes, loops, counted, accesses, sides, gathered, written)


def splat_number(attribute: Attribute) -> Attribute:
    """The number of a splat constant."""
    assert isinstance(attribute, ElementsAttr)  # functions hold tensors
    element = attribute.type.element
    bits = attribute.bits
    return FloatAttr(bits, element) if isinstance(element, FloatType) else numeric_literal(bits, element)


def widest_item(nest: LoopNest) -> int:
    """Bytes of the largest element that the kernel computes with in its innermost loop."""
    each = [v for v, loops in nest.loops.items() if len(loops) == len(nest.sizes)]
    return max((item_bytes(element_type(v.type)) for v in each or nest.loops), default=4)


def narrowest_item(nest: LoopNest) -> int:
    """Bytes of the smallest element that the kernel reads along the last loop."""
    last = len(nest.sizes) - 1
    read = [v for v in nest.inputs if last in nest.loops.get(v, ())]
    return min((item_bytes(element_type(v.type)) for v in read), default=CHUNK_BYTES)


def chunk_width(nest: LoopNest, threads: int) -> int:
    """Elements along the last loop that a block reads if each thread reads one chunk of `CHUNK_BYTES`."""
    return threads * CHUNK_BYTES // narrowest_item(nest)
