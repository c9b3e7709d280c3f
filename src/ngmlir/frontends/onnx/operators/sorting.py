# SPDX-License-Identifier: Apache-2.0
"""Operators that order elements."""

from __future__ import annotations

import numpy as np

from ....ir.types import i64
from ..nodes import Node, operator
from ..tensor import Tensor

#: Ranks are found by comparing each element with each.
_LONGEST = 8192


@operator("TopK")
def top_k(n: Node, x: Tensor, k: Tensor | None = None) -> list[Tensor]:
    axis = x.axis(n.integer("axis", -1))
    count = n.integer("k") if k is None else int(n.settle(k).reshape(-1)[0])
    order = ordered(n, x.moved(axis, -1), n.flag("largest", True))
    places = order.part(-1, 0, count).moved(-1, axis)
    return [n.verbs.gather_elements(x, places, axis=axis), places]


def ordered(n: Node, x: Tensor, descending: bool) -> Tensor:
    """Positions along the last axis in the order of the elements, the first of equals first."""
    length = x.shape[-1]
    if length > _LONGEST:
        raise n.limit(f"the order of {length} elements", f"at most {_LONGEST} are ordered")
    mine, other = x.with_axes([-1]), x.with_axes([-2])
    before = other > mine if descending else other < mine
    line = np.arange(length)
    earlier = n.verbs.known(line[None, :] < line[:, None])
    rank = (before | (other.equals(mine) & earlier)).cast(i64).sum([-1])
    chosen = rank.with_axes([-2]).equals(n.verbs.arange(length).reshape([length, 1]))
    return chosen.where(n.verbs.arange(length), n.verbs.numbers(0, i64)).sum([-1])


@operator("Unique")
def unique(n: Node, x: Tensor) -> list[Tensor]:
    array = n.settle(x)
    axis = n.integer("axis") if "axis" in n.attributes else None
    values, first, inverse, counts = np.unique(array, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not n.flag("sorted", True):
        order = np.argsort(first)
        values = np.take(values, order, axis=axis or 0)
        first, counts = first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    return [n.verbs.known(values), *(n.verbs.known(a.astype(np.int64)) for a in (first, inverse, counts))]
