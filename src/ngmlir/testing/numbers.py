# SPDX-License-Identifier: Apache-2.0
"""Numbers to try an op on, as its entry in `dialects/` says: ordinary ones of its domain, and special ones of a type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import ml_dtypes
import numpy as np

from ..ir.definition import Domain
from ..ir.literals import dtype_of
from ..ir.types import FloatType, Type, element_type, i1, shape_of

Array = np.ndarray[Any, Any]


def special_numbers(element: Type) -> Array:
    """The numbers of an element type at which things go wrong, and some in between, as an array of one dimension."""
    dtype = dtype_of(element)
    if element is i1:
        return np.array([False, True])
    if not isinstance(element, FloatType):
        ends = np.iinfo(dtype)
        found = [0, 1, 2, 3, 5, 7, 8, 31, 32, 64, 100]
        found += [ends.max, ends.max - 1, ends.max // 2, ends.min, ends.min + 1]
        return np.array([*found, *([-1, -2, -3, -7] if ends.min else [])], dtype)
    info = cast(Any, ml_dtypes.finfo(dtype))
    tiny, least, most, step = (float(n) for n in (info.tiny, info.smallest_subnormal, info.max, info.eps))
    ordinary = [0.0, 1.0, 2.0, 0.5, 1.5, 2.5, 3.0, 7.0, 0.1, 1 / 3, 0.7, 10.0, 88.0, 100.0, 1e-3, 0.0625]
    edges = [np.inf, most, most / 2, tiny, tiny * 1.5, least, 3 * least, 1 + step, 1 - step / 2, 1 / step]
    return np.array([*ordinary, *edges, *(-n for n in (*ordinary, *edges)), np.nan]).astype(dtype)


def wide_numbers(element: Type, size: int, random: np.random.Generator) -> Array:
    """`size` numbers with bits drawn at random: floats of all exponents alike, integers of the whole range."""
    dtype = dtype_of(element)
    if element is i1:
        return np.asarray(random.random(size) < 0.5)
    return np.frombuffer(random.bytes(size * dtype.itemsize), dtype).copy()


def ordinary_numbers(domain: Domain, type: Type, random: np.random.Generator) -> Array:
    """An array of this type with numbers of an operand's domain: integers whole, unsigned ones not below 0."""
    shape, element = shape_of(type), element_type(type)
    dtype = dtype_of(element)
    if element is i1:
        return np.asarray(random.random(shape) < 0.5)
    if isinstance(element, FloatType):
        # A hundredth of the range is left free at either end, where a function may be steep.
        margin = (domain.high - domain.low) / 100
        return np.asarray(random.uniform(domain.low + margin, domain.high - margin, shape)).astype(dtype)
    info = np.iinfo(dtype)
    if domain.rising:
        found = np.sort(random.integers(int(domain.low), int(domain.high) + 1, shape), axis=None)
        found[[0, -1]] = domain.low, domain.high
        return found.astype(dtype)
    low, high = max(int(np.ceil(domain.low)), info.min), min(int(np.floor(domain.high)), info.max)
    return np.asarray(random.integers(low, max(low, high) + 1, shape)).astype(dtype)


def some_special(domain: Domain, type: Type, random: np.random.Generator) -> Array:
    """An array of this type with special numbers in any order; with ordinary ones where the domain leaves them out."""
    if not domain.special:
        return ordinary_numbers(domain, type, random)
    return np.asarray(random.choice(special_numbers(element_type(type)), shape_of(type)))


def combinations(arrays: Sequence[Array]) -> list[Array]:
    """Every combination of the numbers of some arrays, as arrays of one dimension and one length."""
    return [np.ascontiguousarray(grid).reshape(-1) for grid in np.meshgrid(*arrays, indexing="ij")]
