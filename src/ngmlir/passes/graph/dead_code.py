# SPDX-License-Identifier: Apache-2.0
"""Dead code elimination."""

from __future__ import annotations

from collections.abc import Collection

from ...ir.core import Block, Module, Op, Value, callee
from ...support.target import Target


def dead_code(module: Module, target: Target) -> Module:
    """Removes pure ops whose results are not used, and kernels that are not called.

    Before:
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = ng.exp %x : tensor<4xf32>
          %1 = ng.negative %x : tensor<4xf32>
          return %1 : tensor<4xf32>
        }
    After:
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %0 = ng.negative %x : tensor<4xf32>
          func.return %0 : tensor<4xf32>
        }
    """
    ops = [without_dead(op) for op in module.ops]
    called = {callee(inner) for op in ops for inner in op.walk()}
    has_calls = any(op.name == "func.func" for op in ops)
    kept = [op for op in ops if op.name != "tile.kernel" or op.symbol in called or not has_calls]
    return module.with_ops(kept)


def without_dead(op: Op, kinds: Collection[str] = ()) -> Op:
    """A function or kernel without its unused pure ops; with `kinds`, only unused ops of these names are removed."""
    dead: set[Op] = set()
    _find(op, set(), dead)
    return without(op, {each for each in dead if each.name in kinds} if kinds else dead, {})


def _find(op: Op, live: set[Value], dead: set[Op]) -> None:
    """Adds the dead ops in the regions of an op to `dead`, and the operands of all other ops to `live`."""
    for region in op.regions:
        if len(region.blocks) > 1:
            live.update(v for inner in op.walk() for v in inner.operands)
            continue
        for block in region.blocks:
            for inner in reversed(block.ops):
                if not any(r in live for r in inner.results) and removable(inner):
                    dead.add(inner)
                    continue
                _find(inner, live, dead)
                live.update(inner.operands)


def without(op: Op, dead: set[Op], mapping: dict[Value, Value]) -> Op:
    """The op without the dead ops in its regions; the same op if there are none and no operand is in `mapping`."""
    op = op.with_blocks(lambda block: _block(block, dead, mapping))
    if any(v in mapping for v in op.operands):
        return op.rebuilt([mapping.get(v, v) for v in op.operands])
    return op


def renamed(op: Op, mapping: dict[Value, Value]) -> Op:
    """The op with operands, also those read inside its regions, replaced; adds the results of ops in its regions to the mapping."""
    return without(op, set(), mapping)


def _block(block: Block, dead: set[Op], mapping: dict[Value, Value]) -> Block:
    out = block.emptied()
    for op in block.ops:
        if op in dead:
            continue
        new = without(op, dead, mapping) if op.regions or mapping else op
        if new is not op:
            mapping.update(zip(op.results, new.results, strict=True))
        out.ops.append(new)
    return block if out.ops == block.ops else out


def removable(op: Op) -> bool:
    traits = op.traits
    if "terminator" in traits or not op.results:
        return False
    if "pure" in traits:
        return True
    if not ("control" in traits or "isolated" in traits):
        return False
    inside = (inner for r in op.regions for b in r.blocks for inner in b.ops)
    return all(removable(inner) or "terminator" in inner.traits for inner in inside)
