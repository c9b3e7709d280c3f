# SPDX-License-Identifier: Apache-2.0
"""Byte tables: elementwise functions from bytes to bytes are looked up in a table of their 256 results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ...ir.attributes import StringAttr
from ...ir.core import Block, Module, Op, Region, Value
from ...ir.elements import ElementsAttr
from ...ir.literals import item_bytes
from ...ir.nest import NEST
from ...ir.types import TensorType, Type, element_type, i8, shape_of, ui8, with_element
from ...ops import ng
from ...ops.builder import Builder
from ...ops.library import MATH_WORK, in_library
from ...ops.schedules import SCHEDULE
from ...ops.tile_rules import BYTE_TABLE
from ...rewrite.contracts import contract
from ...rewrite.sweep import sweep
from ...support.lengths import are_same, usual
from ...support.target import Target
from ..analysis.group import FREE, kind
from ..analysis.loop_nest import splat_number

#: How long lookups of a register of bytes take, in instructions on elements of one byte: in 16 rows of 16 bytes, and by an instruction
#: that looks up in 128 bytes. Measured on Zen 4, against `DequantizeLinear`, `Relu`, `QuantizeLinear` (41): with AVX2 23, with AVX-512 30.
_ROWS, _PERMUTES = 30, 6


@contract(needs=("plain", "fused"), gives="fused", anchor="function", only="cpu")
def byte_tables(module: Module, target: Target) -> Module:
    """Lets fusions that compute one array of 8 bits from another, element by element, look their results up in a table. Another fusion
    computes the table, by the same ops; `prepare` moves it. A fusion stays as it is if its ops take fewer instructions.

    So quantised activations become lookups: those that models hold as `DequantizeLinear`, functions of floats, and
    `QuantizeLinear`.

    Before:
        func.func @main(%x: tensor<4x256xui8>) -> tensor<4x256xui8> {
          %0 = ng.fusion map(%x) -> tensor<4x256xui8> {
            %1 = ng.cast %x : (tensor<4x256xui8>) -> tensor<4x256xf32>
            %2 = ng.sqrt %1 : tensor<4x256xf32>
            %3 = ng.sin %2 : tensor<4x256xf32>
            %4 = ng.cast %3 : (tensor<4x256xf32>) -> tensor<4x256xui8>
            ng.yield %4 : tensor<4x256xui8>
          }
          return %0 : tensor<4x256xui8>
        }
    After:
        func.func @main(%x: tensor<4x256xui8>) -> tensor<4x256xui8> {
          %0 = ng.fusion map() -> tensor<256xui8> {
            %2 = ng.iota {dimension = 0 : i64} : tensor<256xui8>
            %3 = ng.cast %2 : (tensor<256xui8>) -> tensor<256xf32>
            %4 = ng.sqrt %3 : tensor<256xf32>
            %5 = ng.sin %4 : tensor<256xf32>
            %6 = ng.cast %5 : (tensor<256xf32>) -> tensor<256xui8>
            ng.yield %6 : tensor<256xui8>
          }
          %1 = ng.fusion map(%table = %0, %at = %x) -> tensor<4x256xui8> {
            %2 = ng.gather %table[%at] axis 0 : (tensor<256xui8>, tensor<4x256xui8>) -> tensor<4x256xui8>
            ng.yield %2 : tensor<4x256xui8>
          }
          func.return %1 : tensor<4x256xui8>
        }
    """
    if not target.can("byte_lookups"):
        return module
    return sweep(
        module, lambda op, b: _looked_up(op, target, b), frozenset({"ng.fusion"}), frozenset({"ng.fusion"})
    )


def _looked_up(fusion: Op, target: Target, b: Builder) -> Sequence[Value] | None:
    if kind(fusion) != "map" or NEST in fusion.attributes or SCHEDULE in fusion.attributes:
        return None
    if len(fusion.operands) != 1 or len(fusion.results) != 1:
        return None
    (source,), (result,), *ops, _ = fusion.operands, fusion.results, *fusion.block.ops
    count = prod(usual(shape_of(source.type)))
    bytes_ = all(element_type(v.type) in (ui8, i8) for v in (source, result))
    if not bytes_ or count <= BYTE_TABLE or prod(usual(shape_of(result.type))) != count:
        return None
    if not all(map(_is_elementwise, ops)) or _work(ops) <= (
        _PERMUTES if target.can("byte_permutes") else _ROWS
    ):
        return None
    entries = TensorType((BYTE_TABLE,), element_type(result.type))
    table = _fusion((), (), entries, lambda inner, _: _of_each_byte(fusion.block, inner), b)

    def lookups(inner: Builder, block: Block) -> Value:
        entries, at = block.args
        if not are_same(shape_of(at.type), shape_of(result.type)):
            at = inner.reshape(at, type=with_element(result.type, element_type(at.type)))
        return inner.gather(entries, _bytes(at, ui8, inner), axis=0)

    return [_fusion((table, source), ("table", "at"), result.type, lookups, b)]


def _is_elementwise(op: Op) -> bool:
    """Whether each element of an op's result depends on those at its position, in row-major order."""
    if op.name == "ng.constant":
        literal = op.attributes["value"]
        return isinstance(literal, ElementsAttr) and literal.splat
    return op.name == "ng.reshape" or "elementwise" in op.traits


def _work(ops: Sequence[Op]) -> int:
    """Instructions for a register of bytes: wider elements take as many times more as they have bytes."""
    return sum(
        (MATH_WORK if in_library(op) else 1) * item_bytes(element_type(op.results[0].type))
        for op in ops
        if op.name not in FREE
    )


def _fusion(
    operands: Sequence[Value],
    names: Sequence[str],
    type: Type,
    body: Callable[[Builder, Block], Value],
    b: Builder,
) -> Value:
    """An elementwise fusion with the body that `body` builds."""
    block = Block([v.type for v in operands], names)
    inner = Builder(block, b.location)
    inner.end(ng.YieldOp, body(inner, block))
    made = ng.FusionOp(operands, [type], {"kind": StringAttr("map")}, [Region(block)], b.location)
    return b.add_op(made).result


def _of_each_byte(body: Block, b: Builder) -> Value:
    """The result of a body for each byte, in the order of the bytes without signs."""
    type = TensorType((BYTE_TABLE,), ui8)
    known = {body.args[0]: _bytes(b.iota(type=type, dimension=0), element_type(body.args[0].type), b)}
    *ops, end = body.ops
    for op in ops:
        (value,) = op.results
        own = TensorType((BYTE_TABLE,), element_type(value.type))
        if op.name == "ng.constant":
            known[value] = b.number(splat_number(op.attributes["value"]), own)
        elif op.name == "ng.reshape":
            known[value] = known[op.operands[0]]
        else:
            known[value] = b.add_op(op.rebuilt([known[v] for v in op.operands], types=[own])).result
    return known[end.operands[0]]


def _bytes(value: Value, element: Type, b: Builder) -> Value:
    """Bytes with or without signs."""
    return (
        value
        if element_type(value.type) is element
        else b.bitcast(value, type=with_element(value.type, element))
    )
