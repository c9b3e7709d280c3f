# SPDX-License-Identifier: Apache-2.0
"""Functions that layers end with."""

from __future__ import annotations

from ... import numpy as np
from ...op_graph.functions.composed import stop_gradient
from ...op_graph.tensor import Tensor
from ..registry import operator


@operator
def relu(x: Tensor) -> Tensor:
    return np.relu(x)


@operator
def sigmoid(x: Tensor) -> Tensor:
    return np.sigmoid(x)


@operator
def tanh(x: Tensor) -> Tensor:
    return np.tanh(x)


#: How far below the largest of its row a score counts in a softmax.
FARTHEST = 64.0


def below_largest(x: Tensor) -> Tensor:
    """How far each score is below the largest of its row, at most FARTHEST."""
    largest = stop_gradient(np.max(x, axis=-1, keepdims=True))
    return np.maximum(np.subtract(x, largest), -FARTHEST)


@operator
def softmax(x: Tensor, *, is_test: bool) -> Tensor:
    return np.softmax(below_largest(x), axis=-1)
