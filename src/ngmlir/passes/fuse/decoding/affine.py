# SPDX-License-Identifier: Apache-2.0
"""Weights that are affine in integer codes, block by block, packed in panels of words as dot instructions read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd

from ....ir.attributes import numeric_literal
from ....ir.core import Value
from ....ir.elements import ElementsAttr
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
from ....support.machines import WORD_BITS
from ....support.target import Target
from .chains import Chain, Number, Parameter, Step, computed, stored_of
from .fusions import CODE, CODE_BITS

#: Most numbers of the left side that share a scale: sums of this many products fit in 32 bits.
MOST_BLOCK = 128
#: Most vector registers across a panel of the weight, and registers of the machine that each needs, with its sums.
MOST_VECTORS, REGISTERS = 4, 8


@dataclass(frozen=True)
class Affine:
    """A weight that is `factor * (code - zero) + offset`, with unsigned codes that are the chain's with the bits of `flipped`
    inverted. `steps`, the first one first, make factor and offset. The other side has digits of type `digit`."""

    chain: Chain
    steps: tuple[Step, ...]
    zero: int
    flipped: int
    digit: IntegerType

    @property
    def bits(self) -> int:
        return self.chain.bits

    @property
    def block(self) -> int:
        """Numbers of the left side that share a scale."""
        own = self.chain.block
        if not own:
            return min(MOST_BLOCK, -(-self.chain.shape[1] // self.unit) * self.unit)
        return gcd(own, MOST_BLOCK)

    @property
    def unit(self) -> int:
        """Codes in one word of the weight."""
        return WORD_BITS // self.bits

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
    if not isinstance(element, IntegerType) or chain.bits not in (CODE_BITS, 8):
        return None
    zero = flipped = 128 if chain.bits == 8 and element is i8 else 0
    steps: list[Step] = []
    for step in reversed(chain.steps):
        wide, given = (element_type(v.type) for v in (step.op.result, step.op.operands[step.at]))
        known = [p for p in step.others if p is not None]
        if wide is not f32 and (wide is not i32 or given is f32 or step.op.name == "ng.multiply"):
            return None
        if step.op.name == "ng.cast":
            continue
        number = _integer(known[0]) if known and not steps and step.at == 0 else None
        if number is not None and step.op.name == "ng.bitwise_xor" and 0 <= number <= CODE and not zero:
            flipped ^= number
        elif number is not None and step.op.name in ("ng.add", "ng.subtract"):
            zero += number if step.op.name == "ng.subtract" else -number
        elif step.op.name in ("ng.add", "ng.multiply") or (step.op.name == "ng.subtract" and step.at == 0):
            steps.append(step)
        else:
            return None
    found = Affine(chain, tuple(steps), zero, flipped, digit)
    return None if found.block % found.unit or not -256 <= zero <= 256 else found


def words_of(bits: int, target: Target) -> str | None:
    """The operand types of a dot instruction of the target that multiplies digits by codes of `bits` bits; None where it has none."""
    there = [*["i8_ui8", "i8_ui4"][: 1 + (bits == CODE_BITS)], "i16_i16"]
    return next((words for words in there if target.dot(words)), None)


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
    width = lanes * _side_by_side(-(-rows // lanes), most)
    panels, words = -(-rows // width), -(-depth // weight.block) * weight.block // weight.unit
    codes = chain.codes_in_order(b)
    if element_type(codes.type) is i8:
        codes = b.bitcast(codes, type=with_element(codes.type, ui8))
    codes = b.cast(codes, type=with_element(codes.type, i32))
    if weight.flipped:
        codes = b.bitwise_xor(codes, b.number(weight.flipped, codes.type))
    codes = padded(codes, panels * width, words * weight.unit, b)
    # Adjacent codes are at the digit positions of a word; if codes are narrower than digits, the next ones are in the bits above.
    unpacked = _unpacked(weight, panels, width, words)
    codes = b.sum(b.shift_left(b.reshape(codes, type=unpacked), _places(unpacked, b)), axes=[3, 4])
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


def _unpacked(weight: Affine, panels: int, width: int, words: int) -> TensorType:
    """The type of unpacked words: [panels, width, words, codes in a digit, digits in a word]."""
    group = WORD_BITS // weight.digit.width
    return TensorType((panels, width, words, weight.unit // group, group), i32)


def _places(type: TensorType, b: Builder) -> Value:
    """The bit positions in a word of the codes along the last two dimensions."""
    part, digit = (b.iota(type=type, dimension=d) for d in (3, 4))
    *_, parts, group = shape_of(type)
    wide = WORD_BITS // group
    return b.add(b.multiply(part, b.number(wide // parts, type)), b.multiply(digit, b.number(wide, type)))


def unpacked(words: Value, weight: Affine, rows: int, b: Builder) -> Value:
    """The codes of some rows, ui8 [rows, depth in whole blocks], from words [panels, words, width]."""
    panels, count, width = shape_of(words.type)
    words = b.transpose(words, permutation=[0, 2, 1])
    unpacked = _unpacked(weight, panels, width, count)
    codes = b.shift_right_logical(
        b.broadcast(words, type=unpacked, dimensions=[0, 1, 2]), _places(unpacked, b)
    )
    codes = b.bitwise_and(codes, b.number(CODE if weight.bits == CODE_BITS else 255, unpacked))
    codes = b.reshape(
        b.cast(codes, type=with_element(unpacked, ui8)),
        type=TensorType((panels * width, count * weight.unit), ui8),
    )
    return _first(codes, rows, b)


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
