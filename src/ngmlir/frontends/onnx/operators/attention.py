# SPDX-License-Identifier: Apache-2.0
"""Attention of the standard, and what the attentions of every domain are computed with.

Shapes: B sequences, N heads of queries, K heads of keys and values (each for N / K heads of queries, one after the other), S queries,
T keys (those before and those of this call), H elements of a head.
"""

from __future__ import annotations

from math import inf, sqrt

from ....ir.literals import item_bytes
from ....ir.types import i1, i32
from ....support.diagnostics import UserError
from ....support.lengths import is_same
from ..nodes import Node, operator
from ..tensor import Tensor
from .products import dot


def heads_of(x: Tensor, count: int) -> Tensor:
    """[B, S, N * H] as [B, N, S, H]."""
    if count < 1 or x.shape[-1] % count:
        raise UserError(f"{x.shape[-1]} elements in {count} heads")
    return x.reshape([*x.shape[:2], count, x.shape[2] // count]).transpose([0, 2, 1, 3])


def joined_heads(x: Tensor) -> Tensor:
    """[B, N, S, H] as [B, S, N * H]."""
    b, count, length, size = x.shape
    return x.transpose([0, 2, 1, 3]).reshape([b, length, count * size])


def scores_of(n: Node, q: Tensor, k: Tensor) -> Tensor:
    """Scaled scores [B, N, S, T] of queries and keys."""
    (batch, count, length, size), (_, shared, total, other) = q.shape, k.shape
    if size != other:
        raise UserError(f"queries of {size} elements and keys of {other}")
    if not shared or count % shared:
        raise UserError(f"{count} heads of queries share {shared} of keys")
    rows = q.computed().reshape([batch, shared, count // shared * length, size])
    scores = dot(rows, k.computed(), [3], [3], [0, 1], [0, 1]) * (n.number("scale") or 1 / sqrt(size))
    return scores.reshape([batch, count, length, total])


def weighted_values(weights: Tensor, v: Tensor) -> Tensor:
    """Values weighted for each query: [B, N, S, H], in the elements of the weights."""
    (batch, count, length, total), (_, shared, _, size) = weights.shape, v.shape
    rows = weights.reshape([batch, shared, count // shared * length, total])
    made = dot(rows, v.cast(weights.element), [3], [2], [0, 1], [0, 1])
    return made.reshape([batch, count, length, size])


def capped(n: Node, scores: Tensor) -> Tensor:
    """Scores between plus and minus `softcap`, where the node states one."""
    cap = n.number("softcap")
    return n.verbs.tanh(scores / cap) * cap if cap > 0 else scores


def causal_mask(n: Node, length: int, total: int, before: Tensor) -> Tensor:
    """[..., S, T]: true where a key is not later than a query; `before`, [...], is the position of the first query."""
    return _keys(n, total) <= _places(n, length, before)


def _keys(n: Node, total: int) -> Tensor:
    return n.verbs.counted(total, i32)


def _places(n: Node, length: int, before: Tensor) -> Tensor:
    """The positions of queries, [..., S, 1]."""
    line = n.verbs.counted(length, i32).with_axes([1])
    return line + before.cast(i32).reshape([*before.shape, 1, 1])


@operator("Attention")
def attention(
    n: Node,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    lengths: Tensor | None = None,
) -> list[Tensor]:
    """`lengths`, [B], says how many of the keys are there; the last of them are those of the queries."""
    heads = [n.integer("q_num_heads"), *[n.integer("kv_num_heads")] * 2]
    q, k, v = (
        heads_of(x, count) if x.rank == 3 else x for x, count in zip((query, key, value), heads, strict=True)
    )
    before = n.verbs.numbers(0, i32)
    if lengths is not None:
        before = lengths.cast(i32) - n.verbs.length(q.shape[2], i32)
    elif past_key is not None and past_value is not None:
        before = n.verbs.length(past_key.shape[2], i32)
        k, v = n.verbs.joined([past_key, k], 2), n.verbs.joined([past_value, v], 2)
    raw = scores_of(n, q, k)
    limited = capped(n, raw)
    mask = None if mask is None else _whole(mask, k.shape[2])
    seen = _seen(n, q.shape[2], k.shape[2], before, lengths, mask)
    masked = limited if mask is None or mask.element is i1 else limited + mask.cast(limited.element)
    masked = masked if seen is None else seen.where(masked, -inf)
    weights = _softmax(n, masked)
    made, shown = weighted_values(weights, v), [raw, limited, masked, weights]
    if mask is not None or lengths is not None or n.integer("left_window_size", -1) >= 0:
        # A query that sees no key gets zeros, not NaN.
        some, nothing = _some(mask, seen), n.verbs.numbers(0, raw.element)
        made, shown[3] = some.where(made, nothing), some.where(weights, nothing)
    made = made.cast(query.element)
    chosen = shown[n.integer("qk_matmul_output_mode")].cast(query.element)
    return [joined_heads(made) if query.rank == 3 else made, k, v, chosen]


def _whole(mask: Tensor, total: int) -> Tensor:
    """A mask for all keys: those that it has no elements for are not seen."""
    given = mask.shape[-1]
    if is_same(given, total):
        return mask
    return mask.pad(
        [0] * mask.rank, [*[0] * (mask.rank - 1), total - given], 0 if mask.element is i1 else -inf
    )


def _seen(
    n: Node, length: int, total: int, before: Tensor, lengths: Tensor | None, mask: Tensor | None
) -> Tensor | None:
    """Which keys queries attend to, of a shape that is broadcast to [B, N, S, T]; None: to all."""
    keys, places = _keys(n, total), _places(n, length, before)
    left, right = n.integer("left_window_size", -1), n.integer("right_window_size", -1)
    right = 0 if n.flag("is_causal") else right
    found = list[Tensor]()
    if right >= 0:
        found.append(keys <= places + right)
    if left >= 0:
        found.append(keys >= places - left)
    if lengths is not None:
        found.append(keys < lengths.cast(i32).reshape([lengths.size, 1, 1]))
    # Lengths differ from sequence to sequence, not from head to head.
    found = [x.with_axes([1]) if x.rank == 3 else x for x in found]
    if mask is not None and mask.element is i1:
        found.append(mask)
    made: Tensor | None = None
    for each in found:
        made = each if made is None else made & each
    return made


def _softmax(n: Node, scores: Tensor) -> Tensor:
    """In elements at least as wide as `softmax_precision`."""
    wanted = n.element("softmax_precision", scores.element)
    wide = scores.cast(wanted) if item_bytes(wanted) > item_bytes(scores.element) else scores
    return n.verbs.softmax(wide, axes=[3]).cast(scores.element)


def _some(mask: Tensor | None, seen: Tensor | None) -> Tensor:
    """Which queries see a key, [..., 1]."""
    given = None if mask is None or mask.element is i1 else mask.differs(-inf)
    shown = [x for x in (given, seen) if x is not None]
    return (shown[0] if len(shown) == 1 else shown[0] & shown[1]).any([-1], keep=True)
