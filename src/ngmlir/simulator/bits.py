# SPDX-License-Identifier: Apache-2.0
"""Logic, shifts and bit manipulation."""

from __future__ import annotations

import numpy as np

from .arithmetic import simple
from .decoding import Elementwise, Step, decodes, reader, writer
from .formats import STORAGE, UNSIGNED
from .program import Instruction, Integer
from .registers import Slots

Array = np.ndarray

_LOGIC = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert}


@decodes(*_LOGIC)
def _logic(slots: Slots, instruction: Instruction) -> Step:
    return simple(slots, instruction, instruction.type, _LOGIC[instruction.head])


@decodes("lop3")
def _lop3(slots: Slots, instruction: Instruction) -> Step:
    table = instruction.operands[4]
    if not isinstance(table, Integer) or instruction.type != "b32":
        raise slots.limit(instruction)
    reads = [reader(slots, instruction, o, "b32") for o in instruction.operands[1:4]]
    write = writer(slots, instruction, instruction.operands[0], "b32")
    terms = [index for index in range(8) if table.value >> index & 1]

    def combine(a: Array, b: Array, c: Array) -> Array:
        result = np.zeros_like(a)
        for term in terms:
            result |= (a if term & 4 else ~a) & (b if term & 2 else ~b) & (c if term & 1 else ~c)
        return result

    return lambda frame, threads: write(frame, threads, combine(*[read(frame, threads) for read in reads]))


def _operate(
    slots: Slots,
    instruction: Instruction,
    kinds: tuple[str, ...],
    result: str,
    operation: Elementwise,
) -> Step:
    """A step whose operands have different types."""
    sources = instruction.operands[1:]
    reads = [reader(slots, instruction, o, kind) for o, kind in zip(sources, kinds, strict=True)]
    write = writer(slots, instruction, instruction.operands[0], result)
    return lambda frame, threads: write(frame, threads, operation(*[read(frame, threads) for read in reads]))


@decodes("shl", "shr")
def _shift(slots: Slots, instruction: Instruction) -> Step:
    """Shift amounts at or above the width shift all bits out, as NumPy's do."""
    kind = instruction.type
    dtype = STORAGE[kind][0]
    shift = np.left_shift if instruction.head == "shl" else np.right_shift
    width = np.uint32(8 * dtype.itemsize)
    return _operate(
        slots,
        instruction,
        (kind, "u32"),
        kind,
        lambda value, amount: shift(value, np.minimum(amount, width).astype(dtype)),
    )


@decodes("shf")
def _funnel(slots: Slots, instruction: Instruction) -> Step:
    left = "l" in instruction.modifiers
    wrap = "wrap" in instruction.modifiers

    def operation(low: Array, high: Array, amount: Array) -> Array:
        amount = (amount & np.uint32(31) if wrap else np.minimum(amount, np.uint32(32))).astype(np.uint64)
        whole = (high.astype(np.uint64) << np.uint64(32)) | low
        shifted = (whole << amount) >> np.uint64(32) if left else whole >> amount
        return shifted.astype(np.uint32)

    return _operate(slots, instruction, ("b32", "b32", "u32"), "b32", operation)


@decodes("bfe")
def _extract(slots: Slots, instruction: Instruction) -> Step:
    """A field of `length` bits from `position`; bits beyond the end are copies of the field's sign."""
    kind = instruction.type
    dtype = STORAGE[kind][0]
    bits = 8 * dtype.itemsize
    signed = dtype.kind == "i"

    def operation(value: Array, position: Array, length: Array) -> Array:
        position = (position & np.uint32(0xFF)).astype(np.int64)
        length = (length & np.uint32(0xFF)).astype(np.int64)
        shifted = np.right_shift(value, np.minimum(position, bits).astype(dtype))
        if not signed:
            keep = np.minimum(length, bits).astype(np.uint64)
            mask = np.where(keep == 64, np.uint64(2**64 - 1), (np.uint64(1) << keep) - np.uint64(1))
            return (shifted.astype(np.uint64) & mask).astype(dtype)
        spare = np.maximum(bits - length, 0).astype(dtype)
        return np.where(length == 0, dtype.type(0), (shifted << spare) >> spare)

    return _operate(slots, instruction, (kind, "u32", "u32"), kind, operation)


@decodes("bfi")
def _insert(slots: Slots, instruction: Instruction) -> Step:
    kind = instruction.type
    dtype = STORAGE[kind][0]
    bits = 8 * dtype.itemsize

    def operation(field: Array, into: Array, position: Array, length: Array) -> Array:
        position = np.minimum(position & np.uint32(0xFF), bits).astype(np.uint64)
        length = np.minimum(length & np.uint32(0xFF), bits).astype(np.uint64)
        mask = (
            np.where(length == 64, np.uint64(2**64 - 1), (np.uint64(1) << length) - np.uint64(1)) << position
        )
        return ((into & ~mask) | ((field.astype(np.uint64) << position) & mask)).astype(dtype)

    return _operate(slots, instruction, (kind, kind, "u32", "u32"), kind, operation)


@decodes("popc")
def _popc(slots: Slots, instruction: Instruction) -> Step:
    return _operate(
        slots, instruction, (instruction.type,), "u32", lambda v: np.bitwise_count(v).astype(np.uint32)
    )


def _leading_zeros(value: Array) -> Array:
    bits = 8 * value.dtype.itemsize
    width = np.zeros(value.shape, np.uint32)
    rest = value.copy()
    step = bits // 2
    while step:
        high = rest >> rest.dtype.type(step)
        large = high != 0
        width += np.where(large, np.uint32(step), np.uint32(0))
        rest = np.where(large, high, rest)
        step //= 2
    return np.where(value == 0, np.uint32(bits), np.uint32(bits - 1) - width)


@decodes("clz")
def _clz(slots: Slots, instruction: Instruction) -> Step:
    return _operate(slots, instruction, (instruction.type,), "u32", _leading_zeros)


@decodes("bfind")
def _bfind(slots: Slots, instruction: Instruction) -> Step:
    """The highest bit that differs from the sign; 0xFFFFFFFF if there is none."""
    kind = instruction.type
    unsigned = UNSIGNED[STORAGE[kind][0].itemsize]
    bits = np.uint32(8 * unsigned.itemsize)
    from_top = "shiftamt" in instruction.modifiers

    def operation(value: Array) -> Array:
        magnitude = np.where(value < 0, ~value, value).view(unsigned)
        zeros = _leading_zeros(magnitude)
        found = zeros if from_top else bits - np.uint32(1) - zeros
        return np.where(magnitude == 0, np.uint32(0xFFFFFFFF), found)

    return _operate(slots, instruction, (kind,), "u32", operation)


@decodes("brev")
def _brev(slots: Slots, instruction: Instruction) -> Step:
    dtype = STORAGE[instruction.type][0]

    def operation(value: Array) -> Array:
        table = np.packbits(
            np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"), axis=1
        )
        octets = np.ascontiguousarray(value).view(np.uint8).reshape(-1, dtype.itemsize)
        return table[octets[:, ::-1], 0].copy().view(dtype).reshape(value.shape)

    return _operate(slots, instruction, (instruction.type,), instruction.type, operation)


@decodes("prmt")
def _permute(slots: Slots, instruction: Instruction) -> Step:
    """Four bytes selected from the eight of two registers; bit 3 of a selector replicates the byte's sign."""
    if instruction.type != "b32":
        raise slots.limit(instruction)

    def operation(low: Array, high: Array, selector: Array) -> Array:
        whole = (high.astype(np.uint64) << np.uint64(32)) | low
        result = np.zeros(whole.shape, np.uint64)
        for position in range(4):
            choice = (selector.astype(np.uint64) >> np.uint64(4 * position)) & np.uint64(15)
            octet = (whole >> (np.uint64(8) * (choice & np.uint64(7)))) & np.uint64(0xFF)
            sign = np.where(octet & np.uint64(0x80), np.uint64(0xFF), np.uint64(0))
            octet = np.where(choice & np.uint64(8), sign, octet)
            result |= octet << np.uint64(8 * position)
        return result.astype(np.uint32)

    return _operate(slots, instruction, ("b32", "b32", "u32"), "b32", operation)
