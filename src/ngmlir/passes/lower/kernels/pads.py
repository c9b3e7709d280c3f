# SPDX-License-Identifier: Apache-2.0
"""Pads that nobody reads through, copied."""

from __future__ import annotations

from functools import reduce
from math import prod

from ....ir.attributes import numeric_literal
from ....ir.core import Op, Value
from ....ir.literals import item_bytes
from ....ir.types import VectorType, element_type, shape_of
from ....ops.fields import get_i64s
from ....support.lengths import below
from ....support.target import Target
from .frame import Span
from .single import Single, SingleFrame, line_frame, spends_on_finding, unsigned_places_in


def pad_kernel(op: Op, target: Target) -> Single:
    """Inside the border whole rows are copied; where a tile may hold both, it is read with a mask, and what lies outside
    the operand is the padding value."""
    shape, whole, low = _merged_pad(op)
    if not target.shares_tiles and len(whole) > 1:
        return _pad_rows(op, target)
    element = element_type(op.results[0].type)
    if prod(shape) and spends_on_finding(target, whole, item_bytes(element)):
        return _pad_in_line(op, target)
    frame = SingleFrame(op, target, whole, [shape], [whole])
    b = frame.b
    value = op.attributes.get("value")

    def move(spans: list[Span]) -> None:
        if not spans:
            b.store(frame.scalar(frame.sources[0], ()), frame.results[0], ())
            return
        source = [b.subtract(s.start, b.index(before)) for s, before in zip(spans, low, strict=True)]
        size = spans[-1].size
        # Every dimension is one of the tile's, so that the mask looks at all of them.
        whole = VectorType((*[1] * (len(spans) - 1), size), element)

        def masked() -> list[Value]:
            tile = b.load(frame.sources[0], source, type=whole, masked=True, pad=value)
            return [b.reshape(tile, type=VectorType((size,), element)) if len(spans) > 1 else tile]

        most = shape[0] - size
        if frame.masks or below(most, 0):
            (tile,) = masked()
        else:
            inside = b.bitwise_and(
                b.less_equal(b.index(0), source[0]), b.less_equal(source[0], b.index(most))
            )
            (tile,) = b.branch(inside, lambda: [b.load(frame.sources[0], source, type=whole)], masked)
        b.store(tile, frame.results[0], [s.start for s in spans], masked=spans[-1].masked)

    frame.visit(frame.sizes, frame.width, move)
    return frame.done()


def _pad_in_line(op: Op, target: Target) -> Single:
    """The result as one line: what a warp reads lies together but for the borders."""
    shape, whole, low = _merged_pad(op)
    element = element_type(op.results[0].type)
    frame = line_frame(op, target, prod(whole), [(prod(shape),)])
    b = frame.b
    value = op.attributes.get("value", numeric_literal(0, element))

    def move(spans: list[Span]) -> None:
        (span,) = spans
        places = unsigned_places_in(b, span, whole)
        number, type = places[0].type, VectorType((span.size,), element)
        zero = offset = b.number(0, number)
        inside: list[Value] = []
        for place, size, full, before in zip(places, shape, whole, low, strict=True):
            at = b.subtract(place, b.number(before, number))
            offset = b.add(b.multiply(offset, b.number(size, number)), at)
            if size != full:
                # What is before the operand wraps round, to beyond it.
                inside.append(b.less(at, b.number(size, number)))
        there = reduce(b.bitwise_and, inside)
        tile = b.gather_tile(frame.sources[0], [b.select(there, offset, zero)], type=type)
        b.store(
            b.select(there, tile, b.number(value, type)), frame.results[0], [span.start], masked=span.masked
        )

    frame.visit(frame.sizes, frame.width, move)
    return frame.done()


def _merged_pad(op: Op) -> tuple[list[int], list[int], list[int]]:
    """Operand shape, result shape and low borders, with rows that no border cuts as parts of what they are rows of."""
    shapes = (shape_of(v.type) for v in (op.operands[0], op.results[0]))
    kept: list[tuple[int, int, int]] = []
    for size, whole, low in reversed([*zip(*shapes, get_i64s(op, "low"), strict=True)]):
        inner, same, before = kept[-1] if kept else (0, -1, 0)
        if inner == same and before == 0:
            kept[-1] = (size * inner, whole * inner, low * inner)
        else:
            kept.append((size, whole, low))
    merged = [[*each] for each in zip(*reversed(kept), strict=True)] or [[], [], []]
    return merged[0], merged[1], merged[2]


def _pad_rows(op: Op, target: Target) -> Single:
    """Row by row of the result: the border before, a row of the operand, the border behind; or border all along."""
    (*sizes, inner), (*outer, columns), (*low, before) = _merged_pad(op)
    whole = (prod(outer), columns)
    frame = SingleFrame(op, target, whole, [[*sizes, inner]], [whole])
    b = frame.b
    element = element_type(op.results[0].type)
    value = op.attributes.get("value", numeric_literal(0, element))

    def row(span: Span) -> None:
        def border(first: int, count: int) -> None:
            def fill(part: Span, _: object) -> tuple[()]:
                tile = b.number(value, VectorType((part.size,), element))
                b.store(tile, frame.results[0], [span.start, b.add(part.start, b.index(first))])
                return ()

            frame.tiles(count, frame.width, (), fill, masks=False)

        def copy(part: Span, _: object) -> tuple[()]:
            tile = b.load(frame.sources[0], [*place, part.start], type=VectorType((part.size,), element))
            b.store(tile, frame.results[0], [span.start, b.add(part.start, b.index(before))])
            return ()

        def across() -> None:
            border(0, before)
            frame.tiles(inner, frame.width, (), copy, masks=False)
            border(before + inner, columns - before - inner)

        place = [
            b.subtract(s.start, b.index(lo))
            for s, lo in zip(frame.apart(span.start, outer), low, strict=True)
        ]
        inside = [
            b.bitwise_and(b.less_equal(b.index(0), at), b.less(at, b.index(size)))
            for at, size, full in zip(place, sizes, outer, strict=True)
            if size != full
        ]
        if inside:
            b.branch(reduce(b.bitwise_and, inside), across, lambda: border(0, columns))
        else:
            across()

    frame.each_row(row)
    return frame.done()
