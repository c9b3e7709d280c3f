# SPDX-License-Identifier: Apache-2.0
"""The memory accesses of one load or store: the offsets of its elements, and which of them are inside the buffer.

Whether a row or a lane is inside is decided at compile time where the ranges of the indices suffice. Otherwise a
condition is computed at run time, but only for registers that can cross a boundary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

from ...ir.core import Value as IRValue
from ...llvm import types as llvm
from ...llvm.types import Value, constant, i32, i64, is_number, lanes, vector
from ...support.lengths import Length, at_least, below, greatest_divisor
from ..ranges import Range
from .emitter import Buffer, Emitter
from .formats import memory
from .tiles import Chunk

#: From this number of registers per row, their addresses are computed as offsets from the first one.
_LONG = 8

#: Whether an element is inside: known at compile time, or a condition (i1).
Inside: TypeAlias = "bool | Value"

#: Which lanes of a register are inside: all `count` of them, none, a known subset, or a mask computed at run time.
Mask: TypeAlias = "bool | tuple[bool, ...] | Value"


@dataclass(frozen=True, slots=True)
class Dimension:
    """One dimension of a tile: `size` elements, at distance `step` along a dimension of the buffer."""

    size: int
    step: int
    stride: int  # elements of memory between neighbours
    index: Value  # of the first element
    known: Range
    limit: int  # size of the buffer's dimension


class Access:
    """The elements of a buffer that a tile is loaded from or stored to."""

    def __init__(
        self,
        e: Emitter,
        buffer: Buffer,
        indices: Sequence[IRValue],
        shape: tuple[int, ...],
        dims: Sequence[int] | None,
        steps: Sequence[int] | None,
        masked: bool,
    ):
        self.e = e
        rank = buffer.type.rank
        chosen = dims if dims is not None else range(rank - len(shape), rank)
        strides = buffer.type.row_strides
        values = [e.scalar(index) for index in indices]
        self.masked, self.align = masked, buffer.align
        self.base, self.fixed = base_address(e, buffer, values)
        if prod(shape[:-1]) > 1 or (shape and shape[-1] >= _LONG * e.lanes):
            self.base = _anchored(e, self.base)
        known = [e.range_of(index) for index in indices]
        ends = zip(known, buffer.type.shape, strides, strict=True)
        #: Elements from the greatest possible base address to the end of the buffer.
        self.spare = 1 + sum((size - 1 - k.high) * stride for k, size, stride in ends)
        #: Divides the distance of the base from the start of the buffer, in elements.
        self.divisor = greatest_divisor(
            *(k.divisor * stride for k, stride in zip(known, strides, strict=True))
        )
        self.dimensions = [
            Dimension(size, step, strides[d] * step, values[d], known[d], buffer.type.shape[d])
            for size, d, step in zip(shape, chosen, steps or (1,) * len(shape), strict=True)
        ]
        self._conditions: dict[tuple[Value, int, int], Inside] = {}
        self._bounds: dict[tuple[Dimension, Inside], Value] = {}
        self._masks: dict[tuple[Dimension, Inside, Chunk], Value] = {}
        self._splats: dict[tuple[Value, int], Value] = {}
        self._others: Inside = True
        if masked:
            for d in set(range(rank)) - set(chosen):
                bound = self._within(values[d], known[d], 0, buffer.type.shape[d])
                self._others = self._both(self._others, bound)

    def permuted(self, order: Sequence[int]) -> Access:
        """The same access for the tile with its dimensions permuted."""
        other = object.__new__(Access)
        other.__dict__.update(self.__dict__)
        other.dimensions = [self.dimensions[d] for d in order]
        return other

    def dense(self, masks: bool) -> Access | None:
        """The same access, widened to every element between the first and the last of a row. None where some of the
        added elements may be outside the buffer and no mask (see `masks`) excludes them."""
        *before, d = self.dimensions
        if self.masked and not (masks and d.step == d.stride):
            return None
        other = self.permuted(range(len(before)))
        other.dimensions.append(replace(d, size=(d.size - 1) * d.step + 1, step=1, stride=1))
        return other

    @property
    def stride(self) -> int:
        """Stride of the last dimension, in elements; 1 for a tile of one element."""
        if not self.dimensions or self.dimensions[-1].size == 1:
            return 1
        return self.dimensions[-1].stride

    def offset(self, coordinates: Sequence[int]) -> int:
        """Elements from the first element of the tile to the start of a row, or to one element."""
        return sum(c * d.stride for c, d in zip(coordinates, self.dimensions, strict=False))

    def pointer(self, element: llvm.Type, offset: int) -> Value:
        return _moved(self.e, element, self.base, self.fixed + offset)

    # Bounds

    def inside(self, coordinates: Sequence[int]) -> Inside:
        """Whether an element, or a row (coordinates without the last one), is inside the buffer."""
        inside: Inside = self._others
        if self.masked:
            for c, d in zip(coordinates, self.dimensions, strict=False):
                inside = self._both(inside, self._within(d.index, d.known, c * d.step, d.limit))
        return inside

    def known(self, coordinates: Sequence[int]) -> bool | None:
        """Whether an element is inside the buffer; None where that takes a condition at run time."""
        if isinstance(self._others, Value):
            return None
        answers = {
            self._known(d.known, c * d.step, d.limit)
            for c, d in zip(coordinates, self.dimensions, strict=True)
        }
        return False if False in answers or not self._others else None if None in answers else True

    def chunk(self, row: Inside, chunk: Chunk) -> Mask:
        """Which lanes of one register of a row are inside the buffer."""
        if row is False or (row is True and not self.masked):
            return row
        if not self.dimensions:
            return row
        d = self.dimensions[-1]
        places = [(chunk.offset + lane) * d.step for lane in range(chunk.count)]
        if not self.masked:
            known = [True] * chunk.count
        else:
            known = [self._known(d.known, place, d.limit) for place in places]
        if row is True and None not in known:
            return bool(known[0]) if len(set(known)) == 1 else tuple(map(bool, known))
        if known.count(False) == chunk.count:
            return False
        self.e.boundaries += 1
        if chunk.width == 1:
            return self._both(row, self._within(d.index, d.known, places[0], d.limit))
        if isinstance(row, Value) and None not in known and not all(known):
            return self.e.hoisted(lambda: self._known_mask(known, row, chunk), row)
        if d.step != 1:
            bounds = [d.index] if row is True else [d.index, row]
            return self.e.hoisted(lambda: self._stepped_mask(d, row, places, chunk), *bounds)
        return self._counted_mask(d, row, chunk)

    def _known_mask(self, known: Sequence[bool | None], row: Value, chunk: Chunk) -> Value:
        """The mask of lanes that are inside if the row is."""
        # Do not `and` a constant mask with the condition of the row: LLVM 22 loads the whole register where that leaves
        # no lane.
        first, count = known.index(True), known.count(True)
        end = self.e.b.select(row, constant(i32, count), constant(i32, 0))
        numbers = lanes(i32, list(range(-first, chunk.width - first)))
        return self.e.b.icmp("ult", numbers, self.e.b.splat(end, chunk.width))

    def _counted_mask(self, d: Dimension, row: Inside, chunk: Chunk) -> Value:
        """The mask of the lanes from the first to the last that is inside. These two lane numbers are computed once per
        row, and compared with the lane numbers of each register."""
        if (d, row, chunk) not in self._masks:
            b, hoisted = self.e.b, self.e.hoisted
            numbers = lanes(i32, list(range(chunk.offset, chunk.offset + chunk.width)))
            number = self._end(d, row)
            end = self._splat(number, chunk.width)
            mask = hoisted(lambda: b.icmp("ult", numbers, end), end)
            if not at_least(d.known.low + chunk.offset, 0):
                first = self._splat(self._first(d), chunk.width)
                mask = hoisted(lambda: b.and_(mask, b.icmp("uge", numbers, first)), mask, first)
            elif not self.e.machine.masks:
                count = hoisted(lambda: b.smax(b.sub(number, chunk.offset), 0), number)
                self.e.define_count(mask, count)
            self._masks[d, row, chunk] = mask
        return self._masks[d, row, chunk]

    def _splat(self, number: Value, width: int) -> Value:
        if (number, width) not in self._splats:
            splat = self.e.hoisted(lambda: self.e.b.splat(number, width), number)
            self._splats[number, width] = splat
        return self._splats[number, width]

    def _first(self, d: Dimension) -> Value:
        """The first element of a row that is inside."""
        if (d, False) not in self._bounds:
            b, index = self.e.b, d.index
            first = self.e.hoisted(lambda: b.trunc(b.smin(b.smax(b.sub(0, index), 0), d.size), i32), index)
            self._bounds[d, False] = first
        return self._bounds[d, False]

    def _end(self, d: Dimension, row: Inside) -> Value:
        """One past the last element of a row that is inside; 0 where the row is outside."""
        if (d, row) not in self._bounds:
            full = bool(at_least(d.limit, d.known.high + d.size))
            operands = [*([] if full else [d.index]), *([row] if isinstance(row, Value) else [])]
            self._bounds[d, row] = self.e.hoisted(lambda: self._count(d, row, full), *operands)
        return self._bounds[d, row]

    def _count(self, d: Dimension, row: Inside, full: bool) -> Value:
        b, end = self.e.b, constant(i64, d.size)
        if not full:
            end = b.sub(d.limit, d.index)
            end = b.smin(end if at_least(d.limit, d.known.high) else b.smax(end, 0), d.size)
        if isinstance(row, Value):
            end = b.select(row, end, constant(i64, 0))
        return b.trunc(end, i32)

    def _stepped_mask(self, d: Dimension, row: Inside, places: Sequence[int], chunk: Chunk) -> Value:
        b = self.e.b
        # Lanes beyond the tile get an index far outside.
        far = [*places, *[-(1 << 62)] * (chunk.width - chunk.count)]
        at = b.add(b.splat(d.index, chunk.width), lanes(i64, far))
        mask = b.icmp("ult", at, constant(vector(chunk.width, i64), d.limit))
        return b.and_(mask, b.splat(row, chunk.width)) if isinstance(row, Value) else mask

    @staticmethod
    def _known(known: Range, place: int, limit: int) -> bool | None:
        if at_least(known.low + place, 0) and below(known.high + place, limit):
            return True
        if below(known.high + place, 0) or at_least(known.low + place, limit):
            return False
        return None

    def _within(self, index: Value, known: Range, place: int, limit: int) -> Inside:
        answer = self._known(known, place, limit)
        if answer is not None:
            return answer
        key = (index, place, limit)
        if key not in self._conditions:
            # Unsigned, so that a negative index compares as too large.
            b = self.e.b
            self._conditions[key] = self.e.hoisted(lambda: b.icmp("ult", b.add(index, place), limit), index)
            self.e.boundaries += 1
        return self._conditions[key]

    def _both(self, x: Inside, y: Inside) -> Inside:
        if isinstance(x, Value) and isinstance(y, Value):
            return self.e.hoisted(lambda: self.e.b.and_(x, y), x, y)
        if isinstance(x, Value):
            return x if y is True else False
        return y if x is True else False


def address(e: Emitter, buffer: Buffer, indices: Sequence[Value]) -> Value:
    """The address of one element."""
    return _moved(e, memory(buffer.type.element), *base_address(e, buffer, indices))


def base_address(e: Emitter, buffer: Buffer, indices: Sequence[Value]) -> tuple[Value, int]:
    """An address and the constant number of elements from there to one element. Elements at a constant distance have the same address:
    then LLVM finds loads of the same element, which it does not find by reordering sums itself."""
    b = e.b
    fixed, moving = 0, None
    for index, stride in zip(indices, buffer.type.row_strides, strict=True):
        if is_number(index):
            fixed += int(index.name) * stride
            continue
        index, number = e.base_and_offset(index)
        if number:
            fixed += number * stride
        part = index if stride == 1 else b.mul(index, stride)
        moving = part if moving is None else b.add(moving, part)
    pointer = buffer.pointer
    if moving is not None:
        pointer = b.getelementptr(memory(buffer.type.element), pointer, moving)
    return pointer, fixed


def _moved(e: Emitter, element: llvm.Type, pointer: Value, offset: int) -> Value:
    return e.b.getelementptr(element, pointer, offset) if isinstance(offset, Length) or offset else pointer


def _anchored(e: Emitter, pointer: Value) -> Value:
    """The same address, hidden from LLVM's optimizations: all registers of a tile are at constant offsets from it.

    Otherwise LLVM sees as many uses of the loop's index as there are rows and elements, and searches for common
    induction variables: a fifth of the compile time of a matrix kernel, for code that runs no faster.
    """
    return e.b.intrinsic("llvm.strip.invariant.group", pointer.type, pointer, overload=(pointer.type,))
