# SPDX-License-Identifier: Apache-2.0
"""One forward sweep over a module: changed ops are rebuilt, unchanged ones are shared.

A rule sees each op after its operands were replaced, so one sweep reaches the fixpoint of local rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from ..ir.core import Block, Module, Op, Value
from ..ops.builder import Builder
from ..ops.schedules import SCHEDULE
from ..ops.settings import to_attribute
from ..ops.stated_schedules import merged

#: Takes an op with replaced operands; returns the values that replace its results, or None to keep it.
#: New ops are added by the builder, before the op.
RewriteRule = Callable[[Op, Builder], Sequence[Value] | None]
#: Called with the results of an op that is rebuilt or replaced, and the values that replace them.
Follower = Callable[[Sequence[Value], Sequence[Value]], None]
M = TypeVar("M")


def sweep(
    module: Module,
    rule: RewriteRule,
    kinds: frozenset[str] | None = None,
    closed: frozenset[str] = frozenset(),
) -> Module:
    """Applies `rule` to every op (with `kinds`: to ops of these names), but not inside the regions of ops of the names `closed`.
    Returns the module itself if nothing changed."""
    return module.with_ops([sweep_op(op, rule, kinds, closed) if op.regions else op for op in module.ops])


def sweep_op(
    op: Op,
    rule: RewriteRule,
    kinds: frozenset[str] | None = None,
    closed: frozenset[str] = frozenset(),
    follow: Follower | None = None,
    mapping: dict[Value, Value] | None = None,
) -> Op:
    """A function (or other isolated op) after a sweep over its regions; the same op if nothing changed. `mapping` gets the values that
    replace others."""
    known = {} if mapping is None else mapping
    return op.with_blocks(lambda block: _block(block, known, rule, kinds, closed, follow))


def sweep_found(
    op: Op,
    found: Mapping[Op, M],
    rule: Callable[[Op, M, Builder], Sequence[Value] | None],
    mapping: dict[Value, Value] | None = None,
) -> Op:
    """The same for a rule that applies to the ops (without regions) that were `found` in the function, each with what was found."""
    kinds = frozenset(each.name for each in found)
    wanted = iter([found.get(each) for each in op.walk() if each.name in kinds])

    def apply(each: Op, b: Builder) -> Sequence[Value] | None:
        known = next(wanted)
        return None if known is None else rule(each, known, b)

    return sweep_op(op, apply, kinds, mapping=mapping)


def _block(
    block: Block,
    mapping: dict[Value, Value],
    rule: RewriteRule,
    kinds: frozenset[str] | None,
    closed: frozenset[str],
    follow: Follower | None,
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
        if op.regions and op.name not in closed:
            op = op.with_blocks(lambda inner: _block(inner, mapping, rule, kinds, closed, follow))
        if op is not old and follow is not None:
            follow(old.results, op.results)
        if kinds is None or op.name in kinds:
            builder.location = op.location
            before = len(out.ops)
            replaced = rule(op, builder)
            if replaced is not None:
                changed = True
                if SCHEDULE in op.attributes:
                    replaced = hand_on(out, before, op, replaced)
                for a, b in zip(old.results, replaced, strict=True):
                    mapping[a] = b
                    if not b.name:
                        b.name = a.name
                if follow is not None:
                    follow(op.results, replaced)
                continue
        if op is not old:
            changed = True
            for a, b in zip(old.results, op.results, strict=True):
                mapping[a] = b
        add(op)
    return out if changed else block


def hand_on(out: Block, start: int, op: Op, replaced: Sequence[Value]) -> Sequence[Value]:
    """Moves the schedule of a replaced op to one of the ops from `start` on: the last one of the same name, else the last one. It
    must not contradict a schedule of that op. Returns the values that replace the results of `op`."""
    made = out.ops[start:]
    heir = next((new for new in reversed(made) if new.name == op.name), made[-1] if made else None)
    if heir is None or heir.attributes.get(SCHEDULE) is op.attributes[SCHEDULE]:
        return replaced
    said = op.attributes[SCHEDULE]
    if SCHEDULE in heir.attributes:
        said = to_attribute(merged([heir, op], None))
    given = heir.rebuilt(attributes={**heir.attributes, SCHEDULE: said})
    mapping = dict(zip(heir.results, given.results, strict=True))
    at = out.ops.index(heir)
    out.ops[at] = given
    for later in range(at + 1, len(out.ops)):
        reader = out.ops[later]
        if any(v in mapping for v in reader.operands):
            new = reader.rebuilt([mapping.get(v, v) for v in reader.operands])
            mapping.update(zip(reader.results, new.results, strict=True))
            out.ops[later] = new
    return [mapping.get(v, v) for v in replaced]
