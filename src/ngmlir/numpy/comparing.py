# SPDX-License-Identifier: Apache-2.0
"""Whether arrays are equal as a whole, and which elements occur in another array."""

from __future__ import annotations

import math
from typing import Any

from ..ir.types import i1, ui8
from ..op_graph.errors import IncompatibleAxesError
from ..op_graph.tensor import Tensor
from .arrays import as_array, as_type, common_shape, joined, known, of_type, reshape, shape
from .elementwise import equal, isclose, isnan, logical_and, logical_not, logical_or
from .indexing import take
from .reductions import all, any
from .sorting import searchsorted, sort

#: From so many elements on they are sorted, and each is searched for by halves.
_MANY = 64


def allclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Whether all elements are equal within tolerances, as `isclose` compares them; bool."""
    return all(isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Tensor:
    """Whether both have the same shape and the same elements; bool. With `equal_nan`, NaN equals NaN."""
    x, y = as_array(a1), as_array(a2)
    if shape(x) != shape(y):
        return known(False)
    same = equal(x, y)
    return all(logical_or(same, logical_and(isnan(x), isnan(y))) if equal_nan else same)


def array_equiv(a1: Any, a2: Any) -> Tensor:
    """Whether both have the same elements where one is repeated to the shape of the other; bool."""
    x, y = as_array(a1), as_array(a2)
    try:
        common_shape(shape(x), shape(y))
    except IncompatibleAxesError:
        return known(False)
    return all(equal(x, y))


def isin(element: Any, test_elements: Any, assume_unique: bool = False, *, invert: bool = False) -> Tensor:
    """Which elements occur in `test_elements`, or with `invert` which do not; bool, in the shape of `element`. NaN occurs nowhere."""
    kind = joined(element, test_elements)
    x, among = (as_type(of_type(v, kind), ui8 if kind is i1 else kind) for v in (element, test_elements))
    count = math.prod(shape(among))
    among = reshape(among, (count,))
    if count < _MANY:
        found = any(equal(reshape(x, (*shape(x), 1)), among), axis=-1)
    else:
        ordered = sort(among)
        found = equal(take(ordered, searchsorted(ordered, x), mode="clip"), x)
    return logical_not(found) if invert else found
