# SPDX-License-Identifier: Apache-2.0
"""Composite ops to primitive ones."""

from __future__ import annotations

from collections.abc import Sequence

from ...decl.target_text import load_target
from ...ir.core import Module, Op, Value
from ...ops.builder import Builder
from ...ops.decompositions import DECOMPOSITIONS, PRIMITIVE_ON_SOME
from ...rewrite.contracts import contract
from ...rewrite.sweep import sweep
from ...support.target import Target


@contract(needs=("named", "plain"), anchor="function")
def decompose(module: Module, target: Target) -> Module:
    """Replaces composite ops (softmax, mean, one_hot, random numbers ...) by the primitive ops that define them.

    Before:
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = ng.square %x : tensor<4xf32>
          return %0 : tensor<4xf32>
        }
    After:
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = ng.multiply %x, %x : tensor<4xf32>
          func.return %0 : tensor<4xf32>
        }
    """

    def expand(op: Op, builder: Builder) -> Sequence[Value] | None:
        made = DECOMPOSITIONS[op.name](builder, op, op.operands)
        return [made] if isinstance(made, Value) else made

    # A decomposition may use other composite ops. The nesting is finite, and each sweep expands one level.
    kept = {name for name in PRIMITIVE_ON_SOME if load_target(target.code).carries_out(name)}
    kinds = frozenset(DECOMPOSITIONS) - kept
    while True:
        smaller = sweep(module, expand, kinds)
        if smaller is module:
            return module
        module = smaller
