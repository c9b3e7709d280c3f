# SPDX-License-Identifier: Apache-2.0
"""Grouped-query attention: several heads of queries share a head of keys and values, which are kept in a cache."""

from __future__ import annotations

import numpy as np

from .....ir.types import i64
from .....support.diagnostics import UserError
from ...nodes import Node
from ...schemas import contributed
from ...tensor import Tensor
from ..attention import capped, heads_of, joined_heads, scores_of, weighted_values
from .normalization import rms_normalized
from .rotary import rotated


@contributed(
    "GroupQueryAttention",
    outputs=4,
    causal=1,
    do_rotary=0,
    k_norm_epsilon=float | None,
    k_quant_type="NONE",
    kv_cache_bit_width=int | None,
    kv_num_heads=int,
    local_window_size=-1,
    num_heads=int,
    q_norm_epsilon=float | None,
    qk_norm_epsilon=1e-6,
    qk_output=0,
    rotary_interleaved=0,
    scale=float | None,
    sliding_window_cache=0,
    smooth_softmax=-1,
    softcap=0.0,
    v_quant_type="NONE",
)
def group_query_attention(
    n: Node,
    query: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    past_key: Tensor | None,
    past_value: Tensor | None,
    seqlens_k: Tensor,
    total_sequence_length: Tensor,
    cos_cache: Tensor | None = None,
    sin_cache: Tensor | None = None,
    position_ids: Tensor | None = None,
    attention_bias: Tensor | None = None,
    head_sink: Tensor | None = None,
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
    q_norm_weight: Tensor | None = None,
    k_norm_weight: Tensor | None = None,
    query_seqlens: Tensor | None = None,
) -> list[Tensor]:
    """`seqlens_k` + 1 is the number of keys in the cache after this call, whose keys are the last of them."""
    if {n.text("k_quant_type"), n.text("v_quant_type")} != {"NONE"} or n.flag("sliding_window_cache"):
        raise n.limit(f"{n.op} with a cache that is quantised, or is shorter than the sequence")
    q, k, v = _heads(n, query, key, value)
    q, k = (
        x if weight is None else rms_normalized(n, x, weight, n.number(name, n.number("qk_norm_epsilon")))[0]
        for x, weight, name in ((q, q_norm_weight, "q_norm_epsilon"), (k, k_norm_weight, "k_norm_epsilon"))
    )
    batch, _, length, _ = q.shape
    total = int(n.settle(total_sequence_length).reshape(-1)[0])
    ends = seqlens_k.reshape([seqlens_k.size]).cast(i64) + 1
    if ends.size != batch:
        raise UserError(f"{ends.size} lengths (seqlens_k) for {batch} sequences")
    new = n.verbs.numbers(length, i64) if query_seqlens is None else query_seqlens.cast(i64)
    first = total == length and query_seqlens is None
    starts = n.verbs.numbers(0, i64, [batch]) if first else ends - new
    places = starts.with_axes([1]) + n.verbs.arange(length).with_axes([0])
    if n.flag("do_rotary"):
        if cos_cache is None or sin_cache is None:
            raise UserError("do_rotary without cos_cache and sin_cache")
        turns = places if position_ids is None else position_ids.broadcast([batch, length])
        # Positions of padding may be outside of the tables; their results are not used.
        turns = turns.maximum(0).minimum(cos_cache.shape[0] - 1)
        q, k = (rotated(x, turns, cos_cache, sin_cache, n.flag("rotary_interleaved")) for x in (q, k))
    whole = max(total, past_key.shape[2] if past_key is not None else 0)
    k, v = (_cached(n, old, x, starts, whole, first) for old, x in ((past_key, k), (past_value, v)))
    seen = _seen(n, starts, length, ends, min(total, whole))
    made, shown = _attended(n, q, k.part(2, 0, total), v.part(2, 0, total), seen, attention_bias, head_sink)
    return [joined_heads(made).cast(query.element), k, v, shown.cast(query.element)]


def _heads(n: Node, query: Tensor, key: Tensor | None, value: Tensor | None) -> list[Tensor]:
    count, shared = n.integer("num_heads"), n.integer("kv_num_heads")
    if shared < 1 or count % shared:
        raise UserError(f"{count} heads of queries share {shared} of keys")
    if key is None or value is None:
        size = query.shape[2] // (count + 2 * shared)
        ends = [0, count * size, (count + shared) * size, query.shape[2]]
        query, key, value = (query.part(2, ends[i], ends[i + 1]) for i in range(3))
    return [heads_of(query, count), heads_of(key, shared), heads_of(value, shared)]


def _cached(n: Node, old: Tensor | None, new: Tensor, starts: Tensor, whole: int, first: bool) -> Tensor:
    """A cache of length `whole` [B, N, T, H], with new entries written from a position of each sequence on."""
    length = new.shape[2]
    if first:
        return new if whole == length or old is None else n.verbs.joined([new, old.part(2, length, whole)], 2)
    if old is None or not old.shape[2]:
        return new.pad([0] * 4, [0, 0, whole - length, 0])
    before = old.shape[2]
    if starts.array is not None and set(starts.array.tolist()) == {before} and whole == before + length:
        return n.verbs.joined([old, new], 2)
    if before < whole:
        old = old.pad([0] * 4, [0, 0, whole - before, 0])
    behind = n.verbs.arange(whole).with_axes([0]) - starts.with_axes([1])
    inside = ((behind >= 0) & (behind < length)).reshape([new.shape[0], 1, whole, 1])
    from_new = behind.maximum(0).minimum(length - 1).reshape([new.shape[0], 1, whole, 1])
    spread = n.verbs.gather_elements(new, from_new.broadcast(old.shape), axis=2)
    return n.verbs.where(inside, spread, old)


def _seen(n: Node, starts: Tensor, length: int, ends: Tensor, total: int) -> Tensor:
    """The mask [B, 1, S, T] of the keys that queries attend to, the first of them at positions `starts` [B]."""
    batch = starts.size
    line = n.verbs.counted(total, i64).reshape([1, 1, total])
    if not n.flag("causal"):
        seen = line < ends.reshape([batch, 1, 1])
        return seen.broadcast([batch, length, total]).with_axes([1])
    at = starts.reshape([batch, 1, 1]) + n.verbs.counted(length, i64).with_axes([1])
    seen, window = line <= at, n.integer("local_window_size")
    if window > 0:
        seen = seen & (line > at - window)
    return seen.with_axes([1])


def _attended(
    n: Node, q: Tensor, k: Tensor, v: Tensor, seen: Tensor, bias: Tensor | None, sink: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The output [B, N, S, H], and the scores or weights that `qk_output` selects."""
    total = k.shape[2]
    scores = capped(n, scores_of(n, q, k))
    if bias is not None:
        scores = scores + bias.computed().part(3, 0, total)
    scores = seen.where(scores, -np.inf)
    shown = scores
    if sink is not None or n.integer("smooth_softmax") > 0:
        zero = n.verbs.numbers(0, scores.element)
        one = zero if sink is None else sink.computed().reshape([1, sink.size, 1, 1])
        scores = n.verbs.joined([scores, one.broadcast([*scores.shape[:3], 1])], 3)
    weights = n.verbs.softmax(scores, axes=[3]).part(3, 0, total)
    return weighted_values(weights, v), shown if n.integer("qk_output") == 1 else weights
