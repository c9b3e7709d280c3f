# SPDX-License-Identifier: Apache-2.0
"""The programs of a decoder for a number of sequences: each for calls of so many tokens, and for caches of any length."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from threading import RLock
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...runtime.threads import using_threads
from ...support.collector import collecting_often
from ...support.mapping import mapping_of
from .build import FEEDS, Sizes, decoder
from .cache import Cache
from .config import DecoderConfig, DecoderWeights

if TYPE_CHECKING:
    from ...ir.core import Module
    from ...runtime.cpu import CpuExecutable
    from ...runtime.open_cpu import OpenCpu

#: Tokens of all sequences that a call computes at most.
MOST_TOKENS = 256
#: About how many rows a cache has, and how many tokens of each sequence a call: what schedules are chosen for.
_USUAL = {"rows": 512, "tokens": 128}


class Key(NamedTuple):
    """What a program is for: calls of one token of each sequence or of any number, and logits of the last one or of all."""

    single: bool
    every: bool


class Programs:
    """Compiles each program when it is first needed. They share what is prepared of weights."""

    def __init__(
        self, config: DecoderConfig, weights: DecoderWeights, sequences: int, threads: int | None = None
    ):
        self.config, self.weights, self.sequences, self.threads = config, weights, sequences, threads
        self._made: dict[Key, OpenCpu] = {}
        self._lock = RLock()
        self._bound: _Bound | None = None

    @property
    def compiled(self) -> int:
        """How many programs were compiled."""
        return len(self._made)

    def call_sizes(self, tokens: int) -> Iterator[int]:
        """The numbers of tokens of calls that together take so many of each sequence: as few calls as there may be, about equally
        long."""
        most = max(1, MOST_TOKENS // self.sequences)
        for calls in range(-(-tokens // most), 0, -1):
            size = -(-tokens // calls)
            yield size
            tokens -= size

    def module(self, key: Key, lengths: Mapping[str, int]) -> Module:
        """The function of a program, for caches of so many rows, and for so many tokens."""
        tokens = lengths.get("tokens", 1)
        wanted = tokens if key.every else 1
        return decoder(self.config, self.weights, Sizes(self.sequences, tokens, lengths["rows"], wanted))

    def code(self, key: Key) -> OpenCpu:
        """A program, compiled when it is first asked for."""
        with self._lock:
            if key not in self._made:
                self._made[key] = self._compiled(key)
            return self._made[key]

    def _compiled(self, key: Key) -> OpenCpu:
        # The compiler is loaded with the first program.
        from ...compiler import compile_artifact, compile_open
        from ...runtime.cpu import load

        def otherwise(lengths: Mapping[str, int]) -> CpuExecutable:
            """For lengths that the code is not right for."""
            with using_threads(self.threads):
                return load(compile_artifact(self.module(key, lengths), "cpu"))

        with using_threads(self.threads), collecting_often():
            usual = {"rows": _USUAL["rows"]} if key.single else _USUAL
            made = compile_open(lambda lengths: self.module(key, lengths), usual)
        made.otherwise = otherwise
        # What was read of files to compile and prepare it is in memory no longer, nor is what passes made of it.
        gc.collect()
        for mapping in {id(m): m for w in self.weights.all() if (m := mapping_of(w.data))}.values():
            mapping.let_go()
        return made

    def run(
        self,
        key: Key,
        tokens: np.ndarray,
        positions: np.ndarray,
        rows: np.ndarray,
        wanted: np.ndarray,
        cache: Cache,
    ) -> np.ndarray:
        """The logits of a call, whose keys and values are put into the cache."""
        bound, count = self._bound, tokens.shape[1]
        if bound is None or bound.key != key or bound.tokens != count or bound.array is not cache.arrays[0]:
            arrays = {len(FEEDS) - 1: cache.held, **dict(enumerate(cache.arrays, len(FEEDS)))}
            lengths = {"rows": cache.rows} | ({} if key.single else {"tokens": count})
            call = self.code(key).at(lengths).bind(arrays)
            bound = self._bound = _Bound(key, count, cache.arrays[0], call)
        return bound.call(tokens, positions, rows, wanted)[0]


class _Bound(NamedTuple):
    """A program on the arrays of a cache."""

    key: Key
    tokens: int
    array: np.ndarray
    call: Callable[..., tuple[np.ndarray, ...]]
