# SPDX-License-Identifier: Apache-2.0
"""Steps of optimizers."""

from __future__ import annotations

from collections.abc import Callable

from ....support.diagnostics import UserError
from ..nodes import Node, operator
from ..tensor import Tensor

_DOMAIN = "ai.onnx.preview.training"
Step = Callable[..., tuple[Tensor, ...]]


def _each(step: Step, inputs: tuple[Tensor, ...], kinds: int) -> list[Tensor]:
    """A step of each weight: inputs and outputs are grouped by kind."""
    count = len(inputs) // kinds
    if count * kinds != len(inputs):
        raise UserError(f"{len(inputs)} tensors for {kinds} kinds of state")
    made = [step(*inputs[i::count]) for i in range(count)]
    return [each for column in zip(*made, strict=True) for each in column]


@operator("Momentum", domain=_DOMAIN)
def momentum(n: Node, rate: Tensor, time: Tensor, *inputs: Tensor) -> list[Tensor]:
    alpha, beta = n.number("alpha"), n.number("beta")
    nesterov = n.text("mode") == "nesterov"

    def step(x: Tensor, g: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        g = x * n.number("norm_coefficient") + g
        first = time.reshape([]).equals(0)
        share = first.where(n.verbs.numbers(1, g.element), n.verbs.numbers(beta, g.element))
        v = v * alpha + g * share
        return x - (g + v * alpha if nesterov else v) * rate, v

    return _each(step, inputs, 3)


@operator("Adagrad", domain=_DOMAIN)
def adagrad(n: Node, rate: Tensor, time: Tensor, *inputs: Tensor) -> list[Tensor]:
    now = rate / (time.cast(rate.element) * n.number("decay_factor") + 1)

    def step(x: Tensor, g: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        g = x * n.number("norm_coefficient") + g
        h = h + g * g
        return x - g * now / (n.verbs.sqrt(h) + n.number("epsilon", 1e-6)), h

    return _each(step, inputs, 3)


@operator("Adam", domain=_DOMAIN)
def adam(n: Node, rate: Tensor, time: Tensor, *inputs: Tensor) -> list[Tensor]:
    alpha, beta = n.number("alpha", 0.9), n.number("beta", 0.999)
    steps = time.cast(rate.element)
    first = time.equals(0)

    def less(base: float) -> Tensor:
        return 1 - n.verbs.numbers(base, rate.element) ** steps

    exact = n.verbs.sqrt(less(beta)) / less(alpha)
    now = first.where(rate, rate * exact)

    def step(x: Tensor, g: Tensor, v: Tensor, h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        g = x * n.number("norm_coefficient") + g
        v, h = v * alpha + g * (1 - alpha), h * beta + g * g * (1 - beta)
        new = x - v * now / (n.verbs.sqrt(h) + n.number("epsilon", 1e-6))
        return new * (1 - n.number("norm_coefficient_post")), v, h

    return _each(step, inputs, 4)
