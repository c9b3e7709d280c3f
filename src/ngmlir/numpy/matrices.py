# SPDX-License-Identifier: Apache-2.0
"""Equations, inverses, determinants and factorizations of matrices, under the names of `numpy.linalg`.

Each takes stacks of matrices in the last two axes. Elements are float32 or float64, integers become float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..ir.types import f32, f64, i32
from ..op_graph.errors import IncompatibleAxesError, UserError, fail
from ..op_graph.tensor import Tensor
from . import lapack, reductions
from .arrays import as_type, common_shape, expand, reshape, shape
from .elementwise import inexact, square, subtract
from .indexing import getitem
from .lapack import LinAlgError
from .products import einsum, matmul
from .shaping import moveaxis

__all__ = [
    "EighResult", "LinAlgError", "QRResult", "SVDResult", "SlogdetResult", "cholesky", "det", "eigh", "eigvalsh", "inv",
    "lstsq", "matrix_rank", "multi_dot", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensorinv",
    "tensorsolve",
]  # fmt: skip


class EighResult(NamedTuple):
    """What `eigh` gives."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """What `qr` gives."""

    Q: Tensor
    R: Tensor


class SVDResult(NamedTuple):
    """What `svd` gives."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class SlogdetResult(NamedTuple):
    """What `slogdet` gives."""

    sign: Tensor
    logabsdet: Tensor


def _matrices(x: Any, least: int = 2) -> Tensor:
    """An operand with elements that LAPACK computes with."""
    x = inexact(x)
    if x.element is not f32 and x.element is not f64:
        fail(
            UserError,
            f"array type {x.dtype} is unsupported in linalg",
            'x.astype("float32") has elements that it takes',
        )
    if len(shape(x)) < least:
        fail(
            IncompatibleAxesError,
            f"{len(shape(x))}-dimensional array given. Array must be at least two-dimensional",
            "x[:, None] is a matrix of one column",
        )
    return x


def _square(x: Any) -> Tensor:
    x = _matrices(x)
    if shape(x)[-1] != shape(x)[-2]:
        fail(
            IncompatibleAxesError,
            f"the last two axes of an array of shape {shape(x)} make no square matrices",
            "lstsq, pinv, qr and svd take other matrices",
        )
    return x


def solve(a: Any, b: Any) -> Tensor:
    """x with `a @ x = b`; b is a vector, or holds right sides as columns in the last two axes.

    Args:
        a: (..., M, M), square matrices.
        b: (M,) or (..., M, K); axes before are broadcast.

    Raises IncompatibleAxesError for other shapes; a run raises LinAlgError (a UserError) for a singular matrix.
    """
    a, b = _square(a), _matrices(b, 1)
    kind = f64 if f64 in (a.element, b.element) else f32
    a, b = as_type(a, kind), as_type(b, kind)
    is_vector = len(shape(b)) == 1
    columns = reshape(b, (*shape(b), 1)) if is_vector else b
    if shape(columns)[-2] != shape(a)[-1]:
        fail(
            IncompatibleAxesError,
            f"solve: a right side of {shape(columns)[-2]} elements does not fit matrices of shape {shape(a)[-2:]}",
        )
    batch = common_shape(shape(a)[:-2], shape(columns)[:-2])
    made = lapack.solve(expand(a, (*batch, *shape(a)[-2:])), expand(columns, (*batch, *shape(columns)[-2:])))
    return getitem(made, (..., 0)) if is_vector else made


def inv(a: Any) -> Tensor:
    """The inverse of square matrices. A run raises LinAlgError (a UserError) for a singular one."""
    return lapack.inv(_square(a))


def det(a: Any) -> Tensor:
    """The determinant of square matrices. It has a derivative at singular matrices too, a second one at others."""
    return lapack.det(_square(a))


def slogdet(a: Any) -> SlogdetResult:
    """The sign of the determinant and the logarithm of its magnitude: 0 and -inf of a singular matrix."""
    return SlogdetResult(*lapack.slogdet(_square(a)))


def cholesky(a: Any, /, *, upper: bool = False) -> Tensor:
    """The lower triangular L with `L @ L.T = a`, or its transpose.

    Only the lower triangle of `a` is read (the upper one with `upper`). The gradient is that of a symmetric matrix, as in
    JAX and PyTorch: it is symmetric. A run raises LinAlgError (a UserError) for a matrix that is not positive definite.
    """
    a = _square(a)
    if not upper:
        return lapack.cholesky(a)
    return _turned(lapack.cholesky(_turned(a)))


def _turned(x: Tensor) -> Tensor:
    return einsum("...ij->...ji", x)


def eigh(a: Any, UPLO: str = "L") -> EighResult:
    """The eigenvalues of symmetric matrices, ascending, and their eigenvectors as columns.

    Only one triangle of `a` is read. The gradient is that of a symmetric matrix. That of eigenvectors is infinite or NaN
    where eigenvalues are equal; that of eigenvalues is not.
    """
    if UPLO not in ("L", "U"):
        fail(UserError, f"UPLO is 'L' or 'U', not {UPLO!r}")
    return EighResult(*lapack.eigh(_square(a), UPLO))


def eigvalsh(a: Any, UPLO: str = "L") -> Tensor:
    """The eigenvalues of symmetric matrices, ascending."""
    return eigh(a, UPLO).eigenvalues


def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """U, S and Vh with `a = U @ diag(S) @ Vh`; without `compute_uv` S alone.

    Args:
        a: (..., M, N).
        full_matrices: whether U is (M, M) and Vh (N, N); else they have min(M, N) columns and rows.

    The gradient of U and Vh is infinite or NaN where singular values are equal, and needs `full_matrices=False` where M is
    not N (NotDifferentiable); that of S is not.
    """
    made = lapack.svd(_matrices(a), full_matrices and compute_uv)
    return SVDResult(*made) if compute_uv else made[1]


def svdvals(x: Any, /) -> Tensor:
    """The singular values, descending."""
    return svd(x, compute_uv=False)


def qr(a: Any, mode: str = "reduced") -> Any:
    """Q with orthonormal columns and R, upper triangular, with `Q @ R = a`.

    `mode` is "reduced" (min(M, N) columns of Q), "complete" (M; their derivative does not exist), or "r" (R alone). The
    gradient exists where the first min(M, N) columns are independent.
    """
    if mode not in ("reduced", "complete", "r"):
        fail(UserError, f"the mode {mode!r} of qr is not there", "reduced, complete or r")
    made = QRResult(*lapack.qr(_matrices(a), "complete" if mode == "complete" else "reduced"))
    return made.R if mode == "r" else made


def pinv(a: Any, rcond: float | None = None, *, rtol: float | None = None) -> Tensor:
    """The pseudo-inverse. Singular values up to `rcond` times the greatest one count as 0 (1e-15 without it, as in NumPy).

    The gradient holds where the rank does not change.
    """
    a = _matrices(a)
    return lapack.pinv(a, _cutoff(rcond, rtol, 1e-15))


def _cutoff(rcond: float | None, rtol: float | None, default: float) -> float:
    given = rtol if rcond is None else rcond
    if given is None:
        return default
    if not isinstance(given, (int, float)):  # pyright: ignore[reportUnnecessaryIsInstance]
        fail(UserError, f"the cutoff of singular values is a number, not {given!r}")
    return float(given)


def _epsilon(a: Tensor) -> float:
    return (2.0**-52 if a.element is f64 else 2.0**-23) * max(shape(a)[-2:])


def matrix_rank(A: Any, tol: float | None = None, *, rtol: float | None = None) -> Tensor:
    """How many singular values are greater than `tol`, or than `rtol` times the greatest one; int64, without a gradient."""
    x = _matrices(A)
    if rtol is not None:
        if tol is not None:
            fail(UserError, "`tol` and `rtol` can't be both set.")
        values = svdvals(x)
        most = reductions.max(values, axis=-1, keepdims=True, initial=0)
        return reductions.sum(values > most * rtol, axis=-1)
    return lapack.matrix_rank(x, tol)


def lstsq(a: Any, b: Any, rcond: float | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(x, residuals, rank, singular values): the x of least norm with the least norm of `a @ x - b`.

    Args:
        a: (M, N).
        b: (M,) or (M, K).
        rcond: singular values up to that times the greatest one count as 0; epsilon times the longer axis without it.

    Residuals are the sums of squares for each column where M > N, and empty else. (NumPy's are empty too where the rank is
    less than N, which only a run tells.)
    """
    a, b = _matrices(a), _matrices(b, 1)
    (m, n), right = shape(a)[-2:], shape(b)
    if len(shape(a)) != 2 or len(right) > 2 or right[:1] != (m,):
        fail(IncompatibleAxesError, f"lstsq: shapes {shape(a)} and {right} are not (M, N) and (M,) or (M, K)")
    cutoff = _cutoff(rcond, None, _epsilon(a))
    x = matmul(lapack.pinv(a, cutoff), b)
    values = svdvals(a)
    rank = as_type(reductions.sum(values > reductions.max(values, initial=0) * cutoff), i32)
    rest = square(subtract(matmul(a, x), b))
    columns = reshape(rest, (m, math.prod(right[1:])))
    residuals = reductions.sum(columns if m > n else getitem(columns, (slice(None), slice(0))), axis=0)
    return x, residuals, rank, values


def tensorsolve(a: Any, b: Any, axes: Sequence[int] | None = None) -> Tensor:
    """x with `tensordot(a, x, x.ndim) = b`; `axes` of `a` are moved to its end first. Raises IncompatibleAxesError, LinAlgError."""
    a, b = _matrices(a, 1), _matrices(b, 0)
    if axes is not None:
        a = moveaxis(a, tuple(axes), tuple(range(-len(axes), 0)))
    wanted = shape(a)[len(shape(b)) :]
    if math.prod(wanted) != math.prod(shape(b)):
        fail(IncompatibleAxesError, f"tensorsolve: {shape(a)} and {shape(b)} make no square matrix")
    count = math.prod(wanted)
    return reshape(solve(reshape(a, (count, count)), reshape(b, (count,))), wanted)


def tensorinv(a: Any, ind: int = 2) -> Tensor:
    """The inverse of the map from the last axes to the first `ind`. Raises IncompatibleAxesError, LinAlgError."""
    a = _matrices(a, 1)
    if ind <= 0:
        fail(UserError, "Invalid ind argument.", "the number of axes that come first in a")
    first, last = shape(a)[:ind], shape(a)[ind:]
    if math.prod(first) != math.prod(last):
        fail(IncompatibleAxesError, f"tensorinv: {first} and {last} make no square matrix")
    return reshape(inv(reshape(a, (math.prod(first), math.prod(last)))), (*last, *first))


def multi_dot(arrays: Sequence[Any]) -> Tensor:
    """The product of two or more matrices; the first and the last may be vectors. They are multiplied in an order with few multiplications."""
    if len(arrays) < 2:
        fail(UserError, "Expecting at least two arrays.")
    letters = [f"{chr(97 + i)}{chr(98 + i)}" for i in range(len(arrays))]
    if len(shape(inexact(arrays[0]))) == 1:
        letters[0] = letters[0][1:]
    if len(shape(inexact(arrays[-1]))) == 1:
        letters[-1] = letters[-1][:1]
    result = "".join(c for c in letters[0] + letters[-1] if "".join(letters).count(c) == 1)
    return einsum(f"{','.join(letters)}->{result}", *arrays)
