# SPDX-License-Identifier: Apache-2.0
"""Weights that are affine in integer codes, block by block, packed in panels of words as dot instructions read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import gcd

import numpy as np

from ....ir.attributes import numeric_literal
from ....ir.core import Op, Value
from ....ir.elements import ElementsAttr, elements
from ....ir.types import (
    IntegerType,
    TensorType,
    Type,
    element_type,
    f32,
    i8,
    i16,
    i32,
    shape_of,
    ui8,
    with_element,
)
from ....ops.builder import Builder
from ....ops.fields import constant_elements
from ....support.machines import WORD_BITS
from ....support.target import Target
from .chains import CODE_BITS, Chain, Number, Parameter, Step, computed, stored_of, table_of
from .words import Words

#: Most numbers of the left side that share a scale: sums of this many products fit in 32 bits.
MOST_BLOCK = 128
#: Most vector registers across a panel of the weight, and registers of the machine that each needs, with its sums.
MOST_VECTORS, REGISTERS = 4, 8
#: Most bytes of the words of a unit across a panel. With 5 or 6 bits and 4 vector registers of 64 bytes a row takes 1.4 to 1.6 times
#: as long as with 2: there are so many loads in an iteration that hardware prefetchers do not follow them.
MOST_BYTES = 512


@dataclass(frozen=True)
class Affine:
    """A weight that is `factor * (code - zero) + offset`, with unsigned codes that are the chain's with the bits of `flipped`
    inverted, or the bytes of `table` for the chain's. `steps`, the first one first, make factor and offset. The other side has
    digits of type `digit`."""

    chain: Chain
    steps: tuple[Step, ...]
    zero: int
    flipped: int
    table: tuple[int, ...] | None
    digit: IntegerType

    @property
    def block(self) -> int:
        """Numbers of the left side that share a scale."""
        own, unit = self.chain.block, Words(self.chain.bits, 1).unit
        return gcd(own, MOST_BLOCK) if own else min(MOST_BLOCK, -(-self.chain.shape[1] // unit) * unit)

    @cached_property
    def words(self) -> Words:
        """How codes are packed: with more bits than they need where blocks would not be whole words."""
        group, known = WORD_BITS // self.digit.width, range(self.chain.bits, 8)
        return next((w for n in known if self.block % (w := Words(n, group)).unit == 0), Words(8, group))

    @property
    def offsets(self) -> bool:
        """Whether there is an offset."""
        return any(step.op.name != "ng.multiply" for step in self.steps)

    def coefficients(
        self, values: Mapping[Parameter, Value], b: Builder, type: Type
    ) -> tuple[Value | None, Value | None]:
        """Factor and offset as values of a type, from the stored values of parameters; None where they are 1 and 0."""
        factor: Value | None = None
        offset: Value | None = None
        for step in self.steps:
            (parameter,) = (p for p in step.others if p is not None)
            number = computed(parameter, values, b, shape_of(type))
            number = number if element_type(number.type) is f32 else b.cast(number, type=type)
            if step.op.name == "ng.multiply":
                factor, offset = (None if v is None else b.multiply(v, number) for v in (factor, offset))
                factor = number if factor is None else factor
            elif offset is None:
                offset = number if step.op.name == "ng.add" else b.negative(number)
            else:
                offset = b.add(offset, number) if step.op.name == "ng.add" else b.subtract(offset, number)
        return factor, offset


def affine(chain: Chain, digit: IntegerType) -> Affine | None:
    """A decoded weight in affine form; None where it has none."""
    element = element_type(chain.codes.type)
    if not isinstance(element, IntegerType) or chain.bits > 8:
        return None
    zero = flipped = 128 if chain.bits == 8 and element is i8 else 0
    steps: list[Step] = []
    table: tuple[int, ...] | None = None
    for step in reversed(chain.steps):
        if step.op.name == "ng.gather":
            if zero or flipped or steps:
                return None
            zero, table = 128, tuple([number + 128 for number in table_of(step.op) or ()])
            continue
        wide, given = (element_type(v.type) for v in (step.op.result, step.op.operands[step.at]))
        known = [p for p in step.others if p is not None]
        if wide is not f32 and (wide is not i32 or given is f32 or step.op.name == "ng.multiply"):
            return None
        if step.op.name == "ng.cast":
            continue
        number = _integer(known[0]) if known and not steps and step.at == 0 else None
        fits = number is not None and not zero and 0 <= number < 1 << chain.bits
        if number is not None and step.op.name == "ng.bitwise_xor" and fits:
            flipped ^= number
        elif number is not None and step.op.name in ("ng.add", "ng.subtract"):
            zero += number if step.op.name == "ng.subtract" else -number
        elif step.op.name in ("ng.add", "ng.multiply") or (step.op.name == "ng.subtract" and step.at == 0):
            steps.append(step)
        else:
            return None
    found = Affine(chain, tuple(steps), zero, flipped, table, digit)
    narrow = table is not None or chain.bits > CODE_BITS or found.words.bits <= CODE_BITS
    return found if narrow and found.block % found.words.unit == 0 and -256 <= zero <= 256 else None


def words_of(bits: int, target: Target) -> str | None:
    """The operand types of a dot instruction of the target that multiplies digits by codes of `bits` bits; None where it has none."""
    narrow = [f"i8_ui{most}" for most in (4, 6) if bits <= most]
    return next((words for words in ("i8_ui8", *narrow, "i16_i16") if target.dot(words)), None)


def digit_of(words: str) -> IntegerType:
    """The type of digits for the operand types of a dot instruction."""
    return i16 if words == "i16_i16" else i8


def _integer(parameter: Parameter) -> int | None:
    """The value of a parameter that is one small integer for the whole weight; else None."""
    literal = parameter.op.attributes["value"] if isinstance(parameter, Number) else None
    if not isinstance(literal, ElementsAttr):
        return None
    number = literal.array().flat[0].item()
    return int(number) if number == number and abs(number) < 1 << 16 and number == int(number) else None


@dataclass(frozen=True)
class Panels:
    """A weight as stored: words of codes [panels, words of the depth, width], and parameters [panels, blocks, width]."""

    weight: Affine
    width: int
    codes: Value
    parameters: Mapping[Parameter, Value]

    @property
    def blocks(self) -> int:
        return -(-self.weight.chain.shape[1] // self.weight.block)

    def decoded(self, words: Value, parameters: Mapping[Parameter, Value], rows: int, b: Builder) -> Value:
        """The f32 numbers of some rows of the weight, whose codes and parameters are in panels."""
        own, blocks = self.weight, self.blocks
        codes = unpacked(words, own, rows, b)
        whole = TensorType((rows, blocks, own.block), f32)
        made = b.reshape(b.cast(codes, type=with_element(codes.type, f32)), type=whole)
        values = {p: spread(v, rows, blocks, b) for p, v in parameters.items()}
        factor, offset = own.coefficients(values, b, TensorType((rows, blocks), f32))
        if own.zero:
            made = b.subtract(made, b.number(float(own.zero), whole))
        if factor is not None:
            made = b.multiply(made, b.broadcast(factor, type=whole, dimensions=[0, 1]))
        if offset is not None:
            made = b.add(made, b.broadcast(offset, type=whole, dimensions=[0, 1]))
        made = b.reshape(made, type=TensorType((rows, blocks * own.block), f32))
        return b.slice(made, starts=[0, 0], limits=[rows, own.chain.shape[1]], steps=[1, 1])


def in_panels(weight: Affine, target: Target, b: Builder) -> Panels:
    """Packs the codes and the parameters of a weight in panels of as many columns as the machine multiplies at once, so that they
    are read contiguously."""
    chain, lanes = weight.chain, target.lanes(4)
    rows, depth = chain.shape
    most = max(1, min(MOST_VECTORS, target.vector_registers // REGISTERS))
    while most > 1 and most * lanes * WORD_BITS // 8 * weight.words.count > MOST_BYTES:
        most //= 2
    width = lanes * _side_by_side(-(-rows // lanes), most)
    panels, whole = -(-rows // width), -(-depth // weight.block) * weight.block
    codes = chain.codes_in_order(b)
    if element_type(codes.type) is i8:
        codes = b.bitcast(codes, type=with_element(codes.type, ui8))
    codes = b.cast(codes, type=with_element(codes.type, i32))
    if weight.flipped:
        codes = b.bitwise_xor(codes, b.number(weight.flipped, codes.type))
    codes = padded(codes, panels * width, whole, b)
    codes = weight.words.packed(b.reshape(codes, type=TensorType((panels, width, whole), i32)), b)
    found: dict[Parameter, Value] = {}
    for parameter in stored_of(weight.steps):
        # Stored by its own blocks, if they divide the depth; else by the blocks of all parameters.
        own = parameter.block if depth % max(1, parameter.block) == 0 else chain.block
        count = -(-depth // own) if own else 1
        value = parameter.at(b, (rows, count) if own else (rows,), own)
        element = element_type(value.type)
        value = padded(b.reshape(value, type=TensorType((rows, count), element)), panels * width, count, b)
        value = b.reshape(value, type=TensorType((panels, width, count), element))
        found[parameter] = b.transpose(value, permutation=[0, 2, 1])
    return Panels(weight, width, b.transpose(codes, permutation=[0, 2, 1]), found)


def _side_by_side(vectors: int, most: int) -> int:
    """The number of vector registers across a panel: the most that leave little of the last panel empty."""
    fitting = (wide for wide in range(most, 1, -1) if -vectors % wide <= vectors // 16)
    return next(fitting, 1)


def rows_of_panels(weight: Panels, indices: Value, b: Builder) -> Value:
    """Some rows of a weight, decoded."""
    (count,), (rows, _) = shape_of(indices.type), weight.weight.chain.shape
    # Indices as defined by `ng.gather`: negative ones count from the end, others are clamped.
    zero = b.number(0, indices.type)
    there = b.select(b.less(indices, zero), b.add(indices, b.number(rows, indices.type)), indices)
    there = b.minimum(b.maximum(there, zero), b.number(rows - 1, indices.type))
    width = b.number(weight.width, indices.type)
    panel, column = b.floor_divide(there, width), b.remainder(there, width)

    def taken(value: Value) -> Value:
        lines = b.gather(value, panel, axis=0)
        shape = (count, shape_of(lines.type)[1], 1)
        at = b.broadcast(column, type=TensorType(shape, element_type(column.type)), dimensions=[0])
        return b.gather_elements(lines, at, axis=2)

    parameters = {p: taken(v) for p, v in weight.parameters.items()}
    return weight.decoded(taken(weight.codes), parameters, count, b)


def padded(value: Value, rows: int, columns: int, b: Builder) -> Value:
    element, (m, n) = element_type(value.type), shape_of(value.type)
    if (rows, columns) == (m, n):
        return value
    zero = numeric_literal(0, element)
    return b.pad(value, value=zero, low=[0, 0], high=[rows - m, columns - n])


def unpacked(words: Value, weight: Affine, rows: int, b: Builder) -> Value:
    """The codes of some rows, ui8 [rows, depth in whole blocks], from words [panels, words, width]."""
    codes = weight.words.unpacked(b.transpose(words, permutation=[0, 2, 1]), b)
    if weight.table is not None:
        type = TensorType((len(weight.table),), ui8)
        table = b.constant(type=type, value=elements(np.array(weight.table, np.uint8), type))
        return _first(b.gather(table, codes, axis=0), rows, b)
    codes = b.cast(codes, type=with_element(codes.type, ui8))
    return _first(codes, rows, b)


def table_in(fusion: Op) -> ElementsAttr | None:
    """The bytes that the body of a fusion looks up for codes; None where it looks up none."""
    lookup = next((op for op in fusion.block.ops if op.name == "ng.gather"), None)
    return constant_elements(lookup.operands[0]) if lookup else None


def spread(parameter: Value, rows: int, blocks: int, b: Builder) -> Value:
    """A parameter as [rows, blocks], from its panels."""
    panels, count, width = shape_of(parameter.type)
    element = element_type(parameter.type)
    value = b.transpose(parameter, permutation=[0, 2, 1])
    value = _first(b.reshape(value, type=TensorType((panels * width, count), element)), rows, b)
    if count == blocks:
        return value
    times = -(-blocks // count)
    wide = b.broadcast(value, type=TensorType((rows, count, times), element), dimensions=[0, 1])
    wide = b.reshape(wide, type=TensorType((rows, count * times), element))
    return b.slice(wide, starts=[0, 0], limits=[rows, blocks], steps=[1, 1])


def _first(value: Value, rows: int, b: Builder) -> Value:
    return (
        b.slice(value, starts=[0, 0], limits=[rows, shape_of(value.type)[1]], steps=[1, 1])
        if shape_of(value.type)[0] > rows
        else value
    )
