# SPDX-License-Identifier: Apache-2.0
"""The graph of a model as quantization sees it: who makes and who reads each tensor, and which tensors are constant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from onnx import AttributeProto, NodeProto, helper

from ....support.diagnostics import UserError
from ....support.spelling import did_you_mean
from ..model import CompiledModel, Model
from ..order import outside
from ..ports import Array
from ..survey import called, domain_of, graphs_of, place_of

#: Operators that give other numbers at every call.
_RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
)
#: Operators of models that are quantised already.
_QUANTISED = frozenset(
    {
        "QuantizeLinear",
        "DequantizeLinear",
        "DynamicQuantizeLinear",
        "MatMulInteger",
        "ConvInteger",
        "MatMulNBits",
        "GatherBlockQuantized",
        "DynamicQuantizeMatMul",
        "MatMulIntegerToFloat",
        "DynamicQuantizeLSTM",
    }
)


class Graph:
    """The nodes of a model by number, in an order in which they can run."""

    def __init__(self, model: Model):
        self.model = model
        self.contents = model.contents
        proto = self.contents.proto
        self.nodes: list[NodeProto] = list(proto.graph.node)
        self.outputs = [o.name for o in proto.graph.output]
        #: Arrays that stand for initializers of these names, or are new.
        self.arrays: dict[str, Array] = {}
        self._known: dict[str, Array] = {}
        self._taken = {*self.contents.initializers, *self.model.input_names, *_names(self.nodes)}
        self.functions = self.contents.functions
        self.connect()
        self._refuse_quantised()

    def connect(self) -> None:
        """Finds makers and readers again, after nodes were changed."""
        self.makers = {name: i for i, node in enumerate(self.nodes) for name in node.output if name}
        self.readers: dict[str, list[int]] = {}
        #: What graphs of control flow read from around them.
        self.captured: set[str] = set()
        #: Tensors that depend on the inputs, or on chance.
        self.varying = set(self.model.input_names)
        for i, node in enumerate(self.nodes):
            read = outside(node) - {""}
            for name in read:
                self.readers.setdefault(name, []).append(i)
            self.captured |= read - set(node.input)
            if node.op_type in _RANDOM or not read.isdisjoint(self.varying):
                self.varying.update(node.output)

    def standard(self, i: int) -> bool:
        """Whether a node is of the standard's own operators."""
        node = self.nodes[i]
        domain = domain_of(node.domain)
        return not domain and (domain, node.op_type, node.overload) not in self.functions

    def called(self, i: int) -> str:
        """The name of a node: its own, or that of its first output."""
        return name_of(self.nodes[i])

    def is_output(self, name: str) -> bool:
        return name in self.outputs

    def only_reader(self, name: str) -> int | None:
        """The one node that reads a tensor, once and by itself; None where there are others, or the tensor is an output."""
        readers = self.readers.get(name, [])
        if len(readers) != 1 or self.is_output(name) or name in self.captured:
            return None
        return readers[0] if list(self.nodes[readers[0]].input).count(name) == 1 else None

    def constant(self, name: str) -> Array | None:
        """The elements of a tensor that depends on no input; None for others, and where it cannot be told."""
        if not name or name in self.varying:
            return None
        if name in self.arrays:
            return self.arrays[name]
        if name in self.contents.initializers:
            return self.contents.array(name)
        if name not in self._known and name in self.makers:
            wanted = self._needed(name)
            part = self.contents.part([self.nodes[i] for i in wanted], [], [name])
            self._known[name] = np.asarray(CompiledModel(part, "numpy")()[0])
        return self._known.get(name)

    def weight(self, i: int, at: int) -> Array | None:
        """A constant input of a node in f32; None where there is no such. UserError where it holds NaN or infinities."""
        node = self.nodes[i]
        found = self.constant(node.input[at]) if at < len(node.input) else None
        if found is None or found.dtype != np.float32 or not found.size:
            return None
        if not np.isfinite(found).all():
            raise UserError(
                f"{called(node)}: its weight '{node.input[at]}' holds NaN or infinities",
                place_of(node),
                hint=f"--keep {name_of(node)} leaves the node in f32",
            )
        return found

    def _needed(self, name: str) -> list[int]:
        """The nodes that a tensor is computed by."""
        found: set[int] = set()
        stack = [name]
        while stack:
            maker = self.makers.get(stack.pop())
            if maker is not None and maker not in found:
                found.add(maker)
                stack += outside(self.nodes[maker])
        return sorted(found)

    def fresh(self, name: str) -> str:
        """A name that no tensor and no node of the model has."""
        made, count = name, 1
        while made in self._taken:
            made, count = f"{name}_{count}", count + 1
        self._taken.add(made)
        return made

    def hold(self, name: str, array: Any) -> str:
        """A new initializer; its name."""
        made = self.fresh(name)
        self.arrays[made] = np.asarray(array)
        return made

    def named(self, patterns: Sequence[str]) -> set[str]:
        """The names of nodes that names or patterns (`layer1*`) name. UserError where one names none."""
        names = [self.called(i) for i in range(len(self.nodes))]
        found: set[str] = set()
        for pattern in patterns:
            chosen = {name for name in names if name == pattern or fnmatchcase(name, pattern)}
            if not chosen:
                near = did_you_mean(pattern, names, "names are those of nodes, or of their first outputs")
                raise UserError(f"no node is called '{pattern}'", hint=near)
            found |= chosen
        return found

    def inner_products(self) -> list[str]:
        """The nodes with weights in bodies of control flow and in functions of the model, which are not quantised."""
        kinds = {"MatMul", "Gemm", "Conv"}
        inside = [n for node in self.nodes for g in graphs_of(node) for n in _all(g.node)]
        inside += [n for f in self.functions.values() for n in _all(f.node)]
        return [name_of(node) for node in inside if node.op_type in kinds]

    def _refuse_quantised(self) -> None:
        for node in self.nodes:
            if node.op_type in _QUANTISED or node.op_type.startswith(("QLinear", "QGemm")):
                raise UserError(
                    f"{called(node)}: the model is quantised already",
                    place_of(node),
                    hint="quantize the model in f32 that it was made from",
                )


def _all(nodes: Iterable[NodeProto]) -> Iterable[NodeProto]:
    for node in nodes:
        yield node
        for graph in graphs_of(node):
            yield from _all(graph.node)


def _names(nodes: Iterable[NodeProto]) -> Iterable[str]:
    """All names of tensors and nodes, those in bodies too."""
    for node in _all(nodes):
        yield from (node.name, *node.input, *node.output)
        for graph in graphs_of(node):
            yield from (t.name for t in graph.initializer)
            yield from (i.name for i in graph.input)


def name_of(node: NodeProto) -> str:
    """The name of a node: its own, or that of its first output."""
    return node.name or (node.output[0] if node.output else "")


def attribute(node: NodeProto, name: str, default: Any) -> Any:
    """An attribute of a node, or its default."""
    found = next((a for a in node.attribute if a.name == name), None)
    return default if found is None else helper.get_attribute_value(found)


def copied(node: NodeProto, **changes: Any) -> NodeProto:
    """A node with other `inputs`, `outputs` or `name`, and attributes as `attributes` say (None: without)."""
    made = NodeProto()
    made.CopyFrom(node)
    for field in ("input", "output"):
        if (given := changes.get(f"{field}s")) is not None:
            del getattr(made, field)[:]
            getattr(made, field).extend(given)
    if "name" in changes:
        made.name = changes["name"]
    given_attributes: Mapping[str, Any] = changes.get("attributes", {})
    kept: list[AttributeProto] = [a for a in node.attribute if a.name not in given_attributes]
    if given_attributes:
        del made.attribute[:]
        made.attribute.extend(kept)
        made.attribute.extend(
            helper.make_attribute(name, value)
            for name, value in given_attributes.items()
            if value is not None
        )
    return made
