# SPDX-License-Identifier: Apache-2.0
"""Embeddings of words, positions and segments: their sum, normalized."""

from __future__ import annotations

from .....ir.types import f32, i32
from .....support.diagnostics import UserError
from ...nodes import Node
from ...schemas import contributed
from ...tensor import Tensor
from .normalization import layer_normalized
from .quantized import dequantized


@contributed("EmbedLayerNormalization", outputs=3, epsilon=1e-12, mask_index_type=0)
def embed_layer_normalization(
    n: Node,
    words: Tensor,
    segments: Tensor | None,
    word_table: Tensor,
    position_table: Tensor,
    segment_table: Tensor | None,
    gamma: Tensor,
    beta: Tensor,
    mask: Tensor | None = None,
    positions: Tensor | None = None,
) -> list[Tensor]:
    total = word_table.take(words, 0).computed()
    if positions is None:
        if position_table.shape[0] < words.shape[1]:
            raise UserError(f"there are {position_table.shape[0]} positions, not {words.shape[1]}")
        total = total + position_table.part(0, 0, words.shape[1]).computed()
    else:
        total = total + position_table.take(positions, 0).computed()
    if segments is not None and segment_table is not None:
        total = total + segment_table.take(segments, 0).computed()
    made, _, _ = layer_normalized(n, total, gamma, beta, n.number("epsilon"))
    counts = n.verbs.numbers(0, i32, [words.shape[0]]) if mask is None else mask.sum([1])
    return [made.cast(word_table.element), counts, total.cast(word_table.element)]


@contributed("QEmbedLayerNormalization", outputs=2, epsilon=1e-12)
def qembed_layer_normalization(
    n: Node,
    words: Tensor,
    segments: Tensor | None,
    word_table: Tensor,
    position_table: Tensor,
    segment_table: Tensor | None,
    gamma: Tensor,
    beta: Tensor,
    mask: Tensor | None,
    word_scale: Tensor,
    position_scale: Tensor,
    segment_scale: Tensor | None,
    gamma_scale: Tensor,
    beta_scale: Tensor,
    word_zero: Tensor,
    position_zero: Tensor,
    segment_zero: Tensor | None,
    gamma_zero: Tensor,
    beta_zero: Tensor,
) -> list[Tensor]:
    total = dequantized(word_table.take(words, 0), word_scale, word_zero)
    total = total + dequantized(position_table.part(0, 0, words.shape[1]), position_scale, position_zero)
    if segments is not None and segment_table is not None and segment_scale is not None:
        total = total + dequantized(segment_table.take(segments, 0), segment_scale, segment_zero)
    scale, bias = dequantized(gamma, gamma_scale, gamma_zero), dequantized(beta, beta_scale, beta_zero)
    made, _, _ = layer_normalized(n, total.cast(f32), scale, bias, n.number("epsilon"))
    counts = n.verbs.numbers(0, i32, [words.shape[0]]) if mask is None else mask.sum([1])
    return [made, counts]
