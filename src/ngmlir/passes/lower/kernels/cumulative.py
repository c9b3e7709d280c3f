# SPDX-License-Identifier: Apache-2.0
"""Cumulative kernels: a prefix scan inside each tile, and a carry from tile to tile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd

from ....ir.core import Op, Value
from ....ir.literals import item_bytes
from ....ir.types import Type, VectorType, element_type, shape_of, tile_type
from ....ops.fields import get_bool, get_enum, get_i64
from ....support.lengths import is_open, is_same, power_of_two
from ....support.target import Target
from ...analysis.reduction import Accumulation, merged
from ...schedule.programs import tile_width
from .finished import Finished
from .single import OpKernelBuilder, vector
from .tiling import Span, within

#: Registers of adjacent columns that a CPU scans at once: so many bytes of each row that the next row is loaded ahead. 300 rows of 300
#: f32 take 0.45 times the time of 4 registers, 1000 of 1000 0.65 times (Zen 4).
CARRIES = 16


def cumulative_kernel(op: Op, target: Target) -> Finished:
    """Scans along the innermost dimension, or along another one for several columns at once."""
    shape = merged(shape_of(op.operands[0].type), get_i64(op, "axis"))
    return (_row_by_row if shape[2] == 1 else _side_by_side)(op, target, shape)


def cumulative_by_blocks(op: Op, target: Target) -> Finished:
    """The same with several tiles at once, by blocks of threads."""
    shape = merged(shape_of(op.operands[0].type), get_i64(op, "axis"))
    return (_rows_at_once if shape[2] == 1 else _in_bands)(op, target, shape)


class PrefixScan(Accumulation):
    """The parts of one cumulative op."""

    def __init__(self, builder: OpKernelBuilder, op: Op):
        kind = get_enum(op, "combine") if "combine" in op.attributes else op.name.rpartition("_")[2]
        super().__init__(kind, element_type(op.results[0].type))
        self.builder, self.b = builder, builder.b
        self.reverse = get_bool(op, "reverse")
        self.exclusive = get_bool(op, "exclusive")

    def begin(self, type: Type) -> Value:
        return self.b.number(self.start, type)

    def empty(self, type: Type) -> Value:
        """What an exclusive op returns for the first element."""
        return self.b.number(0, type) if self.kind == "sum" else self.begin(type)

    def carried(self, lines: Sequence[int]) -> Value:
        """The carry before the first element, for so many columns."""
        type = tile_type(lines, self.accumulator)
        return self.empty(type) if self.exclusive else self.begin(type)

    def through(
        self, size: int, shape: Sequence[int], along: int, at: Callable[[Value], list[Value]], masked: bool
    ) -> None:
        """Scans `size` elements in tiles of a shape whose dimension `along` is the one that is scanned.

        The remainder is a shorter tile; it is masked on a GPU, and for an open size, where it may be empty. `masked`: all tiles are masked
        across. `at` gives the indices of the tile at a position along the scan.
        """
        b, step, masks = self.b, shape[along], self.builder.has_thread_blocks
        full = -(-size // step) if masks else size // step
        beyond = size if masks and size % step else 0

        def tile(start: Value, step: int, carry: Value, beyond: int = beyond) -> Value:
            here = VectorType((*shape[:along], step, *shape[along + 1 :]), self.element)
            masked_here = masked or not is_same(beyond, 0)
            return self.tile(here, along, at(start), start, carry, masked_here, beyond)

        def last(carry: Value) -> Value:
            start = b.index(full * step)
            if is_open((size,)):
                there = b.less(start, b.index(size))
                return b.branch(there, lambda: [tile(start, step, carry, size)], lambda: [carry])[0]
            rest = 0 if masks else size - full * step
            return tile(start, rest, carry) if rest else carry

        carry = self.carried([*shape[:along], *shape[along + 1 :]])
        carry = last(carry) if self.reverse else carry
        carry = self.steps(full, step, carry, lambda start, carry: tile(start, step, carry))
        if not self.reverse:
            last(carry)

    def steps(self, count: int, step: int, carry: Value, tile: Callable[[Value, Value], Value]) -> Value:
        """The carry after so many tiles, each of which begins a step after the one before."""
        b = self.b
        if is_same(count, 1):
            return tile(b.index(0), carry)

        def turn(k: Value, carried: Sequence[Value]) -> list[Value]:
            start = b.subtract(b.index((count - 1) * step), k) if self.reverse else k
            return [tile(start, carried[0])]

        return b.loop(0, count * step, step, [carry], turn)[0]

    def tile(
        self,
        type: VectorType,
        along: int,
        at: list[Value],
        start: Value,
        carry: Value,
        masked: bool,
        beyond: int,
    ) -> Value:
        """Scans one tile after `carry`; returns the next carry. The tile may extend beyond the size `beyond`, unless that is 0."""
        b, builder = self.b, self.builder
        new = self.enter(b, b.load(builder.sources[0], at, type=type, masked=masked))
        if beyond:
            new = within(b, new, start, beyond, self.begin(new.type), along)
        shown, carry = self.joined(new, along, carry)
        b.store(self.leave(b, shown), builder.results[0], at, masked=masked)
        return carry

    def element_at(self, at: Sequence[Value], type: Type, carry: Value, masked: bool = False) -> Value:
        """Scans one element of some columns after `carry`; returns the next carry."""
        b, builder = self.b, self.builder
        total = self.combine(
            b, carry, self.enter(b, b.load(builder.sources[0], at, type=type, masked=masked))
        )
        shown = carry if self.exclusive else total
        b.store(self.leave(b, shown), builder.results[0], at, masked=masked)
        return total

    def joined(self, new: Value, along: int, carry: Value) -> tuple[Value, Value]:
        """The results of a tile after `carry`, and the next carry."""
        b, type = self.b, new.type
        verb = getattr(b, f"cumulative_{self.kind}")
        prefix = verb(new, axis=along, reverse=self.reverse)
        across = [d for d in range(len(shape_of(type))) if d != along]
        spread = b.broadcast(carry, type=prefix.type, dimensions=across)
        shown = self.combine(b, spread, prefix)
        if self.exclusive:
            # The exclusive prefix: the inclusive one of the neighbour, and the carry for the first element.
            shown = self.combine(b, spread, verb(new, axis=along, reverse=self.reverse, exclusive=True))
        return shown, self.combine(b, carry, self.across(b, new, [along]))


def _side_by_side(op: Op, target: Target, shape: Sequence[int]) -> Finished:
    before, size, after = shape
    lanes = target.lanes(max(4, item_bytes(element_type(op.results[0].type))))
    # The remainder of an open size is run in tiles of one register: the shorter the tiles, the fewer.
    width = None if is_open((after,)) else CARRIES * lanes
    builder = OpKernelBuilder(op, target, (before, after), [shape], [shape], width=width)
    b = builder.b
    run = PrefixScan(builder, op)

    def column(spans: list[Span]) -> None:
        row, span = spans
        type = vector(span.size, run.accumulator)
        start = run.empty(type) if run.exclusive else run.begin(type)

        def step(k: Value, carried: Sequence[Value]) -> list[Value]:
            if run.reverse:
                k = b.subtract(b.index(size - 1), k)
            at = [row.start, k, span.start]
            return [run.element_at(at, vector(span.size, run.element), carried[0], span.masked)]

        b.loop(0, size, 1, [start], step)

    return builder.visited(column)


def _row_by_row(op: Op, target: Target, shape: Sequence[int]) -> Finished:
    """Tiles of one vector register."""
    _, size = lines = shape[:2]
    builder = OpKernelBuilder(op, target, lines, [lines], [lines])
    run = PrefixScan(builder, op)
    width = target.lanes(max(4, item_bytes(run.accumulator)))
    width = width if is_open((size,)) else min(size, width)
    builder.each_row(lambda row: run.through(size, (width,), 0, lambda start: [row.start, start], False))
    return builder.done()


def _rows_at_once(op: Op, target: Target, shape: Sequence[int]) -> Finished:
    """A block of threads scans one row, or as many short ones as fill it."""
    before, size = lines = shape[:2]
    held = tile_width(target, item_bytes(element_type(op.results[0].type)))
    width = min(held, power_of_two(size))
    rows = min(held // width, power_of_two(before))
    builder = OpKernelBuilder(op, target, (before, 1), [lines], [lines], width=1, rows=rows)
    run = PrefixScan(builder, op)

    def some(spans: list[Span]) -> None:
        row = spans[0]
        tile, along = ((width,), 0) if rows == 1 else ((rows, width), 1)
        run.through(size, tile, along, lambda start: [row.start, start], row.masked)

    return builder.visited(some)


def _in_bands(op: Op, target: Target, shape: Sequence[int]) -> Finished:
    """A block of threads scans adjacent columns, so many steps at once that each thread has two loads of 16 bytes in flight."""
    before, size, after = shape
    width = min(target.threads, power_of_two(after))
    builder = OpKernelBuilder(op, target, (before, after), [shape], [shape], width=width)
    run = PrefixScan(builder, op)
    steps = min(power_of_two(size), 2 * tile_width(target, item_bytes(run.element)) // width)

    def lines(spans: list[Span]) -> None:
        row, span = spans
        run.through(size, (steps, width), 0, lambda start: [row.start, start, span.start], span.masked)

    return builder.visited(lines)


def runs_kernel(op: Op, target: Target) -> Finished:
    """Each block of threads scans a run, a part of a row or of adjacent columns, with the carry before it given."""
    before, size, after = merged(shape_of(op.operands[0].type), get_i64(op, "axis"))
    run = get_i64(op, "run")
    count, are_vectors = -(-size // run), after > 1
    rank = 3 if are_vectors else 2
    held = tile_width(target, item_bytes(element_type(op.results[0].type)))
    width = min(target.threads, power_of_two(after))
    step = gcd(run, 2 * held // width if are_vectors else held)
    whole, runs = (before, size, after)[:rank], (before, count, after)[:rank]
    builder = OpKernelBuilder(op, target, (before, count, after), [whole, runs], [whole], width=width)
    b, running = builder.b, PrefixScan(builder, op)
    across = (width,) if are_vectors else ()
    beyond = size if size % run else 0  # the last run is shorter

    def one(spans: list[Span]) -> None:
        row, number, span = spans
        first = b.multiply(number.start, b.index(run))
        masked = are_vectors and span.masked

        def tile(start: Value, carry: Value) -> Value:
            place = b.add(first, start)
            type, at = VectorType((step, *across), running.element), [row.start, place, span.start][:rank]
            return running.tile(type, 0, at, place, carry, masked or beyond > 0, beyond)

        at, type = (
            [row.start, number.start, span.start][:rank],
            vector(width * are_vectors, running.accumulator),
        )
        carry = b.load(builder.sources[1], at, type=type, masked=masked)
        running.steps(run // step, step, carry, tile)

    return builder.visited(one)
