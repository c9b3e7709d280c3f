# SPDX-License-Identifier: Apache-2.0
"""Networks with random weights for bench/quantised.py, as ONNX models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper


class Graph:
    """An ONNX graph under construction: each call adds a node and gives the name of its result."""

    def __init__(self, seed: int = 0):
        self.draw = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def weight(self, array: Any) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def normal(self, *shape: int, scale: float = 1.0) -> str:
        return self.weight((self.draw.standard_normal(shape) * scale).astype(np.float32))

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=f"{op}{name}", **attributes))
        return name

    def model(self, inputs: Mapping[str, Sequence[int | str]], *results: str) -> Any:
        """Inputs of f32, or of 64-bit integers where they are named `ids`."""
        kinds = {"ids": onnx.TensorProto.INT64}
        single = onnx.TensorProto.FLOAT
        given = [helper.make_tensor_value_info(n, kinds.get(n, single), list(s)) for n, s in inputs.items()]
        made = [helper.make_tensor_value_info(name, single, None) for name in results]
        graph = helper.make_graph(self.nodes, "model", given, made, self.weights)
        found = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        return onnx.shape_inference.infer_shapes(found)


def mlp() -> Any:
    g, value, width = Graph(), "x", 512
    for size in (1024, 1024, 256):
        value = g.add("MatMul", value, g.normal(width, size, scale=width**-0.5))
        value = g.add("Add", value, g.normal(size))
        value = g.add("Relu", value)
        width = size
    return g.model({"x": (32, 512)}, g.add("MatMul", value, g.normal(width, 10, scale=width**-0.5)))


def bert(
    layers: int = 4, batch: int | str = 1, length: int | str = 128, hidden: int = 256, heads: int = 4
) -> Any:
    """The layers of an encoder; gelu by erf. Lengths that are names are known at the call."""
    g, x, each = Graph(), "x", hidden // heads

    def linear(value: str, inner: int, size: int) -> str:
        return g.add("Add", g.add("MatMul", value, g.normal(inner, size, scale=inner**-0.5)), g.normal(size))

    def apart(value: str, order: Sequence[int]) -> str:
        shape = g.weight(np.array([0, 0, heads, each], np.int64))
        return g.add("Transpose", g.add("Reshape", value, shape), perm=list(order))

    def norm(value: str) -> str:
        ones, zeros = np.ones(hidden, np.float32), np.zeros(hidden, np.float32)
        return g.add("LayerNormalization", value, g.weight(ones), g.weight(zeros), axis=-1)

    for _ in range(layers):
        q, k, v = (linear(x, hidden, hidden) for _ in range(3))
        scores = g.add("MatMul", apart(q, (0, 2, 1, 3)), apart(k, (0, 2, 3, 1)))
        scores = g.add("Mul", scores, g.weight(np.float32(each**-0.5)))
        mixed = g.add("MatMul", g.add("Softmax", scores, axis=-1), apart(v, (0, 2, 1, 3)))
        mixed = g.add("Transpose", mixed, perm=[0, 2, 1, 3])
        mixed = g.add("Reshape", mixed, g.weight(np.array([0, 0, hidden], np.int64)))
        x = norm(g.add("Add", x, linear(mixed, hidden, hidden)))
        wide = linear(x, hidden, 4 * hidden)
        erf = g.add("Erf", g.add("Mul", wide, g.weight(np.float32(0.5**0.5))))
        half = g.add("Mul", g.add("Add", erf, g.weight(np.float32(1))), g.weight(np.float32(0.5)))
        x = norm(g.add("Add", x, linear(g.add("Mul", wide, half), 4 * hidden, hidden)))
    return g.model({"x": (batch, length, hidden)}, x)


def _convolution(
    g: Graph, x: str, inner: int, size: int, window: int, stride: int = 1, group: int = 1
) -> str:
    """With the batch norm that a trained one has folded into it."""
    scale = (2 / (inner // group * window * window)) ** 0.5
    filters, pad = g.normal(size, inner // group, window, window, scale=scale), window // 2
    bias = g.normal(size, scale=0.1)
    return g.add("Conv", x, filters, bias, strides=[stride] * 2, pads=[pad] * 4, group=group)


def _resnet(batch: int | str, counts: Sequence[int], wide: int) -> Any:
    """Residual blocks of two windows; with `wide` of one, between a product before it and one that gives so many times the channels."""
    g, width = Graph(), 64
    x = g.add("Relu", _convolution(g, "x", 3, 64, 7, 2))
    x = g.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for stage, count in enumerate(counts):
        for block in range(count):
            inner, stride = 64 << stage, 2 if stage and not block else 1
            size = inner * max(1, wide)
            if wide:
                y = g.add("Relu", _convolution(g, x, width, inner, 1))
                y = g.add("Relu", _convolution(g, y, inner, inner, 3, stride))
                y = _convolution(g, y, inner, size, 1)
            else:
                y = g.add("Relu", _convolution(g, x, width, inner, 3, stride))
                y = _convolution(g, y, inner, size, 3)
            skip = x if (stride, size) == (1, width) else _convolution(g, x, width, size, 1, stride)
            x, width = g.add("Relu", g.add("Add", y, skip)), size
    x = g.add("Flatten", g.add("GlobalAveragePool", x))
    return g.model(
        {"x": (batch, 3, 224, 224)},
        g.add("Gemm", x, g.normal(1000, width, scale=0.05), g.normal(1000), transB=1),
    )


def resnet18(batch: int | str = 1) -> Any:
    return _resnet(batch, [2, 2, 2, 2], 0)


def resnet50(batch: int | str = 1) -> Any:
    return _resnet(batch, [3, 4, 6, 3], 4)


def mobilenet() -> Any:
    """Inverted residual blocks of MobileNetV2."""
    g, width = Graph(), 32

    def activated(value: str) -> str:
        return g.add("Clip", value, g.weight(np.float32(0)), g.weight(np.float32(6)))

    x = activated(_convolution(g, "x", 3, 32, 3, 2))
    plan = [
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ]
    for grow, size, count, first in plan:
        for i in range(count):
            y, inner, stride = x, grow * width, first if i == 0 else 1
            if grow > 1:
                y = activated(_convolution(g, y, width, inner, 1))
            y = activated(_convolution(g, y, inner, inner, 3, stride, inner))
            y = _convolution(g, y, inner, size, 1)
            x, width = (g.add("Add", x, y) if stride == 1 and width == size else y), size
    x = g.add("Flatten", g.add("GlobalAveragePool", activated(_convolution(g, x, width, 1280, 1))))
    return g.model(
        {"x": (1, 3, 224, 224)}, g.add("Gemm", x, g.normal(1000, 1280, scale=0.05), g.normal(1000), transB=1)
    )


MODELS: dict[str, Callable[[], Any]] = {
    "mlp": mlp,
    "bert": bert,
    "resnet18": resnet18,
    "resnet50": resnet50,
    "mobilenet": mobilenet,
}
