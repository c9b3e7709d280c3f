# SPDX-License-Identifier: Apache-2.0
"""Layer, RMS and group normalization, also of sums."""

from __future__ import annotations

from typing import Any

from .....ir.types import f32
from .....support.diagnostics import UserError
from ...nodes import Node
from ...schemas import contributed
from ...tensor import Tensor
from ..normalization import centred


def layer_normalized(
    n: Node, x: Tensor, scale: Tensor, bias: Tensor | None, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Layer normalization along the last axis, computed in f32; its mean; the inverse of its standard deviation."""
    made, mean, inverse = centred(n, x.computed(), [x.rank - 1], epsilon)
    made = made * scale.computed()
    return (made if bias is None else made + bias.computed()).cast(x.element), mean, inverse


def rms_normalized(
    n: Node, x: Tensor, scale: Tensor, epsilon: float, axis: int = -1
) -> tuple[Tensor, Tensor]:
    """RMS normalization over the dimensions from `axis` on, computed in f32; the inverse of the root mean square."""
    wide = x.computed()
    inverse = n.verbs.rsqrt((wide * wide).mean(range(x.axis(axis), x.rank), keep=True) + epsilon)
    return (wide * inverse * scale.computed()).cast(x.element), inverse


@contributed("SimplifiedLayerNormalization", domain="", outputs=2, axis=-1, epsilon=1e-5, stash_type=1)
def simplified_layer_normalization(n: Node, x: Tensor, scale: Tensor) -> list[Tensor]:
    return list(rms_normalized(n, x, scale, n.number("epsilon"), n.integer("axis")))


def _sum_of(x: Tensor, skip: Tensor, bias: Tensor | None) -> Tensor:
    """The sum in f32."""
    made = x.computed() + skip.computed()
    return made if bias is None else made + bias.computed()


@contributed("SkipLayerNormalization", outputs=4, epsilon=1e-12)
def skip_layer_normalization(
    n: Node, x: Tensor, skip: Tensor, gamma: Tensor, beta: Tensor | None = None, bias: Tensor | None = None
) -> list[Tensor]:
    total = _sum_of(x, skip, bias)
    made, mean, inverse = layer_normalized(n, total, gamma, beta, n.number("epsilon"))
    return [made.cast(x.element), mean, inverse, total.cast(x.element)]


@contributed("SkipSimplifiedLayerNormalization", outputs=4, epsilon=1e-12)
def skip_simplified_layer_normalization(
    n: Node, x: Tensor, skip: Tensor, gamma: Tensor, bias: Tensor | None = None
) -> list[Tensor]:
    total = _sum_of(x, skip, bias)
    made, inverse = rms_normalized(n, total, gamma, n.number("epsilon"))
    mean = n.verbs.numbers(0, f32, inverse.shape)
    return [made.cast(x.element), mean, inverse, total.cast(x.element)]


@contributed("GatedRMSNorm", activation="silu", epsilon=1e-5)
def gated_rms_norm(n: Node, x: Tensor, scale: Tensor, gate: Tensor) -> Tensor:
    kind, groups = n.text("activation"), [*x.shape[:-1], x.shape[-1] // scale.size, scale.size]
    if kind not in ("silu", "swish", "sigmoid"):
        raise UserError(f"there is no gate '{kind}'", hint="there are silu, swish and sigmoid")
    made, _ = rms_normalized(n, x.computed().reshape(groups), scale, n.number("epsilon"))
    z = gate.computed()
    turned = n.verbs.sigmoid(z) if kind == "sigmoid" else z * n.verbs.sigmoid(z)
    return (made.reshape(x.shape) * turned).cast(x.element)


_GROUPS: dict[str, Any] = {"activation": int, "channels_last": 1, "epsilon": 1e-5, "groups": int}


def _of_groups(n: Node, x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    last, groups = n.flag("channels_last"), n.integer("groups")
    x = x.moved(-1, 1) if last else x
    channels = x.shape[1]
    if groups < 1 or channels % groups:
        raise UserError(f"{channels} channels in {groups} groups")
    made, _, _ = centred(
        n,
        x.reshape([x.shape[0], groups, channels // groups, *x.shape[2:]]),
        range(2, x.rank + 1),
        n.number("epsilon"),
    )
    line = [channels, *[1] * (x.rank - 2)]
    made = made.reshape(x.shape) * gamma.computed().reshape(line) + beta.computed().reshape(line)
    made = made * n.verbs.sigmoid(made) if n.flag("activation") else made
    return made.moved(1, -1) if last else made


@contributed("GroupNorm", **_GROUPS)
def group_norm(n: Node, x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    return _of_groups(n, x.computed(), gamma, beta).cast(x.element)


@contributed("SkipGroupNorm", outputs=2, **_GROUPS)
def skip_group_norm(
    n: Node, x: Tensor, gamma: Tensor, beta: Tensor, skip: Tensor, bias: Tensor | None = None
) -> list[Tensor]:
    places, rest = [x.shape[0], *[1] * (x.rank - 2), -1], [*[1] * (x.rank - 1), -1]
    if not n.flag("channels_last"):
        places, rest = [x.shape[0], -1, *[1] * (x.rank - 2)], [1, -1, *[1] * (x.rank - 2)]
    if skip.rank == 2:
        skip = skip.reshape([skip.shape[1] if d < 0 else d for d in places])
    bias = None if bias is None else bias.reshape([bias.size if d < 0 else d for d in rest])
    total = _sum_of(x, skip, bias)
    return [_of_groups(n, total, gamma, beta).cast(x.element), total.cast(x.element)]
