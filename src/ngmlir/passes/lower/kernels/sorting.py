# SPDX-License-Identifier: Apache-2.0
"""Sorting of integers along an axis: radix sort, digit by digit. If few of many are wanted, candidates for these are selected
first, or inserted one by one; GPUs use compare-and-exchange networks.

A program of a CPU sorts whole rows. It keeps the keys with their positions in scratch, with keys of 32 bits and less as one number
of 64 bits, so that no two are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....ir.core import Op, Value
from ....ir.literals import item_bytes
from ....ir.types import IntegerType, MemRefType, VectorType, element_type, i32, i64, index, shape_of
from ....ops.fields import get_i64
from ....support.lengths import at_least, below, is_same
from ....support.target import Target
from ...analysis.reduction import merged
from ...analysis.sorting import INSERTED, check_plain_order, comes_before
from .finished import Finished
from .single import OpKernelBuilder
from .tiling import Span, positions

#: Bits of a digit: its counters and the places that are written to are few enough for the L1 and L2 caches.
DIGIT = 8
_VALUES = 1 << DIGIT
#: Capacity for selected elements, at least and for each that is wanted, before they are reduced to those: with more of them that is
#: rare, with fewer it is fast.
SELECTED, SELECTED_EACH = 2048, 4
#: Elements, for each lane of a register, up to which comparing each with all others takes less time than a radix sort; and how many
#: registers are compared at once.
RANKED, RANKS = 32, 4
#: Cost of sorting an element, relative to copying it.
_STEPS = 32


def argsort_kernel(op: Op, target: Target) -> Finished:
    """The first positions of the ascending order of signed integers; equal ones are in the order of their positions."""
    check_plain_order(op)
    axis = get_i64(op, "axis")
    before, size, after = merged(shape_of(op.operands[0].type), axis)
    kept = shape_of(op.results[0].type)[axis]
    space = (before * after, size * _STEPS)
    builder = OpKernelBuilder(op, target, space, [(before, size, after)], [(before, kept, after)])

    def row(span: Span) -> None:
        outer, inner = builder.delinearize(span.start, (before, after))
        line = _Row(builder, outer.start, inner.start, size, kept)
        if at_least(INSERTED, kept) and below(kept, size):
            line.insert()
        elif at_least(size, 2 * kept):
            line.select(max(SELECTED, SELECTED_EACH * kept))
        else:
            line.sort()

    builder.each_row(row)
    return builder.done()


#: A key with its position in its lower half; or the two separately.
_Record = tuple[Value, ...]


class _Row:
    """Sorts one row."""

    def __init__(self, builder: OpKernelBuilder, outer: Value, inner: Value, size: int, kept: int):
        self.builder, self.b, self.size, self.kept = builder, builder.b, size, kept
        self.outer, self.inner = outer, inner
        key = element_type(builder.sources[0].type)
        assert isinstance(key, IntegerType)
        self.key, self.packed = key, key.width <= 32
        # The lowest bit of the key.
        self.low = 32 if self.packed else 0
        self.sign = -(1 << key.width - 1)

    # -- records -----------------------------------------------------------------------------------------

    def record(self, key: Value, place: Value) -> _Record:
        b = self.b
        key, place = b.cast(key, type=i64), b.cast(place, type=i64)
        if not self.packed:
            return key, place
        return (b.bitwise_or(b.shift_left(key, b.number(32, i64)), place),)

    def read(self, place: Value) -> Value:
        return self.builder.scalar(self.builder.sources[0], [self.outer, place, self.inner])

    def element(self, buffer: Value, place: Value) -> Value:
        return self.builder.scalar(buffer, [place])

    def records(self, *shape: int) -> list[Value]:
        """Allocates scratch for records."""
        type = MemRefType(shape, i64, None, 0, 3)
        return [self.b.alloc(type=type) for _ in range(1 if self.packed else 2)]

    def load(self, buffers: Sequence[Value], *at: Value) -> _Record:
        return tuple(self.builder.scalar(buffer, at) for buffer in buffers)

    def store(self, record: _Record, buffers: Sequence[Value], *at: Value) -> None:
        for value, buffer in zip(record, buffers, strict=True):
            self.b.store(value, buffer, at)

    def finish(self, buffers: Sequence[Value], *at: Value) -> None:
        """Writes the positions of the first records."""
        b, (result,) = self.b, self.builder.results

        def write(i: Value, _: object) -> None:
            place = self.load(buffers, *at, i)[-1]
            if self.packed:
                place = b.bitwise_and(place, b.number(0xFFFFFFFF, i64))
            b.store(b.cast(place, type=element_type(result.type)), result, [self.outer, i, self.inner])

        b.loop(0, self.kept, 1, (), write)

    # -- digits ------------------------------------------------------------------------------------------

    def sort(self) -> None:
        """Sorts the whole row."""
        lines = self.records(2, self.size)
        different = self.read_all(lines)
        self.finish(lines, self.in_order(lines, self.b.index(self.size), different))

    def in_order(self, lines: Sequence[Value], length: Value, different: Value) -> Value:
        """Sorts `length` records of the first line, whose keys differ in some bits: returns the line in which they are then.

        From the lowest digit to the highest, records are moved, in their order, to the places of their digits. Digits that are
        equal in all keys are skipped.
        """
        b = self.b
        counts = b.alloc(type=MemRefType((_VALUES,), i32, None, 0, 3))

        def order(digit: Value, carried: Sequence[Value]) -> list[Value]:
            (here,) = carried
            there = b.subtract(b.index(1), here)
            shift = b.add(b.cast(b.multiply(digit, b.index(DIGIT)), type=i64), b.number(self.low, i64))

            def moved() -> list[Value]:
                self.count(lines, here, length, shift, counts)
                self.move(lines, here, there, length, shift, counts)
                return [there]

            any_differ = b.less(b.index(0), self.value(different, shift))
            return list(b.branch(any_differ, moved, lambda: [here]))

        return b.loop(0, self.key.width // DIGIT, 1, [b.index(0)], order, name="digit")[0]

    def value(self, key: Value, shift: Value) -> Value:
        """The digit that begins at a bit, as an index."""
        b = self.b
        down = b.shift_right_logical(key, shift)
        return b.cast(b.bitwise_and(down, b.number(_VALUES - 1, i64)), type=index)

    def read_all(self, lines: Sequence[Value]) -> Value:
        """Reads the records of the row; returns the bits in which the keys differ."""

        def read(i: Value) -> _Record:
            record = self.unsigned(self.read(i), i)
            self.store(record, lines, self.b.index(0), i)
            return record

        return self.differences(self.b.index(self.size), read)

    def unsigned(self, key: Value, place: Value) -> _Record:
        """A record with the sign bit of its key inverted, so that digits are unsigned."""
        return self.record(self.b.bitwise_xor(key, self.b.number(self.sign, self.key)), place)

    def differences(self, length: Value, read: Callable[[Value], _Record]) -> Value:
        """The bits in which the keys of `length` records differ."""
        b = self.b

        def join(i: Value, carried: Sequence[Value]) -> list[Value]:
            some, every = carried
            key = read(i)[0]
            return [b.bitwise_or(some, key), b.bitwise_and(every, key)]

        some, every = b.loop(0, length, 1, [b.number(0, i64), b.number(-1, i64)], join)
        return b.bitwise_xor(some, every)

    def count(self, lines: Sequence[Value], here: Value, length: Value, shift: Value, counts: Value) -> None:
        """How many records have a smaller digit, for each digit: where its records begin."""
        b, zero, one = self.b, self.b.number(0, i32), self.b.number(1, i32)
        b.loop(0, _VALUES, 1, (), lambda v, _: b.store(zero, counts, [v]))

        def add(i: Value, _: object) -> None:
            at = [self.value(self.load(lines, here, i)[0], shift)]
            b.store(b.add(self.builder.scalar(counts, at), one), counts, at)

        def begin(v: Value, carried: Sequence[Value]) -> list[Value]:
            count = self.builder.scalar(counts, [v])
            b.store(carried[0], counts, [v])
            return [b.add(carried[0], count)]

        b.loop(0, length, 1, (), add)
        b.loop(0, _VALUES, 1, [zero], begin)

    def move(
        self, lines: Sequence[Value], here: Value, there: Value, length: Value, shift: Value, counts: Value
    ) -> None:
        """Moves each record to the next place of its digit."""
        b = self.b

        def one(i: Value, _: object) -> None:
            record = self.load(lines, here, i)
            digit = self.value(record[0], shift)
            place = self.builder.scalar(counts, [digit])
            b.store(b.add(place, b.number(1, i32)), counts, [digit])
            self.store(record, lines, there, b.cast(place, type=index))

        b.loop(0, length, 1, (), one)

    # -- selection ---------------------------------------------------------------------------------------

    def select(self, most: int) -> None:
        """Keeps the keys that may be among the first in scratch, in the order of their positions, which are next to them. If there are more
        than `most`, only the first ones are kept; a tile without a key less than the last of these is skipped."""
        b, size, width = self.b, self.size, self.builder.width
        # Of an open length it is known that twice as many are there as are kept.
        begin = size if at_least(most, size) else most if at_least(size, most) else 2 * self.kept
        number = i32 if self.packed else i64
        self.wide = VectorType((width,), number)
        self.keys, self.places = (
            b.alloc(type=MemRefType((most + 2 * width,), number, None, 0, 3)) for _ in range(2)
        )

        def first(span: Span, _: object) -> None:
            type = VectorType((span.size,), number)
            b.store(b.cast(self.tile(span.start, span.size), type=type), self.keys, [span.start])
            b.store(positions(b, span.start, type), self.places, [span.start])

        self.builder.tiles(begin, width, (), first, masks=False)
        count, bound = self.shortened(b.index(begin))

        def some(span: Span, carried: Sequence[Value]) -> list[Value]:
            count, bound = carried
            start = b.add(span.start, b.index(begin))

            def enter() -> list[Value]:
                def one(i: Value, carried: Sequence[Value]) -> list[Value]:
                    key = b.cast(self.read(i), type=number)
                    return [self.put(carried[0], key, b.cast(i, type=number), b.less(key, bound))]

                (more,) = b.loop(start, b.add(start, b.index(span.size)), 1, [count], one)
                full = b.less(b.index(most), more)
                return list(b.branch(full, lambda: self.shortened(more), lambda: [more, bound]))

            key = b.cast(self.tile(start, span.size), type=VectorType((span.size,), number))
            less = b.less(key, b.splat(bound, key.type))
            return list(b.branch(b.any(less, axes=[0]), enter, lambda: [count, bound]))

        if not is_same(begin, size):
            count, bound = self.builder.tiles(size - begin, width, [count, bound], some, masks=False)
            self.shortened(count)
        lanes = self.builder.target.lanes(item_bytes(i64))
        if self.packed and self.kept <= RANKED * lanes:
            return self.rank(RANKS * lanes)
        lines = self.records(2, self.kept)

        def found(i: Value) -> _Record:
            record = self.unsigned(
                b.cast(self.element(self.keys, i), type=self.key), self.element(self.places, i)
            )
            self.store(record, lines, b.index(0), i)
            return record

        length = b.index(self.kept)
        self.finish(lines, self.in_order(lines, length, self.differences(length, found)))

    def rank(self, width: int) -> None:
        """Writes each of the positions in scratch to its rank: the number of records that are less."""
        b, whole = self.b, -(-self.kept // width) * width
        (records,), (ranks,), type = self.records(whole), self.records(whole), VectorType((width,), i64)
        result = self.builder.results[0]

        def pack(i: Value, _: object) -> None:
            self.store(self.record(self.element(self.keys, i), self.element(self.places, i)), [records], i)

        def some(start: Value, _: object) -> None:
            mine = b.load(records, [start], type=type)

            def one(i: Value, carried: Sequence[Value]) -> list[Value]:
                less = b.less(b.splat(self.element(records, i), type), mine)
                return [b.add(carried[0], b.select(less, b.number(1, type), b.number(0, type)))]

            b.store(b.loop(0, self.kept, 1, [b.number(0, type)], one)[0], ranks, [start])

        def write(i: Value, _: object) -> None:
            place = b.cast(self.element(self.places, i), type=element_type(result.type))
            b.store(place, result, [self.outer, b.cast(self.element(ranks, i), type=index), self.inner])

        b.loop(0, self.kept, 1, (), pack)
        b.loop(0, whole, width, (), some)
        b.loop(0, self.kept, 1, (), write)

    def put(self, count: Value, key: Value, place: Value, wanted: Value) -> Value:
        """The number of keys in scratch after one more, if it is wanted; if not, the next one overwrites it."""
        b = self.b
        b.store(key, self.keys, [count])
        b.store(place, self.places, [count])
        return b.add(count, b.select(wanted, b.index(1), b.index(0)))

    def shortened(self, count: Value) -> list[Value]:
        """Keeps only the first of `count` keys in scratch: returns their number, and the last of them. Of equal ones the first are kept."""
        b = self.b
        greatest = b.number((1 << self.key.width - 1) - 1, self.wide)
        b.store(greatest, self.keys, [count])  # what is read beyond the end is greatest
        last, less = self.last(count)
        width = self.builder.target.lanes(item_bytes(element_type(self.wide)))
        type = VectorType((width,), element_type(self.wide))

        def some(start: Value, carried: Sequence[Value]) -> list[Value]:
            def keep() -> list[Value]:
                def one(i: Value, carried: Sequence[Value]) -> list[Value]:
                    count, rest = carried
                    key, place = self.element(self.keys, i), self.element(self.places, i)
                    same = b.bitwise_and(b.equal(key, last), b.less(b.index(0), rest))
                    rest = b.subtract(rest, b.select(same, b.index(1), b.index(0)))
                    return [self.put(count, key, place, b.bitwise_or(b.less(key, last), same)), rest]

                return list(b.loop(start, b.add(start, b.index(width)), 1, carried, one))

            keys = b.load(self.keys, [start], type=type)
            among = b.less_equal(keys, b.splat(last, type))
            return list(b.branch(b.any(among, axes=[0]), keep, lambda: carried))

        b.loop(0, count, width, [b.index(0), b.subtract(b.index(self.kept), less)], some)
        return [b.index(self.kept), last]

    def last(self, count: Value) -> list[Value]:
        """A number such that as many keys are less as are wanted, or the last of those wanted, and how many keys are less than it: from the
        highest bit to the lowest, bits are set unless too many keys are less."""
        b, number, wanted = self.b, element_type(self.wide), self.b.index(self.kept)
        one = b.number(1, self.wide)

        def bit(i: Value, carried: Sequence[Value]) -> list[Value]:
            least, less = carried

            def tried() -> list[Value]:
                shift = b.cast(b.subtract(b.index(self.key.width - 1), i), type=number)
                next = b.add(least, b.shift_left(b.number(1, number), shift))
                other = b.splat(next, self.wide)

                def add(start: Value, carried: Sequence[Value]) -> list[Value]:
                    there = b.less(b.load(self.keys, [start], type=self.wide), other)
                    return [b.add(carried[0], b.select(there, one, b.number(0, self.wide)))]

                (counts,) = b.loop(0, count, self.wide.shape[0], [b.number(0, self.wide)], add)
                found = b.cast(b.sum(counts, axes=[0]), type=index)
                taken = b.less_equal(found, wanted)
                return [b.select(taken, next, least), b.select(taken, found, less)]

            return list(b.branch(b.less(less, wanted), tried, lambda: carried))

        start = [b.number(-(1 << self.key.width - 1), number), b.index(0)]
        return list(b.loop(0, self.key.width, 1, start, bit, name="bit"))

    def tile(self, start: Value, size: int) -> Value:
        """Some keys of the row."""
        at, type = [self.outer, start, self.inner], VectorType((size,), self.key)
        return self.b.load(self.builder.sources[0], at, type=type, dims=[1])

    # -- insertion ---------------------------------------------------------------------------------------

    def insert(self) -> None:
        """Keeps the least elements so far sorted in scratch. A tile without an element less than the last of them is
        skipped."""
        b, best = self.b, self.records(self.kept)
        greatest = b.number((1 << 63) - 1, i64)
        last = b.index(self.kept - 1)

        b.loop(0, self.kept, 1, (), lambda i, _: self.store((greatest,) * len(best), best, i))

        def enter(place: Value) -> None:
            def sift(i: Value, carried: Sequence[Value]) -> list[Value]:
                there = self.load(best, i)
                comes = comes_before(b, carried, there)
                self.store(tuple(b.select(comes, x, y) for x, y in zip(carried, there, strict=True)), best, i)
                return [b.select(comes, y, x) for x, y in zip(carried, there, strict=True)]

            b.loop(0, self.kept, 1, self.record(self.read(place), place), sift)

        def one(i: Value, _: object) -> None:
            comes = comes_before(b, self.record(self.read(i), i), self.load(best, last))
            b.branch(comes, lambda: enter(i))

        def some(span: Span, _: object) -> None:
            start = b.add(span.start, b.index(self.kept))
            least = b.cast(b.min(self.tile(start, span.size), axes=[0]), type=i64)
            (bound, *_) = self.load(best, last)
            if self.packed:
                bound = b.shift_right_arithmetic(bound, b.number(32, i64))
            stop = b.add(start, b.index(span.size))
            b.branch(b.less(least, bound), lambda: b.loop(start, stop, 1, (), one))

        b.loop(0, self.kept, 1, (), one)
        self.builder.tiles(self.size - self.kept, self.builder.width, (), some, masks=False)
        self.finish(best)
