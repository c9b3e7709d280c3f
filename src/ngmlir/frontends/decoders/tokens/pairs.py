# SPDX-License-Identifier: Apache-2.0
"""Tokenizers by merges (byte-pair encoding): a list says which two neighbours are merged, the first of it first.

Words are split off before that. Most have tokens of bytes, each written as a printable character, as GPT-2 does; others have tokens of
text with a mark for spaces, and tokens of bytes for what has none.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from .merging import merged
from .scores import SPACE, as_bytes, bytes_of, piece_bytes
from .splits import words
from .tokenizer import Tokenizer, Vocabulary


def _byte_letters() -> list[str]:
    """A printable character for each byte: itself where it is one of Latin-1, else one from U+0100 on."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    made = [chr(byte) if byte in plain else "" for byte in range(256)]
    others = iter(range(256, 512))
    return [letter or chr(next(others)) for letter in made]


_LETTERS = _byte_letters()
_BYTES: Mapping[str, int] = {letter: byte for byte, letter in enumerate(_LETTERS)}


class ByteTokenizer(Tokenizer):
    """`ranks` by the two that are merged; `patterns` split words; with `whole` a word that is a token is that token. `composed`:
    text is brought into the normal form NFC before."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        ranks: Mapping[tuple[str, str], int],
        patterns: Sequence[str],
        *,
        whole: bool = False,
        prefix: bool = False,
        composed: bool = False,
    ):
        super().__init__(vocabulary)
        self.ranks, self.patterns, self.whole = ranks, patterns, whole
        self.prefix, self.composed = prefix, composed
        self._word = lru_cache(1 << 16)(self._tokens)

    def pieces(self, text: str, first: bool) -> list[int]:
        if self.composed:
            text = unicodedata.normalize("NFC", text)
        if self.prefix and first and not text.startswith(" "):
            text = " " + text
        return [token for word in words(text, self.patterns) for token in self._word(word)]

    def _tokens(self, word: str) -> list[int]:
        known = self.vocabulary.numbers
        letters = "".join(_LETTERS[byte] for byte in word.encode("utf-8", errors="replace"))
        if self.whole and letters in known:
            return [known[letters]]
        made: list[int] = []
        for piece in merged([*letters], lambda left, right: self.ranks.get((left, right))):
            # A piece without a token is given by the tokens of its letters.
            for part in [piece] if piece in known else [*piece]:
                found = known.get(part, self.vocabulary.unknown)
                made += [] if found is None else [found]
        return made

    def bytes_of(self, token: int) -> bytes:
        text = self.vocabulary.tokens[token]
        if all(letter in _BYTES for letter in text):
            return bytes(_BYTES[letter] for letter in text)
        return text.encode("utf-8", errors="replace")


class TextPairTokenizer(Tokenizer):
    """Merges of characters with `SPACE` for spaces, bytes for what has no token; `prefix` as in `ScoreTokenizer`, with `once` only
    where the text does not begin with a space."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        ranks: Mapping[tuple[str, str], int],
        *,
        prefix: bool = True,
        once: bool = False,
        after_special: bool = True,
    ):
        super().__init__(vocabulary, after_special)
        self.ranks, self.prefix, self.once = ranks, prefix, once
        self._bytes = bytes_of(vocabulary.tokens)

    def pieces(self, text: str, first: bool) -> list[int]:
        known = self.vocabulary.numbers
        text = text.replace(" ", SPACE)
        if self.prefix and first and not (self.once and text.startswith(SPACE)):
            text = SPACE + text
        made: list[int] = []
        for piece in merged([*text], lambda left, right: self.ranks.get((left, right))):
            found = known.get(piece)
            made += [found] if found is not None else as_bytes(piece, self._bytes, self.vocabulary.unknown)
        return made

    def bytes_of(self, token: int) -> bytes:
        return piece_bytes(self.vocabulary.tokens[token])

    def decode(self, tokens: Iterable[int], *, special: bool = False) -> str:
        made = super().decode(tokens, special=special)
        return made[1:] if self.prefix and made.startswith(" ") else made
