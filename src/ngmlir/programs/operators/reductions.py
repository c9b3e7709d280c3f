# SPDX-License-Identifier: Apache-2.0
"""Sums, means and the like over some dimensions. One number is a tensor of shape [1]."""

from __future__ import annotations

from collections.abc import Sequence

from ... import numpy as np
from ...op_graph.tensor import Tensor
from ..registry import operator


@operator
def mean(x: Tensor) -> Tensor:
    return np.reshape(np.mean(x), [1])


@operator
def reduce_sum(x: Tensor, *, dim: Sequence[int], keep_dim: bool, reduce_all: bool) -> Tensor:
    axes = None if reduce_all else tuple(dim)
    made = np.sum(x, axis=axes, keepdims=keep_dim)
    return made if made.type.shape else np.reshape(made, [1])


@operator
def top_k(x: Tensor, *, k: int) -> tuple[Tensor, Tensor]:
    values, places = np.top_k(x, k)
    return values, np.astype(places, np.int64)
