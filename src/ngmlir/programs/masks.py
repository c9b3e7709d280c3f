# SPDX-License-Identifier: Apache-2.0
"""Masks of rows: one truth for each row, of whatever shape the rows are."""

from __future__ import annotations

from typing import Any

from .. import numpy as np
from ..op_graph.tensor import Tensor


def beside(mask: Tensor, x: Tensor) -> Tensor:
    """A mask of rows in the rank of x."""
    return np.reshape(mask, (*mask.type.shape, *(1,) * (len(x.type.shape) - len(mask.type.shape))))


def where_rows(mask: Tensor, x: Any, y: Any) -> Tensor:
    """Rows of x where the mask holds, else of y."""
    return np.where(beside(mask, x if isinstance(x, Tensor) else y), x, y)
