# SPDX-License-Identifier: Apache-2.0
"""The order of nodes: the standard wants each behind those that it reads of, and some tools do not keep to it."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

from ...support.diagnostics import UserError
from .survey import called, graphs_of


def in_order(proto: ModelProto) -> ModelProto | None:
    """The model with the nodes of each graph in an order in which they can run; None where they already are. UserError where
    there is none: where nodes wait for each other."""
    if not any(map(_misplaced, _bodies(proto))):
        return None
    made = ModelProto()
    made.CopyFrom(proto)
    # Inner graphs first: a node is moved as a copy of what it is then.
    for body in reversed(_bodies(made)):
        order = _misplaced(body)
        if order:
            nodes = [_copied(body.node[at]) for at in order]
            del body.node[:]
            body.node.extend(nodes)
    return made


def _copied(node: NodeProto) -> NodeProto:
    made = NodeProto()
    made.CopyFrom(node)
    return made


def _bodies(proto: ModelProto) -> list[GraphProto | FunctionProto]:
    """All graphs and functions, those around others before them."""
    found: list[GraphProto | FunctionProto] = [proto.graph, *proto.functions]
    for body in found:
        for node in body.node:
            found.extend(graphs_of(node))
    return found


def outside(node: NodeProto) -> set[str]:
    """What a node reads, and what its graphs read from around them."""
    found = set(node.input)
    for graph in graphs_of(node):
        read = {name for inner in graph.node for name in outside(inner)} | {o.name for o in graph.output}
        own = {name for inner in graph.node for name in inner.output}
        own |= {i.name for i in graph.input} | {t.name for t in graph.initializer}
        found |= read - own
    return found


def _misplaced(body: GraphProto | FunctionProto) -> list[int]:
    """An order for nodes of which one precedes another whose result it reads, which changes as little as possible; [] where none
    does."""
    makers: dict[str, int] = {}
    for at, node in enumerate(body.node):
        for name in filter(None, node.output):
            if name in makers:
                raise UserError(
                    f"{called(node)} makes '{name}', which {called(body.node[makers[name]])} has made"
                )
            makers[name] = at
    reads = [sorted({makers[name] for name in outside(node) if name in makers}) for node in body.node]
    if all(maker < at for at, found in enumerate(reads) for maker in found):
        return []
    return _sorted(body, reads)


def _sorted(body: GraphProto | FunctionProto, reads: Sequence[Sequence[int]]) -> list[int]:
    readers: list[list[int]] = [[] for _ in reads]
    for at, found in enumerate(reads):
        for maker in found:
            readers[maker].append(at)
    missing = [len(found) for found in reads]
    ready = [at for at, count in enumerate(missing) if not count]
    heapify(ready)
    order: list[int] = []
    while ready:
        at = heappop(ready)
        order.append(at)
        for reader in readers[at]:
            missing[reader] -= 1
            if not missing[reader]:
                heappush(ready, reader)
    if len(order) < len(reads):
        stuck = next(at for at, count in enumerate(missing) if count)
        raise UserError(f"{called(body.node[stuck])} waits for what is made of its own outputs")
    return order
