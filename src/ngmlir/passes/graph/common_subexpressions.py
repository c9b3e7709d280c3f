# SPDX-License-Identifier: Apache-2.0
"""Common subexpression elimination."""

from __future__ import annotations

from ...ir.core import Block, Kind, Module, Op, Value
from ...rewrite.contracts import contract
from ...support.target import Target


@contract(anchor="function")
def common_subexpressions(module: Module, target: Target) -> Module:
    """Computes equal pure ops once; the operands of a commutative op may be in either order.

    An op in a region may reuse a value that an enclosing block computes before the region.

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
    return module.with_ops([_with_regions(op, {}, {}) if op.regions else op for op in module.ops])


#: What an op computes.
Key = tuple[Kind, tuple[Value, ...]]


def _with_regions(op: Op, known: dict[Key, Op], mapping: dict[Value, Value]) -> Op:
    """The op with repeated ops removed from its regions; isolated regions reuse nothing from outside."""
    if "isolated" in op.traits:
        known = {}
    return op.with_blocks(lambda block: _block(block, known, mapping))


def _block(block: Block, known: dict[Key, Op], mapping: dict[Value, Value]) -> Block:
    """The block without repeated ops; its own ops are removed from `known` at its end."""
    out = block.emptied()
    mine: list[Key] = []
    changed = False
    for old in block.ops:
        op = old
        if mapping:
            for value in op.operands:
                if value in mapping:
                    op = op.rebuilt([mapping.get(v, v) for v in op.operands])
                    break
        if op.regions:
            op = _with_regions(op, known, mapping)
        elif len(op.results) == 1 and "pure" in op.traits:
            key = _key(op)
            first = known.get(key)
            if first is not None:
                mapping[old.results[0]] = first.results[0]
                changed = True
                continue
            known[key] = op
            mine.append(key)
        if op is not old:
            changed = True
            mapping.update(zip(old.results, op.results, strict=True))
        out.ops.append(op)
    for key in mine:
        del known[key]
    return out if changed else block


def _key(op: Op) -> Key:
    operands = op.operands
    if len(operands) == 2 and "commutative" in op.traits and id(operands[0]) > id(operands[1]):
        operands = operands[::-1]
    return op.kind, operands
