# SPDX-License-Identifier: Apache-2.0
"""Parser of attributes."""

from __future__ import annotations

from ..support.diagnostics import Diagnostic, UserError
from ..support.lengths import may_be_several
from .attributes import (
    ArrayAttr,
    Attribute,
    AxesAttr,
    DenseArrayAttr,
    DictAttr,
    FloatAttr,
    IntegerAttr,
    OpaqueAttr,
    StringAttr,
    SymbolRefAttr,
    TypeAttr,
    UnitAttr,
    boolean,
    integers,
    quote,
)
from .cursor import shortened
from .definition import STORED_FLOATS
from .elements import ElementsAttr, elements_from_bytes, hexadecimal_bytes, within_width
from .lexer import Token, unquote
from .literals import (
    integer_bits,
    item_bytes,
    packed,
)
from .number_parser import DIGITS, NumberParser
from .resources import resource_of
from .types import FloatType, IndexType, IntegerType, OpaqueType, ShapedType, Type, element_type, f64, i1, i64

#: Attributes of MLIR's own that are kept by their spelling only.
_OPAQUE = ("affine_map", "affine_set", "strided", "sparse", "opaque", "distinct")


class AttributeParser(NumberParser):
    """A cursor that also reads attributes."""

    def alias_definition(self) -> None:
        token = self.advance()
        if token.text in self.alias_starts:
            before = self.place(self.alias_starts[token.text])
            notes = (Diagnostic("previously defined here", before, "note"),)
            raise self.error_at(f"alias {token.text} is defined twice", token.start, notes=notes)
        self.alias_starts[token.text] = token.start
        self.expect("=")
        if self.kind == "bare" and self.token.text == "loc":
            self.location_alias(token)
            return
        start, before = self.token.start, self.expanded
        try:
            self.aliases[token.text] = self.type() if token.text[0] == "!" else self.attribute()
        except UserError:
            self.lost_aliases.add(token.text)
            raise
        last = self.tokens[self.at - 1]
        self.alias_weights[token.text] = last.start + len(last.text) - start + self.expanded - before

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
            if not name:
                raise self.error_at("an attribute needs a name", token.start)
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
            start = self.advance().start
            if not self.accept(":"):
                return StringAttr(unquote(text))
            return self.kept(f"{quote(unquote(text))} : {self.type()}", start)
        if kind in ("integer", "float", "hex"):
            return self.number()
        if kind == "symbol":
            path = [self.symbol_name()]
            while self.accept("::"):
                path.append(self.symbol_name())
            return SymbolRefAttr(*path)
        if kind == "[":
            return self.number_from_lengths() if self.is_length() else self.array()
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
            if text in ("dense", "dense_resource"):
                return self.dense()
            if text == "array":
                return self.dense_array()
            if text == "loc":
                first = self.at
                self.location()
                return self.kept(self.spelled(first, self.at), self.tokens[first].start)
            if text in _OPAQUE:
                return self.opaque_attribute()
        if kind in ("bare", "(", "alias", "shaped"):
            return TypeAttr(self.type())
        raise self.error("expected an attribute")

    def number_from_lengths(self) -> Attribute:
        """`[4*N] : i64`."""
        value = self.integer_or_length()
        self.expect(":")
        return IntegerAttr(value, self.type())

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
            self.expand(token)
            return alias
        if alias is None and "." not in token.text and self.kind != "<":
            self.read_ahead()
        if token.text in self.location_texts:
            self.expand(token)
            return self.kept(f"loc({self.location_texts[token.text]})", token.start)
        if token.text == "#ng.nest":
            return self.nest()
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
        return self.kept(self.foreign(token, "attribute"), token.start)

    def opaque_attribute(self) -> Attribute:
        """An attribute of MLIR's own that is kept by its spelling only: a word, possibly followed by `[...]`, `<...>` and a type."""
        first = self.at
        self.advance()
        if self.accept("["):
            self.integer()
            self.expect("]")
        if not self.skip_angles():
            raise self.error("expected '<'")
        text = self.spelled(first, self.at)
        if self.accept(":"):
            text = f"{text} : {self.type()}"
        return self.kept(text, self.tokens[first].start)

    def kept(self, text: str, start: int) -> Attribute:
        """An attribute of which only the spelling is known; UserError unless such attributes are allowed."""
        self.keep(f"{shortened(text)} is not an attribute", start)
        return OpaqueAttr(text)

    def number(self) -> Attribute:
        """A number with its `: type`; without it, f64 or i64."""
        token = self.advance()
        type = self.type() if self.accept(":") else f64 if token.kind == "float" else i64
        if self.unregistered and isinstance(type, FloatType) and type.text not in STORED_FLOATS:
            return OpaqueAttr(f"{token.text} : {type}")
        return self.number_of(token, type)

    def number_of(self, token: Token, type: Type) -> FloatAttr | IntegerAttr:
        if isinstance(type, FloatType):
            if type.text not in STORED_FLOATS:
                raise self.error_at(f"there are no literals of type {type}", token.start)
            return FloatAttr(self.float_bits(token, type), type)
        if isinstance(type, (IntegerType, IndexType)):
            return IntegerAttr(self.integer_value(token, type), type)
        made = f"a constant of {type} is dense<{shortened(token.text)}>"
        hint = made if isinstance(type, ShapedType) else ""
        raise self.error_at(f"{type} is not a number type", token.start, hint)

    def dense_array(self) -> Attribute:
        self.expect_text("array")
        self.expect("<")
        start = self.token.start
        element = self.type()
        if not _can_be_listed(element):
            raise self.error_at(f"array<...> cannot hold elements of type {element}", start)
        values: list[int] = []
        if self.accept(":"):
            while self.kind != ">":
                if self.kind == "[":
                    values.append(self.integer_or_length())
                    if not self.accept(","):
                        break
                    continue
                token = self.advance()
                number = self.number_of(token, element)
                values.append(number.bits if isinstance(number, FloatAttr) else number.value)
                if not self.accept(","):
                    break
        self.expect(">")
        return DenseArrayAttr(element, tuple(values))

    def dense(self) -> Attribute:
        """`dense<...> : type` or `dense_resource<name> : type`."""
        start = self.at
        self.skip_literal()
        end = self.at
        self.expect(":")
        type = self.type()
        if self.unregistered and self.tokens[start].text == "dense" and _is_foreign_array(type):
            return OpaqueAttr(f"{self.spelled(start, end)} : {type}")
        after, self.at = self.at, start
        self.sync()
        made = self.literal_of(type)
        self.at = after
        self.sync()
        return made

    def skip_literal(self) -> Type | None:
        """Moves past a number, a boolean, `dense<...>` or an alias of one, whose type is returned; `literal_of` reads it once its type is
        known."""
        if self.kind == "alias" and self.token.text[0] == "#":
            return self.literal_alias().type
        if self.kind == "bare" and self.token.text in ("dense", "dense_resource"):
            self.advance()
            if not self.skip_angles():
                raise self.error("expected '<'")
        elif self.kind in ("integer", "float", "hex") or self.token.text in ("true", "false"):
            self.advance()
        elif self.kind == "[":
            self.integer_or_length()
        else:
            raise self.error("expected a number or dense<...>")
        return None

    def literal_alias(self) -> FloatAttr | IntegerAttr | ElementsAttr:
        token = self.token
        made = self.dialect_attribute()
        if not isinstance(made, (FloatAttr, IntegerAttr, ElementsAttr)):
            raise self.error_at(f"{token.text} is neither a number nor dense<...>", token.start)
        return made

    def literal_of(self, type: Type) -> Attribute:
        """The literal at this token as an attribute of `type`."""
        if self.kind == "alias":
            token, made = self.token, self.literal_alias()
            if made.type is not type:
                hint = "leave the type of the op out, or write that of the alias"
                raise self.error_at(
                    f"{token.text} is of type {made.type}, not {type}", token.start, hint, len(token.text)
                )
            return made
        if self.kind == "[" and isinstance(type, (IntegerType, IndexType)):
            return IntegerAttr(self.integer_or_length(), type)
        if self.token.text not in ("dense", "dense_resource"):
            return self.number_of(self.advance(), type)
        word, start = self.token.text, self.advance().start
        self.expect("<")
        if not isinstance(type, ShapedType) or not type.static:
            raise self.error_at(f"{word}<...> needs a static shape, not {type}", start)
        if not _can_be_listed(type.element):
            raise self.error_at(f"{word}<...> cannot hold elements of type {type.element}", start)
        if word == "dense_resource":
            return self.resource(type, start)
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
        if (shape != () or type.size == 0) and type.size != len(data) // size:
            raise self.error_at(f"{len(data) // size} elements given for {type}", start)
        if shape not in ((), type.shape) and type.size and shape != (type.size, -1):
            raise self.error_at(f"elements of shape {list(shape)} given for {type}", start)
        if may_be_several(type.size) and len(data) > size and bytes(data) == bytes(data[:size]) * type.size:
            data = data[:size]
        return ElementsAttr(bytes(data), type)

    def resource(self, type: ShapedType, start: int) -> Attribute:
        """The constant whose elements are in the resource section after the program."""
        if self.kind not in ("bare", "string"):
            raise self.error("expected the name of a resource")
        token = self.advance()
        self.expect(">")
        name = unquote(token.text) if token.kind == "string" else token.text
        try:
            data = resource_of(self.resources, name)
        except UserError as error:
            (found,) = error.diagnostics
            raise self.error_at(found.message, token.start, found.hint, len(token.text)) from None
        wanted = type.size * item_bytes(type.element)
        if len(data) != wanted:
            raise self.error_at(f"resource '{name}' has {len(data)} bytes, but {type} has {wanted}", start)
        if not within_width(data, type.element):
            least = " (0 or 1)" if type.element is i1 else ""
            raise self.error_at(f"resource '{name}' has bytes that are no {type.element}{least}", start)
        return elements_from_bytes(data, type)

    def hexadecimal_elements(self, type: ShapedType, data: bytearray) -> tuple[int, ...]:
        token = self.advance()
        found = hexadecimal_bytes(token.text[1:-1])
        if found is None:
            raise self.error_at("expected hexadecimal digits after 0x", token.start)
        data += found
        size = item_bytes(type.element)
        if element_type(type) is i1:
            raise self.error_at("write constants of i1 as true and false", token.start)
        if not within_width(memoryview(data), type.element):
            raise self.error_at(f"these bytes are not elements of {type.element}", token.start)
        if len(data) not in (size, type.size * size):
            raise self.error_at(
                f"{len(data)} bytes given for {type}, which has {type.size * size}", token.start
            )
        return () if len(data) == size else (type.size, -1)  # -1: the shape was not spelled

    def nested_elements(self, element: Type, data: bytearray) -> tuple[int, ...]:
        """Appends the elements of a nested list; returns the list's shape."""
        if not self.accept("["):
            token = self.advance()
            number = self.number_of(token, element)
            size = item_bytes(element)
            bits = number.bits if isinstance(number, FloatAttr) else integer_bits(number.value, element)
            data += bits.to_bytes(size, "little")
            return ()
        self.deeper()
        if count := self.plain_numbers(element, data):
            self.depth -= 1
            return (count,)
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

    def plain_numbers(self, element: Type, data: bytearray) -> int:
        """Appends the numbers of an innermost list, all at once, and returns how many there are; 0 if they must be read one by one:
        hexadecimal numbers, and errors."""
        tokens, start = self.tokens, self.at
        kinds = ("float", "integer") if isinstance(element, FloatType) else ("integer",)
        end = start
        while tokens[end].kind in kinds and tokens[end + 1].kind == ",":
            end += 2
        if tokens[end].kind not in kinds or tokens[end + 1].kind != "]":
            return 0
        texts = [token.text for token in tokens[start : end + 1 : 2]]
        made = packed(texts, element) if max(map(len, texts)) <= DIGITS else None
        if made is None:
            return 0
        data += made
        self.at = end + 2
        self.sync()
        return len(texts)

    def attribute_of_kind(self, kind: str) -> Attribute:
        """An attribute in the short spelling that an op's form uses."""
        if kind == "i64s":
            return integers(self.integer_list())
        if kind == "i64":
            return IntegerAttr(self.integer_or_length(), i64)
        if kind.startswith("enum("):
            token = self.take("bare", "one of " + kind[5:-1].replace("|", ", "))
            if token.text not in kind[5:-1].split("|"):
                raise self.error_at(
                    f"expected one of {kind[5:-1].replace('|', ', ')}, found '{token.text}'", token.start
                )
            return StringAttr(token.text)
        if kind == "name":
            return StringAttr(self.symbol_name())
        if kind == "str" and self.kind in ("bare", "string"):
            token = self.advance()
            return StringAttr(unquote(token.text) if token.kind == "string" else token.text)
        return self.attribute()

    def integer_list(self) -> list[int]:
        self.expect("[")
        values: list[int] = []
        while self.kind != "]":
            values.append(self.integer_or_length())
            if not self.accept(","):
                break
        self.expect("]")
        return values


def _is_foreign_array(type: Type) -> bool:
    """Whether MLIR may have constant arrays of this type, although they are not supported here."""
    return isinstance(type, OpaqueType) or (isinstance(type, ShapedType) and not _can_be_listed(type.element))


def _can_be_listed(element: Type) -> bool:
    """Whether lists of numbers of this type can be read and printed."""
    if isinstance(element, IntegerType):
        return element.width <= 64
    return isinstance(element, IndexType) or element.text in STORED_FLOATS
