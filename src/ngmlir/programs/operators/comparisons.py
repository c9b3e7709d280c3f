# SPDX-License-Identifier: Apache-2.0
"""Comparisons and logic: results are bool."""

from __future__ import annotations

from typing import Any

from ... import numpy as np
from ...ir.types import FloatType
from ...op_graph.tensor import Tensor
from ..registry import operator
from .elementwise import along

#: Floats that are closer than this are equal.
CLOSE = 1e-8


@operator
def less_than(x: Tensor, y: Tensor, *, axis: int, force_cpu: bool) -> Tensor:
    return np.less(x, along(x, y, axis))


@operator
def less_equal(x: Tensor, y: Tensor, *, axis: int, force_cpu: bool) -> Tensor:
    return np.less_equal(x, along(x, y, axis))


@operator
def greater_than(x: Tensor, y: Tensor, *, axis: int, force_cpu: bool) -> Tensor:
    return np.greater(x, along(x, y, axis))


@operator
def greater_equal(x: Tensor, y: Tensor, *, axis: int, force_cpu: bool) -> Tensor:
    return np.greater_equal(x, along(x, y, axis))


@operator
def equal(x: Tensor, y: Tensor, *, axis: int, force_cpu: bool) -> Tensor:
    y = along(x, y, axis)
    if isinstance(x.element, FloatType):
        return np.logical_or(np.equal(x, y), np.less(np.absolute(np.subtract(x, y)), CLOSE))
    return np.equal(x, y)


@operator
def not_equal(x: Tensor, y: Tensor, **attributes: Any) -> Tensor:
    return np.logical_not(equal(x, y, **attributes))


@operator
def logical_and(x: Tensor, y: Tensor) -> Tensor:
    return np.logical_and(x, y)


@operator
def logical_or(x: Tensor, y: Tensor) -> Tensor:
    return np.logical_or(x, y)


@operator
def logical_xor(x: Tensor, y: Tensor) -> Tensor:
    return np.logical_xor(x, y)


@operator
def logical_not(x: Tensor) -> Tensor:
    return np.logical_not(x)
