# SPDX-License-Identifier: Apache-2.0
"""A run of a decoder: tokens go in, logits come out, and what was seen stays in a cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...support.diagnostics import UserError
from .cache import Cache
from .programs import Key

if TYPE_CHECKING:
    from .programs import Programs


class Session:
    """Some sequences of tokens that grow. `feed` appends tokens and gives the logits of the last one of each sequence.

    A session is for one thread at a time.
    """

    def __init__(self, programs: Programs, context: int):
        self.programs = programs
        self.cache = Cache(programs.config, programs.sequences, context)
        #: The tokens of each sequence.
        self.tokens: list[list[int]] = [[] for _ in range(programs.sequences)]

    @property
    def lengths(self) -> list[int]:
        """How many tokens each sequence has."""
        return [len(each) for each in self.tokens]

    def cut(self, length: int) -> None:
        """Forgets all tokens from a position on, in each sequence."""
        self.cache.cut(length)
        for each in self.tokens:
            del each[length:]

    def feed(self, tokens: Sequence[Sequence[int]] | np.ndarray) -> np.ndarray:
        """Appends tokens, given for each sequence: the logits [sequences, vocabulary] of the last token of each; of a sequence
        that was given none, zeros. Sequences may be given different numbers of tokens; each has to begin with one.

        Raises UserError for numbers that are no tokens, and where the context has no room; then nothing has changed.
        """
        given, counts = self._checked(tokens)
        found = np.zeros((len(given), self.programs.config.vocabulary), np.float32)
        for part, real in self._calls(given, counts):
            last = np.maximum(real - 1, 0)[:, None].astype(np.int32)
            logits = self._run(part, real, last, every=False)[:, 0]
            found[real > 0] = logits[real > 0]
        return found

    def feed_all(self, tokens: Sequence[Sequence[int]] | np.ndarray) -> np.ndarray:
        """As `feed`, with the logits of all tokens: [sequences, tokens, vocabulary], of which those behind a shorter sequence
        say nothing."""
        given, counts = self._checked(tokens)
        found: list[np.ndarray] = []
        for part, real in self._calls(given, counts):
            every = np.broadcast_to(np.arange(part.shape[1], dtype=np.int32), part.shape)
            found.append(self._run(part, real, np.ascontiguousarray(every), every=True))
        return np.concatenate(found, axis=1)

    def check(self, tokens: Sequence[Sequence[int]] | np.ndarray) -> None:
        """Raises what `feed` would raise for these."""
        self._checked(tokens)

    def _calls(self, given: np.ndarray, counts: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The tokens of each call, and how many of each sequence are real."""
        start = 0
        for size in self.programs.call_sizes(given.shape[1]):
            yield np.ascontiguousarray(given[:, start : start + size]), np.clip(counts - start, 0, size)
            start += size

    def _run(self, tokens: np.ndarray, real: np.ndarray, wanted: np.ndarray, *, every: bool) -> np.ndarray:
        """One call: logits of the wanted tokens."""
        cache, count = self.cache, tokens.shape[1]
        cache.room(count)
        rows, positions = cache.take(real, count)
        logits = self.programs.run(Key(count == 1, every), tokens, positions, rows, wanted, cache)
        cache.keep(real, count)
        for own, row, more in zip(self.tokens, tokens, real.tolist(), strict=True):
            own += row[:more].tolist()
        return logits

    def _checked(self, tokens: Sequence[Sequence[int]] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """[sequences, tokens] of the longest, filled up with token 0, and how many are real."""
        sequences, vocabulary = self.programs.sequences, self.programs.config.vocabulary
        lists = [np.asarray(each) for each in tokens]
        if len(lists) != sequences:
            raise UserError(f"tokens of {len(lists)} sequences were given, but the session has {sequences}")
        for number, each in enumerate(lists):
            if each.ndim != 1 or (len(each) and each.dtype.kind not in "iu"):
                raise UserError(f"the tokens of sequence {number} are not a list of whole numbers")
            wrong = each[(each < 0) | (each >= vocabulary)] if len(each) else each
            if len(wrong):
                raise UserError(
                    f"{int(wrong[0])} is no token of the model", hint=f"tokens are 0 to {vocabulary - 1}"
                )
        counts = np.array([len(each) for each in lists], np.int64)
        if not counts.max() or ((counts == 0) & (self.cache.lengths == 0)).any():
            raise UserError("a sequence begins without a token", hint="give at least one token")
        longest = int(counts.max())
        if self.cache.used + longest > self.cache.context:
            raise UserError(
                f"{self.cache.used + longest} tokens are more than the context of {self.cache.context}",
                hint="a shorter prompt, or a larger context (context=, --context)",
            )
        given = np.zeros((sequences, longest), np.int32)
        for row, each in zip(given, lists, strict=True):
            row[: len(each)] = each
        return given, counts
