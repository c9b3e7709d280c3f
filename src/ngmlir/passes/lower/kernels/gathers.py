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
from ...schedule.moves import exceeds_resident_blocks
from ...schedule.programs import tile_width
from .finished import Finished
from .single import OpKernelBuilder, flat_builder, places_in, vector
from .tiling import Span, positions


def gather_kernel(op: Op, target: Target) -> Finished:
    """Copies a row of the operand for each index; where the axis is the last one, a row is one element, and a tile gathers many."""
    axis = get_i64(op, "axis")
    source, indices = (shape_of(o.type) for o in op.operands)
    before, size, after = merged(source, axis)
    _, count, _ = merged(indices, 0, len(indices))
    operands = [(before, size, after), (count,)]
    element = element_type(op.results[0].type)
    if exceeds_resident_blocks(target, before * count) and after < tile_width(target, item_bytes(element)):
        return _short_rows(op, target, operands)
    if after == 1:
        builder = OpKernelBuilder(op, target, (before, count), operands, [(before, count)])
        b = builder.b

        def pick(spans: list[Span]) -> None:
            row, span = spans
            found = b.load(
                builder.sources[1],
                [span.start],
                type=vector(span.size, element_type(op.operands[1].type)),
                masked=span.masked,
            )
            place = clamped(b, found, size)
            tile = b.gather_tile(
                builder.sources[0], [row.start, place, b.index(0)], type=vector(span.size, element)
            )
            b.store(tile, builder.results[0], [row.start, span.start], masked=span.masked)

        builder.visit(builder.sizes, builder.width, pick)
        return builder.done()
    builder = OpKernelBuilder(op, target, (before, count, after), operands, [(before, count, after)])
    b = builder.b

    def copy(spans: list[Span]) -> None:
        row, number, span = spans
        place = b.cast(clamped(b, builder.scalar(builder.sources[1], [number.start]), size), type=index)
        tile = b.load(
            builder.sources[0],
            [row.start, place, span.start],
            type=vector(span.size, element),
            masked=span.masked,
        )
        b.store(tile, builder.results[0], [row.start, number.start, span.start], masked=span.masked)

    builder.visit(builder.sizes, builder.width, copy)
    return builder.done()


def _short_rows(op: Op, target: Target, operands: Sequence[tuple[int, ...]]) -> Finished:
    """Gathers rows shorter than a tile: the result is seen as one dimension, and a tile of a block of threads covers many rows."""
    (before, size, after), (count,) = operands
    element, number = (element_type(o.type) for o in op.operands)
    builder = flat_builder(op, target, before * count * after, operands)
    b = builder.b

    def pick(spans: list[Span]) -> None:
        (span,) = spans
        row, at, column = places_in(b, span, (before, count, after))
        found = b.gather_tile(builder.sources[1], [at], type=VectorType((span.size,), number))
        place = clamped(b, found, size)
        tile = b.gather_tile(builder.sources[0], [row, place, column], type=VectorType((span.size,), element))
        b.store(tile, builder.results[0], [span.start], masked=span.masked)

    builder.visit(builder.sizes, builder.width, pick)
    return builder.done()


def gather_elements_kernel(op: Op, target: Target) -> Finished:
    """Gathers one element for each index, along any axis. On a GPU a result of many rows is seen as one dimension."""
    axis = get_i64(op, "axis")
    source, shape = (shape_of(v.type) for v in (op.operands[0], op.results[0]))
    in_line = exceeds_resident_blocks(target, prod(shape[:-1]))
    if in_line:
        builder = flat_builder(op, target, prod(shape), [source, (prod(shape),)])
    else:
        builder = OpKernelBuilder(op, target, shape)
    b = builder.b
    element = element_type(op.results[0].type)
    last = len(source) - 1

    def pick(spans: list[Span]) -> None:
        span = spans[-1]
        starts = [s.start for s in spans]
        kind = vector(span.size, element_type(op.operands[1].type))
        found = clamped(b, b.load(builder.sources[1], starts, type=kind, masked=span.masked), source[axis])
        places = places_in(b, span, shape) if in_line else list(starts)
        if axis != last and not in_line:
            wide = VectorType((span.size,), i64)
            # A masked tile extends beyond the row. The elements read there are not stored, but must be inside the buffer.
            places[-1] = b.minimum(positions(b, span.start, wide), b.number(source[-1] - 1, wide))
        places[axis] = found
        tile = b.gather_tile(builder.sources[0], places, type=vector(span.size, element))
        b.store(tile, builder.results[0], starts, masked=span.masked)

    builder.visit(builder.sizes, builder.width, pick)
    return builder.done()
