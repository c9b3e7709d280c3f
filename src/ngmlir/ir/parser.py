# SPDX-License-Identifier: Apache-2.0
"""The parser: ops in custom form (from their definitions) and in MLIR's generic form, freely mixed.

The caller passes the op classes by name (`words`); the parser knows no dialect itself. Every error has a location.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ..support.collector import collecting_rarely
from ..support.diagnostics import Diagnostic, Location, UserError
from ..support.spelling import counted
from .attributes import Attribute, DictAttr, StringAttr
from .core import Block, ModuleOp, Op, Region, UnregisteredOp, op_name
from .cursor import shortened
from .definition import OpDefinition
from .form_reader import FormReader, read_operands, starts_region
from .function_parser import FunctionParser, add_defaults
from .lexer import unquote
from .recovery import SHORT_NAMES
from .resource_files import ResourceFolder
from .type_parser import KEEP_OPS
from .types import FunctionType, Type

Words = Mapping[str, type[Op]]


#: The hint for an op of another dialect, by its name, or ''.
Advice = Callable[[str], str]


def parse(
    text: str,
    words: Words,
    *,
    file: str = "<text>",
    unregistered: bool = False,
    first_line: int = 1,
    advice: Advice = lambda name: "",
    resources: ResourceFolder | None = None,
    lengths: Mapping[str, int] | None = None,
) -> ModuleOp:
    """The module that `text` represents. Ops at top level need no `module { }` around them.

    Raises UserError (file:line:col) on any text that is not a module of known ops; with `unregistered`,
    ops of unknown dialects in generic form are kept, and other unknown parts of MLIR by their spelling. The result is not
    verified. `text` may be a part of a file, from `first_line` on. Files with constants are searched in `resources`.
    `lengths` are the values of named lengths.
    """
    folder = resources or ResourceFolder()
    with collecting_rarely():
        text = text.removeprefix("\ufeff")  # the byte order mark that some editors write
        parser = _Parser(text, words, file, unregistered, first_line, advice, folder)
        parser.lengths.update(lengths or {})
        return parser.module()


class _Parser(FunctionParser):
    def __init__(
        self,
        text: str,
        words: Words,
        file: str,
        unregistered: bool,
        first_line: int,
        advice: Advice,
        resources: ResourceFolder,
    ):
        super().__init__(text, file, first_line, unregistered, resources)
        self.words = words
        self.advice = advice
        self.known_hints: dict[str, str] = {}  # unknown op -> hint for it

    def is_loaded(self, dialect: str) -> bool:
        return any(name.startswith(dialect + ".") for name in self.words)

    # -- modules, regions, blocks ------------------------------------------------------------------------

    def module(self) -> ModuleOp:
        block = Block()
        while self.kind != "end":
            self.fill(block)
            if self.kind != "end":
                self.errors += self.error("expected an op").diagnostics
                self.advance()
        if self.complaint and not self.ended:
            self.errors += self.error("").diagnostics
        self.names.leave(complete=not self.ended and not self.complaint)
        self.finish()
        if len(block.ops) == 1 and isinstance(block.ops[0], ModuleOp):
            return block.ops[0]
        return ModuleOp((), (), {}, (Region(block),), Location(self.file, self.first_line, 1))

    def region(self, isolated: bool, arguments: Sequence[tuple[str, Type, int]] | None = None) -> Region:
        """`{ ops }` or `{ ^bb0(%a: T): ops ^bb1: ops }`; `arguments` are those of a function-like header."""
        opened = self.expect("{").start
        self.deeper()
        self.names.enter(isolated)
        blocks: list[Block] = []
        implied = self.kind != "label"
        if arguments is not None or implied:
            blocks.append(self.block_with(arguments or ()))
            self.fill(blocks[0])
        while self.kind == "label":
            blocks.append(self.labelled_block())
        if not self.accept("}"):
            raise self.unclosed(opened)
        self.names.leave()
        self.depth -= 1
        if arguments is None and implied and len(blocks) == 1 and not blocks[0].ops:
            return Region()
        return Region(*blocks)

    def unclosed(self, opened: int) -> UserError:
        """The error for a region without its end, or for one inside it that took its end, which the indentation of lines shows."""
        notes = [Diagnostic("the region is opened here", self.place(opened), "note")]
        misfit = None if self.ended else self.misfit()
        if misfit is not None and misfit != opened:
            message = "or '}' is missing for this one: that which closes it is indented otherwise"
            notes.append(Diagnostic(message, self.place(misfit), "note"))
        return self.error("expected an op or '}'", tuple(notes))

    def block_with(self, arguments: Sequence[tuple[str, Type, int]], block: Block | None = None) -> Block:
        made = Block([t for _, t, _ in arguments], [_kept_name(n) for n, _, _ in arguments])
        if block is not None:  # a label that was used before its block
            block.args = made.args
            for value in block.args:
                value.owner = block
            made = block
        for (name, _, start), value in zip(arguments, made.args, strict=True):
            self.names.define(name, value, start)
        return made

    def labelled_block(self) -> Block:
        token = self.take("label")
        block = self.names.define_block(token.text, token.start)
        arguments: list[tuple[str, Type, int]] = []
        if self.accept("("):
            while self.kind != ")":
                value = self.take("value", "a block argument")
                self.expect(":")
                arguments.append((value.text, self.type(), value.start))
                self.argument_location()
                if not self.accept(","):
                    break
            self.expect(")")
        self.expect(":")
        self.block_with(arguments, block)
        block.label = "defined"
        self.fill(block)
        return block

    def fill(self, block: Block) -> None:
        """Parses ops to the end of the block; after an error in one, it continues with the next."""
        add = block.ops.append
        depth, scopes = self.depth, len(self.names.scopes)
        while self.kind not in ("}", "label", "end"):
            start = self.at
            try:
                if self.kind == "alias" and self.tokens[start + 1].kind == "=" and scopes == 1:
                    self.alias_definition()
                else:
                    add(self.op())
            except UserError as error:
                self.recover(error, start, depth, scopes)

    # -- ops ---------------------------------------------------------------------------------------------

    def op(self) -> Op:
        start = self.token.start
        results: list[tuple[str, int]] = []
        counts: list[int] = []
        if self.kind == "value":
            while True:
                token = self.take("value", "a result")
                results.append((token.text, token.start))
                counts.append(self.integer() if self.accept(":") else 1)
                if not self.accept(","):
                    break
            self.expect("=")
        if self.kind == "string":
            op = self.generic_op(start)
        elif self.kind == "bare":
            op = self.custom_op(start)
        else:
            raise self.error("expected an op")
        if self.kind == "bare" and self.token.text == "loc":
            given = self.location()
            if given.known:
                op.location = given
        if results:
            self.name_results(op, results, counts)
        self.names.made(op)
        return op

    def name_results(self, op: Op, results: list[tuple[str, int]], counts: list[int]) -> None:
        if sum(counts) != len(op.results):
            raise self.error_at(
                f"{op_name(op)} has {counted(len(op.results), 'result')}, but {sum(counts)} are named",
                results[0][1],
            )
        at = 0
        for (name, start), count in zip(results, counts, strict=True):
            if count == 1:
                value = op.results[at]
                value.name = _kept_name(name)
                self.names.define(name, value, start)
            else:
                for i in range(count):
                    op.results[at + i].name = ""
                    self.names.define(f"{name}#{i}", op.results[at + i], start)
            at += count

    def operand_names(self, closing: str) -> list[tuple[str, int]]:
        names: list[tuple[str, int]] = []
        while self.kind != closing:
            token = self.take("value", "an operand")
            names.append((token.text, token.start))
            if not self.accept(","):
                break
        self.expect(closing)
        return names

    def generic_op(self, start: int) -> Op:
        token = self.take("string")
        name = unquote(token.text)
        self.expect("(")
        operands = self.operand_names(")")
        successors: list[Block] = []
        if self.accept("["):
            while self.kind == "label":
                label = self.take("label")
                successors.append(self.names.block(label.text, label.start))
                if not self.accept(","):
                    break
            self.expect("]")
        attributes: dict[str, Attribute] = {}
        cls = self.op_class(name, token.start, generic=True)
        properties: DictAttr | None = None
        if self.accept("<"):
            given = self.dictionary()
            self.expect(">")
            if issubclass(cls, UnregisteredOp):
                properties = DictAttr(tuple(given.items()))
            else:
                attributes.update(given)
        isolated = cls.definition is not None and "isolated" in cls.definition.traits
        regions: list[Region] = []
        if self.accept("("):
            while True:
                regions.append(self.region(isolated))
                if not self.accept(","):
                    break
            self.expect(")")
        if self.kind == "{":
            start_of_dictionary = self.token.start
            more = self.dictionary()
            if twice := attributes.keys() & more.keys():
                message = f"attribute '{min(twice)}' is given twice, in <{{...}}> and here"
                raise self.error_at(message, start_of_dictionary)
            attributes.update(more)
        self.expect(":", f"expected ':' and the type of {name}")
        type_start = self.token.start
        function = self.type()
        if not isinstance(function, FunctionType):
            raise self.error_at("expected a function type (operand types) -> result types", type_start)
        values = self.resolve(operands, function.inputs, type_start)
        if cls.definition is not None:
            add_defaults(cls.definition, attributes)
        if cls is ModuleOp and not (len(regions) == 1 and regions[0].blocks):
            raise self.error_at(
                "a module has one region of one block", token.start, "an empty one is ({^bb0:})"
            )
        op = cls(values, function.results, attributes, regions, self.place(start), successors)
        if isinstance(op, UnregisteredOp):
            op.full_name, op.properties = name, properties
        return op

    def op_class(self, name: str, start: int, generic: bool) -> type[Op]:
        cls = self.words.get(name)
        if cls is not None:
            return cls
        if name in ("module", "builtin.module"):
            return ModuleOp
        if generic and self.unregistered:
            return UnregisteredOp
        hint = self.known_hints.get(name)
        if hint is None:
            hint = self.known_hints[name] = self.hint_for(name)
        raise self.error_at(f"unknown op '{shortened(name)}'", start, hint, len(name))

    def hint_for(self, name: str) -> str:
        """What to do about an op of another dialect."""
        dialect, dot, short = name.rpartition(".")
        ours = next((word for word in self.words if word.rpartition(".")[2] == short), "")
        if (dot or not ours) and (given := self.advice(name)):
            return given
        if dot and self.is_loaded(dialect):
            return self.hints.did_you_mean(name, self.words)
        if ours or not dot:
            return f"did you mean {ours}?" if ours else self.hints.did_you_mean(name, self.words)
        generic = f'generic form, "{shortened(name)}"(...)'
        return f"write it in {generic}" if self.unregistered else f"{KEEP_OPS} in {generic}"

    def custom_op(self, start: int) -> Op:
        token = self.take("bare")
        name = token.text if "." in token.text else SHORT_NAMES.get(token.text, token.text)
        cls = self.op_class(name, token.start, generic=False)
        definition = cls.definition
        assert definition is not None  # every class in `words` has one
        if cls is ModuleOp:
            return self.module_op(start)
        if "function" in definition.traits:
            return self.function_op(cls, definition, start)
        read = self.op_with_types if definition.states_types else self.formed_op
        try:
            return read(cls, definition, start)
        except UserError as error:
            error.diagnostics = tuple(
                replace(each, hint=f"as in: {definition.example}")
                if not each.hint and each.message.startswith("expected") and definition.example
                else each
                for each in error.diagnostics
            )
            raise

    def module_op(self, start: int) -> Op:
        attributes: dict[str, Attribute] = {}
        if self.kind == "symbol":
            attributes["sym_name"] = StringAttr(self.symbol_name())
        if self.accept_word("attributes"):
            attributes.update(self.dictionary())
        region = self.region(isolated=True)
        return ModuleOp(
            (), (), attributes, (region if region.blocks else Region(Block()),), self.place(start)
        )

    def formed_op(self, cls: type[Op], definition: OpDefinition, start: int) -> Op:
        """The op's form, `{other attributes}`, `: types`, then its regions."""
        names: list[tuple[str, int]] = []
        attributes: dict[str, Attribute] = {}
        literal = ""  # an attribute that is parsed once the op's type is known
        literal_at, literal_type = self.at, None
        if self.kind == "{" and "terminator" in definition.traits:
            attributes.update(self.dictionary())
        for part in definition.form:
            if not part.startswith("$"):
                self.expect_text(part)
                continue
            field = definition.attribute_field(part[1:])
            if field is None:
                read_operands(self, next(o for o in definition.operands if o.name == part[1:]), names)
            elif field.kind == "literal":
                literal, literal_at = field.name, self.at
                literal_type = self.skip_literal()
            else:
                attributes[field.name] = self.attribute_of_kind(field.kind)
        if self.kind == "{" and not starts_region(self, definition):
            attributes.update(self.dictionary())
        types, results = self.types_clause(definition, names, literal_type)
        if literal:
            after, self.at = self.at, literal_at
            self.sync()
            attributes[literal] = self.literal_of((results or types)[0])
            self.at = after
            self.sync()
        regions = [self.region_called(definition, name) for name in definition.regions]
        values = self.resolve(names, types, start)
        add_defaults(definition, attributes)
        return cls(values, results, attributes, regions, self.place(start))

    def op_with_types(self, cls: type[Op], definition: OpDefinition, start: int) -> Op:
        """An op whose form states types itself, then its regions."""
        form = FormReader(self, definition, start)
        form.read()
        operands, results = form.values()
        arguments = form.arguments_of_regions(operands)
        regions: list[Region] = []
        for i, name in enumerate(definition.regions):
            if i and not self.accept_word(name):
                if "optional" in definition.traits and (idle := _idle(regions[0])):
                    regions.append(idle)
                    continue
                raise self.error(f"expected '{name} {{' and the region of {definition.name} that it begins")
            regions.append(self.region_called(definition, name, arguments))
        add_defaults(definition, form.attributes)
        return cls(operands, results, form.attributes, regions, self.place(start))

    def region_called(
        self, definition: OpDefinition, name: str, arguments: Sequence[tuple[str, Type, int]] | None = None
    ) -> Region:
        if self.kind != "{":
            raise self.error(f"expected '{{' and the region '{name}' of {definition.name}")
        region = self.region("isolated" in definition.traits, arguments)
        if not region.blocks and "symbol_table" in definition.traits:
            return Region(Block())  # a table of no symbols
        return region

    def types_clause(
        self, definition: OpDefinition, names: list[tuple[str, int]], known: Type | None = None
    ) -> tuple[Sequence[Type], Sequence[Type]]:
        """`: T` (all operands and the result are T), `: (T, ...) -> T` or, at the end of a block, `: T, ...`; absent
        if there are none, or if the result is `known`."""
        if not definition.operands and not definition.results:
            return (), ()
        if known is not None and self.kind != ":":
            return (), [known]
        if (
            not names
            and self.kind != ":"
            and all(v.variadic for v in (*definition.operands, *definition.results))
        ):
            return (), ()
        self.expect(":", "expected ':' and the op's type")
        start = self.token.start
        given = self.type()
        if "terminator" in definition.traits:
            return self.types_of_operands(given, len(names)), ()
        if isinstance(given, FunctionType):
            return given.inputs, given.results
        fixed = [r for r in definition.results if not r.variadic]
        if len(fixed) != len(definition.results):
            raise self.error_at("expected (operand types) -> result types", start)
        return [given] * len(names), [given] * len(fixed)

    def types_of_operands(self, first: Type, count: int) -> Sequence[Type]:
        """`T, U`, as MLIR's own terminators have it. Of several operands, `T` alone is the type of all; the older form
        `(T, U) -> ()` is accepted too."""
        types = [first]
        while self.accept(","):
            types.append(self.type())
        if len(types) == 1 and count != 1:
            if isinstance(first, FunctionType) and not first.results:
                return first.inputs
            return types * max(1, count)
        return types


def _idle(first: Region) -> Region | None:
    """A region with a terminator only, like that of the first one; None if that one yields values."""
    end = first.blocks[0].terminator if first.blocks else None
    if end is None or end.operands:
        return None
    return Region(Block(ops=[type(end)((), (), {}, (), end.location)]))


def _kept_name(name: str) -> str:
    """The name to keep for printing; numbers are assigned again."""
    return "" if name[1:2].isdigit() else name[1:]
