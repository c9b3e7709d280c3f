# SPDX-License-Identifier: Apache-2.0
"""Directed graphs: what can be reached from where, and an order in which everything comes after what it needs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Digraph(Generic[T]):
    """A directed graph: `Digraph(lambda op: op.all_deps)` is that of ops and what must run before them.

    Args:
        successors: for each node those that its edges lead to: a dictionary, or a function.
    """

    def __init__(self, successors: Mapping[T, Iterable[T]] | Callable[[T], Iterable[T]]):
        self.successors: Callable[[T], Iterable[T]] = (
            successors if callable(successors) else lambda node: successors.get(node, ())
        )

    def ordered(self, roots: Iterable[T]) -> list[T]:
        """All nodes that can be reached from the roots, and the roots, each after those that it leads to."""
        made: list[T] = []
        seen: set[T] = set()
        stack = [(root, False) for root in reversed([*roots])]
        while stack:
            node, done = stack.pop()
            if done:
                made.append(node)
            elif node not in seen:
                seen.add(node)
                stack.append((node, True))
                stack.extend((n, False) for n in reversed([*self.successors(node)]) if n not in seen)
        return made

    def can_reach(self, start: T, end: T) -> bool:
        """Whether edges lead from one node to another; each node reaches itself."""
        return end in {*self.ordered([start])}
