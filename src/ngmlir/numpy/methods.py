# SPDX-License-Identifier: Apache-2.0
"""The methods and properties of NumPy's arrays, for tensors of this family."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from ..op_graph.answers import answered
from ..op_graph.errors import UserError, fail
from ..op_graph.tensor import Tensor
from . import composed, finding, indexing, products, reductions, shaping, sorting
from .arrays import shape


def _method(function: Callable[..., Any]) -> Callable[[Tensor], Any]:
    return lambda x: partial(function, x)


def _reshape(self: Tensor, *wanted: Any, order: str = "C") -> Tensor:
    """In another shape, given as one or as several numbers."""
    return shaping.reshape(self, wanted[0] if len(wanted) == 1 else wanted, order)


def _transpose(self: Tensor, *axes: Any) -> Tensor:
    """Axes in another order, given as one or as several numbers."""
    given = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
    return shaping.transpose(self, given or None)


_METHODS: dict[str, Callable[..., Any]] = {
    "reshape": _reshape,
    "transpose": _transpose,
    "flatten": shaping.ravel,
    **{f.__name__: f for f in (
        shaping.astype, shaping.diagonal, shaping.ravel, shaping.repeat, shaping.squeeze, shaping.swapaxes, shaping.trace,
        reductions.all, reductions.any, reductions.argmax, reductions.argmin, reductions.cumprod, reductions.cumsum,
        reductions.std, reductions.var, composed.clip, composed.round, products.dot,
        sorting.argsort, sorting.searchsorted, sorting.sort, indexing.choose, indexing.compress, indexing.take, finding.nonzero,
    )},
    "ptp": reductions.ptp,
}  # fmt: skip

#: Methods that take what their functions take as one argument as several, too.
_VARIED = ("reshape", "transpose")

_PROPERTIES: dict[str, Callable[[Tensor], Any]] = {
    "ndim": lambda x: len(shape(x)),
    "size": lambda x: math.prod(shape(x)),
    "itemsize": lambda x: x.dtype.itemsize,
    "nbytes": lambda x: math.prod(shape(x)) * x.dtype.itemsize,
    "mT": shaping.matrix_transpose,
    "real": lambda x: x,
    "at": indexing.At,
}

METHODS: Mapping[str, Callable[[Tensor], Any]] = {
    **_PROPERTIES,
    **{
        name: _method(answered(function, f"x.{name}" if name in _VARIED else f"ng.numpy.{function.__name__}"))
        for name, function in _METHODS.items()
    },
}


def iterate(x: Tensor) -> Iterator[Tensor]:
    """The slices along the first axis, one after the other."""
    if not shape(x):
        fail(UserError, f"{x.called} is a single number: iteration over a 0-d array")
    return (indexing.getitem(x, i) for i in range(shape(x)[0]))
