# SPDX-License-Identifier: Apache-2.0
"""Operators that read and write elements by index."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ....ir.types import i64
from ....support.diagnostics import UserError
from ..nodes import Node, operator
from ..tensor import Tensor


@operator("Gather")
def gather(n: Node, x: Tensor, indices: Tensor) -> Tensor:
    return n.verbs.gather(x, indices, axis=x.axis(n.integer("axis")))


@operator("GatherElements")
def gather_elements(n: Node, x: Tensor, indices: Tensor) -> Tensor:
    axis = x.axis(n.integer("axis"))
    # Indices may be fewer than the elements along the other axes.
    x = x.slice([0] * x.rank, [d if i == axis else indices.shape[i] for i, d in enumerate(x.shape)])
    return n.verbs.gather_elements(x, indices, axis=axis)


def flat_places(n: Node, indices: Tensor, lengths: Sequence[int]) -> Tensor:
    """Row by row positions of places that the last axis of `indices` holds; one outside is beyond the end."""
    places = indices.cast(i64)
    sizes = n.verbs.known(np.array(lengths, np.int64))
    places = (places < 0).where(places + sizes, places)
    strides = [prod(lengths[i + 1 :]) for i in range(len(lengths))]
    inside = ((places < sizes) & (places >= 0)).min([-1])
    flat = (places * n.verbs.known(np.array(strides, np.int64))).sum([-1])
    return inside.where(flat, prod(lengths))


@operator("GatherND")
def gather_nd(n: Node, x: Tensor, indices: Tensor) -> Tensor:
    batch, last = n.integer("batch_dims"), indices.shape[-1]
    lengths = x.shape[batch : batch + last]
    flat = flat_places(n, indices, lengths)
    rest = x.shape[batch + last :]
    outer = prod(x.shape[:batch])
    if batch:
        lines = flat.reshape([outer, flat.size // max(outer, 1)])
        first = n.verbs.arange(outer).reshape([outer, 1]) * prod(lengths)
        flat = (lines + first).reshape(flat.shape)
    return x.reshape([outer * prod(lengths), *rest]).take(flat, 0)


_COMBINE = {"none": "set", "add": "add", "max": "max", "min": "min"}


def scattered(n: Node, x: Tensor, places: Tensor, updates: Tensor, reduction: str) -> Tensor:
    """A tensor with slices along its first axis combined with updates."""
    if reduction in _COMBINE:
        return n.verbs.scatter(x, places, updates, axis=0, combine=_COMBINE[reduction])  # pyright: ignore[reportArgumentType]
    if reduction != "mul":
        raise UserError(f"there is no reduction '{reduction}'")
    if places.size > 4096:
        raise n.limit(f"a product of {places.size} updates by index")
    for i in range(places.size):
        place = places.part(0, i, i + 1)
        x = n.verbs.scatter(x, place, x.take(place, 0) * updates.part(0, i, i + 1), axis=0)
    return x


@operator("ScatterND")
def scatter_nd(n: Node, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    last = indices.shape[-1]
    lengths, rest = x.shape[:last], x.shape[last:]
    flat = flat_places(n, indices, lengths)
    flat = flat.reshape([flat.size])
    made = scattered(
        n,
        x.reshape([prod(lengths), *rest]),
        flat,
        updates.reshape([flat.size, *rest]),
        n.text("reduction", "none"),
    )
    return made.reshape(x.shape)


@operator("ScatterElements", "Scatter")
def scatter_elements(n: Node, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    axis = x.axis(n.integer("axis"))
    length = x.shape[axis]
    places = indices.cast(i64)
    places = (places < 0).where(places + length, places)
    inside = (places >= 0) & (places < length)
    stride = prod(x.shape[axis + 1 :])
    base = np.zeros(indices.shape, np.int64)
    for d in range(x.rank):
        if d != axis:
            line = np.arange(indices.shape[d]) * prod(x.shape[d + 1 :])
            base = base + line.reshape([-1 if i == d else 1 for i in range(x.rank)])
    flat = inside.where(places * stride + n.verbs.known(base), x.size)
    made = scattered(
        n,
        x.reshape([x.size]),
        flat.reshape([flat.size]),
        updates.reshape([flat.size]),
        n.text("reduction", "none"),
    )
    return made.reshape(x.shape)


@operator("TensorScatter")
def tensor_scatter(n: Node, x: Tensor, update: Tensor, written: Tensor | None = None) -> Tensor:
    axis = x.axis(n.integer("axis", -2))
    first, count, length = x.shape[0], update.shape[axis], x.shape[axis]
    start = n.verbs.numbers(0, i64, [first]) if written is None else written.cast(i64)
    places = start.with_axes([1]) + n.verbs.arange(count)
    if n.text("mode", "linear") == "circular":
        places = places % length
    flat = (places + n.verbs.arange(first).with_axes([1]) * length).reshape([first * count])
    order = [0, axis, *(d for d in range(x.rank) if d not in (0, axis))]
    back = [order.index(d) for d in range(x.rank)]
    held, new = x.transpose(order), update.transpose(order)
    rest = held.shape[2:]
    made = n.verbs.scatter(
        held.reshape([first * length, *rest]), flat, new.reshape([first * count, *rest]), axis=0
    )
    return made.reshape(held.shape).transpose(back)


# ---- sizes that depend on elements: the input decides, and is known while the program is made


@operator("NonZero")
def non_zero(n: Node, x: Tensor) -> Tensor:
    found = n.settle(x)
    return n.verbs.known(
        np.array(np.nonzero(found), np.int64).reshape(max(found.ndim, 1), -1)
        if found.ndim
        else np.zeros((0, int(found != 0)), np.int64)
    )


@operator("Compress")
def compress(n: Node, x: Tensor, condition: Tensor) -> Tensor:
    kept = np.flatnonzero(n.settle(condition)).tolist()
    if "axis" not in n.attributes:
        return x.reshape([x.size]).take(kept, 0)
    return x.take(kept, n.integer("axis"))


@operator("ArrayFeatureExtractor", domain="ai.onnx.ml")
def array_feature_extractor(n: Node, x: Tensor, indices: Tensor) -> Tensor:
    x = x if x.rank > 1 else x.with_axes([0])  # the result has an axis before them too
    return n.verbs.gather(x, indices.reshape([indices.size]), axis=x.rank - 1)


@operator("Binarizer", domain="ai.onnx.ml")
def binarizer(n: Node, x: Tensor) -> Tensor:
    return (x > n.number("threshold")).cast(x.element)
