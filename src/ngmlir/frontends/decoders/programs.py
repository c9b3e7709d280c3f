# SPDX-License-Identifier: Apache-2.0
"""The programs of a decoder for a number of sequences: one for a token each, and one for any number of them; both for caches of any
length."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import RLock
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...runtime.threads import using_threads
from .build import FEEDS, Sizes, decoder
from .cache import Cache
from .config import DecoderConfig, DecoderWeights

if TYPE_CHECKING:
    from ...ir.core import Module
    from ...runtime.cpu import CpuExecutable
    from ...runtime.open_cpu import OpenCpu

#: `one`: a token of each sequence; `many`: several, and logits of one of them; `all`: several, and logits of all.
Kind = Literal["one", "many", "all"]
#: About how many tokens and rows there are: what schedules are chosen for.
_USUAL = {"tokens": 64, "rows": 512}
#: Tokens with which a call is filled up, at most.
_FILLED = 64


class Programs:
    """Compiles each program when it is first needed. They share what is prepared of weights."""

    def __init__(
        self, config: DecoderConfig, weights: DecoderWeights, sequences: int, threads: int | None = None
    ):
        self.config, self.weights, self.sequences, self.threads = config, weights, sequences, threads
        self._made: dict[Kind, OpenCpu] = {}
        self._lock = RLock()
        #: How many programs were compiled.
        self.compiled = 0
        self._bound: tuple[Any, ...] = ()

    def module(self, kind: Kind, lengths: Mapping[str, int]) -> Module:
        """The function of a program, for caches of `rows` rows and (not of kind `one`) calls of `tokens` tokens."""
        tokens = 1 if kind == "one" else lengths["tokens"]
        wanted = tokens if kind == "all" else 1
        return decoder(self.config, self.weights, Sizes(self.sequences, tokens, lengths["rows"], wanted))

    def code(self, kind: Kind) -> OpenCpu:
        """The program of a kind, compiled when it is first asked for."""
        with self._lock:
            if kind not in self._made:
                self._made[kind] = self._compiled(kind)
            return self._made[kind]

    def _compiled(self, kind: Kind) -> OpenCpu:
        from ...compiler import (  # the compiler is loaded with the first program
            compile_artifact,
            compile_open,
        )
        from ...runtime.cpu import load

        def otherwise(lengths: Mapping[str, int]) -> CpuExecutable:
            """For lengths that the code is not right for."""
            self.compiled += 1
            with using_threads(self.threads):
                return load(compile_artifact(self.module(kind, lengths), "cpu"))

        usual = {name: length for name, length in _USUAL.items() if kind != "one" or name != "tokens"}
        with using_threads(self.threads):
            made = compile_open(lambda lengths: self.module(kind, lengths), usual)
        made.otherwise = otherwise
        self.compiled += 1
        return made

    def size(self, kind: Kind, tokens: int, rows: int) -> int:
        """The least number of tokens, from `tokens` on, for which the code of a kind is right: calls of fewer are filled up."""
        if kind == "one":
            return 1
        code = self.code(kind)
        sizes = range(tokens, tokens + _FILLED)
        return next((n for n in sizes if code.serves({"tokens": n, "rows": rows})), tokens)

    def run(
        self,
        kind: Kind,
        tokens: np.ndarray,
        positions: np.ndarray,
        rows: np.ndarray,
        wanted: np.ndarray,
        cache: Cache,
    ) -> np.ndarray:
        """The logits of a call, whose keys and values are put into the cache."""
        key = (kind, tokens.shape[1], cache.arrays[0])
        known = len(self._bound) and self._bound[0] == key[:2] and self._bound[1] is key[2]
        if not known:
            self._bound = key[:2], key[2], self._bind(kind, tokens.shape[1], cache)
        run: Callable[..., tuple[np.ndarray, ...]] = self._bound[2]
        return run(tokens, positions, rows, wanted)[0]

    def _bind(self, kind: Kind, tokens: int, cache: Cache) -> Callable[..., tuple[np.ndarray, ...]]:
        lengths = {"rows": cache.rows} if kind == "one" else {"rows": cache.rows, "tokens": tokens}
        bound = {len(FEEDS) - 1: cache.held, **dict(enumerate(cache.arrays, len(FEEDS)))}
        return self.code(kind).at(lengths).bind(bound)
