# SPDX-License-Identifier: Apache-2.0
"""Differences of neighbours along an axis, and what is made of them: slopes, areas, unwrapped angles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir.types import FloatType, IntegerType, f64, i1
from ..op_graph.errors import UserError, fail
from ..op_graph.tensor import Tensor
from . import elementwise
from .arrays import (
    Axis,
    as_array,
    as_type,
    constant_elements,
    cut,
    expand,
    join,
    joined,
    of_type,
    place,
    places,
    shape,
    turned,
)
from .composed import floor_divide, where
from .elementwise import absolute, add, divide, logical_and, multiply, remainder, subtract
from .joining import concatenate
from .reductions import cumsum, sum
from .shaping import ravel


def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    """Differences of neighbours along an axis, n times."""
    x = as_array(a)
    axis = place(axis, len(shape(x)))
    parts = [as_array(p) for p in (prepend, x, append) if p is not None]
    if len(parts) > 1:
        kind = joined(*parts)
        one = [1 if d == axis else s for d, s in enumerate(shape(x))]
        sized = [of_type(p, kind) for p in parts]
        x = join([expand(p, one) if not shape(p) else p for p in sized], axis)
    for _ in range(n):
        after, before = (
            cut(x, axis, 1, shape(x)[axis]),
            cut(x, axis, 0, np.maximum(shape(x)[axis] - 1, 0).item()),
        )
        x = elementwise.not_equal(after, before) if x.element is i1 else subtract(after, before)
    return x


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Tensor:
    """Differences of neighbours, row by row, with numbers of their type before and after them."""
    made = diff(ravel(ary))
    parts = [ravel(to_begin)] if to_begin is not None else []
    parts += [made, *([ravel(to_end)] if to_end is not None else [])]
    return concatenate([as_type(p, made.element) for p in parts])


def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: float = 2 * math.pi) -> Tensor:
    """Angles without jumps: neighbours differ by half a `period` at most, where they differed by `discont` (half a period) or more."""
    x = as_array(p)
    axis, steps = place(axis, len(shape(x))), diff(p, axis=axis)
    kind = joined(steps, period)
    if isinstance(kind, IntegerType) and kind.unsigned:
        fail(UserError, f"unwrap of {kind} elements, which cannot be negative", "x.astype(int) can")
    half = divide(period, 2) if isinstance(kind, FloatType) else floor_divide(period, 2)
    exact = isinstance(kind, FloatType) or period % 2 == 0
    moved = subtract(remainder(add(steps, half), period), half)
    if exact:  # a step of half a period keeps its sign
        edge = logical_and(
            elementwise.equal(moved, elementwise.negative(half)), elementwise.greater(steps, 0)
        )
        moved = where(edge, half, moved)
    least = half if discont is None else discont
    corrections = where(elementwise.less(absolute(steps), least), 0, subtract(moved, steps))
    x = as_type(x, kind)
    n = shape(x)[axis]
    first, rest = cut(x, axis, 0, min(1, n)), cut(x, axis, min(1, n), n)
    return join([first, as_type(add(rest, cumsum(corrections, axis)), kind)], axis)


def gradient(f: Any, *varargs: Any, axis: Axis = None, edge_order: int = 1) -> Any:
    """The slope along each axis by central differences, of one or several `axis` alone if they are given; at both ends by
    differences of so many neighbours as `edge_order` (1 or 2) says.

    Args:
        varargs: the distance of neighbours (1), for all axes or for each one; or the coordinates along an axis as a row.

    The result has the shape of f: one array for one axis, else a tuple with one for each. Integers give float64.

    Raises UserError for distances that do not fit the axes, and for fewer than `edge_order + 1` elements along an axis.
    """
    x = as_array(f)
    x = x if isinstance(x.element, FloatType) else as_type(x, f64)
    axes = places(axis, len(shape(x)))
    if edge_order not in (1, 2):
        fail(UserError, f"edge_order is 1 or 2, not {edge_order}")
    given = list(varargs or [1.0])
    if len(given) == 1 and not shape(as_array(given[0])):
        given *= len(axes)
    if len(given) != len(axes):
        fail(UserError, f"{len(given)} distances for {len(axes)} axes", "one for all axes, or one for each")
    made: list[Tensor] = []
    for along, distance in zip(axes, given, strict=True):
        if shape(x)[along] < edge_order + 1:
            fail(
                UserError,
                f"{shape(x)[along]} elements along axis {along}: edge_order {edge_order} takes more",
            )
        made.append(_slope(x, along, distance, edge_order))
    return made[0] if len(axes) == 1 else tuple(made)


def _slope(x: Tensor, axis: int, distance: Any, edge_order: int) -> Tensor:
    n = shape(x)[axis]
    steps = _steps(distance, n, axis, len(shape(x)))
    even = not shape(as_array(steps))

    def part(start: int, stop: int) -> Tensor:
        return cut(x, axis, start, stop)

    def step(start: int, stop: int) -> Any:
        return steps if even else cut(steps, axis, start, stop)

    if even:
        inner = divide(subtract(part(2, n), part(0, n - 2)), multiply(2.0, steps))
    else:
        before, after = step(0, n - 2), step(1, n - 1)
        inner = part(0, n - 2) * (-after / (before * (before + after)))
        inner = inner + part(1, n - 1) * ((after - before) / (before * after))
        inner = inner + part(2, n) * (before / (after * (before + after)))
    if edge_order == 1:
        low = divide(part(1, 2) - part(0, 1), step(0, 1))
        high = divide(part(n - 1, n) - part(n - 2, n - 1), step(n - 2, n - 1))
    else:
        low = _edge([part(i, i + 1) for i in range(3)], step(0, 1), step(1, 2))
        high = -_edge([part(n - 1 - i, n - i) for i in range(3)], step(n - 2, n - 1), step(n - 3, n - 2))
    return join([as_type(v, x.element) for v in (low, inner, high)], axis)


def _edge(values: list[Tensor], near: Any, far: Any) -> Tensor:
    """The slope at the first of three values, by a parabola through them; `near` and `far` are the distances of neighbours."""
    both = near + far
    made = values[0] * (-(near + both) / (near * both)) + values[1] * (both / (near * far))
    return made - values[2] * (near / (far * both))


def _steps(distance: Any, n: int, axis: int, rank: int) -> Any:
    """The distance of neighbours: one for all, or those of each pair along the axis."""
    given = as_array(distance)
    if not shape(given):
        return distance
    if shape(given) != (n,):
        fail(UserError, f"coordinates of shape {shape(given)} for {n} elements along axis {axis}")
    steps = diff(given if isinstance(given.element, FloatType) else as_type(given, f64))
    elements = constant_elements(steps)
    if elements is not None and (elements == elements[0]).all():
        return elements[0]
    return turned(steps, axis, rank)


def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    """The area under y by the trapezoidal rule."""
    y = as_array(y)
    axis = place(axis, len(shape(y)))
    steps: Any = dx
    if x is not None:
        steps = diff(x) if len(shape(as_array(x))) == 1 else diff(x, axis=axis)
        if len(shape(steps)) == 1:
            steps = turned(steps, axis, len(shape(y)))
    middle = divide(add(cut(y, axis, 1, shape(y)[axis]), cut(y, axis, 0, shape(y)[axis] - 1)), 2.0)
    return sum(multiply(steps, middle), axis)
