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


_TOKEN = re.compile(
    r"""
    [ \t\r\n]+ | //[^\n]*                                # nothing
  | (?P<value>%(?:[A-Za-z_$.\-][\w$.\-]*|[0-9]+)(?:\#[0-9]+)?)   # %name, %3#1
  | (?P<bare>[A-Za-z_][\w$.]*)                           # keyword, op name, builtin type
  | (?P<hex>0x[0-9A-Fa-f]+(?![\w]))
  | (?P<float>-?[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?)
  | (?P<integer>-?[0-9]+)
  | (?P<string>"(?:[^"\\\n]|\\[^\n])*")
  | (?P<symbol>@(?:[A-Za-z_][\w$.\-]*|"(?:[^"\\\n]|\\[^\n])*"))
  | (?P<label>\^[\w$.\-]+)
  | (?P<alias>[\#!][A-Za-z_][\w$.]*)                     # #ng.axes, !tile.token
  | (?P<punctuation>->|::|[()\[\]{}<>,:=?*+\-/|;])
    """,
    re.VERBOSE,
)


def location_at(text: str, file: str, offset: int) -> Location:
    """Line and column (both from 1, columns in characters) of an offset."""
    before = text.rfind("\n", 0, offset)
    return Location(file, text.count("\n", 0, offset) + 1, offset - before)


def tokenize(text: str, file: str) -> list[Token]:
    """All tokens and a last one of kind `end`; UserError at the first character that starts none."""
    tokens: list[Token] = []
    add, match, at, end = tokens.append, _TOKEN.match, 0, len(text)
    while at < end:
        found = match(text, at)
        if found is None:
            raise UserError(_complaint(text, at), location_at(text, file, at), source=text)
        kind = found.lastgroup
        if kind is not None:
            spelled = found.group()
            add(Token(spelled if kind == "punctuation" else kind, spelled, at))
        at = found.end()
    add(Token("end", "", end))
    return tokens


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
