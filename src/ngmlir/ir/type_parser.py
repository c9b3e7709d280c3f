# SPDX-License-Identifier: Apache-2.0
"""Types in text."""

from __future__ import annotations

import re
from abc import abstractmethod

from ..support.diagnostics import Location
from .attributes import Attribute, AxesAttr
from .cursor import Cursor
from .lexer import Token, tokenize_type
from .resource_files import ResourceFolder
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
)

_INTEGER_TYPE = re.compile(r"(u|s)?i([1-9][0-9]{0,7})\Z")
_FLOAT_TYPE = re.compile(r"(?:bf16|tf32|f(?:16|32|64|80|128)|f[468]E\w+)\Z")
_WORD = re.compile(r"\w+")
_DIMENSION = re.compile(r"\s*(\?|[0-9]+)\s*x")
_SHAPED = ("tensor", "vector", "memref")
#: MLIR counts elements in 64 bits; a shape that overflows it can be no array of ours.
_MAX_ELEMENTS = 1 << 62
_MAX_RANK = 64
#: Aliases may stand for this many characters of text, and for as many times the length of the text itself: a few
#: lines that double each other would fill the memory.
_EXPANSION, _EXPANSION_FACTOR = 1 << 24, 16


class TypeParser(Cursor):
    """A cursor that reads types. Equal spellings are read once."""

    def __init__(self, text: str, file: str, resources: ResourceFolder):
        super().__init__(text, file, resources)
        self.aliases: dict[str, Type | Attribute | Location] = {}
        self.unknown_alias = ""  # the last one that stood for a location and is not defined yet
        self.alias_weights: dict[str, int] = {}
        self.expanded = 0
        self.most_expanded = _EXPANSION + _EXPANSION_FACTOR * len(text)
        self.known_types: dict[str, Type] = {}

    @abstractmethod
    def attribute(self) -> Attribute:
        """Any attribute: the encoding of a tensor is one."""

    def type(self) -> Type:
        token = self.token
        if token.kind == "shaped":
            known = self.known_types.get(token.text)
            if known is None:
                before = self.expanded
                known = self.inside_token(token)
                if self.expanded == before:  # what aliases stand for is counted each time
                    self.known_types[token.text] = known
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
        outer = self.tokens, self.at, self.complaint
        self.tokens, self.complaint = tokenize_type(self.text, token.start, token.start + len(token.text))
        self.at = 0
        self.sync()
        try:
            return self.shaped_type(self.token)
        finally:
            self.tokens, self.at, self.complaint = outer
            self.sync()

    def shaped_type(self, token: Token) -> Type:
        """`tensor<4x?xf32, #axes>`: read from the characters, since `4x3xf32` makes no sensible tokens."""
        self.deeper()
        self.advance()
        self.expect("<")
        shape, offset = self.dimensions(self.tokens[self.at - 1].start + 1)
        while self.tokens[self.at].start < offset:
            self.at += 1
        if (
            self.tokens[self.at].start > offset
            and not self.text[offset : self.tokens[self.at].start].isspace()
        ):
            # The element type is the tail of a token such as `x3xf32`.
            self.at -= 1
            element = self.element_at(offset)
        else:
            self.sync()
            element = self.type()
        self.sync()
        self.depth -= 1
        return self.finish_shaped(token, shape, element)

    def dimensions(self, offset: int) -> tuple[tuple[int, ...], int]:
        shape: list[int] = []
        elements = 1
        while found := _DIMENSION.match(self.text, offset):
            size = DYNAMIC if found[1] == "?" else int(found[1][:20])
            elements *= max(1, size)
            if elements > _MAX_ELEMENTS:
                raise self.error_at("the shape has more elements than can be counted", offset)
            if len(shape) == _MAX_RANK:
                raise self.error_at(f"more than {_MAX_RANK} dimensions", offset)
            shape.append(size)
            offset = found.end()
        while offset < len(self.text) and self.text[offset].isspace():
            offset += 1
        return tuple(shape), offset

    def element_at(self, offset: int) -> Type:
        """The element type that starts inside the current token."""
        found = _WORD.match(self.text, offset)
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
            self.expand(token)
            return alias
        if "." not in token.text:
            raise self.error_at(f"type alias {token.text} is not defined", token.start)
        return DialectType(token.text + self.angle_body())

    def expand(self, token: Token) -> None:
        """Counts what an alias stands for."""
        self.expanded += self.alias_weights.get(token.text, 0)
        if self.expanded > self.most_expanded:
            raise self.error_at(f"aliases stand for more than {self.most_expanded} characters", token.start)
