# SPDX-License-Identifier: Apache-2.0
"""Type rules of the tile dialect: kernels, their loops, and accesses to buffers. `dialects/tile.ngd` names them."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.attributes import StringAttr
from ..ir.definition import Typing
from ..ir.types import (
    DYNAMIC,
    FloatType,
    MemRefType,
    Type,
    element_type,
    f32,
    i8,
    i16,
    i32,
    index,
    shape_of,
    ui8,
    ui16,
    with_element,
)
from ..support.lengths import below
from .fields import find_i64, find_i64s, get_i64, get_i64s
from .rules import Types, fits, require, same_shape

#: Bytes of a table that has one for each index of 8 bits.
BYTE_TABLE = 256


def for_loop(t: Typing) -> Types:
    bounds = ("lower", "upper", "step")
    carried = t.operands[sum(name not in t.attributes for name in bounds) :]
    ((arguments, yields),) = t.regions
    require(find_i64(t, "step") is None or get_i64(t, "step") > 0, "goes on by 0 or less, and would not end")
    require(find_i64(t, "stages") is None or get_i64(t, "stages") > 0, "has fewer than one stage")
    fits("the body takes", arguments, [index, *carried])
    fits("the body yields", yields, carried)
    return carried


def kernel(t: Typing) -> Types:
    ((arguments, _),) = t.regions
    buffers = [a for a in arguments if isinstance(a, MemRefType)]
    for other in arguments:
        require(
            isinstance(other, MemRefType) or other is index,
            f"a kernel takes buffers, and {other} is none: a memref of that element holds it",
        )
    fits("the body takes", arguments, [*buffers, *[index] * len(get_i64s(t, "grid"))])
    outputs, pairs = get_i64(t, "outputs"), get_i64s(t, "in_place")
    first = len(buffers) - outputs
    require(0 <= first <= len(buffers), f"{outputs} outputs of {len(buffers)} buffers")
    require(
        len(pairs) % 2 == 0
        and all(0 <= i < first <= o < len(buffers) for i, o in zip(pairs[::2], pairs[1::2], strict=True)),
        f"in_place {list(pairs)} does not pair inputs (below {first}) with outputs",
    )
    return ()


def _buffer(type: Type) -> MemRefType:
    assert isinstance(type, MemRefType)
    return type


def _same_element(a: Type, b: Type) -> None:
    require(element_type(a) is element_type(b), f"{a} and {b} differ in element type")


def _access(t: Typing, buffer: MemRefType, indices: Sequence[Type], tile: Type) -> None:
    require(len(indices) == buffer.rank, f"{len(indices)} indices into {buffer}")
    _same_element(tile, buffer)
    rank = len(shape_of(tile))
    dims = find_i64s(t, "dims")
    chosen = dims if dims is not None else range(buffer.rank - rank, buffer.rank)
    require(rank <= buffer.rank and len(chosen) == rank, f"a tile of {rank} dimensions from {buffer}")
    require(
        len(set(chosen)) == rank and all(0 <= d < buffer.rank for d in chosen),
        f"dims {list(chosen)} of {buffer}",
    )
    steps = find_i64s(t, "steps")
    if steps is not None:
        require(len(steps) == rank, f"{len(steps)} steps for {rank} dimensions")


def load(t: Typing) -> Types:
    _access(t, _buffer(t.operands[0]), t.operands[1:], t.results[0])
    return t.results


def store(t: Typing) -> Types:
    _access(t, _buffer(t.operands[1]), t.operands[2:], t.operands[0])
    return ()


def _positions(indices: Sequence[Type], shape: tuple[int, ...], buffer: MemRefType) -> None:
    require(len(indices) == buffer.rank, f"{len(indices)} indices into {buffer}")
    for i in indices:
        require(shape_of(i) in ((), shape), f"indices {i} for a tile of shape {list(shape)}")


def gather_tile(t: Typing) -> Types:
    buffer = _buffer(t.operands[0])
    _positions(t.operands[1:], shape_of(t.results[0]), buffer)
    _same_element(t.results[0], buffer)
    return t.results


def lookup_table(t: Typing) -> Types:
    (*rows, entries), (*outer, _) = (shape_of(type) for type in t.operands)
    element, at = (element_type(type) for type in t.operands)
    if (rows, entries) == ([], BYTE_TABLE) and element in (ui8, i8) and at is ui8:
        return (with_element(t.operands[1], element),)
    require(rows == outer and entries == 16, f"indices {t.operands[1]} into the rows of {t.operands[0]}")
    require(
        isinstance(element, FloatType) or (element, at) == (ui8, i32),
        f"a table of {element} and indices of {at}",
    )
    return (with_element(t.operands[1], i32 if element is ui8 else element),)


def scatter_tile(t: Typing) -> Types:
    value, mask, buffer = t.operands[0], t.operands[1], _buffer(t.operands[2])
    _positions(t.operands[3:], shape_of(value), buffer)
    require(shape_of(mask) == shape_of(value), f"a mask {mask} for {value}")
    _same_element(value, buffer)
    return ()


def subview(t: Typing) -> Types:
    buffer, target = _buffer(t.operands[0]), _buffer(t.results[0])
    require(len(t.operands) - 1 == buffer.rank, f"{len(t.operands) - 1} indices into {buffer}")
    require(
        target.element is buffer.element and target.space == buffer.space,
        f"{target} is no window into {buffer}",
    )
    kept = buffer.row_strides[buffer.rank - target.rank :]
    require(
        target.rank <= buffer.rank and target.row_strides == kept,
        f"strides of {target} are not those of {buffer}",
    )
    if "masked" in t.attributes:
        require(target.static and buffer.static, f"a masked window {target} into {buffer} has no size")
        return t.results
    # A window that fits for some lengths only may be used for these only.
    ends = zip(buffer.shape[buffer.rank - target.rank :], target.shape, strict=True)
    require(
        not any(below(whole, part) for whole, part in ends if DYNAMIC not in (whole, part)),
        f"{target} does not fit in {buffer}",
    )
    return t.results


def prefetch(t: Typing) -> Types:
    buffer = _buffer(t.operands[0])
    require(len(t.operands) - 1 == buffer.rank, f"{len(t.operands) - 1} indices into {buffer}")
    return ()


def dot_tile(t: Typing) -> Types:
    lhs, rhs, accumulator = t.operands
    a, b, c = shape_of(lhs), shape_of(rhs), shape_of(accumulator)
    require(
        len(a) == len(b) == len(c) == 2 and a == (c[0], b[0]) and b[1] == c[1],
        f"{lhs} times {rhs} is not {accumulator}",
    )
    wide = element_type(accumulator)
    if "words" in t.attributes:
        first, second, sum = (element_type(type) for type in t.operands)
        total = f32 if t.attributes["words"] == StringAttr("bf16_bf16") else i32
        known = f"words are i32{', their sums f32' if total is f32 else ''}"
        half = second in (i16, ui16) and t.attributes["words"] == StringAttr("i16_i16")
        fits_in = first is i32 and (second is i32 or half) and sum is total
        require(fits_in, f"{known}, not {lhs} and {rhs} for {accumulator}")
        return [accumulator]
    if isinstance(wide, FloatType):
        _same_element(lhs, rhs)
    for side in (lhs, rhs):
        require(
            isinstance(wide, FloatType) == isinstance(element_type(side), FloatType),
            f"{side} cannot be accumulated in {accumulator}",
        )
    return [accumulator]


def copy(t: Typing) -> Types:
    a, b = _buffer(t.operands[0]), _buffer(t.operands[1])
    require(same_shape(a, b) and a.element is b.element, f"cannot copy {a} to {b}")
    return ()


def copy_async(t: Typing) -> Types:
    copy(t)
    return t.results
