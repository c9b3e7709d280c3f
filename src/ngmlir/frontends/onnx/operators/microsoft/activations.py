# SPDX-License-Identifier: Apache-2.0
"""Activations with a bias or a gate, dropout at inference, and the activations that other operators fuse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from onnx import helper

from .....ir.types import Type, f32, i1
from .....support.diagnostics import UserError
from ...nodes import OPERATORS, Node
from ...schemas import contributed
from ...tensor import Tensor
from ..elementwise import gelu_of

#: The opset version of the standard operators that these are composed of.
STANDARD = 22
#: Activations that a matrix product or a convolution may fuse.
_ACTIVATIONS = (
    "Relu", "Tanh", "Sigmoid", "LeakyRelu", "HardSigmoid", "HardSwish", "Clip", "Celu", "Elu", "Selu", "Softplus",
    "Softsign", "ThresholdedRelu", "Shrink", "Gelu", "Softmax", "LogSoftmax",
)  # fmt: skip


def standard_node(n: Node, op: str, version: int = STANDARD, **attributes: float | str) -> Node:
    """A node of a standard operator, with the attributes of `n` and these."""
    made = {name: helper.make_attribute(name, value) for name, value in attributes.items()}
    return replace(n, op=op, version=version, attributes={**n.attributes, **made})


def activated(n: Node, x: Tensor, name: str, attributes: Mapping[str, float]) -> Tensor:
    """Applies the activation of that name; '' is the identity."""
    if not name:
        return x
    if name not in _ACTIVATIONS:
        raise UserError(f"there is no activation '{name}'", hint=f"there are {', '.join(_ACTIVATIONS)}")
    # Clip takes its limits as attributes up to version 6.
    made = standard_node(replace(n, attributes={}), name, 6 if name == "Clip" else STANDARD, **attributes)
    result = OPERATORS["", name](made, x)
    assert isinstance(result, Tensor)
    return result


@contributed("Gelu")
def gelu(n: Node, x: Tensor) -> Tensor:
    return gelu_of(x, tanh=False)


@contributed("BiasGelu")
def bias_gelu(n: Node, x: Tensor, bias: Tensor) -> Tensor:
    return gelu_of(x + bias, tanh=False)


@contributed("FastGelu")
def fast_gelu(n: Node, x: Tensor, bias: Tensor | None = None) -> Tensor:
    return gelu_of(x if bias is None else x + bias, tanh=True)


@contributed("QuickGelu", alpha=1.702)
def quick_gelu(n: Node, x: Tensor) -> Tensor:
    y = x.computed()
    return (y * n.verbs.sigmoid(y * n.number("alpha"))).cast(x.element)


@contributed("ScaledSiLU", alpha=1.0)
def scaled_silu(n: Node, x: Tensor, scale: Tensor | None = None) -> Tensor:
    factor = n.number("alpha") if scale is None else scale.computed().reshape([])
    scaled = (x.computed() * factor).cast(x.element).computed()
    return (scaled * n.verbs.sigmoid(scaled).cast(x.element).computed()).cast(x.element)


@contributed("SwiGLU", activation_alpha=1.0, activation_beta=0.0, limit=0.0, round_activation=0)
def swiglu(n: Node, gate: Tensor, up: Tensor | None = None) -> Tensor:
    if up is None:
        half = gate.shape[-1] // 2
        gate, up = gate.part(-1, 0, half), gate.part(-1, half, 2 * half)
    element, limit = gate.element, n.number("limit")
    rounded = element if n.flag("round_activation") else f32
    return gated(gate.computed(), up.computed(), n, limit if limit > 0 else None, rounded).cast(element)


def gated(gate: Tensor, up: Tensor, n: Node, limit: float | None, rounded: Type = f32) -> Tensor:
    """SwiGLU: gate * sigmoid(alpha * gate), rounded to a type, times (up + beta)."""
    if limit is not None:
        gate, up = gate.minimum(limit), up.maximum(-limit).minimum(limit)
    beta = n.number("activation_beta")
    turned = gate * n.verbs.sigmoid(gate * n.number("activation_alpha"))
    return turned.cast(rounded).computed() * (up + beta if beta else up)


@contributed("BiasSplitGelu")
def bias_split_gelu(n: Node, x: Tensor, bias: Tensor) -> Tensor:
    whole = x + bias
    half = whole.shape[-1] // 2
    return whole.part(-1, 0, half) * gelu_of(whole.part(-1, half, 2 * half), tanh=False)


@contributed("BiasAdd")
def bias_add(n: Node, x: Tensor, bias: Tensor, skip: Tensor) -> Tensor:
    return x + bias + skip


@contributed("GatedAdd")
def gated_add(n: Node, x: Tensor, y: Tensor, gate: Tensor, gate_weight: Tensor | None = None) -> Tensor:
    if gate_weight is not None:
        raise n.limit("a gate that is projected by weights")
    return x + y * gate


@contributed("BiasSoftmax", axis=1, is_inner_broadcast=int)
def bias_softmax(n: Node, x: Tensor, bias: Tensor) -> Tensor:
    """Softmax of x + bias over all dimensions from `axis` on; the bias broadcasts as in NumPy."""
    first = x.axis(n.integer("axis"))
    wide = (x + bias).computed()
    return n.verbs.softmax(wide, axes=list(range(first, x.rank))).cast(x.element)


@contributed("BiasDropout", outputs=2, seed=int | None)
def bias_dropout(
    n: Node,
    x: Tensor,
    bias: Tensor,
    residual: Tensor | None = None,
    ratio: Tensor | None = None,
    training_mode: Tensor | None = None,
) -> list[Tensor]:
    if training_mode is not None and bool(n.settle(training_mode).reshape(())):
        raise n.limit("dropout while a network is trained")
    made = x + bias
    return [made if residual is None else made + residual, n.verbs.numbers(True, i1, x.shape)]
