# SPDX-License-Identifier: Apache-2.0
"""Operators that rearrange or compare elements; most differ little from standard ones."""

from __future__ import annotations

import numpy as np

from .....support.diagnostics import UserError
from ...nodes import Node
from ...schemas import contributed
from ...tensor import Tensor
from .. import sorting
from ..indexing import gather_nd
from ..layout import pad, range_, trilu
from ..products import dot
from ..sampling import grid_sample
from .activations import standard_node


@contributed("Trilu", upper=1)
def trilu_of(n: Node, x: Tensor, k: Tensor | None = None) -> Tensor:
    return trilu(n, x, k)


@contributed("GatherND")
def gather_nd_of(n: Node, x: Tensor, indices: Tensor) -> Tensor:
    return gather_nd(n, x, indices)


@contributed("GridSample", align_corners=0, mode="bilinear", padding_mode="zeros")
def grid_sample_of(n: Node, x: Tensor, grid: Tensor) -> Tensor:
    return grid_sample(n, x, grid)


@contributed("Range")
def range_of(n: Node, start: Tensor, limit: Tensor, delta: Tensor | None = None) -> Tensor:
    return range_(n, start, limit, n.verbs.numbers(1, start.element) if delta is None else delta)


@contributed("Pad", mode="constant")
def pad_of(n: Node, x: Tensor, pads: Tensor, value: Tensor | None = None) -> Tensor:
    return pad(standard_node(n, "Pad"), x, pads.reshape([pads.size]), value)


@contributed("ExpandDims")
def expand_dims(n: Node, x: Tensor, axis: Tensor) -> Tensor:
    return x.with_axes([int(n.settle(axis).reshape(-1)[0])])


@contributed("Unique", outputs=3)
def unique(n: Node, x: Tensor) -> list[Tensor]:
    """Unique elements in order of first occurrence; the elements decide the shape."""
    made = sorting.unique(standard_node(n, "Unique", sorted=0), x)
    return [made[0], made[2], made[3]]


@contributed("UnfoldTensor", dim=-1, size=int, step=1)
def unfold_tensor(n: Node, x: Tensor) -> Tensor:
    """Sliding windows along an axis; the elements of a window are the last dimension."""
    axis, size, step = x.axis(n.integer("dim")), n.integer("size"), n.integer("step")
    if size > x.shape[axis] or step < 1 or size < 1:
        raise UserError(f"windows of {size} elements, {step} apart, over {x.shape[axis]}")
    count = (x.shape[axis] - size) // step + 1
    places = (np.arange(count)[:, None] * step + np.arange(size)[None, :]).reshape(-1)
    made = x.take(places.tolist(), axis)
    return made.reshape([*x.shape[:axis], count, size, *x.shape[axis + 1 :]]).moved(axis + 1, -1)


@contributed("CDist", metric="sqeuclidean")
def cdist(n: Node, a: Tensor, b: Tensor) -> Tensor:
    """The distances [M, K] of the rows of a[M, N] and b[K, N]."""
    metric = n.text("metric")
    if metric not in ("sqeuclidean", "euclidean"):
        raise n.limit(f"the distance '{metric}'", "there are sqeuclidean and euclidean")
    squares = [(x * x).sum([1]) for x in (a, b)]
    made = squares[0].with_axes([1]) + squares[1].with_axes([0]) - dot(a, b, [1], [1]) * 2
    made = made.maximum(0)
    return n.verbs.sqrt(made) if metric == "euclidean" else made


@contributed("ComplexMul", "ComplexMulConj")
def complex_mul(n: Node, a: Tensor, b: Tensor) -> Tensor:
    """The last axis holds real and imaginary parts."""
    (ar, ai), (br, bi) = ((x.at(-1, 0), x.at(-1, 1)) for x in (a, b))
    bi = -bi if n.op == "ComplexMulConj" else bi
    made = [ar * br - ai * bi, ar * bi + ai * br]
    return n.verbs.stacked(made, made[0].rank)
