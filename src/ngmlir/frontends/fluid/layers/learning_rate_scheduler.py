# SPDX-License-Identifier: Apache-2.0
"""Learning rates that change with the number of runs: operators on one counter, which all share."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, pi
from typing import Any

from ....support.diagnostics import UserError
from ..framework import Variable
from .made import layer
from .shaping import reduce_sum
from .tensor import autoincreased_step_counter, cast, fill_constant

__all__ = [
    "append_LARS", "cosine_decay", "exponential_decay", "inverse_time_decay", "linear_lr_warmup", "natural_exp_decay", "noam_decay",
    "piecewise_decay", "polynomial_decay",
]  # fmt: skip

_COUNTER = "@LR_DECAY_COUNTER@"


def _steps(begin: int = 0) -> Variable:
    """How many runs there were before this one, plus `begin`; float32 [1]."""
    counted = cast(autoincreased_step_counter(_COUNTER, begin=0), "float32")
    return counted + float(begin) if begin else counted


def _periods(decay_steps: float, staircase: bool) -> Variable:
    passed = _steps() / float(decay_steps)
    return layer("floor")(passed) if staircase else passed


def exponential_decay(
    learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False
) -> Variable:
    """l r^(t / s); with `staircase` of whole periods."""
    return layer("exp")(_periods(decay_steps, staircase) * log(decay_rate)) * float(learning_rate)


def natural_exp_decay(
    learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False
) -> Variable:
    """l exp(-r t / s); with `staircase` of whole periods."""
    return layer("exp")(_periods(decay_steps, staircase) * -float(decay_rate)) * float(learning_rate)


def inverse_time_decay(
    learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False
) -> Variable:
    """l / (1 + r t / s); with `staircase` of whole periods."""
    return float(learning_rate) / (_periods(decay_steps, staircase) * float(decay_rate) + 1.0)


def polynomial_decay(
    learning_rate: float,
    decay_steps: int,
    end_learning_rate: float = 0.0001,
    power: float = 1.0,
    cycle: bool = False,
) -> Variable:
    """(l - e) (1 - min(t, s) / s)^p + e; with `cycle` the number of steps grows each time it is reached."""
    steps, period = _steps(), float(decay_steps)
    if cycle:
        # Of no steps it is the first period.
        periods = layer("elementwise_max")(layer("ceil")(steps / period), fill_constant([1], "float32", 1.0))
        share = steps / (periods * period)
    else:
        share = layer("elementwise_min")(steps, fill_constant([1], "float32", period)) / period
    return layer("pow")(1.0 - share, factor=float(power)) * float(learning_rate - end_learning_rate) + float(
        end_learning_rate
    )


def piecewise_decay(boundaries: Sequence[int], values: Sequence[float]) -> Variable:
    """The first value whose boundary is above the number of steps, else the last."""
    if len(values) != len(boundaries) + 1:
        raise UserError(
            f"{len(boundaries)} boundaries lie between {len(boundaries) + 1} values, not {len(values)}",
            hint="a value for the steps before each boundary, and one for those after the last",
        )
    steps = _steps()
    made = fill_constant([1], "float32", float(values[0]))
    for boundary, before, after in zip(boundaries, values, values[1:], strict=False):
        passed = cast(steps >= float(boundary), "float32")
        made = made + passed * float(after - before)
    return made


def noam_decay(d_model: float, warmup_steps: float) -> Variable:
    """d^-0.5 min(t^-0.5, t w^-1.5), t from 1."""
    steps = _steps(begin=1)
    down, up = layer("pow")(steps, factor=-0.5), steps * float(warmup_steps) ** -1.5
    return layer("elementwise_min")(down, up) * float(d_model) ** -0.5


def cosine_decay(learning_rate: float, step_each_epoch: int, epochs: int) -> Variable:
    """l (cos(pi e / epochs) + 1) / 2 in epoch e = floor(t / step_each_epoch)."""
    epoch = _periods(step_each_epoch, staircase=True)
    return (layer("cos")(epoch * (pi / epochs)) + 1.0) * (float(learning_rate) / 2)


def linear_lr_warmup(
    learning_rate: float | Variable, warmup_steps: int, start_lr: float, end_lr: float
) -> Variable:
    """start + (end - start) t / w in the first w runs, and then the learning rate, a number or the variable of another schedule."""
    steps, period = _steps(), float(warmup_steps)
    rising = steps * (float(end_lr - start_lr) / period) + float(start_lr)
    is_over = cast(steps >= period, "float32")
    return rising * (1.0 - is_over) + is_over * learning_rate


def lars_rates(
    params_grads: Sequence[tuple[Any, Any]], learning_rate: Variable, weight_decay: float
) -> dict[str, Variable]:
    """The learning rate of each parameter by name: lr ||p|| / (||g|| + w ||p||)."""
    made: dict[str, Variable] = {}
    for param, grad in params_grads:
        weight = _norm(param)
        made[param.name] = learning_rate * weight / (_norm(grad) + weight * float(weight_decay))
    return made


def append_LARS(
    params_grads: Sequence[tuple[Any, Any]], learning_rate: Variable, weight_decay: float
) -> list[Variable]:
    """As `lars_rates`, in the order of the parameters; an optimizer with `LARS_weight_decay` takes them by itself."""
    return list(lars_rates(params_grads, learning_rate, weight_decay).values())


def _norm(x: Variable) -> Variable:
    return layer("sqrt")(reduce_sum(layer("square")(x)))
