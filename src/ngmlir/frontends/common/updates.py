# SPDX-License-Identifier: Apache-2.0
"""Rules by which optimizers change a variable: each gives its new value, and writes to what is kept for it.

In all of them w is the variable, g its gradient, `scale` a factor of the gradient that comes from the norm of all gradients, and
`rate` the learning rate. Sizes that are kept are held by `slots`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Any, NamedTuple

from ...op_graph import functions as ng
from ...op_graph.node import Op
from ...op_graph.state import assign
from ...op_graph.tensor import Tensor
from ...training import updates as rules
from .slots import slot, step_count

__all__ = ["Moments", "Update", "adadelta", "adagrad", "adam", "adam_w", "momentum", "rms_prop"]


class Update(NamedTuple):
    """The new value of a variable, and writes to what is kept for it."""

    value: Tensor
    writes: Sequence[Op] = ()


def momentum(
    w: Tensor,
    g: Tensor,
    scale: Any,
    rate: Any,
    coefficient: float = 0.0,
    decay: float = 0.0,
    nesterov: bool = False,
) -> Update:
    """u = -rate * (scale * g + decay * w), v <- coefficient * v + u, and w moves by v, or with `nesterov` by
    coefficient * v + u. What rounding loses of w is kept, and added in the next step (Kahan's sum)."""
    u = -rate * (scale * g + decay * w)
    writes: list[Op] = []
    move = u
    if coefficient:
        velocity = slot(w, "velocity")
        move, v = rules.inertia(velocity, u, coefficient, nesterov)
        writes.append(assign(velocity, v))
    lost = slot(w, "lost")
    y = move - lost
    made = w + y
    return Update(made, [*writes, assign(lost, (made - w) - y)])


def rms_prop(
    w: Tensor,
    g: Tensor,
    scale: Any,
    rate: Any,
    rho: float,
    epsilon: float,
    decay: float = 0.0,
    coefficient: float = 0.0,
) -> Update:
    """r <- rho * r + (1 - rho) * g**2, from 1; v <- coefficient * v + rate * scale * g / sqrt(r + epsilon)
    + rate * decay * w; w <- w - v."""
    mean = slot(w, "mean_square", 1.0)
    v, r = rules.rms_prop(g, mean, rate * scale, rho, epsilon)
    writes = [assign(mean, r)]
    if decay:
        v = v + rate * decay * w
    if coefficient:
        velocity = slot(w, "velocity")
        v, _ = rules.inertia(velocity, v, coefficient, False)
        writes.append(assign(velocity, v))
    return Update(w - v, writes)


def adagrad(w: Tensor, g: Tensor, scale: Any, rate: Any, epsilon: float) -> Update:
    """G <- G + g**2, w <- w - scale * rate * g / sqrt(G + epsilon)."""
    total = slot(w, "squares")
    made = total + g * g
    return Update(rules.scaled_step(w, g, scale * rate, ng.sqrt(made + epsilon)), [assign(total, made)])


def adadelta(w: Tensor, g: Tensor, scale: Any, rate: Any, rho: float, epsilon: float) -> Update:
    """s <- rho * s + (1 - rho) * (scale * g)**2, d = sqrt((m + epsilon) / (s + epsilon)) * scale * g,
    m <- rho * m + (1 - rho) * d**2, w <- w - rate * d."""
    squares, moves = slot(w, "squares"), slot(w, "moves")
    move, s, m = rules.adadelta(scale * g, squares, moves, rho, epsilon)
    return Update(w - rate * move, [assign(squares, s), assign(moves, m)])


class Moments:
    """Running averages of gradients and of their squares, which start from 0, and what corrects them for that in one step.

    `first` and `second` are 1 - beta**t of the two; `write` counts the step.
    """

    def __init__(self, beta_1: float, beta_2: float):
        self.betas = beta_1, beta_2
        steps = step_count()
        t = steps + 1
        # 1 - beta**t without the rounding of a power near 1.
        self.first, self.second = (
            -ng.expm1(t * log(beta)) if beta else ng.constant(1) for beta in self.betas
        )
        self.write = assign(steps, t)

    def of(self, w: Tensor, g: Tensor) -> tuple[Tensor, Tensor, Sequence[Op]]:
        """(m, v, writes to both): m <- beta_1 * m + (1 - beta_1) * g, v <- beta_2 * v + (1 - beta_2) * g**2."""
        first, second = slot(w, "moment"), slot(w, "mean_square")
        m, v = rules.moments(g, first, second, *self.betas)
        return m, v, [assign(first, m), assign(second, v)]


def adam(w: Tensor, g: Tensor, scale: Any, rate: Any, moments: Moments, epsilon: float) -> Update:
    """w <- w - scale * rate * sqrt(1 - beta_2**t) / (1 - beta_1**t) * m / (sqrt(v) + epsilon)."""
    m, v, writes = moments.of(w, g)
    factor = scale * rate * ng.sqrt(moments.second) / moments.first
    return Update(rules.adam_step(w, m, v, factor, epsilon), writes)


def adam_w(
    w: Tensor, g: Tensor, scale: Any, rate: Any, moments: Moments, epsilon: float, decay: float
) -> Update:
    """w <- w - rate * (m' / (sqrt(v') + epsilon) + decay * w), m' and v' the corrected averages of scale * g."""
    m, v, writes = moments.of(w, scale * g)
    move = m / moments.first / (ng.sqrt(v / moments.second) + epsilon)
    return Update(w - rate * (move + decay * w), writes)
