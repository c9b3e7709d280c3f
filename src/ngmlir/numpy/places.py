# SPDX-License-Identifier: Apache-2.0
"""Indices: between places in an array and their numbers row by row, and those of diagonals and triangles."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from ..ir.types import i64
from ..op_graph.errors import UserError, fail
from ..op_graph.tensor import Tensor
from .arrays import (
    Shape,
    as_array,
    as_type,
    constant_elements,
    known,
    known_now,
    lengths,
    shape,
    turned,
)
from .composed import clip, floor_divide
from .creation import made_now
from .elementwise import add, multiply, remainder


def unravel_index(indices: Any, shape: Shape, order: str = "C") -> tuple[Tensor, ...]:
    """For numbers of elements, counted row by row, their index along each axis of a shape; int64. With `order="F"` the first axis
    is counted first. Numbers that are computed are not checked."""
    sizes, at = lengths(shape), as_array(indices)
    elements = constant_elements(at)
    if elements is not None:
        return tuple(
            known(np.asarray(part, np.int64))
            for part in np.unravel_index(elements, sizes, order=_order(order))
        )
    at = as_type(at, i64)
    made: list[Tensor] = []
    for size in sizes if _order(order) == "F" else reversed(sizes):
        made.append(remainder(at, size))
        at = floor_divide(at, size)
    return tuple(made if order == "F" else reversed(made))


def ravel_multi_index(multi_index: Any, dims: Shape, mode: Any = "raise", order: str = "C") -> Tensor:
    """The number of each element, counted row by row in an array of these dimensions, of its index along each axis; int64.

    `mode`, one for all axes or one for each: `wrap` takes the remainder, `clip` the nearest index; indices that are out of range are
    an error with `raise`, if they are constants.
    """
    sizes, parts = lengths(dims), [as_array(part) for part in multi_index]
    modes = (mode,) * len(sizes) if isinstance(mode, str) else tuple(mode)
    if len(parts) != len(sizes) or len(modes) != len(sizes):
        fail(UserError, f"{len(parts)} indices and {len(modes)} modes for {len(sizes)} dimensions")
    numbers = list[Any]()
    for part, size, how in zip(parts, sizes, modes, strict=True):
        elements = constant_elements(part)
        if how not in ("raise", "wrap", "clip"):
            fail(UserError, f"mode must be 'raise', 'wrap' or 'clip', not {how!r}")
        if how == "raise" and elements is not None and ((elements < 0) | (elements >= size)).any():
            fail(UserError, f"an index is out of range for {size} elements")
        part = as_type(part, i64)
        numbers.append(
            remainder(part, size) if how == "wrap" else clip(part, 0, size - 1) if how == "clip" else part
        )
    pairs = list(zip(numbers, sizes, strict=True))
    made: Tensor = known(0, i64)
    for part, size in pairs if _order(order) == "C" else reversed(pairs):
        made = add(multiply(made, size), part)
    return made


def _order(order: str) -> Any:
    if order not in ("C", "F"):
        fail(UserError, f"order is 'C' or 'F', not {order!r}")
    return order


diag_indices, tril_indices, triu_indices = (
    made_now(f, "constants, int64,") for f in (np.diag_indices, np.tril_indices, np.triu_indices)
)


def tril_indices_from(arr: Any, k: int = 0) -> tuple[Tensor, ...]:
    """The indices of the lower triangle of a matrix, up to the k-th diagonal."""
    rows, columns = _matrix(arr)
    return tril_indices(rows, k, columns)


def triu_indices_from(arr: Any, k: int = 0) -> tuple[Tensor, ...]:
    """The indices of the upper triangle of a matrix, from the k-th diagonal on."""
    rows, columns = _matrix(arr)
    return triu_indices(rows, k, columns)


def _matrix(arr: Any) -> tuple[int, int]:
    sizes = shape(as_array(arr))
    if len(sizes) != 2:
        fail(UserError, f"an array of shape {sizes} is no matrix")
    return sizes[0], sizes[1]


def diag_indices_from(arr: Any) -> tuple[Tensor, ...]:
    """The indices of the diagonal of an array whose axes are equally long."""
    sizes = shape(as_array(arr))
    if len(sizes) < 2 or len(builtins.set(sizes)) != 1:
        fail(UserError, f"an array of shape {sizes} has no diagonal of all axes")
    return diag_indices(sizes[0], len(sizes))


def ix_(*args: Any) -> tuple[Tensor, ...]:
    """Vectors of indices, each along a separate axis, which select all combinations. A vector of bools stands for the positions
    where it is true, and must be known when the graph is built."""
    made: list[Tensor] = []
    for d, given in enumerate(args):
        row = as_array(given)
        if len(shape(row)) != 1:
            fail(UserError, f"ix_ takes rows, not an array of shape {shape(row)}")
        if row.dtype == bool:
            row = known(np.flatnonzero(known_now(row, "how many are true")))
        row = as_type(row, i64) if math.prod(shape(row)) == 0 else row
        made.append(turned(row, d, len(args)))
    return tuple(made)
