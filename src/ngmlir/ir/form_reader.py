# SPDX-License-Identifier: Apache-2.0
"""Parser of forms that state types themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..support.diagnostics import UserError
from .attributes import Attribute, IntegerAttr
from .core import Value
from .definition import OpDefinition, Operand
from .forms import Part
from .nest import NEST, NestAttr
from .recovery import RecoveringParser
from .types import FunctionType, Type, i64, index


class _Argument(NamedTuple):
    """A new name for an argument of a region, its type if that is stated here, and its initial value."""

    name: str
    type: Type | None
    at: int
    start: str


class FormReader:
    """Parses one form; types that it does not state are those of the operands, which are defined before."""

    def __init__(self, parser: RecoveringParser, definition: OpDefinition, start: int):
        self.parser, self.definition, self.start = parser, definition, start
        self.operands: dict[str, list[tuple[str, int]]] = {o.name: [] for o in definition.operands}
        self.types: dict[str, list[Type]] = {}
        self.attributes: dict[str, Attribute] = {}
        self.arguments: list[_Argument] = []
        self.all_types: FunctionType | None = None

    def read(self) -> None:
        """Moves past the form."""
        self.parts(self.definition.parts)
        for operand in self.definition.operands:
            if operand.static and operand.default is not None and not self.operands[operand.name]:
                self.attributes.setdefault(operand.name, IntegerAttr(operand.default, i64))
            if operand.counted:
                self.attributes[operand.counted] = IntegerAttr(len(self.operands[operand.name]), i64)

    def values(self) -> tuple[list[Value], Sequence[Type]]:
        """The operands, and the types of the results."""
        p = self.parser
        names = [name for operand in self.definition.operands for name in self.operands[operand.name]]
        if self.all_types is not None:
            return p.resolve(names, self.all_types.inputs, self.start), self.all_types.results
        return p.names.use(names, self.operand_types()), self.result_types()

    def arguments_of_regions(self, operands: Sequence[Value]) -> list[tuple[str, Type, int]] | None:
        """The types of the arguments of all regions; None if the form does not name any."""
        if not self.definition.arguments:
            return None
        names = [name for operand in self.definition.operands for name, _ in self.operands[operand.name]]
        types = {name: value.type for name, value in zip(names, operands, strict=True)}
        taken = [a.type if a.type is not None else types[a.start] for a in self.arguments]
        nest = self.attributes.get(NEST)
        if isinstance(nest, NestAttr) and len(nest.reads) == len(taken):
            taken = nest.inside(taken)
        return [(a.name, type, a.at) for a, type in zip(self.arguments, taken, strict=True)]

    # -- parts -------------------------------------------------------------------------------------------

    def parts(self, parts: Sequence[Part]) -> None:
        p = self.parser
        for part in parts:
            match part.kind:
                case "word":
                    p.expect_text(part.text)
                case "value":
                    self.value(part.text)
                case "arguments":
                    self.argument_list(part)
                case "types":
                    self.type_list(part.text)
                case "group":
                    if p.token.text == part.parts[0].text:
                        self.parts(part.parts)
                case _:
                    if p.kind == "{" and not starts_region(p, self.definition):
                        self.dictionary()
                    if p.kind == ":" and p.tokens[p.at + 1].kind == "(":
                        p.advance()
                        given = p.type()
                        assert isinstance(given, FunctionType)
                        self.all_types = given
                        return

    def dictionary(self) -> None:
        p = self.parser
        start = p.token.start
        for name, attribute in p.dictionary().items():
            if name in self.definition.shown:
                raise p.error_at(f"'{name}' belongs before the attribute dictionary", start)
            self.attributes[name] = attribute

    def value(self, name: str) -> None:
        p, operand = self.parser, self.definition.operand(name)
        if operand is None:
            field = self.definition.attribute_field(name)
            assert field is not None
            self.attributes[name] = p.attribute_of_kind(field.kind)
        elif operand.static and p.kind in ("integer", "["):
            self.attributes[name] = IntegerAttr(p.integer_or_length(), i64)
        elif operand.static and p.kind != "value":
            raise p.error(f"expected a number or a value as '{name}'")
        else:
            read_operands(p, operand, self.operands[name])

    def argument_list(self, part: Part) -> None:
        """`%a = %x, ...`; in an isolated region `%x` alone is both names."""
        p = self.parser
        while p.kind == "value" or not part.start:
            token = start = p.take("value", "the name of an argument")
            type = index if not part.start else None
            if part.typed:
                p.expect(":")
                type = p.type()
            if part.start:
                if "isolated" not in self.definition.traits or p.kind == "=":
                    p.expect("=", f"expected '=' and the value that {token.text} begins as")
                    start = p.take("value", "a value")
                self.operands[part.start].append((start.text, start.start))
            self.arguments.append(_Argument(token.text, type, token.start, start.text))
            if not part.start or not p.accept(","):
                break

    def type_list(self, name: str) -> None:
        """`T`, or for a variadic operand or result `(T, U)`."""
        p = self.parser
        types = self.types[name] = []
        if not p.accept("("):
            types.append(p.type())
            return
        while p.kind != ")":
            types.append(p.type())
            if not p.accept(","):
                break
        p.expect(")")

    # -- types -------------------------------------------------------------------------------------------

    def operand_types(self) -> list[Type]:
        out: list[Type] = []
        for operand in self.definition.operands:
            names = self.operands[operand.name]
            stated = self.types.get(operand.name)
            out += (
                stated if stated is not None else [self.type_of(*name, operand.only_type) for name in names]
            )
        return out

    def type_of(self, name: str, start: int, only: Type | None) -> Type:
        """The type of a value that is defined before, or the only type that it may have."""
        names = self.parser.names
        value = names.visible(name)
        if value is not None:
            return value.type
        if only is not None:
            return only
        if names.is_lost(name):
            raise UserError(())
        hint = names.closest(name) or "write all types: `: (operand types) -> result types`"
        raise self.parser.error_at(
            f"value {name} is not defined above, so its type is not known", start, hint
        )

    def result_types(self) -> list[Type]:
        out: list[Type] = []
        for result in self.definition.results:
            only = result.only_type
            out += self.types.get(result.name, [only] if only is not None else [])
        return out


def starts_region(parser: RecoveringParser, definition: OpDefinition) -> bool:
    """Whether the `{` here opens a region of the op, not an attribute dictionary."""
    if not definition.regions:
        return False
    at = parser.at
    kinds = [token.kind for token in parser.tokens[at + 1 : at + 4]] + ["end"] * 3
    closed = kinds.index("}") if "}" in kinds[:2] else -1
    if closed >= 0:  # `{}` or `{word}`: a dictionary is never the last
        return kinds[closed + 1] not in ("{", "->", ":")
    return not (kinds[0] in ("bare", "string") and kinds[1] in ("=", ","))


def read_operands(parser: RecoveringParser, operand: Operand, names: list[tuple[str, int]]) -> None:
    """Adds the name of an operand, or the names of a variadic one, with their offsets."""
    while parser.kind == "value" or not operand.variadic:
        token = parser.take("value", f"operand '{operand.name}'")
        names.append((token.text, token.start))
        if not operand.variadic or not parser.accept(","):
            break
