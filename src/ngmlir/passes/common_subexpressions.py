# SPDX-License-Identifier: Apache-2.0
"""Common subexpression elimination."""

from __future__ import annotations

from typing import Any

from ..ir.core import Module, Op, Value
from ..ops.builder import Builder
from ..rewrite.sweep import sweep_op
from ..support.target import Target


def common_subexpressions(module: Module, target: Target) -> Module:
    """Computes equal pure ops once; operands of a commutative op may stand in either order.

    Before:
        func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
          %0 = ng.add %x, %y : tensor<4xf32>
          %1 = ng.add %y, %x : tensor<4xf32>
          %2 = ng.multiply %0, %1 : tensor<4xf32>
          return %2 : tensor<4xf32>
        }
    After:
        func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
          %0 = ng.add %x, %y : tensor<4xf32>
          %1 = ng.multiply %0, %0 : tensor<4xf32>
          func.return %1 : tensor<4xf32>
        }
    """
    return module.with_ops([_function(op) if op.regions else op for op in module.ops])


def _function(function: Op) -> Op:
    #: What was computed in the blocks that enclose the current op; a nested region sees a copy.
    return sweep_op(function, _Known(), None)


class _Known:
    def __init__(self) -> None:
        self.found: dict[tuple[Any, ...], tuple[Op, Builder]] = {}

    def __call__(self, op: Op, builder: Builder) -> list[Value] | None:
        traits = op.traits
        if "pure" not in traits or op.regions or not op.results:
            return None
        operands = op.operands
        if "commutative" in traits and len(operands) == 2 and id(operands[0]) > id(operands[1]):
            operands = operands[::-1]
        key = (op.name, operands, tuple(op.attributes.items()), op.results[0].type)
        known = self.found.get(key)
        # An equal op in a block that has ended (another region) is not visible here.
        if known is not None and known[1] is builder:
            return list(known[0].results)
        self.found[key] = (op, builder)
        return None
