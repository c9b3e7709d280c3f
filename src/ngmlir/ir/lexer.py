# SPDX-License-Identifier: Apache-2.0
"""The lexer: one regular expression, one pass, linear time on any input (also on unterminated strings)."""

from __future__ import annotations

import re
from typing import NamedTuple


class Token(NamedTuple):
    """`kind` is one of the group names below, or the punctuation itself, or `end`."""

    kind: str
    text: str
    start: int


# Possessive (`*+`): no backtracking into space or strings, so no character is visited twice.
_SPACE = r"""[ \t\r\n]*+(?://[^\n]*+[ \t\r\n]*+)*+"""
_STRING = r'"[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+"'
_PARTS = rf"""
    (?P<value>%(?:[A-Za-z_$.\-][\w$.\-]*|[0-9]+)(?:\#[0-9]+)?)   # %name, %3#1
  | (?P<bare>[A-Za-z_][\w$.]*)                           # keyword, op name, builtin type
  | (?P<hex>-?0x[0-9A-Fa-f]+(?![\w]))
  | (?P<float>-?[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?)
  | (?P<integer>-?[0-9]+)
  | (?P<string>{_STRING})
  | (?P<symbol>@(?:[A-Za-z_][\w$.\-]*|{_STRING}))
  | (?P<label>\^[\w$.\-]+)
  | (?P<alias>[\#!][A-Za-z_][\w$.]*)                     # #ng.axes, !tile.token
  | (?P<punctuation>->|::|[()\[\]{{}}<>,:=?*+\-/|;])
  | (?P<odd>[^ \t\r\n"])                                 # what only the text of other dialects has
    """
#: A whole shaped type is one token, so that a repeated type is looked up, not parsed again; unless it contains an arrow.
_WITHIN = r"""[^<>"\n\-]*+(?:-(?!>)[^<>"\n\-]*+)*+"""
_SHAPED = rf"""(?P<shaped>\b(?:tensor|vector|memref)<{_WITHIN}(?:<{_WITHIN}>{_WITHIN})?>) | """
_TOKEN = re.compile(f"{_SPACE}(?:{_SHAPED}{_PARTS}|(?P<end>\\Z))", re.VERBOSE)
_PART = re.compile(f"{_SPACE}(?:{_PARTS}|(?P<end>\\Z))", re.VERBOSE)


#: Lone surrogates, which no file can contain; U+DC80 to U+DCFF represent bytes of strings.
_ALONE = re.compile("[\ud800-\udc7f\udd00-\udfff]")


def tokenize(text: str, end: int) -> tuple[list[Token], str]:
    """All tokens up to `end` and a last one of kind `end`. At a string that is not closed or an invalid character the tokens end,
    and the complaint is the reason."""
    alone = None if text.isascii() else _ALONE.search(text, 0, end)
    if alone is None:
        return _tokens(_TOKEN, text, 0, end)
    tokens, complaint = _tokens(_TOKEN, text, 0, alone.start())
    return tokens, complaint or f"{alone[0]!r} is an incomplete UTF-16 surrogate pair"


def tokenize_type(text: str, start: int, end: int) -> tuple[list[Token], str]:
    """The tokens inside a `shaped` token, with their offsets in the whole text."""
    return _tokens(_PART, text, start, end)


def _tokens(pattern: re.Pattern[str], text: str, at: int, end: int) -> tuple[list[Token], str]:
    tokens: list[Token] = []
    add = tokens.append
    for found in pattern.finditer(text, at, end):
        if found.start() != at:
            break  # the search skipped characters that start no token
        kind = found.lastgroup
        assert kind is not None
        spelled = found[kind]
        at = found.end()
        add(Token(spelled if kind == "punctuation" else kind, spelled, at - len(spelled)))
        if kind == "end":
            return tokens, ""
    space = re.compile(_SPACE).match(text, at, end)
    at = space.end() if space else at
    add(Token("end", "", at))
    return tokens, "string is not closed on its line"


def unexpected(character: str) -> str:
    """The message for a character that starts no token."""
    if character in "%@^#!":
        return f"expected a name after '{character}'"
    return f"unexpected character {character!r}"


def unquote(text: str) -> str:
    """The string that a string literal (with its quotes) represents."""
    body = text[1:-1]
    if "\\" not in body:
        return body
    plain = body.encode("utf-8", "surrogateescape")
    return _ESCAPE.sub(_unescaped, plain).decode("utf-8", "surrogateescape")


_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)


def _unescaped(found: re.Match[bytes]) -> bytes:
    code = found[1]
    return bytes.fromhex(code.decode()) if len(code) == 2 else {b"n": b"\n", b"t": b"\t"}.get(code, code)
