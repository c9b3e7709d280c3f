# SPDX-License-Identifier: Apache-2.0
"""Gathers: `ng.gather` and `ng.gather_elements`. Negative indices are wrapped and all indices are clamped to the axis here."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ....ir.core import Op
from ....ir.literals import item_bytes
from ....ir.types import VectorType, element_type, i64, index, shape_of
from ....ops.fields import get_i64
from ....support.target import Target
from ...analysis.indices import clamped
from ...analysis.reduction import merged
from ...schedule.moves import take_turns
from ...schedule.programs import tile_width
from .finished import Finished
from .frame import Span, positions
from .single import SingleFrame, flat_frame, places_in, vector


def gather_kernel(op: Op, target: Target) -> Finished:
    """Copies a row of the operand for each index; where the axis is the last one, a row is one element, and a tile gathers many."""
    axis = get_i64(op, "axis")
    source, indices = (shape_of(o.type) for o in op.operands)
    before, size, after = merged(source, axis)
    _, count, _ = merged(indices, 0, len(indices))
    operands = [(before, size, after), (count,)]
    element = element_type(op.results[0].type)
    if take_turns(target, before * count) and after < tile_width(target, item_bytes(element)):
        return _short_rows(op, target, operands)
    if after == 1:
        frame = SingleFrame(op, target, (before, count), operands, [(before, count)])
        b = frame.b

        def pick(spans: list[Span]) -> None:
            row, span = spans
            found = b.load(
                frame.sources[1],
                [span.start],
                type=vector(span.size, element_type(op.operands[1].type)),
                masked=span.masked,
            )
            place = clamped(b, found, size)
            tile = b.gather_tile(
                frame.sources[0], [row.start, place, b.index(0)], type=vector(span.size, element)
            )
            b.store(tile, frame.results[0], [row.start, span.start], masked=span.masked)

        frame.visit(frame.sizes, frame.width, pick)
        return frame.done()
    frame = SingleFrame(op, target, (before, count, after), operands, [(before, count, after)])
    b = frame.b

    def copy(spans: list[Span]) -> None:
        row, number, span = spans
        place = b.cast(clamped(b, frame.scalar(frame.sources[1], [number.start]), size), type=index)
        tile = b.load(
            frame.sources[0],
            [row.start, place, span.start],
            type=vector(span.size, element),
            masked=span.masked,
        )
        b.store(tile, frame.results[0], [row.start, number.start, span.start], masked=span.masked)

    frame.visit(frame.sizes, frame.width, copy)
    return frame.done()


def _short_rows(op: Op, target: Target, operands: Sequence[tuple[int, ...]]) -> Finished:
    """Gathers rows shorter than a tile: the result is seen as one dimension, and a tile of a block of threads covers many rows."""
    (before, size, after), (count,) = operands
    element, number = (element_type(o.type) for o in op.operands)
    frame = flat_frame(op, target, before * count * after, operands)
    b = frame.b

    def pick(spans: list[Span]) -> None:
        (span,) = spans
        row, at, column = places_in(b, span, (before, count, after))
        found = b.gather_tile(frame.sources[1], [at], type=VectorType((span.size,), number))
        place = clamped(b, found, size)
        tile = b.gather_tile(frame.sources[0], [row, place, column], type=VectorType((span.size,), element))
        b.store(tile, frame.results[0], [span.start], masked=span.masked)

    frame.visit(frame.sizes, frame.width, pick)
    return frame.done()


def gather_elements_kernel(op: Op, target: Target) -> Finished:
    """Gathers one element for each index, along any axis. On a GPU a result of many rows is seen as one dimension."""
    axis = get_i64(op, "axis")
    source, shape = (shape_of(v.type) for v in (op.operands[0], op.results[0]))
    in_line = take_turns(target, prod(shape[:-1]))
    if in_line:
        frame = flat_frame(op, target, prod(shape), [source, (prod(shape),)])
    else:
        frame = SingleFrame(op, target, shape)
    b = frame.b
    element = element_type(op.results[0].type)
    last = len(source) - 1

    def pick(spans: list[Span]) -> None:
        span = spans[-1]
        starts = [s.start for s in spans]
        kind = vector(span.size, element_type(op.operands[1].type))
        found = clamped(b, b.load(frame.sources[1], starts, type=kind, masked=span.masked), source[axis])
        places = places_in(b, span, shape) if in_line else list(starts)
        if axis != last and not in_line:
            wide = VectorType((span.size,), i64)
            # A masked tile extends beyond the row. The elements read there are not stored, but must be inside the buffer.
            places[-1] = b.minimum(positions(b, span.start, wide), b.number(source[-1] - 1, wide))
        places[axis] = found
        tile = b.gather_tile(frame.sources[0], places, type=vector(span.size, element))
        b.store(tile, frame.results[0], starts, masked=span.masked)

    frame.visit(frame.sizes, frame.width, pick)
    return frame.done()
