# SPDX-License-Identifier: Apache-2.0
"""Replaces element types that no target computes with (small floats, 2- and 4-bit integers) by their encodings in bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...ir.attributes import Attribute, FloatAttr, IntegerAttr, TypeAttr, numeric_literal
from ...ir.core import Block, Module, Op, Region, Value
from ...ir.definition import is_narrow
from ...ir.elements import ElementsAttr
from ...ir.literals import float_bits, integer_bits
from ...ir.types import FloatType, FunctionType, ShapedType, Type, element_type, shape_of, ui8, with_element
from ...ops import narrow
from ...ops.builder import Builder
from ...ops.schedules import SCHEDULE
from ...rewrite.contracts import contract
from ...rewrite.sweep import hand_on
from ...support.diagnostics import Diagnostic, Limit
from ...support.target import Target


@contract(needs=("named", "plain"))
def emulate_narrow(module: Module, target: Target) -> Module:
    """Stores floats of 8 bits and fewer and integers of 2 and 4 bits as bytes that hold their encodings; casts
    become arithmetic.

    Ops that only move elements move the bytes. Arguments and results of functions become bytes too; callers of the program
    still see the original types.

    Before:
        func.func @main(%x: tensor<4xui4>) -> tensor<4xf32> {
          %0 = ng.cast %x : (tensor<4xui4>) -> tensor<4xf32>
          return %0 : tensor<4xf32>
        }
    After:
        func.func @main(%x: tensor<4xui8>) -> tensor<4xf32> {
          %0 = ng.cast %x : (tensor<4xui8>) -> tensor<4xi32>
          %1 = ng.constant dense<15> : tensor<4xi32>
          %2 = ng.bitwise_and %0, %1 : tensor<4xi32>
          %3 = ng.cast %2 : (tensor<4xi32>) -> tensor<4xf32>
          func.return %3 : tensor<4xf32>
        }
    """
    # Functions call each other, so either all of them change or none.
    if not any(_has_narrow(op) for op in module.walk()):
        return module
    return module.with_ops([_op(op, {}) if op.name == "func.func" else op for op in module.ops])


def _has_narrow(op: Op) -> bool:
    values = [*op.results, *(a for r in op.regions for b in r.blocks for a in b.args)]
    return any(is_narrow(element_type(v.type)) for v in values)


def _type(type: Type) -> Type:
    """The type with narrow elements replaced by ui8, also in function types; any other type unchanged."""
    if isinstance(type, FunctionType):
        return FunctionType(tuple(map(_type, type.inputs)), tuple(map(_type, type.results)))
    return with_element(type, ui8) if is_narrow(element_type(type)) else type


def _attribute(value: Attribute) -> Attribute:
    match value:
        case ElementsAttr() if is_narrow(value.type.element):
            held = _type(value.type)
            assert isinstance(held, ShapedType)
            return value.of_type(held)
        case FloatAttr() if is_narrow(value.type):
            return IntegerAttr(value.bits, ui8)
        case IntegerAttr() if is_narrow(value.type):
            return IntegerAttr(integer_bits(value.value, value.type), ui8)
        case TypeAttr():
            return TypeAttr(_type(value.type))
        case _:
            return value


def _op(op: Op, mapping: dict[Value, Value]) -> Op:
    """The op on encoded operands; adds its results to the mapping."""
    operands = [mapping.get(o, o) for o in op.operands]
    attributes = {name: _attribute(value) for name, value in op.attributes.items()}
    if op.name == "ng.pad":
        attributes |= _fill(op, attributes)
    regions = [Region(*[_block(b, mapping) for b in r.blocks]) for r in op.regions]
    types = [_type(r.type) for r in op.results]
    made = op.rebuilt(operands, regions, attributes=attributes, types=types)
    mapping.update(zip(op.results, made.results, strict=True))
    return made


def _fill(op: Op, attributes: Mapping[str, Attribute]) -> dict[str, Attribute]:
    """The fill value of a pad without one, if the encoding of 0.0 in its element type is not 0."""
    element = element_type(op.result.type)
    given = is_narrow(element) and isinstance(element, FloatType) and "value" not in attributes
    code = float_bits(0.0, element) if given else 0
    return {"value": numeric_literal(code, ui8)} if code else {}


def _block(block: Block, mapping: dict[Value, Value]) -> Block:
    made = Block([_type(a.type) for a in block.args], [a.name for a in block.args])
    made.label = block.label
    mapping.update(zip(block.args, made.args, strict=True))
    builder = Builder(made)
    for op in block.ops:
        if op.name in ("ng.cast", "ng.bitcast") and any(
            is_narrow(element_type(v.type)) for v in (*op.operands, *op.results)
        ):
            builder.location, before = op.location, len(made.ops)
            codes = _converted(builder, op, mapping[op.operands[0]])
            (mapping[op.result],) = hand_on(made, before, op, codes) if SCHEDULE in op.attributes else codes
        else:
            made.ops.append(_op(op, mapping))
    return made


def _converted(builder: Builder, op: Op, codes: Value) -> Sequence[Value]:
    source, result = op.operands[0].type, op.result.type
    if op.name == "ng.bitcast":
        held = _type(result)
        return [codes if codes.type is held else builder.bitcast(codes, type=held)]
    if any(d < 0 for d in shape_of(source)):
        message = f"a cast from {source} to {result}: the length must be known"
        raise Limit(Diagnostic(message, op.location))
    return [narrow.cast(builder, codes, source, result)]
