# SPDX-License-Identifier: Apache-2.0
"""Narrow weights: products decode constant weights by themselves."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.core import Module, Op, Value
from ..ir.types import TensorType, element_type, f32, shape_of
from ..ops.builder import Builder
from ..ops.fields import get_i64s
from ..ops.schedules import SCHEDULE
from ..rewrite.contracts import contract
from ..rewrite.sweep import sweep_op
from ..support.lengths import is_open
from ..support.target import Target
from .dead_code import without_dead
from .decoding.chains import chain_of
from .decoding.fusions import decoded_product
from .invariants import Invariants


@contract(needs=("plain",), anchor="function")
def narrow_weights(module: Module, target: Target) -> Module:
    """Products whose one side is decoded from constants of fewer bits read these codes, and decode them by themselves: the
    weight is in memory once, and narrow. What is multiplied is the same, bit by bit.

    A weight is decoded by elementwise ops, of which each takes one operand that has a number for each code, and others that
    are the same for a row, or for a block of neighbours that are multiplied by neighbours of the other side: scales, zero points,
    minima. Blocks must be whole registers. Codes that are known to be below 16 are packed in 4 bits; others are bytes, or
    floats of 16 bits. Codes and parameters are put into the order of the rows of the weight, which `prepare` does once.

    Before:
        func.func @main(%x: tensor<1x3xf32>) -> tensor<1x2xf32> {
          %0 = ng.constant dense<[[1, -2, 3], [4, 5, -6]]> : tensor<2x3xi8>
          %1 = ng.cast %0 : (tensor<2x3xi8>) -> tensor<2x3xf32>
          %2 = ng.constant dense<[0.5, 0.25]> : tensor<2xf32>
          %3 = ng.broadcast %2 dims [0] : (tensor<2xf32>) -> tensor<2x3xf32>
          %4 = ng.multiply %1, %3 : tensor<2x3xf32>
          %5 = ng.dot %x, %4 contract [1] x [1] : (tensor<1x3xf32>, tensor<2x3xf32>) -> tensor<1x2xf32>
          return %5 : tensor<1x2xf32>
        }
    After:
        func.func @main(%x: tensor<1x3xf32>) -> tensor<1x2xf32> {
          %0 = ng.constant dense<[[1, -2, 3], [4, 5, -6]]> : tensor<2x3xi8>
          %1 = ng.constant dense<[0.5, 0.25]> : tensor<2xf32>
          %2 = ng.reshape %1 : (tensor<2xf32>) -> tensor<2x1xf32>
          %3 = ng.reshape %2 : (tensor<2x1xf32>) -> tensor<2xf32>
          %4 = ng.fusion decoded(%left = %x, %codes = %0, %parameter0 = %3) -> tensor<1x2xf32> {
            %0 = ng.cast %codes : (tensor<2x3xi8>) -> tensor<2x3xf32>
            %1 = ng.broadcast %parameter0 dims [0] : (tensor<2xf32>) -> tensor<2x3xf32>
            %2 = ng.multiply %0, %1 : tensor<2x3xf32>
            %3 = ng.dot %left, %2 contract [1] x [1] : (tensor<1x3xf32>, tensor<2x3xf32>) -> tensor<1x2xf32>
            ng.yield %3 : tensor<1x2xf32>
          }
          func.return %4 : tensor<1x2xf32>
        }
    """

    def rewritten(function: Op) -> Op:
        if not function.regions or not function.regions[0].blocks or target.shares_tiles:
            return function
        ops = function.block.ops
        invariants = Invariants(ops, function.block.args)
        rule = _Rule(target, invariants)
        made = sweep_op(function, rule.product, frozenset({"ng.dot"}), frozenset({"ng.fusion"}))
        return function if made is function else without_dead(made)

    return module.with_ops([rewritten(op) if op.name == "func.func" else op for op in module.ops])


class _Rule:
    def __init__(self, target: Target, invariants: Invariants):
        self.lanes = target.lanes(4)
        self.invariants = invariants

    def constant(self, value: Value) -> bool:
        return value in self.invariants.values

    def product(self, op: Op, b: Builder) -> Sequence[Value] | None:
        if SCHEDULE in op.attributes or get_i64s(op, "lhs_batch") or not self.suits(op):
            return None
        contracts = get_i64s(op, "lhs_contract"), get_i64s(op, "rhs_contract")
        for side in (1, 0):
            weight, other = op.operands[side], op.operands[1 - side]
            if not self.constant(weight) or self.constant(other):
                continue
            chain = chain_of(weight, contracts[side][0], self.constant)
            if chain is None or chain.block % self.lanes:
                continue
            if contracts[1 - side][0] == 0:
                other = b.transpose(other, permutation=[1, 0])
            (rows, _), (columns, _) = shape_of(other.type), chain.shape
            made = decoded_product(other, chain, TensorType((rows, columns), f32), self.lanes, b)
            return [made if side else b.transpose(made, permutation=[1, 0])]
        return None

    def suits(self, op: Op) -> bool:
        values = (*op.operands, op.result)
        return all(
            element_type(v.type) is f32
            and isinstance(v.type, TensorType)
            and len(shape_of(v.type)) == 2
            and not v.type.axes
            and not is_open(shape_of(v.type))
            and 0 not in shape_of(v.type)
            for v in values
        )
