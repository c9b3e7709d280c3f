# SPDX-License-Identifier: Apache-2.0
"""Cumulative kernels: a prefix inside each tile, and a carry from tile to tile."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.attributes import Attribute, numeric_literal
from ...ir.core import Op, Value
from ...ir.literals import item_bytes
from ...ir.types import (
    FloatType,
    Type,
    element_type,
    f32,
    shape_of,
    with_element,
)
from ...ops.fields import get_bool, get_i64
from ...support.target import Target
from .frame import Span, power_of_two, within
from .reduction import extreme
from .single import Single, SingleFrame, merged, vector

#: What joins two results, by the last word of the op.
COMBINE = {"sum": "add", "product": "multiply", "max": "maximum", "min": "minimum"}


def _start(kind: str, element: Type) -> Attribute:
    if kind == "sum":
        return numeric_literal(-0.0 if isinstance(element, FloatType) else 0, element)
    if kind == "product":
        return numeric_literal(1, element)
    return extreme(element, kind == "max")


def cumulative_kernel(op: Op, target: Target) -> Single:
    """Along the innermost dimension in registers; along another one row by row, side by side."""
    axis = get_i64(op, "axis")
    before, size, after = merged(shape_of(op.operands[0].type), axis)
    shape = (before, size, after)
    return _along_rows(op, target, shape) if after == 1 else _side_by_side(op, target, shape)


class _Running:
    """The parts of one cumulative op."""

    def __init__(self, frame: SingleFrame, op: Op):
        self.frame, self.b = frame, frame.b
        self.kind = op.name.rpartition("_")[2]
        self.element = element_type(op.results[0].type)
        narrow = isinstance(self.element, FloatType) and self.element.width < 32
        self.wide: Type = f32 if narrow else self.element
        self.reverse = get_bool(op, "reverse")
        self.exclusive = get_bool(op, "exclusive")

    def start(self, type: Type) -> Value:
        return self.b.number(_start(self.kind, self.wide), type)

    def empty(self, type: Type) -> Value:
        """What an exclusive op gives for the first element."""
        return self.b.number(0, type) if self.kind == "sum" else self.start(type)

    def combine(self, x: Value, y: Value) -> Value:
        return getattr(self.b, COMBINE[self.kind])(x, y)

    def widen(self, value: Value) -> Value:
        return (
            value
            if self.wide is self.element
            else self.b.cast(value, type=with_element(value.type, self.wide))
        )

    def narrow(self, value: Value) -> Value:
        return (
            value
            if self.wide is self.element
            else self.b.cast(value, type=with_element(value.type, self.element))
        )


def _side_by_side(op: Op, target: Target, shape: Sequence[int]) -> Single:
    before, size, after = shape
    frame = SingleFrame(op, target, (before, after), [shape], [shape])
    b = frame.b
    run = _Running(frame, op)

    def column(spans: list[Span]) -> None:
        row, span = spans
        type = vector(span.size, run.wide)
        start = run.empty(type) if run.exclusive else run.start(type)

        def step(k: Value, carried: Sequence[Value]) -> list[Value]:
            if run.reverse:
                k = b.subtract(b.index(size - 1), k)
            at = [row.start, k, span.start]
            new = run.widen(
                b.load(frame.sources[0], at, type=vector(span.size, run.element), masked=span.masked)
            )
            total = run.combine(carried[0], new)
            shown = carried[0] if run.exclusive else total
            b.store(run.narrow(shown), frame.results[0], at, masked=span.masked)
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
        width = min(size, target.lanes(max(4, item_bytes(run.wide))))
    parts = -(-size // width)

    def tile(row: Value, start: Value, count: int, masked: bool, carry: Value) -> Value:
        new = run.widen(
            b.load(frame.sources[0], [row, start], type=vector(count, run.element), masked=masked)
        )
        if masked:
            new = within(b, new, start, size, run.start(new.type))
        prefix = verb(new, axis=0, reverse=run.reverse)
        spread = b.broadcast(carry, type=prefix.type, dimensions=())
        total = run.combine(spread, prefix)
        if run.exclusive:
            # The prefix without the element itself: the neighbour's, and the carry at the end where it begins.
            without = verb(new, axis=0, reverse=run.reverse, exclusive=True)
            shown = run.combine(spread, without)
        else:
            shown = total
        b.store(run.narrow(shown), frame.results[0], [row, start], masked=masked)
        reduce = {"sum": b.sum, "product": b.product, "max": b.max, "min": b.min}[run.kind]
        return run.combine(carry, reduce(new, axes=[0]))

    def row(span: Span) -> None:
        at = span.start
        carry = run.empty(run.wide) if run.exclusive else run.start(run.wide)
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
