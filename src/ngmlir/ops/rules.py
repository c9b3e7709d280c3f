# SPDX-License-Identifier: Apache-2.0
"""Shared by the type rules of all dialects.

A rule returns the result types or raises UserError without a location. If tensors have axis names, the rules
keep names and shapes together and reject operands whose names disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ..ir.attributes import AxesAttr
from ..ir.definition import Typing
from ..ir.types import DYNAMIC, TensorType, Type, element_type, shape_of, tile_type
from ..support.diagnostics import UserError
from .fields import get_i64, get_i64s

Types: TypeAlias = Sequence[Type]


def reshaped(
    like: Type, shape: Sequence[int], names: Sequence[str] | None = None, element: Type | None = None
) -> Type:
    """The same kind of container with another shape; a tile without dimensions is a scalar."""
    element = element or element_type(like)
    if isinstance(like, TensorType):
        return TensorType(tuple(shape), element, AxesAttr(*names) if names is not None else None)
    return tile_type(shape, element)


def names_of(type: Type) -> tuple[str, ...] | None:
    return type.axes if isinstance(type, TensorType) else None


def require(condition: bool, message: str, hint: str = "") -> None:
    if not condition:
        raise UserError(message, hint=hint)


def same_size(a: int, b: int) -> bool:
    """Whether two dimensions can be equal; an unknown one can be any."""
    return a == b or DYNAMIC in (a, b)


def same_shape(a: Type, b: Type) -> bool:
    x, y = shape_of(a), shape_of(b)
    return len(x) == len(y) and all(map(same_size, x, y))


def same_kind(a: Type, b: Type) -> bool:
    """Both tensors, or both tiles."""
    return isinstance(a, TensorType) == isinstance(b, TensorType)


def fits(what: str, given: Sequence[Type], wanted: Sequence[Type]) -> None:
    def text(types: Sequence[Type]) -> str:
        return f"({', '.join(map(str, types))})"

    require(tuple(given) == tuple(wanted), f"{what} {text(given)}, but {text(wanted)} is needed")


def axis_of(t: Typing, rank: int, name: str = "axis") -> int:
    """The axis that an attribute states, for an operand of a rank. UserError if it is out of range."""
    axis = get_i64(t, name)
    require(0 <= axis < rank, f"axis {axis} of an operand with {rank} dimensions")
    return axis


def axes_of(t: Typing, rank: int) -> tuple[int, ...]:
    """The axes that the attribute `axes` states. UserError if one is out of range or named twice."""
    axes = get_i64s(t, "axes")
    require(all(0 <= a < rank for a in axes), f"axes {list(axes)} of an operand with {rank} dimensions")
    require(len(set(axes)) == len(axes), f"axes {list(axes)} name a dimension twice")
    return axes


def without_axes(type: Type, gone: Sequence[int]) -> tuple[list[int], list[str] | None]:
    """Shape and names without some dimensions."""
    kept = [i for i in range(len(shape_of(type))) if i not in gone]
    names = names_of(type)
    return [shape_of(type)[i] for i in kept], [names[i] for i in kept] if names is not None else None
