# SPDX-License-Identifier: Apache-2.0
"""Tensors of nothing but attributes: constants and random numbers."""

from __future__ import annotations

from builtins import range as builtin_range
from collections.abc import Sequence
from math import pi, prod, sqrt
from typing import Any

import numpy

from ... import numpy as np
from ...ir import core
from ...ir.literals import dtype_of
from ...ir.types import FloatType, Type, f32, i1
from ...op_graph.positions import Positions
from ...op_graph.tensor import Tensor
from ...op_graph.verbs import VERBS
from ...ops import ng
from ...support.diagnostics import UserError
from ..definition import Context, GradientOp
from ..descriptions import Operator
from ..names import gradient_name
from ..registry import gradient_maker, operator
from ..vartypes import element_of


@operator
def fill_constant(*, dtype: int, shape: Sequence[int], value: float, force_cpu: bool) -> Tensor:
    return np.full(shape, value, dtype_of(element_of(dtype)))


@operator
def fill_zeros_like(x: Tensor) -> Tensor:
    return np.zeros_like(x)


@operator
def assign(x: Tensor) -> Tensor:
    return x


@operator
def rnn_memory_helper(x: Tensor, *, dtype: Any) -> Tensor:
    return x


@operator
def copy(x: Tensor, *, source: str, target: str) -> Tensor:
    # The place of a value follows from the op that computes it.
    return x


@operator
def assign_value(
    *,
    shape: Sequence[int],
    dtype: int,
    fp32_values: Sequence[float],
    int32_values: Sequence[int],
    bool_values: Sequence[bool],
) -> Tensor:
    element = element_of(dtype)
    if isinstance(element, FloatType):
        return _given(fp32_values, shape, dtype)
    return _given(bool_values if element is i1 else int32_values, shape, dtype)


@operator
def fill(*, value: Sequence[float], shape: Sequence[int], dtype: int, force_cpu: bool) -> Tensor:
    return _given(value, shape, dtype)


def _given(values: Sequence[float], shape: Sequence[int], dtype: int) -> Tensor:
    if len(values) != prod(shape):
        raise UserError(f"{len(values)} values are given for the shape {list(shape)}")
    return np.asarray(numpy.asarray(values).astype(dtype_of(element_of(dtype))).reshape(shape))


@operator
def range(start: Tensor, end: Tensor, step: Tensor, *, context: Context) -> Tensor:
    first, last, by = (np.reshape(x, (1,)) for x in (start, end, step))
    context.require(np.not_equal(by, 0), "the step of a range is 0")
    steps = np.ceil(
        np.divide(np.subtract(np.astype(last, np.float64), first), np.where(np.equal(by, 0), 1, by))
    )
    count = context.size(np.astype(np.maximum(steps, 0), np.int32))
    return np.add(first, np.multiply(np.arange(count, dtype=start.dtype), by))


@operator
def where_index(condition: Tensor, *, context: Context) -> Tensor:
    count = context.size(np.reshape(np.sum(np.astype(condition, np.int32)), [1]))
    return np.stack(np.nonzero(condition, size=count), 1)


@operator
def fill_ones_like(x: Tensor) -> Tensor:
    return np.ones_like(x)


def _like(input: Tensor, shape: Sequence[int], input_dim_idx: int, output_dim_idx: int) -> list[int]:
    """A shape with one length of another tensor."""
    if output_dim_idx >= len(shape) or input_dim_idx >= len(input.type.shape):
        raise UserError(
            f"length {output_dim_idx} of {list(shape)} cannot be length {input_dim_idx} of {list(input.type.shape)}"
        )
    made = [*shape]
    made[output_dim_idx] = input.type.shape[input_dim_idx]
    if -1 in made:
        raise UserError(
            f"a length of {made} is not known", hint="output_dim_idx= says which one is taken from Input"
        )
    return made


@operator
def fill_constant_batch_size_like(
    input: Tensor,
    *,
    shape: Sequence[int],
    input_dim_idx: int,
    output_dim_idx: int,
    dtype: int,
    value: float,
    context: Context,
) -> Tensor:
    levels = context.levels("Input")
    context.give_levels("Out", ())
    lengths = _like(input, shape, input_dim_idx, output_dim_idx)
    if levels and input_dim_idx == 0:
        lengths[output_dim_idx] = levels[0].type.shape[0] - 1  # the number of sequences
    return np.full(lengths, value, dtype_of(element_of(dtype)))


# ---- random numbers


def drawn(
    op: type[core.Op], context: Context, shape: Sequence[int], seed: int, element: Type = f32
) -> Tensor:
    """Random numbers of an op; UserError for elements that are no floats."""
    if not isinstance(element, FloatType):
        raise UserError(f"random numbers are floats, not {element}")
    return drawn_by(op, context.random_key(seed), shape, element)


def drawn_by(op: type[core.Op], key: Tensor, shape: Sequence[int], element: Type = f32) -> Tensor:
    """Random numbers that follow from a key, two ui64."""
    return VERBS.stated(op, [key], {}, Positions.of(shape), element)


def _uniform(
    context: Context, shape: Sequence[int], low: float, high: float, seed: int, dtype: int
) -> Tensor:
    return np.add(
        np.multiply(drawn(ng.RandomUniformOp, context, shape, seed, element_of(dtype)), high - low), low
    )


def _normal(context: Context, shape: Sequence[int], mean: float, std: float, seed: int, dtype: int) -> Tensor:
    return np.add(np.multiply(drawn(ng.RandomNormalOp, context, shape, seed, element_of(dtype)), std), mean)


@operator
def uniform_random(
    *, context: Context, shape: Sequence[int], min: float, max: float, seed: int, dtype: int
) -> Tensor:
    return _uniform(context, shape, min, max, seed, dtype)


@operator
def gaussian_random(
    *, context: Context, shape: Sequence[int], mean: float, std: float, seed: int, dtype: int
) -> Tensor:
    return _normal(context, shape, mean, std, seed, dtype)


@operator
def truncated_gaussian_random(
    *, context: Context, shape: Sequence[int], mean: float, std: float, seed: int, dtype: int
) -> Tensor:
    # The normal distribution between two deviations, by the inverse of its distribution function, which is found by Newton's
    # method from the logit: the slope is nowhere small there.
    low, high = 0.022750131948179195, 0.9772498680518208
    u = np.add(
        np.multiply(drawn(ng.RandomUniformOp, context, shape, seed, element_of(dtype)), high - low), low
    )
    z = np.multiply(np.log(np.divide(u, np.subtract(1, u))), 0.6)
    for _ in builtin_range(4):
        below = np.multiply(np.add(np.erf(np.multiply(z, sqrt(0.5))), 1), 0.5)
        slope = np.multiply(np.exp(np.multiply(np.square(z), -0.5)), 1 / sqrt(2 * pi))
        z = np.subtract(z, np.divide(np.subtract(below, u), slope))
    return np.add(np.multiply(np.clip(z, -2.0, 2.0), std), mean)


@operator
def uniform_random_batch_size_like(
    input: Tensor,
    *,
    context: Context,
    shape: Sequence[int],
    input_dim_idx: int,
    output_dim_idx: int,
    min: float,
    max: float,
    seed: int,
    dtype: int,
) -> Tensor:
    context.give_levels("Out", ())
    return _uniform(context, _like(input, shape, input_dim_idx, output_dim_idx), min, max, seed, dtype)


@operator
def gaussian_random_batch_size_like(
    input: Tensor,
    *,
    context: Context,
    shape: Sequence[int],
    input_dim_idx: int,
    output_dim_idx: int,
    mean: float,
    std: float,
    seed: int,
    dtype: int,
) -> Tensor:
    context.give_levels("Out", ())
    return _normal(context, _like(input, shape, input_dim_idx, output_dim_idx), mean, std, seed, dtype)


@operator
def sampling_id(x: Tensor, *, context: Context, min: float, max: float, seed: int) -> Tensor:
    rows, columns = x.type.shape
    u = drawn(ng.RandomUniformOp, context, [rows, 1], seed)
    u = np.add(np.multiply(u, max - min), min)
    passed = np.sum(np.astype(np.less_equal(np.cumsum(x, axis=1), u), np.int64), axis=1)
    return np.minimum(passed, columns - 1)


@operator
def random_crop(
    x: Tensor, seed: Tensor, *, context: Context, shape: Sequence[int], startup_seed: int
) -> tuple[Tensor, Tensor]:
    whole = x.type.shape
    first = len(whole) - len(shape)
    if first < 0 or any(n > m for n, m in zip(shape, whole[first:], strict=True)):
        raise UserError(f"a part of shape {list(shape)} is not inside the shape {list(whole)}")
    items = prod(whole[:first])
    # A seed of 0 is none: then the places are others at each run.
    is_given = np.not_equal(seed, 0)
    own = np.concatenate([np.astype(np.reshape(seed, (1,)), np.uint64), np.zeros((1,), np.uint64)])
    key = np.where(np.reshape(is_given, (1,)), own, context.random_key(0))
    made = np.reshape(x, (items, *whole[first:]))
    for d, length in enumerate(shape):
        free = whole[first + d] - length + 1
        stream = np.add(key, np.array([0, d << 32], np.uint64))
        number = drawn_by(ng.RandomUniformOp, stream, [items, 1])
        start = np.astype(np.floor(np.multiply(number, float(free))), np.int64)
        places = np.add(start, np.arange(length))
        places = np.reshape(places, (items, *(1,) * d, length, *(1,) * (len(shape) - d - 1)))
        around = [items, *made.type.shape[1:]]
        around[1 + d] = length
        made = np.take_along_axis(made, np.broadcast_to(places, around), axis=1 + d)
    return np.reshape(made, (*whole[:first], *shape)), np.where(is_given, np.add(seed, 1), seed)


@gradient_maker("assign")
def _assign(op: Operator) -> list[GradientOp]:
    (x,), (out,) = op.inputs["X"], op.outputs["Out"]
    return [GradientOp("assign", {"X": [gradient_name(out)]}, {"Out": [gradient_name(x)]})]
