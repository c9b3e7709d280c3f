# SPDX-License-Identifier: Apache-2.0
"""Polynomials as rows of coefficients, the highest power first."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.literals import type_of_dtype
from ..ir.types import f32, f64
from ..op_graph.errors import UserError, fail
from ..op_graph.tensor import Tensor
from . import linalg, reductions
from .arrays import as_array, as_type, constant_elements, expand, join, joined, known, reshape, shape
from .creation import arange, ones, zeros
from .elementwise import add, divide, multiply, negative, sqrt, subtract
from .indexing import getitem
from .joining import concatenate, stack
from .products import convolve
from .shaping import atleast_1d


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Tensor:
    """A row of powers for each element, from the N - 1st down to 0, or up with `increasing`; N is the number of elements if it is not given."""
    row = as_array(x)
    if len(shape(row)) != 1:
        fail(UserError, f"vander takes a row, not an array of shape {shape(row)}")
    n = shape(row)[0]
    count = n if N is None else N
    kind = type_of_dtype(np.promote_types(row.dtype, int))
    one = ones((n, min(count, 1)), int)
    factors = expand(reshape(as_type(row, kind), (n, 1)), (n, max(count - 1, 0)))
    powers = join([as_type(one, kind), reductions.cumprod(factors, axis=1, dtype=factors.dtype)], 1)
    return powers if increasing else getitem(powers, (slice(None), slice(None, None, -1)))


def poly(seq_of_zeros: Any) -> Tensor:
    """The polynomial whose zeros are the elements of a row, with 1 for the highest power."""
    row = atleast_1d(seq_of_zeros)
    if len(shape(row)) != 1:
        fail(
            UserError,
            f"poly takes a row of zeros, not an array of shape {shape(row)}",
            "the zeros of a symmetric matrix are linalg.eigvalsh(x)",
        )
    row = row if row.element in (f32, f64) else as_type(row, f64)
    one = ones(1, row.dtype)
    made = one
    for i in range(shape(row)[0]):
        made = convolve(made, concatenate([one, negative(row[i : i + 1])]))
    return made if shape(row)[0] else known(1.0)


def polyval(p: Any, x: Any) -> Tensor:
    """The polynomial with coefficients p, the highest power first, at x."""
    coefficients, at = as_array(p), as_array(x)
    made = zeros(shape(at), at.dtype)
    for i in range(shape(coefficients)[0]):
        made = add(multiply(made, at), getitem(coefficients, i))
    return made


def polyadd(a1: Any, a2: Any) -> Tensor:
    """The sum of polynomials."""
    return add(*_as_long(atleast_1d(a1), atleast_1d(a2)))


def polysub(a1: Any, a2: Any) -> Tensor:
    """The difference of polynomials."""
    return subtract(*_as_long(atleast_1d(a1), atleast_1d(a2)))


def _as_long(*rows: Tensor) -> list[Tensor]:
    """Each with zeros before it, as many as the longest has coefficients."""
    most = max(shape(row)[0] for row in rows)
    return [concatenate([zeros(most - shape(row)[0], row.dtype), row]) for row in rows]


def polymul(a1: Any, a2: Any) -> Tensor:
    """The product of polynomials. Zeros before the first coefficient are dropped if the coefficients are known now."""
    return convolve(_trimmed(a1), _trimmed(a2))


def _trimmed(p: Any) -> Tensor:
    row = atleast_1d(p)
    elements = constant_elements(row)
    if elements is None:
        return row
    found = np.trim_zeros(elements, "f")
    return known(found if found.size else np.zeros(1, row.dtype))


def polydiv(u: Any, v: Any) -> tuple[Tensor, Tensor]:
    """The quotient of polynomials, and what is left, which has one coefficient less than v. Zeros before the first coefficient of
    what is left are dropped if all coefficients are known now."""
    row, by = add(atleast_1d(u), 0.0), add(atleast_1d(v), 0.0)
    first, second = constant_elements(atleast_1d(u)), constant_elements(atleast_1d(v))
    if first is not None and second is not None:
        quotient, left = np.polydiv(first, second)
        return known(quotient), known(left)
    kind = joined(row, by)
    row, by = as_type(row, kind), as_type(by, kind)
    n, width = shape(row)[0], shape(by)[0]
    if n < width:
        return zeros(1, row.dtype), row
    scale, found = divide(1.0, getitem(by, 0)), []
    for _ in range(n - width + 1):
        factor = multiply(getitem(row, 0), scale)
        row = concatenate(
            [subtract(getitem(row, slice(width)), multiply(factor, by)), getitem(row, slice(width, None))]
        )[1:]
        found.append(factor)
    return stack(found), row if width > 1 else zeros(1, row.dtype)


def polyder(p: Any, m: int = 1) -> Tensor:
    """The m-th derivative of a polynomial."""
    made = atleast_1d(p)
    if m < 0:
        fail(UserError, f"the order of a derivative is 0 or more, not {m}", "polyint(p, m) integrates")
    for _ in range(m):
        made = multiply(made[:-1], arange(shape(made)[0] - 1, 0, -1))
    return made


def polyint(p: Any, m: int = 1, k: Any = None) -> Tensor:
    """The m-th integral of a polynomial, with `k`, one number or m of them, as constants (0 unless it is given)."""
    made = atleast_1d(p)
    if m < 0:
        fail(UserError, f"the order of an integral is 0 or more, not {m}", "polyder(p, m) differentiates")
    constants = zeros(m) if k is None else atleast_1d(k)
    constants = expand(constants, (m,)) if shape(constants) == (1,) else constants
    if shape(constants) != (m,):
        fail(UserError, f"{shape(constants)[0]} constants for {m} integrals")
    for i in range(m):
        made = concatenate([divide(made, arange(shape(made)[0], 0, -1)), constants[i : i + 1]])
    return made


def polyfit(x: Any, y: Any, deg: int, rcond: float | None = None, *, w: Any = None) -> Tensor:
    """The coefficients of the polynomial of degree `deg` with the least squared distance to the points (x, y), the highest power
    first; y may have several columns. `w` are factors of the distances. Float64; runs on the host, as `linalg.lstsq` does."""
    row, values = as_array(x), as_array(y)
    if len(shape(row)) != 1 or 0 in shape(row) or shape(values)[:1] != shape(row) or deg < 0:
        fail(UserError, f"points of shapes {shape(row)} and {shape(values)} for a polynomial of degree {deg}")
    row, values = as_type(row, f64), as_type(values, f64)
    count, left = shape(row)[0], vander(row, deg + 1)
    if w is not None:
        factors = as_type(as_array(w), f64)
        left = multiply(left, reshape(factors, (count, 1)))
        values = multiply(values, reshape(factors, (count, *[1] * (len(shape(values)) - 1))))
    scale = sqrt(reductions.sum(multiply(left, left), axis=0))
    rcond = count * float(np.finfo(np.float64).eps) if rcond is None else rcond
    found = linalg.lstsq(divide(left, scale), values, rcond)[0]
    return divide(found, reshape(scale, (deg + 1, *[1] * (len(shape(values)) - 1))))
