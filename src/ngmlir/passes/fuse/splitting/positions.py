# SPDX-License-Identifier: Apache-2.0
"""Argmax and argmin along an axis in parts of it."""

from __future__ import annotations

from ....ir.core import Op, Value
from ....ir.types import TensorType, element_type, i32, i64, shape_of
from ....ops.builder import Builder
from ...analysis.views import view
from .factors import Cut
from .values import along, computed_slice, converted, sliced, split_axis, with_unit_axis


def best_in_parts(op: Op, b: Builder, line: Value, axis: int, cut: Cut) -> Value:
    """Positions by a search in each part, and then a search for the part with the best element."""
    size = shape_of(line.type)[axis]

    def bests(first: int, count: int, steps: int) -> tuple[Value, Value]:
        """The positions of the best elements of `count` parts of `steps` elements from `first` on, and these elements."""
        parts = split_axis(b, sliced(b, line, axis, first, first + count * steps), axis, count)
        places = searched(op, b, parts, axis + 1)
        values = b.gather_elements(parts, with_unit_axis(b, places, axis + 1), axis=axis + 1)
        return places, view(b, values, shape_of(places.type))

    found, best = bests(0, *cut)
    if rest := size - cut.parts * cut.length:
        behind = bests(cut.parts * cut.length, 1, rest)
        found, best = (b.concatenate([x, y], axis=axis) for x, y in zip((found, best), behind, strict=True))
    part = searched(op, b, best, axis)
    within = b.gather_elements(found, with_unit_axis(b, part, axis), axis=axis)
    start = b.multiply(part, b.number(cut.length, part.type))
    return b.add(start, view(b, within, shape_of(part.type)))


def best_part(op: Op, b: Builder, line: Value, axis: int, cut: Cut) -> Value:
    """Positions by a search for the part with the best element, and then in it; for parts that leave a remainder."""
    size, whole = shape_of(line.type)[axis], cut.parts * cut.length
    name = op.name.removeprefix("ng.arg")
    best = along(b, name, split_axis(b, computed_slice(b, line, axis, 0, whole), axis, cut.parts), axis + 1)
    rest = computed_slice(b, line, axis, whole, size)
    best = b.concatenate([best, with_unit_axis(b, along(b, name, rest, axis), axis)], axis=axis)
    part = searched(op, b, best, axis)
    start = b.multiply(part, b.number(cut.length, part.type))
    # A shorter last part is filled with copies of its last element, which are never found, as they are not the first.
    shape = [cut.length if d == axis else n for d, n in enumerate(shape_of(line.type))]
    places = TensorType(tuple(shape), i32 if size < 1 << 31 else i64)
    kept = [d for d in range(len(shape)) if d != axis]
    first = b.broadcast(converted(b, start, places.element), type=places, dimensions=kept)
    index = b.minimum(b.add(first, b.iota(type=places, dimension=axis)), b.number(size - 1, places))
    return b.add(start, searched(op, b, b.gather_elements(line, index, axis=axis), axis))


def searched(op: Op, b: Builder, value: Value, axis: int) -> Value:
    """The positions of the best elements along an axis, by an op like `op`."""
    kept = [size for d, size in enumerate(shape_of(value.type)) if d != axis]
    type = TensorType(tuple(kept), element_type(op.results[0].type))
    return getattr(b, op.name.removeprefix("ng."))(value, type=type, axes=[axis])
