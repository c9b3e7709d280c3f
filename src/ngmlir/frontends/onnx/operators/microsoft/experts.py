# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts: the weighted sum of the experts that a router selects for each token."""

from __future__ import annotations

from typing import Any

from .....ir.types import i64
from .....support.diagnostics import UserError
from ...nodes import Node
from ...schemas import contributed
from ...tensor import Tensor
from ..elementwise import gelu_of
from ..products import dot
from ..sorting import top_k
from .activations import gated, standard_node
from .packed_weights import dequantized_blocks, unpacked

_MIXTURE: dict[str, Any] = {
    "activation_alpha": 1.0,
    "activation_beta": 0.0,
    "activation_type": "relu",
    "k": 1,
    "normalize_routing_weights": 0,
    "swiglu_fusion": 0,
    "swiglu_limit": float | None,
    "swiglu_limit_after_activation": 0,
    "use_sparse_mixer": 0,
}


def _activated(n: Node, x: Tensor, linear: Tensor | None) -> Tensor:
    """The activation of the first layer; `linear` is the other operand of a gate, if it has a separate layer."""
    kind = n.text("activation_type")
    if kind == "swiglu":
        if n.flag("swiglu_limit_after_activation"):
            raise n.limit("swiglu_limit_after_activation")
        if linear is None:
            fusion, half = n.integer("swiglu_fusion"), x.shape[-1] // 2
            if fusion == 1:
                pairs = x.reshape([*x.shape[:-1], half, 2])
                x, linear = pairs.at(-1, 0), pairs.at(-1, 1)
            elif fusion == 2:
                x, linear = x.part(-1, 0, half), x.part(-1, half, 2 * half)
            else:
                raise UserError("swiglu has two products, of fc1 and fc3, or of fc1 alone (swiglu_fusion)")
        limit = n.number("swiglu_limit") if "swiglu_limit" in n.attributes else None
        return gated(x, linear, n, limit)
    made = {
        "identity": lambda: x,
        "relu": lambda: x.maximum(0),
        "gelu": lambda: gelu_of(x, tanh=True),
        "silu": lambda: x * n.verbs.sigmoid(x),
    }.get(kind)
    if made is None:
        raise n.limit(f"the activation '{kind}' of experts")
    return made() if linear is None else made() * linear


def _weights(n: Node, router: Tensor, mixing: Tensor | None) -> Tensor:
    """The weight of each expert for each token [T, E]: zero except for the k that the router selects."""
    if n.flag("use_sparse_mixer"):
        raise n.limit("experts by use_sparse_mixer")
    tokens, count = router.shape
    k = n.integer("k")
    best, places = top_k(standard_node(n, "TopK", axis=1), router.computed())
    if mixing is not None:
        chosen = n.verbs.gather_elements(mixing.computed(), places, axis=1)
        if n.flag("normalize_routing_weights"):
            chosen = chosen / chosen.sum([1], keep=True)
    elif n.flag("normalize_routing_weights") or n.op == "QMoE":
        # ONNX Runtime normalizes for QMoE whatever the attribute says.
        chosen = n.verbs.softmax(best, axes=[1])
    else:
        chosen = n.verbs.gather_elements(n.verbs.softmax(router.computed(), axes=[1]), places, axis=1)
    line = n.verbs.arange(count).reshape([1, 1, count])
    hot = places.cast(i64).reshape([tokens, k, 1]).equals(line)
    return hot.where(chosen.reshape([tokens, k, 1]), n.verbs.numbers(0, chosen.element)).sum([1])


Layer = tuple["Tensor | None", "Tensor | None"]


def _mixed(n: Node, x: Tensor, router: Tensor, mixing: Tensor | None, layers: list[Layer]) -> Tensor:
    """The weighted sum of all experts. Layers: weights [E, outputs, inputs] and bias [E, outputs]."""
    tokens = x.computed().reshape([x.size // x.shape[-1], x.shape[-1]])
    shares = _weights(n, router, mixing)
    experts = shares.shape[1]

    def layer(y: Tensor, at: int) -> Tensor:  # y is [T, inputs] or [E, T, inputs]
        weights, bias = layers[at]
        assert weights is not None
        if y.rank == 2:
            y = y.broadcast([experts, *y.shape])
        made = dot(y, weights.computed(), [2], [2], [0], [0])
        return made if bias is None else made + bias.computed().with_axes([1])

    inner = _activated(n, layer(tokens, 0), None if layers[2][0] is None else layer(tokens, 2))
    made = layer(inner, 1)
    total = (made * shares.transpose([1, 0]).with_axes([2])).sum([0])
    return total.reshape(x.shape).cast(x.element)


@contributed("MoE", **_MIXTURE)
def mixture(
    n: Node,
    x: Tensor,
    router: Tensor,
    fc1: Tensor,
    fc1_bias: Tensor | None,
    fc2: Tensor,
    fc2_bias: Tensor | None = None,
    fc3: Tensor | None = None,
    fc3_bias: Tensor | None = None,
) -> Tensor:
    return _mixed(n, x, router, None, [(fc1, fc1_bias), (fc2, fc2_bias), (fc3, fc3_bias)])


_BITS: dict[str, Any] = {f"fc{i}_expert_weight_bits": int | None for i in (1, 2, 3)}


@contributed(
    "QMoE",
    accuracy_level=0,
    block_size=0,
    expert_weight_bits=4,
    quant_type="int",
    weights_prepacked=-1,
    **_BITS,
    **_MIXTURE,
)
def quantized_mixture(
    n: Node,
    x: Tensor,
    router: Tensor,
    fc1: Tensor,
    fc1_scales: Tensor | None,
    fc1_bias: Tensor | None,
    fc2: Tensor,
    fc2_scales: Tensor | None,
    fc2_bias: Tensor | None = None,
    fc3: Tensor | None = None,
    fc3_scales: Tensor | None = None,
    fc3_bias: Tensor | None = None,
    fc1_zeros: Tensor | None = None,
    fc2_zeros: Tensor | None = None,
    fc3_zeros: Tensor | None = None,
    router_weights: Tensor | None = None,
) -> Tensor:
    """Packed weights of 2, 4 or 8 bits, with a scale for each row or for each block of a row."""
    if n.text("quant_type") != "int":
        raise n.limit(f"experts with weights of quant_type '{n.text('quant_type')}'")

    def layer(i: int, codes: Tensor | None, scales: Tensor | None, zeros: Tensor | None) -> Tensor | None:
        if codes is None:
            return None
        if scales is None:
            raise UserError(f"the weights fc{i} have no scales")
        bits = n.integer(f"fc{i}_expert_weight_bits", n.integer("expert_weight_bits"))
        whole = unpacked(n, codes, bits)
        block = n.integer("block_size") or whole.shape[2]
        if scales.rank == 2:
            if zeros is not None:
                zeros = (
                    unpacked(n, zeros, bits).part(1, 0, scales.shape[1]).cast(scales.element).with_axes([2])
                )
            scales = scales.with_axes([2])
        return dequantized_blocks(n, whole, scales, zeros, bits, block)

    layers: list[Layer] = [
        (layer(1, fc1, fc1_scales, fc1_zeros), fc1_bias),
        (layer(2, fc2, fc2_scales, fc2_zeros), fc2_bias),
        (layer(3, fc3, fc3_scales, fc3_zeros), fc3_bias),
    ]
    return _mixed(n, x, router, router_weights, layers)
