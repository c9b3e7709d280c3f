# SPDX-License-Identifier: Apache-2.0
"""Constants, iotas, broadcasts, transposes, reshapes and slices."""

from __future__ import annotations

from math import prod

from ...ir.attributes import Attribute, FloatAttr, IntegerAttr
from ...ir.elements import ElementsAttr
from ...ir.literals import bytes_of
from ...ir.types import MemRefType, element_type, shape_of
from ...ir.types import i32 as i32_type
from ...llvm.types import Type as LlvmType
from ...llvm.types import Value, constant, from_bits, i32, i64
from ...ops import ng
from ...ops.layouts import padded
from .. import elementwise
from .access import is_tile, rows
from .block import Tile
from .memory import Buffer, Memory
from .values import Values


def make_constant(values: Values, memory: Memory, op: ng.ConstantOp) -> None:
    literal, kind = op.attributes["value"], elementwise.llvm_element(element_type(op.result.type))
    if not isinstance(literal, ElementsAttr):
        values[op.result] = number(kind, literal)
    elif literal.splat:
        values[op.result] = from_bits(kind, literal.bits)
    else:
        _make_table(values, memory, op, literal)


def _make_table(values: Values, memory: Memory, op: ng.ConstantOp, literal: ElementsAttr) -> None:
    """A constant whose elements differ: loaded from memory like any tile."""
    b = memory.b
    name = f"{b.name}.constant{len(values)}"
    data = "".join(f"\\{byte:02X}" for byte in literal.data)
    kind = f"[{len(literal.data)} x i8]"
    place = b.module.variable(name, kind, f'c"{data}"', align=16, constant=True, space=1)
    element = literal.type.element
    type = MemRefType(literal.type.shape, element)
    access = rows(type.shape, element)
    layout, pad = values.layout(op.result), constant(elementwise.llvm_element(element), 0)
    origin = [constant(i64, 0)] * type.rank
    loaded = memory.load(access, Buffer(place, type, True), origin, layout, pad)
    values[op.result] = Tile(layout, type.shape, element, loaded)


def make_iota(values: Values, op: ng.IotaOp) -> None:
    b, element, layout = values.block.b, element_type(op.result.type), values.layout(op.result)
    kind = elementwise.llvm_element(element)
    shape = shape_of(op.result.type)
    if not shape:
        values[op.result] = constant(kind, 0)
        return
    counted: list[Value] = []
    for register in range(layout.registers):
        at = values.block.coordinates(layout, register)[op.dimension]
        position = constant(i32, at.constant)
        if at.thread is not None:
            position = b.add(at.thread, at.constant) if at.constant else at.thread
        counted.append(elementwise.cast(b, position, i32_type, element))
    values[op.result] = Tile(layout, shape, element, tuple(counted))


def broadcast(values: Values, op: ng.BroadcastOp) -> None:
    found = values[op.operands[0]]
    if isinstance(found, Value):
        values[op.result] = found
        return
    layout, shape = values.layout(op.result), shape_of(op.result.type)
    kept = op.dimensions
    narrow = layout.drop(d for d in range(len(shape)) if d not in kept)
    source = values.tile(op.operands[0], narrow)
    where = {at: value for at, value in zip(narrow.held, source.values, strict=True)}
    spread = tuple(where[tuple(at[d] for d in kept)] for at in layout.held)
    values[op.result] = Tile(layout, shape, source.element, spread)


def transpose(values: Values, op: ng.TransposeOp) -> None:
    found = values[op.operands[0]]
    if isinstance(found, Tile):
        moved = found.layout.transpose(op.permutation)
        values.enter(op.result, Tile(moved, shape_of(op.result.type), found.element, found.values))
    else:
        values[op.result] = found


def rearrange(values: Values, memory: Memory, op: ng.ReshapeOp | ng.SliceOp) -> None:
    """Reshapes and slices: within threads if it is a reshape of sizes that are powers of two, else through shared
    memory."""
    block, found = values.block, values[op.operands[0]]
    if not isinstance(found, Tile) or not is_tile(op.result):
        found = values.tile(op.operands[0])
        values[op.result] = found.values[0]
        return
    shape = shape_of(op.result.type)
    if isinstance(op, ng.ReshapeOp) and padded(found.shape) == found.shape and padded(shape) == shape:
        values.enter(op.result, Tile(found.layout.reshape(shape), shape, found.element, found.values))
        return
    source, start = rows(found.shape, found.element), 0
    result = rows(shape, found.element)
    if isinstance(op, ng.SliceOp):
        start = sum(s * at for s, at in zip(source.strides, op.starts, strict=True))
        result = result.with_strides(s * step for s, step in zip(source.strides, op.steps, strict=True))
    flat = MemRefType((prod(found.shape),), found.element, None, 0, 3)
    scratch = Buffer(block.scratch(bytes_of(flat)), flat, False)
    memory.store(source, scratch, [constant(i64, 0)], found)
    block.barrier()
    layout, pad = values.layout(op.result), constant(elementwise.llvm_element(flat.element), 0)
    loaded = memory.load(result, scratch, [constant(i64, start)], layout, pad)
    block.scratch_done()
    values[op.result] = Tile(layout, shape, found.element, loaded)


def number(kind: LlvmType, literal: Attribute) -> Value:
    if isinstance(literal, FloatAttr):
        return from_bits(kind, literal.bits)
    assert isinstance(literal, IntegerAttr)
    return constant(kind, literal.value)
