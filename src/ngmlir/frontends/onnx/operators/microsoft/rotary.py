# SPDX-License-Identifier: Apache-2.0
"""Rotary position embeddings."""

from __future__ import annotations

from .....ir.types import i64
from .....support.diagnostics import UserError
from ...nodes import Node
from ...schemas import contributed
from ...tensor import Tensor


@contributed(
    "RotaryEmbedding", interleaved=0, is_packed_batching=0, num_heads=0, rotary_embedding_dim=0, scale=1.0
)
def rotary_embedding(n: Node, x: Tensor, positions: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """x is [B, S, N * H] or [B, N, S, H]; positions are [B, S], or one number: the position of the first token."""
    if x.rank == 4:
        heads = x
    else:
        count, size = n.integer("num_heads"), 2 * cosines.shape[1]
        if n.integer("rotary_embedding_dim") and not count:
            raise UserError(
                "a part of each head is turned (rotary_embedding_dim), but num_heads is not stated"
            )
        count = count or x.shape[2] // size
        if not count or x.shape[2] % count:
            raise UserError(f"{x.shape[2]} elements in {count} heads")
        heads = x.reshape([*x.shape[:2], count, x.shape[2] // count]).transpose([0, 2, 1, 3])
    batch, length = heads.shape[0], heads.shape[2]
    if positions.size == 1 and positions.rank == 1:
        positions = positions.cast(i64).reshape([1, 1]) + n.verbs.arange(length).reshape([1, length])
    positions = positions.broadcast([batch, length])
    made = rotated(heads, positions, cosines, sines, n.flag("interleaved"))
    return made if x.rank == 4 else made.transpose([0, 2, 1, 3]).reshape(x.shape)


def rotated(x: Tensor, positions: Tensor, cosines: Tensor, sines: Tensor, interleaved: bool) -> Tensor:
    """Rotates pairs among the first 2 * P elements of each head of x[B, N, S, H]: adjacent elements if interleaved, else elements P
    apart. positions is [B, S]; cosines and sines are [positions, P]."""
    half = cosines.shape[1]
    if 2 * half > x.shape[3]:
        raise UserError(f"{half} pairs of elements in heads of {x.shape[3]}")
    part, rest = x.part(3, 0, 2 * half), x.part(3, 2 * half, x.shape[3])
    wide = part.computed()
    c, s = (table.computed().take(positions, 0).with_axes([1]) for table in (cosines, sines))
    if interleaved:
        pairs = wide.reshape([*x.shape[:3], half, 2])
        first, second = pairs.at(4, 0), pairs.at(4, 1)
        turned = x.verbs.stacked([first * c - second * s, first * s + second * c], 4)
    else:
        first, second = wide.part(3, 0, half), wide.part(3, half, 2 * half)
        turned = x.verbs.joined([first * c - second * s, first * s + second * c], 3)
    turned = turned.reshape(part.shape).cast(x.element)
    return turned if not rest.size else x.verbs.joined([turned, rest], 3)
