# SPDX-License-Identifier: Apache-2.0
"""What a misspelled word was meant to be. Bounded, so that a hint never costs more than the text it is about."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice

#: Comparing two words takes the product of their lengths, so long words and many candidates get no hint.
_LONGEST, _CANDIDATES = 64, 1000
#: A text with more mistakes than this has other worries.
_HINTS = 20


#: Other words for what is known under these.
_MEANT = {"gpu": "cuda", "nvidia": "cuda", "host": "cpu", "x86": "cpu", "cudasim": "cuda-sim", "np": "numpy"}


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that means the same as `word`, or looks most like it, or ''. Only the first thousand are looked at."""
    if len(word) > _LONGEST:
        return ""
    candidates = [k for k in islice(known, _CANDIDATES) if len(k) <= _LONGEST]
    if (meant := _MEANT.get(word.lower())) in candidates:
        return meant
    near = difflib.get_close_matches(word, candidates, 4)
    # Of those that look alike as much, the one that begins alike.
    return max(near, key=lambda k: _likeness(word, k), default="")


def _likeness(word: str, known: str) -> tuple[float, int]:
    alike = (i for i, (a, b) in enumerate(zip(word, known)) if a != b)
    return difflib.SequenceMatcher(None, known, word).ratio(), next(alike, len(word))


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """A hint with the known word that looks most like `word`; `otherwise` where none does."""
    near = nearest(word, known)
    return f"did you mean {near}?" if near else otherwise


def counted(count: int, kind: str) -> str:
    """A number of things in words: `1 value`, `3 values`, `2 axes`, `4 classes`."""
    if count == 1:
        return f"1 {kind}"
    stem, ending = (kind[:-2], "es") if kind.endswith("is") else (kind, "es" if kind.endswith("s") else "s")
    return f"{count} {stem}{ending}"


class Hints:
    """The hints about one text or program: its first mistakes get them."""

    def __init__(self) -> None:
        self.left = _HINTS

    def did_you_mean(self, word: str, known: Iterable[str], otherwise: str = "") -> str:
        """As the function of this name, some times; then always `otherwise`."""
        if self.left == 0:
            return otherwise
        self.left -= 1
        return did_you_mean(word, known, otherwise)
