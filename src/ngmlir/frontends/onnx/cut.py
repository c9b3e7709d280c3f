# SPDX-License-Identifier: Apache-2.0
"""Where a node needs elements that only a run tells, the graph is cut: what does not wait for the node, the node, and the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod

from onnx import GraphProto, NodeProto

from ...ir.core import Module
from ...ir.types import shape_of
from ...ops.fields import get_i64s
from .survey import graphs_of

#: Of more elements that decide something the model is cut where they do.
_FEW = 64
#: Operators that move elements, or give few: run by themselves they take little.
LIGHT = frozenset(
    {
        *("Compress", "ConstantOfShape", "Expand", "NonMaxSuppression", "NonZero", "OneHot", "Pad", "Range"),
        *("Reshape", "Slice", "Split", "SplitToSequence", "Tile", "TopK", "Unique"),
    }
)


class How(Enum):
    """What runs the node at which a model is cut."""

    ALONE = "NumPy runs it by itself"
    LOOP = "it is a Loop, run some iterations at a time"
    REST = "it is among the nodes after it, which get what it needs as inputs"


@dataclass(frozen=True)
class Cut:
    """The nodes before one that needs elements, that node, and the nodes after it; and the names of what the first and the
    second part give to those behind them. Constants are in each part, but that of a Loop."""

    constants: list[NodeProto]
    head: list[NodeProto]
    node: NodeProto
    rest: list[NodeProto]
    made: list[str]
    chosen: list[str]
    how: How

    def read(self, inputs: Sequence[str], outputs: Sequence[str]) -> tuple[list[str], list[str]]:
        """What the node, and what the rest and the outputs take of all that there is before them."""
        there = [*inputs, *self.made]
        mine = set(used(self.node)) if self.how is not How.REST else set[str]()
        last = {name for node in self.rest for name in used(node)} | {*outputs}
        chosen = {*self.chosen}
        return [n for n in there if n in mine], [
            *(n for n in there if n in last and n not in chosen),
            *(n for n in self.chosen if n in last),
        ]


def cut(graph: GraphProto, at: int, how: How) -> Cut:
    """The parts around node number `at`."""
    nodes = list(graph.node)
    constants = [] if how is How.LOOP else [node for node in nodes if _is_constant(node)]
    waiting = set(nodes[at].output)
    head, rest = [*constants], [*constants, *[nodes[at]] * (how is How.REST)]
    for i, node in enumerate(nodes):
        waits = i > at and not waiting.isdisjoint(used(node))
        if i != at and (how is How.LOOP or not _is_constant(node)):
            (rest if waits else head).append(node)
        if waits:
            waiting.update(node.output)
    known = {name for node in constants for name in node.output}
    outputs = {o.name for o in graph.output}
    after = {name for node in rest for name in used(node)} | outputs
    asked = after | set(used(nodes[at]))
    made = dict.fromkeys(name for node in head for name in node.output if name in asked - known)
    chosen = [name for name in nodes[at].output if name and name in after and how is not How.REST]
    return Cut(constants, head, nodes[at], rest, list(made), chosen, how)


def cut_for(graph: GraphProto, at: int, leaf: int, changes: bool) -> Cut | None:
    """The parts around a node whose shapes the elements of an input decide: a leaf of so many elements, which may be others in
    each call. None where a program for these elements is better."""
    node = graph.node[at]
    light = node.op_type in LIGHT and not node.domain
    if leaf <= _FEW and not changes:
        return None
    if not light:
        found = cut(graph, at, How.REST)
        if not set(found.made).isdisjoint(used(node)):
            return found
    return cut(graph, at, How.ALONE) if light or leaf > _FEW else None


def _is_constant(node: NodeProto) -> bool:
    return node.op_type == "Constant" and not node.domain


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
