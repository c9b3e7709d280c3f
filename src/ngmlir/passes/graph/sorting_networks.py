# SPDX-License-Identifier: Apache-2.0
"""Bitonic sorting networks: n elements take log2(n) * (log2(n) + 1) / 2 steps, each one pass over all elements; the first k of
them take log2(k) * (log2(k) + 1) / 2 steps over all, and then log2(k) + 1 steps over a half, a quarter, and so on. On a GPU
thread blocks sort parts of rows, which are merged in pairs.

Keys are compared together with their positions, so no two are equal and the order is stable. Keys of at most 32 bits are
packed with their position into one number of 64 bits, and a step is a minimum and a maximum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

from ...ir.attributes import Attribute, numeric_literal
from ...ir.core import Module, Op, Value
from ...ir.types import DYNAMIC, IntegerType, TensorType, element_type, i32, i64, shape_of, with_element
from ...ops.builder import Builder
from ...ops.fields import get_i64
from ...ops.sorting import is_plain_order
from ...rewrite.contracts import contract
from ...rewrite.sweep import sweep
from ...support.lengths import at_least, below, power_of_two, usual
from ...support.target import Target
from ..analysis.sorting import INSERTED, LONGEST, comes_before, has_two_runs

#: Bytes of a key with its position.
_RECORD = 8
#: Packed keys, or keys and their positions.
Keys = tuple[Value, ...]
#: Longest rows that are sorted by a network on a CPU, instead of each by one thread. `HELD` is for tensors whose records fit in the
#: L2 cache and more than `INSERTED` results of each row; measured on a Zen 4.
SHORT, HELD = 64, 256


@contract(needs=("named", "plain"), anchor="function")
def sorting_networks(module: Module, target: Target) -> Module:
    """Expands the sorting of short rows into compare-exchange steps over all elements at once; on GPUs rows that
    are longer than a thread block can sort are sorted in parts, which are then merged.

    Before:
        func.func @main(%x: tensor<2x3xi32>) -> tensor<1x3xi32> {
          %0 = ng.argsort %x axis 0 : (tensor<2x3xi32>) -> tensor<1x3xi32>
          return %0 : tensor<1x3xi32>
        }
    After:
        func.func @main(%x: tensor<2x3xi32>) -> tensor<1x3xi32> {
          %0 = ng.reshape %x : tensor<2x3xi32>
          %1 = ng.iota {dimension = 0 : i64} : tensor<2x3xi64>
          %2 = ng.cast %0 : (tensor<2x3xi32>) -> tensor<2x3xi64>
          %3 = ng.constant dense<32> : tensor<2x3xi64>
          %4 = ng.shift_left %2, %3 : tensor<2x3xi64>
          %5 = ng.bitwise_or %4, %1 : tensor<2x3xi64>
          %6 = ng.reshape %5 : (tensor<2x3xi64>) -> tensor<1x2x1x3xi64>
          %7 = ng.slice %6 from [0, 0, 0, 0] to [1, 1, 1, 3] step [1, 1, 1, 1] : (tensor<1x2x1x3xi64>) -> tensor<1x1x1x3xi64>
          %8 = ng.slice %6 from [0, 1, 0, 0] to [1, 2, -1, 3] step [1, 1, -1, 1] : (tensor<1x2x1x3xi64>) -> tensor<1x1x1x3xi64>
          %9 = ng.minimum %7, %8 : tensor<1x1x1x3xi64>
          %10 = ng.reshape %9 : (tensor<1x1x1x3xi64>) -> tensor<1x3xi64>
          %11 = ng.constant dense<4294967295> : tensor<1x3xi64>
          %12 = ng.bitwise_and %10, %11 : tensor<1x3xi64>
          %13 = ng.cast %12 : (tensor<1x3xi64>) -> tensor<1x3xi32>
          %14 = ng.reshape %13 : tensor<1x3xi32>
          func.return %14 : tensor<1x3xi32>
        }
    """

    def network(op: Op, b: Builder) -> Sequence[Value] | None:
        if not is_plain_order(op) or DYNAMIC in shape_of(op.operands[0].type):
            return None
        shape, axis = shape_of(op.operands[0].type), get_i64(op, "axis")
        if target.has_thread_blocks:
            done = (axis == len(shape) - 1 and shape[axis] <= LONGEST) or has_two_runs(op)
            return None if done else [_order(b, op, True, partial(_first, b))]
        held = _RECORD * prod(usual(shape)) <= target.l2_bytes
        longest = HELD if held and below(INSERTED, shape_of(op.result.type)[axis]) else SHORT
        short = at_least(longest, shape[axis])
        return [_order(b, op, False, partial(_side_by_side, b))] if short else None

    return sweep(module, network, frozenset(("ng.argsort",)))


def _order(b: Builder, op: Op, last: bool, order: Callable[[Value, int], Value]) -> Value:
    """The first positions along the axis, in sorted order. The axis is moved to one end: `order` sorts the rows (`last`) or the
    columns of a matrix."""
    key, axis = op.operands[0], get_i64(op, "axis")
    shape, kept = shape_of(key.type), shape_of(op.result.type)[axis]
    rest = [d for d in range(len(shape)) if d != axis]
    moved = [*rest, axis] if last else [axis, *rest]
    rows, stay = prod(shape[d] for d in rest), moved == sorted(moved)
    if not stay:
        key = b.transpose(key, permutation=moved)
    flat = (rows, shape[axis]) if last else (shape[axis], rows)
    made = order(b.reshape(key, type=TensorType(flat, element_type(key.type))), kept)
    element = element_type(op.result.type)
    if element is not element_type(made.type):
        made = b.cast(made, type=with_element(made.type, element))
    sizes = tuple(kept if d == axis else shape[d] for d in moved)
    made = b.reshape(made, type=TensorType(sizes, element))
    if not stay:
        made = b.transpose(made, permutation=[moved.index(d) for d in range(len(shape))])
    return made if made.type is op.result.type else b.cast_axes(made, type=op.result.type)


# ---- contiguous rows, on GPUs ------------------------------------------------------------------------------------


def _first(b: Builder, key: Value, kept: int) -> Value:
    """The positions of the first `kept` keys of each row, in sorted order: the first ones of each part, of these the first ones,
    and so on, until one thread block can sort the rest."""
    rows, size = shape_of(key.type)
    place = i32 if size < 1 << 31 else i64
    if size <= LONGEST:
        return b.argsort(key, type=TensorType((rows, kept), place), axis=1)
    if 2 * kept > LONGEST:
        return _merged(b, key, kept)
    parts = -(-size // LONGEST)
    key = _parted(b, key, parts)
    best = b.argsort(key, type=TensorType((rows * parts, kept), place), axis=1)
    some = TensorType((rows, parts, kept), place)
    begin = b.multiply(b.iota(type=some, dimension=1), b.number(LONGEST, some))
    places = b.add(b.reshape(best, type=some), begin)
    keys, places = (
        b.reshape(x, type=TensorType((rows, parts * kept), element_type(x.type)))
        for x in (b.gather_elements(key, best, axis=1), places)
    )
    return b.gather_elements(places, _first(b, keys, kept), axis=1)


def _parted(b: Builder, key: Value, parts: int) -> Value:
    """Rows as parts of the length that a thread block sorts, padded with the greatest key."""
    rows, size = shape_of(key.type)
    missing = parts * LONGEST - size
    if missing:
        key = b.pad(key, low=[0, 0], high=[0, missing], value=_greatest(key))
    return b.reshape(key, type=TensorType((rows * parts, LONGEST), element_type(key.type)))


def _merged(b: Builder, key: Value, kept: int) -> Value:
    """The same as `_first` for many `kept` keys: parts are sorted, and then merged in pairs until there is one."""
    rows, size = shape_of(key.type)
    count = power_of_two(size)
    key = _parted(b, key, count // LONGEST)
    order = b.argsort(key, type=TensorType(shape_of(key.type), i32), axis=1)
    whole = TensorType((rows, count // LONGEST, LONGEST), i64)
    begin = b.multiply(b.iota(type=whole, dimension=1), b.number(LONGEST, whole))
    place = b.add(b.cast(b.reshape(order, type=with_element(whole, i32)), type=whole), begin)
    key = b.gather_elements(key, order, axis=1)
    keys = _packed(b, key, b.reshape(place, type=with_element(key.type, i64)))
    run = LONGEST
    while run < count:
        pairs = TensorType((rows * count // (2 * run), 2 * run), i64)
        keys = tuple(b.reshape(x, type=pairs) for x in keys)
        order = b.argsort(keys[0], type=with_element(pairs, i32), axis=1, runs=run)
        keys = tuple(b.gather_elements(x, order, axis=1) for x in keys)
        run *= 2
    return _places(b, keys, key, (rows, count), [rows, kept])


# ---- columns of a matrix -----------------------------------------------------------------------------------------


def _side_by_side(b: Builder, key: Value, kept: int) -> Value:
    """The positions of the first `kept` keys of each column, in sorted order: sorted blocks are merged in pairs until they have at
    least `kept` elements; then of each two blocks the lesser half is kept, until there is one block.

    A merge compares each element with its mirror image in the other half, and then elements at distances of a half, a quarter, ...
    of a half.
    """
    size, rows = shape_of(key.type)
    count = power_of_two(size)
    if count > size:  # padded to a power of two with the greatest key
        key = b.pad(key, low=[0, 0], high=[count - size, 0], value=_greatest(key))
    keys = _packed(b, key, b.iota(type=TensorType((count, rows), i64), dimension=0))
    most = 1 << (kept - 1).bit_length()
    block = 2
    while block <= most:
        keys = _step(b, keys, (count // block, block, rows))
        keys = _settled(b, keys, count, block // 2, rows)
        block *= 2
    while count > most:
        keys, count = _lesser(b, keys, (count // (2 * most), 2, most, rows)), count // 2
        keys = _settled(b, keys, count, most, rows)
    return _places(b, keys, key, (count, rows), [kept, rows])


# ---- keys, and the steps of a network ------------------------------------------------------------------------


def _packed(b: Builder, key: Value, place: Value) -> Keys:
    """Keys of at most 32 bits packed with their positions, or keys and positions."""
    if not _has_room(key):
        return key, place
    up = b.shift_left(b.cast(key, type=place.type), b.number(32, place.type))
    return (b.bitwise_or(up, place),)


def _greatest(key: Value) -> Attribute:
    element = element_type(key.type)
    assert isinstance(element, IntegerType)
    return numeric_literal((1 << element.width - 1) - 1, element)


def _has_room(key: Value) -> bool:
    element = element_type(key.type)
    return isinstance(element, IntegerType) and element.width <= 32


def _places(b: Builder, keys: Keys, key: Value, shape: tuple[int, int], kept: Sequence[int]) -> Value:
    """The first positions of sorted keys."""
    place = b.reshape(keys[-1], type=TensorType(shape, i64))
    if tuple(kept) != shape:
        place = b.slice(place, starts=[0, 0], limits=kept, steps=[1, 1])
    return b.bitwise_and(place, b.number(0xFFFFFFFF, place.type)) if _has_room(key) else place


def _opposite(b: Builder, x: Value, view: tuple[int, int, int]) -> tuple[Value, Value]:
    """The elements in a view, and those that they are compared with: the same reversed along the middle dimension."""
    x = b.reshape(x, type=TensorType(view, i64))
    outer, middle, inner = view
    return x, b.slice(x, starts=[0, middle - 1, 0], limits=[outer, -1, inner], steps=[1, -1, 1])


def _is_upper(b: Builder, view: tuple[int, int, int]) -> Value:
    """A mask of the elements that get the greater of the two: the upper half of the middle dimension."""
    whole = TensorType(view, i32)
    return b.greater_equal(b.iota(type=whole, dimension=1), b.number(view[1] // 2, whole))


def _step(b: Builder, keys: Keys, view: tuple[int, int, int]) -> Keys:
    """One compare-exchange step between elements that are mirror images along the middle dimension of a view."""
    upper = _is_upper(b, view)
    pairs = [_opposite(b, x, view) for x in keys]
    if len(pairs) == 1:
        ((x, other),) = pairs
        return (b.select(upper, b.maximum(x, other), b.minimum(x, other)),)
    mine, others = zip(*pairs, strict=True)
    change = b.bitwise_xor(comes_before(b, others, mine), upper)
    return tuple(b.select(change, other, x) for x, other in pairs)


def _settled(b: Builder, keys: Keys, count: int, block: int, rows: int) -> Keys:
    """Compare-exchange steps in blocks at a distance of half a block, a quarter, and so on down to 1."""
    distance = block // 2
    while distance:
        keys = _step(b, keys, (count // (2 * distance), 2, distance * rows))
        distance //= 2
    return keys


def _lesser(b: Builder, keys: Keys, view: tuple[int, int, int, int]) -> Keys:
    """The lesser half of the elements of each two sorted blocks."""
    outer, _, middle, inner = view
    pairs: list[tuple[Value, Value]] = []
    for x in keys:
        x = b.reshape(x, type=TensorType(view, i64))
        first = b.slice(x, starts=[0, 0, 0, 0], limits=[outer, 1, middle, inner], steps=[1, 1, 1, 1])
        second = b.slice(x, starts=[0, 1, middle - 1, 0], limits=[outer, 2, -1, inner], steps=[1, 1, -1, 1])
        pairs.append((first, second))
    if len(pairs) == 1:
        return (b.minimum(*pairs[0]),)
    less = comes_before(b, *reversed([*zip(*pairs, strict=True)]))
    return tuple(b.select(less, other, x) for x, other in pairs)
