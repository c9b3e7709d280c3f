# SPDX-License-Identifier: Apache-2.0
"""Tokeniser of PTX text."""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn

from ..support.diagnostics import Location, UserError

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
      | (?P<number>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|\d+\.\d+|\d+U?)
      | (?P<word>[%$_A-Za-z][\w$]*(?:(?:\.|::)\w+)*)
      | (?P<directive>\.[A-Za-z_]\w*(?:::\w+)*)
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<mark>[{}()\[\],;:|!@<>=+\-])""",
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    kind: str
    text: str
    line: int
    start: int


class Tokens:
    """The tokens of a text and a current position; unexpected tokens are a `UserError` with their line."""

    def __init__(self, source: str):
        self.source = source
        self.tokens = self._split(source)
        self.position = 0

    def _split(self, source: str) -> list[Token]:
        tokens: list[Token] = []
        position, line = 0, 1
        while position < len(source):
            match = _TOKEN.match(source, position)
            if match is None:
                self.wrong(f"cannot read {source[position : position + 20].splitlines()[0]!r}", line)
            text = match.group()
            if match.lastgroup != "space":
                tokens.append(Token(str(match.lastgroup), text, line, position))
            line += text.count("\n")
            position = match.end()
        tokens.append(Token("end", "", line, position))
        return tokens

    def wrong(self, message: str, line: int) -> NoReturn:
        raise UserError(f"PTX: {message}", Location("<ptx>", line, 1), source=self.source)

    @property
    def here(self) -> Token:
        return self.tokens[self.position]

    def take(self) -> Token:
        token = self.tokens[self.position]
        if token.kind == "end":
            self.wrong("the text ends within a statement", token.line)
        self.position += 1
        return token

    def accept(self, text: str) -> bool:
        if self.here.text != text:
            return False
        self.position += 1
        return True

    def expect(self, text: str) -> Token:
        token = self.take()
        if token.text != text:
            self.wrong(f"expected {text!r}, found {token.text!r}", token.line)
        return token

    def name(self) -> str:
        token = self.take()
        if token.kind != "word":
            self.wrong(f"expected a name, found {token.text!r}", token.line)
        return token.text

    def integer(self) -> int:
        negative = self.accept("-")
        token = self.take()
        if token.kind != "number" or token.text[:2].lower() in ("0f", "0d") or "." in token.text:
            self.wrong(f"expected an integer, found {token.text!r}", token.line)
        value = int(token.text.rstrip("U"), 0)
        return -value if negative else value

    def integers(self) -> tuple[int, ...]:
        values = [self.integer()]
        while self.accept(","):
            values.append(self.integer())
        return tuple(values)
