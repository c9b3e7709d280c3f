# SPDX-License-Identifier: Apache-2.0
"""Splitting text into words, as tokenizers do before they merge bytes: patterns with classes of characters (`\\p{L}`) that `re` lacks."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache

from ....support.diagnostics import Limit

#: The characters of White_Space: `\\s` of `re` has four more.
_SPACES = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_ENDINGS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = (
    _ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
_WORDS = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+(ENDINGS)?|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*(ENDINGS)?"
)
_TEKKEN = _WORDS.replace("(ENDINGS)?", "") + r"|\p{N}" + _REST
_GPT4O = _WORDS.replace("(ENDINGS)", _ENDINGS) + r"|\p{N}{1,3}" + _REST

#: Patterns that are applied one after the other, by the value of `tokenizer.ggml.pre`.
KINDS: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("gpt-2", "phi-2", "olmo", "mpt"), (GPT2,)),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "falcon3", "dbrx", "smaug-bpe"), (_LLAMA3,)),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "stablelm2", "megrez"), (_QWEN2,)),
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell"), (r"\p{N}", GPT2)),
    "tekken": (_TEKKEN,),
    "gpt-4o": (_GPT4O,),
    "default": (r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"),
}


def kind_of(name: str) -> Sequence[str]:
    """The patterns of a kind. Limit for one that is not known."""
    found = KINDS.get(name)
    if found is None:
        raise Limit(
            f"text is split into words by the method {name!r}, which is not supported",
            hint=f"supported methods: {', '.join(KINDS)}",
        )
    return found


def words(text: str, patterns: Sequence[str]) -> list[str]:
    """Splits text into words: the matches of a pattern, and the text between them, are words, which the next pattern splits further."""
    found = [text]
    for pattern in patterns:
        found = [part for word in found for part in _split(compiled(pattern), word)]
    return found


def _split(pattern: re.Pattern[str], text: str) -> list[str]:
    made: list[str] = []
    at = 0
    for match in pattern.finditer(text):
        start, stop = match.span()
        made += [text[at:start], text[start:stop]]
        at = stop
    return [part for part in (*made, text[at:]) if part]


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern with `\\p{...}`, `\\s` and `\\S` spelled out."""
    return re.compile(_spelled(pattern))


def _spelled(pattern: str) -> str:
    made: list[str] = []
    at, inside = 0, False
    while at < len(pattern):
        found = _CLASS.match(pattern, at)
        if found is None:
            letter = pattern[at]
            if letter == "[" and not inside:
                inside = True
            elif letter == "]":
                inside = False
            step = 2 if letter == "\\" else 1
            made.append(pattern[at : at + step])
            at += step
            continue
        name, negative = found[1], found[0] in ("\\S",) or found[0].startswith("\\P")
        ranges = _ranges(name) if name else _SPACES
        if inside and negative:
            raise Limit(f"the pattern {pattern!r} of a tokenizer is not supported: {found[0]} in brackets")
        made.append(ranges if inside else f"[{'^' if negative else ''}{ranges}]")
        at = found.end()
    return "".join(made)


_CLASS = re.compile(r"\\[pP]\{(\w+)\}|\\[sS]")


@cache
def _ranges(category: str) -> str:
    """The characters of a general category, or of all that begin with its letter, as the contents of a bracket expression."""
    made: list[str] = []
    for first, last in _runs():
        if _category(first).startswith(category):
            made.append(f"{_quoted(first)}-{_quoted(last)}")
    if not made:
        raise Limit(f"the class \\p{{{category}}} in the pattern of a tokenizer is not supported")
    return "".join(made)


def _category(code: int) -> str:
    return unicodedata.category(chr(code))


def _quoted(code: int) -> str:
    return f"\\U{code:08x}"


@cache
def _runs() -> list[tuple[int, int]]:
    """All characters in runs of one category."""
    made: list[tuple[int, int]] = []
    start, category = 0, _category(0)
    for code in range(1, sys.maxunicode + 1):
        if (other := _category(code)) != category:
            made.append((start, code - 1))
            start, category = code, other
    return [*made, (start, sys.maxunicode)]
