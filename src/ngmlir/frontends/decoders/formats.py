# SPDX-License-Identifier: Apache-2.0
"""The element formats of weights: plain elements, and blocks of codes with scales, as GGUF files hold them.

A format says how many elements a block holds and in how many bytes, and how the elements follow from the bytes. That is written as
ordinary ops on the stored bytes, so that the compiler chooses where they are decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...ir.core import Value
from ...ir.elements import elements
from ...ir.types import TensorType, Type, bf16, f16, f32, i8, i32, shape_of, ui8
from ...ops.builder import Builder


@dataclass(frozen=True)
class Blocks:
    """The stored blocks of some rows, [..., blocks of a row, bytes of a block], for the builder `b`.

    They are given as bytes and as f16 elements: the same memory.
    """

    b: Builder
    bytes: Value
    halves: Value

    def codes(self, start: int, stop: int) -> Value:
        """Some bytes of each block."""
        return self._part(self.bytes, start, stop)

    def scale(self, at: int) -> Value:
        """The f16 number at byte `at` of each block, as f32 [..., 1]."""
        return self.wide(self._part(self.halves, at // 2, at // 2 + 1))

    def _part(self, whole: Value, start: int, stop: int) -> Value:
        shape = shape_of(whole.type)
        return self.b.slice(
            whole,
            starts=[0] * (len(shape) - 1) + [start],
            limits=[*shape[:-1], stop],
            steps=[1] * len(shape),
        )

    def wide(self, value: Value) -> Value:
        """As f32."""
        return self.b.cast(value, type=TensorType(shape_of(value.type), f32))

    def bits(self, value: Value, first: int, count: int) -> Value:
        """Bits of each byte, as a byte."""
        b = self.b
        moved = b.shift_right_logical(value, b.number(first, value.type)) if first else value
        if first + count == 8:
            return moved
        return b.bitwise_and(moved, b.number((1 << count) - 1, moved.type))

    def joined(self, low: Value, high: Value, bits: int) -> Value:
        """Bytes of low bits, and above these the high ones."""
        return self.b.bitwise_or(low, self.b.shift_left(high, self.b.number(bits, high.type)))

    def flag(self, value: Value, bit: int) -> Value:
        """One bit of each byte."""
        return self.bits(value, bit, 1)

    def signed(self, value: Value, less: int = 0) -> Value:
        """Bytes as f32, less a number."""
        wide = self.wide(value)
        return self.b.subtract(wide, self.b.number(float(less), wide.type)) if less else wide

    def integers(self, value: Value) -> Value:
        """Bytes as signed numbers, f32."""
        return self.wide(self.b.bitcast(value, type=TensorType(shape_of(value.type), i8)))

    def reshaped(self, value: Value, *tail: int) -> Value:
        """With other dimensions behind those of the rows and blocks."""
        lead = shape_of(self.bytes.type)[:-1]
        type = value.type
        assert isinstance(type, TensorType)
        return self.b.reshape(value, type=TensorType((*lead, *tail), type.element))

    def along(self, value: Value, like: Value) -> Value:
        """Repeated along the last dimensions: those that have length 1, or are not there."""
        wanted, shape = shape_of(like.type), shape_of(value.type)
        kept = [d for d, size in enumerate(shape) if size == wanted[d]]
        if kept == [*range(len(wanted))]:
            return value
        type = value.type
        assert isinstance(type, TensorType)
        short = self.b.reshape(value, type=TensorType(tuple([shape[d] for d in kept]), type.element))
        return self.b.broadcast(short, type=TensorType(wanted, type.element), dimensions=kept)

    def times(self, value: Value, scale: Value) -> Value:
        return self.b.multiply(value, self.along(scale, value))

    def plus(self, value: Value, more: Value) -> Value:
        return self.b.add(value, self.along(more, value))

    def minus(self, value: Value, less: Value) -> Value:
        return self.b.subtract(value, self.along(less, value))

    def side_by_side(self, parts: Sequence[Value]) -> Value:
        """Along the last dimension."""
        return self.b.concatenate(parts, axis=len(shape_of(parts[0].type)) - 1)


Decode = Callable[[Blocks], Value]


@dataclass(frozen=True)
class Format:
    """Elements in blocks: `elements` of them in `bytes` bytes.

    Of plain elements `element` is the type. Others are decoded: [..., blocks, bytes] of u8 gives f32 with `elements` elements
    of each block, in any number of dimensions. `scales` are the bytes of a block where f16 scales begin.
    """

    name: str
    elements: int
    bytes: int
    element: Type | None = None
    decode: Decode | None = None
    scales: Sequence[int] = ()


def _nibbles(blocks: Blocks, start: int) -> Value:
    """The codes of 32 elements of 4 bits: low halves of 16 bytes, then the high ones."""
    codes = blocks.codes(start, start + 16)
    return blocks.side_by_side([blocks.bits(codes, 0, 4), blocks.bits(codes, 4, 4)])


def _fives(blocks: Blocks, start: int) -> Value:
    """The codes of 32 elements of 5 bits: 32 high bits, then as `_nibbles`."""
    b = blocks.b
    lead = shape_of(blocks.bytes.type)[:-1]
    highs = blocks.codes(start, start + 4)
    # One byte has the high bits of eight elements that follow one another.
    spread = b.broadcast(
        highs, type=TensorType((*lead, 4, 8), ui8), dimensions=[*range(len(lead)), len(lead)]
    )
    places = b.iota(type=TensorType((*lead, 4, 8), ui8), dimension=len(lead) + 1)
    high = b.bitwise_and(b.shift_right_logical(spread, places), b.number(1, spread.type))
    return blocks.joined(_nibbles(blocks, start + 4), blocks.reshaped(high, 32), 4)


def _q4_0(blocks: Blocks) -> Value:
    return blocks.times(blocks.signed(_nibbles(blocks, 2), 8), blocks.scale(0))


def _q4_1(blocks: Blocks) -> Value:
    return blocks.plus(blocks.times(blocks.signed(_nibbles(blocks, 4)), blocks.scale(0)), blocks.scale(2))


def _q5_0(blocks: Blocks) -> Value:
    return blocks.times(blocks.signed(_fives(blocks, 2), 16), blocks.scale(0))


def _q5_1(blocks: Blocks) -> Value:
    return blocks.plus(blocks.times(blocks.signed(_fives(blocks, 4)), blocks.scale(0)), blocks.scale(2))


def _q8_0(blocks: Blocks) -> Value:
    return blocks.times(blocks.integers(blocks.codes(2, 34)), blocks.scale(0))


def _six_bits(blocks: Blocks) -> tuple[Value, Value]:
    """Scales and minima of the eight parts of a block, 6 bits each, packed in 12 bytes from byte 4 on: [..., 8] of bytes."""
    first, second, third = (blocks.codes(4 + 4 * i, 8 + 4 * i) for i in range(3))
    low = [blocks.bits(part, 0, 6) for part in (first, second)]
    high = [
        blocks.joined(blocks.bits(third, 4 * i, 4), blocks.bits(part, 6, 2), 4)
        for i, part in enumerate((first, second))
    ]
    scales, minima = (blocks.side_by_side([low[i], high[i]]) for i in range(2))
    return scales, minima


def _parts_of_32(blocks: Blocks, codes: Value) -> Value:
    """Codes [..., 8, 32] times the scale of their part, less its minimum."""
    scales, minima = _six_bits(blocks)
    scale = blocks.times(blocks.wide(scales), blocks.scale(0))
    minimum = blocks.times(blocks.wide(minima), blocks.scale(2))
    wide = blocks.wide(codes)
    return blocks.minus(blocks.times(wide, blocks.reshaped(scale, 8, 1)), blocks.reshaped(minimum, 8, 1))


def _pairs_of_32(blocks: Blocks, start: int) -> Value:
    """The codes of 256 elements of 4 bits, [..., 4, 2, 32]: of each 32 bytes the low halves, then the high ones."""
    codes = blocks.reshaped(blocks.codes(start, start + 128), 4, 1, 32)
    low, high = blocks.bits(codes, 0, 4), blocks.bits(codes, 4, 4)
    return blocks.b.concatenate([low, high], axis=len(shape_of(codes.type)) - 2)


def _q4_k(blocks: Blocks) -> Value:
    return _parts_of_32(blocks, blocks.reshaped(_pairs_of_32(blocks, 16), 8, 32))


def _q5_k(blocks: Blocks) -> Value:
    highs = blocks.reshaped(blocks.codes(16, 48), 1, 32)
    # Bit i of byte j is the high one of element j of part i.
    high = blocks.b.concatenate([blocks.flag(highs, i) for i in range(8)], axis=len(shape_of(highs.type)) - 2)
    low = blocks.reshaped(_pairs_of_32(blocks, 48), 8, 32)
    return _parts_of_32(blocks, blocks.joined(low, high, 4))


def _q6_k(blocks: Blocks) -> Value:
    # Two halves of 128 elements, each four runs of 32 elements.
    low = blocks.reshaped(blocks.codes(0, 128), 2, 2, 32)
    high = blocks.reshaped(blocks.codes(128, 192), 2, 1, 32)
    axis = len(shape_of(low.type)) - 2
    lows = blocks.b.concatenate([blocks.bits(low, 0, 4), blocks.bits(low, 4, 4)], axis=axis)
    highs = blocks.b.concatenate([blocks.bits(high, 2 * i, 2) for i in range(4)], axis=axis)
    codes = blocks.signed(blocks.joined(lows, highs, 4), 32)
    scales = blocks.times(blocks.integers(blocks.codes(192, 208)), blocks.scale(208))
    return blocks.times(blocks.reshaped(codes, 16, 16), blocks.reshaped(scales, 16, 1))


def _two_bits(blocks: Blocks, start: int) -> Value:
    """The codes of 256 elements of 2 bits, [..., 2, 4, 32]: of each 32 bytes the lowest two bits, then those above, and so on."""
    codes = blocks.reshaped(blocks.codes(start, start + 64), 2, 1, 32)
    axis = len(shape_of(codes.type)) - 2
    return blocks.b.concatenate([blocks.bits(codes, 2 * i, 2) for i in range(4)], axis=axis)


def _q2_k(blocks: Blocks) -> Value:
    # Sixteen parts; one byte has the scale of a part and, above it, its minimum.
    packed = blocks.codes(0, 16)
    scale = blocks.times(blocks.wide(blocks.bits(packed, 0, 4)), blocks.scale(80))
    minimum = blocks.times(blocks.wide(blocks.bits(packed, 4, 4)), blocks.scale(82))
    wide = blocks.wide(blocks.reshaped(_two_bits(blocks, 16), 16, 16))
    return blocks.minus(blocks.times(wide, blocks.reshaped(scale, 16, 1)), blocks.reshaped(minimum, 16, 1))


def _q3_k(blocks: Blocks) -> Value:
    # Bit i of byte j is the high one of element j of part i; without it 4 are subtracted.
    highs = blocks.reshaped(blocks.codes(0, 32), 1, 32)
    axis = len(shape_of(highs.type)) - 2
    high = blocks.b.concatenate([blocks.flag(highs, i) for i in range(8)], axis=axis)
    codes = blocks.joined(blocks.reshaped(_two_bits(blocks, 32), 8, 32), high, 2)
    # Sixteen scales of 6 bits: lower halves of eight bytes, their upper halves, and two bits each of four bytes.
    low, top = blocks.codes(96, 104), blocks.codes(104, 108)
    low = blocks.side_by_side([blocks.bits(low, 0, 4), blocks.bits(low, 4, 4)])
    top = blocks.side_by_side([blocks.bits(top, 2 * i, 2) for i in range(4)])
    scales = blocks.times(blocks.signed(blocks.joined(low, top, 4), 32), blocks.scale(108))
    values = blocks.reshaped(blocks.signed(codes, 4), 16, 16)
    return blocks.times(values, blocks.reshaped(scales, 16, 1))


#: The numbers that codes of 4 bits stand for where these are not evenly spaced.
_UNEVEN = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)


def _uneven(blocks: Blocks, codes: Value) -> Value:
    """Codes of 4 bits as such numbers, f32."""
    b, shape = blocks.b, shape_of(codes.type)
    type = TensorType((len(_UNEVEN),), i8)
    table = b.constant(type=type, value=elements(np.array(_UNEVEN, np.int8), type))
    return blocks.wide(b.gather(table, b.cast(codes, type=TensorType(shape, i32)), axis=0))


def _iq4_nl(blocks: Blocks) -> Value:
    return blocks.times(_uneven(blocks, _nibbles(blocks, 2)), blocks.scale(0))


def _iq4_xs(blocks: Blocks) -> Value:
    # Eight parts, whose scales have 6 bits: low halves of four bytes in turn with high ones, and two bits each of two bytes.
    low, top = blocks.reshaped(blocks.codes(4, 8), 4, 1), blocks.reshaped(blocks.codes(2, 4), 2, 1)
    axis = len(shape_of(low.type)) - 1
    lows = blocks.b.concatenate([blocks.bits(low, 4 * i, 4) for i in range(2)], axis=axis)
    tops = blocks.b.concatenate([blocks.bits(top, 2 * i, 2) for i in range(4)], axis=axis)
    scales = blocks.signed(blocks.joined(blocks.reshaped(lows, 8), blocks.reshaped(tops, 8), 4), 32)
    codes = blocks.reshaped(blocks.codes(8, 136), 8, 16)
    halves = blocks.side_by_side([blocks.bits(codes, 0, 4), blocks.bits(codes, 4, 4)])
    return blocks.times(_uneven(blocks, halves), blocks.reshaped(blocks.times(scales, blocks.scale(0)), 8, 1))


F32 = Format("F32", 1, 4, f32)
F16 = Format("F16", 1, 2, f16)
BF16 = Format("BF16", 1, 2, bf16)

#: By name.
FORMATS: Mapping[str, Format] = {
    each.name: each
    for each in (
        F32,
        F16,
        BF16,
        Format("Q4_0", 32, 18, decode=_q4_0, scales=(0,)),
        Format("Q4_1", 32, 20, decode=_q4_1, scales=(0, 2)),
        Format("Q5_0", 32, 22, decode=_q5_0, scales=(0,)),
        Format("Q5_1", 32, 24, decode=_q5_1, scales=(0, 2)),
        Format("Q8_0", 32, 34, decode=_q8_0, scales=(0,)),
        Format("Q2_K", 256, 84, decode=_q2_k, scales=(80, 82)),
        Format("Q3_K", 256, 110, decode=_q3_k, scales=(108,)),
        Format("Q4_K", 256, 144, decode=_q4_k, scales=(0, 2)),
        Format("Q5_K", 256, 176, decode=_q5_k, scales=(0, 2)),
        Format("Q6_K", 256, 210, decode=_q6_k, scales=(208,)),
        Format("IQ4_NL", 32, 18, decode=_iq4_nl, scales=(0,)),
        Format("IQ4_XS", 256, 136, decode=_iq4_xs, scales=(0,)),
    )
}
