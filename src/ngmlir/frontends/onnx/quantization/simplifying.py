# SPDX-License-Identifier: Apache-2.0
"""What is computed before it is quantised: constants behind convolutions become part of their weights, and nodes that do
nothing go."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

import numpy as np
from onnx import NodeProto

from ..ports import Array
from .graph import Graph, attribute, copied, name_of


def simplified(graph: Graph, kept: Set[str]) -> int:
    """Folds nodes that scale and shift the channels of convolutions, and removes nodes that return their input; returns the number
    of folded nodes. Nodes that are `kept` are not changed."""
    _without_copies(graph, kept)
    count, gone = 0, set[int]()
    for i, node in enumerate(graph.nodes):
        if node.op_type != "Conv" or not graph.standard(i) or name_of(node) in kept:
            continue
        scaled = _Scaled.of(graph, i)
        while scaled is not None and (after := scaled.after(graph, kept)) is not None:
            last, scaled = after
            gone.add(last)
            count += 1
            scaled.replace(graph, i)
    if gone:
        graph.nodes = [node for i, node in enumerate(graph.nodes) if i not in gone]
        graph.connect()
    return count


@dataclass(frozen=True)
class _Scaled:
    """A convolution with constant weights, and what it gives."""

    filters: Array
    bias: Array
    output: str

    @staticmethod
    def of(graph: Graph, i: int) -> _Scaled | None:
        node = graph.nodes[i]
        filters = graph.weight(i, 1)
        if filters is None or filters.ndim < 3 or node.input[0] not in graph.varying:
            return None
        bias = np.zeros(len(filters), np.float32)
        if len(node.input) > 2 and node.input[2]:
            found = graph.weight(i, 2)
            if found is None or found.shape != bias.shape:
                return None
            bias = found
        return _Scaled(filters.astype(np.float64), bias.astype(np.float64), node.output[0])

    def after(self, graph: Graph, kept: Set[str]) -> tuple[int, _Scaled] | None:
        """The node behind it that scales and moves its channels by constants, and both as one."""
        i = graph.only_reader(self.output)
        if i is None or not graph.standard(i) or name_of(graph.nodes[i]) in kept:
            return None
        node = graph.nodes[i]
        terms = _norm(graph, i, self.output) if node.op_type == "BatchNormalization" else self.term(graph, i)
        if terms is None:
            return None
        factor, shift = terms
        filters = self.filters * factor.reshape([-1] + [1] * (self.filters.ndim - 1))
        bias = self.bias * factor + shift
        with np.errstate(over="ignore"):
            finite = (
                np.isfinite(filters.astype(np.float32)).all() and np.isfinite(bias.astype(np.float32)).all()
            )
        return (i, _Scaled(filters, bias, node.output[0])) if finite else None

    def term(self, graph: Graph, i: int) -> tuple[Array, Array] | None:
        """Factor and shift of each channel, of a Mul or an Add by a constant."""
        node = graph.nodes[i]
        if node.op_type not in ("Mul", "Add"):
            return None
        found = graph.weight(i, 1 - list(node.input).index(self.output))
        channels, rank = len(self.filters), self.filters.ndim
        if found is None or found.ndim > rank:
            return None
        shape = (*[1] * (rank - found.ndim), *found.shape)
        if shape not in ((1, channels, *[1] * (rank - 2)), (1,) * rank):
            return None
        each = np.broadcast_to(found.reshape(-1).astype(np.float64), (channels,))
        return (each, np.zeros(channels)) if node.op_type == "Mul" else (np.ones(channels), each)

    def replace(self, graph: Graph, i: int) -> None:
        """The node with these weights, which keeps its name."""
        node, label = graph.nodes[i], name_of(graph.nodes[i])
        held = [
            graph.hold(f"{label}_{name}", array.astype(np.float32))
            for name, array in (("weight", self.filters), ("bias", self.bias))
        ]
        graph.nodes[i] = copied(node, inputs=[node.input[0], *held], outputs=[self.output], name=label)


def _norm(graph: Graph, i: int, source: str) -> tuple[Array, Array] | None:
    """Factor and shift of each channel, of a batch normalization with known moments."""
    node = graph.nodes[i]
    plain = len([o for o in node.output if o]) == 1 and len(node.input) == 5 and node.input[0] == source
    if not plain or attribute(node, "training_mode", 0):
        return None
    terms = [graph.constant(name) for name in node.input[1:]]
    if any(t is None or t.dtype != np.float32 or not np.isfinite(t).all() for t in terms):
        return None
    scale, shift, mean, variance = (np.asarray(t, np.float64) for t in terms)
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + attribute(node, "epsilon", 1e-5))
    return factor, shift - mean * factor


def _without_copies(graph: Graph, kept: Set[str]) -> None:
    """Identity, and Dropout outside training, give their input again; a Sum of two is an Add."""
    same: dict[str, str] = {}
    made: list[NodeProto] = []
    for i, node in enumerate(graph.nodes):
        free = graph.standard(i) and name_of(node) not in kept
        if any(name in same for name in node.input):
            node = copied(node, inputs=[same.get(name, name) for name in node.input])
        if free and _is_copy(graph, i):
            same[node.output[0]] = node.input[0]
            continue
        if free and node.op_type == "Sum" and len(node.input) == 2:
            node = copied(node)
            node.op_type = "Add"
        made.append(node)
    graph.nodes = made
    graph.connect()


def _is_copy(graph: Graph, i: int) -> bool:
    """Whether a node returns its input, and the name of its output is not needed."""
    node = graph.nodes[i]
    outputs = [name for name in node.output if name]
    if node.op_type not in ("Identity", "Dropout") or node.input[0] not in graph.varying or len(outputs) != 1:
        return False
    training = node.input[2] if len(node.input) > 2 else ""
    known = graph.constant(training) if training else np.False_
    unneeded = not graph.is_output(outputs[0]) and outputs[0] not in graph.captured
    return bool(node.output[0]) and unneeded and known is not None and not np.asarray(known).any()
