# SPDX-License-Identifier: Apache-2.0
"""Parser of numbers, as values of their type."""

from __future__ import annotations

from .cursor import shortened
from .lexer import Token
from .literals import float_bits, float_value, integer_fits, special_floats, wrap_integer
from .nest_parser import NestParser
from .types import FloatType, IntegerType, Type

#: Digits that are accepted for any type, and for very wide types.
DIGITS, _MOST_DIGITS = 40, 4000


class NumberParser(NestParser):
    """A cursor that also parses numbers."""

    def float_bits(self, token: Token, type: FloatType) -> int:
        if token.kind == "hex":
            bits = int(token.text, 16)
            if bits >> type.width:  # also below 0: the sign is one of the bits
                raise self.error_at(f"{token.text} has more bits than {type}", token.start)
            return bits
        if token.kind not in ("float", "integer"):
            what = f"expected a number, found '{shortened(token.text)}'"
            raise self.error_at(what, token.start, special_floats(token.text, type))
        bits = float_bits(float(token.text), type)
        found = float_value(bits, type)
        if found in (float("inf"), float("-inf")) or found != found:
            raise self.error_at(f"{shortened(token.text)} does not fit in {type}", token.start)
        return bits

    def integer_value(self, token: Token, type: Type) -> int:
        if token.text in ("true", "false") and isinstance(type, IntegerType) and type.width == 1:
            return wrap_integer(int(token.text == "true"), type)
        if token.kind not in ("integer", "hex"):
            raise self.error_at(f"expected an integer, found '{shortened(token.text)}'", token.start)
        width = type.width if isinstance(type, IntegerType) else 64
        if len(token.text) > max(DIGITS, min(width // 3 + 3, _MOST_DIGITS)):
            raise self.error_at(f"the number does not fit in {type}", token.start)
        value = int(token.text, 0) if token.kind == "hex" else int(token.text)
        if not integer_fits(value, type):
            raise self.error_at(f"{token.text} does not fit in {type}", token.start)
        return wrap_integer(value, type)
