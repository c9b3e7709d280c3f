# SPDX-License-Identifier: Apache-2.0
"""Computes slices of values from slices of operands: what is cut away is not computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...ir.attributes import integers
from ...ir.core import Op, Value
from ...ir.types import Type, element_type, shape_of, with_element
from ...ops.builder import Builder
from ...ops.fields import get_i64s
from ...ops.rules import names_of, reshaped
from ...support.lengths import is_open, is_same
from .sunk_transposes import parts_of
from .window_products import homes_of

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


def cut(value: Value, part: Part, wanted: Type, alone: Alone, b: Builder, depth: int = 8) -> Value:
    """A part of a value, of the type `wanted` but for its elements. Elementwise ops without other uses, broadcasts, and reductions of
    windows are computed on parts of their operands."""
    owner, shape = value.owner, shape_of(value.type)
    wanted = with_element(wanted, element_type(value.type))
    if part.is_whole(shape):
        return value
    if not isinstance(owner, Op):
        return b.slice(value, **part._asdict())

    def of(operand: Value, homes: Sequence[int | None]) -> Value:
        """The part of an operand."""
        whole, made = shape_of(operand.type), shape_of(wanted)
        sizes = [size if home is None else made[home] for home, size in zip(homes, whole, strict=True)]
        type = reshaped(operand.type, sizes, names_of(operand.type))
        return cut(operand, part.of_operand(homes, whole), type, alone, b, depth - 1)

    if owner.name == "ng.broadcast":
        return _changed(owner, [of(owner.operands[0], get_i64s(owner, "dimensions"))], wanted, b)
    if owner.name == "ng.windows":
        return _windows(owner, part, b)
    if not depth or not alone(value):
        return b.slice(value, **part._asdict())
    if "elementwise" in owner.traits:
        return _changed(owner, [of(o, range(len(shape))) for o in owner.operands], wanted, b)
    homes = _homes(owner) if leads_to_windows(value, alone) else None
    if homes is not None:
        return _changed(owner, [of(owner.operands[0], homes)], wanted, b)
    made = _product(owner, part, wanted, b) if owner.name == "ng.dot" else None
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
    shape = shape_of(op.operands[0].type)
    if "reduction" in op.traits and len(op.results) == 1:
        axes = get_i64s(op, "axes")
        return [None if d in axes else d - sum(a < d for a in axes) for d in range(len(shape))]
    if op.name not in ("ng.reshape", "ng.cast_axes"):
        return None
    made = [(home, d) for d, home in enumerate(parts_of(op) or ()) if home is not None]
    there = dict(made)
    long = [d for d, size in enumerate(shape) if not is_same(size, 1)]
    return [there.get(d) for d in range(len(shape))] if len(made) == len(there) == len(long) else None


def _changed(op: Op, operands: Sequence[Value], type: Type, b: Builder) -> Value:
    """The result of a copy of an op with other operands."""
    return b.add_op(op.rebuilt(operands, types=[type])).result


def _product(dot: Op, part: Part, wanted: Type, b: Builder) -> Value | None:
    """A part of a product of windows as the product of a part of the windows; None where it is none."""
    homes, shape = homes_of(dot), shape_of(dot.results[0].type)
    fewer = [d for d, (*own, size) in enumerate(zip(*part, shape, strict=True)) if tuple(own) != (0, size, 1)]
    changed = {homes[d][0] for d in fewer}
    if len(changed) != 1 or -1 in changed:
        return None
    (side,) = changed
    windows = dot.operands[side].owner
    if not isinstance(windows, Op) or windows.name != "ng.windows":
        return None
    there = {homes[d][1]: d for d in fewer}
    own = shape_of(windows.result.type)
    sides = list(dot.operands)
    sides[side] = _windows(windows, part.of_operand([there.get(d) for d in range(len(own))], own), b)
    return _changed(dot, sides, wanted, b)


def _windows(windows: Op, part: Part, b: Builder) -> Value:
    """Some adjacent windows, as windows of a part; or a slice of windows."""
    (source,), axes, shape = windows.operands, get_i64s(windows, "axes"), shape_of(windows.result.type)
    count, whole = len(axes), shape_of(source.type)
    taps = Part(*(each[:count] for each in part))
    if not taps.is_whole(shape[:count]) or set(part.steps) != {1}:
        return b.slice(windows.result, **part._asdict())
    first, end = list(part.starts[count:]), list(part.limits[count:])
    own, dilations = get_i64s(windows, "steps"), get_i64s(windows, "dilations")
    for d, step, dilation, size in zip(axes, own, dilations, shape[:count], strict=True):
        first[d] *= step
        end[d] = (end[d] - 1) * step + (size - 1) * dilation + 1
    sizes = [limit - start for start, limit in zip(part.starts, part.limits, strict=True)]
    source = _trimmed(source, first, [size - stop for size, stop in zip(whole, end, strict=True)], b)
    type = reshaped(windows.result.type, sizes, names_of(windows.result.type))
    return b.windows(source, type=type, axes=axes, steps=own, dilations=dilations)


def _trimmed(value: Value, first: Sequence[int], last: Sequence[int], b: Builder) -> Value:
    """A value without the `first` and the `last` elements of its dimensions: less padding, if that is enough."""
    owner, shape = value.owner, shape_of(value.type)
    if isinstance(owner, Op) and owner.name == "ng.pad":
        low, high = (
            [n - m for n, m in zip(get_i64s(owner, name), less, strict=True)]
            for name, less in (("low", first), ("high", last))
        )
        if not is_open([*low, *high]) and min(*low, *high) >= 0:
            sizes = [size - n - m for size, n, m in zip(shape, first, last, strict=True)]
            types = [reshaped(value.type, sizes, names_of(value.type))]
            around = {**owner.attributes, "low": integers(low), "high": integers(high)}
            return b.add_op(owner.rebuilt(owner.operands, types=types, attributes=around)).result
    limits = [size - n for size, n in zip(shape, last, strict=True)]
    return b.slice(value, starts=first, limits=limits, steps=[1] * len(shape))
