# SPDX-License-Identifier: Apache-2.0
"""Tiles read through an access: from the place that it gives them, with what lies beyond a border filled in."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from ...ir.core import Value
from ...ir.types import Type
from ...ops.builder import Builder
from ..access import Access, Place
from .frame import Frame, Span


def read(
    frame: Frame, spans: Sequence[Span], sizes: Sequence[int], access: Access, type: Type, buffer: Value
) -> Value:
    """A tile of `type` at `spans` of the loops of `sizes`, which the access speaks of."""
    b = frame.b
    indices = [_index(b, place, spans) for place in access.places]
    # A tile's dimensions are those of its loops that are tiled, in order; each runs along one dimension of the buffer.
    tiled = sorted((l, d) for d, place in enumerate(access.places) for l in place.terms if spans[l].size)
    dims = [d for _, d in tiled]
    steps = [access.places[d].terms[l] for l, d in tiled]
    usual = dims == list(range(len(indices) - len(dims), len(indices)))
    masked = any(spans[l].masked for l, _ in tiled)

    def load(masked: bool) -> Value:
        return b.load(
            buffer,
            indices,
            type=type,
            dims=None if usual else dims,
            steps=None if set(steps) <= {1} else steps,
            masked=masked,
            pad=access.fill if masked else None,
        )

    if access.fill is None or masked or frame.masks:
        return load(masked or access.fill is not None)
    bounds: list[tuple[Value, int, int]] = []
    for index, place, size in zip(indices, access.places, access.shape, strict=True):
        first, last = place.ends(sizes)
        if first >= 0 and last < size:
            continue
        reach = [stride * (spans[l].size - 1) for l, stride in place.terms.items() if spans[l].size]
        low, high = -sum(min(r, 0) for r in reach), size - 1 - sum(max(r, 0) for r in reach)
        if high < low:
            return load(True)  # the tile is longer than what it is read from
        bounds.append((index, low, high))
    inside = [
        b.bitwise_and(b.less_equal(b.index(low), at), b.less_equal(at, b.index(high)))
        for at, low, high in bounds
    ]
    # Most tiles lie inside the border, and need no mask.
    (tile,) = b.branch(reduce(b.bitwise_and, inside), lambda: [load(False)], lambda: [load(True)])
    return tile


def _index(b: Builder, place: Place, spans: Sequence[Span]) -> Value:
    """The position of a tile's first element."""
    parts = [
        spans[l].start if stride == 1 else b.multiply(spans[l].start, b.index(stride))
        for l, stride in place.terms.items()
    ]
    if place.offset or not parts:
        parts.append(b.index(place.offset))
    return reduce(b.add, parts)
