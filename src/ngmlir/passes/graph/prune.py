# SPDX-License-Identifier: Apache-2.0
"""Algebraic simplification by the rules of lowering/prune.rules."""

from __future__ import annotations

from ...decl.rule_text import Assumption
from ...ir.core import Module
from ...rewrite.contracts import contract
from ...rewrite.rules import apply_rules, load_rules
from ...support.target import Target


@contract(needs=("named", "plain"), anchor="function")
def prune(module: Module, target: Target, *, assume: frozenset[Assumption] = frozenset()) -> Module:
    """Applies the rules of lowering/prune.rules until none matches; without `assume` only those that keep every
    bit.

    `assume` lists what the rules may assume, joined by `+`: `nsz` (the sign of zero does not
    matter), `nnan` (no NaN), `ninf` (no infinity), `reassoc`, `approx`.

    Before:
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = ng.negative %x : tensor<4xf32>
          %1 = ng.negative %0 : tensor<4xf32>
          return %1 : tensor<4xf32>
        }
    After:
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = ng.negative %x : tensor<4xf32>
          func.return %x : tensor<4xf32>
        }
    """
    return apply_rules(module, load_rules("prune"), assume)
