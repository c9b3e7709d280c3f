# SPDX-License-Identifier: Apache-2.0
"""Hoisting: loop-invariant code motion."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.core import Module, Op, Value
from ...ops.builder import Builder
from ...rewrite.contracts import contract
from ...rewrite.sweep import sweep_op
from ...support.target import Target
from .dead_code import without
from .invariants import LOOPS, Invariants


@contract(needs=("named", "plain", "kernels"), anchor="function")
def hoist(module: Module, target: Target) -> Module:
    """Moves loop-invariant ops out of scans and while loops.

    Ops that need no kernel (constants, iota, broadcasts, reshapes) stay, as do ops that are cheaper to compute again than their
    results are to read. After `to-kernels` whole kernels are moved, among them those that pack a weight for a product
    in the loop.

    Before:
        func.func @main(%h: tensor<2x3xf32>, %w: tensor<3x3xf32>, %xs: tensor<5x2x3xf32>) -> tensor<2x3xf32> {
          %0 = ng.scan iter(%1 = %h) over(%2: tensor<2x3xf32> = %xs) -> tensor<2x3xf32> {
            %3 = ng.tanh %w : tensor<3x3xf32>
            %4 = ng.dot %1, %3 contract [1] x [0] : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
            %5 = ng.add %4, %2 : tensor<2x3xf32>
            ng.yield %5 : tensor<2x3xf32>
          }
          return %0 : tensor<2x3xf32>
        }
    After:
        func.func @main(%h: tensor<2x3xf32>, %w: tensor<3x3xf32>, %xs: tensor<5x2x3xf32>) -> tensor<2x3xf32> {
          %0 = ng.tanh %w : tensor<3x3xf32>
          %1 = ng.scan iter(%2 = %h) over(%3: tensor<2x3xf32> = %xs) -> tensor<2x3xf32> {
            %4 = ng.dot %2, %0 contract [1] x [0] : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
            %5 = ng.add %4, %3 : tensor<2x3xf32>
            ng.yield %5 : tensor<2x3xf32>
          }
          func.return %1 : tensor<2x3xf32>
        }
    """
    return module.with_ops(
        [sweep_op(op, _lift, LOOPS) if op.name == "func.func" else op for op in module.ops]
    )


def _lift(loop: Op, b: Builder) -> Sequence[Value] | None:
    """Adds the invariant ops, then the loop without them. Inner loops were visited before, so their invariant ops are already
    in the body of this one."""
    gone: set[Op] = set()
    mapping: dict[Value, Value] = {}
    for region in loop.regions:
        invariants = Invariants(region.block.ops[:-1], region.block.args)
        leaving = [op for op in dict.fromkeys(invariants.values.values()) if invariants.worthwhile(op)]
        copies = invariants.copies(leaving, b)
        mapping.update((v, copies[v]) for op in leaving for v in op.results)
        gone.update(leaving)
    return b.add_op(without(loop, gone, mapping)).results if gone else None
