# SPDX-License-Identifier: Apache-2.0
"""Operators that were experiments of the first versions of ONNX: older converters write them, and ONNX Runtime reads them."""

from __future__ import annotations

import numpy as np

from ....ir.literals import dtype_of
from ....support.diagnostics import UserError
from ..nodes import Node, operator
from ..tensor import Tensor


@operator("Affine")
def affine(n: Node, x: Tensor) -> Tensor:
    return x * n.number("alpha", 1.0) + n.number("beta")


@operator("ImageScaler")
def image_scaler(n: Node, x: Tensor) -> Tensor:
    """All pixels times a number, and of each channel one more."""
    bias = n.verbs.known(np.array(n.floats("bias") or [0.0], dtype_of(x.element)))
    return x * n.number("scale", 1.0) + bias.with_axes([1, 2])


@operator("ParametricSoftplus")
def parametric_softplus(n: Node, x: Tensor) -> Tensor:
    return n.verbs.softplus(x * n.number("beta")) * n.number("alpha")


@operator("ScaledTanh")
def scaled_tanh(n: Node, x: Tensor) -> Tensor:
    return n.verbs.tanh(x * n.number("beta")) * n.number("alpha")


@operator("Crop")
def crop(n: Node, x: Tensor) -> Tensor:
    """An image without its border (left, top, right, bottom), or of a height and width, from the corner that the first two leave."""
    left, top, right, bottom = n.given("border", [0, 0, 0, 0])
    height, width = n.given("scale", [x.shape[2] - top - bottom, x.shape[3] - left - right])
    if height < 0 or width < 0 or top + height > x.shape[2] or left + width > x.shape[3]:
        raise UserError(f"the part does not lie in an image of {x.shape[2]}x{x.shape[3]}")
    return x.part(2, top, top + height).part(3, left, left + width)
