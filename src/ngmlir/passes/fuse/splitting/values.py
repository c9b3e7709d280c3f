# SPDX-License-Identifier: Apache-2.0
"""Values in other shapes and of other elements, and parts of values."""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.attributes import Attribute
from ....ir.core import Op, Value
from ....ir.elements import ElementsAttr
from ....ir.types import FloatType, TensorType, Type, element_type, f32, i32, shape_of, with_element
from ....ops.builder import Builder
from ....ops.fields import get_i64s
from ...analysis.group import splat
from ...analysis.reduction import Accumulation
from ...analysis.views import source, view

#: Ops that follow each other and are computed again of parts of what they read.
MOST_OPS = 8


def taken(b: Builder, value: Value, axis: int, start: int, stop: int) -> Value:
    """What lies from `start` to `stop` along an axis. Of what a few elementwise ops compute, it is computed of such parts: a
    kernel reads these where they lie, and nothing is made in memory for it."""
    return _Part(b, shape_of(value.type), axis, start, stop).of(value, MOST_OPS)


class _Part:
    """A part of values of one shape, each made once."""

    def __init__(self, b: Builder, shape: Sequence[int], axis: int, start: int, stop: int):
        self.b, self.shape, self.axis, self.start, self.stop = b, tuple(shape), axis, start, stop
        self.known: dict[Value, Value] = {}

    def of(self, value: Value, depth: int) -> Value:
        """The part of a value, which may be seen in another shape; computed by ops that follow each other so often at most."""
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
            literal = owner.attributes["value"]
            assert isinstance(literal, ElementsAttr)
            return b.constant(type=type, value=literal.of_type(type))
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
        """Whether parts of what an op reads need not be made first."""
        owners = [owner for v in op.operands if isinstance(owner := source(v).owner, Op)]
        return all(
            owner.name != "ng.iota"
            and (owner.name != "ng.broadcast" or shape_of(owner.result.type) == self.shape)
            for owner in owners
        )


def spread_shape(value: Value, depth: int = MOST_OPS) -> tuple[int, ...] | None:
    """Of what few elementwise ops compute in one line, the shape of which something is spread along some dimensions: it would
    be made in memory if these did not stay apart. None if nothing is."""
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
    """What few elementwise ops compute, computed in another shape."""
    return _Part(b, shape, 0, 0, shape[0]).of(value, MOST_OPS)


def sliced(b: Builder, value: Value, axis: int, start: int, stop: int) -> Value:
    """What lies from `start` to `stop` along an axis of a value as it is."""
    shape = shape_of(value.type)
    if (start, stop) == (0, shape[axis]):
        return value
    starts = [start if d == axis else 0 for d in range(len(shape))]
    limits = [stop if d == axis else size for d, size in enumerate(shape)]
    return b.slice(value, starts=starts, limits=limits, steps=[1] * len(shape))


def with_rest(b: Builder, name: str, value: Value, source: Value, axis: int, start: int) -> Value:
    """What was reduced along an axis in parts, with the rest of `source` joined to it, which begins at `start`: one step of it
    for each part at a time. Of the last ones, as many are read; those that were taken in before leave everything as it is."""
    gathered = Accumulation(name, element_type(source.type))
    parts, stop = (shape_of(v.type)[axis] for v in (value, source))
    for first in range(start, stop, parts):
        end = min(first + parts, stop)
        rest = widened(b, name, taken(b, source, axis, end - parts, end))
        if before := parts - (end - first):
            count = b.iota(type=with_element(rest.type, i32), dimension=axis)
            taken_in = b.less(count, b.number(before, count.type))
            rest = b.select(taken_in, b.number(gathered.start, rest.type), rest)
        value = gathered.combine(b, value, rest)
    return value


def widened(b: Builder, name: str, value: Value) -> Value:
    """What a reduction takes in: sums and products of f16 and bf16 are f32 until the end."""
    element = element_type(value.type)
    if name in ("sum", "product") and isinstance(element, FloatType) and element.width < 32:
        return b.cast(value, type=with_element(value.type, f32))
    return value


def converted(b: Builder, value: Value, element: Type) -> Value:
    """The value with elements of a type."""
    if element_type(value.type) is element:
        return value
    return b.cast(value, type=with_element(value.type, element))


def moved_on(b: Builder, value: Value, axis: int, reverse: bool, start: Attribute) -> Value:
    """The value one place further along an axis (`reverse`: back), with `start` in the place that becomes free."""
    rank = len(shape_of(value.type))
    free = [int(d == axis) for d in range(rank)]
    low, high = ([0] * rank, free) if reverse else (free, [0] * rank)
    return b.pad(value, low=low, high=high, value=start)


def along(b: Builder, name: str, value: Value, axis: int) -> Value:
    """The value reduced along an axis; of one element there is nothing to reduce."""
    shape = shape_of(value.type)
    if shape[axis] == 1:
        return view(b, value, (*shape[:axis], *shape[axis + 1 :]))
    return getattr(b, name)(value, axes=[axis])


def parted(b: Builder, value: Value, axis: int, parts: int) -> Value:
    """The value with an axis cut into so many parts."""
    shape = shape_of(value.type)
    return view(b, value, (*shape[:axis], parts, shape[axis] // parts, *shape[axis + 1 :]))


def spread(b: Builder, value: Value, axis: int) -> Value:
    """The value with an axis of one element."""
    shape = shape_of(value.type)
    return view(b, value, (*shape[:axis], 1, *shape[axis:]))
