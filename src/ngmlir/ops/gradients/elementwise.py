# SPDX-License-Identifier: Apache-2.0
"""The gradients of elementwise ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log, pi, sqrt
from typing import Any

from .rules import Applied, GradientVerbs, Rules, V, where

ELEMENTWISE = Rules()


# ---- one operand: the slope as a function of operand x and result y

Slope = Callable[[GradientVerbs[V], V, V], V]


def _one_minus_square(v: GradientVerbs[V], x: V) -> V:
    return v.subtract(v.number_like(1, x), v.square(x))


def _one_plus_square(v: GradientVerbs[V], x: V) -> V:
    return v.add(v.number_like(1, x), v.square(x))


def _scaled(v: GradientVerbs[V], factor: float, x: V) -> V:
    return v.multiply(v.number_like(factor, x), x)


SLOPES: dict[str, Slope[Any]] = {
    "absolute": lambda v, x, y: v.sign(x),
    "square": lambda v, x, y: _scaled(v, 2, x),
    "reciprocal": lambda v, x, y: v.negative(v.square(y)),
    "sqrt": lambda v, x, y: _scaled(v, 0.5, v.reciprocal(y)),
    "rsqrt": lambda v, x, y: _scaled(v, -0.5, v.multiply(y, v.square(y))),
    "exp": lambda v, x, y: y,
    "exp2": lambda v, x, y: _scaled(v, log(2), y),
    "expm1": lambda v, x, y: v.add(y, v.number_like(1, y)),
    "log": lambda v, x, y: v.reciprocal(x),
    "log2": lambda v, x, y: _scaled(v, 1 / log(2), v.reciprocal(x)),
    "log10": lambda v, x, y: _scaled(v, 1 / log(10), v.reciprocal(x)),
    "log1p": lambda v, x, y: v.reciprocal(v.add(x, v.number_like(1, x))),
    "sin": lambda v, x, y: v.cos(x),
    "cos": lambda v, x, y: v.negative(v.sin(x)),
    "tan": lambda v, x, y: _one_plus_square(v, y),
    "asin": lambda v, x, y: v.rsqrt(_one_minus_square(v, x)),
    "acos": lambda v, x, y: v.negative(v.rsqrt(_one_minus_square(v, x))),
    "atan": lambda v, x, y: v.reciprocal(_one_plus_square(v, x)),
    "sinh": lambda v, x, y: v.cosh(x),
    "cosh": lambda v, x, y: v.sinh(x),
    "tanh": lambda v, x, y: _one_minus_square(v, y),
    "asinh": lambda v, x, y: v.rsqrt(_one_plus_square(v, x)),
    "acosh": lambda v, x, y: v.rsqrt(v.subtract(v.square(x), v.number_like(1, x))),
    "atanh": lambda v, x, y: v.reciprocal(_one_minus_square(v, x)),
    "sigmoid": lambda v, x, y: v.subtract(y, v.square(y)),
    "softplus": lambda v, x, y: v.sigmoid(x),
    "erf": lambda v, x, y: _scaled(v, 2 / sqrt(pi), v.exp(v.negative(v.square(x)))),
}


@ELEMENTWISE.of(*SLOPES)
def _unary(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    slope = SLOPES[op.op.name.removeprefix("ng.")]
    return [v.multiply(delta, slope(v, op.operands[0], op.results[0]))]


@ELEMENTWISE.of("negative")
def _negative(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    return [v.negative(delta)]


@ELEMENTWISE.of("cast")
def _cast(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    return [v.cast_like(delta, op.operands[0])]


# ---- more operands


@ELEMENTWISE.of("add")
def _add(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    return [delta, delta]


@ELEMENTWISE.of("subtract")
def _subtract(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    return [delta, v.negative(delta)]


@ELEMENTWISE.of("multiply")
def _multiply(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    x, y = op.operands
    return [v.multiply(delta, y) if op.wanted[0] else None, v.multiply(delta, x) if op.wanted[1] else None]


@ELEMENTWISE.of("divide")
def _divide(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    over = v.divide(delta, op.operands[1])
    return [over, v.negative(v.multiply(over, op.results[0])) if op.wanted[1] else None]


@ELEMENTWISE.of("remainder")
def _remainder(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    x, y = op.operands
    return [delta, v.negative(v.multiply(delta, v.floor_divide(x, y))) if op.wanted[1] else None]


@ELEMENTWISE.of("power")
def _power(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    x, y = op.operands
    zero, one = v.number_like(0, x), v.number_like(1, x)
    to_x = to_y = None
    if op.wanted[0]:
        # x ** 0 is flat, also at 0, where 0 * 0 ** -1 would be NaN.
        slope = v.multiply(y, v.power(x, v.subtract(y, one)))
        to_x = v.multiply(delta, v.select(v.equal(y, zero), zero, slope))
    if op.wanted[1]:
        slope = v.multiply(op.results[0], v.log(v.select(v.equal(x, zero), one, x)))
        to_y = v.multiply(delta, slope)
    return [to_x, to_y]


@ELEMENTWISE.of("maximum")
def _maximum(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    x, y = op.operands
    return [
        where(v, v.greater(a, b), delta) if w else None
        for a, b, w in ((x, y, op.wanted[0]), (y, x, op.wanted[1]))
    ]


@ELEMENTWISE.of("minimum")
def _minimum(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    x, y = op.operands
    return [
        where(v, v.less(a, b), delta) if w else None
        for a, b, w in ((x, y, op.wanted[0]), (y, x, op.wanted[1]))
    ]


@ELEMENTWISE.of("atan2")
def _atan2(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    y, x = op.operands
    scaled = v.divide(delta, v.add(v.square(x), v.square(y)))
    return [v.multiply(scaled, x), v.negative(v.multiply(scaled, y))]


@ELEMENTWISE.of("copysign")
def _copysign(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    x, y = op.operands
    return [v.multiply(delta, v.multiply(v.sign(x), v.copysign(v.number_like(1, y), y))), None]


@ELEMENTWISE.of("select")
def _select(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    condition, zero = op.operands[0], v.number_like(0, delta)
    return [None, v.select(condition, delta, zero), v.select(condition, zero, delta)]


@ELEMENTWISE.of("fma")
def _fma(v: GradientVerbs[V], op: Applied[V], delta: V) -> Sequence[V | None]:
    x, y, _ = op.operands
    return [v.multiply(delta, y), v.multiply(delta, x), delta]
