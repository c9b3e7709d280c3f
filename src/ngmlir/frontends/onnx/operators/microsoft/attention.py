# SPDX-License-Identifier: Apache-2.0
"""Multi-head attention with masks, biases and past keys and values.

Shapes: B sequences, N heads, S queries, T keys (those before and those of this call), H elements of a head.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .....ir.types import f32, i32
from .....support.diagnostics import UserError
from ...nodes import Node
from ...schemas import contributed
from ...tensor import Tensor
from ..attention import causal_mask, heads_of, joined_heads, scores_of, weighted_values
from ..products import multiplied
from ..quantization import centred

#: The score of a key that is masked. It is finite: a query whose keys are all masked gets their mean, not NaN.
_LEAST = float(np.finfo(np.float32).min)
#: Attributes that these operators share.
_SCALED: dict[str, Any] = {"mask_filter_value": -10000.0, "num_heads": int, "scale": float | None}
_SHARED: dict[str, Any] = {"past_present_share_buffer": 0}


def mask_bias(n: Node, mask: Tensor, batch: int, length: int, total: int) -> Tensor:
    """The bias that a mask adds to scores [B, N, S, T]: 0 or `mask_filter_value`.

    mask[B, T] and mask[B, S, T] are 0 where a key is masked; mask[B] holds the ends of the keys, mask[2 * B] the ends and
    then the starts.
    """
    line = n.verbs.arange(total, i32)
    if mask.rank == 1 and mask.size in (batch, 2 * batch):
        seen = line.reshape([1, total]) < mask.part(0, 0, batch).with_axes([1])
        if mask.size == 2 * batch:
            seen = seen & (line.reshape([1, total]) >= mask.part(0, batch, 2 * batch).with_axes([1]))
        seen = seen.reshape([batch, 1, 1, total])
    elif mask.shape == (batch, total):
        seen = (mask > 0).reshape([batch, 1, 1, total])
    elif mask.shape == (batch, length, total):
        seen = (mask > 0).reshape([batch, 1, length, total])
    else:
        raise n.limit(f"a mask of shape {list(mask.shape)} over {batch} sequences of {length} by {total}")
    return seen.where(n.verbs.numbers(0, f32), n.number("mask_filter_value", _LEAST))


def attended(
    n: Node,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    past: int | None,
) -> tuple[Tensor, Tensor]:
    """The output [B, S, N * H], and the scores [B, N, S, T]. With `past`, the number of past keys, attention is causal."""
    batch, _, length, _ = q.shape
    total = k.shape[2]
    scores = scores_of(n, q, k)
    if mask is not None:
        scores = scores + mask_bias(n, mask, batch, length, total)
    if bias is not None:
        scores = scores + bias.computed()
    if past is not None:
        scores = causal_mask(n, length, total, n.verbs.length(past)).where(scores, _LEAST)
    made = weighted_values(n.verbs.softmax(scores, axes=[3]), v)
    return joined_heads(made).cast(v.element), scores


# ---- one projection for queries, keys and values


def _parts(n: Node, product: Tensor, bias: Tensor | None, sizes: list[int]) -> list[Tensor]:
    """Queries, keys and values [B, N, S, H] from the result of one projection."""
    whole = product if bias is None else product + bias
    ends = np.cumsum([0, *sizes]).tolist()
    if len(sizes) != 3 or ends[-1] != whole.shape[-1]:
        raise UserError(f"queries, keys and values of {sizes} elements, but {whole.shape[-1]} in all")
    return [heads_of(whole.part(-1, ends[i], ends[i + 1]), n.integer("num_heads")) for i in range(3)]


def _of_one_matrix(
    n: Node,
    product: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    past: Tensor | None,
    more: Tensor | None,
) -> list[Tensor]:
    _refuse(n, "past_present_share_buffer", "do_rotary")
    q, k, v = _parts(n, product, bias, n.given("qkv_hidden_sizes", [product.shape[-1] // 3] * 3))
    if past is not None:
        k, v = (n.verbs.joined([past.at(0, i), new], 2) for i, new in enumerate((k, v)))
    before = k.shape[2] - q.shape[2]
    made, _ = attended(n, q, k, v, mask, more, before if n.flag("unidirectional") else None)
    return [made, n.verbs.stacked([k, v])] if n.wanted(1) else [made]


def _refuse(n: Node, *flags: str) -> None:
    for name in flags:
        if n.flag(name):
            raise n.limit(f"{n.op} with {name}")


@contributed(
    "Attention",
    outputs=2,
    do_rotary=0,
    qkv_hidden_sizes=list[int],
    rotary_embedding_dim=0,
    unidirectional=0,
    **_SCALED,
    **_SHARED,
)
def attention(
    n: Node,
    x: Tensor,
    weights: Tensor,
    bias: Tensor | None = None,
    mask_index: Tensor | None = None,
    past: Tensor | None = None,
    attention_bias: Tensor | None = None,
    past_sequence_length: Tensor | None = None,
) -> list[Tensor]:
    return _of_one_matrix(n, multiplied(x, weights), bias, mask_index, past, attention_bias)


@contributed("QAttention", outputs=2, do_rotary=0, unidirectional=0, **_SCALED, **_SHARED)
def qattention(
    n: Node,
    x: Tensor,
    weights: Tensor,
    bias: Tensor,
    x_scale: Tensor,
    weight_scale: Tensor,
    mask_index: Tensor | None = None,
    x_zero: Tensor | None = None,
    weight_zero: Tensor | None = None,
    past: Tensor | None = None,
) -> list[Tensor]:
    """Attention whose projection is a product of integers."""
    total = multiplied(centred(x, x_zero), centred(weights, weight_zero, -1)).cast(f32)
    factor = (
        x_scale.computed().reshape([])
        * (weight_scale.reshape([]) if weight_scale.size == 1 else weight_scale).computed()
    )
    return _of_one_matrix(n, total * factor, bias.computed(), mask_index, past, None)


# ---- separate queries, keys and values


def _separate(
    n: Node, query: Tensor, key: Tensor | None, value: Tensor | None, bias: Tensor | None
) -> list[Tensor]:
    """Queries, keys and values [B, N, S, H] with their bias, from three tensors, from two (packed keys and values) or from one."""
    count = n.integer("num_heads")
    if query.rank == 5:  # [B, S, N, 3, H]
        made = [query.at(3, i).transpose([0, 2, 1, 3]) for i in range(3)]
    elif key is not None and key.rank == 5:  # [B, T, N, 2, H]
        made = [heads_of(query, count), *(key.at(3, i).transpose([0, 2, 1, 3]) for i in range(2))]
    elif key is None or value is None:
        raise UserError("queries without keys and values")
    else:
        # Cached keys and values have this shape already.
        made = [heads_of(query, count), *(x if x.rank == 4 else heads_of(x, count) for x in (key, value))]
    if bias is None:
        return made
    sizes = [x.shape[1] * x.shape[3] for x in made]
    ends = np.cumsum([0, *sizes]).tolist()
    if ends[-1] != bias.size:
        raise UserError(f"a bias of {bias.size} elements for {' + '.join(map(str, sizes))}")
    lines = [
        bias.part(0, ends[i], ends[i + 1]).reshape([x.shape[1], 1, x.shape[3]]) for i, x in enumerate(made)
    ]
    return [x + line for x, line in zip(made, lines, strict=True)]


def _of_three(
    n: Node,
    parts: list[Tensor],
    mask: Tensor | None,
    bias: Tensor | None,
    past: tuple[Tensor | None, Tensor | None],
    causal: bool,
) -> list[Tensor]:
    q, k, v = parts
    before = 0
    if past[0] is not None and past[1] is not None:
        before = past[0].shape[2]
        k, v = (n.verbs.joined([old, new], 2) for old, new in ((past[0], k), (past[1], v)))
    if causal and k.shape[2] != before + q.shape[2]:
        raise n.limit(
            f"unidirectional attention of {q.shape[2]} queries over {k.shape[2]} keys that are not theirs"
        )
    made, scores = attended(n, q, k, v, mask, bias, before if causal else None)
    return [made, k, v, scores.cast(q.element)]


@contributed("MultiHeadAttention", outputs=4, unidirectional=0, **_SCALED)
def multi_head_attention(
    n: Node,
    query: Tensor,
    key: Tensor | None = None,
    value: Tensor | None = None,
    bias: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    attention_bias: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    past_sequence_length: Tensor | None = None,
    cache_indirection: Tensor | None = None,
) -> list[Tensor]:
    if past_sequence_length is not None or cache_indirection is not None:
        raise n.limit(f"{n.op} with a cache in one buffer, or of beams")
    parts = _separate(n, query, key, value, bias)
    return _of_three(
        n, parts, key_padding_mask, attention_bias, (past_key, past_value), n.flag("unidirectional")
    )


@contributed("DecoderMaskedMultiHeadAttention", outputs=4, output_qk=0, **_SCALED, **_SHARED)
def decoder_masked_multi_head_attention(
    n: Node,
    query: Tensor,
    key: Tensor | None = None,
    value: Tensor | None = None,
    mask_index: Tensor | None = None,
    attention_bias: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    past_sequence_length: Tensor | None = None,
    beam_width: Tensor | None = None,
    cache_indirection: Tensor | None = None,
    bias: Tensor | None = None,
) -> list[Tensor]:
    """One query for each sequence. With a shared buffer, present keys and values have the length of past ones."""
    if cache_indirection is not None:
        raise n.limit(f"{n.op} with a cache of beams")
    if key is None:
        raise n.limit(f"{n.op} with queries, keys and values in one tensor")
    parts = _separate(n, query, key, value, bias)
    if not n.flag("past_present_share_buffer") or past_key is None or past_value is None:
        return _of_three(n, parts, mask_index, attention_bias, (past_key, past_value), False)
    if past_sequence_length is None:
        raise UserError("a cache in one buffer (past_present_share_buffer), but no past_sequence_length")
    start = int(n.settle(past_sequence_length).reshape(()))
    before = (past_key.part(2, 0, start), past_value.part(2, 0, start))
    made, k, v, scores = _of_three(n, parts, mask_index, attention_bias, before, False)
    rest = [x.part(2, k.shape[2], x.shape[2]) for x in (past_key, past_value)]
    return [made, *(n.verbs.joined([x, r], 2) for x, r in zip((k, v), rest, strict=True)), scores]
