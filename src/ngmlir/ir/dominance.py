# SPDX-License-Identifier: Apache-2.0
"""Dominators of a region of several blocks."""

from __future__ import annotations

from .core import Block, Region


def reachable_dominators(region: Region) -> list[tuple[Block, Block | None]]:
    """(block, immediate dominator) with dominators first; blocks that nothing reaches come last, without one.

    The iterative algorithm of Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (2001).
    """
    entry = region.blocks[0]
    order = _reverse_postorder(entry)
    number = {block: i for i, block in enumerate(order)}
    before: dict[Block, list[Block]] = {block: [] for block in order}
    for block in order:
        for successor in _successors(block):
            before[successor].append(block)
    dominator: dict[Block, Block] = {entry: entry}
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            known = [b for b in before[block] if b in dominator]
            new = known[0]
            for other in known[1:]:
                new = _meet(new, other, dominator, number)
            if dominator.get(block) is not new:
                dominator[block], changed = new, True
    found: list[tuple[Block, Block | None]] = [(b, None if b is entry else dominator[b]) for b in order]
    return found + [(b, None) for b in region.blocks if b not in number]


def _successors(block: Block) -> tuple[Block, ...]:
    return block.ops[-1].successors if block.ops else ()


def _reverse_postorder(entry: Block) -> list[Block]:
    done: list[Block] = []
    seen = {entry}
    stack = [(entry, iter(_successors(entry)))]
    while stack:
        block, rest = stack[-1]
        step = next((b for b in rest if b not in seen), None)
        if step is None:
            done.append(block)
            stack.pop()
        else:
            seen.add(step)
            stack.append((step, iter(_successors(step))))
    return done[::-1]


def _meet(a: Block, b: Block, dominator: dict[Block, Block], number: dict[Block, int]) -> Block:
    while a is not b:
        while number[a] > number[b]:
            a = dominator[a]
        while number[b] > number[a]:
            b = dominator[b]
    return a
