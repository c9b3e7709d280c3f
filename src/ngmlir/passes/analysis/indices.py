# SPDX-License-Identifier: Apache-2.0
"""Conversion of indices of any integer type (scalars, tiles or tensors) to positions along an axis."""

from __future__ import annotations

from ...ir.core import Op, Value
from ...ir.types import IntegerType, element_type, i8, i64, index, shape_of, ui8, with_element
from ...ops.builder import Builder
from ...ops.tile_rules import BYTE_TABLE
from ...support.lengths import are_same
from ...support.target import Target


def in_byte_table(gather: Op, target: Target) -> bool:
    """Whether a gather reads from a table of bytes that has an element for each of its indices, which vector instructions look up."""
    table, indices = gather.operands
    known = are_same(shape_of(table.type), (BYTE_TABLE,)) and element_type(table.type) in (ui8, i8)
    return known and element_type(indices.type) is ui8 and target.can("byte_lookups")


def wide(b: Builder, index: Value) -> Value:
    """Indices as i64. Unsigned 64-bit indices beyond the signed range stay out of range."""
    element, type = element_type(index.type), with_element(index.type, i64)
    if index.type is type:
        return index
    if isinstance(element, IntegerType) and element.unsigned and element.width == 64:
        index = b.minimum(index, b.number((1 << 63) - 1, index.type))
    return b.cast(index, type=type)


def position(b: Builder, index: Value, size: int) -> Value:
    """Indices as i64 positions: negative ones count from the end of the axis; those out of range stay out of range."""
    place = wide(b, index)
    zero, extent = b.number(0, place.type), b.number(size, place.type)
    return b.select(b.less(place, zero), b.add(place, extent), place)


def clamped(b: Builder, index: Value, size: int) -> Value:
    """Indices as positions that are clamped to the axis; negative ones count from the end."""
    return within(b, position(b, index, size), size - 1)


def within(b: Builder, place: Value, most: int) -> Value:
    """A position clamped to the range from 0 to `most`."""
    least, limit = [b.index(n) if place.type is index else b.number(n, place.type) for n in (0, most)]
    return b.minimum(b.maximum(place, least), limit)
