# SPDX-License-Identifier: Apache-2.0
"""Numbers that follow from lengths, in text: `4*N + 1`, `(N + 15) floordiv 16`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .lengths import Length


class UsualLengths(dict[str, int]):
    """What lengths are compiled with of which only the names are known: numbers that no other size has by chance."""

    PRIMES = (1009, 499, 751, 347, 881, 269, 619, 199)

    def __missing__(self, name: str) -> int:
        number, more = len(self) % len(self.PRIMES), len(self) // len(self.PRIMES)
        self[name] = self.PRIMES[number] + 1024 * more
        return self[name]


_TOKEN = re.compile(r"\s*(floordiv\b|[A-Za-z_][\w.]*|[0-9]+|[()+*-])")


def parse(text: str, lengths: Mapping[str, int]) -> int:
    """The integer that `[text]` spells, for lengths of these values. ValueError where it is none; KeyError for a length without a value."""
    tokens: list[str] = []
    at = 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(text)
        tokens.append(found[1])
        at = found.end()
    reader = _Reader(tokens, lengths)
    value = reader.sum()
    if reader.at != len(tokens):
        raise ValueError(text)
    return value


class _Reader:
    def __init__(self, tokens: list[str], lengths: Mapping[str, int]):
        self.tokens, self.lengths, self.at = tokens, lengths, 0

    def accept(self, *wanted: str) -> str | None:
        if self.at < len(self.tokens) and self.tokens[self.at] in wanted:
            self.at += 1
            return self.tokens[self.at - 1]
        return None

    def sum(self) -> int:
        total = -self.product() if self.accept("-") else self.product()
        while sign := self.accept("+", "-"):
            total = total + self.product() if sign == "+" else total - self.product()
        return total

    def product(self) -> int:
        value = self.atom()
        while word := self.accept("*", "floordiv"):
            value = value * self.atom() if word == "*" else value // self.atom()
        return value

    def atom(self) -> int:
        if self.accept("("):
            value = self.sum()
            if not self.accept(")"):
                raise ValueError("expected ')'")
            return value
        if self.at == len(self.tokens):
            raise ValueError("expected a length or a number")
        token = self.tokens[self.at]
        self.at += 1
        if token.isdigit():
            return int(token)
        if not token[0].isalpha() and token[0] != "_":
            raise ValueError(f"expected a length or a number, not {token!r}")
        known = self.lengths[token]
        return known if isinstance(known, Length) else Length.named(token, known)


def identifier(name: str) -> str:
    """What a length is called in text, of an axis or a dimension of a name."""
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)
    return plain if plain[:1].isalpha() else f"n{plain}"
