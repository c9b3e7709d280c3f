# SPDX-License-Identifier: Apache-2.0
"""Tensors of nothing but attributes: constants and random numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy

from ... import numpy as np
from ...ir import core
from ...ir.literals import dtype_of
from ...ir.types import FloatType
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
def assign_value(
    *, shape: Sequence[int], dtype: int, fp32_values: Sequence[float], int32_values: Sequence[int]
) -> Tensor:
    element = element_of(dtype)
    values = fp32_values if isinstance(element, FloatType) else int32_values
    if len(values) != numpy.prod(shape):
        raise UserError(f"{len(values)} values are given for the shape {list(shape)}")
    return np.asarray(numpy.asarray(values, dtype_of(element)).reshape(shape))


@operator
def uniform_random(
    *, context: Context, shape: Sequence[int], min: float, max: float, seed: int, dtype: int
) -> Tensor:
    return np.add(np.multiply(_drawn(ng.RandomUniformOp, context, shape, seed, dtype), max - min), min)


@operator
def gaussian_random(
    *, context: Context, shape: Sequence[int], mean: float, std: float, seed: int, dtype: int
) -> Tensor:
    return np.add(np.multiply(_drawn(ng.RandomNormalOp, context, shape, seed, dtype), std), mean)


def _drawn(op: type[core.Op], context: Context, shape: Sequence[int], seed: int, dtype: int) -> Tensor:
    element = element_of(dtype)
    if not isinstance(element, FloatType):
        raise UserError(f"random numbers are floats, not {element}")
    return VERBS.stated(op, [context.random_key(seed)], {}, Positions.of(shape), element)


@gradient_maker("assign")
def _assign(op: Operator) -> list[GradientOp]:
    (x,), (out,) = op.inputs["X"], op.outputs["Out"]
    return [GradientOp("assign", {"X": [gradient_name(out)]}, {"Out": [gradient_name(x)]})]
