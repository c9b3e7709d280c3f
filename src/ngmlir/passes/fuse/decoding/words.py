# SPDX-License-Identifier: Apache-2.0
"""Codes of up to 8 bits packed in words of 32 bits without gaps.

Each byte of a word has a code in its lowest bits, and in the bits above it bit fields of further codes. Shifting and masking words gives
words with one code in each byte, and these those with one code at each digit of what is multiplied by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import NamedTuple

from ....ir.core import Value
from ....ir.elements import ElementsAttr
from ....ir.types import TensorType, VectorType, element_type, i32, shape_of, ui8
from ....ops.builder import Builder
from ....support.machines import WORD_BITS

#: Bytes of a word.
BYTES = WORD_BITS // 8


class BitField(NamedTuple):
    """`bits` bits of a code from bit `low` on: in each byte of word `word` from bit `at` on."""

    word: int
    at: int
    bits: int
    low: int

    @property
    def mask(self) -> int:
        """Its bits in each byte of a word of codes."""
        return sum([((1 << self.bits) - 1) << self.low << byte for byte in range(0, WORD_BITS, 8)])


@dataclass(frozen=True)
class Words:
    """How codes of `bits` bits are packed for words of `group` digits. A unit is the codes whose words are adjacent."""

    bits: int
    group: int

    @property
    def unit(self) -> int:
        """Codes of a unit: as many as fill whole words."""
        return WORD_BITS // (self.bits & -self.bits)

    @property
    def count(self) -> int:
        """Words of a unit."""
        return self.unit * self.bits // WORD_BITS

    @property
    def registers(self) -> int:
        """Words of digits that are multiplied by a unit."""
        return self.unit // self.group

    @cached_property
    def fields(self) -> Sequence[Sequence[BitField]]:
        """The bit fields of each code of a byte: of the first codes their own words, of the others what these have left."""
        found = [[BitField(word, 0, self.bits, 0)] for word in range(self.count)]
        word, at = 0, self.bits
        for _ in range(self.unit // BYTES - self.count):
            low, own = 0, list[BitField]()
            while low < self.bits:
                size = min(8 - at, self.bits - low)
                own.append(BitField(word, at, size, low))
                low, at = low + size, at + size
                word, at = (word + 1, self.bits) if at == 8 else (word, at)
            found.append(own)
        return found

    def packed(self, codes: Value, b: Builder) -> Value:
        """The words of codes i32 [panels, width, codes], whole units: i32 [panels, width, words]."""
        panels, width, many = shape_of(codes.type)
        units, size = many // self.unit, self.unit // BYTES
        type = self._code_type(panels, width, units * size)
        codes = b.sum(b.shift_left(b.reshape(codes, type=type), self._places(type, b)), axes=[3, 4])
        if self.bits < 8:
            codes = b.reshape(codes, type=TensorType((panels, width, units, size), i32))
            parts: list[list[Value]] = [[] for _ in range(self.count)]
            for register, own in enumerate(self.fields):
                whole = _part(codes, 3, register, b)
                for field in own:
                    parts[field.word].append(
                        _moved(
                            b.bitwise_and(whole, b.number(field.mask, whole.type)), field.at - field.low, b
                        )
                    )
            codes = b.concatenate([reduce(b.bitwise_or, each) for each in parts], axis=3)
        return b.reshape(codes, type=TensorType((panels, width, units * self.count), i32))

    def unpacked(self, words: Value, b: Builder) -> Value:
        """The codes of words i32 [panels, width, words]: i32 [panels * width, codes]."""
        panels, width, many = shape_of(words.type)
        units = many // self.count
        if self.bits < 8:
            whole = b.reshape(words, type=TensorType((panels, width, units, self.count), i32))
            words = b.concatenate(self._in_bytes(whole, 3, b), axis=3)
        size = self.unit // BYTES
        words = b.reshape(words, type=TensorType((panels, width, units * size), i32))
        type = self._code_type(panels, width, units * size)
        codes = b.shift_right_logical(
            b.broadcast(words, type=type, dimensions=[0, 1, 2]), self._places(type, b)
        )
        codes = b.bitwise_and(codes, b.number(255, type))
        return b.reshape(codes, type=TensorType((panels * width, units * self.unit), i32))

    def in_digits(self, words: Value, table: ElementsAttr | None, b: Builder) -> Value:
        """A tile of words of whole units, i32 [words, columns], as words that have one code at each digit, or the byte of a table for
        it: [words of digits, columns]."""
        many, columns = shape_of(words.type)
        codes = words
        if self.bits < 8:
            whole = b.reshape(words, type=VectorType((many // self.count, self.count, columns), i32))
            codes = b.concatenate(self._in_bytes(whole, 1, b), axis=1)
            size = many // self.count * self.unit // BYTES
            codes = b.reshape(codes, type=VectorType((size, columns), i32))
        if table is not None:
            type = VectorType(shape_of(table.type), ui8)
            line = b.constant(type=type, value=table.of_type(type))
            each = VectorType((shape_of(codes.type)[0], *type.shape), ui8)
            codes = b.lookup_table(b.broadcast(line, type=each, dimensions=[1]), codes)
        return codes if self.group == BYTES else _split(codes, BYTES // self.group, 8, b)

    def in_order(self, digits: Value, b: Builder) -> Value:
        """The codes at the digits of a tile of words [words of digits, columns], one in each lane, i32 [codes, columns]."""
        return _split(digits, self.group, WORD_BITS // self.group, b)

    def _in_bytes(self, words: Value, axis: int, b: Builder) -> Sequence[Value]:
        """Words with one code in each byte, from those of units, which are along a dimension."""
        sources = [_part(words, axis, word, b) for word in range(self.count)]

        def code(field: BitField) -> Value:
            moved = _moved(sources[field.word], field.low - field.at, b)
            return b.bitwise_and(moved, b.number(field.mask, moved.type))

        return [reduce(b.bitwise_or, map(code, own)) for own in self.fields]

    def _code_type(self, panels: int, width: int, words: int) -> TensorType:
        """The type of codes: [panels, width, words, bytes in a digit, digits of a word]."""
        return TensorType((panels, width, words, BYTES // self.group, self.group), i32)

    def _places(self, type: TensorType, b: Builder) -> Value:
        """The bit positions in a word of the codes along the last two dimensions."""
        part, digit = (b.iota(type=type, dimension=d) for d in (3, 4))
        wide = WORD_BITS // self.group
        return b.add(b.multiply(part, b.number(8, type)), b.multiply(digit, b.number(wide, type)))


def _part(value: Value, axis: int, at: int, b: Builder) -> Value:
    """One element along a dimension."""
    shape = shape_of(value.type)
    starts = [at if d == axis else 0 for d in range(len(shape))]
    limits = [at + 1 if d == axis else size for d, size in enumerate(shape)]
    return b.slice(value, starts=starts, limits=limits, steps=[1] * len(shape))


def _moved(value: Value, by: int, b: Builder) -> Value:
    """Each word shifted left by so many bits, or right by the negative of it."""
    if by > 0:
        return b.shift_left(value, b.number(by, value.type))
    return b.shift_right_logical(value, b.number(-by, value.type)) if by else value


def _split(words: Value, parts: int, bits: int, b: Builder) -> Value:
    """A tile of words [words, columns] as so many `parts` of each: at each field of parts * bits bits the lowest bits, those above,
    and so on."""
    many, columns = shape_of(words.type)
    type = VectorType((many, parts, columns), element_type(words.type))
    mask = sum([((1 << bits) - 1) << at for at in range(0, WORD_BITS, parts * bits)])
    moved = b.multiply(b.iota(type=type, dimension=1), b.number(bits, type))
    made = b.shift_right_logical(b.broadcast(words, type=type, dimensions=[0, 2]), moved)
    made = b.bitwise_and(made, b.number(mask, type))
    return b.reshape(made, type=VectorType((many * parts, columns), i32))
