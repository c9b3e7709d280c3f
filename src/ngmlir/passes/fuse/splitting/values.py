# SPDX-License-Identifier: Apache-2.0
"""Values in other shapes and element types, and slices of values."""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.attributes import Attribute
from ....ir.core import Op, Value
from ....ir.types import FloatType, TensorType, Type, element_type, f32, i32, shape_of, with_element
from ....ops.builder import Builder
from ....ops.fields import get_i64s
from ...analysis.group import splat, with_type
from ...analysis.reduction import Accumulation
from ...analysis.views import source, view

#: Longest chain of elementwise ops that are computed again on slices of their operands.
MOST_OPS = 8


def computed_slice(b: Builder, value: Value, axis: int, start: int, stop: int) -> Value:
    """The slice from `start` to `stop` along an axis. If a few elementwise ops compute the value, they are computed on slices of their
    operands: a kernel reads these in place, and the value is not stored."""
    return _Part(b, shape_of(value.type), axis, start, stop).of(value, MOST_OPS)


class _Part:
    """Slices of values of one shape, each made once."""

    def __init__(self, b: Builder, shape: Sequence[int], axis: int, start: int, stop: int):
        self.b, self.shape, self.axis, self.start, self.stop = b, tuple(shape), axis, start, stop
        self.known: dict[Value, Value] = {}

    def of(self, value: Value, depth: int) -> Value:
        """The slice of a value, which may be reshaped; computed by chains of at most `depth` ops."""
        if value not in self.known:
            self.known[value] = self.made(value, depth)
        return self.known[value]

    def made(self, value: Value, depth: int) -> Value:
        b, owner = self.b, value.owner
        shape = (*self.shape[: self.axis], self.stop - self.start, *self.shape[self.axis + 1 :])
        type = TensorType(shape, element_type(value.type))
        if isinstance(owner, Op) and owner.name == "ng.reshape":
            return self.of(owner.operands[0], depth)
        if isinstance(owner, Op) and owner.name == "ng.constant" and splat(owner):
            return with_type(owner, type, b)
        if isinstance(owner, Op) and owner.name == "ng.broadcast" and shape_of(value.type) == self.shape:
            dimensions, (source,) = get_i64s(owner, "dimensions"), owner.operands
            if self.axis in dimensions:
                source = sliced(b, source, dimensions.index(self.axis), self.start, self.stop)
            return b.broadcast(source, type=type, dimensions=dimensions)
        if isinstance(owner, Op) and "elementwise" in owner.traits and depth and self.takes_in(owner):
            operands = [self.of(v, depth - 1) for v in owner.operands]
            return b.add_op(owner.rebuilt(operands, types=[type])).result
        return sliced(b, view(b, value, self.shape), self.axis, self.start, self.stop)

    def takes_in(self, op: Op) -> bool:
        """Whether slices of the operands of an op can be read in place."""
        owners = [owner for v in op.operands if isinstance(owner := source(v).owner, Op)]
        return all(
            owner.name != "ng.iota"
            and (owner.name != "ng.broadcast" or shape_of(owner.result.type) == self.shape)
            for owner in owners
        )


def spread_shape(value: Value, depth: int = MOST_OPS) -> tuple[int, ...] | None:
    """For a flattened value that a few elementwise ops compute: the shape of a broadcast that is reshaped to an operand of one. If
    its dimensions were merged, the broadcast would be stored in memory. None if there is none."""
    shape, owner = shape_of(value.type), value.owner
    if not isinstance(owner, Op) or not depth:
        return None
    if owner.name == "ng.reshape":
        seen = source(value)
        spread = isinstance(seen.owner, Op) and seen.owner.name == "ng.broadcast"
        return shape_of(seen.type) if spread and shape_of(seen.type) != shape else None
    if "elementwise" not in owner.traits:
        return None
    return next((found for v in owner.operands if (found := spread_shape(v, depth - 1))), None)


def in_shape(b: Builder, value: Value, shape: Sequence[int]) -> Value:
    """A value that a few elementwise ops compute, computed in another shape."""
    return _Part(b, shape, 0, 0, shape[0]).of(value, MOST_OPS)


def sliced(b: Builder, value: Value, axis: int, start: int, stop: int) -> Value:
    """The slice from `start` to `stop` along an axis of a value; the value itself if that is all of it."""
    shape = shape_of(value.type)
    if (start, stop) == (0, shape[axis]):
        return value
    starts = [start if d == axis else 0 for d in range(len(shape))]
    limits = [stop if d == axis else size for d, size in enumerate(shape)]
    return b.slice(value, starts=starts, limits=limits, steps=[1] * len(shape))


def with_rest(b: Builder, name: str, value: Value, source: Value, axis: int, start: int) -> Value:
    """Combines the results of parts of `source` along an axis with the remainder, which begins at `start`: one element with each
    result at a time. The last elements are read by a slice of the same length that ends with `source`; those of it that were
    combined before are replaced by the neutral element."""
    gathered = Accumulation(name, element_type(source.type))
    parts, stop = (shape_of(v.type)[axis] for v in (value, source))
    for first in range(start, stop, parts):
        end = min(first + parts, stop)
        rest = widened(b, name, computed_slice(b, source, axis, end - parts, end))
        if before := parts - (end - first):
            count = b.iota(type=with_element(rest.type, i32), dimension=axis)
            taken_in = b.less(count, b.number(before, count.type))
            rest = b.select(taken_in, b.number(gathered.start, rest.type), rest)
        value = gathered.combine(b, value, rest)
    return value


def widened(b: Builder, name: str, value: Value) -> Value:
    """The operand of a reduction: f16 and bf16 are widened to f32 for sums and products."""
    element = element_type(value.type)
    if name in ("sum", "product") and isinstance(element, FloatType) and element.width < 32:
        return b.cast(value, type=with_element(value.type, f32))
    return value


def converted(b: Builder, value: Value, element: Type) -> Value:
    """The value cast to an element type."""
    if element_type(value.type) is element:
        return value
    return b.cast(value, type=with_element(value.type, element))


def moved_on(b: Builder, value: Value, axis: int, reverse: bool, start: Attribute) -> Value:
    """The value shifted by one along an axis (`reverse`: backwards), with `start` in the free position, and one element longer."""
    rank = len(shape_of(value.type))
    free = [int(d == axis) for d in range(rank)]
    low, high = ([0] * rank, free) if reverse else (free, [0] * rank)
    return b.pad(value, low=low, high=high, value=start)


def along(b: Builder, name: str, value: Value, axis: int) -> Value:
    """The value reduced along an axis; a reshape if it has one element."""
    shape = shape_of(value.type)
    if shape[axis] == 1:
        return view(b, value, (*shape[:axis], *shape[axis + 1 :]))
    return getattr(b, name)(value, axes=[axis])


def split_axis(b: Builder, value: Value, axis: int, parts: int) -> Value:
    """The value with an axis split into (parts, length)."""
    shape = shape_of(value.type)
    return view(b, value, (*shape[:axis], parts, shape[axis] // parts, *shape[axis + 1 :]))


def with_unit_axis(b: Builder, value: Value, axis: int) -> Value:
    """The value with an axis of size 1 added."""
    shape = shape_of(value.type)
    return view(b, value, (*shape[:axis], 1, *shape[axis:]))
