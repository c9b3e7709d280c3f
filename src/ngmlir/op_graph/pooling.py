# SPDX-License-Identifier: Apache-2.0
"""Pooling under one path: its functions, the class of what they give, and its gradient asked for by itself."""

from __future__ import annotations

from typing import Any

from .deriv import deriv
from .functions import five_axes
from .functions import pool as pool
from .functions import pooling as pooling
from .tensor import Tensor
from .user_ops import class_of

#: The class of what `pooling` gives.
PoolingOp = class_of(five_axes.pooling)


def BpropPoolOp(delta: Any, inputs: Tensor, fprop: Tensor) -> Tensor:
    """The gradient by the inputs of `fprop`, a pooling, weighted with delta. `ng.deriv` gives the same."""
    return deriv(fprop, inputs, delta)
