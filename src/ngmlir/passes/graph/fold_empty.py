# SPDX-License-Identifier: Apache-2.0
"""Folding of ops on empty tensors, which then need no kernel."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.attributes import Attribute
from ...ir.core import Module, Op, Value
from ...ir.types import TensorType, element_type, shape_of
from ...ops.builder import Builder
from ...ops.fields import get_enum, get_i64
from ...rewrite.contracts import contract
from ...rewrite.sweep import sweep
from ...support.target import Target
from ..analysis.reduction import Accumulation


@contract(needs=("named", "plain"), anchor="function")
def fold_empty(module: Module, target: Target) -> Module:
    """Replaces empty tensors, and reductions of them, by constants.

    Before:
        func.func @main(%x: tensor<0x4xf32>) -> tensor<4xf32> {
          %0 = ng.exp %x : tensor<0x4xf32>
          %1 = ng.sum %0 axes [0] : (tensor<0x4xf32>) -> tensor<4xf32>
          return %1 : tensor<4xf32>
        }
    After:
        func.func @main(%x: tensor<0x4xf32>) -> tensor<4xf32> {
          %0 = ng.constant dense<> : tensor<0x4xf32>
          %1 = ng.constant dense<0.0> : tensor<4xf32>
          func.return %1 : tensor<4xf32>
        }
    """
    return sweep(module, _fold)


def _empty(value: Value) -> bool:
    type = value.type
    return isinstance(type, TensorType) and type.static and type.size == 0


def _fold(op: Op, builder: Builder) -> Sequence[Value] | None:
    if len(op.results) != 1 or "pure" not in op.traits or op.name == "ng.constant":
        return None
    result = op.results[0]
    if _empty(result):
        return [builder.number(0, result.type)]
    if op.name == "ng.scatter" and _empty(op.operands[1]):
        return [op.operands[0]]
    if op.name.startswith("ng.segment_") and (
        _empty(op.operands[0]) or shape_of(op.operands[1].type) == (1,)
    ):
        return [builder.number(_of_nothing(op) if op.name == "ng.segment_reduce" else 0, result.type)]
    if not op.operands or not _empty(op.operands[0]):
        return None
    if "reduction" in op.traits:
        return [builder.number(_of_nothing(op), result.type)]
    if op.name == "ng.pad":
        return [builder.number(op.attributes.get("value", 0), result.type)]
    if op.name == "ng.dot":
        return [builder.number(0, result.type)]
    if op.name == "ng.concatenate" and any(not _empty(o) for o in op.operands):
        rest = [o for o in op.operands if not _empty(o)]
        axis = get_i64(op, "axis")
        return [builder.concatenate(rest, axis=axis) if len(rest) > 1 else rest[0]]
    return None


def _of_nothing(op: Op) -> Attribute | int:
    """The value of a reduction of no elements."""
    match get_enum(op, "combine") if op.name == "ng.segment_reduce" else op.name.removeprefix("ng."):
        case "sum" | "first" | "last":
            return 0  # though sums start from -0.0 elsewhere
        case "product":
            return 1
        case kind:
            return Accumulation(kind, element_type(op.results[0].type)).start
