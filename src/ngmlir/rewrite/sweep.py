# SPDX-License-Identifier: Apache-2.0
"""One forward sweep over a module: what changes is rebuilt, what does not is shared.

A rule sees each op after its operands are already new, so one sweep reaches the fixpoint of local rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir.core import Block, Module, Op, Value
from ..ops.builder import Builder

#: Looks at an op whose operands are new; gives the values that replace its results, or None to keep it.
#: New ops are made with the builder and stand before the op.
RewriteRule = Callable[[Op, Builder], Sequence[Value] | None]


def sweep(module: Module, rule: RewriteRule, kinds: frozenset[str] | None = None) -> Module:
    """Applies `rule` to every op (with `kinds`: to ops of these names); the module itself if nothing changed."""
    return module.with_ops([sweep_op(op, rule, kinds) if op.regions else op for op in module.ops])


def sweep_op(op: Op, rule: RewriteRule, kinds: frozenset[str] | None = None) -> Op:
    """A function (or other isolated op) after a sweep over its regions; itself if nothing changed."""
    mapping: dict[Value, Value] = {}
    return op.with_blocks(lambda block: _block(block, mapping, rule, kinds))


def _block(
    block: Block, mapping: dict[Value, Value], rule: RewriteRule, kinds: frozenset[str] | None
) -> Block:
    """The block after the sweep; itself if nothing changed."""
    out = block.emptied()
    builder = Builder(out)
    add = out.ops.append
    changed = False
    for old in block.ops:
        op = old
        if mapping:
            operands = op.operands
            for value in operands:
                if value in mapping:
                    op = op.rebuilt([mapping.get(v, v) for v in operands])
                    break
        if op.regions:
            op = op.with_blocks(lambda inner: _block(inner, mapping, rule, kinds))
        if kinds is None or op.name in kinds:
            builder.location = op.location
            replaced = rule(op, builder)
            if replaced is not None:
                changed = True
                for a, b in zip(old.results, replaced, strict=True):
                    mapping[a] = b
                    if not b.name:
                        b.name = a.name
                continue
        if op is not old:
            changed = True
            for a, b in zip(old.results, op.results, strict=True):
                mapping[a] = b
        add(op)
    return out if changed else block
