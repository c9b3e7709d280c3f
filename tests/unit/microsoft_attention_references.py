# SPDX-License-Identifier: Apache-2.0
"""What operators of com.microsoft on attention give, by NumPy: one query of one head after the other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from microsoft_quantized_references import real
from microsoft_references import Array, Attributes, plus, reference, sigmoid, softmax, wide


def split(x: Array, count: int) -> Array:
    """[B, S, N * H] as [B, N, S, H]."""
    return wide(x).reshape(*x.shape[:2], count, -1).swapaxes(1, 2)


def joined(x: Array) -> Array:
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)


def hidden(mask: Array | None, b: int, s: int, t: int) -> Array:
    """[B, S, T], true where a key is hidden."""
    made = np.zeros((b, s, t), bool)
    if mask is None:
        return made
    if mask.ndim == 1:
        for i in range(b):
            made[i, :, mask[i] :] = True
            if len(mask) == 2 * b:
                made[i, :, : mask[b + i]] = True
        return made
    return made | (mask <= 0 if mask.ndim == 3 else mask[:, None] <= 0)


def attended(
    q: Array, k: Array, v: Array, mask: Array | None, bias: Array | None, a: Attributes, past: int
) -> Any:
    """Heads of the result, and the scores."""
    (b, n, s, h), t = q.shape, k.shape[2]
    made, scores = np.zeros((b, n, s, v.shape[3])), np.zeros((b, n, s, t))
    filled = a.get("mask_filter_value", -10000.0)
    out = hidden(mask, b, s, t)
    for i in range(b):
        for j in range(n):
            for row in range(s):
                score = k[i, j] @ q[i, j, row] * (a.get("scale") or 1 / math.sqrt(h)) + filled * out[i, row]
                if bias is not None:
                    score = score + wide(bias[i % len(bias), j % bias.shape[1], row])
                if a.get("unidirectional"):
                    score[past + row + 1 :] = np.finfo(np.float32).min
                scores[i, j, row] = score
                made[i, j, row] = softmax(score) @ v[i, j]
    return made, scores


def _of_one(product: Array, bias: Array | None, mask: Any, past: Any, more: Any, a: Attributes) -> Any:
    whole, n = plus(product, bias), a["num_heads"]
    sizes = a.get("qkv_hidden_sizes") or [whole.shape[-1] // 3] * 3
    q, k, v = (split(part, n) for part in np.split(whole, np.cumsum(sizes)[:2], -1))
    before = 0
    if past is not None:
        before = past.shape[3]
        k, v = np.concatenate([past[0], k], 2), np.concatenate([past[1], v], 2)
    made = joined(attended(q, k, v, mask, more, a, before)[0])
    return made, np.stack([k, v]) if k.shape == v.shape else None


@reference("Attention")
def _attention(x: list[Any], a: Attributes) -> Any:
    return _of_one(wide(x[0]) @ wide(x[1]), x[2], x[3], x[4], x[5], a)


@reference("QAttention")
def _qattention(x: list[Any], a: Attributes) -> Any:
    made = real(x[0], x[3], x[6]) @ real(x[1], x[4], x[7])
    return _of_one(made, x[2], x[5], x[8], None, a)


def _of_three(x: list[Any], a: Attributes, bias: Any, mask: Any, more: Any, past: Any) -> Any:
    n = a["num_heads"]
    if bias is not None:
        sizes = np.cumsum([p.shape[-1] for p in x])
        x = [plus(p, line) for p, line in zip(x, np.split(bias, sizes[:2]), strict=True)]
    q, k, v = (wide(p) if p.ndim == 4 else split(p, n) for p in x)
    before = 0
    if past is not None:
        before = past[0].shape[2]
        k, v = (np.concatenate([old, new], 2) for old, new in zip(past, (k, v), strict=True))
    made, scores = attended(q, k, v, mask, more, a, before)
    return joined(made), k, v, scores


@reference("MultiHeadAttention")
def _multi_head(x: list[Any], a: Attributes) -> Any:
    return _of_three(x[:3], a, x[3], x[4], x[5], x[6:8] if len(x) > 6 else None)


@reference("DecoderMaskedMultiHeadAttention")
def _decoder_masked(x: list[Any], a: Attributes) -> Any:
    past = x[5:7]
    if a["past_present_share_buffer"]:
        past = [p[:, :, : x[7].item()] for p in past]
    made, *kept, scores = _of_three(x[:3], a, x[10], x[3], x[4], past)
    kept = [
        np.pad(k, [(0, 0), (0, 0), (0, max(0, old.shape[2] - k.shape[2])), (0, 0)])
        for k, old in zip(kept, x[5:7], strict=True)
    ]
    return made, *kept, scores


def turned(x: Array, at: Any, cos: Array, sin: Array, interleaved: bool) -> Array:
    """One line [H] of a head at a position."""
    half = cos.shape[1]
    made = wide(x).copy()
    for i in range(half):
        one, two = (2 * i, 2 * i + 1) if interleaved else (i, i + half)
        c, s = float(cos[at, i]), float(sin[at, i])
        made[one], made[two] = x[one] * c - x[two] * s, x[one] * s + x[two] * c
    return made


@reference("RotaryEmbedding")
def _rotary(x: list[Any], a: Attributes) -> Array:
    heads = wide(x[0])
    if heads.ndim == 3:
        heads = split(heads, a.get("num_heads") or heads.shape[2] // (2 * x[2].shape[1]))
    made = heads.copy()
    for b, n, s in np.ndindex(*heads.shape[:3]):
        at = x[1][b, s] if x[1].ndim == 2 else x[1][0] + s
        made[b, n, s] = turned(heads[b, n, s], at, x[2], x[3], a["interleaved"])
    return made if x[0].ndim == 4 else joined(made)


@reference("GroupQueryAttention")
def _grouped(x: list[Any], a: Attributes) -> Any:
    x = [*x, *[None] * (17 - len(x))]
    n, shared = a["num_heads"], a["kv_num_heads"]
    q, k, v = x[:3]
    if k is None:
        size = q.shape[2] // (n + 2 * shared)
        q, k, v = np.split(q, [n * size, (n + shared) * size], 2)
    q, k, v = split(q, n), split(k, shared), split(v, shared)
    (b, _, s, h), total = q.shape, int(x[6])
    whole = max(total, 0 if x[3] is None else x[3].shape[2])
    caches = [np.zeros((b, shared, whole, h)) for _ in range(2)]
    made, shown = np.zeros((b, n, s, h)), np.zeros((b, n, s, total))
    counts = np.full(b, s) if x[16] is None else x[16]
    window, cap = a.get("local_window_size", -1), a.get("softcap", 0)
    for i in range(b):
        start = 0 if total == s and x[16] is None else int(x[5][i]) + 1 - int(counts[i])
        for cache, old, new in zip(caches, x[3:5], (k, v), strict=True):
            if old is not None:
                cache[i, :, :start] = old[i, :, :start]
            for j, row in np.ndindex(shared, min(s, whole - start)):
                at = start + row if x[9] is None else x[9][i, row]
                line = new[i, j, row]
                turn = a["do_rotary"] and cache is caches[0]
                cache[i, j, start + row] = (
                    turned(line, at, x[7], x[8], a["rotary_interleaved"]) if turn else line
                )
        for j, row in np.ndindex(n, int(counts[i])):
            at, last = start + row if x[9] is None else x[9][i, row], start + row + 1
            last = last if a.get("causal", 1) else int(x[5][i]) + 1
            line = (
                turned(q[i, j, row], at, x[7], x[8], a["rotary_interleaved"])
                if a["do_rotary"]
                else q[i, j, row]
            )
            keys, values = (c[i, j // (n // shared)] for c in caches)
            first = max(0, last - window) if window > 0 else 0
            score = keys[first:last] @ line * (a.get("scale") or 1 / math.sqrt(h))
            score = cap * np.tanh(score / cap) if cap else score
            if x[10] is not None:
                score = score + wide(x[10][i % len(x[10]), j % x[10].shape[1], row, first:last])
            extra = [] if x[11] is None else [float(x[11][j])]
            extra = extra or [0.0] * (a.get("smooth_softmax", -1) > 0)
            weights = softmax(np.array([*score, *extra]))[: last - first]
            shown[i, j, row, first:last] = score if a.get("qk_output") == 1 else weights
            made[i, j, row] = weights @ values[first:last]
    return joined(made), *caches, shown


# ---- packed sequences, and what is added by distance


def _packed(parts: list[Array], offsets: Array, ends: Array, bias: Any, a: Attributes) -> Array:
    """Each sequence by itself."""
    made = []
    for i in range(len(ends) - 1):
        own = slice(ends[i], ends[i + 1])
        length = ends[i + 1] - ends[i]
        more = None if bias is None else bias[i % len(bias)][None, :, :length, :length]
        q, k, v = (split(p[None, own], a["num_heads"]) for p in parts)
        made.append(joined(attended(q, k, v, None, more, a, 0)[0])[0])
    return np.concatenate(made)


@reference("PackedAttention")
def _packed_attention(x: list[Any], a: Attributes) -> Array:
    whole = plus(wide(x[0]) @ wide(x[1]), x[2])
    return _packed(np.split(whole, 3, 1), x[3], x[4], x[5], a)


@reference("PackedMultiHeadAttention")
def _packed_heads(x: list[Any], a: Attributes) -> Array:
    parts = x[:3]
    if x[1] is None:
        parts = [x[0][:, :, i].reshape(len(x[0]), -1) for i in range(3)]
    if x[3] is not None:
        parts = [plus(p, line) for p, line in zip(parts, np.split(x[3], 3), strict=True)]
    return _packed(parts, x[4], x[5], x[6], a)


@reference("RemovePadding")
def _remove(x: list[Any], a: Attributes) -> Any:
    b, s, _ = x[0].shape
    kept = [i * s + j for i in range(b) for j in range(x[1][i])]
    rest = [i for i in range(b * s) if i not in kept]
    ends = np.concatenate([[0], np.cumsum(x[1])])
    offsets = np.array(kept + rest).reshape(b, s)
    return x[0].reshape(b * s, -1)[kept], *(
        t.astype(np.int32) for t in (offsets, ends, np.array([x[1].max()]))
    )


@reference("RestorePadding")
def _restore(x: list[Any], a: Attributes) -> Array:
    made = np.zeros((x[1].size, x[0].shape[1]))
    made[x[1].reshape(-1)[: len(x[0])]] = x[0]
    return made.reshape(*x[1].shape, -1)


@reference("RelativePositionBias")
def _relative(x: list[Any], a: Attributes) -> Array:
    (buckets, heads), rows = x[0].shape, int(x[1][0])
    table = x[0].reshape(heads, buckets)  # all of the first head first
    made = np.zeros((1, heads, rows, rows))
    count = buckets // 2 if a["is_bidirectional"] else buckets
    for i, j in np.ndindex(rows, rows):
        away, first = i - j, 0
        if a["is_bidirectional"]:
            first, away = (count if away < 0 else 0), abs(away)
        away = max(away, 0)
        if away >= count // 2:
            share = math.log(away / (count // 2)) / math.log(a["max_distance"] / (count // 2))
            away = min(count - 1, count // 2 + int(share * (count - count // 2)))
        made[0, :, i, j] = table[:, first + away]
    return made


@reference("GatedRelativePositionBias")
def _gated_relative(x: list[Any], a: Attributes) -> Array:
    heads = split(plus(x[0], x[1]), a["num_heads"])
    gates = heads @ wide(x[3]) + wide(x[4])
    u, r = (sigmoid(g.sum(-1, keepdims=True)) for g in np.split(gates, 2, -1))
    return (u * (r * wide(x[5]) - 1) + 2) * wide(x[2])
