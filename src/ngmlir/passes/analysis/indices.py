# SPDX-License-Identifier: Apache-2.0
"""Indices of any integer type, scalars, tiles or tensors of them, as positions along an axis."""

from __future__ import annotations

from ...ir.core import Value
from ...ir.types import IntegerType, element_type, i64, index, with_element
from ...ops.builder import Builder


def wide(b: Builder, index: Value) -> Value:
    """As signed 64-bit. Unsigned 64-bit ones beyond the signed range stay out of range."""
    element, type = element_type(index.type), with_element(index.type, i64)
    if index.type is type:
        return index
    if isinstance(element, IntegerType) and element.unsigned and element.width == 64:
        index = b.minimum(index, b.number((1 << 63) - 1, index.type))
    return b.cast(index, type=type)


def position(b: Builder, index: Value, size: int) -> Value:
    """Those that count from the end of an axis as positions; what is out of range stays so."""
    place = wide(b, index)
    zero, extent = b.number(0, place.type), b.number(size, place.type)
    return b.select(b.less(place, zero), b.add(place, extent), place)


def clamped(b: Builder, index: Value, size: int) -> Value:
    """A negative index counts from the end; then all are clamped to the axis."""
    return within(b, position(b, index, size), size - 1)


def within(b: Builder, place: Value, most: int) -> Value:
    """A place, or the nearest from 0 to the most."""
    least, limit = [b.index(n) if place.type is index else b.number(n, place.type) for n in (0, most)]
    return b.minimum(b.maximum(place, least), limit)
