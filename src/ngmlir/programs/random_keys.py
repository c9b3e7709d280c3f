# SPDX-License-Identifier: Apache-2.0
"""Keys of random numbers: two ui64, the seed and the stream. Each operator draws from a separate stream."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import numpy as ops
from ..ir.types import ui64
from ..op_graph.positions import Positions
from ..op_graph.tensor import Tensor
from ..op_graph.values import ConstantOp
from ..op_graph.verbs import VERBS

#: Odd: keys of different iterations are different.
_SPREAD = 0x9E3779B97F4A7C15


def of_seed(seed: int) -> Tensor:
    """The key that an operator with a seed uses in each run."""
    return ConstantOp(np.array([seed, 0], np.uint64), Positions.of([2]), ui64)


def of_operator(key: Tensor, number: int, turns: Sequence[Tensor | None]) -> Tensor:
    """The key of the operator of that number, another one in each iteration of the loops around it."""
    key = moved(key, 0, number << 32)
    for turn in turns:
        if turn is not None:
            spread = ops.multiply(key, _constant(_SPREAD))
            key = ops.add(spread, ops.stack([ops.reshape(turn, []), _constant(0)]))
    return key


def moved(key: Tensor, *by: int) -> Tensor:
    """The key with another seed or stream."""
    return VERBS.add(key, ConstantOp(np.array(by, np.uint64), key.axes, ui64))


def _constant(value: int) -> Tensor:
    return ConstantOp(np.array(value, np.uint64), Positions.of([]), ui64)
