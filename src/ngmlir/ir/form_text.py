# SPDX-License-Identifier: Apache-2.0
"""Printer of forms that state types themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .attributes import IntegerAttr, StringAttr, TypeAttr, are_dictionaries, symbol_text
from .core import Op, Value
from .definition import OpDefinition, Operand
from .forms import Part
from .nest import NEST, NestAttr, complaint
from .types import FunctionType, Type, i64, index
from .wording import Wording, is_default


class FormText:
    """Prints the form of one op that states types itself."""

    def __init__(
        self,
        wording: Wording,
        op: Op,
        definition: OpDefinition,
        operands: list[str],
        groups: list[tuple[Operand, int, int]],
        all_types: bool,
    ):
        self.wording, self.op, self.definition, self.all_types = wording, op, definition, all_types
        self.operands = {o.name: operands[start:stop] for o, start, stop in groups}
        self.values = {o.name: op.operands[start:stop] for o, start, stop in groups}
        self.inner: list[str] = []

    def name_arguments(self, isolated: bool) -> None:
        """Names the arguments of the regions, the same in all of them. In an isolated region an argument without a name, or with the
        name of its initial value, gets the name of that value."""
        names, taken = self.wording.names, self.wording.taken
        blocks = [region.blocks[0] for region in self.op.regions]
        starts = [s for p in self.definition.arguments for s in (self.operands[p.start] if p.start else [""])]
        rows = list(zip(starts, *[block.args for block in blocks], strict=True))
        for start, first, *_ in rows if isolated else ():
            if start[1:] not in taken and first.name in ("", start[1:]):
                taken.add(start[1:])
                names[first] = start
        for _, first, *others in rows:
            self.inner.append(self.wording.name(first))
            names.update((other, names[first]) for other in others)

    def text(self) -> str:
        return self.parts(self.definition.parts, "", iter(self.inner))

    def parts(self, parts: Sequence[Part], text: str, inner: Iterator[str]) -> str:
        definition, op = self.definition, self.op
        for part in parts:
            match part.kind:
                case "word":
                    text = with_word(text, part.text)
                    continue
                case "group":
                    if self.says(part.parts[1:]):
                        text = self.parts(part.parts, text, inner)
                    continue
                case "dictionary":
                    rest = [
                        (k, v)
                        for k, v in op.attributes.items()
                        if k not in definition.shown and not is_default(definition, k, v)
                    ]
                    if rest:
                        text += f" {self.wording.dictionary(rest)}"
                    if self.all_types:
                        inputs, results = [o.type for o in op.operands], [r.type for r in op.results]
                        return f"{text} : {self.wording.signature(inputs, results)}"
                    continue
                case "value":
                    operands = self.operands.get(part.text)
                    shown = operands or [self.attribute(part.text)]
                    piece = ", ".join(shown) if operands != [] or part.text in op.attributes else ""
                case "types":
                    types = [self.wording.spelled(v.type) for v in self.typed(part.text)]
                    bare = len(types) == 1 and not types[0].startswith("(")
                    listed = text.endswith("->") and not bare
                    piece = f"({', '.join(types)})" if listed else ", ".join(types)
                case _:
                    piece = ", ".join(self.argument(part, start, inner) for start in self.starts(part))
            text += piece if text.endswith(("[", "(")) else f" {piece}" if piece else ""
        return text

    def attribute(self, name: str) -> str:
        value, field = self.op.attributes.get(name), self.definition.attribute_field(name)
        if field is not None and field.kind == "name" and isinstance(value, StringAttr):
            return symbol_text(value.value)
        return self.wording.short(value)

    def starts(self, part: Part) -> Sequence[Value | None]:
        return self.values[part.start] if part.start else [None]

    def argument(self, part: Part, start: Value | None, inner: Iterator[str]) -> str:
        name = next(inner)
        typed = f": {self.type_of(name)}" if part.typed else ""
        if start is None:
            return name + typed
        outer = self.wording.names[start]
        return (
            f"{name}{typed} = {outer}" if outer != name or "isolated" not in self.definition.traits else name
        )

    def type_of(self, name: str) -> str:
        return self.wording.spelled(self.op.regions[0].blocks[0].args[self.inner.index(name)].type)

    def typed(self, name: str) -> Sequence[Value]:
        """The operands or results of this name."""
        if name in self.values:
            return self.values[name]
        results = self.definition.results
        if len(results) == 1:
            return self.op.results
        return [self.op.results[next(i for i, r in enumerate(results) if r.name == name)]]

    def says(self, parts: Sequence[Part]) -> bool:
        """Whether a group has content that cannot be omitted."""
        for part in parts:
            match part.kind:
                case "value":
                    operand, value = self.definition.operand(part.text), self.op.attributes.get(part.text)
                    if operand is not None and isinstance(value, IntegerAttr):
                        return value.value != operand.default
                    return value is not None or bool(self.operands.get(part.text))
                case "arguments":
                    return bool(self.starts(part))
                case "types":
                    return bool(self.typed(part.text))
                case _:
                    pass
        return True


def fits_form(op: Op, definition: OpDefinition, groups: Sequence[tuple[Operand, int, int]]) -> bool:
    """Whether the form can represent the arguments of the regions, and the attributes."""
    if len(op.regions) != len(definition.regions) or len(op.results) < len(definition.results) - 1:
        return False
    for name in definition.shown:
        value, operand = op.attributes.get(name), definition.operand(name)
        field = definition.attribute_field(name)
        if operand is None and value is None and not (field is not None and field.optional):
            return False
        if isinstance(value, IntegerAttr) and value.type is not i64:
            return False
    wanted: list[Type | None] = []
    starts = {o.name: [v.type for v in op.operands[start:stop]] for o, start, stop in groups}
    for part in definition.arguments:
        types: list[Type | None] = [*starts[part.start]] if part.start else [index]
        wanted += [None] * len(types) if part.typed else types
    nest = op.attributes.get(NEST)
    if isinstance(nest, NestAttr):
        given = [v.type for v in op.operands]
        if complaint(nest, given, [r.type for r in op.results]):
            return False
        wanted = [*nest.inside(given)]
    for region in op.regions:
        if not region.blocks:
            return False
        taken = [argument.type for argument in region.blocks[0].args]
        if not definition.arguments:
            continue
        if len(taken) != len(wanted) or any(
            w is not None and w is not t for t, w in zip(taken, wanted, strict=True)
        ):
            return False
    return True


def fits_header(op: Op) -> bool:
    """Whether the header of a function can represent its attributes; those of an invalid one may be anything."""
    type = op.attributes.get("function_type")
    if not isinstance(type, TypeAttr) or not isinstance(type.type, FunctionType):
        return False
    for name, count in (("arg_attrs", len(type.type.inputs)), ("res_attrs", len(type.type.results))):
        given = op.attributes.get(name)
        if given is not None and not are_dictionaries(given, count):
            return False
    blocks = op.regions[0].blocks if op.regions else ()
    taken = tuple([a.type for a in blocks[0].args]) if blocks else type.type.inputs
    return bool(op.symbol) and taken == type.type.inputs


def with_word(text: str, word: str) -> str:
    """Appends a word: brackets without a space inside, words with one between."""
    return text + word if word in ",)][(" else f"{text} {word}"
