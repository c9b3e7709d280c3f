# SPDX-License-Identifier: Apache-2.0
"""What the `form` line of a dialect file says: the parts of an op's text between its name and its regions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_ARGUMENTS = re.compile(r"%(\w+)(?:(:)?=\$(\w+))?\Z")
_TYPE = re.compile(r"type\(\$(\w+)\)\Z")


class Part(NamedTuple):
    """One part of a form. `kind` tells what stands there:

    word        `text` itself
    value       the operands, or the attribute, called `text`: `$text`
    arguments   new names for arguments of the op's regions: `%text=$start` where they begin as the operands `start`,
                `%text:=$start` where they also say their type, `%text` for one index
    dictionary  all attributes that the form does not show: `attr-dict`
    types       the types of the operands or results `text`: `type($text)`
    group       `parts`, left out where they have nothing to say: `{ word ... }`
    """

    kind: str
    text: str = ""
    start: str = ""
    typed: bool = False
    parts: tuple[Part, ...] = ()


def read_form(form: Sequence[str]) -> tuple[Part, ...]:
    """The parts of a form, a word after the other; ValueError with the reason where it is none."""
    words = list(reversed(form))
    parts = _parts(words)
    if words:
        raise ValueError("the form has a '}' too many")
    return parts


def named(parts: Sequence[Part]) -> list[Part]:
    """All parts, those in groups too."""
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
