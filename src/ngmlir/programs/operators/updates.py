# SPDX-License-Identifier: Apache-2.0
"""Updates of parameters: what optimizers append to a program."""

from __future__ import annotations

from ... import numpy as np
from ...op_graph.tensor import Tensor
from ...training import updates as rules
from ..registry import operator


@operator
def sgd(param: Tensor, learning_rate: Tensor, grad: Tensor) -> Tensor:
    return param - learning_rate * grad


@operator
def momentum(
    param: Tensor, grad: Tensor, velocity: Tensor, learning_rate: Tensor, *, mu: float, use_nesterov: bool
) -> tuple[Tensor, Tensor]:
    by, moved = rules.inertia(velocity, grad, mu, use_nesterov)
    return param - learning_rate * by, moved


@operator
def adam(
    param: Tensor,
    grad: Tensor,
    learning_rate: Tensor,
    moment1: Tensor,
    moment2: Tensor,
    beta1_pow: Tensor,
    beta2_pow: Tensor,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
) -> tuple[Tensor, Tensor, Tensor]:
    first, second = rules.moments(grad, moment1, moment2, beta1, beta2)
    corrected = np.astype(np.sqrt(1 - beta2_pow) / (1 - beta1_pow), learning_rate.dtype)
    return rules.adam_step(param, first, second, learning_rate * corrected, epsilon), first, second


@operator
def lamb(
    param: Tensor,
    grad: Tensor,
    learning_rate: Tensor,
    moment1: Tensor,
    moment2: Tensor,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
    weight_decay: float,
) -> tuple[Tensor, Tensor, Tensor]:
    first, second = rules.moments(grad, moment1, moment2, beta1, beta2)
    step = first / (np.sqrt(second) + epsilon) + weight_decay * param
    size, of_step = (np.sqrt(np.sum(np.square(each))) for each in (param, step))
    has_ratio = np.logical_and(np.greater(size, 0), np.greater(of_step, 0))
    ratio = np.where(has_ratio, size / np.where(has_ratio, of_step, 1), 1)
    return param - learning_rate * ratio * step, first, second


@operator
def adagrad(
    param: Tensor, grad: Tensor, moment: Tensor, learning_rate: Tensor, *, epsilon: float
) -> tuple[Tensor, Tensor]:
    total = moment + grad * grad
    return rules.scaled_step(param, grad, learning_rate, np.sqrt(total) + epsilon), total


@operator
def decayed_adagrad(
    param: Tensor, grad: Tensor, moment: Tensor, learning_rate: Tensor, *, decay: float, epsilon: float
) -> tuple[Tensor, Tensor]:
    total = rules.running_mean(moment, grad * grad, decay)
    return rules.scaled_step(param, grad, learning_rate, np.sqrt(total) + epsilon), total


@operator
def adadelta(
    param: Tensor, grad: Tensor, squared_grad: Tensor, squared_update: Tensor, *, rho: float, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    move, grads, moves = rules.adadelta(grad, squared_grad, squared_update, rho, epsilon)
    return param - move, grads, moves


@operator
def adamax(
    param: Tensor,
    grad: Tensor,
    moment: Tensor,
    inf_norm: Tensor,
    beta1_pow: Tensor,
    learning_rate: Tensor,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
) -> tuple[Tensor, Tensor, Tensor]:
    mean = rules.running_mean(moment, grad, beta1)
    most = np.maximum(inf_norm * beta2 + epsilon, np.absolute(grad))
    rate = learning_rate / np.astype(1 - beta1_pow, learning_rate.dtype)
    return rules.scaled_step(param, mean, rate, most), mean, most


@operator
def rmsprop(
    param: Tensor,
    grad: Tensor,
    mean_square: Tensor,
    moment: Tensor,
    learning_rate: Tensor,
    *,
    epsilon: float,
    decay: float,
    momentum: float,
) -> tuple[Tensor, Tensor, Tensor]:
    step, square = rules.rms_prop(grad, mean_square, learning_rate, decay, epsilon)
    moved, _ = rules.inertia(moment, step, momentum, False)
    return param - moved, moved, square


@operator
def ftrl(
    param: Tensor,
    grad: Tensor,
    squared: Tensor,
    linear: Tensor,
    learning_rate: Tensor,
    *,
    l1: float,
    l2: float,
    lr_power: float,
) -> tuple[Tensor, Tensor, Tensor]:
    total = np.add(squared, np.square(grad))
    new, old = np.power(total, -lr_power), np.power(squared, -lr_power)
    slope = np.divide(np.subtract(new, old), learning_rate)
    line = np.add(linear, np.subtract(grad, np.multiply(slope, param)))
    pulled = np.subtract(np.multiply(np.sign(line), l1), line)
    moved = np.divide(pulled, np.add(np.divide(new, learning_rate), 2 * l2))
    return np.where(np.greater(np.absolute(line), l1), moved, 0), total, line


def _proximal(prox: Tensor, rate: Tensor, l1: float, l2: float) -> Tensor:
    size = np.maximum(np.subtract(np.absolute(prox), np.multiply(rate, l1)), 0)
    return np.divide(np.multiply(np.sign(prox), size), np.add(np.multiply(rate, l2), 1))


@operator
def proximal_gd(param: Tensor, grad: Tensor, learning_rate: Tensor, *, l1: float, l2: float) -> Tensor:
    return _proximal(np.subtract(param, np.multiply(learning_rate, grad)), learning_rate, l1, l2)


@operator
def proximal_adagrad(
    param: Tensor, grad: Tensor, moment: Tensor, learning_rate: Tensor, *, l1: float, l2: float
) -> tuple[Tensor, Tensor]:
    total = np.add(moment, np.square(grad))
    prox = np.subtract(param, np.divide(np.multiply(learning_rate, grad), np.sqrt(total)))
    return _proximal(prox, learning_rate, l1, l2), total


#: After so many updates the first sum goes to the second, so that small numbers are not added to large ones.
_SUMMED = 16384


@operator
def average_accumulates(
    param: Tensor,
    sum_1: Tensor,
    sum_2: Tensor,
    sum_3: Tensor,
    accumulates: Tensor,
    old_accumulates: Tensor,
    updates: Tensor,
    *,
    average_window: float,
    max_average_window: int,
    min_average_window: int,
) -> tuple[Tensor, ...]:
    updates, count = np.add(updates, 1), np.add(accumulates, 1)
    first = np.add(sum_1, param)
    moves = np.equal(np.remainder(updates, _SUMMED), 0)
    first, second = np.where(moves, 0, first), np.where(moves, np.add(sum_2, first), sum_2)
    share = np.astype(np.multiply(np.astype(updates, np.float64), average_window), np.int64)
    window = np.minimum(share, max_average_window)
    ends = np.logical_and(np.greater_equal(count, min_average_window), np.greater_equal(count, window))
    third = np.where(ends, np.add(first, second), sum_3)
    return (
        np.where(ends, 0, first),
        np.where(ends, 0, second),
        third,
        np.where(ends, 0, count),
        np.where(ends, count, old_accumulates),
        updates,
    )
