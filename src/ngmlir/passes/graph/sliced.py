# SPDX-License-Identifier: Apache-2.0
"""Computes slices of values from slices of operands: what is cut away is not computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...ir.core import Op, Value
from ...ir.types import TensorType, element_type, shape_of
from ...ops.builder import Builder
from ...ops.fields import get_i64s
from ...support.lengths import is_same
from .window_products import part_of_windows, sliced_product

#: Whether a value has no other use than the slice, and is computed in the same block.
Alone = Callable[[Value], bool]


class Part(NamedTuple):
    """The elements start, start + step, ... before limit of each dimension."""

    starts: Sequence[int]
    limits: Sequence[int]
    steps: Sequence[int]

    @staticmethod
    def of(slice: Op) -> Part:
        return Part(*(get_i64s(slice, name) for name in ("starts", "limits", "steps")))

    def of_operand(self, homes: Sequence[int | None], shape: Sequence[int]) -> Part:
        """The part of an operand of which each dimension is that of the result in `homes`, all of the dimension where that is None."""
        whole = ([0] * len(shape), shape, [1] * len(shape))
        return Part(
            *(
                [every[d] if home is None else own[home] for d, home in enumerate(homes)]
                for own, every in zip(self, whole, strict=True)
            )
        )

    def is_whole(self, shape: Sequence[int]) -> bool:
        return all(
            start == 0 and step == 1 and is_same(limit, size)
            for start, limit, step, size in zip(*self, shape, strict=True)
        )


def cut(value: Value, part: Part, wanted: TensorType, alone: Alone, b: Builder, depth: int = 8) -> Value:
    """A part of a value, of the type `wanted` but for its elements. Elementwise ops without other uses, broadcasts, and reductions of
    windows are computed on parts of their operands."""
    owner, shape = value.owner, shape_of(value.type)
    wanted = TensorType(wanted.shape, element_type(value.type), wanted.encoding)
    if part.is_whole(shape):
        return value
    if not isinstance(owner, Op):
        return b.slice(value, **part._asdict())

    def of(operand: Value, homes: Sequence[int | None]) -> Value:
        """The part of an operand."""
        own = part.of_operand(homes, shape_of(operand.type))
        sizes = [
            size if home is None else wanted.shape[home]
            for home, size in zip(homes, shape_of(operand.type), strict=True)
        ]
        type = operand.type
        assert isinstance(type, TensorType)
        return cut(operand, own, TensorType(tuple(sizes), type.element, type.encoding), alone, b, depth - 1)

    if owner.name == "ng.broadcast":
        return _changed(owner, [of(owner.operands[0], get_i64s(owner, "dimensions"))], wanted, b)
    if owner.name == "ng.windows":
        return part_of_windows(owner, *part, b)
    if not depth or not alone(value):
        return b.slice(value, **part._asdict())
    if "elementwise" in owner.traits:
        return _changed(owner, [of(o, range(len(shape))) for o in owner.operands], wanted, b)
    homes = _homes(owner) if leads_to_windows(value, alone) else None
    if homes is not None:
        return _changed(owner, [of(owner.operands[0], homes)], wanted, b)
    made = sliced_product(owner, *part, wanted, b) if owner.name == "ng.dot" else None
    return b.slice(value, **part._asdict()) if made is None else made


def leads_to_windows(value: Value, alone: Alone, depth: int = 8) -> bool:
    """Whether a value is a reduction or a product of windows, of which a part is one of a part of the windows."""
    owner = value.owner
    if not isinstance(owner, Op) or not depth:
        return False
    if owner.name in ("ng.windows", "ng.broadcast"):
        return owner.name == "ng.windows" or leads_to_windows(owner.operands[0], alone, depth - 1)
    if not alone(value):
        return False
    if "elementwise" in owner.traits or owner.name == "ng.dot" or _homes(owner) is not None:
        return any(leads_to_windows(o, alone, depth - 1) for o in owner.operands)
    return False


def _homes(op: Op) -> list[int | None] | None:
    """For each dimension of the operand of a reduction, or of an op that only adds and drops dimensions of one element, that of the
    result; None where it has none. None for other ops."""
    if len(op.operands) != 1:
        return None
    shape, result = shape_of(op.operands[0].type), shape_of(op.results[0].type)
    if "reduction" in op.traits and len(op.results) == 1:
        axes = get_i64s(op, "axes")
        return [None if d in axes else d - sum(a < d for a in axes) for d in range(len(shape))]
    if op.name not in ("ng.reshape", "ng.cast_axes"):
        return None
    own, made = ([d for d, size in enumerate(sizes) if not is_same(size, 1)] for sizes in (shape, result))
    if len(own) != len(made) or not all(is_same(shape[d], result[e]) for d, e in zip(own, made, strict=True)):
        return None
    there = dict(zip(own, made, strict=True))
    return [there.get(d) for d in range(len(shape))]


def _changed(op: Op, operands: Sequence[Value], type: TensorType, b: Builder) -> Value:
    """The result of a copy of an op with other operands."""
    return b.add_op(op.rebuilt(operands, types=[type])).result
