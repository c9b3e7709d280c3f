# SPDX-License-Identifier: Apache-2.0
"""Operators with a form for sparse rows. Their results equal those for the dense matrix, except for updates of parameters:
rows that the gradient does not have keep their values and states.

A form returns NotImplemented for attributes that it does not support: then the operator gets the dense matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import numpy as np
from ...op_graph.tensor import Tensor
from ..registry import REGISTRY, on_rows
from ..sparse_rows import SparseRows, joined
from . import activations, elementwise, filling, functions, reductions, tables, updates

# These have the functions of the operators here.
_MODULES = (activations, elementwise, filling, functions, reductions, tables, updates)


@on_rows("sum")
def _sum(x: Sequence[Tensor | SparseRows]) -> Any:
    rows = joined([each for each in x if isinstance(each, SparseRows)])
    whole = [each for each in x if isinstance(each, Tensor)]
    return rows.added_to(elementwise.sum(whole)) if whole else rows


def _each(type: str, is_linear: bool) -> Callable[..., SparseRows]:
    """An operator on each row, which keeps rows of zeros."""

    def form(x: SparseRows, **attributes: Any) -> SparseRows:
        build = REGISTRY.get(type).build
        assert build is not None
        return (x if is_linear else x.merged()).mapped(lambda rows: build(rows, **attributes))

    return form


on_rows("assign")(_each("assign", True))
for _type in ("cast", "square", "sign", "clip_by_norm"):
    on_rows(_type)(_each(_type, False))


@on_rows("scale")
def _scale(x: SparseRows, *, bias: float, **attributes: Any) -> Any:
    return NotImplemented if bias else _each("scale", True)(x, bias=bias, **attributes)


@on_rows("clip")
def _clip(x: SparseRows, *, min: float, max: float) -> Any:
    keeps_zeros = min <= 0 <= max
    return x.merged().mapped(lambda rows: np.clip(rows, min, max)) if keeps_zeros else NotImplemented


@on_rows("elementwise_mul")
def _multiply(x: Any, y: Any, *, axis: int) -> Any:
    is_number = isinstance(x, SparseRows) and isinstance(y, Tensor) and y.type.shape == (1,)
    return x.mapped(lambda rows: np.multiply(rows, y)) if is_number else NotImplemented


@on_rows("reduce_sum")
def _reduce_sum(x: SparseRows, *, dim: Sequence[int], keep_dim: bool, reduce_all: bool) -> Any:
    if not reduce_all or keep_dim:
        return NotImplemented
    return reductions.reduce_sum(x.rows, dim=dim, keep_dim=keep_dim, reduce_all=reduce_all)


@on_rows("select_rows")
def _select_rows(x: Tensor, like: SparseRows) -> SparseRows:
    return like.merged().replaced(x)


@on_rows("extract_rows")
def _extract_rows(x: SparseRows) -> Tensor:
    return np.astype(np.reshape(x.ids, (x.ids.type.shape[0], 1)), np.int64)


# ---- updates


@on_rows("sgd")
def _sgd(param: Tensor, learning_rate: Tensor, grad: SparseRows) -> Tensor:
    return grad.added_to(param, np.negative(np.multiply(learning_rate, grad.rows)))


def _touched(
    grad: SparseRows, states: Sequence[Tensor], update: Callable[..., Sequence[Tensor]]
) -> tuple[Tensor, ...]:
    """What becomes of the parameter and its states where a gradient has rows: `update` of the rows of the gradient, and of
    them."""
    grad = grad.merged()
    made = update(grad.rows, *[grad.taken_from(state) for state in states])
    return tuple([grad.put_into(state, new) for state, new in zip(states, made, strict=True)])


@on_rows("adagrad")
def _adagrad(
    param: Tensor, grad: SparseRows, moment: Tensor, learning_rate: Tensor, *, epsilon: float
) -> tuple[Tensor, ...]:
    return _touched(
        grad, [param, moment], lambda g, p, m: updates.adagrad(p, g, m, learning_rate, epsilon=epsilon)
    )


@on_rows("adam")
def _adam(
    param: Tensor,
    grad: SparseRows,
    learning_rate: Tensor,
    moment1: Tensor,
    moment2: Tensor,
    beta1_pow: Tensor,
    beta2_pow: Tensor,
    **attributes: Any,
) -> tuple[Tensor, ...]:
    def update(g: Tensor, p: Tensor, first: Tensor, second: Tensor) -> Sequence[Tensor]:
        return updates.adam(p, g, learning_rate, first, second, beta1_pow, beta2_pow, **attributes)

    return _touched(grad, [param, moment1, moment2], update)
