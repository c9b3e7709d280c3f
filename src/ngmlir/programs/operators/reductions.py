# SPDX-License-Identifier: Apache-2.0
"""Sums, means and the like over some dimensions. One number is a tensor of shape [1]."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy

from ... import numpy as np
from ...op_graph.tensor import Tensor
from ...support.diagnostics import UserError
from ...support.lengths import is_same
from .. import segments
from ..definition import Context, GradientOp, Values
from ..descriptions import Operator
from ..names import gradient_name
from ..registry import gradient_maker, gradient_of, operator


@operator
def mean(x: Tensor) -> Tensor:
    return np.reshape(np.mean(x), [1])


def _over(
    function: Callable[..., Tensor], x: Tensor, dim: Sequence[int], keep_dim: bool, reduce_all: bool
) -> Tensor:
    made = function(x, axis=None if reduce_all else tuple(dim), keepdims=keep_dim)
    return made if made.type.shape else np.reshape(made, [1])


@operator
def reduce_sum(x: Tensor, *, dim: Sequence[int], keep_dim: bool, reduce_all: bool) -> Tensor:
    return _over(np.sum, x, dim, keep_dim, reduce_all)


@operator
def reduce_mean(x: Tensor, *, dim: Sequence[int], keep_dim: bool, reduce_all: bool) -> Tensor:
    return _over(np.mean, x, dim, keep_dim, reduce_all)


@operator
def reduce_prod(x: Tensor, *, dim: Sequence[int], keep_dim: bool, reduce_all: bool) -> Tensor:
    return _over(np.prod, x, dim, keep_dim, reduce_all)


def _extreme(function: Callable[..., Tensor], x: Tensor, dim: Sequence[int], **how: bool) -> Tensor:
    if any(is_same(x.type.shape[d], 0) for d in (range(len(x.type.shape)) if how["reduce_all"] else dim)):
        message = (
            f"of nothing there is no largest or smallest element, and X has the shape {list(x.type.shape)}"
        )
        raise UserError(
            message, hint="leave out batches without rows; layers.sequence_pool gives 0 of nothing"
        )
    return _over(function, x, dim, **how)


@operator
def reduce_max(x: Tensor, *, dim: Sequence[int], keep_dim: bool, reduce_all: bool) -> Tensor:
    return _extreme(np.max, x, dim, keep_dim=keep_dim, reduce_all=reduce_all)


@operator
def reduce_min(x: Tensor, *, dim: Sequence[int], keep_dim: bool, reduce_all: bool) -> Tensor:
    return _extreme(np.min, x, dim, keep_dim=keep_dim, reduce_all=reduce_all)


def _to_extremes(
    inputs: Values,
    outputs: Values,
    gradients: Values,
    *,
    dim: Sequence[int],
    keep_dim: bool,
    reduce_all: bool,
) -> dict[str, list[Tensor]]:
    """The gradient goes to each element that is the result."""
    (x,), (out,), (error,) = inputs["X"], outputs["Out"], gradients["Out"]
    rank = len(x.type.shape)
    gone = set(range(rank)) if reduce_all else {d % rank for d in dim}
    kept = [1 if d in gone else n for d, n in enumerate(x.type.shape)]
    same = np.equal(x, np.reshape(out, kept))
    return {"X": [np.where(same, np.reshape(error, kept), np.zeros_like(x))]}


for _type in ("reduce_max", "reduce_min"):
    gradient_of(_type)(_to_extremes)


@operator
def top_k(x: Tensor, *, k: int) -> tuple[Tensor, Tensor]:
    values, places = np.top_k(x, k)
    return values, np.astype(places, np.int64)


@operator
def arg_max(x: Tensor, *, axis: int) -> Tensor:
    made = np.astype(np.argmax(x, axis=axis), np.int64)
    return made if made.type.shape else np.reshape(made, [1])


@operator
def arg_min(x: Tensor, *, axis: int) -> Tensor:
    made = np.astype(np.argmin(x, axis=axis), np.int64)
    return made if made.type.shape else np.reshape(made, [1])


@operator
def argsort(x: Tensor, *, axis: int, descending: bool) -> tuple[Tensor, Tensor]:
    if descending:
        return np.top_k(x, x.type.shape[axis], axis=axis)
    places = np.astype(np.argsort(x, axis=axis), np.int64)
    return np.take_along_axis(x, places, axis), places


@operator
def cumsum(x: Tensor, *, axis: int, exclusive: bool, reverse: bool) -> Tensor:
    line = np.flip(x, axis) if reverse else x
    made = np.cumsum(line, axis=axis, dtype=x.dtype)
    if exclusive:
        made = np.subtract(made, line)
    return np.flip(made, axis) if reverse else made


@gradient_maker("cumsum")
def _cumsum(op: Operator) -> list[GradientOp]:
    (x,), (out,) = op.inputs["X"], op.outputs["Out"]
    fields = {**op.attributes, "reverse": not op.attribute("reverse")}
    return [GradientOp("cumsum", {"X": [gradient_name(out)]}, {"Out": [gradient_name(x)]}, fields)]


@operator
def l1_norm(x: Tensor) -> Tensor:
    return np.reshape(np.sum(np.absolute(x)), [1])


@operator
def squared_l2_norm(x: Tensor) -> Tensor:
    return np.reshape(np.sum(np.square(x)), [1])


@operator
def norm(x: Tensor, *, axis: int, epsilon: float) -> tuple[Tensor, Tensor]:
    root = np.sqrt(np.add(np.sum(np.square(x), axis=axis, keepdims=True), epsilon))
    return root, np.divide(x, root)


@operator
def is_empty(x: Tensor, *, context: Context) -> Tensor:
    if levels := context.levels("X"):  # in a loop there may be rows that belong to no sequence
        return np.logical_or(np.equal(segments.last(levels[-1]), 0), 0 in x.type.shape)
    return np.asarray(numpy.asarray([0 in x.type.shape]))


@operator
def shape(input: Tensor) -> Tensor:
    return np.asarray(numpy.asarray(input.type.shape, numpy.int32))
