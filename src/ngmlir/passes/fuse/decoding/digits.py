# SPDX-License-Identifier: Apache-2.0
"""Products of f32 with weights that are affine in integer codes, block by block, as sums of integers.

Within a block of the depth each row of the left side is `scale * q` with integers `q`. Their balanced digits in base 256 are signed
bytes (or 16-bit integers, in base 65536). Dot instructions multiply digits by codes; the sums are exact, and are converted to f32
once for each block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ....ir.attributes import StringAttr
from ....ir.core import Block, Op, Region, Value
from ....ir.elements import ElementsAttr
from ....ir.types import (
    IntegerType,
    TensorType,
    Type,
    element_type,
    f32,
    i8,
    i32,
    shape_of,
    ui8,
    with_element,
)
from ....ops import ng
from ....ops.builder import Builder
from ....support.machines import WORD_BITS
from ...analysis.product import Product
from .affine import Panels, affine, padded, spread, table_in, unpacked
from .chains import Number, Parameter, chain_of
from .fusions import DECODED
from .words import Words

#: Bits of all digits of an f32 number: those of its fraction.
FRACTION = 24
#: The scale of a block makes 2^EXPONENT of the greatest power of two up to ROOM times its greatest magnitude: integers are then below
#: 2^23 / (1 + 1/128), all of which three balanced bytes hold.
EXPONENT, ROOM = 22, 1.0 + 2.0**-7
#: Lower bound of the greatest magnitude of a block, so that scales are normal numbers.
LEAST = 2.0**-100


# -- the left side -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Digits:
    """Rows as `scale * q`: the digits of q, the lowest first, i8 or i16 [rows, digits, depth padded to whole blocks]; f32
    scales [rows, blocks]."""

    digits: Value
    scale: Value
    block: int

    @property
    def width(self) -> int:
        """Bits of a digit."""
        return bits_of(self.digits)

    @property
    def many(self) -> int:
        """The number of digits of a number."""
        return shape_of(self.digits.type)[1]

    def blocks(self, value: Value, b: Builder) -> Value:
        rows, many, depth = shape_of(value.type)
        return b.reshape(
            value, type=TensorType((rows, many, depth // self.block, self.block), element_type(value.type))
        )

    def sums(self, b: Builder) -> Value:
        """The sums of each block of digits, i32 [rows, digits, blocks]."""
        whole = self.blocks(self.digits, b)
        return b.sum(b.cast(whole, type=with_element(whole.type, i32)), axes=[3])


def digits_of(digit: IntegerType) -> int:
    """The number of digits of an f32 number."""
    return -(-FRACTION // digit.width)


def of_bytes(x: Value, block: int, digit: IntegerType, b: Builder) -> Digits | None:
    """The digits of rows that are signed bytes times a scale for each block, as in quantised models: one digit; None for others."""
    chain = chain_of(x, 1, lambda _: True)
    own = affine(chain, digit) if chain is not None and chain.block % block == 0 else None
    # The zero point must be that of signed bytes as unsigned codes, which are the bytes with the highest bit inverted.
    if chain is None or own is None or own.offsets or own.zero != own.flipped:
        return None
    if element_type(chain.codes.type) is not i8:
        return None
    rows, depth = chain.shape
    blocks = -(-depth // block)
    size = (rows, blocks) if chain.block else (rows,)
    used = {p for step in own.steps for p in step.others if p is not None}
    values: dict[Parameter, Value] = {}
    for parameter in used:
        if not isinstance(parameter, Number):
            values[parameter] = parameter.at(b, size, block)
    scale, _ = own.coefficients(values, b, TensorType(size, f32))
    if scale is None:
        return None
    if not chain.block:
        scale = b.broadcast(scale, type=TensorType((rows, blocks), f32), dimensions=[0])
    codes = padded(chain.codes_in_order(b), rows, blocks * block, b)
    digits = b.reshape(codes, type=TensorType((rows, 1, blocks * block), i8))
    return Digits(b.cast(digits, type=with_element(digits.type, digit)), scale, block)


def in_digits(x: Value, block: int, digit: IntegerType, b: Builder) -> Digits:
    """The digits of f32 rows. Numbers are rounded to integers of 23 bits times the scale of their block, a power of two that follows
    from its greatest magnitude."""
    rows, depth = shape_of(x.type)
    blocks = -(-depth // block)
    x = b.reshape(padded(x, rows, blocks * block, b), type=TensorType((rows, blocks, block), f32))
    most = b.max(b.absolute(x), axes=[2])
    held = b.maximum(b.multiply(most, b.number(ROOM, most.type)), b.number(LEAST, most.type))
    whole = with_element(most.type, i32)
    power = b.bitwise_and(b.bitcast(held, type=whole), b.number(0x7F800000, whole))
    scale = b.bitcast(b.subtract(power, b.number(EXPONENT << 23, whole)), type=most.type)
    inverse = b.bitcast(b.subtract(b.number((2 * 127 + EXPONENT) << 23, whole), power), type=most.type)
    # Infinity minus itself is NaN, which makes the scale NaN.
    scale = b.add(scale, b.subtract(most, most))
    q = b.round(b.multiply(x, b.broadcast(inverse, type=x.type, dimensions=[0, 1])))
    places = with_element(x.type, i32)
    wide = digit.width
    many, half = digits_of(digit), 1 << (wide - 1)
    moved = sum([half << (wide * i) for i in range(many)])
    # i32 wraps around.
    balanced = b.add(b.cast(q, type=places), b.number(moved - (moved >> 31 << 32), places))
    unpacked = TensorType((rows, many, blocks, block), i32)
    balanced = b.broadcast(balanced, type=unpacked, dimensions=[0, 2, 3])
    shifts = b.multiply(b.iota(type=unpacked, dimension=1), b.number(wide, unpacked))
    part = b.bitwise_xor(b.shift_right_arithmetic(balanced, shifts), b.number(half, unpacked))
    digits = b.cast(part, type=with_element(unpacked, digit))
    return Digits(b.reshape(digits, type=TensorType((rows, many, blocks * block), digit)), scale, block)


# -- the product -------------------------------------------------------------------------------------------------------


def digits_product(left: Digits, weight: Panels, result: Type, b: Builder) -> Value:
    """The product of rows in digits and the transpose of a weight in panels."""
    own = weight.weight
    sums = left.sums(b) if own.zero or own.offsets else left.digits
    start = None
    if own.zero:
        rows, many, blocks = shape_of(sums.type)
        start = b.multiply(sums, b.number(-own.zero, sums.type))
        start = b.reshape(start, type=TensorType((rows * many, blocks), i32))
    total = b.multiply(_joined(sums, 1, left.width, b), left.scale) if own.offsets else None
    given = {
        "digits": left.digits,
        "scale": left.scale,
        "start": start,
        "total": total,
        "codes": weight.codes,
    }
    named = {value: name for name, value in given.items() if value is not None}
    parameters = dict.fromkeys(weight.parameters.values())
    named |= {v: v.name or f"parameter{i}" for i, v in enumerate(parameters)}
    body = Block([v.type for v in named], list(named.values()))
    inside = dict(zip(named, body.args, strict=True))
    _Body(left, weight, inside, Builder(body, b.location)).build(result, start, total)
    attributes = {"kind": StringAttr(DECODED)}
    return b.add_op(ng.FusionOp(list(named), [result], attributes, [Region(body)], b.location)).result


def bits_of(digits: Value) -> int:
    """Bits of each digit."""
    element = element_type(digits.type)
    assert isinstance(element, IntegerType)
    return element.width


def _joined(digits: Value, along: int, wide: int, b: Builder) -> Value:
    """The f32 numbers whose digits, i32 in base 2^`wide`, are `along` a dimension; all but the lowest digit are added exactly."""
    shape, many = shape_of(digits.type), shape_of(digits.type)[along]
    one = TensorType((*shape[:along], *shape[along + 1 :]), i32)
    numbers = with_element(one, f32)
    parts: list[Value] = []
    for i in range(many):
        starts, limits = [0] * len(shape), list(shape)
        starts[along], limits[along] = i, i + 1
        part = b.slice(digits, starts=starts, limits=limits, steps=[1] * len(shape)) if many > 1 else digits
        parts.append(b.reshape(part, type=one))
    low, *others = parts
    if not others:
        return b.cast(low, type=numbers)
    high = others[-1]
    for digit in reversed(others[:-1]):
        high = b.add(b.shift_left(high, b.number(wide, high.type)), digit)
    return b.fma(b.cast(high, type=numbers), b.number(float(1 << wide), numbers), b.cast(low, type=numbers))


class _Body:
    """Writes the body of the fusion of a product of digits."""

    def __init__(self, left: Digits, weight: Panels, inside: Mapping[Value, Value], b: Builder):
        self.left, self.panels, self.inside, self.b = left, weight, inside, b
        self.rows, self.blocks = shape_of(left.scale.type)
        self.columns = weight.weight.chain.shape[0]

    def build(self, result: Type, start: Value | None, total: Value | None) -> None:
        b, own, block = self.b, self.panels.weight, self.left.block
        codes = unpacked(self.inside[self.panels.codes], own, self.columns, b)
        codes = b.reshape(codes, type=TensorType((self.columns, self.blocks, block), ui8))
        rows = self.left.blocks(self.inside[self.left.digits], b)
        whole = TensorType((self.blocks, self.rows, shape_of(rows.type)[1], self.columns), i32)
        sums = b.dot(
            rows, codes, lhs_contract=[3], rhs_contract=[2], lhs_batch=[2], rhs_batch=[1], type=whole
        )
        if start is not None:
            each = b.reshape(self.inside[start], type=TensorType((*whole.shape[1:3], self.blocks), i32))
            turned = b.transpose(each, permutation=[2, 0, 1])
            sums = b.add(sums, b.broadcast(turned, type=whole, dimensions=[0, 1, 2]))
        scale = self.over(self.inside[self.left.scale], 0)
        values = {
            p: spread(self.inside[v], self.columns, self.blocks, b) for p, v in self.panels.parameters.items()
        }
        factor, offset = own.coefficients(values, b, TensorType((self.columns, self.blocks), f32))
        if factor is not None:
            scale = b.multiply(scale, self.over(factor, 1))
        made = b.multiply(_joined(sums, 2, self.left.width, b), scale)
        if offset is not None and total is not None:
            made = b.add(made, b.multiply(self.over(self.inside[total], 0), self.over(offset, 1)))
        b.end(ng.YieldOp, b.sum(made, axes=[0]))

    def over(self, value: Value, side: int) -> Value:
        """A value for each row (`side` 0) or column (1) and block, broadcast to [blocks, rows, columns]."""
        type = TensorType((self.blocks, self.rows, self.columns), element_type(value.type))
        turned = self.b.transpose(value, permutation=[1, 0])
        return self.b.broadcast(turned, type=type, dimensions=[0, 1 + side])


# -- reading -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InDigits:
    """A fusion of a product of digits and panels, as code generation reads it."""

    fusion: Op
    dot: Op
    codes: Value
    shape: tuple[int, int]  # of the weight
    block: int

    @property
    def digits(self) -> Value:
        """The argument with the digits of the rows."""
        return self.fusion.block.args[0]

    @property
    def many(self) -> int:
        """The number of digits of a number."""
        return shape_of(self.digits.type)[1]

    @property
    def numbers(self) -> Sequence[Value]:
        """The arguments with a number for each row and block."""
        args = self.fusion.block.args
        return [v for v in args[1 : args.index(self.codes)] if v is not self.start]

    @property
    def parameters(self) -> Sequence[Value]:
        args = self.fusion.block.args
        return args[args.index(self.codes) + 1 :]

    @property
    def start(self) -> Value | None:
        """The argument with the initial values of the sums of digits, [rows * digits, blocks]."""
        args = self.fusion.block.args
        return next((v for v in args[1 : args.index(self.codes)] if element_type(v.type) is i32), None)

    @cached_property
    def sums(self) -> Value:
        """The sums of digits, including their initial values."""
        uses = [
            op for op in self.fusion.block.ops if op.name == "ng.add" and op.operands[0] is self.dot.result
        ]
        return uses[0].result if uses else self.dot.result

    @cached_property
    def sum(self) -> Op:
        """The sum over the blocks."""
        last = self.fusion.block.ops[-1].operands[0].owner
        assert isinstance(last, Op)
        return last

    @cached_property
    def terms(self) -> Sequence[tuple[Value, Value]]:
        """The factors of the products that are summed over the blocks."""
        return list(_terms(self.sum.operands[0]))

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return shape_of(self.codes.type)[2]

    @cached_property
    def words(self) -> Words:
        """How codes are packed."""
        depth = shape_of(self.digits.type)[2]
        return Words(WORD_BITS * shape_of(self.codes.type)[1] // depth, self.group)

    @cached_property
    def table(self) -> ElementsAttr | None:
        """The bytes that codes are the indices of; None where codes are multiplied."""
        return table_in(self.fusion)

    @property
    def code_bits(self) -> int:
        """Bits of what is multiplied."""
        return 8 if self.table else self.words.bits

    @property
    def group(self) -> int:
        """Digits in a word."""
        return WORD_BITS // bits_of(self.digits)

    @property
    def product(self) -> Product:
        rows, depth = shape_of(self.digits.type)[0], self.shape[1]
        return Product(0, rows, self.shape[0], depth, False, False, f32, f32, f32)


def _terms(value: Value) -> Iterator[tuple[Value, Value]]:
    op = value.owner
    assert isinstance(op, Op)
    if op.name == "ng.add":
        for operand in op.operands:
            yield from _terms(operand)
    else:
        yield op.operands[0], op.operands[1]


def digits(fusion: Op) -> InDigits | None:
    """A fusion of kind `decoded` as `InDigits`; None where it has no digits."""
    block = fusion.block
    dot = next(op for op in block.ops if op.name == "ng.dot")
    if element_type(dot.result.type) is not i32:
        return None
    columns, blocks, size = shape_of(dot.operands[1].type)
    codes = next(v for v in block.args[1:] if len(shape_of(v.type)) == 3)
    return InDigits(fusion, dot, codes, (columns, blocks * size), size)
