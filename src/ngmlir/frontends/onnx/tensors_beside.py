# SPDX-License-Identifier: Apache-2.0
"""The tensors of a model in external files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx import ModelProto, NodeProto, TensorProto

from ...support.diagnostics import NgmlirError
from .survey import graphs_of
from .tensors import external_place


def beside_of(proto: ModelProto) -> list[tuple[str, int, int]] | None:
    """The parts of external files that hold a model's initializers; None where one is invalid, or where other tensors are in
    external files."""
    nodes = [*proto.graph.node, *(node for function in proto.functions for node in function.node)]
    if any(map(is_beside, (*tensors_in(nodes), *_sparse(proto)))):
        return None
    try:
        return [external_place(t) for t in proto.graph.initializer if is_beside(t)]
    except NgmlirError:
        return None


def is_beside(tensor: TensorProto) -> bool:
    """Whether the elements of a tensor are in an external file."""
    return tensor.data_location == TensorProto.EXTERNAL


def _sparse(proto: ModelProto) -> Iterator[TensorProto]:
    for sparse in proto.graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)


def tensors_in(nodes: Sequence[NodeProto]) -> Iterator[TensorProto]:
    """The tensors among the attributes of nodes and of the nodes of their graphs."""
    for node in nodes:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield from (sparse.values, sparse.indices)
        for graph in graphs_of(node):
            yield from graph.initializer
            yield from (each for s in graph.sparse_initializer for each in (s.values, s.indices))
            yield from tensors_in(list(graph.node))
