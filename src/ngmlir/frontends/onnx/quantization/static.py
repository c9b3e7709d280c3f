# SPDX-License-Identifier: Apache-2.0
"""Which tensors of a model are held in 8 bits, and the nodes that this makes.

A product with a constant weight reads codes. So do the pools, sums and activations between such products, where what they give
is held in codes too; what moves elements is done on the codes. Attention scores, normalizations and softmax stay in f32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import NodeProto, helper

from .codes import activation_scale
from .graph import Graph, attribute, copied
from .layers import Layer, Layers, Product

#: Operators that put the elements of their first input elsewhere, or choose among them.
_MOVES = frozenset(
    {
        "MaxPool",
        "Reshape",
        "Transpose",
        "Flatten",
        "Squeeze",
        "Unsqueeze",
        "Slice",
        "Identity",
        "DepthToSpace",
        "SpaceToDepth",
    }
)
#: Operators that read codes where they give codes.
_BETWEEN = frozenset(
    "Add Sub Mul AveragePool GlobalAveragePool ReduceMean Concat Pad Resize Relu LeakyRelu PRelu Clip Sigmoid HardSigmoid "
    "HardSwish Tanh Elu".split()
)


@dataclass(frozen=True)
class Coded:
    """How a tensor comes to be in codes: quantised; `moved`, by its node, from the codes of that node's inputs; and whose range
    it has, where that is not its own."""

    moved: bool = False
    like: str = ""


class Plan:
    """The tensors that are held in codes, for some products."""

    def __init__(self, graph: Graph, products: Mapping[int, Product], kept: set[int]):
        self.graph, self.products, self.kept = graph, products, kept
        self.coded: dict[str, Coded] = {}
        #: Tensors whose f32 form is not read, so that a convolution that computes one is in integers throughout.
        self.whole: set[str] = set()
        for i, product in products.items():
            node = graph.nodes[i]
            self.need(node.input[product.other])
            if node.op_type == "Conv":
                self.given(node.output[0])
        self.join()

    def need(self, name: str) -> None:
        """Holds a tensor in codes, or what it is moved from."""
        chain: list[str] = []
        while name not in self.coded and (source := self.source(name)):
            chain.append(name)
            name = source
        self.coded.setdefault(name, Coded())
        for moved in chain:
            self.coded[moved] = Coded(True, name if not self.coded[name].like else self.coded[name].like)

    def source(self, name: str) -> str:
        """What a tensor is moved from by its node; '' where it is not."""
        i = self.graph.makers.get(name)
        if i is None or i in self.kept or not self.graph.standard(i):
            return ""
        node = self.graph.nodes[i]
        plain = node.op_type in _MOVES and len([o for o in node.output if o]) == 1
        return node.input[0] if plain and node.input[0] in self.graph.varying else ""

    def given(self, name: str) -> None:
        """Holds in codes what a convolution gives, behind its activation, unless it is an output."""
        graph, name = self.graph, self.activated(name)
        if not graph.is_output(name) and name not in graph.captured and graph.readers.get(name):
            if name not in self.coded:
                self.need(name)
            self.whole.add(name)

    def activated(self, name: str) -> str:
        """What a Relu or Clip makes of a tensor, if that alone reads it; else the tensor."""
        graph = self.graph
        reader = graph.only_reader(name)
        if reader is None or reader in self.kept or not graph.standard(reader):
            return name
        node = graph.nodes[reader]
        return node.output[0] if node.op_type in ("Relu", "Clip") and node.input[0] == name else name

    def join(self) -> None:
        """Concatenations whose parts have no other readers: the parts get the range of the whole, and codes are concatenated."""
        graph = self.graph
        for name in [n for n, how in self.coded.items() if not how.moved]:
            i = graph.makers.get(name)
            if i is None or graph.nodes[i].op_type != "Concat" or i in self.kept or not graph.standard(i):
                continue
            parts = list(graph.nodes[i].input)
            free = all(
                p in graph.varying
                and graph.only_reader(p) == i
                and not self.source(p)
                and not self.coded.get(p, Coded()).moved
                for p in parts
            )
            if (
                free
                and len(set(parts)) == len(parts)
                and not any(self.coded.get(p, Coded()).like for p in parts)
            ):
                like = self.coded[name].like or name
                self.coded[name] = Coded(True, self.coded[name].like)
                self.coded.update((p, Coded(False, like)) for p in parts)

    def root(self, name: str) -> str:
        """The tensor whose range the codes of a tensor have."""
        while self.coded[name].like:
            name = self.coded[name].like
        return name

    def roots(self) -> list[str]:
        """The tensors whose ranges have to be known."""
        return list(dict.fromkeys(self.root(name) for name in self.coded))

    def reads_codes(self, i: int, name: str) -> bool:
        """Whether a node reads the codes of a tensor, or numbers of these."""
        if name not in self.coded or name in self.graph.captured:
            return False
        product, node = self.products.get(i), self.graph.nodes[i]
        if product is not None:
            return node.input[product.other] == name
        outputs = [o for o in node.output if o in self.coded]
        if any(self.coded[o].moved for o in outputs) or name in self.whole:
            return True
        between = node.op_type in _BETWEEN and self.graph.standard(i) and i not in self.kept
        return between and (bool(outputs) or self.activated(node.output[0]) in self.coded)

    def in_f32(self, name: str) -> bool:
        """Whether anything reads the f32 form of a tensor."""
        readers = self.graph.readers.get(name, [])
        return self.graph.is_output(name) or not all(self.reads_codes(i, name) for i in readers)


class Rewriting:
    """The nodes of a planned model, once ranges are known."""

    def __init__(self, plan: Plan, layers: Layers, ranges: Mapping[str, tuple[float, float]]):
        self.plan, self.layers, self.graph = plan, layers, plan.graph
        self.scales = {name: activation_scale(*bounds) for name, bounds in ranges.items()}
        self.nodes: list[NodeProto] = []
        #: Nodes that make codes of tensors in f32, and numbers of these again.
        self.coding: list[NodeProto] = []
        self.codes: dict[str, str] = {}
        self.numbers: dict[str, str] = {}
        self._held: dict[str, tuple[str, str]] = {}

    def run(self) -> list[NodeProto]:
        graph, plan = self.graph, self.plan
        for name in graph.model.input_names:
            self.code([name])
        for i, node in enumerate(graph.nodes):
            product = plan.products.get(i)
            if product is not None:
                x = node.input[product.other]
                scale, _ = self.scales[plan.root(x)]
                layer = self.layers.static(product, self.numbers[x], scale)
                self.nodes += layer.nodes
            elif i not in self.layers.joined:
                layer = self.table(i)
                self.nodes += [self.plain(i, node)] if layer is None else layer.nodes
            self.code(node.output, i)
        return self.nodes

    def table(self, i: int) -> Layer | None:
        """Rows of a table that are held in codes."""
        taken = self.graph.nodes[i].op_type == "Gather" and self.graph.standard(i) and i not in self.plan.kept
        return self.layers.rows(i) if taken else None

    def plain(self, i: int, node: NodeProto) -> NodeProto:
        """A node that stays; it reads the numbers of codes where it is one of those that do."""
        moved = any(self.plan.coded[o].moved for o in node.output if o in self.plan.coded)
        reads = [
            self.numbers[n] if not moved and n in self.numbers and self.plan.reads_codes(i, n) else n
            for n in node.input
        ]
        return copied(node, inputs=reads) if reads != list(node.input) else node

    def code(self, names: Sequence[str], i: int | None = None) -> None:
        for name in names:
            how = self.plan.coded.get(name)
            if how is None:
                continue
            graph, made = self.graph, self.graph.fresh(f"{name}_quantized")
            scale, zero = self.parameters(self.plan.root(name))
            if how.moved and i is not None:
                node = graph.nodes[i]
                reads = [self.codes[n] if n in self.codes else n for n in node.input]
                label = graph.fresh(f"{graph.called(i)}_codes")
                self.add(copied(node, inputs=reads, outputs=[made], name=label))
            else:
                source = self.before_activation(name, i)
                self.add(
                    helper.make_node(
                        "QuantizeLinear", [source, scale, zero], [made], graph.fresh(f"{name}_quantize")
                    )
                )
            numbers = graph.fresh(f"{name}_dequantized")
            label = graph.fresh(f"{name}_dequantize")
            self.add(helper.make_node("DequantizeLinear", [made, scale, zero], [numbers], label))
            self.codes[name], self.numbers[name] = made, numbers

    def add(self, node: NodeProto) -> None:
        self.nodes.append(node)
        self.coding.append(node)

    def before_activation(self, name: str, i: int | None) -> str:
        """What is quantised for a tensor: what its Relu or Clip reads, where the range of the codes does the same."""
        if i is None or i in self.plan.kept or not self.graph.standard(i) or self.plan.in_f32(name):
            return name
        node = self.graph.nodes[i]
        if node.op_type not in ("Relu", "Clip") or node.input[0] in self.plan.coded:
            return name
        low, high = (0.0, np.inf) if node.op_type == "Relu" else self.clip_bounds(node)
        scale, zero = self.scales[self.plan.root(name)]
        reaches = float(scale) * (255 - int(zero)), -float(scale) * int(zero)
        slack = 1e-6 * abs(reaches[0] - reaches[1])
        same = low <= reaches[1] + slack and reaches[0] <= high + slack
        return node.input[0] if same else name

    def clip_bounds(self, node: NodeProto) -> tuple[float, float]:
        """What a Clip holds to; a bound that is not known holds to nothing that codes could do."""
        ends = [attribute(node, "min", -np.inf), attribute(node, "max", np.inf)]
        for k, name in enumerate(node.input[1:3]):
            found = self.graph.constant(name) if name else None
            if name:
                ends[k] = float(found) if found is not None else (np.inf, -np.inf)[k]
        return float(ends[0]), float(ends[1])

    def parameters(self, root: str) -> tuple[str, str]:
        if root not in self._held:
            scale, zero = self.scales[root]
            names = self.graph.hold(f"{root}_scale", scale), self.graph.hold(f"{root}_zero_point", zero)
            self._held[root] = names
        return self._held[root]
