# SPDX-License-Identifier: Apache-2.0
"""Text to module: ops in custom form (from their definitions) and in MLIR's generic form, freely mixed.

The parser is given its words (op classes by name); it knows no dialect itself. Every error has a place.
"""

from __future__ import annotations

import difflib
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence

from ..support.diagnostics import Location
from .attribute_parser import AttributeParser
from .attributes import ArrayAttr, Attribute, DictAttr, StringAttr, TypeAttr
from .core import Block, ModuleOp, Op, Region, UnregisteredOp, Value, op_name
from .definition import AttributeField, OpDefinition
from .lexer import tokenize, unquote
from .types import FunctionType, Type

Words = Mapping[str, type[Op]]


def parse(text: str, words: Words, *, file: str = "<text>", unregistered: bool = False) -> ModuleOp:
    """The module that `text` spells. Ops at top level need no `module { }` around them.

    Raises UserError (file:line:col) on any text that is not a module of known ops; with `unregistered`,
    ops of unknown dialects are kept when they are in generic form. The result is not verified.
    """
    return _Parser(text, words, file, unregistered).module()


class _Forward:
    """Uses of a value that the text defines later: op and operand position."""

    __slots__ = ("start", "uses", "value")

    def __init__(self, value: Value, start: int):
        self.value, self.start = value, start
        self.uses: list[Op] = []


class _Scope:
    """Names visible in a region."""

    __slots__ = ("blocks", "isolated", "values")

    def __init__(self, isolated: bool):
        self.values: dict[str, Value] = {}
        self.blocks: dict[str, Block] = {}
        self.isolated = isolated


class _Parser(AttributeParser):
    def __init__(self, text: str, words: Words, file: str, unregistered: bool):
        super().__init__(text, file, tokenize(text, file))
        self.words = words
        self.unregistered = unregistered
        self.scopes: list[_Scope] = [_Scope(True)]
        self.forwards: dict[str, _Forward] = {}
        self.depth = 0
        self.newlines = [found.start() for found in re.finditer("\n", text)]

    # -- places ------------------------------------------------------------------------------------------

    def place(self, offset: int) -> Location:
        line = bisect_right(self.newlines, offset - 1)
        return Location(self.file, line + 1, offset - (self.newlines[line - 1] if line else -1))

    # -- modules, regions, blocks ------------------------------------------------------------------------

    def module(self) -> ModuleOp:
        block = Block()
        while self.kind != "end":
            if self.kind == "alias" and self.tokens[self.at + 1].kind == "=":
                self.alias_definition()
            else:
                block.ops.append(self.op())
        self.check_forwards()
        if len(block.ops) == 1 and isinstance(block.ops[0], ModuleOp):
            return block.ops[0]
        return ModuleOp((), (), {}, (Region(block),), Location(self.file, 1, 1))

    def region(self, isolated: bool, arguments: Sequence[tuple[str, Type, int]] | None = None) -> Region:
        """`{ ops }` or `{ ^bb0(%a: T): ops ^bb1: ops }`; `arguments` are those of a function-like header."""
        self.expect("{")
        self.deeper()
        self.scopes.append(_Scope(isolated))
        outer_forwards = self.forwards
        if isolated:
            self.forwards = {}
        blocks: list[Block] = []
        if arguments is not None or self.kind != "label":
            blocks.append(self.block_with(arguments or ()))
            self.fill(blocks[0])
        while self.kind == "label":
            blocks.append(self.labelled_block())
        self.expect("}", "expected an op or '}'")
        if isolated:
            self.check_forwards()
        for name, block in self.scopes[-1].blocks.items():
            if block not in blocks:
                raise self.error(f"block {name} is used but not defined in this region")
        self.scopes.pop()
        if isolated:
            self.forwards = outer_forwards
        self.depth -= 1
        if len(blocks) == 1 and arguments is None and not blocks[0].ops and not blocks[0].args:
            return Region()
        return Region(*blocks)

    def block_with(self, arguments: Sequence[tuple[str, Type, int]], block: Block | None = None) -> Block:
        made = Block([t for _, t, _ in arguments], [_kept_name(n) for n, _, _ in arguments])
        if block is not None:  # a label that was used before its block came
            block.args = made.args
            for value in block.args:
                value.owner = block
            made = block
        for (name, _, start), value in zip(arguments, made.args, strict=True):
            self.define(name, value, start)
        return made

    def labelled_block(self) -> Block:
        token = self.take("label")
        block = self.block_named(token.text)
        if block.ops or block.label == "defined":
            raise self.error_at(f"block {token.text} is defined twice", token.start)
        arguments: list[tuple[str, Type, int]] = []
        if self.accept("("):
            while self.kind != ")":
                value = self.take("value", "a block argument")
                self.expect(":")
                arguments.append((value.text, self.type(), value.start))
                if not self.accept(","):
                    break
            self.expect(")")
        self.expect(":")
        self.block_with(arguments, block)
        block.label = "defined"
        self.fill(block)
        return block

    def block_named(self, label: str) -> Block:
        blocks = self.scopes[-1].blocks
        if label not in blocks:
            blocks[label] = Block()
        return blocks[label]

    def fill(self, block: Block) -> None:
        add = block.ops.append
        while self.kind not in ("}", "label", "end"):
            add(self.op())

    # -- values ------------------------------------------------------------------------------------------

    def define(self, name: str, value: Value, start: int) -> None:
        if self.visible(name) is not None:
            raise self.error_at(f"value {name} is defined twice", start)
        self.scopes[-1].values[name] = value
        forward = self.forwards.pop(name, None) if self.forwards else None
        if forward is not None:
            if forward.value.type is not value.type:
                raise self.error_at(
                    f"value {name} is {value.type} here but was used as {forward.value.type}", start
                )
            for op in forward.uses:
                op.operands = tuple(value if o is forward.value else o for o in op.operands)

    def visible(self, name: str) -> Value | None:
        for scope in reversed(self.scopes):
            found = scope.values.get(name)
            if found is not None:
                return found
            if scope.isolated:
                return None
        return None

    def use(self, name: str, start: int, type: Type | None) -> Value:
        """The value called `name`, checked against its stated type; an unknown one may be defined later."""
        value = self.scopes[-1].values.get(name) or self.visible(name)
        if value is None:
            if type is None:
                raise self.error_at(f"value {name} is not defined", start, self.closest(name))
            if name not in self.forwards:
                self.forwards[name] = _Forward(Value(type, None, 0, name[1:]), start)
            value = self.forwards[name].value
        if type is not None and value.type is not type:
            raise self.error_at(f"value {name} is {value.type}, but {type} is stated here", start)
        return value

    def closest(self, name: str) -> str:
        names = [n for scope in self.scopes for n in scope.values]
        near = difflib.get_close_matches(name, names, 1)
        return f"did you mean {near[0]}?" if near else ""

    def check_forwards(self) -> None:
        for name, forward in self.forwards.items():
            raise self.error_at(f"value {name} is not defined", forward.start, self.closest(name))

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
            op.location = given if given.known else op.location
        if results:
            self.name_results(op, results, counts)
        for forward in self.forwards.values():
            if any(o is forward.value for o in op.operands):
                forward.uses.append(op)
        return op

    def name_results(self, op: Op, results: list[tuple[str, int]], counts: list[int]) -> None:
        if sum(counts) != len(op.results):
            raise self.error_at(
                f"{op_name(op)} has {len(op.results)} results, but {sum(counts)} are named", results[0][1]
            )
        at = 0
        for (name, start), count in zip(results, counts, strict=True):
            if count == 1:
                value = op.results[at]
                value.name = _kept_name(name)
                self.define(name, value, start)
            else:
                for i in range(count):
                    op.results[at + i].name = ""
                    self.define(f"{name}#{i}", op.results[at + i], start)
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
                successors.append(self.block_named(self.take("label").text))
                if not self.accept(","):
                    break
            self.expect("]")
        attributes: dict[str, Attribute] = {}
        if self.accept("<"):
            attributes.update(self.dictionary())
            self.expect(">")
        cls = self.op_class(name, token.start, generic=True)
        isolated = cls.definition is not None and "isolated" in cls.definition.traits
        regions: list[Region] = []
        if self.accept("("):
            while True:
                regions.append(self.region(isolated))
                if not self.accept(","):
                    break
            self.expect(")")
        if self.kind == "{":
            attributes.update(self.dictionary())
        self.expect(":", f"expected ':' and the type of {name}")
        type_start = self.token.start
        function = self.type()
        if not isinstance(function, FunctionType):
            raise self.error_at("expected a function type (operand types) -> result types", type_start)
        values = self.resolve(operands, function.inputs, type_start)
        if cls.definition is not None:
            _add_defaults(cls.definition, attributes)
        op = cls(values, function.results, attributes, regions, self.place(start), successors)
        if isinstance(op, UnregisteredOp):
            op.full_name = name
        return op

    def op_class(self, name: str, start: int, generic: bool) -> type[Op]:
        cls = self.words.get(name)
        if cls is not None:
            return cls
        if name in ("module", "builtin.module"):
            return ModuleOp
        if generic and self.unregistered:
            return UnregisteredOp
        near = difflib.get_close_matches(name, self.words, 1)
        hint = f"did you mean {near[0]}?" if near else ""
        raise self.error_at(f"unknown op '{name}'", start, hint, len(name))

    def resolve(self, names: list[tuple[str, int]], types: Sequence[Type], start: int) -> list[Value]:
        if len(names) != len(types):
            raise self.error_at(f"{len(names)} operands, but {len(types)} operand types", start)
        return [self.use(name, at, type) for (name, at), type in zip(names, types, strict=True)]

    def custom_op(self, start: int) -> Op:
        token = self.take("bare")
        name = token.text if "." in token.text else _SHORT_NAMES.get(token.text, token.text)
        cls = self.op_class(name, token.start, generic=False)
        definition = cls.definition
        assert definition is not None  # every class in the words has one
        if cls is ModuleOp:
            return self.module_op(start)
        if "function" in definition.traits:
            return self.function_op(cls, definition, start)
        return self.formed_op(cls, definition, start)

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

    def function_op(self, cls: type[Op], definition: OpDefinition, start: int) -> Op:
        """`func.func [private] @name(%x: T {attributes}) -> (T) attributes {...} { body }`."""
        attributes: dict[str, Attribute] = {}
        if self.kind == "bare" and self.token.text in ("private", "public", "nested"):
            attributes["sym_visibility"] = StringAttr(self.take("bare").text)
        attributes["sym_name"] = StringAttr(self.symbol_name())
        arguments: list[tuple[str, Type, int]] = []
        inputs: list[Type] = []
        details: list[DictAttr] = []
        self.expect("(")
        while self.kind != ")":
            if self.kind == "value":
                value = self.take("value")
                self.expect(":")
                inputs.append(self.type())
                arguments.append((value.text, inputs[-1], value.start))
            else:
                inputs.append(self.type())  # a declaration has no names
            details.append(DictAttr(tuple(self.dictionary().items()) if self.kind == "{" else ()))
            if not self.accept(","):
                break
        self.expect(")")
        results, result_details = self.function_results()
        if self.accept_word("attributes"):
            attributes.update(self.dictionary())
        for key, given in (("arg_attrs", details), ("res_attrs", result_details)):
            if any(d.items for d in given):
                attributes[key] = ArrayAttr(tuple(given))
        attributes["function_type"] = TypeAttr(FunctionType(tuple(inputs), tuple(results)))
        _add_defaults(definition, attributes)
        region = Region()
        if self.kind == "{":
            if len(arguments) != len(inputs):
                raise self.error("a function with a body needs names for its arguments")
            region = self.region(True, arguments)
        return cls((), (), attributes, (region,), self.place(start))

    def function_results(self) -> tuple[list[Type], list[DictAttr]]:
        types: list[Type] = []
        details: list[DictAttr] = []
        if not self.accept("->"):
            return types, details
        if not self.accept("("):
            return [self.type()], [DictAttr(())]
        while self.kind != ")":
            types.append(self.type())
            details.append(DictAttr(tuple(self.dictionary().items()) if self.kind == "{" else ()))
            if not self.accept(","):
                break
        self.expect(")")
        return types, details

    def formed_op(self, cls: type[Op], definition: OpDefinition, start: int) -> Op:
        """The op's form, `{other attributes}`, `: types`, then its regions."""
        names: list[tuple[str, int]] = []
        attributes: dict[str, Attribute] = {}
        literal = ""  # an attribute whose meaning waits for the op's type
        literal_at = self.at
        for part in definition.form:
            if not part.startswith("$"):
                self.expect_text(part)
                continue
            field = definition.attribute_field(part[1:])
            if field is None:
                self.formed_operands(definition, part[1:], names)
            elif field.kind == "literal":
                literal, literal_at = field.name, self.at
                self.skip_literal()
            else:
                self.formed_attribute(field, attributes)
        if self.kind == "{" and not self.starts_region():
            attributes.update(self.dictionary())
        types, results = self.types_clause(definition, names)
        if literal:
            after, self.at = self.at, literal_at
            self.sync()
            attributes[literal] = self.literal_of((results or types)[0])
            self.at = after
            self.sync()
        regions: list[Region] = []
        isolated = "isolated" in definition.traits
        for _ in definition.regions:
            regions.append(self.region(isolated))
        values = self.resolve(names, types, start)
        _add_defaults(definition, attributes)
        return cls(values, results, attributes, regions, self.place(start))

    def formed_operands(self, definition: OpDefinition, name: str, names: list[tuple[str, int]]) -> None:
        operand = next(o for o in definition.operands if o.name == name)
        while self.kind == "value" or not operand.variadic:
            token = self.take("value", f"operand '{name}'")
            names.append((token.text, token.start))
            if not operand.variadic or not self.accept(","):
                break

    def formed_attribute(self, field: AttributeField, attributes: dict[str, Attribute]) -> None:
        attributes[field.name] = self.attribute_of_kind(field.kind)

    def starts_region(self) -> bool:
        """Whether the `{` here opens a region, not an attribute dictionary."""
        after = self.tokens[self.at + 1]
        then = self.tokens[self.at + 2].kind if self.at + 2 < len(self.tokens) else "end"
        return not (after.kind == "}" or (after.kind in ("bare", "string") and then in ("=", ",", "}")))

    def types_clause(
        self, definition: OpDefinition, names: list[tuple[str, int]]
    ) -> tuple[Sequence[Type], Sequence[Type]]:
        """`: T` (all operands and the result are T), `: (T, ...) -> T` or, without results, `: T, T`; absent where
        there is nothing to say."""
        if not definition.operands and not definition.results:
            return (), ()
        if (
            not names
            and self.kind != ":"
            and all(v.variadic for v in (*definition.operands, *definition.results))
        ):
            return (), ()
        self.expect(":", "expected ':' and the op's type")
        start = self.token.start
        given = self.type()
        if isinstance(given, FunctionType):
            return given.inputs, given.results
        if self.kind == "," and not definition.results:  # MLIR's `return %a, %b : f32, i32`
            operands = [given]
            while self.accept(","):
                operands.append(self.type())
            return operands, ()
        fixed = [r for r in definition.results if not r.variadic]
        if len(fixed) != len(definition.results):
            raise self.error_at("expected (operand types) -> result types", start)
        return [given] * len(names), [given] * len(fixed)


def _add_defaults(definition: OpDefinition, attributes: dict[str, Attribute]) -> None:
    for field in definition.attributes:
        if field.name not in attributes and field.default is not None:
            attributes[field.name] = field.default


_SHORT_NAMES = {"module": "builtin.module", "return": "func.return", "call": "func.call"}


def _kept_name(name: str) -> str:
    """The name to remember for printing; numbers are given anew each time."""
    return "" if name[1:2].isdigit() else name[1:]
