# SPDX-License-Identifier: Apache-2.0
"""Loads and stores of one register, some of whose lanes may have to be masked."""

from __future__ import annotations

from collections.abc import Sequence

from ...llvm import types as llvm
from ...llvm.types import Type, Value, from_bits, i64, lanes, poison, vector
from ...support.lengths import is_open
from .access import Mask
from .emitter import Emitter
from .formats import item_bytes
from .tiles import Chunk, resize

_NEAR_STRIDE = 4


def load(
    e: Emitter, type: Type, pointer: Value, chunk: Chunk, mask: Mask, pad: Value, spare: bool, align: int = 0
) -> Value:
    """Loads contiguous elements. `spare`: loading all lanes stays inside the buffer; `align`: alignment of the pointer,
    if it is not that of an element."""
    b, align, wide = e.b, align or item_bytes(type), vector(chunk.width, type)
    if mask is False:
        return pad
    if mask is True and (chunk.count == chunk.width or spare):
        return b.load(wide, pointer, align=align)
    if mask is True and not masks(e, type):
        return _load_pieces(e, type, pointer, chunk)
    if chunk.width == 1:
        return _load_if(e, type, pointer, mask, pad)
    if isinstance(mask, Value) and not masks(e, type) and (count := e.count_of(mask)) is not None:
        return _load_first(e, type, pointer, chunk, count, pad)
    return b.masked_load(wide, pointer, vector_mask(mask, chunk), pad, align=align)


def is_near(stride: int) -> bool:
    """Whether elements with this stride are loaded together with the elements between them."""
    return not is_open((stride,)) and 1 < stride <= _NEAR_STRIDE


def load_apart(
    e: Emitter, type: Type, pointer: Value, stride: int, chunk: Chunk, mask: Mask, pad: Value
) -> Value:
    """Loads elements that are `stride` apart."""
    b, align, wide = e.b, item_bytes(type), vector(chunk.width, type)
    if mask is False:
        return pad
    if chunk.width == 1:
        return load(e, type, pointer, chunk, mask, pad, spare=False)
    if mask is True and stride == 0:
        return b.splat(b.load(type, pointer, align=align), chunk.width)
    if mask is True and stride == -1:
        first = b.getelementptr(type, pointer, 1 - chunk.count)
        forward = load(e, type, first, chunk, True, pad, spare=False)
        return b.shuffle(forward, None, [max(chunk.count - 1 - i, 0) for i in range(chunk.width)])
    if e.machine.masks and align >= 4 and chunk.width >= 4:
        addresses = b.getelementptr(type, pointer, _steps(chunk, stride))
        return b.gather(wide, addresses, vector_mask(mask, chunk), pad, align=align)
    result = pad
    for lane in range(chunk.count):
        inside = _lane(e, mask, lane)
        if inside is False:
            continue
        where = b.getelementptr(type, pointer, lane * stride)
        element = _load_if(e, type, where, inside, b.extract(pad, lane))
        result = b.insert(result, element, lane)
    return result


def store(e: Emitter, value: Value, pointer: Value, chunk: Chunk, mask: Mask) -> None:
    """Stores contiguous elements."""
    b, type = e.b, llvm.element_of(value.type)
    align = item_bytes(type)
    if mask is False:
        return
    if mask is True and chunk.count == chunk.width:
        b.store(value, pointer, align=align)
    elif mask is True:
        # A load that overlaps the masked lanes of a store waits until that has ended: on Zen 4 some 90 cycles, for each of
        # adjacent rows that a kernel overwrites. A store that AVX2 masks takes some 15 cycles there in any case.
        for at, size in _pieces(chunk.count):
            piece = b.shuffle(value, None, range(at, at + size)) if size > 1 else b.extract(value, at)
            b.store(piece, b.getelementptr(type, pointer, at), align=align)
    elif chunk.width == 1:
        assert isinstance(mask, Value)
        with b.when(mask):
            b.store(value, pointer, align=align)
    elif isinstance(mask, Value) and (count := e.count_of(mask)) is not None:
        _store_first(e, value, pointer, chunk, count)
    else:
        b.masked_store(value, pointer, vector_mask(mask, chunk), align=align)


def _load_first(e: Emitter, type: Type, pointer: Value, chunk: Chunk, count: Value, pad: Value) -> Value:
    """Loads the first `count` elements: for each bit of the number as many, the fewest and last ones first."""
    b, align = e.b, item_bytes(type)
    count = e.hoisted(lambda: b.smin(count, chunk.count), count)
    found = b.extract(pad, 0)
    for size in (1 << bit for bit in range(chunk.count.bit_length())):
        # What is found is of the same bits of the number; `wide` is that if this bit is 0.
        both = list(range(min(2 * size, chunk.width)))
        wide = found if size == chunk.width else b.shuffle(pad, None, both)
        if 1 < size < chunk.width:
            wide = b.shuffle(found, b.shuffle(pad, None, range(size)), both)
        with b.when(_bit(e, count, size), [wide]) as region:
            before = e.hoisted(lambda size=size: b.zext(b.and_(count, -2 * size), i64), count)
            part = b.load(vector(size, type), b.getelementptr(type, pointer, before), align=align)
            if size == 1:
                part = b.insert(wide, part, 0)
            elif size < chunk.width:
                part = b.shuffle(part, found, both)
            region.next(part)
        (found,) = region.results
    return found


def _bit(e: Emitter, count: Value, size: int) -> Value:
    """Whether a number has the bit `size`."""
    return e.hoisted(lambda: e.b.icmp("ne", e.b.and_(count, size), 0), count)


def _store_first(e: Emitter, value: Value, pointer: Value, chunk: Chunk, count: Value) -> None:
    """Stores the first `count` elements: for each bit of the number as many, the most first."""
    b, type, align = e.b, llvm.element_of(value.type), item_bytes(llvm.element_of(value.type))
    count = e.hoisted(lambda: b.smin(count, chunk.count), count)
    rest, at = value, pointer
    for size in (1 << bit for bit in reversed(range(chunk.count.bit_length()))):
        condition, part = _bit(e, count, size), rest
        if size < llvm.lanes_of(rest.type):
            part = b.shuffle(rest, None, range(size)) if size > 1 else b.extract(rest, 0)
        if size == 1 or part is rest:
            with b.when(condition):
                b.store(part, at, align=align)
            continue
        with b.when(condition, [part, at]) as region:
            b.store(part, at, align=align)
            region.next(b.shuffle(rest, None, range(size, 2 * size)), b.getelementptr(type, at, size))
        rest, at = region.results


def stream(e: Emitter, value: Value, pointer: Value, divisor: int) -> None:
    """Stores a whole register: with a non-temporal store if its offset, a multiple of `divisor` elements, is aligned,
    else with a plain one."""
    size = item_bytes(llvm.element_of(value.type))
    bytes_ = size * llvm.lanes_of(value.type)
    if bytes_ in (16, 32, 64) and divisor * size % bytes_ == 0:
        e.b.store(value, pointer, align=bytes_, attach=f"!nontemporal {e.b.module.metadata('!{i32 1}')}")
    else:
        e.b.store(value, pointer, align=size)


def store_apart(e: Emitter, value: Value, pointer: Value, stride: int, chunk: Chunk, mask: Mask) -> None:
    """Stores elements that are `stride` apart."""
    b, type = e.b, llvm.element_of(value.type)
    align = item_bytes(type)
    if mask is False:
        return
    if chunk.width == 1:
        store(e, value, pointer, chunk, mask)
        return
    if e.machine.masks and align >= 4 and chunk.width >= 4:
        addresses = b.getelementptr(type, pointer, _steps(chunk, stride))
        b.scatter(value, addresses, vector_mask(mask, chunk), align=align)
        return
    for lane in range(chunk.count):
        inside = _lane(e, mask, lane)
        if inside is False:
            continue
        element, where = b.extract(value, lane), b.getelementptr(type, pointer, lane * stride)
        if inside is True:
            b.store(element, where, align=align)
        else:
            with b.when(inside):
                b.store(element, where, align=align)


def vector_mask(mask: Mask, chunk: Chunk) -> Value:
    """The mask as a register of i1."""
    if isinstance(mask, Value):
        return mask
    known = mask if isinstance(mask, tuple) else (mask,) * chunk.count
    if all(known) and chunk.count == chunk.width:
        return from_bits(vector(chunk.width, llvm.i1), 1)
    return lanes(llvm.i1, [*map(int, known), *[0] * (chunk.width - chunk.count)])


def masks(e: Emitter, type: Type) -> bool:
    """Whether the machine has masked loads and stores of such elements."""
    return e.machine.masks or (e.machine.word_masks and item_bytes(type) >= 4)


def _steps(chunk: Chunk, stride: int) -> Value:
    return lanes(i64, [min(lane, chunk.count - 1) * stride for lane in range(chunk.width)])


def _lane(e: Emitter, mask: Mask, lane: int) -> bool | Value:
    if isinstance(mask, Value):
        return e.b.extract(mask, lane)
    return mask[lane] if isinstance(mask, tuple) else mask


def _load_if(e: Emitter, type: Type, pointer: Value, inside: Mask, pad: Value) -> Value:
    b = e.b
    if not isinstance(inside, Value):
        return b.load(type, pointer, align=item_bytes(type))
    with b.when(inside, [pad]) as region:
        region.next(b.load(type, pointer, align=item_bytes(type)))
    return region.results[0]


def _load_pieces(e: Emitter, type: Type, pointer: Value, chunk: Chunk) -> Value:
    """Loads parts whose sizes are powers of two, the largest first, and concatenates them."""
    b = e.b
    result = poison(vector(chunk.width, type))
    for at, size in _pieces(chunk.count):
        piece = b.load(vector(size, type), b.getelementptr(type, pointer, at), align=item_bytes(type))
        if size == 1:
            result = b.insert(result, piece, at)
            continue
        wide = resize(b, piece, chunk.width)
        moved = range(chunk.width, chunk.width + size)
        order = [i if i < at else moved[i - at] if i < at + size else -1 for i in range(chunk.width)]
        result = b.shuffle(result, wide, order)
    return result


def _pieces(count: int) -> Sequence[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    at = 0
    while at < count:
        size = 1 << ((count - at).bit_length() - 1)
        found.append((at, size))
        at += size
    return found
