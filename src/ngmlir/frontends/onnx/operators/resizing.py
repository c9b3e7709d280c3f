# SPDX-License-Identifier: Apache-2.0
"""Resize and Upsample: along each axis a product with a matrix of weights, or a choice of elements."""

from __future__ import annotations

import math

import numpy as np

from ....ir.literals import dtype_of
from ....ir.types import f32, f64
from ....support.diagnostics import UserError
from ..nodes import Node, operator
from ..tensor import Array, Tensor
from .products import dot
from .quantization import rounded


@operator("Resize", "Upsample")
def resize(n: Node, x: Tensor, *inputs: Tensor | None) -> Tensor:
    roi, scales, sizes = _inputs(n, x, inputs)
    mode, element = n.text("mode", "nearest"), x.element
    if mode != "nearest" and not x.is_float:  # weights are fractions
        x = x.cast(f32 if dtype_of(element).itemsize <= 2 else f64)
    for axis in range(x.rank):
        length = x.shape[axis]
        scale, out = scales[axis], sizes[axis]
        if scale == 1 and out == length and n.text("coordinate_transformation_mode") != "tf_crop_and_resize":
            continue
        places = _places(n, length, out, scale, roi[axis])
        outside = (places < 0) | (places > length - 1)
        if mode == "nearest":
            x = x.take(np.clip(_nearest(n, places), 0, length - 1).astype(np.int64).tolist(), axis)
        else:
            x = _weighted(x, axis, _weights(n, places, length, scale, mode))
        if n.text("coordinate_transformation_mode") == "tf_crop_and_resize" and outside.any():
            line = n.verbs.known(outside).reshape([out if d == axis else 1 for d in range(x.rank)])
            x = line.where(n.verbs.numbers(n.number("extrapolation_value"), x.element), x)
    return x if x.element is element else rounded(n, x, element)


def _inputs(
    n: Node, x: Tensor, inputs: tuple[Tensor | None, ...]
) -> tuple[list[tuple[float, float]], list[float], list[int]]:
    """For each axis: the part that is taken, the scale, the length of the result."""
    given = list(inputs) + [None] * 3
    if n.op == "Upsample" or n.version < 11:
        roi, factors, lengths = None, given[0], None
    else:
        roi, factors, lengths = given[0], given[1], given[2]
    axes = [x.axis(a) for a in n.given("axes", range(x.rank))]
    stated = n.floats("scales") if factors is None else [float(s) for s in n.settle(factors).reshape(-1)]
    wanted = n.settled(lengths)
    parts = [(0.0, 1.0)] * x.rank
    scales, sizes = [1.0] * x.rank, list(x.shape)
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
            # In f32, in which the scales are: 7 elements times the nearest number to 13/7 are 13.
            length = np.float32(x.shape[axis]) * np.float32(high - low) * np.float32(scale)
            scales[axis], sizes[axis] = scale, math.floor(length)
    elif wanted:
        policy = n.text("keep_aspect_ratio_policy", "stretch")
        each = [w / x.shape[a] for w, a in zip(wanted, axes, strict=True)]
        if policy != "stretch":
            one = min(each) if policy == "not_larger" else max(each)
            each = [one] * len(each)
            wanted = [math.floor(x.shape[a] * one + 0.5) for a in axes]
        for axis, scale, length in zip(axes, each, wanted, strict=True):
            scales[axis], sizes[axis] = scale, length
    else:
        raise UserError("neither scales nor sizes are given")
    if any(s <= 0 or not math.isfinite(s) for s in scales):
        raise UserError(f"scales {scales}")
    return parts, scales, sizes


def _places(n: Node, length: int, out: int, scale: float, roi: tuple[float, float]) -> Array:
    """Where in the operand each element of the result is."""
    i = np.arange(out, dtype=np.float64)
    exact = scale * length
    mode = n.text("coordinate_transformation_mode", "half_pixel")
    if n.op == "Upsample" or n.version < 11:
        mode = "asymmetric"
    match mode:
        case "half_pixel":
            return (i + 0.5) / scale - 0.5
        case "half_pixel_symmetric":
            adjusted = out / exact
            centre = length / 2
            return centre * (1 - adjusted) + (i + 0.5) / scale - 0.5
        case "pytorch_half_pixel":
            return (i + 0.5) / scale - 0.5 if exact > 1 else i * 0 - 0.0
        case "align_corners":
            return i * ((length - 1) / (exact - 1)) if exact != 1 else i * 0
        case "asymmetric":
            return i / scale
        case "tf_crop_and_resize":
            low, high = roi
            if out > 1:
                return low * (length - 1) + i * ((high - low) * (length - 1) / (out - 1))
            return 0.5 * (low + high) * (length - 1) + i * 0
        case _:
            raise UserError(f"there is no coordinate transformation '{mode}'")


def _nearest(n: Node, places: Array) -> Array:
    rule = n.text("nearest_mode", "round_prefer_floor" if n.op == "Resize" and n.version >= 11 else "floor")
    match rule:
        case "round_prefer_floor":
            return np.ceil(places - 0.5)
        case "round_prefer_ceil":
            return np.floor(places + 0.5)
        case "floor":
            return np.floor(places)
        case "ceil":
            return np.ceil(places)
        case _:
            raise UserError(f"there is no rounding '{rule}'")


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
        values = np.maximum(0, 1 - distance) if mode in ("linear", "bilinear") else _cubic(distance, a)
        if n.flag("exclude_outside"):
            values = np.where((taps < 0) | (taps >= length), 0, values)
            values = values / values.sum()
        elif smooth:
            values = values / values.sum()
        np.add.at(matrix[row], np.clip(taps, 0, length - 1).astype(np.int64), values)
    return matrix


def _cubic(distance: Array, a: float) -> Array:
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


def _weighted(x: Tensor, axis: int, matrix: Array) -> Tensor:
    weights = x.verbs.known(matrix).cast(x.element)
    return dot(x, weights, [axis], [1]).moved(-1, axis)
