# SPDX-License-Identifier: Apache-2.0
"""Short floats: marks products whose operands are exact in tf32."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir.attributes import UnitAttr
from ...ir.core import Module, Op, Value
from ...ir.elements import ElementsAttr
from ...ir.types import element_type, f32
from ...ops.builder import Builder
from ...rewrite.contracts import contract
from ...rewrite.sweep import sweep
from ...support.target import Target
from ..analysis.product import TF32
from ..analysis.views import moved_from

#: The bits of an f32 that tf32 lacks.
_BELOW = (1 << 13) - 1


@contract(needs=("named", "plain"), anchor="function")
def short_floats(module: Module, target: Target) -> Module:
    """Marks products of f32 with `ng.tf32` if both operands were rounded to tf32, so that matrix instructions
    multiply them exactly. The pass recognizes the rounding by the bit operations that clear the low bits. The mark
    is a promise: an operand with more bits loses them.

    Before:
        func.func @main(%x: tensor<16x16xi32>) -> tensor<16x16xf32> {
          %0 = ng.constant dense<-8192> : tensor<16x16xi32>
          %1 = ng.bitwise_and %x, %0 : tensor<16x16xi32>
          %2 = ng.bitcast %1 : (tensor<16x16xi32>) -> tensor<16x16xf32>
          %3 = ng.dot %2, %2 contract [1] x [0] : tensor<16x16xf32>
          return %3 : tensor<16x16xf32>
        }
    After:
        func.func @main(%x: tensor<16x16xi32>) -> tensor<16x16xf32> {
          %0 = ng.constant dense<-8192> : tensor<16x16xi32>
          %1 = ng.bitwise_and %x, %0 : tensor<16x16xi32>
          %2 = ng.bitcast %1 : (tensor<16x16xi32>) -> tensor<16x16xf32>
          %3 = ng.dot %2, %2 contract [1] x [0] {ng.tf32} : tensor<16x16xf32>
          func.return %3 : tensor<16x16xf32>
        }
    """
    if all(atom.lhs != "tf32" for atom in target.matrix):
        return module
    return sweep(module, _mark, frozenset({"ng.dot"}))


def _mark(op: Op, builder: Builder) -> Sequence[Value] | None:
    if TF32 in op.attributes or not all(map(_is_short, op.operands)):
        return None
    return builder.add_op(op.rebuilt(attributes={**op.attributes, TF32: UnitAttr()})).results


def _is_short(value: Value) -> bool:
    """Whether all elements are known to be exact in tf32."""
    owner = moved_from(value).owner
    if not isinstance(owner, Op) or element_type(owner.results[0].type) is not f32:
        return False
    match owner.name:
        case "ng.select":
            return all(map(_is_short, owner.operands[1:]))
        case "ng.constant":
            return _any(owner) & _BELOW == 0
        case "ng.bitcast":
            bits = owner.operands[0].owner
            return (
                isinstance(bits, Op)
                and bits.name == "ng.bitwise_and"
                and any(_any(operand.owner) & _BELOW == 0 for operand in bits.operands)
            )
        case _:
            return False


def _any(owner: object) -> int:
    """The bits that are set in some element of a constant; all bits for other ops and opaque constants."""
    literal = owner.attributes["value"] if isinstance(owner, Op) and owner.name == "ng.constant" else None
    if not isinstance(literal, ElementsAttr) or literal.opaque:
        return -1
    return int(np.bitwise_or.reduce(np.frombuffer(literal.data, np.uint32)))
