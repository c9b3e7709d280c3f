# SPDX-License-Identifier: Apache-2.0
"""Functions of networks on arrays, under SciPy's names and with its defaults where it has them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir.types import f32, f64
from ..op_graph.errors import UserError, fail
from ..op_graph.functions.composed import stop_gradient
from ..op_graph.tensor import Tensor
from ..op_graph.verbs import VERBS
from . import reductions
from .arrays import Axis, as_type, expand, of_type, places, reshape, shape
from .composed import where
from .elementwise import add, divide, exp, greater, inexact, isfinite, less, log, maximum, subtract
from .random import Generator


def erf(x: Any, /) -> Tensor:
    """The error function; elements as `exp` has them."""
    return VERBS.erf(inexact(x))


def expit(x: Any, /) -> Tensor:
    """The logistic function 1 / (1 + exp(-x)) of numbers of any size; elements as `exp` has them."""
    return VERBS.sigmoid(inexact(x))


sigmoid = expit


def relu(x: Any, /) -> Tensor:
    """The greater of x and 0; NaN of NaN."""
    return maximum(x, 0)


def _along(verb: str, x: Any, axis: Axis) -> Tensor:
    x = inexact(x)
    axes = places(axis, len(shape(x)))
    if not axes:
        # Of each element by itself: along an axis of one.
        return reshape(getattr(VERBS, verb)(reshape(x, (*shape(x), 1)), axes=(len(shape(x)),)), shape(x))
    return getattr(VERBS, verb)(x, axes=axes)


def softmax(x: Any, axis: Axis = None) -> Tensor:
    """exp(x) over its sum along axes, all by itself: give `axis=-1` for rows. Raises AxisNotFound."""
    return _along("softmax", x, axis)


def log_softmax(x: Any, axis: Axis = None) -> Tensor:
    """The logarithm of the softmax along axes (all by itself), computed without it. Raises AxisNotFound."""
    return _along("log_softmax", x, axis)


def logsumexp(a: Any, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """log(sum(exp(a))) over axes (all by itself) of numbers of any size; -inf of none. Raises AxisNotFound."""
    given = inexact(a)
    x = given if given.element is f64 else as_type(given, f32)
    axes = places(axis, len(shape(x)))
    none = math.prod(shape(x)[d] for d in axes) == 0
    most = stop_gradient(reductions.max(x, axes, keepdims=True, initial=-math.inf if none else None))
    # Of infinities the distance would be NaN.
    shift = where(isfinite(most), most, 0)
    total = reductions.sum(exp(subtract(x, shift)), axes, keepdims=True)
    made = add(log(total), shift)
    if not keepdims:
        made = reshape(made, [n for d, n in enumerate(shape(x)) if d not in axes])
    return as_type(made, given.element)


def dropout(x: Any, rate: Any, *, rng: Generator | int | None = None) -> Tensor:
    """x with elements set to zero at random, each with probability `rate`: a number, or an array that broadcasts to x.

    The other elements are divided by 1 - rate, so that the mean does not change. `rng` is a generator of `random`, or a seed for one.
    Elements are chosen again at every run; gradients use the same choice. Elements as `exp` has them.

    Raises UserError for a number that is no probability, IncompatibleAxesError where `rate` does not broadcast.
    """
    if isinstance(rate, (int, float)) and not 0 <= rate <= 1:
        fail(UserError, f"the dropout probability must be between 0 and 1, not {rate!r}")
    given = inexact(x)
    kind = f64 if given.element is f64 else f32
    keep = expand(of_type(subtract(1.0, rate) if isinstance(rate, Tensor) else 1 - rate, kind), shape(given))
    draw = rng if isinstance(rng, Generator) else Generator(rng)
    kept = less(draw.random(shape(given), np.float32), keep)
    # Where nothing is kept there is nothing to divide by, nor in the derivative.
    scaled = divide(as_type(given, kind), where(greater(keep, 0), keep, 1.0))
    return as_type(where(kept, scaled, 0.0), given.element)
