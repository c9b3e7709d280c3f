# SPDX-License-Identifier: Apache-2.0
"""Sorting as a network: for n elements log2(n) * (log2(n) + 1) / 2 steps, each one pass over all; for the first k of them
log2(k) * (log2(k) + 1) / 2 steps over all, and then as many of log2(k) + 1 over a half, a quarter, and so on.

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
    kept = shape_of(target)[axis]
    if size < 2 or not kept:
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
    most = 1 << (kept - 1).bit_length()
    place = _sorted(verbs, key, place, element_type(line), 1 << steps, rows, most)
    if kept < most:
        place = verbs.slice(place, starts=[0, 0], limits=[kept, rows], steps=[1, 1])
    element = element_type(target)
    inner = TensorType((kept, *(shape[d] for d in rest)), element)
    if element is not i64:
        place = verbs.cast(place, type=TensorType((kept, rows), element))
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


def _sorted(verbs: NgVerbs[V], key: V, place: V, element: Type, count: int, rows: int, most: int) -> V:
    """The first `most` places in the order of their keys: sorted blocks are merged to ones of twice their length, until they
    have as many; then of each two blocks the lesser half is kept, until there is one.

    A merge compares what stands opposite in its two halves, and then, in halves of halves, what stands half a block apart.
    """
    packed = element is i32
    keys = (key, place)
    line = TensorType((count, rows), i64)
    if packed:
        up = verbs.shift_left(verbs.cast(key, type=line), _number(verbs, 32, line))
        keys = (verbs.bitwise_or(up, place),)
    block = 2
    while block <= most:
        keys = _step(verbs, keys, (count // block, block, rows))
        keys = _settled(verbs, keys, count, block // 2, rows)
        block *= 2
    while count > most:
        keys, count = _lesser(verbs, keys, (count // (2 * most), 2, most, rows)), count // 2
        keys = _settled(verbs, keys, count, most, rows)
    line = TensorType((count, rows), i64)
    place = verbs.reshape(keys[-1], type=line)
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


#: Packed keys, or keys and their places.
Keys = tuple[V, ...]


def _step(verbs: NgVerbs[V], keys: Keys[V], view: tuple[int, int, int]) -> Keys[V]:
    """Each element and the one opposite in the middle of the view in their order."""
    upper = _is_upper(verbs, view)
    pairs = [_opposite(verbs, x, view) for x in keys]
    if len(pairs) == 1:
        ((x, other),) = pairs
        return (verbs.select(upper, verbs.maximum(x, other), verbs.minimum(x, other)),)
    change = verbs.bitwise_xor(_is_less(verbs, pairs), upper)
    return tuple(verbs.select(change, other, x) for x, other in pairs)


def _is_less(verbs: NgVerbs[V], pairs: Sequence[tuple[V, V]]) -> V:
    """Which of the others come before, of equal keys those whose place does."""
    (key, other), (place, beside) = pairs
    tie = verbs.bitwise_and(verbs.equal(other, key), verbs.less(beside, place))
    return verbs.bitwise_or(verbs.less(other, key), tie)


def _settled(verbs: NgVerbs[V], keys: Keys[V], count: int, block: int, rows: int) -> Keys[V]:
    """Blocks in which what stands half of it apart has to be compared, then a quarter, and so on."""
    apart = block // 2
    while apart:
        keys = _step(verbs, keys, (count // (2 * apart), 2, apart * rows))
        apart //= 2
    return keys


def _lesser(verbs: NgVerbs[V], keys: Keys[V], view: tuple[int, int, int, int]) -> Keys[V]:
    """Of each two sorted blocks the lesser elements, as many as one has."""
    outer, _, middle, inner = view
    pairs: list[tuple[V, V]] = []
    for x in keys:
        x = verbs.reshape(x, type=TensorType(view, i64))
        first = verbs.slice(x, starts=[0, 0, 0, 0], limits=[outer, 1, middle, inner], steps=[1, 1, 1, 1])
        second = verbs.slice(
            x, starts=[0, 1, middle - 1, 0], limits=[outer, 2, -1, inner], steps=[1, 1, -1, 1]
        )
        pairs.append((first, second))
    if len(pairs) == 1:
        return (verbs.minimum(*pairs[0]),)
    less = _is_less(verbs, pairs)
    return tuple(verbs.select(less, other, x) for x, other in pairs)
