# SPDX-License-Identifier: Apache-2.0
"""Products of matrices."""

from __future__ import annotations

from functools import reduce
from math import prod

from ... import numpy as np
from ...op_graph.tensor import Tensor
from ...support.diagnostics import UserError
from ..registry import operator


def _matrix(x: Tensor, rows: int) -> Tensor:
    """The tensor as a matrix whose rows are its first dimensions."""
    shape = x.type.shape
    if not 0 < rows < len(shape):
        raise UserError(f"a tensor of shape {list(shape)} is no matrix of which {rows} dimensions are rows")
    return np.reshape(x, (prod(shape[:rows]), prod(shape[rows:])))


@operator
def mul(x: Tensor, y: Tensor, *, x_num_col_dims: int, y_num_col_dims: int) -> Tensor:
    left, right = _matrix(x, x_num_col_dims), _matrix(y, y_num_col_dims)
    if left.type.shape[1] != right.type.shape[0]:
        raise UserError(
            f"X is {left.type.shape[0]} x {left.type.shape[1]} as a matrix, Y {right.type.shape[0]} x {right.type.shape[1]}",
            hint="the columns of X are as many as the rows of Y",
        )
    made = np.matmul(left, right)
    return np.reshape(made, (*x.type.shape[:x_num_col_dims], *y.type.shape[y_num_col_dims:]))


@operator
def matmul(x: Tensor, y: Tensor, *, transpose_X: bool, transpose_Y: bool) -> Tensor:
    is_row, is_column = len(x.type.shape) == 1, len(y.type.shape) == 1
    left = np.expand_dims(x, 0) if is_row else x
    right = np.expand_dims(y, 1) if is_column else y
    left = np.matrix_transpose(left) if transpose_X else left
    right = np.matrix_transpose(right) if transpose_Y else right
    made = np.matmul(left, right)
    *batch, rows, columns = made.type.shape
    kept = [
        *batch,
        *([] if is_row and rows == 1 else [rows]),
        *([] if is_column and columns == 1 else [columns]),
    ]
    return np.reshape(made, kept or [1])


@operator
def cos_sim(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    def length(rows: Tensor) -> Tensor:
        return np.sqrt(np.sum(np.square(rows), axis=-1, keepdims=True))

    left, right = length(x), length(y)
    return np.divide(np.sum(np.multiply(x, y), axis=-1, keepdims=True), np.multiply(left, right)), left, right


@operator
def conv_shift(x: Tensor, y: Tensor) -> Tensor:
    columns, width = x.type.shape[1], y.type.shape[1]
    if width % 2 == 0 or width > columns:
        raise UserError(f"the number of weights is odd, and at most {columns}, not {width}")
    half = (width - 1) // 2
    parts = [np.multiply(np.roll(x, half - j, axis=1), np.take(y, [j], axis=1)) for j in range(width)]
    return reduce(np.add, parts)


@operator
def bilinear_tensor_product(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    made = np.einsum("ni,kij,nj->nk", x, weight, y)
    return made if bias is None else np.add(made, bias)
