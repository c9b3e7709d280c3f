# SPDX-License-Identifier: Apache-2.0
"""Small networks of ONNX for the tests of quantization, and what runs them."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import ngmlir as ng
from ngmlir.frontends.onnx import load

F32 = TensorProto.FLOAT


class Net:
    """A graph under construction: `add` gives the name of a node's first output, `hold` that of an initializer."""

    def __init__(self, seed: int = 0):
        self.draw = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.held: list[Any] = []

    def hold(self, array: Any, name: str = "") -> str:
        name = name or f"w{len(self.held)}"
        self.held.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def normal(self, *shape: int, name: str = "", scale: float = 1.0) -> str:
        return self.hold((self.draw.standard_normal(shape) * scale).astype(np.float32), name)

    def add(self, op: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: Any) -> str:
        names = [f"{op.lower()}{len(self.nodes)}{'' if k == 0 else f'_{k}'}" for k in range(outputs)]
        name = f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), names, name, domain=domain, **attributes))
        return names[0]

    def model(
        self,
        shape: list[Any],
        *results: str,
        opset: int = 17,
        format: int = 8,
        stated: bool = False,
        kind: int = F32,
    ) -> ModelProto:
        """The model of one input `x`; `stated`: initializers are inputs too, as in old files."""
        inputs = [helper.make_tensor_value_info("x", kind, shape)]
        if stated:
            inputs += [helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in self.held]
        outputs = [helper.make_tensor_value_info(name, F32, None) for name in results]
        graph = helper.make_graph(self.nodes, "net", inputs, outputs, self.held)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=format)


def convolutions(seed: int = 0) -> ModelProto:
    """A residual block, a pool, a depthwise convolution, and classes."""
    net = Net(seed)
    x = net.add("Relu", net.add("Conv", "x", net.normal(8, 3, 3, 3), net.normal(8), pads=[1] * 4))
    y = net.add("Relu", net.add("Conv", x, net.normal(8, 8, 3, 3, scale=0.1), net.normal(8), pads=[1] * 4))
    y = net.add("Conv", y, net.normal(8, 8, 3, 3, scale=0.1), net.normal(8), pads=[1] * 4)
    x = net.add("Relu", net.add("Add", y, x))
    x = net.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    bounds = net.hold(np.float32(0)), net.hold(np.float32(6))
    x = net.add("Clip", net.add("Conv", x, net.normal(8, 1, 3, 3), net.normal(8), group=8), *bounds)
    x = net.add("Flatten", net.add("GlobalAveragePool", x))
    return net.model(["n", 3, 9, 9], net.add("Gemm", x, net.normal(5, 8), net.normal(5), transB=1))


def images(count: int = 20, seed: int = 1) -> Any:
    return np.random.default_rng(seed).standard_normal((count, 3, 9, 9)).astype(np.float32)


def run(model: ModelProto, *inputs: Any, target: str = "cpu", exact: bool = False) -> Any:
    """The first output of a model, by ngmlir."""
    return ng.compile(load(model, exact=exact), target=target)(*inputs)[0]


def reference(model: ModelProto, x: Any) -> Any:
    """The first output of a model, by the standard's own evaluator, whose QuantizeLinear is that of version 19 and later."""
    later = ModelProto()
    later.CopyFrom(model)
    for opset in later.opset_import:
        opset.version = max(opset.version, 21) if not opset.domain else opset.version
    return np.asarray(ReferenceEvaluator(later).run(None, {"x": x})[0])  # pyright: ignore[reportArgumentType, reportCallIssue, reportUnknownMemberType]


def snr(wide: Any, narrow: Any) -> float:
    """Signal to noise in dB."""
    return float(10 * np.log10(np.square(wide).sum() / np.square(wide - narrow).sum()))


def operators(model: ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]
