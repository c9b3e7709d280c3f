# SPDX-License-Identifier: Apache-2.0
"""Normalization, and dropout."""

from __future__ import annotations

from math import prod

from ... import numpy as np
from ...op_graph.tensor import Tensor
from ...ops import ng
from ...support.diagnostics import UserError
from ..definition import Context, Values
from ..registry import gradient_of, operator
from .activations import relu
from .filling import drawn


@operator
def batch_norm(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    variance: Tensor,
    *,
    is_test: bool,
    momentum: float,
    epsilon: float,
    data_layout: str,
    fuse_with_relu: bool,
) -> tuple[Tensor, ...]:
    shape = x.type.shape
    channel = len(shape) - 1 if data_layout == "NHWC" or len(shape) == 2 else 1
    others = tuple([d for d in range(len(shape)) if d != channel])
    along = [n if d == channel else 1 for d, n in enumerate(shape)]
    if scale.type.shape != (shape[channel],):
        raise UserError(
            f"Scale has a number for each of {shape[channel]} channels, not the shape {list(scale.type.shape)}"
        )
    new_mean, new_variance = mean, variance
    if is_test or 0 in shape:  # of no rows there is no mean, which would stay in the moving one
        used_mean, used_variance = mean, variance
        inverse = np.divide(1, np.sqrt(np.add(variance, epsilon)))
    else:
        used_mean = np.mean(x, axis=others)
        used_variance = np.mean(np.square(np.subtract(x, np.reshape(used_mean, along))), axis=others)
        new_mean = np.add(np.multiply(mean, momentum), np.multiply(used_mean, 1 - momentum))
        new_variance = np.add(np.multiply(variance, momentum), np.multiply(used_variance, 1 - momentum))
        inverse = np.divide(1, np.sqrt(np.add(used_variance, epsilon)))
    factor = np.reshape(np.multiply(inverse, scale), along)
    made = np.multiply(np.subtract(x, np.reshape(used_mean, along)), factor)
    made = np.add(made, np.reshape(bias, along))
    return relu(made) if fuse_with_relu else made, new_mean, new_variance, used_mean, inverse


def _normalized(rows: Tensor, epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of the last dimension with the mean 0 and the variance 1, and the mean and the variance of each, [..., 1]."""
    mean = np.mean(rows, axis=-1, keepdims=True)
    centred = np.subtract(rows, mean)
    variance = np.mean(np.square(centred), axis=-1, keepdims=True)
    return np.divide(centred, np.sqrt(np.add(variance, epsilon))), mean, variance


@operator
def layer_norm(
    x: Tensor, scale: Tensor | None, bias: Tensor | None, *, epsilon: float, begin_norm_axis: int
) -> tuple[Tensor, Tensor, Tensor]:
    shape = x.type.shape
    if begin_norm_axis >= len(shape):
        raise UserError(
            f"no dimension of the shape {list(shape)} is left to normalize along from {begin_norm_axis} on"
        )
    rows = np.reshape(x, (prod(shape[:begin_norm_axis]), prod(shape[begin_norm_axis:])))
    made, mean, variance = _normalized(rows, epsilon)
    made = made if scale is None else np.multiply(made, scale)
    made = made if bias is None else np.add(made, bias)
    flat = (rows.type.shape[0],)
    return np.reshape(made, shape), np.reshape(mean, flat), np.reshape(variance, flat)


@operator
def group_norm(
    x: Tensor,
    scale: Tensor | None,
    bias: Tensor | None,
    *,
    epsilon: float,
    groups: int,
    data_layout: str,
) -> tuple[Tensor, Tensor, Tensor]:
    rank = len(x.type.shape)
    if rank < 2:
        raise UserError(
            f"group_norm takes a batch of channels, not a tensor of the shape {list(x.type.shape)}"
        )
    last = data_layout == "NHWC"
    line = np.moveaxis(x, -1, 1) if last else x
    count, channels, *lengths = line.type.shape
    if channels % groups:
        raise UserError(f"{channels} channels are not divided into {groups} equal groups")
    made, mean, variance = _normalized(np.reshape(line, (count, groups, -1)), epsilon)
    made, of_channels = np.reshape(made, line.type.shape), (channels, *[1] * len(lengths))
    made = made if scale is None else np.multiply(made, np.reshape(scale, of_channels))
    made = made if bias is None else np.add(made, np.reshape(bias, of_channels))
    flat = (count, groups)
    return np.moveaxis(made, 1, -1) if last else made, np.reshape(mean, flat), np.reshape(variance, flat)


@operator
def lrn(x: Tensor, *, n: int, k: float, alpha: float, beta: float, is_test: bool) -> tuple[Tensor, Tensor]:
    channels = x.type.shape[1]
    before = (n - 1) // 2
    padded = np.pad(np.square(x), [(0, 0), (before, n - 1 - before), *[(0, 0)] * (len(x.type.shape) - 2)])
    total = np.take(padded, list(range(channels)), axis=1)
    for i in range(1, n):
        total = np.add(total, np.take(padded, list(range(i, i + channels)), axis=1))
    middle = np.add(np.multiply(total, alpha), k)
    return np.multiply(x, np.power(middle, -beta)), middle


@operator
def dropout(
    x: Tensor,
    *,
    context: Context,
    dropout_prob: float,
    is_test: bool,
    fix_seed: bool,
    seed: int,
    dropout_implementation: str,
) -> tuple[Tensor, Tensor]:
    factor = _dropout_factor(dropout_prob, is_test, dropout_implementation)
    if is_test:
        return x if factor == 1 else np.multiply(x, factor), np.ones_like(x)
    # A seed of 0 that is to be used is still one number.
    number = drawn(ng.RandomUniformOp, context, x.type.shape, seed or (1 << 31 if fix_seed else 0))
    mask = np.astype(np.greater_equal(number, dropout_prob), x.dtype)
    return np.multiply(x, mask if factor == 1 else np.multiply(mask, factor)), mask


def _dropout_factor(probability: float, is_test: bool, implementation: str) -> float:
    """What elements that stay are multiplied by."""
    if is_test == (implementation == "upscale_in_train"):
        return 1.0
    return 1 - probability if is_test else 1 / (1 - probability) if probability < 1 else 0.0


@gradient_of("dropout")
def dropout_grad(
    inputs: Values,
    outputs: Values,
    gradients: Values,
    *,
    dropout_prob: float,
    is_test: bool,
    fix_seed: bool,
    seed: int,
    dropout_implementation: str,
) -> dict[str, list[Tensor]]:
    factor = _dropout_factor(dropout_prob, is_test, dropout_implementation)
    by = factor if is_test else np.multiply(outputs["Mask"][0], factor)
    return {"X": [np.multiply(gradients["Out"][0], by)]}
