# SPDX-License-Identifier: Apache-2.0
"""Types, attributes and locations in text. The base of the parser: it also walks the tokens."""

from __future__ import annotations

import re

from ..support.diagnostics import UNKNOWN, Diagnostic, Location, UserError
from .attributes import (
    ArrayAttr,
    Attribute,
    AxesAttr,
    DenseArrayAttr,
    DialectAttr,
    DictAttr,
    ElementsAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    TypeAttr,
    UnitAttr,
    boolean,
    integers,
)
from .definition import COMPUTED_FLOATS
from .lexer import Token, tokenize_type, unquote
from .literals import float_bits, float_value, integer_fits, item_bytes, wrap_integer
from .types import (
    DYNAMIC,
    DialectType,
    FloatType,
    FunctionType,
    IndexType,
    IntegerType,
    MemRefType,
    NoneType,
    ShapedType,
    TensorType,
    Type,
    VectorType,
    element_type,
    f64,
    i1,
    i64,
)

_INTEGER_TYPE = re.compile(r"(u|s)?i([1-9][0-9]*)\Z")
_FLOAT_TYPE = re.compile(r"(?:bf16|tf32|f(?:16|32|64|80|128)|f[468]E\w+)\Z")
_DIMENSION = re.compile(r"\s*(\?|[0-9]+)\s*x")
_SHAPED = {"tensor": TensorType, "vector": VectorType, "memref": MemRefType}
#: MLIR counts elements in 64 bits; a shape that overflows it can be no array of ours.
_MAX_ELEMENTS = 1 << 62


class AttributeParser:
    """A cursor over tokens with the rules for types and attributes."""

    def __init__(self, text: str, file: str, tokens: list[Token]):
        self.text, self.file, self.tokens = text, file, tokens
        self.at = 0
        self.token = tokens[0]
        self.kind = self.token.kind
        self.depth = 0
        self.aliases: dict[str, Type | Attribute | Location] = {}
        self.known_types: dict[str, Type] = {}

    # -- the cursor --------------------------------------------------------------------------------------

    def place(self, offset: int) -> Location:
        raise NotImplementedError

    def deeper(self) -> None:
        raise NotImplementedError

    def sync(self) -> None:
        self.token = self.tokens[self.at]
        self.kind = self.token.kind

    def advance(self) -> Token:
        token = self.token
        if token.kind != "end":
            self.at += 1
            self.token = self.tokens[self.at]
            self.kind = self.token.kind
        return token

    def accept(self, kind: str) -> bool:
        if self.kind == kind:
            self.advance()
            return True
        return False

    def accept_word(self, word: str) -> bool:
        if self.kind == "bare" and self.token.text == word:
            self.advance()
            return True
        return False

    def expect(self, kind: str, message: str = "") -> Token:
        if self.kind != kind:
            raise self.error(message or f"expected '{kind}'")
        return self.advance()

    def expect_text(self, text: str) -> None:
        if self.token.text != text:
            raise self.error(f"expected '{text}'")
        self.advance()

    def take(self, kind: str, what: str = "") -> Token:
        if self.kind != kind:
            raise self.error(f"expected {what or f'a {kind}'}")
        return self.advance()

    def error(self, message: str) -> UserError:
        found = "the end of the text" if self.kind == "end" else f"'{_shortened(self.token.text)}'"
        return self.error_at(f"{message}, found {found}", self.token.start, length=len(self.token.text))

    def error_at(self, message: str, start: int, hint: str = "", length: int = 1) -> UserError:
        return UserError(Diagnostic(message, self.place(start), hint=hint, length=length), source=self.text)

    def integer(self) -> int:
        return int(self.take("integer").text)

    def symbol_name(self) -> str:
        text = self.take("symbol", "a symbol @name").text[1:]
        return unquote(text) if text.startswith('"') else text

    # -- types -------------------------------------------------------------------------------------------

    def type(self) -> Type:
        token = self.token
        if token.kind == "shaped":
            known = self.known_types.get(token.text)
            if known is None:
                known = self.known_types[token.text] = self.inside_token(token)
            self.advance()
            return known
        if token.kind == "bare":
            if token.text in _SHAPED:
                return self.shaped_type(token)
            found = self.scalar_type(token.text)
            if found is not None:
                self.advance()
                return found
        elif token.kind == "(":
            return self.function_type()
        elif token.kind == "alias" and token.text[0] == "!":
            return self.dialect_type()
        raise self.error("expected a type")

    def scalar_type(self, text: str) -> Type | None:
        known = self.known_types.get(text)
        if known is not None:
            return known
        made: Type | None = None
        integer = _INTEGER_TYPE.match(text)
        if integer is not None and int(integer[2]) < 1 << 24:
            made = IntegerType(int(integer[2]), integer[1] or "")
        elif _FLOAT_TYPE.match(text):
            made = FloatType(text)
        elif text == "index":
            made = IndexType()
        elif text == "none":
            made = NoneType()
        if made is not None:
            self.known_types[text] = made
        return made

    def inside_token(self, token: Token) -> Type:
        """The type that a `shaped` token spells."""
        outer = self.tokens, self.at
        self.tokens = tokenize_type(self.text, self.file, token.start, token.start + len(token.text))
        self.at = 0
        self.sync()
        made = self.shaped_type(self.token)
        self.tokens, self.at = outer
        self.sync()
        return made

    def shaped_type(self, token: Token) -> Type:
        """`tensor<4x?xf32, #axes>`: read from the characters, since `4x3xf32` makes no sensible tokens."""
        self.advance()
        self.expect("<")
        shape, offset = self.dimensions(self.tokens[self.at - 1].start + 1)
        while self.tokens[self.at].start < offset:
            self.at += 1
        if self.tokens[self.at].start > offset and not self.text[offset : self.tokens[self.at].start].isspace():
            # The element type is the tail of a token such as `x3xf32`.
            self.at -= 1
            element = self.element_at(offset)
        else:
            self.sync()
            element = self.type()
        self.sync()
        return self.finish_shaped(token, shape, element)

    def dimensions(self, offset: int) -> tuple[tuple[int, ...], int]:
        shape: list[int] = []
        elements = 1
        while found := _DIMENSION.match(self.text, offset):
            size = DYNAMIC if found[1] == "?" else int(found[1][:20])
            elements *= max(1, size)
            if elements > _MAX_ELEMENTS:
                raise self.error_at("the shape has more elements than can be counted", offset)
            shape.append(size)
            offset = found.end()
        if len(shape) > 64:
            raise self.error_at("more than 64 dimensions", offset)
        while offset < len(self.text) and self.text[offset].isspace():
            offset += 1
        return tuple(shape), offset

    def element_at(self, offset: int) -> Type:
        """The element type that starts inside the current token."""
        found = re.compile(r"\w+").match(self.text, offset)
        element = self.scalar_type(found[0]) if found else None
        if element is None or found is None:
            raise self.error_at("expected an element type", offset)
        while self.tokens[self.at].start < found.end():
            self.at += 1
        return element

    def finish_shaped(self, token: Token, shape: tuple[int, ...], element: Type) -> Type:
        if isinstance(element, (ShapedType, FunctionType)):
            raise self.error_at(f"{element} cannot be an element", token.start)
        if token.text == "tensor":
            encoding = self.attribute() if self.accept(",") else None
            self.expect(">")
            if isinstance(encoding, AxesAttr) and len(encoding.names) != len(shape):
                raise self.error_at(
                    f"{len(shape)} dimensions but {len(encoding.names)} axis names", token.start
                )
            return TensorType(shape, element, encoding)
        if token.text == "vector":
            self.expect(">")
            if DYNAMIC in shape:
                raise self.error_at("a vector has no dynamic dimensions", token.start)
            return VectorType(shape, element)
        strides, base, space = None, 0, 0
        while self.accept(","):
            if self.accept_word("strided"):
                strides, base = self.strided_layout()
            else:
                space = self.integer()
                if self.accept(":"):
                    self.type()
        self.expect(">")
        if strides is not None and len(strides) != len(shape):
            raise self.error_at(f"{len(shape)} dimensions but {len(strides)} strides", token.start)
        return MemRefType(shape, element, strides, base, space)

    def strided_layout(self) -> tuple[tuple[int, ...], int]:
        self.expect("<")
        self.expect("[")
        strides: list[int] = []
        while self.kind != "]":
            strides.append(DYNAMIC if self.accept("?") else self.integer())
            if not self.accept(","):
                break
        self.expect("]")
        offset = 0
        if self.accept(","):
            self.expect_text("offset")
            self.expect(":")
            offset = DYNAMIC if self.accept("?") else self.integer()
        self.expect(">")
        return tuple(strides), offset

    def function_type(self) -> FunctionType:
        inputs = self.type_list()
        self.expect("->")
        results = self.type_list() if self.kind == "(" else [self.type()]
        return FunctionType(tuple(inputs), tuple(results))

    def type_list(self) -> list[Type]:
        self.expect("(")
        self.deeper()
        types: list[Type] = []
        while self.kind != ")":
            types.append(self.type())
            if not self.accept(","):
                break
        self.expect(")")
        self.depth -= 1
        return types

    def dialect_type(self) -> Type:
        token = self.advance()
        alias = self.aliases.get(token.text)
        if isinstance(alias, Type):
            return alias
        if "." not in token.text:
            raise self.error_at(f"type alias {token.text} is not defined", token.start)
        return DialectType(token.text + self.angle_body())

    def angle_body(self) -> str:
        """The characters of a balanced `<...>` if one follows, else ''."""
        if self.kind != "<":
            return ""
        start, open_angles = self.token.start, 0
        while True:
            token = self.advance()
            if token.kind == "end":
                raise self.error_at("'<' is not closed", start)
            open_angles += (token.kind == "<") - (token.kind == ">")
            if open_angles == 0:
                return self.text[start : token.start + 1]

    # -- attributes --------------------------------------------------------------------------------------

    def alias_definition(self) -> None:
        token = self.advance()
        self.expect("=")
        if token.text[0] == "!":
            self.aliases[token.text] = self.type()
        elif self.kind == "bare" and self.token.text == "loc":
            self.aliases[token.text] = self.location()
        else:
            self.aliases[token.text] = self.attribute()

    def dictionary(self) -> dict[str, Attribute]:
        """`{name = attribute, unit}`."""
        self.expect("{")
        out: dict[str, Attribute] = {}
        while self.kind != "}":
            token = self.token
            if token.kind not in ("bare", "string"):
                raise self.error("expected an attribute name")
            self.advance()
            name = unquote(token.text) if token.kind == "string" else token.text
            if name in out:
                raise self.error_at(f"attribute '{name}' is given twice", token.start)
            out[name] = self.attribute() if self.accept("=") else UnitAttr()
            if not self.accept(","):
                break
        self.expect("}")
        return out

    def attribute(self) -> Attribute:
        self.deeper()
        made = self.attribute_here()
        self.depth -= 1
        return made

    def attribute_here(self) -> Attribute:
        kind, text = self.kind, self.token.text
        if kind == "string":
            self.advance()
            return StringAttr(unquote(text))
        if kind in ("integer", "float", "hex"):
            return self.number(None)
        if kind == "symbol":
            path = [self.symbol_name()]
            while self.accept("::"):
                path.append(self.symbol_name())
            return SymbolRefAttr(*path)
        if kind == "[":
            return self.array()
        if kind == "{":
            return DictAttr(tuple(self.dictionary().items()))
        if kind == "alias" and text[0] == "#":
            return self.dialect_attribute()
        if kind == "bare":
            if text in ("true", "false"):
                self.advance()
                return boolean(text == "true")
            if text == "unit":
                self.advance()
                return UnitAttr()
            if text == "dense":
                return self.dense()
            if text == "array":
                return self.dense_array()
        if kind in ("bare", "(", "alias", "shaped"):
            return TypeAttr(self.type())
        raise self.error("expected an attribute")

    def array(self) -> Attribute:
        self.expect("[")
        items: list[Attribute] = []
        while self.kind != "]":
            items.append(self.attribute())
            if not self.accept(","):
                break
        self.expect("]")
        return ArrayAttr(tuple(items))

    def dialect_attribute(self) -> Attribute:
        token = self.advance()
        alias = self.aliases.get(token.text)
        if isinstance(alias, Attribute):
            return alias
        if token.text == "#ng.axes":
            self.expect("<")
            names: list[str] = []
            while self.kind != ">":
                if self.kind not in ("bare", "string"):
                    raise self.error("expected an axis name")
                word = self.advance()
                names.append(unquote(word.text) if word.kind == "string" else word.text)
                if not self.accept(","):
                    break
            self.expect(">")
            if len(set(names)) != len(names):
                raise self.error_at("an axis name appears twice in one tensor", token.start)
            return AxesAttr(*names)
        if "." not in token.text:
            raise self.error_at(f"attribute alias {token.text} is not defined", token.start)
        return DialectAttr(token.text + self.angle_body())

    def number(self, type: Type | None) -> Attribute:
        """A number with its `: type`; with `type` given, of that type and without the clause."""
        token = self.advance()
        if type is None:
            natural = f64 if token.kind == "float" else i64
            return self.number_of(token, self.type() if self.accept(":") else natural)
        return self.number_of(token, type)

    def number_of(self, token: Token, type: Type) -> Attribute:
        if isinstance(type, FloatType):
            if type.text not in COMPUTED_FLOATS:
                raise self.error_at(f"numbers of type {type} cannot be read", token.start)
            return FloatAttr(self.float_bits(token, type), type)
        if isinstance(type, (IntegerType, IndexType)):
            return IntegerAttr(self.integer_value(token, type), type)
        hint = f"a constant of {type} is dense<{_shortened(token.text)}>" if isinstance(type, ShapedType) else ""
        raise self.error_at(f"{type} is not the type of a number", token.start, hint)

    def float_bits(self, token: Token, type: Type) -> int:
        if token.kind == "hex":
            bits = int(token.text, 16)
            if bits >> (8 * item_bytes(type)):
                raise self.error_at(f"{token.text} has more bits than {type}", token.start)
            return bits
        if token.kind not in ("float", "integer"):
            raise self.error_at(f"expected a number, found '{_shortened(token.text)}'", token.start)
        bits = float_bits(float(token.text), type)
        if float_value(bits, type) in (float("inf"), float("-inf")):
            raise self.error_at(f"{_shortened(token.text)} does not fit in {type}", token.start)
        return bits

    def integer_value(self, token: Token, type: Type) -> int:
        if token.text in ("true", "false") and type is i1:
            return int(token.text == "true")
        if token.kind not in ("integer", "hex"):
            raise self.error_at(f"expected an integer, found '{_shortened(token.text)}'", token.start)
        if len(token.text) > 40:
            raise self.error_at(f"the number does not fit in {type}", token.start)
        value = int(token.text, 0) if token.kind == "hex" else int(token.text)
        if not integer_fits(value, type):
            raise self.error_at(f"{token.text} does not fit in {type}", token.start)
        return wrap_integer(value, type)

    def dense_array(self) -> Attribute:
        self.expect_text("array")
        self.expect("<")
        element = self.type()
        values: list[int] = []
        if self.accept(":"):
            while self.kind != ">":
                token = self.advance()
                number = self.number_of(token, element)
                values.append(number.bits if isinstance(number, FloatAttr) else number.value)  # type: ignore[attr-defined]
                if not self.accept(","):
                    break
        self.expect(">")
        return DenseArrayAttr(element, tuple(values))

    def dense(self) -> Attribute:
        """`dense<...> : type`."""
        start = self.at
        self.skip_literal()
        self.expect(":")
        type = self.type()
        after, self.at = self.at, start
        self.sync()
        made = self.literal_of(type)
        self.at = after
        self.sync()
        return made

    def skip_literal(self) -> None:
        """Moves past a number, a boolean or `dense<...>`; `literal_of` reads it once its type is known."""
        if self.kind == "bare" and self.token.text == "dense":
            self.advance()
            if not self.angle_body():
                raise self.error("expected '<'")
        elif self.kind in ("integer", "float", "hex") or self.token.text in ("true", "false"):
            self.advance()
        else:
            raise self.error("expected a number or dense<...>")

    def literal_of(self, type: Type) -> Attribute:
        """The literal here as an attribute of `type`."""
        if self.token.text != "dense":
            return self.number_of(self.advance(), type)
        start = self.advance().start
        self.expect("<")
        if not isinstance(type, ShapedType) or not type.static:
            raise self.error_at(f"dense<...> needs a static shape, not {type}", start)
        size = item_bytes(type.element)
        data = bytearray()
        if self.accept(">"):
            shape: tuple[int, ...] = (0,)
        elif self.kind == "string":
            shape = self.hexadecimal_elements(type, data)
            self.expect(">")
        else:
            shape = self.nested_elements(type.element, data)
            self.expect(">")
        if type.size != len(data) // size and (shape != () or type.size == 0):
            raise self.error_at(f"{len(data) // size} elements given for {type}", start)
        if shape not in ((), type.shape) and type.size and shape != (type.size, -1):
            raise self.error_at(f"elements of shape {list(shape)} given for {type}", start)
        if type.size > 1 and len(data) > size and bytes(data) == bytes(data[:size]) * type.size:
            data = data[:size]
        return ElementsAttr(bytes(data), type)

    def hexadecimal_elements(self, type: ShapedType, data: bytearray) -> tuple[int, ...]:
        token = self.advance()
        digits = token.text[1:-1]
        try:
            if not digits.startswith("0x"):
                raise ValueError
            data += bytes.fromhex(digits[2:])
        except ValueError:
            raise self.error_at("expected hexadecimal digits after 0x", token.start) from None
        size = item_bytes(type.element)
        if element_type(type) is i1:
            raise self.error_at("constants of i1 are written as true and false", token.start)
        return () if len(data) == size else (type.size, -1)  # -1: the shape was not spelled

    def nested_elements(self, element: Type, data: bytearray) -> tuple[int, ...]:
        """Appends the elements of a nested list; gives the list's shape."""
        if not self.accept("["):
            token = self.advance()
            number = self.number_of(token, element)
            if isinstance(number, FloatAttr):
                data += number.bits.to_bytes(item_bytes(element), "little")
            else:
                value: int = number.value  # type: ignore[attr-defined]
                data += (value & ((1 << 8 * item_bytes(element)) - 1)).to_bytes(item_bytes(element), "little")
            return ()
        self.deeper()
        inner: tuple[int, ...] | None = None
        count = 0
        while self.kind != "]":
            shape = self.nested_elements(element, data)
            if inner is not None and shape != inner:
                raise self.error("rows of different shape")
            inner, count = shape, count + 1
            if not self.accept(","):
                break
        self.expect("]")
        self.depth -= 1
        return (count, *(inner or ()))

    def attribute_of_kind(self, kind: str) -> Attribute:
        """An attribute in the short spelling that an op's form uses."""
        if kind == "i64s":
            return integers(self.integer_list())
        if kind == "i64":
            return IntegerAttr(self.integer(), i64)
        if kind.startswith("enum("):
            token = self.take("bare", "one of " + kind[5:-1].replace("|", ", "))
            if token.text not in kind[5:-1].split("|"):
                raise self.error_at(
                    f"expected one of {kind[5:-1].replace('|', ', ')}, found '{token.text}'", token.start
                )
            return StringAttr(token.text)
        return self.attribute()

    def integer_list(self) -> list[int]:
        self.expect("[")
        values: list[int] = []
        while self.kind != "]":
            values.append(self.integer())
            if not self.accept(","):
                break
        self.expect("]")
        return values

    # -- locations ---------------------------------------------------------------------------------------

    def location(self) -> Location:
        """`loc(...)`: of composite locations, the first that names a file."""
        self.expect_text("loc")
        self.expect("(")
        found = self.location_body()
        self.expect(")")
        return found

    def location_body(self) -> Location:
        self.deeper()
        found = self.location_here()
        self.depth -= 1
        return found

    def location_here(self) -> Location:
        token = self.advance()
        if token.kind == "string":
            if self.accept(":"):
                line = self.integer()
                self.expect(":")
                return Location(unquote(token.text), line, self.integer())
            if self.accept("("):
                inner = self.location_body()
                self.expect(")")
                return inner
            return UNKNOWN
        if token.kind == "alias":
            alias = self.aliases.get(token.text)
            return alias if isinstance(alias, Location) else UNKNOWN
        if token.text == "callsite":
            self.expect("(")
            callee = self.location_body()
            self.expect_text("at")
            caller = self.location_body()
            self.expect(")")
            return callee if callee.known else caller
        if token.text == "fused":
            if self.kind == "<":
                self.angle_body()
            self.expect("[")
            parts = [self.location_body()]
            while self.accept(","):
                parts.append(self.location_body())
            self.expect("]")
            return next((p for p in parts if p.known), UNKNOWN)
        if token.text == "unknown":
            return UNKNOWN
        raise self.error_at("expected a location", token.start)


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."
