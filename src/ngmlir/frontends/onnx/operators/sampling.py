# SPDX-License-Identifier: Apache-2.0
"""Operators that read an image between its elements."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np

from ....ir.types import f32, f64, i64
from ....support.diagnostics import UserError
from ..nodes import Node, operator
from ..tensor import Tensor
from .quantization import rounded


@operator("GridSample")
def grid_sample(n: Node, x: Tensor, grid: Tensor) -> Tensor:
    """x[N, C, lengths...] at the places grid[N, out..., places], whose last one is along the last axis of x."""
    lengths = x.shape[2:]
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(n.text("mode", "linear"), n.text("mode", "linear"))
    padding, corners = n.text("padding_mode", "zeros"), n.flag("align_corners")
    if grid.shape[-1] != len(lengths) or grid.shape[0] != x.shape[0]:
        raise UserError(f"places {list(grid.shape)} do not fit {list(x.shape)}")
    places = [_place(grid.at(-1, len(lengths) - 1 - d), length, corners) for d, length in enumerate(lengths)]
    if mode == "nearest":
        return _read(
            n,
            x,
            [n.verbs.round(_inside(n, p, d, padding, corners)) for p, d in zip(places, lengths, strict=True)],
            padding,
            corners,
        )
    if mode == "linear":
        places = [_inside(n, p, d, padding, corners) for p, d in zip(places, lengths, strict=True)]
    wide = f64 if f64 in (x.element, grid.element) else f32
    if x.element is not grid.element:  # they need not have one type
        places = [p.cast(wide) for p in places]
        made = between(n, x.cast(wide), places, mode == "cubic", padding, corners)
        return made.cast(x.element) if x.is_float else rounded(n, made, x.element)
    return between(n, x, places, mode == "cubic", padding, corners)


def between(n: Node, x: Tensor, places: list[Tensor], cubic: bool, padding: str, corners: bool) -> Tensor:
    """x[N, C, lengths...] at places between its elements, each [N, out...] and along one axis."""
    first = [n.verbs.floor(p) for p in places]
    rest = [p - f for p, f in zip(places, first, strict=True)]
    total: Tensor | None = None
    for steps in product((-1, 0, 1, 2) if cubic else (0, 1), repeat=len(places)):
        weight = None
        for step, r in zip(steps, rest, strict=True):
            distance = n.verbs.absolute(r - step)
            each = _cubic(distance) if cubic else 1 - distance
            weight = each if weight is None else weight * each
        assert weight is not None
        found = _read(n, x, [f + s for f, s in zip(first, steps, strict=True)], padding, corners)
        part = found * weight.with_axes([1])
        total = part if total is None else total + part
    assert total is not None
    return total


def _place(g: Tensor, length: int, corners: bool) -> Tensor:
    """From -1 to 1 to an element of an axis."""
    return (g + 1) * ((length - 1) / 2) if corners else ((g + 1) * length - 1) / 2


def _inside(n: Node, place: Tensor, length: int, padding: str, corners: bool) -> Tensor:
    """A place as the padding moves it into the axis; of zeros as it is."""
    if padding == "border":
        return place.maximum(0).minimum(length - 1)
    if padding != "reflection":
        return place
    low, high = (0.0, length - 1.0) if corners else (-0.5, length - 0.5)
    span = high - low
    if span <= 0:
        return place * 0
    folded = (place - low) % (2 * span)
    return folded.minimum(2 * span - folded) + low


def _read(n: Node, x: Tensor, places: list[Tensor], padding: str, corners: bool) -> Tensor:
    """Elements at whole places; those outside as the padding says."""
    lengths = x.shape[2:]
    count, channels, out = x.shape[0], x.shape[1], places[0].shape[1:]
    flat, inside = None, None
    for place, length in zip(places, lengths, strict=True):
        moved = _inside(n, place, length, padding, corners)
        within = (moved >= 0) & (moved <= length - 1)
        index = moved.maximum(0).minimum(length - 1).cast(i64)
        flat = index if flat is None else flat * length + index
        inside = within if inside is None else inside & within
    assert flat is not None and inside is not None
    base = n.verbs.known((np.arange(count) * prod(lengths)).reshape([count, *[1] * len(out)]))
    rows = x.moved(1, -1).reshape([count * prod(lengths), channels])
    found = rows.take(flat + base, 0).moved(-1, 1)
    return inside.with_axes([1]).where(found, 0) if padding == "zeros" else found


def _cubic(distance: Tensor, a: float = -0.75) -> Tensor:
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return (distance <= 1).where(near, (distance < 2).where(far, 0))
