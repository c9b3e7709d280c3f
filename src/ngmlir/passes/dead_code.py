# SPDX-License-Identifier: Apache-2.0
"""Dead code elimination."""

from __future__ import annotations

from ..ir.core import Block, Module, Op, Region, Value
from ..support.target import Target


def dead_code(module: Module, target: Target) -> Module:
    """Removes pure ops whose results nobody uses, and kernels that nobody calls.

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
    ops = [_region_op(op, set())[0] if op.regions else op for op in module.ops]
    called = {inner.attributes["callee"].name for op in ops for inner in op.walk() if "callee" in inner.attributes}  # type: ignore[attr-defined]
    has_calls = any(op.name == "func.func" for op in ops)
    kept = [op for op in ops if op.name != "tile.kernel" or op.symbol in called or not has_calls]
    return module.with_ops(kept)


def _region_op(op: Op, live: set[Value]) -> tuple[Op, bool]:
    """The op with dead code in its regions removed; values it uses from outside are added to `live`."""
    regions, changed = [], False
    for region in op.regions:
        blocks = [_block(b, live) for b in region.blocks] if len(region.blocks) == 1 else list(region.blocks)
        if len(region.blocks) > 1:
            live.update(v for inner in op.walk() for v in inner.operands)
        if all(a is b for a, b in zip(blocks, region.blocks, strict=True)):
            regions.append(region)
        else:
            regions.append(Region(*blocks))
            changed = True
    if not changed:
        return op, False
    new = op.rebuilt(regions=regions)
    # Users of the results stand later and are already visited, so the new op takes the old results over.
    new.results = op.results
    return new, True


def _block(block: Block, live: set[Value]) -> Block:
    kept: list[Op] = []
    changed = False
    for op in reversed(block.ops):
        if not any(r in live for r in op.results) and _removable(op):
            changed = True
            continue
        if op.regions:
            op, different = _region_op(op, live)
            changed = changed or different
        live.update(op.operands)
        kept.append(op)
    if not changed:
        return block
    out = Block()
    out.args, out.label, out.ops = block.args, block.label, kept[::-1]
    return out


def _removable(op: Op) -> bool:
    traits = op.traits
    if "terminator" in traits or not op.results:
        return False
    return "pure" in traits or ("control" in traits or "isolated" in traits) and all(
        _removable(inner) or "terminator" in inner.traits for r in op.regions for b in r.blocks for inner in b.ops
    )
