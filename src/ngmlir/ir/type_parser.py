# SPDX-License-Identifier: Apache-2.0
"""Parser of types."""

from __future__ import annotations

import re
from abc import abstractmethod

from ..support.diagnostics import Location, UserError
from ..support.length_text import UsualLengths
from ..support.length_text import parse as parse_length
from ..support.lengths import Length, NeedsLength, usual
from .attributes import Attribute, AxesAttr, IntegerAttr
from .cursor import Cursor, shortened
from .lexer import Token, tokenize_type
from .resource_files import ResourceFolder
from .types import (
    DYNAMIC,
    FloatType,
    FunctionType,
    IndexType,
    IntegerType,
    MemRefType,
    NoneType,
    OpaqueType,
    ShapedType,
    TensorType,
    Type,
    VectorType,
    i64,
)
from .types import token as token_type

_INTEGER_TYPE = re.compile(r"(u|s)?i([1-9][0-9]{0,7})\Z")
_FLOAT_TYPE = re.compile(r"(?:bf16|tf32|f(?:16|32|64|80|128)|f[468]E\w+)\Z")
_UNRANKED = re.compile(r"\s*\*\s*x")
_DIMENSION = re.compile(r"\s*(\?|[0-9]+|\[[^\]\n]*\])\s*x")
#: A number that depends on open lengths, `[4*N + 1] :`.
_LENGTH = re.compile(r"\[[\w.()+*\s-]+\]\s*:")
_SHAPED = ("tensor", "vector", "memref")
_COMPOSED = ("complex", "tuple")
#: MLIR counts elements in 64 bits; larger shapes are rejected.
_MAX_ELEMENTS = 1 << 62
_MAX_RANK = 64
#: Aliases may expand to this many characters of text, or to this many times the length of the text: a few
#: lines that double each other would exhaust memory.
_EXPANSION, _EXPANSION_FACTOR = 1 << 24, 16


#: Element types by their names in other languages.
_ELSEWHERE = {
    "float": "f32", "double": "f64", "half": "f16", "bfloat16": "bf16", "bool": "i1", "char": "i8", "short": "i16", "int": "i32",
    "long": "i64", **{f"float{n}": f"f{n}" for n in (16, 32, 64)}, **{f"int{n}": f"i{n}" for n in (8, 16, 32, 64)},
    **{f"uint{n}": f"ui{n}" for n in (8, 16, 32, 64)},
}  # fmt: skip

#: The hint for parts of MLIR that are not supported.
KEEP = "ngopt --allow-unregistered-dialect accepts unknown types and attributes"
KEEP_OPS = "ngopt --allow-unregistered-dialect keeps ops of other dialects"
#: Where a text describes loops by maps, as linalg does.
_MAPS = f"ops here name dimensions by number (ng.transpose, ng.broadcast, ng.dot, ng.sum); {KEEP}"


class TypeParser(Cursor):
    """A cursor that parses types. Equal spellings are parsed once. With `unregistered`, unknown types and attributes are kept
    by their spelling."""

    def __init__(self, text: str, file: str, unregistered: bool, resources: ResourceFolder):
        super().__init__(text, file, resources)
        self.unregistered = unregistered
        self.aliases: dict[str, Type | Attribute | Location] = {}
        self.lost_aliases: set[str] = set()  # those whose definition had an error
        self.alias_starts: dict[str, int] = {}
        self.location_texts: dict[str, str] = {}  # the spelling of aliases of locations
        self.has_read_ahead = False
        self.alias_weights: dict[str, int] = {}
        self.expanded = 0
        self.most_expanded = _EXPANSION + _EXPANSION_FACTOR * len(text)
        self.known_types: dict[str, Type] = {}
        self.lengths = UsualLengths()

    @abstractmethod
    def attribute(self) -> Attribute:
        """Any attribute: the encoding of a tensor is one."""

    @abstractmethod
    def is_loaded(self, dialect: str) -> bool:
        """Whether a dialect is loaded, so that nothing in it is unknown."""

    def type(self) -> Type:
        token = self.token
        if token.kind == "shaped":
            known = self.known_types.get(token.text)
            if known is None:
                before = self.expanded
                known = self.inside_token(token)
                if self.expanded == before:  # the expansion of aliases is counted each time
                    self.known_types[token.text] = known
            self.advance()
            return known
        if token.kind == "bare":
            if token.text in _SHAPED:
                return self.shaped_type(token)
            if token.text in _COMPOSED:
                return self.composed_type(token)
            found = self.scalar_type(token.text)
            if found is not None:
                self.advance()
                return found
        elif token.kind == "(":
            return self.function_type()
        elif token.kind == "alias" and token.text[0] == "!":
            return self.dialect_type()
        lower = token.text.lower()
        known = lower in (*_SHAPED, *_COMPOSED) or self.scalar_type(lower) is not None
        meant = _ELSEWHERE.get(token.text) or (lower if known else "")
        raise self.error("expected a type", hint=f"did you mean {meant}?" if meant else "")

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
        """The type of a `shaped` token."""
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
        """`tensor<4x?xf32, #axes>`: parsed from the characters, since `4x3xf32` does not split into usable tokens."""
        self.deeper()
        self.advance()
        self.expect("<")
        shape, odd, offset = self.dimensions(self.tokens[self.at - 1].start + 1)
        while self.tokens[self.at].start < offset:
            self.at += 1
        within = self.tokens[self.at - 1]
        if within.start + len(within.text) > offset:
            # The element type begins at the end of a token such as `x3xf32`, which is split.
            self.at -= 1
            self.tokens[self.at] = Token("bare", self.text[offset : within.start + len(within.text)], offset)
        self.sync()
        element = self.type()
        self.depth -= 1
        return self.finish_shaped(token, shape, odd, element)

    def dimensions(self, offset: int) -> tuple[tuple[int, ...], str, int]:
        """The sizes; their spelling if they are not supported (`*x`, `[4]x`); and the offset of the element type."""
        if found := _UNRANKED.match(self.text, offset):
            return (), "*x", found.end()
        shape: list[int] = []
        elements, ours, start = 1, True, offset
        while found := _DIMENSION.match(self.text, offset):
            size = DYNAMIC if found[1] == "?" else self.size(found[1], offset)
            ours = (ours and found[1][-1] != "]") or isinstance(size, Length)
            elements *= max(1, usual(size))
            if elements > _MAX_ELEMENTS:
                raise self.error_at("the shape has too many elements", offset)
            if len(shape) == _MAX_RANK:
                raise self.error_at(f"more than {_MAX_RANK} dimensions", offset)
            shape.append(size)
            offset = found.end()
        odd = "" if ours else "".join(self.text[start:offset].split())
        while offset < len(self.text) and self.text[offset].isspace():
            offset += 1
        return tuple(shape), odd, offset

    def size(self, text: str, offset: int) -> int:
        """The number with this spelling; `[4*N + 1]` depends on open lengths, `[4]` is MLIR's scalable size."""
        if text[0] != "[":
            return int(text[:20])
        try:
            return parse_length(text[1:-1], self.lengths)
        except (ValueError, NeedsLength, ZeroDivisionError):
            raise self.error_at(f"{shortened(text)} is no size", offset) from None

    def is_length(self) -> bool:
        """Whether a number that depends on open lengths begins here, not a list: it has a type."""
        return self.kind == "[" and _LENGTH.match(self.text, self.token.start) is not None

    def integer_or_length(self) -> int:
        """`4`, or `[4*N]`."""
        start = self.token.start
        if not self.accept("["):
            return self.integer()
        while self.kind not in ("]", "end"):
            self.advance()
        end = self.token.start
        self.expect("]")
        return self.size(self.text[start : end + 1], start)

    def finish_shaped(self, token: Token, shape: tuple[int, ...], odd: str, element: Type) -> Type:
        if isinstance(element, (TensorType, FunctionType)):
            raise self.error_at(f"{element} cannot be an element type", token.start)
        if odd or isinstance(element, (ShapedType, OpaqueType)):
            sizes = odd or "".join("?x" if d == DYNAMIC else f"{d}x" for d in shape)
            return self.opaque_shaped(token, f"{sizes}{element}")
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
            if 0 in shape:
                raise self.error_at("a vector has no dimension of length 0", token.start)
            return VectorType(shape, element)
        return self.buffer(token, shape, element)

    def buffer(self, token: Token, shape: tuple[int, ...], element: Type) -> Type:
        """The layout and the memory space of a buffer, after its element type."""
        strides, base, space = None, 0, 0
        odd: list[str] = []  # no buffer here has more
        while self.accept(","):
            first = self.at
            if self.accept_word("strided"):
                strides, base, ours = self.strided_layout()
                if len(strides) != len(shape):
                    raise self.error_at(f"{len(shape)} dimensions but {len(strides)} strides", token.start)
                if not ours:
                    odd.append(self.spelled(first, self.at))
                    strides, base = None, 0
                continue
            found = self.attribute()
            if not isinstance(found, IntegerAttr) or (found.value and found.type is not i64):
                odd.append(found.text)
            elif found.value:  # 0 of any type is the default memory space
                space = found.value
        self.expect(">")
        known = MemRefType(shape, element, strides, base, 0 if odd else space)
        if not odd:
            return known
        parts = [known.text.removeprefix("memref<").removesuffix(">"), *odd, *([str(space)] if space else [])]
        return self.opaque_type(f"memref<{', '.join(parts)}>", token.start)

    def opaque_shaped(self, token: Token, text: str) -> Type:
        """A tensor, vector or buffer that is not supported, after its sizes and element type."""
        details: list[str] = []
        while self.accept(","):
            found = self.attribute()
            if token.text != "memref" or not isinstance(found, IntegerAttr):
                details.append(found.text)
            elif found.value:
                details.append(str(found.value) if found.type is i64 else found.text)
        self.expect(">")
        return self.opaque_type(f"{token.text}<{', '.join([text, *details])}>", token.start)

    def composed_type(self, token: Token) -> Type:
        """`complex<f32>`, `tuple<f32, tensor<4xf32>>`."""
        self.deeper()
        self.advance()
        self.expect("<")
        parts: list[str] = []
        while self.kind != ">":
            parts.append(self.type().text)
            if not self.accept(","):
                break
        self.expect(">")
        self.depth -= 1
        return self.opaque_type(f"{token.text}<{', '.join(parts)}>", token.start)

    def opaque_type(self, text: str, start: int) -> Type:
        self.keep(f"{shortened(text)} is not a type", start)
        return OpaqueType(text)

    def keep(self, what: str, start: int) -> None:
        """UserError unless unknown parts are kept."""
        if not self.unregistered:
            hint = _MAPS if what.startswith("affine_") else KEEP
            raise self.error_at(f"{what} that ngmlir knows", start, hint)

    def strided_layout(self) -> tuple[tuple[int, ...], int, bool]:
        """Strides, offset, and whether buffers here can have these: none is negative."""
        self.expect("<")
        self.expect("[")
        first = self.at
        strides: list[int] = []
        while self.kind != "]":
            strides.append(DYNAMIC if self.accept("?") else self.integer_or_length())
            if not self.accept(","):
                break
        self.expect("]")
        offset = 0
        if self.accept(","):
            self.expect_text("offset")
            self.expect(":")
            offset = DYNAMIC if self.accept("?") else self.integer_or_length()
        self.expect(">")
        ours = not any(token.text[0] == "-" for token in self.tokens[first : self.at])
        return tuple(strides), offset, ours

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
        if token.text == token_type.text:
            return token_type
        return self.opaque_type(self.foreign(token, "type"), token.start)

    def foreign(self, token: Token, what: str) -> str:
        """The spelling of a type or attribute of a dialect that is not loaded; `token` is its name."""
        dialect, dot, _ = token.text[1:].partition(".")
        if not dot and self.kind != "<":
            if token.text in self.lost_aliases:
                raise UserError(())  # the error was reported at its definition
            known = (name for name in self.aliases if name[0] == token.text[0])
            near = self.hints.did_you_mean(token.text, known)
            raise self.error_at(f"{what} alias {token.text} is not defined", token.start, near)
        if self.is_loaded(dialect):
            near = self.hints.did_you_mean(token.text, [token_type.text, "#ng.axes"])
            raise self.error_at(f"dialect '{dialect}' has no {what} {token.text}", token.start, near)
        return token.text + self.angle_body()

    def angle_body(self) -> str:
        """The characters of a balanced `<...>` if one follows, otherwise ''; with aliases in it expanded."""
        first = self.at
        return self.spelled(first, self.at) if self.skip_angles() else ""

    def spelled(self, first: int, last: int) -> str:
        """The text from token number `first` up to number `last`, with aliases expanded."""
        parts: list[str] = []
        at = self.tokens[first].start
        for token in self.tokens[first:last]:
            made = ""
            if token.kind == "alias" and token.text in self.aliases:
                self.expand(token)
                made = self.location_texts.get(token.text) or str(self.aliases[token.text])
            elif token.kind == "shaped" and ("#" in token.text or "!" in token.text):
                made = self.inside_token(token).text
            if made:
                parts += [self.text[at : token.start], made]
                at = token.start + len(token.text)
        end = self.tokens[last - 1]
        return "".join(parts) + self.text[at : end.start + len(end.text)]

    def expand(self, token: Token) -> None:
        """Counts the length of the expansion of an alias."""
        self.expanded += self.alias_weights.get(token.text, 0)
        if self.expanded > self.most_expanded:
            raise self.error_at(f"aliases stand for more than {self.most_expanded} characters", token.start)
