# SPDX-License-Identifier: Apache-2.0
"""Updates of parameters: what optimizers append to a program."""

from __future__ import annotations

from ... import numpy as np
from ...op_graph.tensor import Tensor
from ..registry import operator


@operator
def sgd(param: Tensor, learning_rate: Tensor, grad: Tensor) -> Tensor:
    return np.subtract(param, np.multiply(learning_rate, grad))


@operator
def momentum(
    param: Tensor, grad: Tensor, velocity: Tensor, learning_rate: Tensor, *, mu: float, use_nesterov: bool
) -> tuple[Tensor, Tensor]:
    moved = np.add(np.multiply(velocity, mu), grad)
    by = np.add(grad, np.multiply(moved, mu)) if use_nesterov else moved
    return np.subtract(param, np.multiply(learning_rate, by)), moved


@operator
def adam(
    param: Tensor,
    grad: Tensor,
    learning_rate: Tensor,
    moment1: Tensor,
    moment2: Tensor,
    beta1_pow: Tensor,
    beta2_pow: Tensor,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
) -> tuple[Tensor, Tensor, Tensor]:
    first = np.add(np.multiply(moment1, beta1), np.multiply(grad, 1 - beta1))
    second = np.add(np.multiply(moment2, beta2), np.multiply(np.square(grad), 1 - beta2))
    corrected = np.divide(np.sqrt(np.subtract(1, beta2_pow)), np.subtract(1, beta1_pow))
    rate = np.multiply(learning_rate, corrected)
    step = np.divide(np.multiply(rate, first), np.add(np.sqrt(second), epsilon))
    return np.subtract(param, step), first, second
