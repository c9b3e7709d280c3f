# SPDX-License-Identifier: Apache-2.0
"""The methods of NumPy's ufuncs of two operands: `ng.numpy.multiply.outer(x, y)`, `add.reduce(x)`, `add.accumulate(x)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..op_graph.tensor import Tensor
from .arrays import as_array, reshape, shape

#: The functions that do what a method does, along axis 0 unless another is given.
_ALONG = {
    "reduce": {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all", "logical_or": "any"},
    "accumulate": {"add": "cumsum", "multiply": "cumprod"},
}  # fmt: skip


def give_methods(functions: Mapping[str, Any]) -> None:
    """Gives the functions of a module that are ufuncs of NumPy their methods."""
    for name, function in functions.items():
        ufunc = getattr(np, name, None)
        if isinstance(ufunc, np.ufunc) and ufunc.signature is None and (ufunc.nin, ufunc.nout) == (2, 1):
            function.outer = _outer(function)
    for method, others in _ALONG.items():
        for name, other in others.items():
            setattr(functions[name], method, _along(functions[other]))


def _outer(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def outer(A: Any, B: Any, /, **options: Any) -> Tensor:
        """Of every element of A with every one of B: the axes of A, then those of B."""
        x, y = as_array(A), as_array(B)
        return function(reshape(x, [*shape(x), *[1] * len(shape(y))]), y, **options)

    return outer


def _along(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def along(array: Any, axis: Any = 0, **options: Any) -> Tensor:
        return function(array, axis=axis, **options)

    along.__doc__ = f"As `{function.__name__}`, along axis 0 unless another is given."
    return along
