# SPDX-License-Identifier: Apache-2.0
"""Factorizations and solutions of matrices: host steps that call NumPy's LAPACK, with gradients made of ops.

All take stacks of matrices in the last two axes, of float32 or float64 elements. A gradient that contains another of these steps
has a gradient itself, so derivatives of any order exist where the first one does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from ..op_graph.errors import NotDifferentiable, UserError, fail
from ..op_graph.host_ops import HostDefinition
from ..op_graph.positions import Positions
from ..op_graph.tensor import Tensor
from ..ops.hosts import Refusal
from .arrays import known, shape
from .composed import where
from .creation import tril
from .elementwise import divide, equal, logical_and, multiply, negative, reciprocal, subtract
from .indexing import getitem
from .joining import concatenate
from .products import matmul
from .reductions import sum
from .shaping import matrix_transpose

Array = np.ndarray[Any, Any]


class LinAlgError(UserError, np.linalg.LinAlgError):
    """A matrix that lacks what a function needs: it is singular, not positive definite, or its values do not converge."""

    __str__ = UserError.__str__


#: What to do about an error of NumPy's, by the first word of its message.
_HINTS = {
    "Singular": "ng.numpy.linalg.pinv(a) gives the pseudo-inverse; a + c * ng.numpy.eye(n) is not singular for most c",
    "Matrix": "check that the matrix is symmetric; a + c * ng.numpy.eye(n) is positive definite for a large enough c",
}


def _step(results: int | None = None, **declared: Any) -> Callable[[Callable[..., Any]], HostDefinition]:
    """A host op, whose LinAlgErrors are errors at the line that called it."""

    def decorate(function: Callable[..., Any]) -> HostDefinition:
        @wraps(function)
        def guarded(*arrays: Any) -> Any:
            try:
                with np.errstate(all="ignore"):
                    return function(*arrays)
            except np.linalg.LinAlgError as error:
                hint = _HINTS.get(str(error).partition(" ")[0], "check the elements for NaN and infinities")
                raise Refusal(LinAlgError, f"linalg.{function.__name__}: {error}", hint) from None

        return HostDefinition(guarded, results=results, **declared)

    return decorate


def _batch(a: Tensor) -> tuple[int, ...]:
    return shape(a)[:-2]


def _axes(*shapes: Sequence[int]) -> list[Positions]:
    return [Positions.of(each) for each in shapes]


def _diagonal_of(values: Tensor) -> Tensor:
    """Diagonal matrices of vectors."""
    return multiply(known(np.eye(shape(values)[-1])), getitem(values, (..., None))).astype(values.dtype)


def _quotient(x: Tensor, y: Tensor) -> Tensor:
    """x / y, and 0 where both are 0."""
    none = logical_and(equal(x, 0), equal(y, 0))
    return where(none, 0.0, divide(x, where(none, 1.0, y)))


def _symmetric(x: Tensor) -> Tensor:
    return multiply(x + matrix_transpose(x), 0.5)


def _is_absent(delta: Tensor) -> bool:
    """Whether a result is not differentiated at all."""
    return delta.const is not None and not np.any(delta.const)


# ---- solutions


@_step()
def inv(a: Array) -> Array:
    """The inverse of square matrices."""
    return np.linalg.inv(a)


@inv.gradient
def _(delta: Tensor, made: Tensor, a: Tensor) -> Tensor:
    turned = matrix_transpose(made)
    return negative(matmul(matmul(turned, delta), turned))


@_step(axes=lambda a, b: b.axes)
def solve(a: Array, b: Array) -> Array:
    """x with a @ x = b, for as many right sides as b has columns."""
    return np.linalg.solve(a, b)


@solve.gradient
def _(delta: Tensor, x: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    right = solve(matrix_transpose(a), delta)
    return negative(matmul(right, matrix_transpose(x))), right


@_step(axes=lambda a: Positions.of(_batch(a)))
def det(a: Array) -> Array:
    """The determinant of square matrices."""
    return np.linalg.det(a)


@det.gradient
def _(delta: Tensor, made: Tensor, a: Tensor) -> Tensor:
    return multiply(getitem(delta, (..., None, None)), cofactors(a))


@_step()
def cofactors(a: Array) -> Array:
    """The derivative of the determinant, of singular matrices too."""
    u, s, vh = np.linalg.svd(a)
    n = s.shape[-1]
    # Each product leaves out one singular value.
    others = np.prod(np.where(np.eye(n, dtype=bool), a.dtype.type(1), s[..., None, :]), axis=-1)
    sign = np.linalg.det(u) * np.linalg.det(vh)
    return (sign[..., None, None] * (u * others[..., None, :]) @ vh).astype(a.dtype)


@cofactors.gradient
def _(delta: Tensor, made: Tensor, a: Tensor) -> Tensor:
    turned = matrix_transpose(inv(a))
    along = getitem(sum(multiply(delta, turned), axis=(-2, -1)), (..., None, None))
    return subtract(multiply(made, along), matmul(matmul(turned, matrix_transpose(delta)), made))


@_step(2, axes=lambda a: _axes(_batch(a), _batch(a)))
def slogdet(a: Array) -> Any:
    """The sign of the determinant, and the logarithm of its magnitude."""
    return tuple(np.linalg.slogdet(a))


@slogdet.gradient
def _(deltas: Sequence[Tensor], made: Sequence[Tensor], a: Tensor) -> Tensor:
    if _is_absent(deltas[1]):
        return multiply(a, 0)
    return multiply(getitem(deltas[1], (..., None, None)), matrix_transpose(inv(a)))


@_step(axes=lambda a, rcond: Positions.of((*_batch(a), shape(a)[-1], shape(a)[-2])))
def pinv(a: Array, rcond: float) -> Array:
    """The pseudo-inverse; singular values up to `rcond` times the greatest one count as 0."""
    return np.linalg.pinv(a, rcond)


@pinv.gradient
def _(delta: Tensor, p: Tensor, a: Tensor, rcond: float) -> Tensor:
    turned, g = matrix_transpose(p), matrix_transpose(delta)
    made = negative(matmul(matmul(turned, delta), turned))
    outside = subtract(g, matmul(a, matmul(p, g)))
    made = made + matmul(outside, matmul(p, turned))
    outside = subtract(g, matmul(matmul(g, p), a))
    return made + matmul(turned, matmul(p, outside))


@_step(axes=lambda a, tolerance: Positions.of(_batch(a)), dtype="i64")
def matrix_rank(a: Array, tolerance: float | None) -> Array:
    """How many singular values are greater than a tolerance."""
    return np.asarray(np.linalg.matrix_rank(a, tolerance), np.int64)


# ---- factorizations


@_step()
def cholesky(a: Array) -> Array:
    """L, lower triangular, with L @ L.T the symmetric matrix whose lower triangle is that of a."""
    return np.linalg.cholesky(a)


@cholesky.gradient
def _(delta: Tensor, factor: Tensor, a: Tensor) -> Tensor:
    turned = matrix_transpose(factor)
    middle = tril(matmul(turned, delta))
    middle = _symmetric(subtract(middle, multiply(middle, known(np.eye(shape(a)[-1]) / 2, a.dtype))))
    # L^-T @ middle @ L^-1
    left = solve(turned, middle)
    return matrix_transpose(solve(turned, matrix_transpose(left)))


@_step(2, axes=lambda a, uplo: _axes(shape(a)[:-1], shape(a)))
def eigh(a: Array, uplo: Any) -> Any:
    """The eigenvalues of symmetric matrices, ascending, and their eigenvectors as columns."""
    return tuple(np.linalg.eigh(a, uplo))


@eigh.gradient
def _(deltas: Sequence[Tensor], made: Sequence[Tensor], a: Tensor, uplo: str) -> Tensor:
    (by_value, by_vector), (values, vectors) = deltas, made
    turned = matrix_transpose(vectors)
    middle = _diagonal_of(by_value)
    if not _is_absent(by_vector):
        turn = matmul(turned, by_vector)
        turn = multiply(turn, known(1 - np.eye(shape(a)[-1]), a.dtype))
        middle = middle + _quotient(turn, _differences(values))
    return _symmetric(matmul(matmul(vectors, middle), turned))


def _differences(values: Tensor) -> Tensor:
    """x[j] - x[i] at [i, j]."""
    return subtract(getitem(values, (..., None, slice(None))), getitem(values, (..., None)))


@_step(3, axes=lambda a, full: _svd_axes(a, full))
def svd(a: Array, full: bool) -> Any:
    """Left singular vectors as columns, singular values, descending, and right singular vectors as rows."""
    return tuple(np.linalg.svd(a, full_matrices=full))


def _svd_axes(a: Tensor, full: bool) -> list[Positions]:
    batch, (m, n) = _batch(a), shape(a)[-2:]
    k = min(m, n)
    return _axes((*batch, m, m if full else k), (*batch, k), (*batch, n if full else k, n))


@svd.gradient
def _(deltas: Sequence[Tensor], made: Sequence[Tensor], a: Tensor, full: bool) -> Tensor:
    (by_left, by_value, by_right), (left, values, right) = deltas, made
    (m, n), k = shape(a)[-2:], shape(values)[-1]
    if full and m != n:
        if not (_is_absent(by_left) and _is_absent(by_right)):
            fail(
                NotDifferentiable,
                f"singular vectors that complete those of {m} x {n} matrices are not unique, and have no derivative",
                "svd(a, full_matrices=False)",
            )
        left, values, right = svd(a, False)
    middle = _diagonal_of(by_value)
    row, squares = getitem(values, (..., None, slice(None))), _differences(multiply(values, values))
    inverse = getitem(where(equal(values, 0), 0.0, reciprocal(where(equal(values, 0), 1.0, values))), (..., None, slice(None)))  # fmt: skip
    beside: list[Tensor] = []
    if not _is_absent(by_left):
        turn = matmul(matrix_transpose(left), by_left)
        middle = middle + multiply(_quotient(subtract(turn, matrix_transpose(turn)), squares), row)
        if m > k:
            scaled = multiply(subtract(by_left, matmul(left, turn)), inverse)
            beside.append(matmul(scaled, right))
    if not _is_absent(by_right):
        by_columns = matrix_transpose(by_right)
        turn = matmul(right, by_columns)
        skew = _quotient(subtract(turn, matrix_transpose(turn)), squares)
        middle = middle + multiply(skew, getitem(values, (..., None)))
        if n > k:
            rest = subtract(by_columns, matmul(matrix_transpose(right), turn))
            beside.append(matmul(multiply(left, inverse), matrix_transpose(rest)))
    total = matmul(matmul(left, middle), right)
    for part in beside:
        total = total + part
    return total


@_step(2, axes=lambda a, mode: _qr_axes(a, mode))
def qr(a: Array, mode: Any) -> Any:
    """Q with orthonormal columns and R, upper triangular, with Q @ R = a."""
    return tuple(np.linalg.qr(a, mode))


def _qr_axes(a: Tensor, mode: str) -> list[Positions]:
    batch, (m, n) = _batch(a), shape(a)[-2:]
    k = m if mode == "complete" else min(m, n)
    return _axes((*batch, m, k), (*batch, k, n))


@qr.gradient
def _(deltas: Sequence[Tensor], made: Sequence[Tensor], a: Tensor, mode: str) -> Tensor:
    (by_q, by_r), (q, r) = deltas, made
    m, n = shape(a)[-2:]
    if mode == "complete" and m > n:
        if not _is_absent(by_q):
            fail(
                NotDifferentiable,
                f"the columns that complete Q of {m} x {n} matrices are not unique, and have no derivative",
                'qr(a, mode="reduced")',
            )
        q, r = qr(a, "reduced")
        by_q, by_r = getitem(by_q, (..., slice(n))), getitem(by_r, (..., slice(n), slice(None)))
    if m >= n:
        return _qr_gradient(by_q, by_r, q, r)
    # The first m columns make Q; the others are Q times theirs of R.
    first, rest = (..., slice(m)), (..., slice(m, None))
    by_q = by_q + matmul(getitem(a, rest), matrix_transpose(getitem(by_r, rest)))
    square = _qr_gradient(by_q, getitem(by_r, first), q, getitem(r, first))
    return concatenate([square, matmul(q, getitem(by_r, rest))], axis=-1)


def _qr_gradient(by_q: Tensor, by_r: Tensor, q: Tensor, r: Tensor) -> Tensor:
    """The gradient for matrices with at least as many rows as columns."""
    middle = subtract(matmul(r, matrix_transpose(by_r)), matmul(matrix_transpose(by_q), q))
    middle = tril(middle) + matrix_transpose(tril(middle, -1))
    total = by_q + matmul(q, middle)
    return matrix_transpose(solve(r, matrix_transpose(total)))
