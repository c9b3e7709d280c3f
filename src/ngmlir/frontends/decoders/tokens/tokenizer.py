# SPDX-License-Identifier: Apache-2.0
"""What all tokenizers share: a vocabulary, special tokens, and bytes that become text when a character is whole."""

from __future__ import annotations

import codecs
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ....support.diagnostics import UserError


@dataclass(frozen=True)
class Vocabulary:
    """Tokens by number. `control` tokens are commands to a model (the end of a turn), `added` ones are text that is always one
    token. `begin` and `end` are put before and after a text where `add_begin` and `add_end` say so. `stops` end an
    answer. `strips_left` and `strips_right` also remove adjacent spaces."""

    tokens: Sequence[str]
    control: frozenset[int] = frozenset()
    added: frozenset[int] = frozenset()
    begin: int | None = None
    end: int | None = None
    add_begin: bool = False
    add_end: bool = False
    stops: frozenset[int] = frozenset()
    unknown: int | None = None
    strips_left: frozenset[int] = field(default=frozenset())
    strips_right: frozenset[int] = field(default=frozenset())

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """The numbers of tokens; of several of one text, the first."""
        return {token: i for i, token in reversed([*enumerate(self.tokens)])}

    def __len__(self) -> int:
        return len(self.tokens)


class Tokenizer(ABC):
    """Text to tokens and back. `after_special`: whether text after a special token begins as at the beginning."""

    def __init__(self, vocabulary: Vocabulary, after_special: bool = True):
        self.vocabulary, self.after_special = vocabulary, after_special

    @abstractmethod
    def pieces(self, text: str, first: bool) -> list[int]:
        """The tokens of text without special ones; `first` at the beginning, or after a special token."""

    @abstractmethod
    def bytes_of(self, token: int) -> bytes:
        """What a token that is not special stands for."""

    def encode(self, text: str, *, special: bool = True, begin: bool | None = None) -> list[int]:
        """The tokens of a text.

        Args:
            text: any text.
            special: whether the text of a control token, such as `</s>`, is that token; else it is text.
            begin: whether the token that begins a text comes first; by default as the model says.
        """
        known = self.vocabulary
        made: list[int] = []
        for part in self._parts(text, special):
            made += [part] if isinstance(part, int) else self.pieces(part, self._is_first(made))
        wanted = known.add_begin if begin is None else begin
        if wanted and known.begin is not None:
            made.insert(0, known.begin)
        if known.add_end and known.end is not None and begin is None:
            made.append(known.end)
        return made

    def _is_first(self, made: Sequence[int]) -> bool:
        known = self.vocabulary
        return not made or (self.after_special and made[-1] in known.control | known.added)

    def _parts(self, text: str, special: bool) -> Iterable[int | str]:
        """Text in turns with special tokens."""
        known, at = self.vocabulary, 0
        pattern = self._with_control if special else self._with_added
        strip = False
        for match in pattern.finditer(text) if pattern is not None else ():
            number = known.numbers[match[0]]
            before = text[at : match.start()]
            before = before.lstrip() if strip else before
            if before := before.rstrip() if number in known.strips_left else before:
                yield before
            yield number
            at, strip = match.end(), number in known.strips_right
        if rest := text[at:].lstrip() if strip else text[at:]:
            yield rest

    @cached_property
    def _with_control(self) -> re.Pattern[str] | None:
        return self._pattern(self.vocabulary.added | self.vocabulary.control)

    @cached_property
    def _with_added(self) -> re.Pattern[str] | None:
        return self._pattern(self.vocabulary.added)

    def _pattern(self, numbers: frozenset[int]) -> re.Pattern[str] | None:
        texts = sorted({self.vocabulary.tokens[i] for i in numbers} - {""}, key=lambda t: (-len(t), t))
        return re.compile("|".join(map(re.escape, texts))) if texts else None

    def decode(self, tokens: Iterable[int], *, special: bool = False) -> str:
        """The text of tokens; bytes that are no text become U+FFFD. Control tokens are left out, unless `special` says otherwise.

        UserError for a number that is no token.
        """
        decoding = Decoding(self, special)
        return "".join([*(decoding.push(token) for token in tokens), decoding.rest()])

    def text_bytes(self, token: int, special: bool) -> bytes:
        """The bytes of any token."""
        known = self.vocabulary
        if not 0 <= token < len(known):
            raise UserError(f"{token} is no token", hint=f"tokens are 0 to {len(known) - 1}")
        if token in known.control:
            return known.tokens[token].encode("utf-8", errors="replace") if special else b""
        if token in known.added:
            return known.tokens[token].encode("utf-8", errors="replace")
        return self.bytes_of(token)


class Decoding:
    """Tokens that come one by one, as text: characters appear when all their bytes are there."""

    def __init__(self, tokenizer: Tokenizer, special: bool = False):
        self.tokenizer, self.special = tokenizer, special
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token: int) -> str:
        return self._decoder.decode(self.tokenizer.text_bytes(token, self.special))

    def rest(self) -> str:
        """What is left where no more tokens come."""
        return self._decoder.decode(b"", final=True)
