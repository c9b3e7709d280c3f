# SPDX-License-Identifier: Apache-2.0
"""The gradients of products."""

from __future__ import annotations

from collections.abc import Sequence

from ..fields import get_i64s
from .rules import Applied, GradientVerbs, Rules, V, others

PRODUCTS = Rules()


@PRODUCTS.of("dot")
def _dot(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    lhs, rhs = op.operands
    lb, rb, lc, rc = (get_i64s(op, n) for n in ("lhs_batch", "rhs_batch", "lhs_contract", "rhs_contract"))
    l_free, r_free = others(v, lhs, (*lb, *lc)), others(v, rhs, (*rb, *rc))
    batch = list(range(len(lb)))
    l_places = [len(batch) + i for i in range(len(l_free))]
    r_places = [len(batch) + len(l_free) + i for i in range(len(r_free))]
    to_lhs = to_rhs = None
    if op.wanted[0]:
        made = v.dot(
            delta,
            v.cast_like(rhs, delta),
            lhs_contract=r_places,
            rhs_contract=r_free,
            lhs_batch=batch,
            rhs_batch=rb,
        )
        # Its dimensions: batch, free ones of lhs, contracted ones in the order in which rhs has them.
        source = [*lb, *l_free, *(lc[rc.index(d)] for d in sorted(rc))]
        to_lhs = _ordered(v, made, source, lhs)
    if op.wanted[1]:
        made = v.dot(
            v.cast_like(lhs, delta),
            delta,
            lhs_contract=l_free,
            rhs_contract=l_places,
            lhs_batch=lb,
            rhs_batch=batch,
        )
        source = [*rb, *(rc[lc.index(d)] for d in sorted(lc)), *r_free]
        to_rhs = _ordered(v, made, source, rhs)
    return [to_lhs, to_rhs]


def _ordered(v: GradientVerbs[V], value: V, source: list[int], like: V) -> V:
    """`value`, whose dimension i is dimension source[i] of `like`, in the order of `like`."""
    order = [source.index(d) for d in range(len(source))]
    value = v.transpose(value, permutation=order) if order != sorted(order) else value
    return v.rename_like(v.cast_like(value, like), like)
