# SPDX-License-Identifier: Apache-2.0
"""The nodes that have weights, and what they become: the forms that ONNX has for quantised products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper

from ..ports import Array
from .codes import block_codes, channel_codes
from .graph import Graph, attribute, copied, name_of

#: The domain of ONNX Runtime's own operators.
_MICROSOFT = "com.microsoft"


@dataclass
class Layer:
    """A node that was quantised: the nodes that it became, of which the last gives `output`, in `bits` for each weight."""

    name: str
    op: str
    output: str
    bits: int
    nodes: list[NodeProto] = field(default_factory=list[NodeProto])


@dataclass(frozen=True)
class Product:
    """A node with a constant weight in f32: number `at` of its inputs, whose slices along `axis` are summed by themselves."""

    node: int
    at: int
    weight: Array
    axis: int | None

    @property
    def other(self) -> int:
        """The input that the weight is multiplied with."""
        return 1 - self.at


def product_of(graph: Graph, i: int) -> Product | None:
    """A convolution or matrix product with one constant side; None for other nodes."""
    node = graph.nodes[i]
    if node.op_type not in ("Conv", "MatMul", "Gemm") or not graph.standard(i):
        return None
    right = graph.weight(i, 1)
    if node.op_type == "Conv":
        return None if right is None or node.input[0] not in graph.varying else Product(i, 1, right, 0)
    if node.op_type == "Gemm":
        if right is None or right.ndim != 2 or node.input[0] not in graph.varying:
            return None
        scaled = right * np.float32(attribute(node, "alpha", 1.0))
        return Product(i, 1, scaled, 0 if attribute(node, "transB", 0) else 1)
    if right is not None and node.input[0] in graph.varying:
        return Product(i, 1, right, right.ndim - 1 if right.ndim > 1 else None)
    left = graph.weight(i, 0)
    if left is not None and node.input[1] in graph.varying:
        return Product(i, 0, left, left.ndim - 2 if left.ndim > 1 else None)
    return None


class Layers:
    """Makes layers of nodes. `weights` with the same codes are held once."""

    def __init__(self, graph: Graph, kept: set[int]):
        self.graph, self.kept = graph, kept
        #: Nodes that are part of the layer of another.
        self.joined: set[int] = set()
        self.layers: list[Layer] = []
        self.domains: set[str] = set()
        self._held: dict[Any, tuple[str, str]] = {}
        #: Codes, scale and zero point of what is quantised at each call.
        self._dynamic: dict[str, list[str]] = {}

    def new(self, i: int, bits: int) -> Layer:
        node = self.graph.nodes[i]
        made = Layer(name_of(node), node.op_type, node.output[0], bits)
        self.layers.append(made)
        return made

    def node(
        self, layer: Layer, op: str, inputs: list[str], suffix: str, output: str = "", **attributes: Any
    ) -> str:
        """Adds a node to a layer; its output."""
        made = output or self.graph.fresh(f"{layer.output}_{suffix}")
        name = self.graph.fresh(f"{layer.name}_{suffix}")
        layer.nodes.append(helper.make_node(op, inputs, [made], name, **attributes))
        return made

    def codes(self, name: str, w: Array, axis: int | None, least: Array | None = None) -> tuple[str, str]:
        """The initializers with the codes and the scales of a weight, which several nodes may read."""
        key = (name, w.shape, axis, None if least is None else least.tobytes(), hash(w.tobytes()))
        if key not in self._held:
            codes, scale = channel_codes(w, axis, least)
            self._held[key] = (
                self.graph.hold(f"{name}_quantized", codes),
                self.graph.hold(f"{name}_scale", scale),
            )
        return self._held[key]

    def dequantized(self, layer: Layer, codes: str, scale: str, axis: int | None) -> str:
        """A node that dequantizes a weight."""
        zero = self.graph.arrays[codes].dtype.type
        where = {} if axis is None else {"axis": axis}
        point = self.graph.arrays[scale].shape
        zeros = self.graph.hold(f"{codes}_zero_point", np.zeros(point, zero))
        made = self.graph.fresh(f"{codes.removesuffix('_quantized')}_dequantized")
        return self.node(layer, "DequantizeLinear", [codes, scale, zeros], "weight", made, **where)

    # ---- integers on both sides, with known ranges

    def static(self, p: Product, x: str, scale: np.float32) -> Layer:
        """`x` are dequantized codes of this scale. A MatMul takes the Add of a constant behind it along."""
        graph, node = self.graph, self.graph.nodes[p.node]
        layer = self.new(p.node, 8)
        added = self.added(p)
        found, least = self.bias_of(p, added), None
        name, bias = found if found is not None else ("", None)
        if bias is not None:
            # The codes of the bias, of scale x times scale w, have 32 bits.
            least = np.abs(bias) / (np.float64(scale) * (1 << 30))
            least = least if p.axis is not None else np.asarray(least.max(initial=0.0))
        codes, held = self.codes(node.input[p.at], p.weight, p.axis, least)
        inputs = list(node.input)
        inputs[p.at] = self.dequantized(layer, codes, held, p.axis)
        inputs[p.other] = x
        changes: dict[str, Any] = {"alpha": None} if node.op_type == "Gemm" else {}
        if bias is not None:
            both = graph.arrays[held] * scale
            whole = np.rint(bias / np.where(both == 0, 1, both).astype(np.float64)).astype(np.int32)
            held_bias = graph.hold(f"{name}_quantized", whole)
            number = self.dequantized(layer, held_bias, graph.hold(f"{held_bias}_scale", both), 0)
            if added is not None:
                sum_ = graph.nodes[added]
                layer.nodes.append(copied(node, inputs=inputs))
                layer.nodes.append(copied(sum_, inputs=[number if n == name else n for n in sum_.input]))
                layer.output = sum_.output[0]
                self.joined.add(added)
                return layer
            inputs[2:] = [number]
            changes |= {"beta": None} if node.op_type == "Gemm" else {}
        layer.nodes.append(copied(node, inputs=inputs, attributes=changes))
        return layer

    def added(self, p: Product) -> int | None:
        """The Add that alone reads a MatMul, and adds a constant to it."""
        graph, node = self.graph, self.graph.nodes[p.node]
        reader = graph.only_reader(node.output[0])
        if node.op_type != "MatMul" or p.at != 1 or p.weight.ndim != 2 or reader is None:
            return None
        plain = graph.nodes[reader].op_type == "Add" and graph.standard(reader) and reader not in self.kept
        return reader if plain else None

    def bias_of(self, p: Product, added: int | None) -> tuple[str, Array] | None:
        """The constant that is added to a product: its name, and a number for each channel, with its factor; None where there
        is none such."""
        node, at = self.graph.nodes[p.node], 2
        if added is not None:
            product, node = node.output[0], self.graph.nodes[added]
            at = 1 - list(node.input).index(product)
        elif node.op_type == "MatMul":
            return None
        if len(node.input) <= at or not node.input[at] or p.axis is None:
            return None
        found = self.graph.weight(added if added is not None else p.node, at)
        channels = p.weight.shape[p.axis]
        if found is None or found.size not in (1, channels) or found.shape[:-1] != (1,) * (found.ndim - 1):
            return None
        if added is not None and found.ndim > 1:
            return None
        factor = attribute(node, "beta", 1.0) if node.op_type == "Gemm" else 1.0
        return node.input[at], np.broadcast_to(found.reshape(-1).astype(np.float64) * factor, (channels,))

    # ---- integers on both sides, ranges measured at each call

    def has_dynamic(self, p: Product) -> bool:
        """Whether `dynamic` makes a layer of a node: of products of matrices; convolutions would not gain."""
        node = self.graph.nodes[p.node]
        return node.op_type == "MatMul" or (node.op_type == "Gemm" and not attribute(node, "transA", 0))

    def dynamic(self, p: Product) -> Layer:
        graph, node = self.graph, self.graph.nodes[p.node]
        layer = self.new(p.node, 8)
        w, axis = p.weight, p.axis
        if node.op_type == "Gemm" and attribute(node, "transB", 0):
            w, axis = np.ascontiguousarray(w.T), 1
        x = node.input[p.other]
        codes, held = self.codes(node.input[p.at], w, axis)
        if x not in self._dynamic:
            names = [graph.fresh(f"{x}_{part}") for part in ("quantized", "scale", "zero_point")]
            made = helper.make_node("DynamicQuantizeLinear", [x], names, graph.fresh(f"{x}_quantize"))
            layer.nodes.append(made)
            self._dynamic[x] = names
        quantized, scale, zero = self._dynamic[x]
        wide = held
        if p.at == 0 and axis is not None:  # a scale for each row
            wide = graph.hold(f"{held}_column", graph.arrays[held].reshape(-1, 1))
        inputs = [quantized, codes, zero]
        if p.at == 0:
            # ONNX Runtime multiplies no signed by unsigned codes: those on the left are moved by 128.
            moved = (graph.arrays[codes].astype(np.int16) + 128).astype(np.uint8)
            inputs = [
                graph.hold(f"{codes}_moved", moved),
                quantized,
                graph.hold(f"{codes}_zero_point", np.uint8(128)),
                zero,
            ]
        total = self.node(layer, "MatMulInteger", inputs, "integer")
        number = self.node(layer, "Cast", [total], "float", to=TensorProto.FLOAT)
        both = self.node(layer, "Mul", [scale, wide], "scales")
        self.with_bias(layer, node, lambda output: self.node(layer, "Mul", [number, both], "scaled", output))
        return layer

    # ---- weights of few bits, the rest in f32

    def wide(self, p: Product, bits: int, block: int) -> Layer:
        """With weights alone in integers of 8 bits, or of 4 where the node is a product of matrices."""
        node = self.graph.nodes[p.node]
        plain = node.op_type == "MatMul" or (node.op_type == "Gemm" and not attribute(node, "transA", 0))
        if bits == 4 and plain and p.at == 1 and p.weight.ndim == 2:
            return self.blocks(p, block)
        layer = self.new(p.node, 8)
        codes, held = self.codes(node.input[p.at], p.weight, p.axis)
        inputs = list(node.input)
        inputs[p.at] = self.dequantized(layer, codes, held, p.axis)
        changes: dict[str, Any] = {"alpha": None} if node.op_type == "Gemm" else {}
        layer.nodes.append(copied(node, inputs=inputs, attributes=changes))
        return layer

    def blocks(self, p: Product, block: int) -> Layer:
        node = self.graph.nodes[p.node]
        layer = self.new(p.node, 4)
        rows = p.weight if p.axis == 0 else p.weight.T
        name = node.input[p.at]
        key = (name, "blocks", rows.shape, block, hash(rows.tobytes()))
        if key not in self._held:
            codes, scales = block_codes(np.ascontiguousarray(rows), block)
            held = (
                self.graph.hold(f"{name}_blocks", codes),
                self.graph.hold(f"{name}_scale", scales.reshape(-1)),
            )
            self._held[key] = held
        self.domains.add(_MICROSOFT)
        sizes = {"N": rows.shape[0], "K": rows.shape[1], "bits": 4, "block_size": block}
        inputs = [node.input[p.other], *self._held[key]]
        self.with_bias(
            layer,
            node,
            lambda output: self.node(
                layer, "MatMulNBits", inputs, "product", output, domain=_MICROSOFT, **sizes
            ),
        )
        return layer

    def with_bias(self, layer: Layer, node: NodeProto, product: Callable[[str], str]) -> None:
        """The product, and behind it what a Gemm adds."""
        has = node.op_type == "Gemm" and len(node.input) > 2 and node.input[2]
        if not has:
            product(layer.output)
            return
        made, added, beta = product(""), node.input[2], attribute(node, "beta", 1.0)
        if beta != 1.0:
            factor = self.graph.hold(f"{added}_factor", np.float32(beta))
            added = self.node(layer, "Mul", [added, factor], "bias")
        self.node(layer, "Add", [made, added], "biased", layer.output)

    def recurrent(self, i: int) -> Layer | None:
        """LSTM, GRU and RNN with weights in 8 bits."""
        graph, node = self.graph, self.graph.nodes[i]
        weights = [graph.weight(i, at) for at in (1, 2)]
        if any(w is None or w.ndim != 3 for w in weights):
            return None
        layer, inputs = self.new(i, 8), list(node.input)
        for at, w in enumerate(weights, 1):
            assert w is not None
            codes, held = self.codes(node.input[at], w, 1)
            inputs[at] = self.dequantized(layer, codes, held, 1)
        layer.nodes.append(copied(node, inputs=inputs))
        return layer

    def transposed(self, i: int) -> Layer | None:
        """A ConvTranspose with weights in 8 bits."""
        w, node = self.graph.weight(i, 1), self.graph.nodes[i]
        if w is None or node.input[0] not in self.graph.varying:
            return None
        layer = self.new(i, 8)
        codes, held = self.codes(node.input[1], w, 1)
        inputs = list(node.input)
        inputs[1] = self.dequantized(layer, codes, held, 1)
        layer.nodes.append(copied(node, inputs=inputs))
        return layer

    def rows(self, i: int) -> Layer | None:
        """Rows that are taken from a table: their codes are, and the scale of each row."""
        graph, node = self.graph, self.graph.nodes[i]
        table = graph.constant(node.input[0])
        if table is None or table.dtype != np.float32 or table.ndim != 2 or not table.size:
            return None
        if attribute(node, "axis", 0) or node.input[1] not in graph.varying or not np.isfinite(table).all():
            return None
        layer = self.new(i, 8)
        codes, held = self.codes(node.input[0], table, 0)
        scales = graph.hold(f"{held}_column", graph.arrays[held].reshape(-1, 1))
        taken = [
            self.node(layer, "Gather", [n, node.input[1]], what)
            for n, what in ((codes, "codes"), (scales, "scales"))
        ]
        number = self.node(layer, "Cast", [taken[0]], "float", to=TensorProto.FLOAT)
        self.node(layer, "Mul", [number, taken[1]], "scaled", layer.output)
        return layer
