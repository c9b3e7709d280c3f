# SPDX-License-Identifier: Apache-2.0
"""Operators that read an image in regions or at places that other tensors tell."""

from __future__ import annotations

from math import prod

import numpy as np

from ....ir.types import i64
from ....support.diagnostics import UserError
from ..nodes import Node, operator
from ..tensor import Tensor
from .products import dot
from .sampling import between


@operator("RoiAlign")
def roi_align(n: Node, x: Tensor, boxes: Tensor, images: Tensor) -> Tensor:
    """[box, channel, row, column]: means (or maxima) of places between elements, a grid of them in each cell of a box."""
    out = [n.integer("output_height", 1), n.integer("output_width", 1)]
    half = n.text("coordinate_transformation_mode", "half_pixel" if n.version >= 16 else "") == "half_pixel"
    shift = 0.5 if half else 0.0
    scaled = boxes * n.number("spatial_scale", 1.0)
    starts = [scaled.at(1, 1) - shift, scaled.at(1, 0) - shift]
    lengths = [scaled.at(1, 3) - shift - starts[0], scaled.at(1, 2) - shift - starts[1]]
    if not half:
        lengths = [length.maximum(1) for length in lengths]
    if n.integer("sampling_ratio"):
        return _aligned(n, x, images, starts, lengths, out, [n.integer("sampling_ratio")] * 2)
    # As many places as elements are in a cell: boxes decide shapes, and those with the same number go together.
    counts = np.stack(
        [np.maximum(np.ceil(n.settle(length) / o), 1) for length, o in zip(lengths, out, strict=True)], 1
    ).astype(np.int64)
    if not counts.size:
        return n.verbs.numbers(0, x.element, [0, x.shape[1], *out])
    kinds, kind = np.unique(counts, axis=0, return_inverse=True)
    order = np.argsort(kind.reshape(-1), kind="stable")
    made: list[Tensor] = []
    for i, grid in enumerate(kinds.tolist()):
        mine: list[int] = np.flatnonzero(kind.reshape(-1) == i).tolist()
        taken = [[t.take(mine, 0) for t in ts] for ts in (starts, lengths)]
        made.append(_aligned(n, x, images.take(mine, 0), taken[0], taken[1], out, grid))
    return n.verbs.joined(made, 0).take(np.argsort(order).tolist(), 0)


def _aligned(
    n: Node,
    x: Tensor,
    images: Tensor,
    starts: list[Tensor],
    lengths: list[Tensor],
    out: list[int],
    grid: list[int],
) -> Tensor:
    boxes, (height, width) = starts[0].shape[0], x.shape[2:]
    lows: list[Tensor] = []
    highs: list[Tensor] = []
    weights: list[list[Tensor]] = []
    for d, limit in enumerate((height, width)):
        steps = (np.arange(out[d])[:, None] + (np.arange(grid[d]) + 0.5) / grid[d]).reshape(-1)
        cell = lengths[d].with_axes([1]) * (1 / out[d])
        place = starts[d].with_axes([1]) + cell * n.verbs.known(steps).cast(x.element)
        inside = ((place >= -1) & (place <= limit)).cast(x.element)
        place = place.maximum(0).minimum(limit - 1)
        low = n.verbs.floor(place)
        lows.append(low.cast(i64))
        highs.append((low + 1).minimum(limit - 1).cast(i64))
        weights.append([(1 - (place - low)) * inside, (place - low) * inside])
    rows = x.moved(1, -1).reshape([x.shape[0] * height * width, x.shape[1]])
    base = (images.cast(i64) * (height * width)).reshape([boxes, 1, 1])
    parts: list[Tensor] = []
    for down, y in enumerate((lows[0], highs[0])):
        for right, at in enumerate((lows[1], highs[1])):
            index = base + (y * width).with_axes([2]) + at.with_axes([1])
            weight = weights[0][down].with_axes([2]) * weights[1][right].with_axes([1])
            parts.append(rows.take(index, 0) * weight.with_axes([3]))
    first, second, third, fourth = parts
    largest = n.text("mode", "avg") == "max"
    both = (
        first.maximum(second).maximum(third.maximum(fourth))
        if largest
        else (first + second) + (third + fourth)
    )
    cells = both.reshape([boxes, out[0], grid[0], out[1], grid[1], x.shape[1]])
    return (cells.max([2, 4]) if largest else cells.mean([2, 4])).moved(-1, 1)


@operator("MaxRoiPool")
def max_roi_pool(n: Node, x: Tensor, boxes: Tensor) -> Tensor:
    """Maxima of the elements in each cell of boxes, whose corners are elements."""
    out = n.given("pooled_shape", [])
    known = n.settle(boxes).astype(np.float64)
    places = np.floor(known[:, 1:] * n.number("spatial_scale", 1.0) + 0.5)
    made: list[Tensor] = []
    for image, (left, top, right, bottom) in zip(
        known[:, 0].astype(int).tolist(), places.tolist(), strict=True
    ):
        whole = x.part(0, image, image + 1)
        spans = [_cells(top, bottom, out[0], x.shape[2]), _cells(left, right, out[1], x.shape[3])]
        for low, high in spans[0]:
            for first, last in spans[1]:
                empty = high <= low or last <= first
                cell = n.verbs.numbers(0, x.element, [1, x.shape[1]])
                made.append(cell if empty else whole.part(2, low, high).part(3, first, last).max([2, 3]))
    if not made:
        return n.verbs.numbers(0, x.element, [0, x.shape[1], *out])
    joined = n.verbs.stacked(made, 2)
    return joined.reshape([x.shape[1], len(known), *out]).moved(0, 1)


def _cells(low: float, high: float, count: int, limit: int) -> list[tuple[int, int]]:
    size = max(high - low + 1, 1) / count
    return [
        (
            int(min(max(np.floor(i * size) + low, 0), limit)),
            int(min(max(np.ceil((i + 1) * size) + low, 0), limit)),
        )
        for i in range(count)
    ]


@operator("DeformConv")
def deform_conv(
    n: Node,
    x: Tensor,
    filters: Tensor,
    offset: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """A convolution whose windows read where the offsets say, each channel group in its own places."""
    rank = x.rank - 2
    kernel = n.given("kernel_shape", filters.shape[2:])
    strides, dilations = n.given("strides", [1] * rank), n.given("dilations", [1] * rank)
    pads, group = n.given("pads", [0] * 2 * rank), n.integer("group", 1)
    parts, count, channels = n.integer("offset_group", 1), x.shape[0], x.shape[1]
    out, taps = list(offset.shape[2:]), prod(kernel)
    if offset.shape[1] != parts * taps * rank or channels % parts or channels != filters.shape[1] * group:
        raise UserError(f"offsets {list(offset.shape)} do not fit windows {kernel} of {list(x.shape)}")
    moves = offset.reshape([count * parts, *kernel, rank, *out])
    places: list[Tensor] = []
    for d in range(rank):
        line = (
            np.arange(kernel[d])[:, None] * dilations[d] + np.arange(out[d])[None, :] * strides[d] - pads[d]
        )
        shape = [kernel[d] if i == d else 1 for i in range(rank)] + [
            out[d] if i == d else 1 for i in range(rank)
        ]
        places.append(moves.at(1 + rank, d) + n.verbs.known(line.reshape(shape)).cast(x.element))
    split = x.reshape([count * parts, channels // parts, *x.shape[2:]])
    read = between(n, split, places, False, "zeros", True)
    if mask is not None:
        read = read * mask.reshape([count * parts, 1, *kernel, *out])
    columns = read.reshape([count, group, channels // group * taps, prod(out)])
    rows = filters.reshape([group, filters.shape[0] // group, channels // group * taps])
    made = dot(rows, columns, [2], [2], [0], [1]).moved(2, 0).reshape([count, filters.shape[0], *out])
    return made if bias is None else made + bias.reshape([filters.shape[0], *[1] * rank])
