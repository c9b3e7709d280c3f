# SPDX-License-Identifier: Apache-2.0
"""Constants and the ops that move elements: most only rename registers, the rest are shuffles."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from math import prod

from ...ir.attributes import Attribute, FloatAttr, IntegerAttr, numeric_literal
from ...ir.elements import ElementsAttr
from ...ir.literals import item_bytes
from ...ir.types import IndexType, Type, element_type, shape_of
from ...llvm import types as llvm
from ...llvm.types import Value, element_of, from_bits, poison, vector
from ...ops import ng
from ...support.lengths import Length
from ..ranges import exactly
from .emitter import Emitter
from .formats import computing, number, pack, storage
from .tiles import assemble, layout, splat_lane, transpose_blocks

# Constants


def constant(e: Emitter, op: ng.ConstantOp) -> None:
    """ng.constant"""
    literal, type = op.value, op.result.type
    kind = storage(element_type(type))
    if isinstance(type, IndexType):
        assert isinstance(literal, IntegerAttr)
        e.index_constant(op.result, literal.value)
        return
    chunks = [(row, chunk) for row, chunk in e.layout(type).each()]
    if not isinstance(literal, ElementsAttr) or literal.splat:
        bits = _bits(literal)[0]
        of = llvm.constant if isinstance(bits, Length) else from_bits
        e.define(op.result, [of(vector(chunk.width, kind), bits) for _, chunk in chunks])
        return
    bits = _bits(literal)
    registers: list[Value] = []
    at = 0
    for _, chunk in chunks:
        registers.append(_lanes(kind, bits[at : at + chunk.count], chunk.width))
        at += chunk.count
    e.define(op.result, registers)


def extent(e: Emitter, op: ng.ExtentOp) -> None:
    """ng.extent"""
    type, element = op.result.type, element_type(op.result.type)
    wide = computing(element)
    registers: list[Value] = []
    for _, chunk in e.layout(type).each():
        found = llvm.constant(vector(chunk.width, storage(wide)), op.value)
        registers.append(pack(e.b, e.machine, element, found))
    e.define(op.result, registers)


def _bits(literal: Attribute) -> list[int]:
    match literal:
        case FloatAttr(bits=bits) | IntegerAttr(value=bits):
            return [bits]
        case ElementsAttr(data=data, type=type):
            size = item_bytes(type.element)
            return [int.from_bytes(data[i : i + size], "little") for i in range(0, len(data), size)]
        case _:
            raise TypeError(f"{literal} is not a constant")


def _lanes(kind: llvm.Type, bits: Sequence[int], width: int) -> Value:
    if width == 1:
        return from_bits(kind, bits[0])
    items = [str(from_bits(kind, b)) for b in [*bits, *[0] * (width - len(bits))]]
    return Value(vector(width, kind), f"<{', '.join(items)}>")


def iota(e: Emitter, op: ng.IotaOp) -> None:
    """ng.iota"""
    type = op.result.type
    if not shape_of(type):
        e.define(op.result, [number(storage(element_type(type)), 0, element_type(type))])
        if isinstance(type, IndexType):
            e.define_index(op.result, e.scalar(op.result), exactly(0))
        return
    element, last = element_type(type), len(shape_of(type)) - 1
    kind = storage(element)
    bits = [_number_bits(i, element) for i in range(shape_of(type)[op.dimension])]
    registers: list[Value] = []
    for row, chunk in e.layout(type).each():
        if op.dimension == last:
            registers.append(_lanes(kind, bits[chunk.offset : chunk.offset + chunk.count], chunk.width))
        else:
            registers.append(from_bits(vector(chunk.width, kind), bits[row[op.dimension]]))
    e.define(op.result, registers)


def _number_bits(i: int, element: Type) -> int:
    return _bits(numeric_literal(i, element))[0]


# Shape


def broadcast(e: Emitter, op: ng.BroadcastOp) -> None:
    """ng.broadcast: registers that are used several times, or one lane copied to all lanes."""
    source, dims = e.registers(op.input), op.dimensions
    shape, rank = shape_of(op.input.type), len(shape_of(op.result.type))
    old, new = e.layout(op.input.type), e.layout(op.result.type)
    keeps_lanes = bool(dims) and dims[-1] == rank - 1
    splats: dict[tuple[int, int], Value] = {}
    registers: list[Value] = []
    for at, (row, chunk) in enumerate(new.each()):
        if keeps_lanes:
            line = position([row[d] for d in dims[:-1]], shape[:-1])
            registers.append(source[line * len(old.chunks) + at % len(new.chunks)])
            continue
        key = (position([row[d] for d in dims], shape), chunk.width)
        if key not in splats:
            register, lane = old.locate(key[0])
            splats[key] = splat_lane(e.b, source[register], lane, chunk.width)
            e.define_splat(splats[key], source[register], lane)
        registers.append(splats[key])
    e.define(op.result, registers)


def transpose(e: Emitter, op: ng.TransposeOp) -> None:
    """ng.transpose"""
    e.define(op.result, permuted_registers(e, e.registers(op.input), shape_of(op.input.type), op.permutation))


def reshape(e: Emitter, op: ng.ReshapeOp) -> None:
    """ng.reshape"""
    old, new = e.layout(op.input.type), e.layout(op.result.type)
    registers = e.registers(op.input)
    widths = [[(chunk.count, chunk.width) for _, chunk in layout.each()] for layout in (old, new)]
    if widths[0] != widths[1]:
        positions = iter(range(prod(new.shape)))
        picked = [[next(positions) for _ in range(chunk.count)] for _, chunk in new.each()]
        registers = _picked(e, registers, op.input.type, op.result.type, picked)
    e.define(op.result, registers)
    if isinstance(op.result.type, IndexType):
        e.define_index(op.result, e.scalar(op.result), e.range_of(op.input))


def slice(e: Emitter, op: ng.SliceOp) -> None:
    """ng.slice"""
    shape = shape_of(op.input.type)

    def place(coordinates: Sequence[int]) -> int:
        moved = [s + c * t for s, c, t in zip(op.starts, coordinates, op.steps, strict=True)]
        return position(moved, shape)

    picked = [
        [place((*row, chunk.offset + lane)) for lane in range(chunk.count)]
        for row, chunk in e.layout(op.result.type).each()
    ]
    e.define(op.result, _picked(e, e.registers(op.input), op.input.type, op.result.type, picked))


def concatenate(e: Emitter, op: ng.ConcatenateOp) -> None:
    """ng.concatenate"""
    axis, type = op.axis, op.result.type
    parts = [(shape_of(v.type), e.layout(v.type), e.registers(v)) for v in op.operands]
    ends = list(accumulate(shape[axis] for shape, *_ in parts))

    def place(coordinates: Sequence[int]) -> tuple[Value, int]:
        n = bisect_right(ends, coordinates[axis])
        shape, layout, registers = parts[n]
        moved = [c - (ends[n] - shape[axis]) * (d == axis) for d, c in enumerate(coordinates)]
        register, lane = layout.locate(position(moved, shape))
        return registers[register], lane

    made: list[Value] = []
    for row, chunk in e.layout(type).each():
        found = [place((*row, chunk.offset + lane)) for lane in range(chunk.count)]
        made.append(assemble(e.b, storage(element_type(type)), found, chunk.width))
    e.define(op.result, made)


def _picked(
    e: Emitter, registers: Sequence[Value], old: Type, new: Type, picked: list[list[int]]
) -> list[Value]:
    """The registers of a `new` tile, built from elements of an `old` one at the given positions."""
    kind, source = storage(element_type(new)), e.layout(old)
    result: list[Value] = []
    for (_, chunk), positions in zip(e.layout(new).each(), picked, strict=True):
        places = [source.locate(p) for p in positions]
        lanes = [e.lane_before(registers[r], lane) for r, lane in places]
        result.append(assemble(e.b, kind, lanes, chunk.width))
    return result


def position(coordinates: Sequence[int], shape: Sequence[int]) -> int:
    """The row-major position of an element."""
    at = 0
    for c, size in zip(coordinates, shape, strict=True):
        at = at * size + c
    return at


# Transposition


def permuted_registers(
    e: Emitter, registers: Sequence[Value], shape: tuple[int, ...], order: Sequence[int]
) -> list[Value]:
    """The registers of a tile whose dimension i is dimension order[i] of the given one."""
    if registers and element_of(registers[0].type) == llvm.i1:
        # Lanes of masks are moved one by one, those of bytes together.
        wide = [e.b.zext(x, llvm.with_element(x.type, llvm.i8)) for x in registers]
        return [e.b.icmp("ne", x, 0) for x in permuted_registers(e, wide, shape, order)]
    old, new = layout(shape, e.lanes), layout(tuple(shape[d] for d in order), e.lanes)
    if not registers:
        return []
    last = len(shape) - 1

    def source(row: Sequence[int], chunk: int) -> Value:
        return registers[position(row, old.outer) * len(old.chunks) + chunk]

    result: dict[tuple[tuple[int, ...], int], Value] = {}
    if order[-1] == last:
        for row in new.row_coordinates():
            place = [row[order.index(d)] for d in range(last)]
            for c in range(len(new.chunks)):
                result[row, c] = source(place, c)
    else:
        turned = order[-1]
        for row in old.row_coordinates():
            if row[turned]:
                continue  # handled once for all rows along the dimension that becomes the last
            for into, chunk in enumerate(new.chunks):
                for c, part in enumerate(old.chunks):
                    places = [
                        (*row[:turned], chunk.offset + i, *row[turned + 1 :]) for i in range(chunk.count)
                    ]
                    block = [source(place, c) for place in places]
                    for i, register in enumerate(_turned(e, block, part.count, chunk.width)):
                        whole = (*row, part.offset + i)
                        result[tuple(whole[d] for d in order[:-1]), into] = register
    return [result[row, c] for row in new.row_coordinates() for c in range(len(new.chunks))]


def _turned(e: Emitter, rows: list[Value], columns: int, width: int) -> list[Value]:
    """The first columns of some registers as registers of `width` lanes, one lane per row."""
    b, have = e.b, llvm.lanes_of(rows[0].type)
    element = element_of(rows[0].type)
    if min(have, width) == 1:
        return [assemble(b, element, [(row, c) for row in rows], width) for c in range(columns)]
    rows = [*rows, *[poison(rows[0].type)] * (width - len(rows))]
    if have >= width:
        # Column c is in block c / width of a register; the blocks of one register are `width` columns apart.
        turned = transpose_blocks(b, rows)
        places = [(turned[c % width], c // width * width) for c in range(columns)]
        return [assemble(b, element, [(r, at + i) for i in range(width)], width) for r, at in places]
    # Several rows in one register, such that the blocks transposed at once belong to consecutive rows.
    joined = [
        [(rows[at + g], lane) for at in range(0, width, have) for lane in range(have)] for g in range(have)
    ]
    return transpose_blocks(b, [assemble(b, element, lanes, width) for lanes in joined])[:columns]
