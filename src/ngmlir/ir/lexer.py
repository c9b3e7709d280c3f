# SPDX-License-Identifier: Apache-2.0
"""Text to tokens: one regular expression, one pass, linear time on any input (also on unterminated strings)."""

from __future__ import annotations

import re
from typing import NamedTuple

from ..support.diagnostics import Location, UserError


class Token(NamedTuple):
    """`kind` is one of the group names below, or the punctuation itself, or `end`."""

    kind: str
    text: str
    start: int


_SPACE = r"""[ \t\r\n]*(?://[^\n]*[ \t\r\n]*)*"""
_PARTS = r"""
    (?P<value>%(?:[A-Za-z_$.\-][\w$.\-]*|[0-9]+)(?:\#[0-9]+)?)   # %name, %3#1
  | (?P<bare>[A-Za-z_][\w$.]*)                           # keyword, op name, builtin type
  | (?P<hex>0x[0-9A-Fa-f]+(?![\w]))
  | (?P<float>-?[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?)
  | (?P<integer>-?[0-9]+)
  | (?P<string>"(?:[^"\\\n]|\\[^\n])*")
  | (?P<symbol>@(?:[A-Za-z_][\w$.\-]*|"(?:[^"\\\n]|\\[^\n])*"))
  | (?P<label>\^[\w$.\-]+)
  | (?P<alias>[\#!][A-Za-z_][\w$.]*)                     # #ng.axes, !tile.token
  | (?P<punctuation>->|::|[()\[\]{}<>,:=?*+\-/|;])
    """
#: A whole shaped type is one token, so that a type met again is looked up, not read again.
_SHAPED = r"""(?P<shaped>\b(?:tensor|vector|memref)<[^<>"\n]*(?:<[^<>"\n]*>[^<>"\n]*)?>) | """
_TOKEN = re.compile(f"{_SPACE}(?:{_SHAPED}{_PARTS}|(?P<end>\\Z))", re.VERBOSE)
_PART = re.compile(f"{_SPACE}(?:{_PARTS}|(?P<end>\\Z))", re.VERBOSE)


def location_at(text: str, file: str, offset: int) -> Location:
    """Line and column (both from 1, columns in characters) of an offset."""
    before = text.rfind("\n", 0, offset)
    return Location(file, text.count("\n", 0, offset) + 1, offset - before)


def tokenize(text: str, file: str) -> list[Token]:
    """All tokens and a last one of kind `end`; UserError at the first character that starts none."""
    return _tokens(_TOKEN, text, file, 0, len(text))


def tokenize_type(text: str, file: str, start: int, end: int) -> list[Token]:
    """The tokens inside a `shaped` token, placed as in the whole text."""
    return _tokens(_PART, text, file, start, end)


def _tokens(pattern: re.Pattern[str], text: str, file: str, at: int, end: int) -> list[Token]:
    tokens: list[Token] = []
    add = tokens.append
    for found in pattern.finditer(text, at, end):
        if found.start() != at:
            break  # the search went over something that starts no token
        kind = found.lastgroup
        assert kind is not None
        spelled = found[kind]
        at = found.end()
        add(Token(spelled if kind == "punctuation" else kind, spelled, at - len(spelled)))
        if kind == "end":
            return tokens
    space = re.compile(_SPACE).match(text, at, end)
    at = space.end() if space else at
    raise UserError(_complaint(text, at), location_at(text, file, at), source=text)


def _complaint(text: str, at: int) -> str:
    character = text[at]
    if character == '"':
        return "string is not closed on its line"
    if character in "%@^#!":
        return f"expected a name after '{character}'"
    return f"unexpected character {character!r}"


def unquote(text: str) -> str:
    """The string that a string literal (with its quotes) stands for."""
    body = text[1:-1]
    if "\\" not in body:
        return body
    out, at = bytearray(), 0
    while at < len(body):
        if body[at] != "\\":
            out += body[at].encode("utf-8", "surrogateescape")
            at += 1
        elif re.match(r"[0-9A-Fa-f]{2}", body[at + 1 : at + 3]):
            out.append(int(body[at + 1 : at + 3], 16))
            at += 3
        else:
            out += {"n": b"\n", "t": b"\t"}.get(body[at + 1], body[at + 1].encode("utf-8"))
            at += 2
    return out.decode("utf-8", "surrogateescape")
