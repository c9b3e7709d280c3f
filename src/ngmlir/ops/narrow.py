# SPDX-License-Identifier: Apache-2.0
"""Floats of 8 bits and fewer and integers of 2 and 4, as arithmetic on their codes: bytes in, bytes out.

Written on verbs, for every container. Codes are ui8; the arithmetic is in f32 and i32, which represent all values.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from ..ir.attributes import numeric_literal
from ..ir.definition import is_narrow
from ..ir.elements import filled
from ..ir.literals import bit_width, float_bits
from ..ir.narrow import NARROW, NarrowFormat
from ..ir.types import FloatType, IntegerType, Type, element_type, f32, f64, i32, ui8, with_element
from .ng import NgVerbs

V = TypeVar("V")

#: f32: bits of its fraction, its bias, the code of infinity and of NaN.
_FRACTION, _BIAS, _INFINITY, _NAN = 23, 127, 0x7F800000, 0x7FC00000
_MAGNITUDE = 0x7FFFFFFF


class NarrowVerbs(Generic[V]):
    """Casts from and to codes, of values in one container (`like`, whose element type does not matter)."""

    def __init__(self, verbs: NgVerbs[V], like: Type):
        self.verbs = verbs
        self.like = like

    # ---- words

    def of(self, element: Type) -> Type:
        return with_element(self.like, element)

    def number(self, value: float, element: Type = i32) -> V:
        type = self.of(element)
        return self.verbs.constant(type=type, value=filled(numeric_literal(value, element), type))

    def cast(self, x: V, element: Type) -> V:
        return self.verbs.cast(x, type=self.of(element))

    def bits(self, x: V, element: Type = i32) -> V:
        return self.verbs.bitcast(x, type=self.of(element))

    def both(self, x: V, mask: int) -> V:
        return self.verbs.bitwise_and(x, self.number(mask))

    def up(self, x: V, by: int) -> V:
        return self.verbs.shift_left(x, self.number(by)) if by else x

    def down(self, x: V, by: int) -> V:
        return self.verbs.shift_right_logical(x, self.number(by)) if by else x

    def where(self, condition: V, value: int, otherwise: V) -> V:
        return self.verbs.select(condition, self.number(value), otherwise)

    # ---- from codes

    def decoded(self, codes: V, element: Type) -> tuple[V, Type]:
        """The numbers of codes, and their type: f32 or i32."""
        x = self.both(self.cast(codes, i32), (1 << bit_width(element)) - 1)
        if element.text in NARROW:
            return self.bits(self._float_bits(x, NARROW[element.text]), f32), f32
        if isinstance(element, IntegerType) and not element.unsigned:
            top = self.number(1 << (element.width - 1))
            x = self.verbs.subtract(self.verbs.bitwise_xor(x, top), top)
        return x, i32

    def _float_bits(self, x: V, form: NarrowFormat) -> V:
        v = self.verbs
        if form.powers:
            # The least power of two is below the least exponent of f32.
            found = self.where(v.equal(x, self.number(0)), 1 << (_FRACTION - 1), self.up(x, _FRACTION))
            return self.where(v.equal(x, self.number(form.greatest + 1)), _NAN, found)
        size = self.both(x, form.sign - 1)
        # The bits as if the bias were that of f32, which the product corrects, also for numbers without a leading one.
        small = self.bits(self.up(size, _FRACTION - form.fraction), f32)
        found = self.bits(v.multiply(small, self.number(2.0 ** (_BIAS - form.bias), f32)))
        if form.unsigned_zero:
            found = self.where(v.equal(x, self.number(form.sign)), _NAN, found)
        elif form.nan is not None:
            found = self.where(v.greater(size, self.number(form.greatest)), _NAN, found)
            if form.infinity is not None:
                found = self.where(v.equal(size, self.number(form.infinity)), _INFINITY, found)
        sign = self.up(self.both(x, form.sign), 32 - form.width)
        return v.bitwise_or(found, sign)

    # ---- to codes

    def encoded(self, x: V, source: Type, element: Type) -> V:
        """The codes of numbers, whose type is not narrow."""
        if element.text in NARROW:
            made = self._float_code(self._as_f32(x, source), NARROW[element.text])
        else:
            assert isinstance(element, IntegerType)
            x = self.cast(x, i32) if source is not i32 else x
            if isinstance(source, FloatType):
                low = 0 if element.unsigned else -(1 << (element.width - 1))
                least, most = self.number(low), self.number(low + (1 << element.width) - 1)
                x = self.verbs.minimum(self.verbs.maximum(x, least), most)
            made = self.both(x, (1 << element.width) - 1)
        return self.cast(made, ui8)

    def _as_f32(self, x: V, source: Type) -> V:
        """Converts to f32. f64 is rounded to odd, so that the next rounding is correct."""
        if source is not f64:
            return x if source is f32 else self.cast(x, f32)
        v = self.verbs
        nearest = self.cast(x, f32)
        back, bits = self.cast(nearest, f64), self.bits(nearest)
        outwards = v.greater(v.absolute(x), v.absolute(back))
        moved = v.add(bits, self.where(outwards, 1, self.number(-1)))
        even = v.equal(self.both(bits, 1), self.number(0))
        finite = v.less(self.both(bits, _MAGNITUDE), self.number(_INFINITY))
        wrong = v.bitwise_and(v.bitwise_and(v.not_equal(x, back), even), finite)
        return self.bits(v.select(wrong, moved, bits), f32)

    def _float_code(self, x: V, form: NarrowFormat) -> V:
        v = self.verbs
        bits = self.bits(x)
        size = self.both(bits, _MAGNITUDE)
        no_number = v.greater(size, self.number(_INFINITY))
        if form.powers:
            half = self.where(
                v.less(size, self.number(1 << _FRACTION)),
                1 << (_FRACTION - 2),
                self.number(1 << (_FRACTION - 1)),
            )
            code = self.down(v.add(size, half), _FRACTION)
            none = v.bitwise_or(no_number, v.less(bits, self.number(1 << (_FRACTION - 1))))
            over = v.greater(code, self.number(form.greatest))
            return self.where(v.bitwise_or(none, over), form.greatest + 1, code)
        shift = _FRACTION - form.fraction
        last = self.both(self.down(size, shift), 1)
        rounded = v.add(v.add(size, self.number((1 << (shift - 1)) - 1)), last)
        code = v.subtract(self.down(rounded, shift), self.number((_BIAS - form.bias) << form.fraction))
        # Below the least exponent all numbers have the same distance: adding a number where f32 has this distance rounds to it.
        place = 2.0 ** (_FRACTION + 1 - form.bias - form.fraction)
        near = v.subtract(
            self.bits(v.add(self.bits(size, f32), self.number(place, f32))),
            self.number(float_bits(place, f32)),
        )
        least = self.number(float_bits(2.0 ** (1 - form.bias), f32))
        code = v.select(v.less(size, least), near, code)
        beyond = (
            form.infinity
            if form.infinity is not None
            else form.nan
            if form.nan is not None
            else form.greatest
        )
        code = self.where(v.greater(code, self.number(form.greatest)), beyond, code)
        if form.nan is not None:
            code = self.where(no_number, form.nan, code)
        sign = self.both(self.down(bits, 32 - form.width), form.sign)
        signed = v.bitwise_or(code, sign)
        if form.unsigned_zero:
            signed = self.where(v.equal(code, self.number(0)), 0, signed)
        return signed if form.nan is not None else self.where(no_number, 0, signed)


def cast(verbs: NgVerbs[Any], x: Any, source: Type, target: Type) -> Any:
    """`ng.cast` if one of the types is narrow; its values are codes."""
    made = NarrowVerbs(verbs, source)
    given, wanted = element_type(source), element_type(target)
    if is_narrow(given):
        x, given = made.decoded(x, given)
    if is_narrow(wanted):
        return made.encoded(x, given, wanted)
    return x if given is wanted else made.cast(x, wanted)
