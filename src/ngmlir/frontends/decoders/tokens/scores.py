# SPDX-License-Identifier: Apache-2.0
"""Tokenizers by scores, as of SentencePiece: of two neighbours that make a token, those are merged first whose token has the highest
score. Characters without a token are bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from .merging import merged
from .tokenizer import Tokenizer, Vocabulary

#: The character for a space in tokens.
SPACE = "\u2581"
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class ScoreTokenizer(Tokenizer):
    """`scores` by token; `prefix`: whether a space is put before text that begins, or follows a special token; `hidden` tokens
    are never what text becomes."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        scores: Sequence[float],
        *,
        prefix: bool = True,
        hidden: Iterable[int] = (),
    ):
        super().__init__(vocabulary)
        self.prefix = prefix
        self._bytes = bytes_of(vocabulary.tokens)
        aside = {*hidden, *self._bytes.values(), *vocabulary.control}
        self._known = {t: i for t, i in vocabulary.numbers.items() if i not in aside}
        self._scores = scores

    def pieces(self, text: str, first: bool) -> list[int]:
        if self.prefix and first:
            text = " " + text
        made: list[int] = []
        for piece in merged([*text.replace(" ", SPACE)], self._rank):
            found = self._known.get(piece)
            if found is not None:
                made.append(found)
                continue
            made += as_bytes(piece, self._bytes, self.vocabulary.unknown)
        return made

    def _rank(self, left: str, right: str) -> float | None:
        found = self._known.get(left + right)
        return None if found is None else -float(self._scores[found])

    def bytes_of(self, token: int) -> bytes:
        return piece_bytes(self.vocabulary.tokens[token])

    def decode(self, tokens: Iterable[int], *, special: bool = False) -> str:
        made = super().decode(tokens, special=special)
        return made[1:] if self.prefix and made.startswith(" ") else made


def bytes_of(tokens: Sequence[str]) -> dict[int, int]:
    """The tokens that stand for a byte each, such as `<0x0A>`."""
    return {int(match[1], 16): i for i, token in enumerate(tokens) if (match := _BYTE.fullmatch(token))}


def as_bytes(piece: str, known: dict[int, int], unknown: int | None) -> list[int]:
    """The tokens of the bytes of text that has no token; the unknown token where there are none of bytes."""
    raw = piece.encode("utf-8", errors="replace")
    if all(byte in known for byte in raw):
        return [known[byte] for byte in raw]
    return [] if unknown is None else [unknown]


def piece_bytes(token: str) -> bytes:
    """What a token with `SPACE` for spaces stands for."""
    match = _BYTE.fullmatch(token)
    if match:
        return bytes([int(match[1], 16)])
    return token.replace(SPACE, " ").encode("utf-8", errors="replace")
