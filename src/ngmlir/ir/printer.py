# SPDX-License-Identifier: Apache-2.0
"""Module to text: custom forms from the op definitions, or MLIR's generic form for other tools."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..support.diagnostics import Location
from .attributes import (
    ArrayAttr,
    Attribute,
    DenseArrayAttr,
    DictAttr,
    IntegerAttr,
    OpaqueAttr,
    StringAttr,
    TypeAttr,
    dictionary_text,
    quote,
    symbol_text,
)
from .core import Block, ModuleOp, Op, Region, Value, op_name
from .definition import OpDefinition, Operand
from .elements import LISTED, ElementsAttr
from .forms import Part
from .resource_files import ResourceWriter
from .resources import ELIDED, resource_name, section_text
from .types import FunctionType, Type, i64, index

#: The generic form states the type of every operand, so a longer type is spelled once and has a name there.
_LONG_TYPE = 1024
_FREE_NAME = re.compile(r"[A-Za-z_$.\-][\w$.\-]*\Z")


def to_text(
    op: Op,
    *,
    generic: bool = False,
    locations: bool = False,
    elide: int | None = None,
    elide_strings: int | None = None,
    file: ResourceWriter | None = None,
) -> str:
    """The text of a module (or of one op). `generic` is the form that stock mlir-opt reads without our dialects.

    Long constants of a module stand behind it, as resources. With `elide`, the elements of constants that have more
    than so many are left out, with `elide_strings` the strings of the resource section that are longer; such a text can
    be looked at, but not read back. With `file`, long constants are added to it, and the text says where they lie.
    """
    printer = _Printer(generic, locations, elide, isinstance(op, ModuleOp))
    printer.op(op, "")
    named = [(name, literal) for literal, name in printer.resources.items()]
    section = section_text(named, file, elide_strings)
    aliases = [f"{name} = {type.text}" for type, name in printer.long_types.items()]
    return "\n".join([*aliases, *printer.lines, *section]) + "\n"


class _Printer:
    def __init__(self, generic: bool, locations: bool, elide: int | None, has_section: bool):
        self.generic = generic
        self.locations = locations
        self.elide = elide
        self.has_section = has_section
        self.resources: dict[ElementsAttr, str] = {}
        self.long_types: dict[Type, str] = {}
        self.lines: list[str] = []
        self.names: dict[Value, str] = {}
        self.taken: set[str] = set()
        self.given: list[tuple[str, str, int]] = []  # (made, wanted, n) of the names in `taken`, in order
        self.suffixes: dict[str, int] = {}  # the first n for which `name_n` may be free
        self.next_number = 0
        self.labels: dict[Block, str] = {}

    # -- names -------------------------------------------------------------------------------------------

    def name(self, value: Value) -> str:
        """`%name`, made unique among what is visible; numbered where the value has no name."""
        found = self.names.get(value)
        if found is not None:
            return found
        wanted = value.name or _named_by_number(value)
        if wanted and _FREE_NAME.match(wanted):
            made, n = wanted, -1
            if made in self.taken:
                n = self.suffixes.get(wanted, 0)
                while (made := f"{wanted}_{n}") in self.taken:
                    n += 1
                self.suffixes[wanted] = n + 1
            self.taken.add(made)
            self.given.append((made, wanted, n))
        else:
            while (made := str(self.next_number)) in self.taken:
                self.next_number += 1
            self.next_number += 1
        made = "%" + made
        self.names[value] = made
        return made

    def literal(self, attribute: Attribute) -> str:
        """A constant array without its type."""
        assert isinstance(attribute, ElementsAttr)
        count = attribute.type.size
        if self.elide is not None and count > self.elide and not attribute.splat:
            return f"dense_resource<{ELIDED}>"
        if not self.has_section or count <= LISTED or attribute.splat:
            return attribute.literal
        name = self.resources.setdefault(attribute, f"constant_{len(self.resources)}")
        return f"dense_resource<{resource_name(name)}>"

    def constant(self, attribute: Attribute) -> str:
        assert isinstance(attribute, ElementsAttr)
        return f"{self.literal(attribute)} : {attribute.type}"

    def dictionary(self, items: Iterable[tuple[str, Attribute]]) -> str:
        return dictionary_text(tuple(items), self.constant)

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
        elif "function" in definition.traits:
            self.function_op(op, indent, definition)
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
        """`: T` where one type says all, else `: (T, ...) -> T`."""
        operands, results = op.operands, op.results
        definition = op.definition
        if len(results) == 1 and operands and definition is not None and not definition.results[0].variadic:
            # The usual op: where all types are one, that one says it.
            type = results[0].type
            for operand in operands:
                if operand.type is not type:
                    break
            else:
                return " : " + type.text
        if not operands and not results:
            # A variadic op still says that it has none, so that its text can be read back.
            return (
                " : () -> ()"
                if definition is not None and any(r.variadic for r in definition.results)
                else ""
            )
        if definition is not None and "terminator" in definition.traits:
            return f" : {', '.join([o.type.text for o in operands])}"
        fixed = definition is not None and not any(r.variadic for r in definition.results)
        if fixed:
            first = (operands[0] if operands else results[0]).type
            if all(v.type is first for v in operands) and all(v.type is first for v in results):
                return f" : {first.text}"
        return f" : {FunctionType(tuple([o.type for o in operands]), tuple([r.type for r in results])).text}"

    def form(self, op: Op, definition: OpDefinition, operands: list[str]) -> str:
        """What stands between the op's name and its regions."""
        attributes: Mapping[str, Attribute] = op.attributes
        if operands and not attributes and definition.form_is_operands:
            return f" {', '.join(operands)}{self.types(op)}"
        ends = "terminator" in definition.traits  # MLIR's own have their attributes first
        text = f" {self.dictionary(attributes.items())}" if ends and attributes else ""
        shown: set[str] = set()
        groups = None
        for part in definition.form:
            if part[0] != "$":
                text = _with_word(text, part)
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
                (k, v) for k, v in attributes.items() if k not in shown and not _is_default(definition, k, v)
            ]
            if rest:
                text += f" {self.dictionary(rest)}"
        return text + self.types(op)

    # -- forms that say which types they show ------------------------------------------------------------

    def op_with_types(
        self, op: Op, definition: OpDefinition, head: str, operands: list[str], indent: str, early: bool
    ) -> None:
        """An op whose form shows only some types. With `early`, values are used before the text defines them, so all
        types are shown; what does not fit the form at all (only invalid ops) is in generic form."""
        groups = definition.operand_groups(len(operands), op.attributes)
        if groups is None or not _fits_form(op, definition, groups):
            self.generic_op(op, head, operands, indent)
            return
        form = _Form(self, op, definition, operands, groups, early)
        isolated, arguments = "isolated" in definition.traits, definition.arguments
        saved, mark = (self.taken, self.suffixes, self.next_number), len(self.given)
        if isolated:
            self.taken, self.suffixes, self.next_number = set(), {}, 0
        if arguments:
            form.name_arguments(isolated)
        text = head + op.name + form.text()
        for i, region in enumerate(op.regions):
            self.lines.append(f"{text} {{")
            self.region(region, indent, op, header=bool(arguments) or isolated)
            # A region that is not the last is followed by the name of the next one.
            text = f"{indent}}} {definition.regions[i + 1]}" if i + 1 < len(op.regions) else f"{indent}}}"
        self.finish(text, op.location)
        if isolated:
            del self.given[mark:]
        else:
            self.release(mark)
        self.taken, self.suffixes, self.next_number = saved

    def short(self, attribute: Attribute | None) -> str:
        """The spelling of an attribute inside a form, where its kind is known."""
        match attribute:
            case None:
                return ""
            case DenseArrayAttr():
                return f"[{', '.join(map(str, attribute.values))}]"
            case ElementsAttr():
                return self.literal(attribute)
            case OpaqueAttr():
                return attribute.text
            case StringAttr() if attribute.value.isidentifier():
                return attribute.value
            case _:
                return attribute.text.partition(" :")[0]

    def generic_op(self, op: Op, head: str, operands: list[str], indent: str) -> None:
        text = f'{head}"{op_name(op)}"({", ".join(operands)})'
        if op.successors:
            text += f"[{', '.join(self.label(b) for b in op.successors)}]"
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
        if len(type.text) <= _LONG_TYPE or not self.has_section:
            return type.text
        return self.long_types.setdefault(type, f"!type_{len(self.long_types)}")

    def with_regions(self, text: str, op: Op, indent: str) -> None:
        for region in op.regions:
            self.lines.append(text + " {")
            self.region(region, indent, op)
            text = f"{indent}}}"
        self.finish(text, op.location)

    def region(self, region: Region, indent: str, op: Op, *, header: bool = False) -> None:
        # A tool that does not know our ops does not know either that a region is isolated.
        isolated = "isolated" in op.traits and not self.generic
        saved = self.taken, self.suffixes, self.next_number
        mark = len(self.given)
        if isolated and not header:
            self.taken, self.suffixes, self.next_number = set(), {}, 0
        self.labels.update((block, f"^bb{i}") for i, block in enumerate(region.blocks))
        for i, block in enumerate(region.blocks):
            empty = self.generic and not block.ops  # `{}` would be a region without blocks
            if (i or block.args or len(region.blocks) > 1 or empty) and not (header and i == 0):
                args = ", ".join(f"{self.name(a)}: {a.type}" for a in block.args)
                self.lines.append(f"{indent}{self.label(block)}{f'({args})' if args else ''}:")
            inner = indent + "  "
            for nested in block.ops:
                self.op(nested, inner)
        # What the region named is not seen behind it, so its names are free again.
        self.release(mark)
        self.taken, self.suffixes, self.next_number = saved

    def release(self, mark: int) -> None:
        """Frees the names given since there were `mark` of them."""
        for made, wanted, n in self.given[mark:]:
            self.taken.discard(made)
            if n >= 0:
                self.suffixes[wanted] = min(n, self.suffixes.get(wanted, n))
        del self.given[mark:]

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
        type_attribute = op.attributes.get("function_type")
        type = type_attribute.type if isinstance(type_attribute, TypeAttr) else FunctionType((), ())
        assert isinstance(type, FunctionType)
        body = op.regions[0] if op.regions and op.regions[0].blocks else None
        names = [self.name(a) + ": " for a in body.blocks[0].args] if body else [""] * len(type.inputs)
        details = _details(op, "arg_attrs", len(type.inputs))
        arguments = [n + t.text + d for n, t, d in zip(names, type.inputs, details, strict=True)]
        clauses = _clauses(op, type, arguments) if definition.form and body else None
        said: frozenset[str] = frozenset()
        visibility = op.attributes.get("sym_visibility")
        text = f"{indent}{op.name} "
        if isinstance(visibility, StringAttr):
            text += f"{visibility.value} "
        if clauses is not None:
            text += " ".join([symbol_text(op.symbol), *clauses])
            said = frozenset(("grid", "outputs", "in_place", "threads"))
        else:
            text += f"{symbol_text(op.symbol)}({', '.join(arguments)})"
        if type.results:
            details = _details(op, "res_attrs", len(type.results))
            results = ", ".join(t.text + d for t, d in zip(type.results, details, strict=True))
            bare = len(type.results) == 1 and not details[0] and not isinstance(type.results[0], FunctionType)
            text += f" -> {results}" if bare else f" -> ({results})"
        rest = tuple(
            (k, v)
            for k, v in op.attributes.items()
            if k not in _HEADER and k not in said and not _is_default(definition, k, v)
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


class _Form:
    """Writes the form of one op that says which types it shows."""

    def __init__(
        self,
        printer: _Printer,
        op: Op,
        definition: OpDefinition,
        operands: list[str],
        groups: list[tuple[Operand, int, int]],
        all_types: bool,
    ):
        self.printer, self.op, self.definition, self.all_types = printer, op, definition, all_types
        self.operands = {o.name: operands[start:stop] for o, start, stop in groups}
        self.values = {o.name: op.operands[start:stop] for o, start, stop in groups}
        self.inner: list[str] = []

    def name_arguments(self, isolated: bool) -> None:
        """Names the arguments of the regions, the same in all of them. In an isolated region one that has no name of
        its own, or that of the value it begins as, is called like that."""
        names, taken = self.printer.names, self.printer.taken
        blocks = [region.blocks[0] for region in self.op.regions]
        starts = [s for p in self.definition.arguments for s in (self.operands[p.start] if p.start else [""])]
        rows = list(zip(starts, *[block.args for block in blocks], strict=True))
        for start, first, *_ in rows if isolated else ():
            if start[1:] not in taken and first.name in ("", start[1:]):
                taken.add(start[1:])
                names[first] = start
        for _, first, *others in rows:
            self.inner.append(self.printer.name(first))
            names.update((other, names[first]) for other in others)

    def text(self) -> str:
        return self.parts(self.definition.parts, "", iter(self.inner))

    def parts(self, parts: Sequence[Part], text: str, inner: Iterator[str]) -> str:
        definition, op = self.definition, self.op
        for part in parts:
            match part.kind:
                case "word":
                    text = _with_word(text, part.text)
                    continue
                case "group":
                    if self.says(part.parts[1:]):
                        text = self.parts(part.parts, text, inner)
                    continue
                case "dictionary":
                    rest = [
                        (k, v)
                        for k, v in op.attributes.items()
                        if k not in definition.shown and not _is_default(definition, k, v)
                    ]
                    if rest:
                        text += f" {self.printer.dictionary(rest)}"
                    if self.all_types:
                        inputs, results = [o.type for o in op.operands], [r.type for r in op.results]
                        return f"{text} : {FunctionType(tuple(inputs), tuple(results)).text}"
                    continue
                case "value":
                    operands = self.operands.get(part.text)
                    shown = operands or [self.printer.short(op.attributes.get(part.text))]
                    piece = ", ".join(shown) if operands != [] or part.text in op.attributes else ""
                case "types":
                    types = [v.type.text for v in self.typed(part.text)]
                    bare = len(types) == 1 and not types[0].startswith("(")
                    listed = text.endswith("->") and not bare
                    piece = f"({', '.join(types)})" if listed else ", ".join(types)
                case _:
                    piece = ", ".join(self.argument(part, start, inner) for start in self.starts(part))
            text += piece if text.endswith(("[", "(")) else f" {piece}" if piece else ""
        return text

    def starts(self, part: Part) -> Sequence[Value | None]:
        return self.values[part.start] if part.start else [None]

    def argument(self, part: Part, start: Value | None, inner: Iterator[str]) -> str:
        name = next(inner)
        typed = f": {self.type_of(name)}" if part.typed else ""
        if start is None:
            return name + typed
        outer = self.printer.names[start]
        return (
            f"{name}{typed} = {outer}" if outer != name or "isolated" not in self.definition.traits else name
        )

    def type_of(self, name: str) -> str:
        return self.op.regions[0].blocks[0].args[self.inner.index(name)].type.text

    def typed(self, name: str) -> Sequence[Value]:
        """The operands or results called so."""
        if name in self.values:
            return self.values[name]
        results = self.definition.results
        if len(results) == 1:
            return self.op.results
        return [self.op.results[next(i for i, r in enumerate(results) if r.name == name)]]

    def says(self, parts: Sequence[Part]) -> bool:
        """Whether a group has something to say that cannot be left out."""
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


def _fits_form(op: Op, definition: OpDefinition, groups: Sequence[tuple[Operand, int, int]]) -> bool:
    """Whether the regions take what the form says that they take, and the attributes are what it can show."""
    if len(op.regions) != len(definition.regions) or len(op.results) < len(definition.results) - 1:
        return False
    for name in definition.shown:
        value, operand = op.attributes.get(name), definition.operand(name)
        if operand is None and value is None:
            return False
        if isinstance(value, IntegerAttr) and value.type is not i64:
            return False
    wanted: list[Type | None] = []
    starts = {o.name: [v.type for v in op.operands[start:stop]] for o, start, stop in groups}
    for part in definition.arguments:
        types: list[Type | None] = [*starts[part.start]] if part.start else [index]
        wanted += [None] * len(types) if part.typed else types
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


def _with_word(text: str, word: str) -> str:
    """Brackets stick to what they enclose; words stand apart."""
    return text + word if word in ",)][(" else f"{text} {word}"


def _named_by_number(value: Value) -> str:
    """`c4` for a constant position, as in MLIR; '' for other values."""
    owner = value.owner
    if value.type is not index or not isinstance(owner, Op) or "constant" not in owner.traits:
        return ""
    number = owner.attributes.get("value")
    return f"c{number.value}" if isinstance(number, IntegerAttr) else ""


_HEADER = frozenset({"sym_name", "function_type", "arg_attrs", "res_attrs", "sym_visibility"})


def _clauses(op: Op, type: FunctionType, arguments: Sequence[str]) -> list[str] | None:
    """`ins(%x: T) outs(%r: T) grid(%i < 7) in_place(%x -> %r) threads(128)` of a kernel; None where they cannot tell
    what is there, which only is in a kernel that is not valid."""
    grid, outputs, pairs, threads = (op.attributes.get(k) for k in ("grid", "outputs", "in_place", "threads"))
    if not isinstance(grid, DenseArrayAttr) or not isinstance(outputs, IntegerAttr) or type.results:
        return None
    if not isinstance(pairs, DenseArrayAttr) or not isinstance(threads, IntegerAttr | None):
        return None
    buffers = len(arguments) - len(grid.values)
    first, names = buffers - outputs.value, [argument.partition(":")[0] for argument in arguments]
    if not 0 <= first <= buffers or any(t is not index for t in type.inputs[buffers:]):
        return None
    if len(pairs.values) % 2 or not all(0 <= i < buffers for i in pairs.values):
        return None
    said: list[str] = []
    for word, part in (("ins", arguments[:first]), ("outs", arguments[first:buffers])):
        if part:
            said.append(f"{word}({', '.join(part)})")
    if grid.values:
        programs = zip(names[buffers:], grid.values, strict=True)
        said.append(f"grid({', '.join(f'{i} < {size}' for i, size in programs)})")
    if pairs.values:
        both = zip(pairs.values[::2], pairs.values[1::2], strict=True)
        said.append(f"in_place({', '.join(f'{names[i]} -> {names[o]}' for i, o in both)})")
    if threads is not None:
        said.append(f"threads({threads.value})")
    return said


def _details(op: Op, key: str, count: int) -> list[str]:
    given = op.attributes.get(key)
    if not isinstance(given, ArrayAttr):
        return [""] * count
    return [f" {d}" if isinstance(d, DictAttr) and d.items else "" for d in given.items]


def _is_default(definition: OpDefinition, name: str, value: Attribute) -> bool:
    field = definition.attribute_field(name)
    return field is not None and field.default is value
