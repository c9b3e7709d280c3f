# SPDX-License-Identifier: Apache-2.0
"""A cursor over the tokens of a text, and errors with locations."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod

from ..support.diagnostics import Diagnostic, Location, UserError
from ..support.spelling import Hints
from .lexer import Token, tokenize, unexpected, unquote
from .literals import special_floats
from .resource_files import ResourceFolder
from .resources import read_section, section_start
from .types import FloatType

#: Maximum nesting of regions, attributes and types (Python's own stack is finite).
MAX_DEPTH = 96


_MOST, _DIGITS = 1 << 63, 40
_EXPONENT = re.compile(r"(?<=\d)[eE][-+]?\d+")
_ANGLES = ("<", ">")
_BRACKETS = {")": "(", "]": "[", "}": "{", ">": "<"}


class Cursor(ABC):
    """A position in the tokens: `accept` consumes the current token if it is of a kind, `expect` and `take` require that kind."""

    def __init__(self, text: str, file: str, resources: ResourceFolder):
        self.text, self.file = text, file
        program = section_start(text)
        self.resources = read_section(text, program, self.place, resources)
        self.tokens: list[Token]
        self.complaint: str  # why the tokens end before the text does, or ''
        self.tokens, self.complaint = tokenize(text, program)
        self.at: int = 0
        self.token = self.tokens[0]
        self.kind = self.token.kind
        self.depth: int = 0
        #: Where `<` begin that are known to have no closing `>`.
        self.never_closed: set[int] = set()
        self.hints = Hints()

    @abstractmethod
    def place(self, offset: int) -> Location:
        """The location of a character of the text."""

    def sync(self) -> None:
        """Updates the current token after `tokens` or `at` were set."""
        self.token = self.tokens[self.at]
        self.kind = self.token.kind

    def advance(self) -> Token:
        token = self.token
        if token.kind != "end":
            self.at += 1
            self.token = self.tokens[self.at]
            self.kind = self.token.kind
        return token

    def accept(self, kind: str) -> bool:
        if self.kind == kind:
            self.advance()
            return True
        return False

    def accept_word(self, word: str) -> bool:
        if self.kind == "bare" and self.token.text == word:
            self.advance()
            return True
        return False

    def expect(self, kind: str, message: str = "") -> Token:
        if self.kind != kind:
            raise self.error(message or f"expected '{kind}'", self.opening(kind))
        return self.advance()

    def opening(self, closing: str) -> tuple[Diagnostic, ...]:
        """The bracket that `closing` would close; () if it closes nothing."""
        bracket = _BRACKETS.get(closing)
        open_brackets = 0
        for at in range(self.at - 1, -1, -1) if bracket else ():
            token = self.tokens[at]
            open_brackets += (token.kind == bracket) - (token.kind == closing)
            if open_brackets > 0:
                return (Diagnostic(f"'{bracket}' is opened here", self.place(token.start), "note"),)
        return ()

    def expect_text(self, text: str) -> None:
        if self.token.text != text:
            raise self.error(f"expected '{text}'")
        self.advance()

    def take(self, kind: str, what: str = "") -> Token:
        if self.kind != kind:
            raise self.error(f"expected {what or f'a {kind}'}")
        return self.advance()

    def error(self, message: str, notes: tuple[Diagnostic, ...] = (), hint: str = "") -> UserError:
        if self.kind == "end" and self.complaint:
            return self.error_at(self.complaint, self.token.start)
        if self.kind == "odd":
            return self.error_at(unexpected(self.token.text), self.token.start, self.elsewhere())
        hint = hint or self.elsewhere()
        found = "the end of the text" if self.kind == "end" else f"'{shortened(self.token.text)}'"
        message = f"{message}, found {found}"
        return self.error_at(message, self.token.start, hint, length=len(self.token.text), notes=notes)

    def elsewhere(self) -> str:
        """What to write for what other languages have here."""
        start, before = self.token.start, self.tokens[self.at - 1] if self.at else None
        if self.kind in ("/", "odd") and self.text.startswith(("/*", "# "), start):
            return "comments begin with // and end with their line"
        if self.text.startswith(".", start) and before is not None and before.kind == "hex":
            return "hexadecimal numbers are the bits of a float: 0x3F800000 is 1.0 of f32"
        if before is not None and before.kind == "integer" and (found := _EXPONENT.match(self.text, start)):
            return f"floats have a decimal point: {before.text}.0{found[0]}"
        return special_floats(self.token.text, FloatType("f32")) if self.kind == "bare" else ""

    def error_at(
        self,
        message: str,
        start: int,
        hint: str = "",
        length: int = 1,
        notes: tuple[Diagnostic, ...] = (),
    ) -> UserError:
        return UserError(Diagnostic(message, self.place(start), hint=hint, length=length, notes=notes))

    def deeper(self) -> None:
        """Increments the nesting depth; the caller decrements it at the closing bracket."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(f"nested deeper than {MAX_DEPTH} levels")

    def integer(self) -> int:
        """An integer of 64 bits; an error if it has more, however many digits there are."""
        token = self.take("integer", "an integer")
        value = int(token.text) if len(token.text) <= _DIGITS else _MOST
        if not -_MOST <= value < _MOST:
            raise self.error_at(f"{shortened(token.text)} does not fit in 64 bits", token.start)
        return value

    def symbol_name(self) -> str:
        text = self.take("symbol", "a symbol @name").text[1:]
        return unquote(text) if text.startswith('"') else text

    def skip_angles(self) -> bool:
        """Moves past a balanced `<...>` if one is here."""
        if self.kind != "<":
            return False
        open_angles = [self.token.start]
        if self.token.start not in self.never_closed:
            for at in range(self.at + 1, len(self.tokens)):
                kind, _, start = self.tokens[at]
                if kind not in _ANGLES or self.text.startswith("=", start + 1):  # `<=` and `>=` compare
                    continue
                if kind == "<":
                    open_angles.append(start)
                    continue
                open_angles.pop()
                if not open_angles:
                    self.at = at + 1
                    self.sync()
                    return True
            self.never_closed.update(open_angles)
        raise self.error_at("'<' is not closed", self.token.start)


def shortened(text: str) -> str:
    """A token as messages quote it."""
    return text if len(text) <= 40 else text[:37] + "..."
