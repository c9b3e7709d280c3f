# SPDX-License-Identifier: Apache-2.0
"""`ng.numpy.linalg`: norms, and products under the names that they have there."""

from __future__ import annotations

import math
from typing import Any

from ..ir.types import FloatType, f64
from ..op_graph.errors import UserError, fail
from ..op_graph.tensor import Tensor
from . import reductions
from .arrays import Axis, as_array, as_type, places, reshape, shape
from .elementwise import absolute, not_equal, power, sqrt, square
from .products import cross, matmul, outer, tensordot, vecdot
from .shaping import diagonal, matrix_transpose, trace

__all__ = [
    "cross", "diagonal", "matmul", "matrix_norm", "matrix_power", "matrix_transpose", "norm", "outer", "tensordot", "trace",
    "vecdot", "vector_norm",
]  # fmt: skip


def norm(x: Any, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The norm of vectors (one axis), of matrices (two) or, without `ord`, of all elements.

    `ord` is a number, `inf`, `-inf`, or for matrices "fro", 1, -1, inf or -inf; norms by singular values are not there.
    """
    x = _floating(x)
    rank = len(shape(x))
    if axis is None and ord is None:
        return sqrt(reductions.sum(square(x), keepdims=keepdims))
    axes = places(axis, rank)
    if len(axes) == 1:
        return vector_norm(x, axis=axes[0], ord=2 if ord is None else ord, keepdims=keepdims)
    if len(axes) != 2:
        fail(UserError, "Improper number of dimensions to norm.", "give axis=: one or two")
    if ord in (None, "fro"):
        return sqrt(reductions.sum(square(x), axes, keepdims=keepdims))
    if ord not in (1, -1, math.inf, -math.inf):
        fail(UserError, f"the norm {ord!r} of matrices is not there", "fro, 1, -1, inf or -inf")
    one = axes[0] if ord in (1, -1) else axes[1]
    (other,) = (a for a in axes if a != one)
    sums = reductions.sum(absolute(x), one, keepdims=True)
    made = (reductions.max if ord > 0 else reductions.min)(sums, other, keepdims=True)
    return made if keepdims else reshape(made, [n for d, n in enumerate(shape(made)) if d not in axes])


def vector_norm(x: Any, *, axis: Axis = None, keepdims: bool = False, ord: Any = 2) -> Tensor:
    """The norm of vectors along axes (all by itself)."""
    x = _floating(x)
    if ord == 2:
        return sqrt(reductions.sum(square(x), axis, keepdims=keepdims))
    size = absolute(x)
    if ord in (math.inf, -math.inf):
        return (reductions.max if ord > 0 else reductions.min)(size, axis, keepdims=keepdims)
    if ord == 0:
        return as_type(reductions.sum(not_equal(x, 0), axis, keepdims=keepdims), x.element)
    if ord == 1:
        return reductions.sum(size, axis, keepdims=keepdims)
    if not isinstance(ord, (int, float)):
        fail(UserError, f"Invalid norm order '{ord}' for vectors")
    return power(reductions.sum(power(size, ord), axis, keepdims=keepdims), 1 / ord)


def matrix_norm(x: Any, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """The norm of matrices of the last two axes."""
    return norm(x, ord, (-2, -1), keepdims)


def matrix_power(a: Any, n: int) -> Tensor:
    """A matrix multiplied with itself, n times in all; n is positive."""
    x = as_array(a)
    if n <= 0:
        fail(UserError, f"the power {n} of a matrix is not there", "a positive integer")
    made: Tensor | None = None
    while n:
        if n & 1:
            made = x if made is None else matmul(made, x)
        n >>= 1
        if n:
            x = matmul(x, x)
    assert made is not None
    return made


def _floating(x: Any) -> Tensor:
    x = as_array(x)
    return x if isinstance(x.element, FloatType) else as_type(x, f64)
