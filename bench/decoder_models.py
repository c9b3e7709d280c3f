# SPDX-License-Identifier: Apache-2.0
"""Small decoders of language models with caches, as model builders for ONNX Runtime write them: nodes of com.microsoft."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from microsoft_quantized_cases import packed
from onnx import ModelProto, TensorProto, helper, numpy_helper

WORDS, WIDTH, HEADS, SHARED, SIZE, LAYERS = 53, 64, 4, 2, 16, 2
FLOAT, INT64, INT32 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32


class Writer:
    """Nodes and weights of a graph that is being written."""

    def __init__(self, seed: int = 0):
        self.rng = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def weight(self, array: Any) -> str:
        name = self.name()
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def floats(self, *shape: int, scale: float = 0.2) -> str:
        return self.weight((self.rng.normal(size=shape) * scale).astype(np.float32))

    def add(self, op: str, inputs: Sequence[str], outputs: Sequence[str] = (), **attributes: Any) -> str:
        made = list(outputs) or [self.name()]
        standard = op in ("Gather", "MatMul", "Mul", "Sigmoid", "Cast", "Sub", "ReduceSum", "Shape", "Add")
        domain = "" if standard or op == "SimplifiedLayerNormalization" else "com.microsoft"
        self.nodes.append(helper.make_node(op, list(inputs), made, domain=domain, **attributes))
        return made[0]

    def product(self, x: str, inner: int, outer: int, bits: int) -> str:
        """By weights in f32, or of 4 or 8 bits in blocks of 32."""
        if not bits:
            return self.add("MatMul", [x, self.floats(inner, outer)])
        codes = packed(self.rng.integers(0, 1 << bits, (outer, inner // 32, 32)), bits)
        scales = (self.rng.random((outer, inner // 32)) * 0.8 / (1 << bits)).astype(np.float32)
        given = [x, self.weight(codes), self.weight(scales)]
        return self.add("MatMulNBits", given, K=inner, N=outer, bits=bits, block_size=32, accuracy_level=1)

    def model(self, inputs: Sequence[Any], outputs: Sequence[str]) -> ModelProto:
        ports = [helper.make_tensor_value_info(*each) for each in inputs]
        made = [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "decoder", ports, made, self.weights)
        imports = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)


def _angles() -> tuple[Any, Any]:
    angles = np.outer(np.arange(64), 1 / 10000 ** (np.arange(0, SIZE, 2) / SIZE))
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def llama(bits: int = 0, **attention: Any) -> ModelProto:
    """GroupQueryAttention with positions turned inside; a cache that grows: past_0_key [B, SHARED, P, SIZE] ..."""
    w = Writer()
    shape = [["B", "S"], ["B", "T"]]
    inputs: list[Any] = [("input_ids", INT64, shape[0]), ("attention_mask", INT64, shape[1])]
    sums = w.add("ReduceSum", ["attention_mask", w.weight(np.array([1]))], keepdims=0)
    ends = w.add("Cast", [w.add("Sub", [sums, w.weight(np.array(1))])], to=INT32)
    total = w.add("Gather", [w.add("Shape", ["attention_mask"]), w.weight(np.array(1))])
    total = w.add("Cast", [total], to=INT32)
    cos, sin = (w.weight(table) for table in _angles())
    x = w.add("Gather", [w.floats(WORDS, WIDTH, scale=1), "input_ids"])
    y, outputs = (
        w.add("SimplifiedLayerNormalization", [x, w.floats(WIDTH, scale=1)], epsilon=1e-5, axis=-1),
        [],
    )
    for i in range(LAYERS):
        q = w.product(y, WIDTH, HEADS * SIZE, bits)
        k, v = (w.product(y, WIDTH, SHARED * SIZE, bits) for _ in range(2))
        past = [f"past_{i}_{part}" for part in ("key", "value")]
        present = [f"present_{i}_{part}" for part in ("key", "value")]
        inputs += [(name, FLOAT, ["B", SHARED, "P", SIZE]) for name in past]
        outputs += present
        made = w.name()
        given = [q, k, v, *past, ends, total, cos, sin]
        more = {"num_heads": HEADS, "kv_num_heads": SHARED, "do_rotary": 1, **attention}
        w.add("GroupQueryAttention", given, [made, *present], **more)
        made, kept, after = w.product(made, WIDTH, WIDTH, bits), w.name(), w.name()
        w.add("SkipSimplifiedLayerNormalization", [x, made, w.floats(WIDTH, scale=1)], [after, "", "", kept])
        gate, up = (w.product(after, WIDTH, 2 * WIDTH, bits) for _ in range(2))
        gate = w.add("Mul", [gate, w.add("Sigmoid", [gate])])
        made = w.product(w.add("Mul", [gate, up]), 2 * WIDTH, WIDTH, bits)
        x, y = w.name(), w.name()
        w.add("SkipSimplifiedLayerNormalization", [kept, made, w.floats(WIDTH, scale=1)], [y, "", "", x])
    logits = w.product(y, WIDTH, WORDS if not bits else 64, bits)
    return w.model(inputs, [logits, *outputs])


def phi() -> ModelProto:
    """RotaryEmbedding, then MultiHeadAttention with past keys and values; one call holds tokens of the same positions."""
    w = Writer(1)
    inputs: list[Any] = [("input_ids", INT64, ["B", "S"]), ("position_ids", INT64, ["B", "S"])]
    cos, sin = (w.weight(table) for table in _angles())
    x, outputs = w.add("Gather", [w.floats(WORDS, WIDTH, scale=1), "input_ids"]), []
    y = w.add("SkipLayerNormalization", [x, x, *(w.floats(WIDTH, scale=1) for _ in range(2))], epsilon=1e-5)
    for i in range(LAYERS):
        q, k, v = (w.product(y, WIDTH, WIDTH, 0) for _ in range(3))
        q, k = (w.add("RotaryEmbedding", [t, "position_ids", cos, sin]) for t in (q, k))
        past = [f"past_{i}_{part}" for part in ("key", "value")]
        present = [f"present_{i}_{part}" for part in ("key", "value")]
        inputs += [(name, FLOAT, ["B", HEADS, "P", SIZE]) for name in past]
        outputs += present
        made = w.name()
        given = [q, k, v, w.floats(3 * WIDTH), "", "", *past]
        w.add("MultiHeadAttention", given, [made, *present], num_heads=HEADS, unidirectional=1)
        kept, after = w.name(), w.name()
        more = [w.floats(WIDTH, scale=1), w.floats(WIDTH)]
        w.add(
            "SkipLayerNormalization",
            [x, w.product(made, WIDTH, WIDTH, 0), *more],
            [after, "", "", kept],
            epsilon=1e-5,
        )
        inner = w.add("BiasGelu", [w.product(after, WIDTH, 2 * WIDTH, 0), w.floats(2 * WIDTH)])
        x, y = w.name(), w.name()
        more = [w.floats(WIDTH, scale=1), w.floats(WIDTH)]
        w.add(
            "SkipLayerNormalization",
            [kept, w.product(inner, 2 * WIDTH, WIDTH, 0), *more],
            [y, "", "", x],
            epsilon=1e-5,
        )
    return w.model(inputs, [w.product(y, WIDTH, WORDS, 0), *outputs])


def gpt2() -> ModelProto:
    """Attention with one matrix for queries, keys and values, and one tensor for past keys and values: past_0 [2, B, N, P, H]."""
    w = Writer(2)
    inputs: list[Any] = [("input_ids", INT64, ["B", "S"]), ("position_ids", INT64, ["B", "S"])]
    x = w.add("Gather", [w.floats(WORDS, WIDTH, scale=1), "input_ids"])
    x, outputs = w.add("Add", [x, w.add("Gather", [w.floats(64, WIDTH), "position_ids"])]), []
    y = w.add("SkipLayerNormalization", [x, x, *(w.floats(WIDTH, scale=1) for _ in range(2))], epsilon=1e-5)
    for i in range(LAYERS):
        inputs.append((f"past_{i}", FLOAT, [2, "B", HEADS, "P", SIZE]))
        outputs.append(f"present_{i}")
        made = w.name()
        given = [y, w.floats(WIDTH, 3 * WIDTH), w.floats(3 * WIDTH), "", f"past_{i}"]
        w.add("Attention", given, [made, f"present_{i}"], num_heads=HEADS, unidirectional=1)
        kept, after = w.name(), w.name()
        more = [w.floats(WIDTH, scale=1), w.floats(WIDTH), w.floats(WIDTH)]
        w.add(
            "SkipLayerNormalization",
            [x, w.product(made, WIDTH, WIDTH, 0), *more],
            [after, "", "", kept],
            epsilon=1e-5,
        )
        inner = w.add("FastGelu", [w.product(after, WIDTH, 2 * WIDTH, 0), w.floats(2 * WIDTH)])
        x, y = w.name(), w.name()
        w.add(
            "SkipLayerNormalization",
            [kept, w.product(inner, 2 * WIDTH, WIDTH, 0), *more],
            [y, "", "", x],
            epsilon=1e-5,
        )
    return w.model(inputs, [w.product(y, WIDTH, WORDS, 0), *outputs])


#: Decoders by name.
DECODERS = {
    "llama": llama,
    "llama-4bits": lambda: llama(4),
    "llama-window": lambda: llama(8, local_window_size=3, softcap=5.0),
    "phi": phi,
    "gpt2": gpt2,
}


def fed(model: ModelProto, ids: Any, past: Sequence[Any] | None) -> dict[str, Any]:
    """What a call takes for tokens [B, S] after those whose keys and values are `past` (None: the first call)."""
    batch, length = ids.shape
    made: dict[str, Any] = {"input_ids": ids}
    kept = [port for port in model.graph.input if port.name.startswith("past")]
    if past is None:
        shapes = [
            [d.dim_value or {"B": batch, "P": 0}[d.dim_param] for d in port.type.tensor_type.shape.dim]
            for port in kept
        ]
        past = [np.zeros(shape, np.float32) for shape in shapes]
    before = past[0].shape[-2]
    names = {port.name for port in model.graph.input}
    if "attention_mask" in names:
        made["attention_mask"] = np.ones((batch, before + length), np.int64)
    if "position_ids" in names:
        made["position_ids"] = np.broadcast_to(np.arange(before, before + length), (batch, length)).copy()
    return made | {port.name: array for port, array in zip(kept, past, strict=True)}
