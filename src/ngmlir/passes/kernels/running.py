# SPDX-License-Identifier: Apache-2.0
"""Cumulative kernels: a prefix inside each tile, and a carry from tile to tile."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.core import Op, Value
from ...ir.literals import item_bytes
from ...ir.types import (
    Type,
    element_type,
    shape_of,
)
from ...ops.fields import get_bool, get_i64
from ...support.target import Target
from .frame import Span, power_of_two, within
from .reduction import Accumulation
from .single import Single, SingleFrame, merged, vector


def cumulative_kernel(op: Op, target: Target) -> Single:
    """Along the innermost dimension in registers; along another one row by row, side by side."""
    axis = get_i64(op, "axis")
    before, size, after = merged(shape_of(op.operands[0].type), axis)
    shape = (before, size, after)
    return _along_rows(op, target, shape) if after == 1 else _side_by_side(op, target, shape)


class _Running(Accumulation):
    """The parts of one cumulative op."""

    def __init__(self, frame: SingleFrame, op: Op):
        super().__init__(op.name.rpartition("_")[2], element_type(op.results[0].type))
        self.frame, self.b = frame, frame.b
        self.reverse = get_bool(op, "reverse")
        self.exclusive = get_bool(op, "exclusive")

    def begin(self, type: Type) -> Value:
        return self.b.number(self.start, type)

    def empty(self, type: Type) -> Value:
        """What an exclusive op gives for the first element."""
        return self.b.number(0, type) if self.kind == "sum" else self.begin(type)


def _side_by_side(op: Op, target: Target, shape: Sequence[int]) -> Single:
    before, size, after = shape
    frame = SingleFrame(op, target, (before, after), [shape], [shape])
    b = frame.b
    run = _Running(frame, op)

    def column(spans: list[Span]) -> None:
        row, span = spans
        type = vector(span.size, run.accumulator)
        start = run.empty(type) if run.exclusive else run.begin(type)

        def step(k: Value, carried: Sequence[Value]) -> list[Value]:
            if run.reverse:
                k = b.subtract(b.index(size - 1), k)
            at = [row.start, k, span.start]
            new = run.enter(
                b, b.load(frame.sources[0], at, type=vector(span.size, run.element), masked=span.masked)
            )
            total = run.combine(b, carried[0], new)
            shown = carried[0] if run.exclusive else total
            b.store(run.leave(b, shown), frame.results[0], at, masked=span.masked)
            return [total]

        b.loop(0, size, 1, [start], step)

    frame.visit(frame.sizes, frame.width, column)
    return frame.done()


def _along_rows(op: Op, target: Target, shape: Sequence[int]) -> Single:
    """Each row by one program: tiles of it from one end to the other."""
    before, size, _ = shape
    space = (before, 1) if target.shares_tiles else (before, size)
    frame = SingleFrame(op, target, space, [(before, size)], [(before, size)])
    b = frame.b
    run = _Running(frame, op)
    verb = getattr(b, op.name.removeprefix("ng."))
    if frame.masks:
        width = min(frame.width, power_of_two(size))
    else:
        width = min(size, target.lanes(max(4, item_bytes(run.accumulator))))
    parts = -(-size // width)

    def tile(row: Value, start: Value, count: int, masked: bool, carry: Value) -> Value:
        new = run.enter(
            b, b.load(frame.sources[0], [row, start], type=vector(count, run.element), masked=masked)
        )
        if masked:
            new = within(b, new, start, size, run.begin(new.type))
        prefix = verb(new, axis=0, reverse=run.reverse)
        spread = b.broadcast(carry, type=prefix.type, dimensions=())
        total = run.combine(b, spread, prefix)
        if run.exclusive:
            # The prefix without the element itself: the neighbour's, and the carry at the end where it begins.
            without = verb(new, axis=0, reverse=run.reverse, exclusive=True)
            shown = run.combine(b, spread, without)
        else:
            shown = total
        b.store(run.leave(b, shown), frame.results[0], [row, start], masked=masked)
        return run.combine(b, carry, run.across(b, new, [0]))

    def row(span: Span) -> None:
        at = span.start
        carry = run.empty(run.accumulator) if run.exclusive else run.begin(run.accumulator)
        full = size // width if not frame.masks else parts
        rest = size - full * width if not frame.masks else 0
        masked = frame.masks and size % width != 0
        if rest and run.reverse:
            carry = tile(at, b.index(full * width), rest, False, carry)
        if full == 1:
            carry = tile(at, b.index(0), width, masked, carry)
        else:

            def step(k: Value, carried: Sequence[Value]) -> list[Value]:
                number = b.subtract(b.index((full - 1) * width), k) if run.reverse else k
                return [tile(at, number, width, masked, carried[0])]

            (carry,) = b.loop(0, full * width, width, [carry], step)
        if rest and not run.reverse:
            tile(at, b.index(full * width), rest, False, carry)

    frame.each_row(row)
    return frame.done()
