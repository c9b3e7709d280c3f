# SPDX-License-Identifier: Apache-2.0
"""Convolutions with a fused activation or sum, and convolutions and pooling with channels last."""

from __future__ import annotations

from typing import Any

from .....support.diagnostics import UserError
from ...nodes import Node
from ...schemas import contributed
from ...tensor import Tensor
from ..quantization import qlinear_conv
from ..windows import conv, max_pool
from .activations import activated

#: Attributes of windows.
POOLING: dict[str, Any] = {
    "auto_pad": "NOTSET",
    "dilations": list[int],
    "kernel_shape": list[int],
    "pads": list[int],
    "strides": list[int],
}
_CONVOLUTION: dict[str, Any] = {**POOLING, "group": 1}
_ACTIVATED: dict[str, Any] = {"activation": "", "activation_params": list[float]}
#: The attributes of an activation that `activation_params` holds, in order.
_NAMES = {
    "LeakyRelu": ("alpha",),
    "Clip": ("min", "max"),
    "HardSigmoid": ("alpha", "beta"),
}


def channels_first(x: Tensor) -> Tensor:
    return x.moved(-1, 1)


def channels_last(x: Tensor) -> Tensor:
    return x.moved(1, -1)


def _fused(n: Node, x: Tensor, w: Tensor, b: Tensor | None, z: Tensor | None) -> Tensor:
    made = conv(n, x, w, b)
    name, numbers = n.text("activation"), n.floats("activation_params") or []
    parameters = dict(zip(_NAMES.get(name, ()), numbers, strict=False))
    if len(parameters) < len(numbers):
        raise UserError(f"the activation '{name}' has {len(parameters)} parameters, not {len(numbers)}")
    return activated(n, made if z is None else made + z, name, parameters)


@contributed("FusedConv", **_CONVOLUTION, **_ACTIVATED)
def fused_conv(n: Node, x: Tensor, w: Tensor, b: Tensor | None = None, z: Tensor | None = None) -> Tensor:
    return _fused(n, x, w, b, z)


@contributed("NhwcConv", **_CONVOLUTION)
def nhwc_conv(n: Node, x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
    """Filters are [M, kH, kW, C / group]."""
    return channels_last(_fused(n, channels_first(x), channels_first(w), b, None))


@contributed("NhwcFusedConv", **_CONVOLUTION, **_ACTIVATED)
def nhwc_fused_conv(
    n: Node, x: Tensor, w: Tensor, b: Tensor | None = None, z: Tensor | None = None
) -> Tensor:
    """Filters are [M, C / group, kH, kW]."""
    return channels_last(_fused(n, channels_first(x), w, b, None if z is None else channels_first(z)))


@contributed("NhwcMaxPool", ceil_mode=0, **POOLING)
def nhwc_max_pool(n: Node, x: Tensor) -> Tensor:
    made = max_pool(n, channels_first(x))
    return channels_last(made[0])


@contributed("QLinearConv", channels_last=0, **_CONVOLUTION)
def qlinear_conv_either(
    n: Node,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    w: Tensor,
    w_scale: Tensor,
    w_zero: Tensor,
    scale: Tensor,
    zero: Tensor,
    bias: Tensor | None = None,
) -> Tensor:
    last = n.flag("channels_last")
    x = channels_first(x) if last else x
    made = qlinear_conv(n, x, x_scale, x_zero, w, w_scale, w_zero, scale, zero, bias)
    return channels_last(made) if last else made
