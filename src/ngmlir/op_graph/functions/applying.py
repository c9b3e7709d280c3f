# SPDX-License-Identifier: Apache-2.0
"""How the generated elementwise functions apply an op: which elements its operands get, and whose axes the result."""

from __future__ import annotations

from functools import cache
from typing import Any

from ...ir.types import FloatType, IntegerType
from ...ops.ng import OPS
from ..errors import UserError, fail
from ..tensor import Tensor
from ..values import element_of
from ..verbs import VERBS
from ..verbs import cast as cast_elements
from .coerce import align, as_op, common_element, floating, number, operand, result_element


@cache
def _has_integers(name: str) -> bool:
    """Whether an op of integers gives the integer that the same op of numbers gives; functions of mathematics do not."""
    definition = OPS[f"ng.{name}"].definition
    assert definition is not None
    kinds = {operand.constraint.element for operand in definition.operands}
    return "float" not in kinds and "math" not in definition.traits


def unary(name: str, x: Any, dtype: Any = None) -> Tensor:
    """An elementwise op of one operand: computed in float32, or as wide as the operand, unless `dtype` is given."""
    return getattr(VERBS, name)(number(x, dtype) if _has_integers(name) else floating(x, dtype))


def have_bits(*operands: Any) -> bool:
    """Whether all are integers or bools, or hold them."""
    return all(
        isinstance(x.element, IntegerType)
        if isinstance(x, Tensor)
        else isinstance(x, int) or getattr(getattr(x, "dtype", None), "kind", "f") in "biu"
        for x in operands
    )


def unary_bits(name: str, x: Any) -> Tensor:
    """An elementwise op of the bits of an integer or bool."""
    return getattr(VERBS, name)(as_op(x))


def binary(name: str, x: Any, y: Any, dtype: Any = None) -> Tensor:
    """An elementwise op of two operands, matched by axis name: computed in float32, or as wide as an operand, unless `dtype` is given."""
    element = result_element(dtype, x, y, whole=_has_integers(name))
    return getattr(VERBS, name)(*align(operand(x, element), operand(y, element)))


def compare(name: str, x: Any, y: Any, dtype: Any = None) -> Tensor:
    """A comparison of two operands in the type that holds both; a bool unless `dtype` is given."""
    element = common_element(x, y)
    truth = getattr(VERBS, name)(*align(operand(x, element), operand(y, element)))
    return truth if dtype is None else cast_elements(truth, element_of(dtype))


def binary_bits(name: str, x: Any, y: Any) -> Tensor:
    """A bitwise op of two integers or bools, in the type that holds both."""
    element = common_element(x, y)
    if isinstance(element, FloatType):
        fail(
            UserError,
            f"{name} needs integers or booleans, not {element}",
            "use ng.cast(x, 'i32'), or a comparison",
        )
    return getattr(VERBS, name)(*align(operand(x, element), operand(y, element)))
