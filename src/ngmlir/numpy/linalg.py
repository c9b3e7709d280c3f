# SPDX-License-Identifier: Apache-2.0
"""`ng.numpy.linalg`: norms and powers, and with them what `matrices` has, and products under the names that they have there."""

from __future__ import annotations

import math
from typing import Any

from ..ir.types import FloatType, f64
from ..op_graph.errors import UserError, fail
from ..op_graph.tensor import Tensor
from . import matrices, reductions
from .arrays import Axis, as_array, as_type, expand, places, reshape, shape
from .creation import eye
from .elementwise import absolute, divide, not_equal, power, sqrt, square
from .matrices import *  # noqa: F403
from .matrices import inv, svdvals
from .products import cross, matmul, outer, tensordot, vecdot
from .shaping import diagonal, matrix_transpose, moveaxis, trace

__all__: list[str] = [
    "cond", "cross", "diagonal", "matmul", "matrix_norm", "matrix_power", "matrix_transpose", "norm", "outer", "tensordot",
    "trace", "vecdot", "vector_norm",
]  # fmt: skip
__all__ += matrices.__all__


def norm(x: Any, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The norm of vectors (one axis), of matrices (two) or, without `ord`, of all elements.

    `ord` is a number, `inf`, `-inf`, or for matrices "fro", 1, -1, inf, -inf, or by singular values 2, -2 and "nuc".
    """
    x = _floating(x)
    rank = len(shape(x))
    if axis is None and ord is None:
        return sqrt(reductions.sum(square(x), keepdims=keepdims))
    axes = places(axis, rank)
    if len(axes) == 1:
        return vector_norm(x, axis=axes[0], ord=2 if ord is None else ord, keepdims=keepdims)
    if len(axes) != 2:
        fail(UserError, "Improper number of dimensions to norm.", "pass axis=, one or two axes")
    if ord in (None, "fro"):
        return sqrt(reductions.sum(square(x), axes, keepdims=keepdims))
    if ord in (2, -2, "nuc"):
        values = svdvals(moveaxis(x, axes, (-2, -1)))
        reduced = {2: reductions.max, -2: reductions.min, "nuc": reductions.sum}[ord](values, axis=-1)
        return reductions.kept(reduced, x, axes, keepdims)
    if ord not in (1, -1, math.inf, -math.inf):
        fail(
            UserError, f"the norm {ord!r} of matrices is not supported", "fro, nuc, 1, -1, 2, -2, inf or -inf"
        )
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
    """A matrix multiplied with itself, n times in all; for a negative n its inverse."""
    x = as_array(a)
    if n == 0:
        return expand(eye(shape(x)[-1], dtype=x.dtype), shape(x))
    if n < 0:
        x, n = inv(x), -n
    made: Tensor | None = None
    while n:
        if n & 1:
            made = x if made is None else matmul(made, x)
        n >>= 1
        if n:
            x = matmul(x, x)
    assert made is not None
    return made


def cond(x: Any, p: Any = None) -> Tensor:
    """The condition number of matrices: the greatest singular value over the least one, or by another norm `p`.

    A run raises LinAlgError for a singular matrix and a `p` other than None, 2 and -2, where NumPy gives inf.
    """
    if p not in (None, 2, -2):
        return norm(x, p, (-2, -1)) * norm(inv(x), p, (-2, -1))
    values = svdvals(x)
    first, last = values[..., 0], values[..., -1]
    return divide(last, first) if p == -2 else divide(first, last)


def _floating(x: Any) -> Tensor:
    x = as_array(x)
    return x if isinstance(x.element, FloatType) else as_type(x, f64)
