# SPDX-License-Identifier: Apache-2.0
"""Layer norm, batch norm and their kin: what has mean 0 and variance 1 along some axes, scaled and shifted."""

from __future__ import annotations

from typing import Any

from ...ir.attributes import numeric_literal
from ...ir.types import f64
from ..axes import Axes, AxesOrNames
from ..errors import IncompatibleAxesError, UserError, fail
from ..ragged import ragged_among
from ..state import AssignOp, assign, sequential
from ..tensor import Tensor
from ..values import as_op, numbers
from ..verbs import VERBS
from .coerce import broadcast, check_lengths, operand, result_element
from .elementwise import add, multiply, rsqrt, square, subtract
from .reductions import compute_reduction_axes, mean, variance


def layer_norm(
    x: Any,
    gamma: Any = None,
    beta: Any = None,
    *,
    reduction_axes: AxesOrNames | None = None,
    epsilon: float = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon), of each sample by itself, times `gamma` plus `beta` where they are given.

    Mean and (biased) variance are those along `reduction_axes`: all but N and REC; along a ragged axis each sequence by itself. `gamma` and `beta` are numbers, or
    tensors with some of the axes of x. The result has the axes of x; elements: float32, or f64 if one operand has it.

    Raises IncompatibleAxesError for axes that x has not, UserError for a negative epsilon.
    """
    x, gamma, beta = _operands(x, gamma, beta)
    reduced, _ = compute_reduction_axes(x, reduction_axes, None)
    if ragged_among(reduced) is None:
        return _scaled(_normalized(x, reduced, epsilon), gamma, beta)
    centered = subtract(x, mean(x, reduced, dtype=x.element), x.element)
    scale = _inverse_root(mean(square(centered, x.element), reduced, dtype=x.element), epsilon)
    return _scaled(multiply(centered, scale, x.element), gamma, beta)


def rms_norm(
    x: Any,
    gamma: Any = None,
    beta: Any = None,
    *,
    reduction_axes: AxesOrNames | None = None,
    epsilon: float = 1e-5,
) -> Tensor:
    """x / sqrt(mean(x * x) + epsilon), otherwise as `ng.layer_norm`: the mean is not subtracted."""
    x, gamma, beta = _operands(x, gamma, beta)
    reduced, _ = compute_reduction_axes(x, reduction_axes, None)
    scale = _inverse_root(mean(square(x, x.element), reduced, dtype=x.element), epsilon)
    return _scaled(multiply(x, scale, x.element), gamma, beta)


def batch_norm(
    x: Any,
    gamma: Any = None,
    beta: Any = None,
    mean: Any = None,
    variance: Any = None,
    *,
    reduction_axes: AxesOrNames | None = None,
    epsilon: float = 1e-3,
    momentum: float | Tensor = 0.9,
    training: bool = True,
) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon), times `gamma` plus `beta` where they are given.

    In training mean and (biased) variance are those of the batch, along `reduction_axes`: all but the channel axis C if x
    has it, else REC and N. Where `mean` and `variance` are storage, computing the result also sets them to
    `old * momentum + new * (1 - momentum)`; what else is built, before or after, reads them without a write. With
    `training=False` the two are what is used. Begin with a mean of 0 and a variance of 1.

    All four may be numbers, or tensors with axes that x has and that are not reduced; `gamma` and `beta` with any of x.
    The result has the axes of x; elements: float32, or f64 if one operand has it.

    Raises IncompatibleAxesError for axes that do not fit, UserError where there is nothing to reduce, where `training=False` lacks
    a mean or a variance, and for a negative epsilon or a momentum that is not between 0 and 1.
    """
    x, gamma, beta = _operands(x, gamma, beta)
    if reduction_axes is None:
        channel = [a for a in x.axes if a.is_channel]
        reduction_axes = x.axes - Axes(channel) if channel else x.axes - x.axes.feature_axes()
        if not reduction_axes:
            fail(
                UserError,
                f"a batch norm reduces all but the axis C, or N and REC; ({', '.join(x.axes.names)}) has none of them",
                "give reduction_axes",
            )
    reduced, kept = compute_reduction_axes(x, reduction_axes, None)
    if not isinstance(momentum, Tensor) and not 0 <= momentum <= 1:
        fail(UserError, f"the momentum of running averages must be between 0 and 1, not {momentum!r}")
    held = [
        None if s is None else _fitting(s, kept, what) for s, what in ((mean, "mean"), (variance, "variance"))
    ]
    if not training:
        old_mean, old_variance = held
        if old_mean is None or old_variance is None:
            fail(UserError, "ng.batch_norm(training=False) needs mean= and variance=")
        centered = subtract(x, operand(old_mean, x.element), x.element)
        scale = _inverse_root(operand(old_variance, x.element), epsilon)
        return _scaled(multiply(centered, scale, x.element), gamma, beta)
    made = _scaled(_normalized(x, reduced, epsilon), gamma, beta)
    writes = [
        _moved(old, now, momentum)
        for old, now in zip(held, _statistics(x, reduced), strict=True)
        if old is not None and old.storage is not None
    ]
    return sequential([*writes, made]) if writes else made


def _statistics(x: Tensor, reduced: Axes) -> tuple[Tensor, Tensor]:
    """Mean and variance, made as the dialect makes those of `ng.normalize`, so that they are computed once. Of a ragged axis they are
    those of all rows."""
    kept = x.axes - reduced
    return mean(x, out_axes=kept, dtype=x.element), variance(x, out_axes=kept)


def _moved(old: Tensor, now: Tensor, momentum: float | Tensor) -> AssignOp:
    """Moves a running average on; no gradient flows along a write."""
    if not now.axes.is_sub_set(old.axes):
        fail(
            IncompatibleAxesError,
            f"a running average with axes ({', '.join(old.axes.names)}) cannot hold statistics with ({', '.join(now.axes.names)})",
        )
    kept, added = multiply(old, momentum, now.element), multiply(now, 1 - momentum, now.element)
    return assign(old, add(kept, added, now.element))


def _operands(x: Any, gamma: Any, beta: Any) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """All of them with the elements of the result; UserError where gamma or beta would add axes."""
    element = result_element(None, x, *(p for p in (gamma, beta) if isinstance(p, Tensor)))
    x = operand(x, element)
    found: list[Tensor | None] = []
    for parameter, what in ((gamma, "gamma"), (beta, "beta")):
        found.append(None if parameter is None else operand(_fitting(parameter, x.axes, what), element))
    return x, found[0], found[1]


def _fitting(parameter: Any, axes: Axes, what: str) -> Tensor:
    """What a user gave as a parameter, with no other axes than these."""
    made = as_op(parameter) if isinstance(parameter, Tensor) else operand(numbers(parameter), f64)
    if not made.axes.is_sub_set(axes):
        fail(
            IncompatibleAxesError,
            f"{what} has axes ({', '.join(made.axes.names)}), but only ({', '.join(axes.names)}) can be told apart",
            "reduce over the others"
            if isinstance(parameter, Tensor)
            else "give an array its axes: ng.constant(array, axes)",
        )
    check_lengths(axes, made.axes)
    return made


def _positive(epsilon: float) -> float:
    if not epsilon >= 0:
        fail(UserError, f"epsilon must not be negative, not {epsilon!r}")
    return float(epsilon)


def _inverse_root(variance: Tensor, epsilon: float) -> Tensor:
    return rsqrt(add(variance, _positive(epsilon), variance.element))


def _normalized(x: Tensor, reduced: Axes, epsilon: float) -> Tensor:
    places = tuple(x.axes.index(a) for a in reduced)
    return VERBS.normalize(x, axes=places, epsilon=numeric_literal(_positive(epsilon), f64))


def _scaled(x: Tensor, gamma: Tensor | None, beta: Tensor | None) -> Tensor:
    """Times gamma plus beta, with the axes and elements of x."""
    if gamma is not None:
        x = multiply(x, broadcast(gamma, x.axes), x.element)
    return x if beta is None else add(x, broadcast(beta, x.axes), x.element)
