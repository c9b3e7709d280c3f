# SPDX-License-Identifier: Apache-2.0
"""An op that prints its operand and returns it."""

from __future__ import annotations

from typing import Any

import numpy as np

from .host_ops import HostDefinition
from .stating import stating
from .tensor import Tensor
from .values import as_op


@stating
def PrintOp(x: Any, prefix: str | None = None) -> Tensor:
    """The value of x, printed (`prefix: array`) to the standard output whenever it is computed.

    Value and gradient go through it. It runs on the host, on every transformer, and only where its value is needed.
    """

    def printed(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        print(value if prefix is None else f"{prefix}: {value}", flush=True)
        return value

    def gradient(delta: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return delta

    op = HostDefinition(printed)
    op.gradient(gradient)
    return op(as_op(x))
