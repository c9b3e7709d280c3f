# SPDX-License-Identifier: Apache-2.0
"""What a misspelled word was meant to be. Bounded, so that a hint never costs more than the text it is about."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice

#: Comparing two words takes the product of their lengths, so long words and many candidates get no hint.
_LONGEST, _CANDIDATES = 64, 1000


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that looks most like `word`, or ''. Only the first thousand are looked at."""
    if len(word) > _LONGEST:
        return ""
    candidates = [k for k in islice(known, _CANDIDATES) if len(k) <= _LONGEST]
    return next(iter(difflib.get_close_matches(word, candidates, 1)), "")


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """A hint with the known word that looks most like `word`; `otherwise` where none does."""
    near = nearest(word, known)
    return f"did you mean {near}?" if near else otherwise
