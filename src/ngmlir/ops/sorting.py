# SPDX-License-Identifier: Apache-2.0
"""Sorting as a network: for n elements log2(n) * (log2(n) + 1) / 2 steps, each one pass over all.

Elements become integers that are ordered as they are, and carry their positions, so that no two are equal: the order is
stable whatever the network does. With keys of 32 bits and less both are one number of 64 bits, and a step is a minimum
and a maximum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from ..ir.attributes import numeric_literal
from ..ir.core import Op
from ..ir.elements import filled
from ..ir.types import (
    FloatType,
    IntegerType,
    ShapedType,
    TensorType,
    Type,
    element_type,
    f32,
    i32,
    i64,
    shape_of,
    with_element,
)
from .fields import get_bool, get_i64
from .ng import NgVerbs

V = TypeVar("V")


def _number(verbs: NgVerbs[V], value: float, type: Type) -> V:
    return verbs.constant(type=type, value=filled(numeric_literal(value, element_type(type)), type))


def _key(verbs: NgVerbs[V], x: V, type: Type, descending: bool) -> tuple[V, Type]:
    """Signed integers that are ordered as the elements are; equal ones are equal, and NaN is the greatest."""
    element = element_type(type)
    if isinstance(element, FloatType):
        if element.width < 32:
            x, type = verbs.cast(x, type=with_element(type, f32)), with_element(type, f32)
        element = element_type(type)
        assert isinstance(element, FloatType)
        width = element.width
        whole = with_element(type, IntegerType(width))
        greatest = _number(verbs, (1 << width - 1) - 1, whole)
        bits = verbs.bitcast(verbs.add(x, _number(verbs, 0.0, type)), type=whole)  # -0.0 + 0.0 is 0.0
        # Of negative floats the greater magnitude is the lesser number.
        negative = verbs.less(bits, _number(verbs, 0, whole))
        key = verbs.select(negative, verbs.bitwise_xor(bits, greatest), bits)
        key = verbs.select(verbs.not_equal(x, x), greatest, key)
    else:
        assert isinstance(element, IntegerType)
        width = 32 if element.width <= 32 else 64
        whole = with_element(type, IntegerType(width))
        if element.unsigned and element.width == width:
            lowest = _number(verbs, -(1 << width - 1), whole)
            key = verbs.bitwise_xor(verbs.bitcast(x, type=whole), lowest)
        else:
            key = x if type is whole else verbs.cast(x, type=whole)
    return (verbs.bitwise_not(key) if descending else key), whole


def argsort(verbs: NgVerbs[V], op: Op, operands: Sequence[V]) -> Sequence[V] | None:
    """Sorted along the first axis of the operand moved there, so that rows are sorted side by side."""
    source, target, axis = op.operands[0].type, op.result.type, get_i64(op, "axis")
    if not (isinstance(source, ShapedType) and source.static) or source.element.text == "index":
        return None
    shape = shape_of(source)
    size = shape[axis]
    if size < 2:
        return [verbs.iota(type=target, dimension=axis)]
    rest = [d for d in range(len(shape)) if d != axis]
    rows = 1
    for d in rest:
        rows *= shape[d]
    steps = (size - 1).bit_length()
    moved = verbs.transpose(operands[0], permutation=[axis, *rest]) if axis else operands[0]
    flat = TensorType((size, rows), source.element)
    key, line = _key(verbs, verbs.reshape(moved, type=flat), flat, get_bool(op, "descending"))
    key, place = _padded(verbs, key, line, 1 << steps)
    place = _sorted(verbs, key, place, element_type(line), 1 << steps, rows)
    if size < 1 << steps:
        place = verbs.slice(place, starts=[0, 0], limits=[size, rows], steps=[1, 1])
    element = element_type(target)
    inner = TensorType((size, *(shape[d] for d in rest)), element)
    if element is not i64:
        place = verbs.cast(place, type=TensorType((size, rows), element))
    made = verbs.reshape(place, type=inner)
    if axis:
        made = verbs.transpose(made, permutation=[*range(1, axis + 1), 0, *range(axis + 1, len(shape))])
    return [verbs.cast_axes(made, type=target)]


def _padded(verbs: NgVerbs[V], key: V, type: Type, count: int) -> tuple[V, V]:
    """As many as a network takes, the greatest keys at the end; and the positions of all."""
    size, rows = shape_of(type)
    element = element_type(type)
    assert isinstance(element, IntegerType)
    if count > size:
        greatest = numeric_literal((1 << element.width - 1) - 1, element)
        key = verbs.pad(key, low=[0, 0], high=[count - size, 0], value=greatest)
    return key, verbs.iota(type=TensorType((count, rows), i64), dimension=0)


def _sorted(verbs: NgVerbs[V], key: V, place: V, element: Type, count: int, rows: int) -> V:
    """The places in the order of their keys: sorted blocks are merged to ones of twice their length, until there is one.

    A merge compares what stands opposite in its two halves, and then, in halves of halves, what stands half a block apart.
    """
    packed = element is i32
    line = TensorType((count, rows), i64)
    if packed:
        up = verbs.shift_left(verbs.cast(key, type=line), _number(verbs, 32, line))
        place = verbs.bitwise_or(up, place)
    block = 2
    while block <= count:
        views = [(count // block, block, rows)]
        apart = block // 4
        while apart:
            views.append((count // (2 * apart), 2, apart * rows))
            apart //= 2
        for view in views:
            if packed:
                place = _step(verbs, place, view)
            else:
                key, place = _double_step(verbs, key, place, view)
        block *= 2
    place = verbs.reshape(place, type=line)
    return verbs.bitwise_and(place, _number(verbs, 0xFFFFFFFF, line)) if packed else place


def _opposite(verbs: NgVerbs[V], x: V, view: tuple[int, int, int]) -> tuple[V, V]:
    """A view of elements, and of those that they are compared with."""
    x = verbs.reshape(x, type=TensorType(view, i64))
    outer, middle, inner = view
    return x, verbs.slice(x, starts=[0, middle - 1, 0], limits=[outer, -1, inner], steps=[1, -1, 1])


def _is_upper(verbs: NgVerbs[V], view: tuple[int, int, int]) -> V:
    """Which elements stand where the greater of the two goes."""
    whole = TensorType(view, i32)
    return verbs.greater_equal(verbs.iota(type=whole, dimension=1), _number(verbs, view[1] // 2, whole))


def _step(verbs: NgVerbs[V], x: V, view: tuple[int, int, int]) -> V:
    x, other = _opposite(verbs, x, view)
    return verbs.select(_is_upper(verbs, view), verbs.maximum(x, other), verbs.minimum(x, other))


def _double_step(verbs: NgVerbs[V], key: V, place: V, view: tuple[int, int, int]) -> tuple[V, V]:
    key, other = _opposite(verbs, key, view)
    place, beside = _opposite(verbs, place, view)
    tie = verbs.bitwise_and(verbs.equal(other, key), verbs.less(beside, place))
    less = verbs.bitwise_or(verbs.less(other, key), tie)
    change = verbs.bitwise_xor(less, _is_upper(verbs, view))
    return verbs.select(change, other, key), verbs.select(change, beside, place)
