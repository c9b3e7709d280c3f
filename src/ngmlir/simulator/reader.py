# SPDX-License-Identifier: Apache-2.0
"""PTX text -> Program. Reads the output of LLVM's NVPTX back end, including inline assembly with scopes."""

from __future__ import annotations

from .program import (
    TYPE_BYTES,
    Address,
    Function,
    Instruction,
    Integer,
    Operand,
    Pair,
    Program,
    Real,
    Register,
    Sink,
    Symbol,
    Variable,
    Vector,
)
from .tokens import Token, Tokens

_LINKAGE = {".visible", ".extern", ".weak", ".common"}
_SPACES = {".global", ".const", ".shared", ".local", ".param"}
#: Directives of the whole file or of debug information that do not affect the results of a kernel.
_SKIPPED = {".file", ".loc", ".pragma", ".section", ".address_size", ".alias"}


def read(source: str) -> Program:
    """The program in `source`; a `UserError` names the line that is wrong."""
    return _Reader(source).program()


class _Reader(Tokens):
    def __init__(self, source: str):
        super().__init__(source)
        self.result = Program(source)

    # ---- the module

    def program(self) -> Program:
        result = self.result
        while self.here.kind != "end":
            token = self.take()
            if token.text == ".version":
                result.version = self.take().text
            elif token.text == ".target":
                result.target = self.name()
                while self.accept(","):
                    self.name()
            elif token.text in _SKIPPED:
                self.skip(token)
            elif token.text in _LINKAGE:
                continue
            elif token.text in (".entry", ".func"):
                self._function(token)
            elif token.text in _SPACES:
                variable = self.variable(token.text[1:])
                self.expect(";")
                result.variables[variable.name] = variable
            else:
                self.wrong(f"unknown statement {token.text!r}", token.line)
        return result

    def skip(self, directive: Token) -> None:
        """Skips an ignored directive; it ends at `;` or, if it has none, at the end of its line."""
        if directive.text == ".section":
            self.name() if self.here.kind == "word" else self.take()
            self.expect("{")
            while not self.accept("}"):
                self.take()
            return
        while self.here.line == directive.line and self.here.kind != "end":
            if self.take().text == ";":
                return

    def variable(self, space: str) -> Variable:
        """`.align 4 .b8 name[16] = {...}`; the space is already read."""
        alignment, item, kind = 0, 0, ""
        pointee = False  # after `.ptr`, the alignment is that of what the parameter points to
        while self.here.kind == "directive":
            token = self.take()
            if token.text == ".align":
                stated = self.integer()
                alignment = alignment if pointee else stated
            elif token.text[1:] in TYPE_BYTES:
                kind = token.text[1:]
                item = TYPE_BYTES[kind]
            elif token.text == ".ptr":
                pointee = True
            elif token.text not in (".global", ".shared", ".const", ".local", ".attribute", ".managed"):
                self.wrong(f"unknown property {token.text!r} of a variable", token.line)
        if not kind:
            self.wrong("a variable needs a type", self.here.line)
        if "." in self.here.text:
            self.wrong(f"{self.here.text!r} is not a variable's name", self.here.line)
        name, count = self.name(), 1
        while self.accept("["):
            count *= self.integer() if self.here.text != "]" else 0
            self.expect("]")
        initial, relocations = self._initial(item) if self.accept("=") else (b"", ())
        return Variable(name, space, item * count, alignment or item, initial, relocations)

    def _initial(self, item: int) -> tuple[bytes, tuple[tuple[int, str, int], ...]]:
        data = bytearray()
        relocations: list[tuple[int, str, int]] = []
        depth = 0
        while True:
            token = self.here
            if self.accept("{"):
                depth += 1
            elif self.accept("}"):
                depth -= 1
            elif token.kind == "number" or token.text == "-":
                data += self._literal_bytes(item)
            elif token.kind == "word":
                name, addend = self.name(), 0
                if name == "generic":
                    self.expect("(")
                    name = self.name()
                    self.expect(")")
                if self.accept("+"):
                    addend = self.integer()
                relocations.append((len(data), name, addend))
                data += bytes(item)
            else:
                self.wrong(f"unexpected {token.text!r} in an initialiser", token.line)
            if depth == 0 and self.here.text not in ("{", "}"):
                return bytes(data), tuple(relocations)
            self.accept(",")

    def _literal_bytes(self, item: int) -> bytes:
        literal = self.literal()
        value = literal.bits if isinstance(literal, Real) else literal.value
        return (value & ((1 << 8 * item) - 1)).to_bytes(item, "little")

    # ---- functions

    def _function(self, keyword: Token) -> None:
        results = self._parameters() if self.here.text == "(" else ()
        name = self.name()
        parameters = self._parameters() if self.here.text == "(" else ()
        function = Function(name, keyword.text == ".entry", keyword.line, parameters, results)
        while (directive := self.here).kind == "directive":
            self.take()
            function.directives[directive.text[1:]] = self.integers() if self.here.kind == "number" else ()
        if self.accept(";"):  # a declaration; the definition follows or is missing at the call
            return
        self.expect("{")
        _Body(self, function).read()
        self.result.functions[name] = function

    def _parameters(self) -> tuple[Variable, ...]:
        self.expect("(")
        parameters: list[Variable] = []
        while not self.accept(")"):
            if self.accept(".reg"):
                self.wrong("register parameters are not read", self.here.line)
            self.expect(".param")
            parameters.append(self.variable("param"))
            self.accept(",")
        return tuple(parameters)

    # ---- operands

    def literal(self) -> Integer | Real:
        token = self.here
        prefix = token.text[:2].lower()
        if token.kind == "number" and prefix in ("0f", "0d"):
            self.take()
            return Real(int(token.text[2:], 16), 4 if prefix == "0f" else 8)
        return Integer(self.integer())


class _Body:
    """The statements between the braces of one function; names are resolved in nested scopes."""

    def __init__(self, reader: _Reader, function: Function):
        self.reader = reader
        self.function = function
        self.scopes: list[dict[str, str]] = [{}]
        self.renamed = 0

    def read(self) -> None:
        reader, function = self.reader, self.function
        while self.scopes:
            token = reader.here
            if reader.accept("{"):
                self.scopes.append({})
            elif reader.accept("}"):
                self.scopes.pop()
            elif reader.accept(";"):
                continue
            elif token.kind == "directive":
                reader.take()
                self._directive(token)
            elif token.kind == "word" and reader.tokens[reader.position + 1].text == ":":
                reader.take()
                reader.expect(":")
                if reader.accept(".branchtargets"):
                    function.branch_tables[token.text] = self._names()
                else:
                    function.labels[token.text] = len(function.instructions)
            else:
                function.instructions.append(self._instruction())

    def _names(self) -> tuple[str, ...]:
        names = [self.reader.name()]
        while self.reader.accept(","):
            names.append(self.reader.name())
        self.reader.expect(";")
        return tuple(names)

    def _declare(self, name: str) -> str:
        """The unique name of `name` declared in the innermost scope."""
        unique = name
        if len(self.scopes) > 1:
            self.renamed += 1
            unique = f"{name}#{self.renamed}"
        self.scopes[-1][name] = unique
        return unique

    def _unique(self, name: str) -> str:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return name

    def _directive(self, token: Token) -> None:
        reader = self.reader
        if token.text in _SKIPPED:
            reader.skip(token)
        elif token.text == ".reg":
            self._registers()
        elif token.text in _SPACES:
            variable = reader.variable(token.text[1:])
            reader.expect(";")
            unique = self._declare(variable.name)
            self.function.variables[unique] = Variable(
                unique, variable.space, variable.bytes, variable.alignment, variable.initial
            )
        else:
            reader.wrong(f"unknown directive {token.text!r}", token.line)

    def _registers(self) -> None:
        reader = self.reader
        kind = reader.take().text[1:]
        while True:
            name = reader.name()
            if reader.accept("<"):
                for number in range(reader.integer()):
                    self.function.registers[self._declare(f"{name}{number}")] = kind
                reader.expect(">")
            else:
                self.function.registers[self._declare(name)] = kind
            if not reader.accept(","):
                break
        reader.expect(";")

    def _instruction(self) -> Instruction:
        reader = self.reader
        first = reader.here
        guard = None
        if reader.accept("@"):
            negated = reader.accept("!")
            guard = Register(self._unique(reader.name()), negated)
        opcode = reader.name()
        operands: list[Operand] = []
        while not reader.accept(";"):
            operands.append(self._operand())
            if reader.here.text != ";":
                reader.expect(",")
        end = reader.tokens[reader.position - 1]
        text = " ".join(reader.source[first.start : end.start].split())
        return Instruction(first.line, opcode, tuple(operands), guard, text)

    def _operand(self) -> Operand:
        reader = self.reader
        token = reader.here
        if reader.accept("["):
            return self._address()
        if reader.accept("{"):
            return Vector(self._list("}"))
        if reader.accept("("):
            return Vector(self._list(")"))
        if reader.accept("!"):
            return Register(self._unique(reader.name()), negated=True)
        if token.kind == "number" or token.text == "-":
            return reader.literal()
        name = self._named(reader.name())
        if reader.accept("|"):
            return Pair(name, self._operand())
        if isinstance(name, Symbol) and reader.here.text in ("+", "-"):
            return Symbol(name.name, self._offset())
        return name

    def _named(self, name: str) -> Register | Symbol | Sink:
        if name == "_":
            return Sink()
        unique = self._unique(name)
        is_register = unique in self.function.registers or name.startswith("%")
        return Register(unique) if is_register else Symbol(unique)

    def _offset(self) -> int:
        if self.reader.accept("+"):
            return self.reader.integer()
        return self.reader.integer() if self.reader.here.text == "-" else 0

    def _list(self, end: str) -> tuple[Operand, ...]:
        items: list[Operand] = []
        while not self.reader.accept(end):
            items.append(self._operand())
            self.reader.accept(",")
        return tuple(items)

    def _address(self) -> Address:
        reader = self.reader
        if reader.here.kind == "number":
            base: Register | Symbol | Integer = Integer(reader.integer())
        else:
            named = self._named(reader.name())
            if isinstance(named, Sink):
                reader.wrong("an address needs a register or a variable", reader.here.line)
            base = named
        offset = self._offset()
        coordinates: tuple[Operand, ...] = ()
        if reader.accept(","):
            reader.expect("{")
            coordinates = self._list("}")
        reader.expect("]")
        return Address(base, offset, coordinates)
