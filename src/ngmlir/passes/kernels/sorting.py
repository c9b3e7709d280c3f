# SPDX-License-Identifier: Apache-2.0
"""The order of integers along an axis: digit by digit, or, where few of many are wanted, by insertion; on GPUs by exchanges.

A program of a CPU sorts whole rows. It keeps the keys with their positions in scratch, with keys of 32 bits and less as one number
of 64 bits, and so has no two that are equal.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.core import Op, Value
from ...ir.types import IntegerType, MemRefType, VectorType, element_type, i32, i64, index, shape_of
from ...ops.fields import get_i64
from ...ops.sorting import is_plain_order
from ...rewrite.advice import pass_for
from ...support.diagnostics import Limit
from ...support.target import Target
from .exchanges import argsort_in_blocks, comes_before
from .frame import Span
from .merging import argsort_of_runs, has_two_runs
from .single import Single, SingleFrame, merged

#: Bits of a digit: its counters and the places that are written side by side are few enough for the near caches.
DIGIT = 8
_VALUES = 1 << DIGIT
#: Of this many first ones each is found by insertion: an element that goes among them takes as many steps, and so at most
#: as long as its digits would take; most elements do not.
INSERTED = 16
#: What sorting an element costs beside one that is copied.
_STEPS = 32


def argsort_kernel(op: Op, target: Target) -> Single:
    """The first positions of ascending signed integers; of equal ones the first comes first."""
    if not is_plain_order(op):
        raise Limit("kernels sort signed integers in ascending order", op.location, hint=pass_for(op))
    if target.shares_tiles:
        return (argsort_of_runs if has_two_runs(op) else argsort_in_blocks)(op, target)
    axis = get_i64(op, "axis")
    before, size, after = merged(shape_of(op.operands[0].type), axis)
    kept = shape_of(op.results[0].type)[axis]
    space = (before * after, size * _STEPS)
    frame = SingleFrame(op, target, space, [(before, size, after)], [(before, kept, after)])

    def row(span: Span) -> None:
        outer, inner = frame.apart(span.start, (before, after))
        line = _Row(frame, outer.start, inner.start, size, kept)
        line.insert() if kept <= INSERTED and kept < size else line.sort()

    frame.each_row(row)
    return frame.done()


#: A key with its position in its lower half; or the two.
_Record = tuple[Value, ...]


class _Row:
    """One row that is sorted."""

    def __init__(self, frame: SingleFrame, outer: Value, inner: Value, size: int, kept: int):
        self.frame, self.b, self.size, self.kept = frame, frame.b, size, kept
        self.outer, self.inner = outer, inner
        key = element_type(frame.sources[0].type)
        assert isinstance(key, IntegerType)
        self.key, self.packed = key, key.width <= 32
        # Where the key begins.
        self.low = 32 if self.packed else 0

    # -- records -----------------------------------------------------------------------------------------

    def record(self, key: Value, place: Value) -> _Record:
        b = self.b
        key, place = b.cast(key, type=i64), b.cast(place, type=i64)
        if not self.packed:
            return key, place
        return (b.bitwise_or(b.shift_left(key, b.number(32, i64)), place),)

    def read(self, place: Value) -> Value:
        return self.frame.scalar(self.frame.sources[0], [self.outer, place, self.inner])

    def records(self, *shape: int) -> list[Value]:
        """Scratch for records."""
        type = MemRefType(shape, i64, None, 0, 3)
        return [self.b.alloc(type=type) for _ in range(1 if self.packed else 2)]

    def load(self, buffers: Sequence[Value], *at: Value) -> _Record:
        return tuple(self.frame.scalar(buffer, at) for buffer in buffers)

    def store(self, record: _Record, buffers: Sequence[Value], *at: Value) -> None:
        for value, buffer in zip(record, buffers, strict=True):
            self.b.store(value, buffer, at)

    def finish(self, buffers: Sequence[Value], *at: Value) -> None:
        """Writes the positions of the first records."""
        b, (result,) = self.b, self.frame.results

        def write(i: Value, _: object) -> tuple[()]:
            place = self.load(buffers, *at, i)[-1]
            if self.packed:
                place = b.bitwise_and(place, b.number(0xFFFFFFFF, i64))
            b.store(b.cast(place, type=element_type(result.type)), result, [self.outer, i, self.inner])
            return ()

        b.loop(0, self.kept, 1, (), write)

    # -- digits ------------------------------------------------------------------------------------------

    def sort(self) -> None:
        """From the lowest digit to the highest: elements go, in the order in which they stand, where those of their
        digit belong. Digits that all keys share are passed by."""
        b = self.b
        lines = self.records(2, self.size)
        counts = b.alloc(type=MemRefType((_VALUES,), i32, None, 0, 3))
        different = self.read_all(lines)

        def order(digit: Value, carried: Sequence[Value]) -> list[Value]:
            (here,) = carried
            there = b.subtract(b.index(1), here)
            shift = b.add(b.cast(b.multiply(digit, b.index(DIGIT)), type=i64), b.number(self.low, i64))

            def moved() -> list[Value]:
                self.count(lines, here, shift, counts)
                self.move(lines, here, there, shift, counts)
                return [there]

            any_differ = b.less(b.index(0), self.value(different, shift))
            return list(b.branch(any_differ, moved, lambda: [here]))

        (at,) = b.loop(0, self.key.width // DIGIT, 1, [b.index(0)], order, name="digit")
        self.finish(lines, at)

    def value(self, key: Value, shift: Value) -> Value:
        """The digit that begins at a bit, as a position."""
        b = self.b
        down = b.shift_right_logical(key, shift)
        return b.cast(b.bitwise_and(down, b.number(_VALUES - 1, i64)), type=index)

    def read_all(self, lines: Sequence[Value]) -> Value:
        """The records of the row, with the sign turned round, so that digits are unsigned; gives the bits of the keys that
        are not the same in all."""
        b = self.b
        turned = b.number(-(1 << self.key.width - 1), self.key)

        def read(i: Value, carried: Sequence[Value]) -> list[Value]:
            record = self.record(b.bitwise_xor(self.read(i), turned), i)
            self.store(record, lines, b.index(0), i)
            some, every = carried
            return [b.bitwise_or(some, record[0]), b.bitwise_and(every, record[0])]

        some, every = b.loop(0, self.size, 1, [b.number(0, i64), b.number(-1, i64)], read)
        return b.bitwise_xor(some, every)

    def count(self, lines: Sequence[Value], here: Value, shift: Value, counts: Value) -> None:
        """How many records have a lesser digit than each: where those of that digit begin."""
        b, zero, one = self.b, self.b.number(0, i32), self.b.number(1, i32)
        b.loop(0, _VALUES, 1, (), lambda v, _: b.store(zero, counts, [v]) or ())

        def add(i: Value, _: object) -> tuple[()]:
            at = [self.value(self.load(lines, here, i)[0], shift)]
            b.store(b.add(self.frame.scalar(counts, at), one), counts, at)
            return ()

        def begin(v: Value, carried: Sequence[Value]) -> list[Value]:
            count = self.frame.scalar(counts, [v])
            b.store(carried[0], counts, [v])
            return [b.add(carried[0], count)]

        b.loop(0, self.size, 1, (), add)
        b.loop(0, _VALUES, 1, [zero], begin)

    def move(self, lines: Sequence[Value], here: Value, there: Value, shift: Value, counts: Value) -> None:
        """Each record to the next place of its digit."""
        b = self.b

        def one(i: Value, _: object) -> tuple[()]:
            record = self.load(lines, here, i)
            digit = self.value(record[0], shift)
            place = self.frame.scalar(counts, [digit])
            b.store(b.add(place, b.number(1, i32)), counts, [digit])
            self.store(record, lines, there, b.cast(place, type=index))
            return ()

        b.loop(0, self.size, 1, (), one)

    # -- insertion ---------------------------------------------------------------------------------------

    def insert(self) -> None:
        """The least so far stand sorted in scratch. A tile of elements of which none is less than the last of them is
        passed by."""
        b, best = self.b, self.records(self.kept)
        greatest = b.number((1 << 63) - 1, i64)
        last = b.index(self.kept - 1)

        def empty(i: Value, _: object) -> tuple[()]:
            self.store((greatest,) * len(best), best, i)
            return ()

        b.loop(0, self.kept, 1, (), empty)

        def enter(place: Value) -> None:
            def sift(i: Value, carried: Sequence[Value]) -> list[Value]:
                there = self.load(best, i)
                comes = comes_before(b, carried, there)
                self.store(tuple(b.select(comes, x, y) for x, y in zip(carried, there, strict=True)), best, i)
                return [b.select(comes, y, x) for x, y in zip(carried, there, strict=True)]

            b.loop(0, self.kept, 1, self.record(self.read(place), place), sift)

        def one(i: Value, _: object) -> tuple[()]:
            comes = comes_before(b, self.record(self.read(i), i), self.load(best, last))
            b.branch(comes, lambda: enter(i))
            return ()

        def some(span: Span, _: object) -> tuple[()]:
            start = b.add(span.start, b.index(self.kept))
            tile = b.load(
                self.frame.sources[0],
                [self.outer, start, self.inner],
                type=VectorType((span.size,), self.key),
                dims=[1],
            )
            least = b.cast(b.min(tile, axes=[0]), type=i64)
            (bound, *_) = self.load(best, last)
            if self.packed:
                bound = b.shift_right_arithmetic(bound, b.number(32, i64))
            stop = b.add(start, b.index(span.size))
            b.branch(b.less(least, bound), lambda: b.loop(start, stop, 1, (), one))
            return ()

        b.loop(0, self.kept, 1, (), one)
        self.frame.tiles(self.size - self.kept, self.frame.width, (), some)
        self.finish(best)
