# SPDX-License-Identifier: Apache-2.0
"""Keys and values of the tokens that a decoder has seen: arrays that programs append to in place, and that grow by size classes."""

from __future__ import annotations

import numpy as np

from ...runtime.buffers import aligned_empty
from ...runtime.open_cpu import size_class
from ...support.diagnostics import UserError
from .build import NOTHING
from .config import DecoderConfig

#: Rows that a cache has at least, and by which multiples it grows.
_STEP = 64


class Cache:
    """For some sequences, of each layer keys and values [sequences, heads, rows, size], f32.

    The first `used` rows are taken, in all sequences; `held` [sequences, rows] says for which position each one is, `lengths` how
    many tokens each sequence has. There is room for `context` tokens, and memory for no more than an eighth above those there are.
    """

    def __init__(self, config: DecoderConfig, sequences: int, context: int):
        self.config, self.sequences, self.context = config, sequences, context
        self.clear()

    def clear(self) -> None:
        """Forgets all tokens."""
        self.used = 0
        self.lengths = np.zeros(self.sequences, np.int64)
        self.held = np.full((self.sequences, 0), NOTHING, np.int32)
        shape = (self.sequences, self.config.kv_heads, 0, self.config.head_size)
        self.arrays = [aligned_empty(shape, "f32") for _ in range(2 * len(self.config.layers))]

    @property
    def rows(self) -> int:
        return self.held.shape[1]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)

    def room(self, tokens: int) -> None:
        """Makes room for so many more rows. UserError where the context has none for them."""
        wanted = self.used + tokens
        if wanted > self.context:
            raise UserError(
                f"{wanted} tokens are more than the context of {self.context}",
                hint="a shorter prompt, or a larger context (context=, --context)",
            )
        if wanted <= self.rows:
            return
        rows = -(-size_class(wanted) // _STEP) * _STEP
        self.arrays = [self._grown(array, rows) for array in self.arrays]
        held = np.full((self.sequences, rows), NOTHING, np.int32)
        held[:, : self.used] = self.held[:, : self.used]
        self.held = held

    def _grown(self, array: np.ndarray, rows: int) -> np.ndarray:
        n, heads, _, size = array.shape
        made = aligned_empty((n, heads, rows, size), "f32")
        made[:, :, : self.used] = array[:, :, : self.used]
        made[:, :, self.used :] = 0  # masked rows are multiplied by 0, so they have to be finite
        return made

    def take(self, counts: np.ndarray, tokens: int) -> tuple[np.ndarray, np.ndarray]:
        """Takes rows for `tokens` tokens of each sequence, of which the first `counts` are real: the rows, and their positions.

        Tokens behind the real ones get the position of the last one, which has something to attend to, and rows that are
        never read.
        """
        steps = np.arange(tokens)
        last = np.maximum(self.lengths + counts - 1, 0)[:, None]
        positions = np.minimum(self.lengths[:, None] + steps, last).astype(np.int32)
        self.held[:, self.used :] = NOTHING
        self.held[:, self.used : self.used + tokens] = np.where(steps < counts[:, None], positions, NOTHING)
        return (self.used + steps).astype(np.int32), positions

    def keep(self, counts: np.ndarray, tokens: int) -> None:
        """Says that what was taken has been written."""
        self.used += tokens
        self.lengths += counts

    def cut(self, length: int) -> None:
        """Forgets all tokens from a position on."""
        self.held[self.held >= length] = NOTHING
        self.lengths = np.minimum(self.lengths, length)
        taken = np.flatnonzero((self.held != NOTHING).any(axis=0))
        self.used = int(taken[-1]) + 1 if len(taken) else 0
