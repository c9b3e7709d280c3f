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

_QWEN35 = _QWEN2.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")
_SEED_CODER = _QWEN2.replace(r" ?[^\s\p{L}\p{N}]+[\r\n]*", r" ?[^\s\p{L}\p{N}\r\n]+")
_BAILING = _QWEN2.replace(r"\s*[\r\n]+", r"\s*[\r\n]")
_CHINESE = r"[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
#: Letters with upper and lower case, of those blocks that the tokenizer of DeepSeek LLM knows.
_CASED = (
    r"(?:(?![\u0560-\u0588\u10c7-\u10ff\u1c80-\u1c88\u2d00-\u2d2d\ua790-\ua7fa\uab30-\uab68"
    r"\U00010570-\U000105bc\U00016e40-\U00016e7f\U0001d400-\U0001d7cb\U0001df00-\U0001df1e])[\p{Lu}\p{Ll}\p{Lt}])+"
)
_DEEPSEEK_LLM = (
    r"[\r\n]",
    rf"\s?{_CASED}",
    r"\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
    r"\s+$",
    _CHINESE,
    r"\p{N}+",
)
_DEEPSEEK3 = (
    r"\p{N}{1,3}",
    r"[\u4e00-\u9fa5\u3040-\u30ff]+",
    r"[!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)
#: Words of scripts that put no spaces between their sentences: to the next of these signs.
_SENTENCES = r" ?[^(\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"

_KINDS: Sequence[tuple[str, Sequence[str]]] = (
    ("gpt-2 phi-2 olmo mpt jais gigachat a.x-4.0 mellum trillion granite-docling exaone4", (GPT2,)),
    (
        "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 dbrx smaug-bpe chatglm-bpe glm4",
        (_LLAMA3,),
    ),
    ("qwen2 deepseek-r1-qwen stablelm2 megrez hunyuan solar-open kormo grok-2", (_QWEN2,)),
    ("qwen35", (_QWEN35,)),
    ("smollm starcoder refact command-r codeshell exaone minerva-7b mellum2", (r"\p{N}", GPT2)),
    ("deepseek-llm", _DEEPSEEK_LLM),
    ("deepseek-coder", (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CHINESE, r"\p{N}")),
    ("deepseek-v3 hunyuan-dense joyai-llm", _DEEPSEEK3),
    ("falcon", (r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]")),
    ("tekken", (_TEKKEN,)),
    ("gpt-4o llama4 kanana2 minimax-m2", (_GPT4O,)),
    ("seed-coder", (_SEED_CODER,)),
    ("bailingmoe bailingmoe2 llada-moe", (_BAILING,)),
    ("bloom poro-chat gpt3-finnish", (_SENTENCES,)),
    ("viking", (_SENTENCES, r"\p{N}")),
    ("default", (r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]")),
)
#: Patterns that are applied one after the other, by the value of `tokenizer.ggml.pre`.
KINDS: Mapping[str, Sequence[str]] = {name: how for names, how in _KINDS for name in names.split()}


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
