# SPDX-License-Identifier: Apache-2.0
"""Operators that order elements."""

from __future__ import annotations

import numpy as np

from ....ir.types import TensorType, i1, i64, ui8
from ....support.diagnostics import UserError
from ..nodes import Node, operator
from ..tensor import Tensor


@operator("TopK")
def top_k(n: Node, x: Tensor, k: Tensor | None = None) -> list[Tensor]:
    axis = x.axis(n.integer("axis", -1))
    count = n.integer("k") if k is None else int(n.settle(k).reshape(-1)[0])
    if not 0 <= count <= x.shape[axis]:
        raise UserError(f"the {count} greatest of {x.shape[axis]} elements")
    wide = x.cast(ui8) if x.element is i1 else x
    kept = TensorType((*x.shape[:axis], count, *x.shape[axis + 1 :]), i64)
    places = n.verbs.argsort(wide, type=kept, axis=axis, descending=n.flag("largest", True))
    return [n.verbs.gather_elements(x, places, axis=axis), places]


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
