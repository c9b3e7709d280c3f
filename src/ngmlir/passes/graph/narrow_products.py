# SPDX-License-Identifier: Apache-2.0
"""Narrow products: products of operands as they were before casts to a wider type."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.attributes import Attribute, FloatAttr, IntegerAttr, numeric_literal
from ...ir.core import Block, Module, Op, Value
from ...ir.types import Type, element_type, with_element
from ...ops.builder import Builder
from ...ops.ng_rules import has_all, multiplies
from ...rewrite.contracts import contract
from ...rewrite.sweep import sweep
from ...support.target import Target
from ..analysis.views import source


@contract(needs=("named", "plain"), anchor="function")
def narrow_products(module: Module, target: Target) -> Module:
    """Lets products read both sides as they were before casts to a wider type, also through pads, windows, transposes and other
    data movement after the cast. A product widens its elements itself, and matrix instructions multiply narrow ones. The casts
    must keep every value, and the result type must hold the products.

    Before:
        func.func @main(%x: tensor<4x6xbf16>, %w: tensor<8x5xbf16>) -> tensor<4x5xf32> {
          %0 = ng.cast %x : (tensor<4x6xbf16>) -> tensor<4x6xf32>
          %1 = ng.pad %0 low [0, 1] high [0, 1] : (tensor<4x6xf32>) -> tensor<4x8xf32>
          %2 = ng.cast %w : (tensor<8x5xbf16>) -> tensor<8x5xf32>
          %3 = ng.dot %1, %2 contract [1] x [0] : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
          return %3 : tensor<4x5xf32>
        }
    After:
        func.func @main(%x: tensor<4x6xbf16>, %w: tensor<8x5xbf16>) -> tensor<4x5xf32> {
          %0 = ng.cast %x : (tensor<4x6xbf16>) -> tensor<4x6xf32>
          %1 = ng.pad %0 low [0, 1] high [0, 1] : (tensor<4x6xf32>) -> tensor<4x8xf32>
          %2 = ng.cast %w : (tensor<8x5xbf16>) -> tensor<8x5xf32>
          %3 = ng.pad %x low [0, 1] high [0, 1] : (tensor<4x6xbf16>) -> tensor<4x8xbf16>
          %4 = ng.dot %3, %w contract [1] x [0] : (tensor<4x8xbf16>, tensor<8x5xbf16>) -> tensor<4x5xf32>
          func.return %4 : tensor<4x5xf32>
        }
    """
    return sweep(module, _Narrowing().rule, frozenset({"ng.dot"}))


class _Narrowing:
    def __init__(self) -> None:
        self.made: dict[tuple[Block, Value], Value] = {}

    def rule(self, op: Op, b: Builder) -> Sequence[Value] | None:
        sides = [_before(value) for value in op.operands]
        if None in sides:
            return None
        lhs, rhs = (side for side in sides if side is not None)
        if not multiplies(lhs, rhs, element_type(op.results[0].type)):
            return None
        return b.add_op(op.rebuilt([self.narrow(value, b) for value in op.operands])).results

    def narrow(self, value: Value, b: Builder) -> Value:
        """A widened value with its elements from before the cast."""
        op = value.owner
        assert isinstance(op, Op)
        if op.name == "ng.cast":
            return op.operands[0]
        key = (b.block, value)
        if key not in self.made:
            self.made[key] = self.placed(op, b)
        return self.made[key]

    def placed(self, op: Op, b: Builder) -> Value:
        """The result of an op that moves elements, on narrow ones."""
        element = _before(op.result)
        assert element is not None
        type, operands = with_element(op.result.type, element), [self.narrow(v, b) for v in op.operands]
        if op.name == "ng.reshape":
            seen = source(operands[0])
            return seen if seen.type is type else b.reshape(seen, type=type)
        attributes = op.attributes
        if (fill := attributes.get("value")) is not None:
            attributes = {**attributes, "value": _number(fill, element)}
        return b.add_op(op.rebuilt(operands, types=[type], attributes=attributes)).result


def _before(value: Value) -> Type | None:
    """The element type of a value before a cast that keeps every number; None where there is no such cast."""
    op, wide = value.owner, element_type(value.type)
    if not isinstance(op, Op):
        return None
    if op.name == "ng.cast":
        narrow = element_type(op.operands[0].type)
        return narrow if has_all(wide, narrow) else None
    if "moves" not in op.traits and op.name not in ("ng.pad", "ng.concatenate"):
        return None
    found = {_before(operand) for operand in op.operands}
    narrow = found.pop() if len(found) == 1 else None
    fill = op.attributes.get("value")
    if narrow is None or (fill is not None and _number(_number(fill, narrow), wide) is not fill):
        return None
    return narrow


def _number(literal: Attribute, element: Type) -> Attribute:
    """A number of one element type in another."""
    assert isinstance(literal, FloatAttr | IntegerAttr)
    return numeric_literal(literal.value, element)
