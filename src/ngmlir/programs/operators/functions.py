# SPDX-License-Identifier: Apache-2.0
"""Functions of one tensor, element by element, and of all of it by its norm."""

from __future__ import annotations

from ... import numpy as np
from ...op_graph.tensor import Tensor
from ..definition import GradientOp
from ..descriptions import Operator
from ..names import gradient_name
from ..registry import gradient_maker, operator


@operator
def square(x: Tensor) -> Tensor:
    return np.square(x)


@operator
def abs(x: Tensor) -> Tensor:
    return np.absolute(x)


@operator
def sign(x: Tensor) -> Tensor:
    return np.sign(x)


@operator
def ceil(x: Tensor) -> Tensor:
    return np.ceil(x)


@operator
def floor(x: Tensor) -> Tensor:
    return np.floor(x)


@operator
def round(x: Tensor) -> Tensor:
    # Halves go away from 0; `trunc` of the magnitude and a half would round the greatest number below a half up.
    whole = np.trunc(x)
    far = np.greater_equal(np.absolute(np.subtract(x, whole)), 0.5)
    return np.where(far, np.add(whole, np.sign(x)), whole)


@operator
def cos(x: Tensor) -> Tensor:
    return np.cos(x)


@operator
def sin(x: Tensor) -> Tensor:
    return np.sin(x)


@operator
def exp(x: Tensor) -> Tensor:
    return np.exp(x)


@operator
def log(x: Tensor) -> Tensor:
    return np.log(x)


@operator
def sqrt(x: Tensor) -> Tensor:
    return np.sqrt(x)


@operator
def rsqrt(x: Tensor) -> Tensor:
    return np.divide(1, np.sqrt(x))


@operator
def reciprocal(x: Tensor) -> Tensor:
    return np.divide(1, x)


@operator
def pow(x: Tensor, *, factor: float) -> Tensor:
    return np.power(x, factor)


@operator
def clip_by_norm(x: Tensor, *, max_norm: float) -> Tensor:
    total = np.sum(np.square(x))
    # The root of 0 has no slope.
    norm = np.sqrt(np.where(np.greater(total, 0), total, 1))
    return np.multiply(x, np.where(np.greater(total, max_norm * max_norm), np.divide(max_norm, norm), 1))


@operator
def isfinite(x: Tensor) -> Tensor:
    return np.reshape(np.all(np.isfinite(x)), [1])


@gradient_maker("sign")
def _sign(op: Operator) -> list[GradientOp]:
    (x,), (out,) = op.inputs["X"], op.outputs["Out"]
    return [GradientOp("scale", {"X": [gradient_name(out)]}, {"Out": [gradient_name(x)]}, {"scale": 0.0})]
