# SPDX-License-Identifier: Apache-2.0
"""Choices of boxes: how many are left depends on elements, which therefore decide a shape."""

from __future__ import annotations

import numpy as np

from ..nodes import Node, operator
from ..tensor import Array, Tensor


@operator("NonMaxSuppression")
def non_max_suppression(
    n: Node,
    boxes: Tensor,
    scores: Tensor,
    most: Tensor | None = None,
    overlap: Tensor | None = None,
    least: Tensor | None = None,
) -> Tensor:
    """[image, class, box] of the boxes that are left, in the order in which they were chosen."""
    limit = int(n.settle(most).reshape(-1)[0]) if most is not None else 0
    share = float(n.settle(overlap).reshape(-1)[0]) if overlap is not None else 0.0
    lowest = float(n.settle(least).reshape(-1)[0]) if least is not None else None
    places, values = n.settle(boxes), n.settle(scores)
    corners = _corners(places, n.integer("center_point_box") != 0)
    found: list[list[int]] = []
    for image in range(values.shape[0]):
        for kind in range(values.shape[1]):
            kept = _kept(corners[image], values[image, kind], limit, share, lowest)
            found.extend([image, kind, box] for box in kept)
    return n.verbs.known(np.array(found, np.int64).reshape(-1, 3))


def _corners(boxes: Array, centred: bool) -> Array:
    """The lower and upper corners of boxes, whichever corners are given."""
    if centred:
        x, y, width, height = np.moveaxis(boxes, -1, 0)
        return np.stack([y - height / 2, x - width / 2, y + height / 2, x + width / 2], -1)
    first, second = boxes[..., :2], boxes[..., 2:]
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], -1)


def _kept(boxes: Array, scores: Array, limit: int, share: float, lowest: float | None) -> list[int]:
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    ranked: list[int] = np.argsort(-scores, kind="stable").tolist()
    order = [i for i in ranked if lowest is None or scores[i] > lowest]
    kept: list[int] = []
    while order and len(kept) < limit:
        best = order.pop(0)
        kept.append(best)
        rest = np.array(order, np.int64)
        sides = np.minimum(boxes[rest, 2:], boxes[best, 2:]) - np.maximum(boxes[rest, :2], boxes[best, :2])
        both = np.prod(np.maximum(sides, 0), axis=-1)
        union = areas[rest] + areas[best] - both
        left: list[int] = rest[~(both > share * union)].tolist()
        order = left
    return kept
