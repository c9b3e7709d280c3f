# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions whose form does not follow from an op: of several ops, of mixed types, or of no op at all."""

from __future__ import annotations

import math
from typing import Any

from ...ir.types import f32, i1
from ...ops.ng import BitcastOp
from ..errors import UserError, fail
from ..tensor import Tensor
from ..values import as_op as any_tensor
from ..values import element_of
from ..verbs import VERBS
from .applying import binary_bits
from .coerce import align, as_op, broadcast, operand, result_axes, result_element
from .elementwise import add, equal, log, maximum, minimum, not_equal

#: Below this, `safelog` does not go.
safelog_cutoff = 50.0


def safelog(x: Any, limit: float = -safelog_cutoff) -> Tensor:
    """The logarithm, limited from below by about `limit`: max(log(x + exp(limit)), limit)."""
    return maximum(log(add(x, math.exp(limit))), limit)


def _truth(x: Any) -> Tensor:
    x = as_op(x)
    return x if x.element is i1 else not_equal(x, 0)


def logical_and(x: Any, y: Any) -> Tensor:
    """True where both are true (not 0)."""
    return binary_bits("bitwise_and", _truth(x), _truth(y))


def logical_or(x: Any, y: Any) -> Tensor:
    """True where at least one is true (not 0)."""
    return binary_bits("bitwise_or", _truth(x), _truth(y))


def logical_not(x: Any) -> Tensor:
    """True where 0 or false."""
    return VERBS.bitwise_not(_truth(x))


# ---- other


def where(condition: Any, x: Any, y: Any, dtype: Any = None) -> Tensor:
    """x where the condition is true, otherwise y."""
    condition = _truth(condition)
    same = isinstance(x, Tensor) and isinstance(y, Tensor) and x.element is y.element
    element = x.element if same and dtype is None else result_element(dtype, x, y, whole=True)
    x, y = align(operand(x, element), operand(y, element))
    axes = result_axes(x.axes, condition.axes)
    return VERBS.select(broadcast(condition, axes), broadcast(x, axes), broadcast(y, axes))


def fma(x: Any, y: Any, z: Any, dtype: Any = None) -> Tensor:
    """x * y + z, rounded once."""
    element = result_element(dtype, x, y, z)
    x, y = align(operand(x, element), operand(y, element))
    z = operand(z, element)
    axes = result_axes(x.axes, z.axes)
    return VERBS.fma(broadcast(x, axes), broadcast(y, axes), broadcast(z, axes))


def clip(x: Any, low: Any, high: Any, dtype: Any = None) -> Tensor:
    """x, limited to the interval between two bounds."""
    return minimum(maximum(x, low, dtype), high, dtype)


def bitcast(x: Tensor, dtype: Any) -> Tensor:
    """Reinterprets the bits as another element type of the same width."""
    return VERBS.stated(BitcastOp, [x], {}, x.axes, element_of(dtype))


class _ToItsArgument:
    """The derivative of what differs from its argument by a rounding."""

    def __init__(self, x: Tensor):
        self.args = (x,)

    def generate_adjoints(self, adjoints: Any, delta: Any, x: Tensor) -> None:
        x.generate_add_delta(adjoints, delta)


def round_to_tf32(x: Any) -> Tensor:
    """x with ten bits behind the point in place of the 23 of f32: the nearest such number, of two the one farther from zero.

    Products of two sides that are rounded so are sums in f32 of exact products everywhere, and GPUs have matrix instructions
    for them. The gradient is that of x.
    """
    x = as_op(x)
    if x.element is not f32:
        fail(UserError, f"round_to_tf32 is of f32, not of {x.element}", hint="cast with ng.cast(x, 'f32')")
    nearest = add(bitcast(x, "i32"), 1 << 12, dtype="i32")
    rounded = bitcast(binary_bits("bitwise_and", nearest, -(1 << 13)), "f32")
    made = where(equal(x, x), rounded, math.nan)
    made.deriv_handler = _ToItsArgument(x)
    return made


class StopGradientOp(Tensor):
    """The value of its argument, to which no gradient flows."""

    is_alias = True


def stop_gradient(x: Any) -> Tensor:
    """x, treated as a constant by derivatives."""
    x = any_tensor(x)
    return StopGradientOp([x], None, x.axes, x.element)
