# SPDX-License-Identifier: Apache-2.0
"""The `form` line of a dialect file: the parts of an op's text between its name and its regions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_ARGUMENTS = re.compile(r"%(\w+)(?:(:)?=\$(\w+))?\Z")
_TYPE = re.compile(r"type\(\$(\w+)\)\Z")


class Part(NamedTuple):
    """One part of a form, by its `kind`:

    word        `text` itself
    value       the operands, or the attribute, with the name `text`: `$text`
    arguments   new names for arguments of the op's regions: `%text=$start` if their initial values are the operands `start`,
                `%text:=$start` if they also state their type, `%text` for one index
    dictionary  all attributes that the form does not show: `attr-dict`
    types       the types of the operands or results `text`: `type($text)`
    group       `parts`, omitted if they are empty: `{ word ... }`
    """

    kind: str
    text: str = ""
    start: str = ""
    typed: bool = False
    parts: tuple[Part, ...] = ()


def read_form(form: Sequence[str]) -> tuple[Part, ...]:
    """Parses a form; ValueError with the reason if it is not valid."""
    words = list(reversed(form))
    parts = _parts(words)
    if words:
        raise ValueError("the form has a '}' too many")
    return parts


def named(parts: Sequence[Part]) -> list[Part]:
    """All parts, including those in groups."""
    return [inner for part in parts for inner in ([part, *named(part.parts)])]


def _parts(words: list[str]) -> tuple[Part, ...]:
    parts: list[Part] = []
    while words and words[-1] != "}":
        word = words.pop()
        if word == "{":
            inner = _parts(words)
            if not words or not inner or inner[0].kind != "word":
                raise ValueError("a group of a form begins with a word, as in '{ step $step }'")
            words.pop()
            parts.append(Part("group", parts=inner))
        elif word == "attr-dict":
            parts.append(Part("dictionary"))
        elif found := _ARGUMENTS.match(word):
            parts.append(Part("arguments", found[1], found[3] or "", bool(found[2])))
        elif word.startswith("$"):
            parts.append(Part("value", word[1:]))
        elif found := _TYPE.match(word):
            parts.append(Part("types", found[1]))
        else:
            parts.append(Part("word", word))
    return tuple(parts)
