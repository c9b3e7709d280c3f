# SPDX-License-Identifier: Apache-2.0
"""Kernels that access by index: gather, gather_elements, scatter. The bounds of every index are looked at here."""

from __future__ import annotations

from ...ir.core import Op, Value
from ...ir.types import IntegerType, VectorType, element_type, i64, index, shape_of
from ...ops.fields import get_i64, get_str
from ...support.target import Target
from .frame import Span
from .single import Single, SingleFrame, merged, vector


def _axis(op: Op) -> int:
    return get_i64(op, "axis")


def _wide(frame: SingleFrame, value: Value) -> Value:
    """An index (scalar or tile) as signed 64-bit. Unsigned 64-bit ones beyond the signed range stay out of range."""
    b = frame.b
    element = element_type(value.type)
    wide = vector(shape_of(value.type)[0] if shape_of(value.type) else 0, i64)
    if element is wide:
        return value
    if isinstance(element, IntegerType) and element.unsigned and element.width == 64:
        most = b.number((1 << 63) - 1, value.type)
        return b.cast(b.minimum(value, most), type=wide)
    return b.cast(value, type=wide)


def _clamped(frame: SingleFrame, value: Value, size: int) -> Value:
    """A negative index counts from the end; then all are clamped to the axis."""
    b = frame.b
    value = _wide(frame, value)
    zero, extent = b.number(0, value.type), b.number(size, value.type)
    value = b.select(b.less(value, zero), b.add(value, extent), value)
    return b.minimum(b.maximum(value, zero), b.number(size - 1, value.type))


def gather_kernel(op: Op, target: Target) -> Single:
    """Rows copied by index; single elements gathered in registers when nothing stands after the axis."""
    axis = _axis(op)
    source, indices = (shape_of(o.type) for o in op.operands)
    before, size, after = merged(source, axis)
    _, count, _ = merged(indices, 0, len(indices))
    operands = [(before, size, after), (count,)]
    element = element_type(op.results[0].type)
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
            place = _clamped(frame, found, size)
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
        place = b.cast(_clamped(frame, frame.scalar(frame.sources[1], [number.start]), size), type=index)
        tile = b.load(
            frame.sources[0],
            [row.start, place, span.start],
            type=vector(span.size, element),
            masked=span.masked,
        )
        b.store(tile, frame.results[0], [row.start, number.start, span.start], masked=span.masked)

    frame.visit(frame.sizes, frame.width, copy)
    return frame.done()


def gather_elements_kernel(op: Op, target: Target) -> Single:
    """One element per index, along any axis."""
    axis = _axis(op)
    source = shape_of(op.operands[0].type)
    frame = SingleFrame(op, target, shape_of(op.results[0].type))
    b = frame.b
    element = element_type(op.results[0].type)
    last = len(source) - 1

    def pick(spans: list[Span]) -> None:
        span = spans[-1]
        starts = [s.start for s in spans]
        kind = vector(span.size, element_type(op.operands[1].type))
        found = _clamped(frame, b.load(frame.sources[1], starts, type=kind, masked=span.masked), source[axis])
        places: list[Value] = list(starts)
        places[axis] = found
        if axis != last:
            wide = VectorType((span.size,), i64)
            start = b.broadcast(b.cast(span.start, type=i64), type=wide, dimensions=())
            # A masked tile reaches beyond the row; what is read there is not stored.
            places[-1] = b.minimum(
                b.add(b.iota(type=wide, dimension=0), start), b.number(source[-1] - 1, wide)
            )
        tile = b.gather_tile(frame.sources[0], places, type=vector(span.size, element))
        b.store(tile, frame.results[0], starts, masked=span.masked)

    frame.visit(frame.sizes, frame.width, pick)
    return frame.done()


_COMBINE = {"add": "add", "max": "maximum", "min": "minimum"}


def scatter_kernel(op: Op, target: Target) -> Single:
    """A copy of the operand, then the updates in order; one program, since indices may repeat."""
    axis = _axis(op)
    combine = get_str(op, "combine")
    before, size, after = merged(shape_of(op.operands[0].type), axis)
    _, count, _ = merged(shape_of(op.operands[1].type), 0, len(shape_of(op.operands[1].type)))
    shape = (before, size, after)
    frame = SingleFrame(op, target, shape, [shape, (count,), (before, count, after)], [shape], parallel=False)
    b = frame.b
    element = element_type(op.results[0].type)
    source, indices, updates = frame.sources
    (result,) = frame.results

    def copied(spans: list[Span]) -> None:
        def move(span: Span, _: object) -> tuple[()]:
            at = [*(s.start for s in spans), span.start]
            tile = b.load(source, at, type=vector(span.size, element), masked=span.masked)
            b.store(tile, result, at, masked=span.masked)
            return ()

        frame.tiles(after, frame.width, (), move)

    if frame.masks:
        frame.nest((before, size), copied)
        b.barrier()
    else:
        b.copy(source, result)
    if after == 1 and frame.masks:
        _scatter_elements(frame, op, combine, before, size, count)
        return frame.done()

    def update(spans: list[Span]) -> None:
        row, number = spans
        place = _wide(frame, frame.scalar(indices, [number.start]))
        zero, extent = b.number(0, i64), b.number(size, i64)
        place = b.select(b.less(place, zero), b.add(place, extent), place)
        inside = b.bitwise_and(b.greater_equal(place, zero), b.less(place, extent))

        def change() -> None:
            at = b.cast(place, type=index)

            def tile(span: Span, _: object) -> tuple[()]:
                type = vector(span.size, element) if after > 1 else element
                new = b.load(updates, [row.start, number.start, span.start], type=type, masked=span.masked)
                if combine != "set":
                    old = b.load(result, [row.start, at, span.start], type=type, masked=span.masked)
                    new = getattr(b, _COMBINE[combine])(old, new)
                b.store(new, result, [row.start, at, span.start], masked=span.masked)
                return ()

            frame.tiles(after, frame.width, (), tile)

        b.branch(inside, change)

    frame.nest((before, count), update)
    return frame.done()


def _scatter_elements(frame: SingleFrame, op: Op, combine: str, before: int, size: int, count: int) -> None:
    """Single elements: tile.scatter keeps their order."""
    b = frame.b
    element = element_type(op.results[0].type)

    def row(spans: list[Span]) -> None:
        def change(span: Span, _: object) -> tuple[()]:
            kind = vector(span.size, element_type(op.operands[1].type))
            place = _wide(frame, b.load(frame.sources[1], [span.start], type=kind, masked=span.masked))
            zero, extent = b.number(0, place.type), b.number(size, place.type)
            place = b.select(b.less(place, zero), b.add(place, extent), place)
            inside = b.bitwise_and(b.greater_equal(place, zero), b.less(place, extent))
            if span.masked:
                position = b.add(
                    b.iota(type=place.type, dimension=0),
                    b.broadcast(b.cast(span.start, type=i64), type=place.type, dimensions=()),
                )
                inside = b.bitwise_and(inside, b.less(position, b.number(count, place.type)))
            place = b.minimum(b.maximum(place, zero), b.number(max(size - 1, 0), place.type))
            new = b.load(
                frame.sources[2], [spans[0].start, span.start, b.index(0)],
                type=vector(span.size, element), dims=[1], masked=span.masked,
            )  # fmt: skip
            b.scatter_tile(
                new, inside, frame.results[0], [spans[0].start, place, b.index(0)], combine=combine
            )
            return ()

        frame.tiles(count, frame.width, (), change)

    frame.nest((before,), row)
