# SPDX-License-Identifier: Apache-2.0
"""Choosing the next token from logits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite

import numpy as np

from ...support.diagnostics import UserError


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen. Applied in this order:

    - `repetition_penalty`: logits of tokens that were seen are divided by it where they are positive, else multiplied (1: not).
    - `temperature`: logits are divided by it. With 0 the token of the greatest logit is chosen, of several the first.
    - `top_k`: only the k tokens of the greatest logits stay (0: all).
    - `top_p`: only the most probable tokens stay that together have this probability (1: all).
    - `min_p`: only tokens stay that are at least so probable in comparison with the most probable one (0: all).

    One of the tokens that stay is drawn by its probability, from the numbers of `seed` (None: others in each run).
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None

    def check(self) -> None:
        """UserError for numbers out of range."""
        ranges = {
            "temperature": (self.temperature >= 0, "0 or more"),
            "top_k": (self.top_k >= 0 and self.top_k == int(self.top_k), "a whole number, 0 or more"),
            "top_p": (0 < self.top_p <= 1, "more than 0, at most 1"),
            "min_p": (0 <= self.min_p <= 1, "0 to 1"),
            "repetition_penalty": (self.repetition_penalty > 0, "more than 0"),
        }
        for name, (right, wanted) in ranges.items():
            number = getattr(self, name)
            if not right or not isfinite(number):
                raise UserError(f"{name} is {number}", hint=wanted)
        if self.seed is not None and self.seed < 0:
            raise UserError(f"seed is {self.seed}", hint="0 or more")


class Sampler:
    """Chooses tokens one after the other: `seen` are those that count as repeated."""

    def __init__(self, how: Sampling, seen: Iterable[int] = ()):
        how.check()
        self.how = how
        self.seen = {*seen}
        self._random = np.random.default_rng(how.seed)

    def choose(self, logits: np.ndarray) -> int:
        """The next token, by logits [vocabulary]. UserError where there is none to choose: all are NaN or infinite."""
        token = self._chosen(logits)
        self.seen.add(token)
        return token

    def _chosen(self, logits: np.ndarray) -> int:
        how = self.how
        if np.isnan(logits).any() or not np.isfinite(logits.max()):
            raise UserError(
                "the model gives logits that are NaN or infinite",
                hint="its weights are damaged, or too large for f32",
            )
        scores = logits.astype(np.float64)
        if how.repetition_penalty != 1.0 and self.seen:
            at = np.fromiter(self.seen, np.int64)
            found = scores[at]
            scores[at] = np.where(found > 0, found / how.repetition_penalty, found * how.repetition_penalty)
        if how.temperature == 0:
            return int(scores.argmax())
        tokens, shares = self.distribution(scores)
        place = np.searchsorted(np.cumsum(shares), self._random.random(), side="right")
        return int(tokens[min(int(place), len(tokens) - 1)])

    def distribution(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The tokens that stay, the most probable first, and their probabilities, by logits after the penalty."""
        how = self.how
        scaled = scores / how.temperature
        tokens = np.argsort(-scaled, kind="stable")
        tokens = tokens[: how.top_k] if how.top_k else tokens
        shares = np.exp(scaled[tokens] - scaled[tokens[0]])
        shares /= shares.sum()
        if how.top_p < 1:
            # Those stay before which less than the wanted probability is reached.
            count = int((np.cumsum(shares) - shares < how.top_p).sum())
            tokens, shares = tokens[:count], shares[:count]
        if how.min_p > 0:
            stays = shares >= how.min_p * shares[0]
            tokens, shares = tokens[stays], shares[stays]
        return tokens, shares / shares.sum()
