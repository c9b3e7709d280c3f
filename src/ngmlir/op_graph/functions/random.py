# SPDX-License-Identifier: Apache-2.0
"""Random numbers: a counter-based generator whose counter is state, so that each run draws new numbers and the same
program gives the same numbers on every target."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ...ir import core
from ...ir.types import FloatType, Type, f32, ui32, ui64
from ...ops import ng
from ..axes import Axes, AxesOrNames, Axis
from ..building import BUILDING
from ..errors import AxisNotFound, UserError, fail
from ..state import AssignableTensorOp, assign, persistent_tensor, sequential
from ..tensor import Tensor
from ..values import numbers
from ..verbs import VERBS
from .coerce import as_op, floating
from .composed import where
from .elementwise import add, divide, less, multiply

_STREAMS = itertools.count()

#: Draws from one stream before it would meet the next one.
_STREAM_LENGTH = 1 << 32


def _key(seed: int | None) -> Tensor:
    """A key that differs from run to run: the seed, and a stream that moves on each time it is read."""
    stream = 0 if seed is not None else next(_STREAMS) * _STREAM_LENGTH
    pair = np.array([seed or 0, stream], np.uint64)
    key = persistent_tensor(Axes((Axis(2, "key"),)), dtype="ui64", initial_value=pair)
    assert isinstance(key, AssignableTensorOp)
    key.automatic_name = "random_key"
    step = np.array([0, 1], np.uint64)
    return sequential([assign(key, add(key, _constant(step, key), dtype="ui64")), key])


def _constant(value: Any, like: Tensor) -> Tensor:
    return like.family.constant(value, axes=like.axes, dtype=ui64)


def _element(x: Tensor) -> Type:
    return x.element if isinstance(x.element, FloatType) else BUILDING.float


def _like(x: Any, *bounds: Any) -> Tensor:
    """What numbers are drawn like; UserError for a shape."""
    for given in (x, *bounds):
        if isinstance(given, (list, tuple)):
            hint = "ng.uniform(ng.constant(0, axes)), or ng.numpy.random, which takes shapes"
            fail(UserError, f"random numbers need a tensor, whose axes they get, not {given!r}", hint)
    return as_op(x)


def draw(operation: type[core.Op], axes: Axes, element: Type, seed: int | None = None) -> Tensor:
    """What an op makes of a key that differs from run to run, over axes of any kind."""
    return VERBS.stated(operation, [_key(seed)], {}, axes, element)


def uniform(x: Any, low: float = 0.0, high: float = 1.0, seed: int | None = None) -> Tensor:
    """Uniform random numbers in [low, high), with the axes and element type of x; drawn again at every run.

    Without a seed each call has a separate stream; equal seeds give equal numbers.
    """
    x = _like(x, low, high)
    drawn = draw(ng.RandomUniformOp, x.axes, _element(x), seed)
    return _scaled(drawn, high - low, low)


def normal(x: Any, loc: float = 0.0, scale: float = 1.0, seed: int | None = None) -> Tensor:
    """Normal random numbers with mean `loc` and standard deviation `scale`, with the axes and element type of x;
    drawn again at every run."""
    x = _like(x, loc, scale)
    drawn = draw(ng.RandomNormalOp, x.axes, _element(x), seed)
    return _scaled(drawn, scale, loc)


def random_bits(x: Any, seed: int | None = None) -> Tensor:
    """32 random bits for each element of x, as unsigned integers; drawn again at every run."""
    x = as_op(x)
    return draw(ng.RandomBitsOp, x.axes, ui32, seed)


def _scaled(drawn: Tensor, scale: float, shift: float) -> Tensor:
    made = drawn if scale == 1 else multiply(drawn, scale, dtype=drawn.element)
    return made if shift == 0 else add(made, shift, dtype=drawn.element)


def dropout(
    x: Any, keep: Any, *, axes: AxesOrNames | None = None, rescale: bool = True, seed: int | None = None
) -> Tensor:
    """x with elements set to zero at random: each stays with probability `keep`, a number or a tensor.

    What stays is divided by `keep`, so that the mean does not change; with `rescale=False` it stays as it is. The
    mask varies along `axes` (default: all of x) and is the same along the others: with all axes but N, all samples
    of a batch lose the same elements. It is drawn again at every run, and in a loop at every step; gradients use
    the same mask. Elements: float32, or f64 as x has it.

    Raises UserError for a number that is no probability, AxisNotFound for axes that x has not.
    """
    x = floating(x)
    chosen = x.axes if axes is None else x.axes.chosen(axes)
    lost = [n for n in chosen.names if n not in x.axes.names]
    if lost:
        fail(AxisNotFound, f"there is no axis {', '.join(lost)} in ({', '.join(x.axes.names)})")
    if not isinstance(keep, Tensor):
        probability = float(numbers(keep))
        if not 0 <= probability <= 1:
            fail(UserError, f"the probability to keep must be between 0 and 1, not {keep!r}")
        if probability == 0:
            rescale = False  # nothing is left that could make up for what is gone
    # In f32 whatever the elements are: fewer bits know fewer probabilities.
    drawn = VERBS.stated(ng.RandomUniformOp, [_key(seed)], {}, x.axes & chosen, f32)
    kept = divide(x, keep, x.element) if rescale else x
    return where(less(drawn, keep), kept, 0, x.element)
