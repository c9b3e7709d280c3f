# SPDX-License-Identifier: Apache-2.0
"""Element by element: arithmetic of two tensors, of one and a number, and casts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from ... import numpy as np
from ...ir.literals import dtype_of
from ...ir.types import FloatType
from ...op_graph.tensor import Tensor
from ...support.diagnostics import UserError
from ...support.lengths import is_same
from ..definition import GradientOp
from ..descriptions import Operator
from ..names import gradient_name
from ..registry import gradient_maker, operator
from ..vartypes import element_of


def along(x: Tensor, y: Tensor, axis: int) -> Tensor:
    """y with dimensions of length 1 appended, so that its dimensions are aligned with those of x from `axis` on."""
    shape, rank = y.type.shape, len(x.type.shape)
    start = rank - len(shape) if axis == -1 else axis
    while len(shape) > rank - start and shape and shape[-1] == 1:
        shape = shape[:-1]  # lengths of 1 at the end say nothing
    wanted = x.type.shape[start : start + len(shape)]
    if (
        start < 0
        or len(wanted) != len(shape)
        or not all(is_same(n, 1) or is_same(n, m) for n, m in zip(shape, wanted, strict=True))
    ):
        raise UserError(
            f"a tensor of shape {list(y.type.shape)} does not lie along one of shape {list(x.type.shape)} from dimension {start} on",
            hint="axis= says at which dimension of X those of Y begin",
        )
    return np.reshape(y, (*shape, *(1,) * (rank - start - len(shape))))


@operator
def elementwise_add(x: Tensor, y: Tensor, *, axis: int) -> Tensor:
    return np.add(x, along(x, y, axis))


@operator
def elementwise_sub(x: Tensor, y: Tensor, *, axis: int) -> Tensor:
    return np.subtract(x, along(x, y, axis))


@operator
def elementwise_mul(x: Tensor, y: Tensor, *, axis: int) -> Tensor:
    return np.multiply(x, along(x, y, axis))


@operator
def elementwise_div(x: Tensor, y: Tensor, *, axis: int) -> Tensor:
    y = along(x, y, axis)
    if isinstance(x.element, FloatType):
        return np.divide(x, y)
    quotient, rest = np.floor_divide(x, y), np.remainder(x, y)
    return np.where(
        np.logical_and(np.not_equal(rest, 0), np.less(quotient, 0)), np.add(quotient, 1), quotient
    )


@operator
def elementwise_max(x: Tensor, y: Tensor, *, axis: int) -> Tensor:
    y = along(x, y, axis)
    return np.where(np.greater(x, y), x, y)


@operator
def elementwise_min(x: Tensor, y: Tensor, *, axis: int) -> Tensor:
    y = along(x, y, axis)
    return np.where(np.less(x, y), x, y)


@operator
def elementwise_pow(x: Tensor, y: Tensor, *, axis: int) -> Tensor:
    return np.power(x, along(x, y, axis))


@operator
def scale(x: Tensor, *, scale: float, bias: float, bias_after_scale: bool) -> Tensor:
    if not bias:
        made = np.multiply(x, scale)
    elif bias_after_scale:
        made = np.add(np.multiply(x, scale), bias)
    else:
        made = np.multiply(np.add(x, bias), scale)
    return np.astype(made, x.dtype)


@operator
def sum(x: Sequence[Tensor]) -> Tensor:
    return reduce(np.add, x)


@operator
def minus(x: Tensor, y: Tensor) -> Tensor:
    return np.subtract(x, y)


@operator
def cast(x: Tensor, *, out_dtype: int, in_dtype: int) -> Tensor:
    return np.astype(x, dtype_of(element_of(out_dtype)))


@operator
def increment(x: Tensor, *, step: float) -> Tensor:
    return np.astype(np.add(x, step if isinstance(x.element, FloatType) else int(step)), x.dtype)


# ---- gradients that are other operators


def _scaled(op: Operator, name: str, by: float) -> GradientOp:
    (out,) = op.outputs["Out"]
    return GradientOp("scale", {"X": [gradient_name(out)]}, {"Out": [gradient_name(name)]}, {"scale": by})


@gradient_maker("scale")
def _scale(op: Operator) -> list[GradientOp]:
    return [_scaled(op, op.inputs["X"][0], op.attribute("scale"))]


@gradient_maker("sum")
def _sum(op: Operator) -> list[GradientOp]:
    return [_scaled(op, name, 1.0) for name in op.inputs["X"]]


@gradient_maker("minus")
def _minus(op: Operator) -> list[GradientOp]:
    return [_scaled(op, op.inputs["X"][0], 1.0), _scaled(op, op.inputs["Y"][0], -1.0)]


@gradient_maker("cast")
def _cast(op: Operator) -> list[GradientOp]:
    (x,), (out,) = op.inputs["X"], op.outputs["Out"]
    types = {"out_dtype": op.attribute("in_dtype"), "in_dtype": op.attribute("out_dtype")}
    return [GradientOp("cast", {"X": [gradient_name(out)]}, {"Out": [gradient_name(x)]}, types)]
