# SPDX-License-Identifier: Apache-2.0
"""How the generated elementwise functions apply an op: which elements its operands get, and whose axes the result."""

from __future__ import annotations

from typing import Any

from ...ir.types import FloatType
from ..errors import UserError, fail
from ..tensor import Tensor
from ..values import as_op, element_of
from ..verbs import VERBS
from ..verbs import cast as cast_elements
from .coerce import align, common_element, floating, operand, result_element


def unary(name: str, x: Any, dtype: Any = None) -> Tensor:
    """Of one number: float32 unless `dtype` says otherwise."""
    return getattr(VERBS, name)(floating(x, dtype))


def unary_bits(name: str, x: Any) -> Tensor:
    """Of the bits of one integer or bool."""
    return getattr(VERBS, name)(as_op(x))


def binary(name: str, x: Any, y: Any, dtype: Any = None) -> Tensor:
    """Of two numbers, matched by axis name: float32 unless `dtype` says otherwise."""
    element = result_element(dtype)
    return getattr(VERBS, name)(*align(operand(x, element), operand(y, element)))


def compare(name: str, x: Any, y: Any, dtype: Any = None) -> Tensor:
    """Of two numbers in the type that holds both; a bool unless `dtype` says otherwise."""
    element = common_element(x, y)
    truth = getattr(VERBS, name)(*align(operand(x, element), operand(y, element)))
    return truth if dtype is None else cast_elements(truth, element_of(dtype))


def binary_bits(name: str, x: Any, y: Any) -> Tensor:
    """Of two integers or bools, in the type that holds both."""
    element = common_element(x, y)
    if isinstance(element, FloatType):
        fail(
            UserError,
            f"{name} works on integers and bools, not on {element}",
            "cast with ng.cast(x, 'i32'), or compare first",
        )
    return getattr(VERBS, name)(*align(operand(x, element), operand(y, element)))
