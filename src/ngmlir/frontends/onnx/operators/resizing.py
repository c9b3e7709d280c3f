# SPDX-License-Identifier: Apache-2.0
"""Resize and Upsample: along each axis a product with a matrix of weights, or a choice of elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from ....ir.literals import dtype_of
from ....ir.types import FloatType, f32, f64, i64
from ....support.diagnostics import UserError
from ....support.lengths import is_same
from ..nodes import Node, operator
from ..tensor import Array, Tensor
from .products import dot
from .quantization import rounded

T = TypeVar("T", Array, Tensor)
#: Of scales that are multiples of one over this, lengths are computed exactly, and thus also where they are open.
_LEAST_FRACTION = 1024


@operator("Resize", "Upsample")
def resize(n: Node, x: Tensor, *inputs: Tensor | None) -> Tensor:
    roi, scales, sizes = _inputs(n, x, inputs)
    mode, transform, element = n.text("mode", "nearest"), n.text("coordinate_transformation_mode"), x.element
    if mode != "nearest":  # weights are fractions, which are summed in f32 at least
        x = x.cast(f32 if dtype_of(element).itemsize <= 2 or element is f32 else f64)
    for axis in range(x.rank):
        length, out = x.shape[axis], sizes[axis]
        scale = scales[axis]
        if scale in (None, 1) and out == length and transform != "tf_crop_and_resize":
            continue
        # In f32, in which scales are: 11 divided by the nearest number to 2.2 is 5, an element and no place below it.
        kind = f32 if mode == "nearest" else f64
        long, wide = n.verbs.length(length, kind), n.verbs.length(out, kind)
        factor = wide / long if scale is None else n.verbs.numbers(scale, kind)
        places = _places(n, n.verbs.arange(out).cast(kind), long, wide, factor, roi[axis])
        if mode == "nearest":
            resized = x.take(_within(_nearest(n, places, factor), long), axis)
        elif n.flag("antialias") or n.flag("exclude_outside"):
            known = out / length if scale is None else scale
            resized = _weighted(x, axis, _weights(n, n.settle(places), length, known, mode))
        else:
            resized = _between(n, x, axis, places, mode)
        if transform == "tf_crop_and_resize":
            outside = (places < 0) | (places > long - 1)
            line = outside.reshape([out if d == axis else 1 for d in range(x.rank)])
            resized = line.where(n.verbs.numbers(n.number("extrapolation_value"), x.element), resized)
        x = resized
    if x.element is element or isinstance(element, FloatType):
        return x.cast(element)
    return rounded(n, x, element)


def _is_early(n: Node) -> bool:
    """Whether a node is of the time before coordinates and roundings could be chosen."""
    return n.op == "Upsample" or n.version < 11


def _stated(n: Node) -> Sequence[float]:
    """Scales that are attributes: of all axes, or, at first, of the last two."""
    early = n.number("height_scale"), n.number("width_scale")
    return n.floats("scales") or ([1.0, 1.0, *early] if any(early) else [])


def _inputs(
    n: Node, x: Tensor, inputs: tuple[Tensor | None, ...]
) -> tuple[list[tuple[float, float]], list[float | None], list[int]]:
    """For each axis: the part that is taken, the scale (None: as lengths say), the length of the result."""
    given = list(inputs) + [None] * 3
    if _is_early(n):
        roi, factors, lengths = None, given[0], None
    else:
        roi, factors, lengths = given[0], given[1], given[2]
    axes = [x.axis(a) for a in n.given("axes", range(x.rank))]
    stated = _stated(n) if factors is None else [float(s) for s in n.settle(factors).reshape(-1)]
    wanted = n.settled(lengths)
    parts = [(0.0, 1.0)] * x.rank
    scales: list[float | None] = [1.0] * x.rank
    sizes = list(x.shape)
    if roi is not None and roi.size:
        numbers = n.settle(roi).reshape(-1).astype(float).tolist()
        for i, axis in enumerate(axes):
            parts[axis] = (numbers[i], numbers[i + len(axes)])
    if stated:
        for axis, scale in zip(axes, stated, strict=True):
            low, high = (
                parts[axis]
                if n.text("coordinate_transformation_mode") == "tf_crop_and_resize"
                else (0.0, 1.0)
            )
            scales[axis], sizes[axis] = scale, _scaled(x.shape[axis], high - low, scale)
    elif wanted:
        policy = n.text("keep_aspect_ratio_policy", "stretch")
        empty = [a for a, w in zip(axes, wanted, strict=True) if is_same(x.shape[a], 0) and w]
        if empty:
            raise UserError(f"dimension {empty[0]} of the operand has no elements", hint="feed at least one")
        one = None
        if policy != "stretch":
            each = [w / x.shape[a] if w else 0.0 for w, a in zip(wanted, axes, strict=True)]
            one = min(each) if policy == "not_larger" else max(each)
            wanted = [math.floor(x.shape[a] * one + 0.5) for a in axes]
        for axis, length in zip(axes, wanted, strict=True):
            scales[axis], sizes[axis] = one, length
    else:
        raise UserError("neither scales nor sizes are given")
    if any(s is not None and (s <= 0 or not math.isfinite(s)) for s in scales) or any(s < 0 for s in sizes):
        raise UserError(f"scales {scales}")
    return parts, scales, sizes


def _scaled(length: int, part: float, scale: float) -> int:
    """How many elements a part of `length` elements is, times a scale."""
    over, under = (part * scale).as_integer_ratio()
    if under <= _LEAST_FRACTION:
        return length * over // under
    # In f32, in which the scales are: 7 elements times the nearest number to 13/7 are 13.
    return math.floor(np.float32(length) * np.float32(part) * np.float32(scale))


def _places(
    n: Node, i: Tensor, length: Tensor, out: Tensor, scale: Tensor, roi: tuple[float, float]
) -> Tensor:
    """Where in the operand, of so many elements, each element of the result is."""
    exact, zero = scale * length, i * 0
    mode = n.text("coordinate_transformation_mode", "half_pixel")
    if _is_early(n):
        mode = "asymmetric"
    match mode:
        case "half_pixel":
            return (i + 0.5) / scale - 0.5
        case "half_pixel_symmetric":
            return length / 2 * (1 - out / exact) + (i + 0.5) / scale - 0.5
        case "pytorch_half_pixel":
            return (exact > 1).where((i + 0.5) / scale - 0.5, zero)
        case "tf_half_pixel_for_nn":
            return (i + 0.5) / scale
        case "align_corners":
            return exact.differs(1).where(i * ((length - 1) / (exact - 1)), zero)
        case "asymmetric":
            return i / scale
        case "tf_crop_and_resize":
            low, high = roi
            step = (length - 1) * (high - low) / (out - 1)
            return (out > 1).where((length - 1) * low + i * step, (length - 1) * (0.5 * (low + high)) + zero)
        case _:
            raise UserError(f"there is no coordinate transformation '{mode}'")


def _nearest(n: Node, places: Tensor, scale: Tensor) -> Tensor:
    if _is_early(n):
        return (scale < 1).where(n.verbs.ceil(places), n.verbs.floor(places))
    rule = n.text("nearest_mode", "round_prefer_floor")
    match rule:
        case "round_prefer_floor":
            return n.verbs.ceil(places - 0.5)
        case "round_prefer_ceil":
            return n.verbs.floor(places + 0.5)
        case "floor":
            return n.verbs.floor(places)
        case "ceil":
            return n.verbs.ceil(places)
        case _:
            raise UserError(f"there is no rounding '{rule}'")


def _within(places: Tensor, length: Tensor) -> Tensor:
    """The nearest elements that there are."""
    return places.maximum(0).minimum(length - 1).cast(i64)


def _between(n: Node, x: Tensor, axis: int, places: Tensor, mode: str) -> Tensor:
    """The elements around each place, by how near they are."""
    length, first = n.verbs.length(x.shape[axis], f64), n.verbs.floor(places)
    shape = [places.size if d == axis else 1 for d in range(x.rank)]
    total: Tensor | None = None
    for tap in (-1, 0, 1, 2) if mode == "cubic" else (0, 1):
        near = first + tap
        distance = n.verbs.absolute(near - places)
        if mode == "cubic":
            weight = _cubic(distance, n.number("cubic_coeff_a", -0.75), Tensor.where)
        else:
            weight = (1 - distance).maximum(0)
        term = x.take(_within(near, length), axis) * weight.cast(x.element).reshape(shape)
        total = term if total is None else total + term
    assert total is not None
    return total


def _weights(n: Node, places: Array, length: int, scale: float, mode: str) -> Array:
    """A matrix: how much of each element of the operand is in each of the result."""
    smooth = n.flag("antialias") and scale < 1
    factor = scale if smooth else 1.0
    reach = (1 if mode == "linear" else 2) / factor
    matrix = np.zeros((len(places), length))
    a = n.number("cubic_coeff_a", -0.75)
    for row, place in enumerate(places):
        first = math.ceil(place - reach) if smooth else math.floor(place) - (0 if mode == "linear" else 1)
        last = math.floor(place + reach) if smooth else math.floor(place) + (1 if mode == "linear" else 2)
        taps = np.array(range(first, last + 1), np.float64)
        distance = np.abs(taps - place) * factor
        values = (
            np.maximum(0, 1 - distance) if mode in ("linear", "bilinear") else _cubic(distance, a, np.where)
        )
        if n.flag("exclude_outside"):
            values = np.where((taps < 0) | (taps >= length), 0, values)
            values = values / values.sum()
        elif smooth:
            values = values / values.sum()
        np.add.at(matrix[row], np.clip(taps, 0, length - 1).astype(np.int64), values)
    return matrix


def _cubic(distance: T, a: float, where: Callable[[Any, T, T], T]) -> T:
    """How much elements so far away weigh, as Keys, "Cubic convolution interpolation for digital image processing" (1981)."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return where(distance <= 1, near, where(distance < 2, far, distance * 0))


def _weighted(x: Tensor, axis: int, matrix: Array) -> Tensor:
    weights = x.verbs.known(matrix).cast(x.element)
    return dot(x, weights, [axis], [1]).moved(-1, axis)
