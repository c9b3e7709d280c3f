# SPDX-License-Identifier: Apache-2.0
"""Replaces the sorting of any elements by that of integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from ..ir.attributes import numeric_literal
from ..ir.core import Op
from ..ir.elements import filled
from ..ir.types import FloatType, IntegerType, ShapedType, Type, element_type, shape_of, with_element
from ..support.lengths import is_same, may_be_several
from .fields import get_bool, get_i64
from .ng import NgVerbs
from .rules import reshaped, without_axes

V = TypeVar("V")


def argsort(verbs: NgVerbs[V], op: Op, operands: Sequence[V]) -> Sequence[V] | None:
    """Sorts signed integers with the same order instead of the elements; those in ascending order are sorted as they are. The first
    position alone is an argmax or argmin."""
    source, descending = op.operands[0].type, get_bool(op, "descending")
    if not (isinstance(source, ShapedType) and source.static) or source.element.text == "index":
        return None
    axis = get_i64(op, "axis")
    if not may_be_several(shape_of(source)[axis]) or not shape_of(op.result.type)[axis]:
        return [verbs.iota(type=op.result.type, dimension=axis)]
    floats = isinstance(source.element, FloatType)
    if is_same(shape_of(op.result.type)[axis], 1):
        # A NaN is the greatest in the order of elements, but the least and the greatest for argmin and argmax.
        key = _key(verbs, operands[0], source, False) if floats and not descending else operands[0]
        shape, names = without_axes(source, [axis])
        place = reshaped(source, shape, names, element_type(op.result.type))
        first = (verbs.argmax if descending else verbs.argmin)(key, type=place, axes=[axis])
        kept = [d for d in range(len(shape) + 1) if d != axis]
        return [verbs.broadcast(first, type=op.result.type, dimensions=kept)]
    if is_plain_order(op):
        return None
    key = _key(verbs, operands[0], source, descending)
    return [verbs.argsort(key, type=op.result.type, axis=axis)]


def is_plain_order(op: Op) -> bool:
    """Whether an op sorts signed integers in ascending order, as kernels and sorting networks do."""
    element = element_type(op.operands[0].type)
    return isinstance(element, IntegerType) and not element.unsigned and not get_bool(op, "descending")


def _number(verbs: NgVerbs[V], value: float, type: Type) -> V:
    return verbs.constant(type=type, value=filled(numeric_literal(value, element_type(type)), type))


def _key(verbs: NgVerbs[V], x: V, type: Type, descending: bool) -> V:
    """Signed integers of the same width that are ordered as the elements are; equal ones are equal, NaN is the greatest."""
    element = element_type(type)
    assert isinstance(element, (FloatType, IntegerType))
    width = element.width
    whole = with_element(type, IntegerType(width))
    if isinstance(element, FloatType):
        greatest = _number(verbs, (1 << width - 1) - 1, whole)
        bits = verbs.bitcast(verbs.add(x, _number(verbs, 0.0, type)), type=whole)  # -0.0 + 0.0 is 0.0
        # Of negative floats the greater magnitude is the lesser number.
        negative = verbs.less(bits, _number(verbs, 0, whole))
        key = verbs.select(negative, verbs.bitwise_xor(bits, greatest), bits)
        key = verbs.select(verbs.not_equal(x, x), greatest, key)
    elif element.unsigned:
        lowest = _number(verbs, -(1 << width - 1), whole)
        key = verbs.bitwise_xor(verbs.bitcast(x, type=whole), lowest)
    else:
        key = x
    return verbs.bitwise_not(key) if descending else key
