# SPDX-License-Identifier: Apache-2.0
"""What optimizers compute. In all of them w is a variable, g its gradient and `rate` the learning rate; what is kept for w from step
to step goes in as it was, and comes out as it is after the step. Tensors may have named axes or positions."""

from __future__ import annotations

from typing import Any

from ..op_graph.tensor import Tensor

__all__ = ["adadelta", "adam_step", "inertia", "moments", "rms_prop", "running_mean", "scaled_step"]


def running_mean(held: Tensor, new: Any, kept: float) -> Tensor:
    """kept * held + (1 - kept) * new."""
    return kept * held + (1 - kept) * new


def inertia(velocity: Tensor, move: Tensor, coefficient: float, nesterov: bool) -> tuple[Tensor, Tensor]:
    """(what w moves by, new velocity): v <- coefficient * v + move, and w moves by v, or with `nesterov` by coefficient * v + move."""
    v = coefficient * velocity + move
    return (coefficient * v + move if nesterov else v), v


def scaled_step(w: Tensor, g: Tensor, rate: Any, size: Tensor) -> Tensor:
    """w - rate * g / size, where `size` is one of each element's gradients so far (Adagrad, Adamax)."""
    return w - rate * g / size


def rms_prop(g: Tensor, mean_square: Tensor, rate: Any, rho: float, epsilon: float) -> tuple[Tensor, Tensor]:
    """(what w moves against, new mean square): r <- rho * r + (1 - rho) * g**2, rate * g / sqrt(r + epsilon)."""
    r = running_mean(mean_square, g * g, rho)
    return rate * g / _sqrt(r + epsilon), r


def adadelta(
    g: Tensor, squares: Tensor, moves: Tensor, rho: float, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """(what w moves against, new squares, new moves): s <- rho * s + (1 - rho) * g**2,
    d = sqrt((m + epsilon) / (s + epsilon)) * g, m <- rho * m + (1 - rho) * d**2."""
    s = running_mean(squares, g * g, rho)
    move = _sqrt((moves + epsilon) / (s + epsilon)) * g
    return move, s, running_mean(moves, move * move, rho)


def moments(g: Tensor, first: Tensor, second: Tensor, beta_1: float, beta_2: float) -> tuple[Tensor, Tensor]:
    """Running means of gradients and of their squares."""
    return running_mean(first, g, beta_1), running_mean(second, g * g, beta_2)


def adam_step(w: Tensor, first: Tensor, second: Tensor, rate: Any, epsilon: float) -> Tensor:
    """w - rate * m / (sqrt(v) + epsilon), where `rate` has the correction for moments that began from 0."""
    return w - rate * first / (_sqrt(second) + epsilon)


def _sqrt(x: Tensor) -> Tensor:
    return x.family.sqrt(x)
