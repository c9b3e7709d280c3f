# SPDX-License-Identifier: Apache-2.0
"""Sequences packed without padding, and relative position biases."""

from __future__ import annotations

from math import log

import numpy as np

from .....ir.types import i32, i64
from .....support.diagnostics import UserError
from ...nodes import Node
from ...schemas import contributed
from ...tensor import Tensor
from ..products import dot, multiplied
from .attention import attended, heads_of


def _unpacked(n: Node, x: Tensor, places: Tensor, batch: int, length: int) -> Tensor:
    """Tokens [T, D] at their positions in padded sequences [B, S, D]; padding is zero."""
    empty = n.verbs.numbers(0, x.element, [batch * length, x.shape[1]])
    made = n.verbs.scatter(empty, places.part(0, 0, x.shape[0]), x, axis=0)
    return made.reshape([batch, length, x.shape[1]])


def _packed_attention(
    n: Node, parts: list[Tensor], offsets: Tensor, ends: Tensor, bias: Tensor | None
) -> Tensor:
    """Attention of tokens [T, D]; `offsets` [B, S] holds the position of each token, then the positions of padding."""
    batch, length = offsets.shape
    places = offsets.reshape([batch * length]).cast(i64)
    heads = [heads_of(_unpacked(n, x, places, batch, length), n.integer("num_heads")) for x in parts]
    counts = (ends.part(0, 1, batch + 1) - ends.part(0, 0, batch)).cast(i32)
    made, _ = attended(n, heads[0], heads[1], heads[2], counts, bias, None)
    return made.reshape([batch * length, made.shape[2]]).take(places.part(0, 0, parts[0].shape[0]), 0)


def _cut(x: Tensor, sizes: list[int], axis: int) -> list[Tensor]:
    ends = np.cumsum([0, *sizes]).tolist()
    if ends[-1] != x.shape[axis]:
        raise UserError(f"queries, keys and values of {sizes} elements, but {x.shape[axis]} in all")
    return [x.part(axis, ends[i], ends[i + 1]) for i in range(3)]


@contributed("PackedAttention", num_heads=int, qkv_hidden_sizes=list[int], scale=float | None)
def packed_attention(
    n: Node,
    x: Tensor,
    weights: Tensor,
    bias: Tensor,
    token_offset: Tensor,
    cumulative_sequence_length: Tensor,
    attention_bias: Tensor | None = None,
) -> Tensor:
    whole = multiplied(x, weights) + bias
    parts = _cut(whole, n.given("qkv_hidden_sizes", [whole.shape[1] // 3] * 3), 1)
    return _packed_attention(n, parts, token_offset, cumulative_sequence_length, attention_bias)


@contributed("PackedMultiHeadAttention", mask_filter_value=-10000.0, num_heads=int, scale=float | None)
def packed_multi_head_attention(
    n: Node,
    query: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    bias: Tensor | None,
    token_offset: Tensor,
    cumulative_sequence_length: Tensor,
    attention_bias: Tensor | None = None,
) -> Tensor:
    if query.rank == 4:  # [T, N, 3, H]
        parts = [query.at(2, i).reshape([query.shape[0], query.shape[1] * query.shape[3]]) for i in range(3)]
    elif key is None or value is None:
        raise UserError("queries without keys and values")
    else:
        parts = [query, key, value]
    if bias is not None:
        lines = _cut(bias, [x.shape[1] for x in parts], 0)
        parts = [x + line for x, line in zip(parts, lines, strict=True)]
    return _packed_attention(n, parts, token_offset, cumulative_sequence_length, attention_bias)


@contributed("RemovePadding", outputs=4)
def remove_padding(n: Node, x: Tensor, counts: Tensor) -> list[Tensor]:
    """The tokens [T, D] of x[B, S, D]; the token counts decide T."""
    batch, length = x.shape[:2]
    inside = np.arange(length)[None, :] < n.settle(counts).reshape(batch, 1)
    flat = np.arange(batch * length).reshape(batch, length)
    kept, ends = flat[inside], np.concatenate([[0], np.cumsum(inside.sum(1))])
    known = [
        np.concatenate([kept, flat[~inside]]).reshape(batch, length),
        ends,
        np.array([inside.sum(1).max(initial=0)]),
    ]
    rows = x.reshape([batch * length, x.shape[2]]).take(kept.tolist(), 0)
    return [rows, *(n.verbs.known(each.astype(np.int32)) for each in known)]


@contributed("RestorePadding")
def restore_padding(n: Node, x: Tensor, offsets: Tensor) -> Tensor:
    batch, length = offsets.shape
    return _unpacked(n, x, offsets.reshape([batch * length]).cast(i64), batch, length)


# ---- relative position biases


@contributed("RelativePositionBias", is_bidirectional=0, max_distance=int)
def relative_position_bias(n: Node, table: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
    """The bias [1, heads, S, T] of T5: short distances have a bucket each, long ones share buckets by their logarithm.

    The table is declared as [buckets, heads], but stored as [heads, buckets]."""
    buckets, heads = table.shape
    rows, columns = (int(n.settle(x).reshape(-1)[0]) for x in (queries, keys))
    behind = np.arange(rows)[:, None] - np.arange(columns)[None, :]
    both = n.flag("is_bidirectional")
    count = buckets // 2 if both else buckets
    first = np.where(behind < 0, count, 0) if both else np.zeros_like(behind)
    distance = np.abs(behind) if both else np.maximum(behind, 0)
    exact = count // 2
    with np.errstate(divide="ignore"):
        far = np.log(np.maximum(distance, 1).astype(np.float32) / np.float32(exact))
    far = exact + (far / np.float32(log(n.integer("max_distance") / exact)) * (count - exact)).astype(
        np.int64
    )
    places = first + np.where(distance < exact, distance, np.minimum(far, count - 1))
    found = table.reshape([heads, buckets]).take(n.verbs.known(places.reshape(-1)), 1)
    return found.reshape([1, heads, rows, columns])


@contributed("GatedRelativePositionBias", num_heads=int)
def gated_relative_position_bias(
    n: Node,
    query: Tensor,
    query_bias: Tensor,
    positions: Tensor,
    weight: Tensor,
    bias: Tensor,
    factor: Tensor,
    token_offset: Tensor | None = None,
) -> Tensor:
    """query[B, S, N * H]; positions[1, N, S, S]; the product with weight[H, D] gives two gates, each the sum of half of the D columns."""
    if token_offset is not None:
        raise n.limit(f"{n.op} of packed sequences")
    heads = heads_of(query + query_bias, n.integer("num_heads")).computed()
    gates = dot(heads, weight.computed(), [3], [0]) + bias.computed()
    half = gates.shape[3] // 2
    u, r = (n.verbs.sigmoid(gates.part(3, i * half, (i + 1) * half).sum([3], keep=True)) for i in range(2))
    gate = u * (r * factor.computed() - 1.0) + 2.0
    return (gate * positions.computed()).cast(query.element)
