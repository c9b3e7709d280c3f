# SPDX-License-Identifier: Apache-2.0
"""Integer products: products of dequantized operands as products of their 8-bit codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ...ir.attributes import FloatAttr, IntegerAttr, numeric_literal
from ...ir.core import Module, Op, Value, count_uses
from ...ir.elements import ElementsAttr
from ...ir.types import (
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
from ...ops.builder import Builder
from ...ops.fields import get_i64s
from ...rewrite.contracts import contract
from ...rewrite.sweep import sweep_op
from ...support.target import Target
from .dead_code import without_dead

#: Function attribute: f32 products of dequantized operands may be computed on the codes and scaled after the sum.
REASSOCIATES = "ng.reassoc"
#: The types of codes, each with that of the other signedness.
_OTHER = {i8: ui8, ui8: i8}
#: A number of 16 bits that is no code.
_NO_CODE = 256
#: Largest magnitude of an i32 sum of products of codes.
_ROOM = (1 << 31) - 1


@contract(needs=("named", "plain"), anchor="function")
def integer_products(
    module: Module, target: Target, *, assume: frozenset[Literal["reassoc"]] = frozenset()
) -> Module:
    """Rewrites products of codes minus their zero points as products of the codes minus the terms of the zero points:

        sum (x - a) (w - b) = sum x w - a sum w - b sum x + K a b

    exactly, since i32 wraps around. The sums over a constant side are constants. Where the target multiplies only unsigned by
    signed bytes, the codes and the zero point of one side are shifted by 128. Borders of windows are filled with the zero point. f32 products of `scale * (x - a)` become
    integer products, scaled once after the sum, in functions with the attribute `ng.reassoc` or with `assume=reassoc`: if no
    sum of codes can overflow i32, the result is the exact sum with three roundings (to f32, product of the scales, product with
    it), where the f32 product rounds each operand, product and sum. These functions also multiply by the reciprocal of a scale
    instead of dividing, before a rounding to integers. Where codes are quantized and dequantized with the same zero point, the
    rounded integers are used from before they were narrowed.

    Before:
        func.func @main(%x: tensor<4x6xui8>, %w: tensor<6x5xi8>) -> tensor<4x5xi32> {
          %0 = ng.cast %x : (tensor<4x6xui8>) -> tensor<4x6xi32>
          %1 = ng.constant dense<7> : tensor<4x6xi32>
          %2 = ng.subtract %0, %1 : tensor<4x6xi32>
          %3 = ng.cast %w : (tensor<6x5xi8>) -> tensor<6x5xi32>
          %4 = ng.dot %2, %3 contract [1] x [0] : (tensor<4x6xi32>, tensor<6x5xi32>) -> tensor<4x5xi32>
          return %4 : tensor<4x5xi32>
        }
    After:
        func.func @main(%x: tensor<4x6xui8>, %w: tensor<6x5xi8>) -> tensor<4x5xi32> {
          %0 = ng.dot %x, %w contract [1] x [0] : (tensor<4x6xui8>, tensor<6x5xi8>) -> tensor<4x5xi32>
          %1 = ng.cast %w : (tensor<6x5xi8>) -> tensor<6x5xi32>
          %2 = ng.sum %1 axes [0] : (tensor<6x5xi32>) -> tensor<5xi32>
          %3 = ng.constant dense<7> : tensor<5xi32>
          %4 = ng.multiply %2, %3 : tensor<5xi32>
          %5 = ng.broadcast %4 dims [1] : (tensor<5xi32>) -> tensor<4x5xi32>
          %6 = ng.subtract %0, %5 : tensor<4x5xi32>
          func.return %6 : tensor<4x5xi32>
        }
    """

    def rewritten(function: Op) -> Op:
        scaled = "reassoc" in assume or REASSOCIATES in function.attributes
        made = sweep_op(function, _Products(target, scaled).rule, frozenset({"ng.dot", "ng.round"}))
        if not made.regions[0].blocks:
            return made
        made = without_dead(made)
        uses = count_uses(made.block)
        return sweep_op(made, lambda op, b: _requantized(op, b, uses), frozenset({"ng.cast"}))

    return module.with_ops([rewritten(op) if op.regions else op for op in module.ops])


@dataclass(frozen=True)
class _Term:
    """A zero point or scale that varies along `dims` of a tensor: `value` has these dimensions in order, perhaps with dimensions
    of size 1 between them; or one `number` for the whole tensor."""

    value: Value | None
    dims: tuple[int, ...] = ()
    number: float | None = None


@dataclass(frozen=True)
class _Codes:
    """A tensor of numbers `scale * (codes - zero)` of type `element`. The codes are `base` after the data movement ops `moves`, in
    this order."""

    base: Value
    moves: tuple[Op, ...] = ()
    zero: _Term | None = None
    scale: _Term | None = None
    element: Type = i32

    @property
    def codes(self) -> IntegerType:
        found = element_type(self.base.type)
        assert isinstance(found, IntegerType)
        return found

    @property
    def greatest(self) -> float:
        """The greatest magnitude of a code minus its zero point."""
        if self.zero is None:
            return 255 if self.codes.unsigned else 128
        if self.zero.number is None:
            return 255
        low = 0 if self.codes.unsigned else -128
        return max(abs(low - self.zero.number), abs(low + 255 - self.zero.number))

    @property
    def constant(self) -> bool:
        return isinstance(self.base.owner, Op) and self.base.owner.name == "ng.constant"

    def placed(self, b: Builder) -> Value:
        """The codes after `moves`; padding is filled with the zero point."""
        value, codes = self.base, self.codes
        for op in self.moves:
            if op.name == "ng.pad" and self.zero is not None and self.zero.value is not None:
                value = _padded(op, value, self.zero.value, b)
                continue
            attributes = dict(op.attributes)
            if op.name == "ng.pad":
                number = self.zero.number if self.zero else None
                attributes["value"] = numeric_literal(int(number or 0), codes)
            type = with_element(op.results[0].type, codes)
            value = b.add_op(op.rebuilt([value], types=[type], attributes=attributes)).result
        return value

    def moved(self, b: Builder) -> _Codes:
        """The same numbers by codes of the other signedness, shifted by 128 as is the zero point."""
        other = _OTHER[self.codes]
        top = b.number(-128 if self.codes is i8 else 128, self.base.type)
        base = b.bitcast(b.bitwise_xor(self.base, top), type=with_element(self.base.type, other))
        by = -128 if other is i8 else 128
        zero = _Term(None, (), by)
        if self.zero is not None and self.zero.number is not None:
            zero = _Term(None, (), self.zero.number + by)
        elif self.zero is not None and self.zero.value is not None:
            value = self.zero.value
            zero = replace(self.zero, value=b.add(value, b.number(by, value.type)))
        return replace(self, base=base, zero=None if zero.number == 0 else zero)


class _Products:
    def __init__(self, target: Target, scaled: bool):
        self.target, self.scaled = target, scaled

    def rule(self, op: Op, b: Builder) -> Sequence[Value] | None:
        if op.name == "ng.round":
            return _steps(op, b) if self.scaled else None
        return self.product(op, b)

    def product(self, op: Op, b: Builder) -> Sequence[Value] | None:
        result = op.results[0].type
        element = element_type(result)
        if element is not i32 and not (element is f32 and self.scaled):
            return None
        sides = [_codes_of(v) for v in op.operands]
        if any(side is None or side.element is not element for side in sides):
            return None
        lhs, rhs = (side for side in sides if side is not None)
        contracts = get_i64s(op, "lhs_contract"), get_i64s(op, "rhs_contract")
        for side, contract_ in zip((lhs, rhs), contracts, strict=True):
            terms = [term for term in (side.zero, side.scale) if term is not None]
            if any(d in contract_ for term in terms for d in term.dims):
                return None
        if element is f32:
            shape, depth = shape_of(op.operands[0].type), 1
            for d in contracts[0]:
                depth *= shape[d]
            if not 0 <= depth * lhs.greatest * rhs.greatest <= _ROOM:
                return None
        lhs, rhs = self.signed(lhs, rhs, b)
        return [_Product(op, lhs, rhs, b).result()]

    def signed(self, lhs: _Codes, rhs: _Codes, b: Builder) -> tuple[_Codes, _Codes]:
        """Both sides with a signedness that a byte dot instruction of the target takes; unchanged if it has none."""
        there = {atom.sides for atom in self.target.dots if atom.element_bits == 8 and not atom.room}
        there |= {sides[::-1] for sides in there}
        if not there or (lhs.codes.text, rhs.codes.text) in there:
            return lhs, rhs
        # The shifted side has a zero point, which needs the sums of the other side: these are constant if that side is.
        if rhs.constant or not lhs.constant:
            return lhs.moved(b), rhs
        return lhs, rhs.moved(b)


class _Product:
    """One product of codes, its zero point corrections and its scale."""

    def __init__(self, op: Op, lhs: _Codes, rhs: _Codes, b: Builder):
        self.op, self.b, self.type = op, b, op.results[0].type
        self.sides = (lhs, rhs)
        self.codes = (lhs.placed(b), rhs.placed(b))
        self.contracts = get_i64s(op, "lhs_contract"), get_i64s(op, "rhs_contract")
        self.batches = get_i64s(op, "lhs_batch"), get_i64s(op, "rhs_batch")

    def result(self) -> Value:
        b, (lhs, rhs) = self.b, self.sides
        whole = with_element(self.type, i32)
        total = b.add_op(self.op.rebuilt(self.codes, types=[whole])).result
        corrections = [self.correction(0), self.correction(1)]
        for value in corrections:
            if value is not None:
                total = b.subtract(total, value)
        if lhs.zero is not None and rhs.zero is not None:
            both = b.multiply(self.over(lhs.zero, 0, i32), self.over(rhs.zero, 1, i32))
            depth = 1
            for d in self.contracts[0]:
                depth *= shape_of(self.op.operands[0].type)[d]
            total = b.add(total, b.multiply(both, b.number(depth, whole)))
        if element_type(self.type) is i32:
            return total
        total = b.cast(total, type=self.type)
        if lhs.scale is None or rhs.scale is None:
            scales = [self.over(s.scale, i, f32) for i, s in enumerate(self.sides) if s.scale is not None]
        else:
            scales = [self.product(lhs.scale, rhs.scale)]
        return b.multiply(total, scales[0]) if scales else total

    def correction(self, side: int) -> Value | None:
        """What the zero point of a side adds to the result: the zero point times the sums of the codes of the other side."""
        b, zero, other = self.b, self.sides[side].zero, 1 - side
        if zero is None:
            return None
        codes = self.codes[other]
        wide = b.cast(codes, type=with_element(codes.type, i32))
        sums = b.sum(wide, axes=list(self.contracts[other]))
        kept = [d for d in range(len(shape_of(codes.type))) if d not in self.contracts[other]]
        places = [self.place(d, other) for d in kept]
        if not zero.dims:
            sums = b.multiply(sums, b.broadcast(self.value(zero, i32), type=sums.type, dimensions=[])
                              if zero.number is None else b.number(zero.number, sums.type))  # fmt: skip
            return self.spread(sums, places, i32)
        return b.multiply(self.spread(sums, places, i32), self.over(zero, side, i32))

    def product(self, lhs: _Term, rhs: _Term) -> Value:
        """The product of both scales, broadcast to the result; where one is a scalar, they are multiplied before the broadcast."""
        b = self.b
        if not lhs.dims or not rhs.dims:
            one, more, side = (lhs, rhs, 1) if not lhs.dims else (rhs, lhs, 0)
            value = self.value(more, f32)
            single = self.value(one, f32)
            if more.dims:
                single = b.broadcast(single, type=value.type, dimensions=[])
            return self.spread(b.multiply(value, single), [self.place(d, side) for d in more.dims], f32)
        return b.multiply(self.over(lhs, 0, f32), self.over(rhs, 1, f32))

    def over(self, term: _Term, side: int, element: Type) -> Value:
        """A term of a side, broadcast to the result."""
        return self.spread(self.value(term, element), [self.place(d, side) for d in term.dims], element)

    def value(self, term: _Term, element: Type) -> Value:
        if term.value is not None:
            type = term.value.type
            if len(shape_of(type)) == len(term.dims):
                return term.value
            shape = tuple(n for n in shape_of(type) if n != 1)
            return self.b.reshape(term.value, type=TensorType(shape, element_type(type)))
        return self.b.number(term.number or 0, TensorType((), element))

    def spread(self, value: Value, places: Sequence[int], element: Type) -> Value:
        type = with_element(self.type, element)
        order = sorted(range(len(places)), key=places.__getitem__)
        if order != [*range(len(places))]:  # a batch dimension is not the first of its side
            value = self.b.transpose(value, permutation=order)
        return self.b.broadcast(value, type=type, dimensions=sorted(places))

    def place(self, dimension: int, side: int) -> int:
        """The dimension of the result that a dimension of a side, not a contracted one, becomes."""
        batch = self.batches[side]
        if dimension in batch:
            return batch.index(dimension)

        def free(of: int) -> list[int]:
            gone = {*self.contracts[of], *self.batches[of]}
            return [d for d in range(len(shape_of(self.op.operands[of].type))) if d not in gone]

        before = len(batch) + (len(free(0)) if side else 0)
        return before + free(side).index(dimension)


def _requantized(op: Op, b: Builder, uses: Mapping[Value, int]) -> Sequence[Value] | None:
    """The f32 numbers of codes that have no other use and were just quantized: a cast of the rounded i32 numbers, without adding
    and subtracting the zero point; None where `op` is no such cast."""
    found = _codes_of(op.results[0]) if element_type(op.results[0].type) is f32 else None
    if found is None or found.moves or found.scale is not None or not isinstance(found.base.owner, Op):
        return None
    if uses.get(found.base, 0) > 1:
        return None
    made, number = found.base.owner, found.zero.number if found.zero else 0
    if made.name != "ng.cast" or number is None:
        return None
    whole = made.operands[0]
    if isinstance(whole.owner, Op) and whole.owner.name == "ng.add":
        whole, moved = whole.owner.operands
        term = _term_of(moved)
        if term is None or term.number != number:
            return None
    elif number:
        return None
    low = -number if found.codes.unsigned else -128 - number
    if not isinstance(whole.owner, Op) or whole.owner.name != "ng.cast":
        return None
    if not _within(whole.owner.operands[0], low, low + 255) or element_type(whole.type) is not i32:
        return None
    return [b.cast(whole, type=op.results[0].type)]


def _within(value: Value, low: float, high: float) -> bool:
    """Whether a float is clamped to a range by its last two ops: a maximum, then a minimum."""
    for name, sign, end in (("ng.minimum", 1, high), ("ng.maximum", -1, low)):
        op = value.owner
        term = _term_of(op.operands[1]) if isinstance(op, Op) and op.name == name else None
        if not isinstance(op, Op) or term is None or term.number is None or sign * (term.number - end) > 0:
            return False
        value = op.operands[0]
    return True


def _steps(op: Op, b: Builder) -> Sequence[Value] | None:
    """The rounding of a division by a scale, as a multiplication by its reciprocal; near ties it may give the neighbouring integer."""
    division = op.operands[0].owner
    if not isinstance(division, Op) or division.name != "ng.divide":
        return None
    type, term = division.results[0].type, _term_of(division.operands[1])
    if element_type(type) is not f32 or term is None or term.number is None:
        return None
    if not 2.0**-100 < abs(term.number) < 2.0**100:
        return None
    return [b.round(b.multiply(division.operands[0], b.number(1 / term.number, type)))]


def _codes_of(value: Value) -> _Codes | None:
    """A value as a tensor of codes with zero point and scale; None where it is none."""
    op = value.owner
    if not isinstance(op, Op) or not isinstance(value.type, TensorType) or value.type.axes:
        return None
    element = element_type(value.type)
    match op.name:
        case "ng.cast":
            source = op.operands[0]
            if element_type(source.type) in _OTHER and element in (i32, f32):
                return _Codes(source, element=element)
            found = _codes_of(source) if element is f32 else None
            return replace(found, element=f32) if found and found.element is i32 else None
        case "ng.subtract":
            found, zero = _codes_of(op.operands[0]), _term_of(op.operands[1])
            if found is None or zero is None or found.zero or found.moves or found.element is not i32:
                return None
            return found if zero.number == 0 else replace(found, zero=zero)
        case "ng.multiply":
            for one, other in (op.operands, op.operands[::-1]):
                found, scale = _codes_of(one), _term_of(other)
                if found and scale and found.scale is None and not found.moves and element is f32:
                    return replace(found, scale=scale)
            return None
        case name if "moves" in op.traits or name == "ng.pad":
            found = _codes_of(op.operands[0])
            return found and _placed(found, op)
        case _:
            return None


def _placed(found: _Codes, op: Op) -> _Codes | None:
    """The numbers after a data movement op. None unless zero point and scale are the same for the whole tensor and, for a pad, the
    fill is 0 and the zero point a code."""
    terms = [term for term in (found.zero, found.scale) if term is not None]
    if any(term.dims for term in terms):
        return None
    moved = replace(found, moves=(*found.moves, op))
    if op.name == "ng.pad":
        fill = op.attributes["value"]
        assert isinstance(fill, FloatAttr | IntegerAttr)
        if fill.value != 0 or not (found.zero is None or _is_code(found.zero, found.codes)):
            return None
    return moved


def _is_code(zero: _Term, codes: IntegerType) -> bool:
    """Whether a zero point is a number, or was a code before it was widened."""
    made = zero.value.owner if zero.value is not None else None
    widened = isinstance(made, Op) and made.name == "ng.cast" and element_type(made.operands[0].type) is codes
    return zero.number is not None or widened


def _padded(op: Op, codes: Value, zero: Value, b: Builder) -> Value:
    """The codes after a pad, filled with a zero point that is known at run time. The filled elements are found by a number that is no
    code."""
    type = with_element(op.results[0].type, i16)
    wide = b.cast(codes, type=with_element(codes.type, i16))
    attributes = {**op.attributes, "value": numeric_literal(_NO_CODE, i16)}
    padded = b.add_op(op.rebuilt([wide], types=[type], attributes=attributes)).result
    whole = b.broadcast(b.cast(zero, type=with_element(zero.type, i16)), type=type, dimensions=[])
    filled = b.select(b.equal(padded, b.number(_NO_CODE, type)), whole, padded)
    return b.cast(filled, type=with_element(type, element_type(codes.type)))


def _term_of(value: Value) -> _Term | None:
    """A splat constant, scalar or broadcast as a zero point or scale; None for any other value."""
    op = value.owner
    if isinstance(op, Op) and op.name == "ng.constant":
        literal = op.attributes["value"]
        if isinstance(literal, ElementsAttr) and literal.splat and literal.type.size:
            number = literal.array().flat[0]
            return _Term(None, (), number.item())
    if not shape_of(value.type):
        return _Term(value, ())
    if isinstance(op, Op) and op.name == "ng.broadcast":
        source, dims = op.operands[0], get_i64s(op, "dimensions")
        inner = _term_of(source)
        if inner is not None and not inner.dims:
            return inner
        return _Term(source, tuple(d for d, n in zip(dims, shape_of(source.type), strict=True) if n != 1))
    return None
