# SPDX-License-Identifier: Apache-2.0
"""Dominators of a region of several blocks."""

from __future__ import annotations

from .core import Block, Region


def reachable_dominators(region: Region) -> list[tuple[Block, Block | None]]:
    """Pairs (block, immediate dominator), dominators first; unreachable blocks come last, without one.

    The algorithm of Lengauer and Tarjan, "A Fast Algorithm for Finding Dominators in a Flowgraph" (1979), with path
    compression: the time is at most the number of edges times the logarithm of the number of blocks, for any graph.
    """
    order, parent = _preorder(region.blocks[0])
    number = {block: i for i, block in enumerate(order)}
    before: list[list[int]] = [[] for _ in order]
    for i, block in enumerate(order):
        for successor in _successors(block):
            before[number[successor]].append(i)
    forest = _Forest(len(order))
    semi = forest.semi
    dominator = [0] * len(order)
    bucket: list[list[int]] = [[] for _ in order]
    for w in range(len(order) - 1, 0, -1):
        semi[w] = min(semi[forest.least(v)] for v in before[w])
        bucket[semi[w]].append(w)
        forest.ancestor[w] = parent[w]
        for v in bucket[parent[w]]:
            least = forest.least(v)
            dominator[v] = least if semi[least] < semi[v] else parent[w]
        bucket[parent[w]] = []
    for w in range(1, len(order)):
        if dominator[w] != semi[w]:
            dominator[w] = dominator[dominator[w]]
    found: list[tuple[Block, Block | None]] = [
        (block, order[dominator[i]] if i else None) for i, block in enumerate(order)
    ]
    return found + [(b, None) for b in region.blocks if b not in number]


class _Forest:
    """The visited part of the depth-first tree, from the last block to the first."""

    def __init__(self, count: int):
        self.semi = list(range(count))
        self.ancestor = [-1] * count
        self.label = list(range(count))

    def least(self, v: int) -> int:
        """The block with the least semidominator on the path from `v` up to the root of its tree."""
        ancestor, label, semi = self.ancestor, self.label, self.semi
        if ancestor[v] < 0:
            return v
        way: list[int] = []
        at = v
        while ancestor[ancestor[at]] >= 0:
            way.append(at)
            at = ancestor[at]
        for at in reversed(way):
            above = ancestor[at]
            if semi[label[above]] < semi[label[at]]:
                label[at] = label[above]
            ancestor[at] = ancestor[above]
        return label[v]


def _successors(block: Block) -> tuple[Block, ...]:
    return block.ops[-1].successors if block.ops else ()


def _preorder(entry: Block) -> tuple[list[Block], list[int]]:
    """The reachable blocks in depth-first order, and the position of each one's parent in that tree."""
    order, parents = [entry], [0]
    seen = {entry}
    stack = [(0, iter(_successors(entry)))]
    while stack:
        at, rest = stack[-1]
        step = next((b for b in rest if b not in seen), None)
        if step is None:
            stack.pop()
            continue
        seen.add(step)
        stack.append((len(order), iter(_successors(step))))
        order.append(step)
        parents.append(at)
    return order, parents
