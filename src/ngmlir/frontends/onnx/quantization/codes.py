# SPDX-License-Identifier: Apache-2.0
"""Numbers as integers of few bits, with scales."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ports import Array

#: The least scale: products of scales and of their reciprocals stay ordinary numbers.
_LEAST = np.float32(1e-30)
#: Rows of so many elements are quantised at once.
_PIECE = 1 << 22
#: Scales of blocks of 4 bits that are tried, as parts of the one that reaches the greatest element.
_TRIED = (1.0, 0.95, 0.9, 0.85, 0.8)


def channel_codes(w: Array, axis: int | None, least: Array | None = None) -> tuple[Array, Array]:
    """Codes of 8 bits from -127 to 127, and a scale for each slice along an axis (None: one for all), at least `least`.

    The greatest error of a number is half its scale, which is the greatest magnitude of its slice over 127.
    """
    others = tuple(d for d in range(w.ndim) if d != axis)
    greatest = np.abs(w).max(axis=others, initial=0.0) if axis is not None else np.abs(w).max(initial=0.0)
    scale = np.maximum(np.asarray(greatest, np.float32) / np.float32(127), _LEAST)
    if least is not None:
        scale = np.maximum(scale, least.astype(np.float32))
    wide = scale if axis is None else scale.reshape([-1 if d == axis else 1 for d in range(w.ndim)])
    codes = np.empty(w.shape, np.int8)
    for at in _pieces(w):
        part = wide[at] if axis == 0 else wide
        codes[at] = np.clip(np.rint(w[at] / part), -127, 127)
    return codes, scale


def block_codes(w: Array, block: int) -> tuple[Array, Array]:
    """Codes of 4 bits of the rows of a matrix [N, K], two in each byte: [N, blocks, block / 2]; and a scale for each block of
    neighbours, [N, blocks]. Code c stands for (c - 8) * scale, of which one end is the greatest number of the block; the scale is
    the best of a few by the sum of squared errors.
    """
    rows, length = w.shape
    blocks = -(-length // block)
    codes = np.empty((rows, blocks, block // 2), np.uint8)
    scales = np.empty((rows, blocks), np.float32)
    for at in _pieces(w):
        part = np.zeros((len(w[at]), blocks * block), np.float32)
        part[:, :length] = w[at]
        numbers = part.reshape(-1, blocks, block)
        top = np.take_along_axis(numbers, np.abs(numbers).argmax(-1, keepdims=True), -1)
        best, error = np.zeros(numbers.shape, np.uint8), np.full(top.shape, np.inf, np.float32)
        scale = np.ones_like(top)
        for share in _TRIED:
            tried = top * np.float32(-share / 8)
            tried = np.where(np.abs(tried) < _LEAST, _LEAST, tried)
            found = np.clip(np.rint(numbers / tried), -8, 7)
            wrong = np.square(found * tried - numbers).sum(-1, keepdims=True)
            better = wrong < error
            best = np.where(better, (found + 8).astype(np.uint8), best)
            scale, error = np.where(better, tried, scale), np.where(better, wrong, error)
        codes[at] = best[..., 0::2] | best[..., 1::2] << 4
        scales[at] = scale[..., 0]
    return codes, scales


def activation_scale(low: float, high: float) -> tuple[np.float32, np.uint8]:
    """Scale and zero point of codes from 0 to 255 that reach from `low` to `high` and have a code for 0."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = np.float32(max((high - low) / 255, float(_LEAST)))
    return scale, np.uint8(np.clip(np.rint(-low / float(scale)), 0, 255))


def _pieces(w: Array) -> Iterator[slice]:
    """The rows of an array, some at a time; of a scalar, all."""
    if not w.ndim:
        yield ...  # pyright: ignore[reportReturnType]
        return
    count = max(1, _PIECE * len(w) // max(w.size, 1))
    for start in range(0, len(w), count):
        yield slice(start, start + count)
