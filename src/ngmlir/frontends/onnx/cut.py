# SPDX-License-Identifier: Apache-2.0
"""Where a node needs elements that only a run tells, the graph is cut: what does not wait for the node, the node, and the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from onnx import GraphProto, NodeProto

from ...ir.core import Module
from ...ir.types import shape_of
from ...ops.fields import get_i64s
from .survey import graphs_of


@dataclass(frozen=True)
class Cut:
    """The nodes before one that needs elements, that node, and the nodes after it; and the names of what the first and the
    second part give to those behind them."""

    head: list[NodeProto]
    node: NodeProto
    rest: list[NodeProto]
    made: list[str]
    chosen: list[str]
    #: Whether the node is a Loop that is run some iterations at a time.
    rounds: bool = False

    def read(self, inputs: Sequence[str], outputs: Sequence[str]) -> tuple[list[str], list[str]]:
        """What the node, and what the rest and the outputs take of all that there is before them."""
        there = [*inputs, *self.made]
        mine = set(used(self.node))
        last = {name for node in self.rest for name in used(node)} | {*outputs}
        chosen = {*self.chosen}
        return [n for n in there if n in mine], [
            *(n for n in there if n in last and n not in chosen),
            *(n for n in self.chosen if n in last),
        ]


def cut(graph: GraphProto, at: int, rounds: bool = False) -> Cut | None:
    """The parts around node number `at`; None where there is only this node."""
    nodes = list(graph.node)
    waiting = set(nodes[at].output)
    head, rest = nodes[:at], list[NodeProto]()
    for node in nodes[at + 1 :]:
        waits = not waiting.isdisjoint(used(node))
        (rest if waits else head).append(node)
        if waits:
            waiting.update(node.output)
    if len(nodes) == 1 and not rounds:
        return None
    outputs = {o.name for o in graph.output}
    after = {name for node in rest for name in used(node)} | outputs
    asked = after | set(used(nodes[at]))
    made = dict.fromkeys(name for node in head for name in node.output if name in asked)
    chosen = [name for name in nodes[at].output if name and name in after]
    return Cut(head, nodes[at], rest, list(made), chosen, rounds)


def used(node: NodeProto) -> Iterator[str]:
    """What a node reads, and what its graphs may read."""
    yield from node.input
    for graph in graphs_of(node):
        yield from (output.name for output in graph.output)
        for inner in graph.node:
            yield from used(inner)


def products(module: Module) -> int:
    """Operations in products of a program, which are most of those that take long."""
    total = 0
    for op in module.walk():
        if op.name == "ng.dot":
            lhs, contracted = shape_of(op.operands[0].type), get_i64s(op, "lhs_contract")
            total += 2 * prod(shape_of(op.result.type)) * prod(lhs[d] for d in contracted)
    return total
