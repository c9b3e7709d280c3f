# SPDX-License-Identifier: Apache-2.0
"""Where a node needs elements that only a run tells, the graph is cut in two: what does not wait for the node, and the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from onnx import GraphProto, NodeProto

from .survey import graphs_of


@dataclass(frozen=True)
class Cut:
    """Two parts of a graph, and the names that the second takes from the first and from the inputs."""

    head: list[NodeProto]
    tail: list[NodeProto]
    made: list[str]
    inputs: list[str]


def cut(graph: GraphProto, inputs: Sequence[str], at: int) -> Cut | None:
    """The parts before and after node number `at`; None where everything waits for it."""
    nodes = list(graph.node)
    waiting = set(nodes[at].output)
    head, tail = nodes[:at], [nodes[at]]
    for node in nodes[at + 1 :]:
        waits = not waiting.isdisjoint(used(node))
        (tail if waits else head).append(node)
        if waits:
            waiting.update(node.output)
    if not head:
        return None
    asked = {name for node in tail for name in used(node)} | {o.name for o in graph.output}
    made = dict.fromkeys(name for node in head for name in node.output if name in asked)
    return Cut(head, tail, list(made), [name for name in inputs if name in asked])


def used(node: NodeProto) -> Iterator[str]:
    """What a node reads, and what its graphs may read."""
    yield from node.input
    for graph in graphs_of(node):
        yield from (output.name for output in graph.output)
        for inner in graph.node:
            yield from used(inner)
