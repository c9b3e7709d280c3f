# SPDX-License-Identifier: Apache-2.0
"""The printer: custom forms from the op definitions, or MLIR's generic form for other tools."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ..support.diagnostics import Location
from .attributes import (
    ArrayAttr,
    Attribute,
    DictAttr,
    StringAttr,
    TypeAttr,
    quote,
    symbol_text,
)
from .core import Block, ModuleOp, Op, Region, UnregisteredOp, op_name
from .definition import OpDefinition
from .form_text import FormText, fits_form, fits_header, with_word
from .kernel_header import CLAUSES, clauses_text
from .resource_files import ResourceWriter
from .resources import section_text
from .types import FunctionType, Type
from .wording import Wording, is_default

#: The generic form states the type of every operand, so a longer type is printed once, as an alias.
_LONG_TYPE = 1024
#: Types of at least this length that are printed at least this often get an alias.
_ALIASED, _OFTEN = 16, 3
#: A name that a number after it makes unique.
_WORD = re.compile("[A-Za-z_]*[A-Za-z]")


def to_text(
    op: Op,
    *,
    generic: bool = False,
    locations: bool = False,
    elide: int | None = None,
    elide_strings: int | None = None,
    aliases: bool = False,
    file: ResourceWriter | None = None,
) -> str:
    """The text of a module (or of one op). `generic` is the form that stock mlir-opt reads without the dialects here.

    Long constants of a module follow it, as resources. With `elide`, the elements of constants that have more
    than so many are omitted, with `elide_strings` the strings of the resource section that are longer; such a text is for
    reading only and cannot be parsed. With `aliases`, types that are printed often have short names, which are defined
    before the module. With `file`, long constants are added to it, and the text refers to them.
    """
    printer = _Printer(generic, locations, elide, isinstance(op, ModuleOp))
    if aliases and isinstance(op, ModuleOp):
        printer.aliases.update(_aliases(op))
    printer.op(op, "")
    named = [(name, literal) for literal, name in printer.resources.items()]
    section = section_text(named, file, elide_strings)
    defined = [f"{name} = {type.text}" for type, name in printer.aliases.items()]
    return "\n".join([*defined, *printer.lines, *section]) + "\n"


Op.spelled = to_text


class _Printer(Wording):
    def __init__(self, generic: bool, locations: bool, elide: int | None, has_section: bool):
        super().__init__(elide, has_section)
        self.generic = generic
        self.locations = locations
        self.lines: list[str] = []
        self.labels: dict[Block, str] = {}

    def label(self, block: Block) -> str:
        return self.labels.get(block, "^missing")

    # -- ops ---------------------------------------------------------------------------------------------

    def op(self, op: Op, indent: str) -> None:
        name = self.names.get
        early = any(o not in self.names for o in op.operands)
        operands = [name(o) or self.name(o) for o in op.operands]
        results = op.results
        if len(results) == 1:
            head = f"{indent}{self.name(results[0])} = "
        elif results:
            head = f"{indent}{', '.join([self.name(r) for r in results])} = "
        else:
            head = indent
        definition = op.definition
        if self.generic or definition is None:
            self.generic_op(op, head, operands, indent)
        elif isinstance(op, ModuleOp):
            self.module_op(op, indent)
        elif "function" in definition.traits and fits_header(op):
            self.function_op(op, indent, definition)
        elif "function" in definition.traits:
            self.generic_op(op, head, operands, indent)
        elif definition.states_types:
            self.op_with_types(op, definition, head, operands, indent, early)
        else:
            text = head + op.name + self.form(op, definition, operands)
            self.with_regions(text, op, indent)

    def finish(self, text: str, location: Location) -> None:
        if self.locations:
            where = (
                f"{quote(location.file)}:{location.line}:{location.column}" if location.known else "unknown"
            )
            text += f" loc({where})"
        self.lines.append(text)

    def types(self, op: Op) -> str:
        """`: T` if all types are equal, otherwise `: (T, ...) -> T`."""
        operands, results = op.operands, op.results
        definition = op.definition
        if len(results) == 1 and operands and definition is not None and not definition.results[0].variadic:
            # The usual op: all types are the same.
            type = results[0].type
            for operand in operands:
                if operand.type is not type:
                    break
            else:
                return " : " + self.spelled(type)
        if not operands and not results:
            # A variadic op still prints that it has none, so that its text can be parsed.
            return (
                " : () -> ()"
                if definition is not None and any(r.variadic for r in definition.results)
                else ""
            )
        if definition is not None and "terminator" in definition.traits:
            return f" : {', '.join([self.spelled(o.type) for o in operands])}"
        fixed = definition is not None and not any(r.variadic for r in definition.results)
        if fixed:
            first = (operands[0] if operands else results[0]).type
            if all(v.type is first for v in operands) and all(v.type is first for v in results):
                return f" : {self.spelled(first)}"
        return f" : {self.signature([o.type for o in operands], [r.type for r in results])}"

    def form(self, op: Op, definition: OpDefinition, operands: list[str]) -> str:
        """The text between the op's name and its regions."""
        attributes: Mapping[str, Attribute] = op.attributes
        if operands and not attributes and definition.form_is_operands:
            return f" {', '.join(operands)}{self.types(op)}"
        ends = "terminator" in definition.traits  # MLIR's own ops have their attributes first
        text = f" {self.dictionary(attributes.items())}" if ends and attributes else ""
        shown: set[str] = set()
        groups = None
        for part in definition.form:
            if part[0] != "$":
                text = with_word(text, part)
                continue
            if len(definition.operands) == 1 == len(operands) and part[1:] == definition.operands[0].name:
                piece = operands[0]
            else:
                groups = groups or definition.operand_groups(len(operands)) or []
                piece = next((", ".join(operands[a:b]) for o, a, b in groups if o.name == part[1:]), None)
                if piece is None:
                    shown.add(part[1:])
                    piece = self.short(attributes.get(part[1:]))
            text += piece if text.endswith(("[", "(")) else f" {piece}" if piece else ""
        if attributes and not ends:
            rest = [
                (k, v) for k, v in attributes.items() if k not in shown and not is_default(definition, k, v)
            ]
            if rest:
                text += f" {self.dictionary(rest)}"
        return text + self.types(op)

    # -- forms that state types themselves ------------------------------------------------------------

    def op_with_types(
        self, op: Op, definition: OpDefinition, head: str, operands: list[str], indent: str, early: bool
    ) -> None:
        """An op whose form states only some types. With `early`, values are used before the text defines them, so all
        types are stated; an op that the form cannot represent (only invalid ones) is printed in generic form."""
        groups = definition.operand_groups(len(operands), op.attributes)
        if groups is None or not fits_form(op, definition, groups):
            self.generic_op(op, head, operands, indent)
            return
        form = FormText(self, op, definition, operands, groups, early)
        isolated, arguments = "isolated" in definition.traits, definition.arguments
        saved, mark = (self.taken, self.suffixes, self.next_number), len(self.given)
        if isolated:
            self.taken, self.suffixes, self.next_number = set(), {}, 0
        if arguments:
            form.name_arguments(isolated)
        text = head + op.name + form.text()
        regions = op.regions[:-1] if "optional" in definition.traits and self.idle(op) else op.regions
        for i, region in enumerate(regions):
            lines = text.replace("\n", f"\n{indent}")  # of a nest
            self.lines.append(f"{lines} {{")
            self.region(region, indent, op, header=bool(arguments) or isolated)
            # A region that is not the last is followed by the keyword of the next one.
            text = f"{indent}}} {definition.regions[i + 1]}" if i + 1 < len(regions) else f"{indent}}}"
        self.finish(text, op.location)
        if isolated:
            del self.given[mark:]
        else:
            self.release(mark)
        self.taken, self.suffixes, self.next_number = saved

    def idle(self, op: Op) -> bool:
        """Whether the last region has only a terminator, as the first one, so that it can be omitted; not if locations are printed."""
        first, last = op.regions[0].blocks[0].terminator, op.regions[-1].blocks
        if self.locations or first is None or len(last) != 1 or last[0].args or len(last[0].ops) != 1:
            return False
        end = last[0].ops[0]
        bare = not (end.operands or end.attributes or end.successors or end.results or end.regions)
        return bare and not first.operands and type(first) is type(end)

    def generic_op(self, op: Op, head: str, operands: list[str], indent: str) -> None:
        text = f'{head}"{op_name(op)}"({", ".join(operands)})'
        if op.successors:
            text += f"[{', '.join(self.label(b) for b in op.successors)}]"
        if isinstance(op, UnregisteredOp) and op.properties is not None:
            text += f" <{self.dictionary(op.properties.items)}>"
        if op.regions:
            text += " ("
            for i, region in enumerate(op.regions):
                text += "{" if i == 0 else ", {"
                self.lines.append(text)
                self.region(region, indent, op)
                text = f"{indent}}}"
            text += ")"
        if op.attributes:
            text += f" {self.dictionary(op.attributes.items())}"
        inputs = ", ".join([self.type_text(o.type) for o in op.operands])
        results = ", ".join([self.type_text(r.type) for r in op.results])
        if len(op.results) != 1 or isinstance(op.results[0].type, FunctionType):
            results = f"({results})"
        self.finish(f"{text} : ({inputs}) -> {results}", op.location)

    def type_text(self, type: Type) -> str:
        """A type as the generic form of a module spells it."""
        if len(type.text) > _LONG_TYPE and self.has_section:
            self.aliases.setdefault(type, f"!type_{len(self.aliases)}")
        return self.spelled(type)

    def with_regions(self, text: str, op: Op, indent: str) -> None:
        for region in op.regions:
            self.lines.append(text + " {")
            self.region(region, indent, op)
            text = f"{indent}}}"
        self.finish(text, op.location)

    def region(self, region: Region, indent: str, op: Op, *, header: bool = False) -> None:
        # A tool without the dialects here does not know that a region is isolated.
        isolated = "isolated" in op.traits and not self.generic
        saved = self.taken, self.suffixes, self.next_number
        mark = len(self.given)
        if isolated and not header:
            self.taken, self.suffixes, self.next_number = set(), {}, 0
        self.labels.update((block, f"^bb{i}") for i, block in enumerate(region.blocks))
        for i, block in enumerate(region.blocks):
            empty = self.generic and not block.ops  # `{}` would be a region without blocks
            if (i or block.args or len(region.blocks) > 1 or empty) and not (header and i == 0):
                args = ", ".join(f"{self.name(a)}: {self.spelled(a.type)}" for a in block.args)
                self.lines.append(f"{indent}{self.label(block)}{f'({args})' if args else ''}:")
            inner = indent + "  "
            for nested in block.ops:
                self.op(nested, inner)
        # Names of the region are not visible after it, so they are free again.
        self.release(mark)
        self.taken, self.suffixes, self.next_number = saved

    def module_op(self, op: Op, indent: str) -> None:
        rest = {k: v for k, v in op.attributes.items() if k != "sym_name"}
        text = f"{indent}module"
        if op.symbol:
            text += f" {symbol_text(op.symbol)}"
        if rest:
            text += f" attributes {self.dictionary(rest.items())}"
        self.with_regions(text, op, indent)

    def function_op(self, op: Op, indent: str, definition: OpDefinition) -> None:
        saved, mark = (self.taken, self.suffixes, self.next_number), len(self.given)
        self.taken, self.suffixes, self.next_number = set(), {}, 0
        type_attribute = op.attributes["function_type"]
        assert isinstance(type_attribute, TypeAttr)
        type = type_attribute.type
        assert isinstance(type, FunctionType)
        body = op.regions[0] if op.regions and op.regions[0].blocks else None
        names = [self.name(a) + ": " for a in body.blocks[0].args] if body else [""] * len(type.inputs)
        details = _details(op, "arg_attrs", len(type.inputs))
        arguments = [n + self.spelled(t) + d for n, t, d in zip(names, type.inputs, details, strict=True)]
        clauses = clauses_text(op, type, arguments) if definition.form and body else None
        said: frozenset[str] = frozenset()
        visibility = op.attributes.get("sym_visibility")
        text = f"{indent}{op.name} "
        if isinstance(visibility, StringAttr):
            text += f"{visibility.value} "
        if clauses is not None:
            text += " ".join([symbol_text(op.symbol), *clauses])
            said = CLAUSES
        else:
            text += f"{symbol_text(op.symbol)}({', '.join(arguments)})"
        if type.results:
            details = _details(op, "res_attrs", len(type.results))
            results = ", ".join(self.spelled(t) + d for t, d in zip(type.results, details, strict=True))
            bare = len(type.results) == 1 and not details[0] and not isinstance(type.results[0], FunctionType)
            text += f" -> {results}" if bare else f" -> ({results})"
        rest = tuple(
            (k, v)
            for k, v in op.attributes.items()
            if k not in _HEADER and k not in said and not is_default(definition, k, v)
        )
        if rest:
            text += f" attributes {self.dictionary(rest)}"
        if body is not None:
            self.lines.append(text + " {")
            self.region(body, indent, op, header=True)
            text = f"{indent}}}"
        self.finish(text, op.location)
        del self.given[mark:]
        self.taken, self.suffixes, self.next_number = saved


def _aliases(of: Op) -> Iterator[tuple[Type, str]]:
    """Aliases for the types that a module prints often, named after the first value of each."""
    count: dict[Type, int] = {}
    first: dict[Type, str] = {}
    for op in of.walk():
        inner = [a for region in op.regions for block in region.blocks for a in block.args]
        for value in (*op.operands, *op.results, *inner):
            count[value.type] = count.get(value.type, 0) + 1
            first[value.type] = first.get(value.type) or value.name
    taken: dict[str, int] = {}
    for type, times in count.items():
        if times >= _OFTEN and len(type.text) >= _ALIASED and not isinstance(type, FunctionType):
            name = first[type] if _WORD.fullmatch(first[type]) else "t"
            number = taken.get(name, 0)
            taken[name] = number + 1
            yield type, f"!{name}{number or ''}"


_HEADER = frozenset({"sym_name", "function_type", "arg_attrs", "res_attrs", "sym_visibility"})


def _details(op: Op, key: str, count: int) -> list[str]:
    given = op.attributes.get(key)
    if not isinstance(given, ArrayAttr):
        return [""] * count
    return [f" {d}" if isinstance(d, DictAttr) and d.items else "" for d in given.items]
