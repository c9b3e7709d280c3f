# SPDX-License-Identifier: Apache-2.0
"""The methods of NumPy's ufuncs of two operands: `ng.numpy.multiply.outer(x, y)`, `add.reduce(x)`, `add.accumulate(x)`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..ir.literals import type_of_dtype
from ..ir.types import i1
from ..op_graph.answers import answered
from ..op_graph.errors import UserError, fail
from ..op_graph.functions.scans import scan
from ..op_graph.tensor import Tensor
from ..op_graph.verbs import VERBS
from .arrays import Axis, as_array, as_type, expand, permute, place, reduced, reshape, shape
from .reductions import kept
from .shaping import moveaxis

#: The functions that do what a method does, along axis 0 unless another is given.
_ALONG = {
    "reduce": {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all", "logical_or": "any"},
    "accumulate": {"add": "cumsum", "multiply": "cumprod"},
}  # fmt: skip

#: Ops that do what `accumulate` does, for numbers.
_CUMULATIVE = {"maximum": "cumulative_max", "minimum": "cumulative_min"}

#: Methods that do not exist, and what to write.
_ABSENT = {
    "at": "x.at[index].add(values), .multiply, .max and .min give a changed array",
    "reduceat": "ng.numpy.segment_sum(x, offsets), segment_prod, segment_max and segment_min reduce segments",
}


def give_methods(functions: Mapping[str, Any]) -> None:
    """Gives the functions of a module that are ufuncs of NumPy their methods."""
    for name, function in functions.items():
        ufunc = getattr(np, name, None)
        if isinstance(ufunc, np.ufunc) and ufunc.signature is None and (ufunc.nin, ufunc.nout) == (2, 1):
            methods = {
                "outer": _outer(function),
                "reduce": _reduce(ufunc, function),
                "accumulate": _accumulate(ufunc, function),
                **{
                    method: _along(functions[others[name]])
                    for method, others in _ALONG.items()
                    if name in others
                },
                **{method: _absent(f"{name}.{method}", hint) for method, hint in _ABSENT.items()},
            }
            for method, made in methods.items():
                setattr(function, method, answered(made, f"ng.numpy.{name}.{method}"))


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


def _absent(called: str, hint: str) -> Callable[..., Tensor]:
    def absent(*_: Any, **__: Any) -> Tensor:
        fail(UserError, f"ng.numpy has no {called}", hint)

    return absent


def _reduce(ufunc: np.ufunc, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def reduce(
        array: Any, axis: Axis = 0, dtype: Any = None, *, keepdims: bool = False, initial: Any = None
    ) -> Tensor:
        """The function of all elements along axes, one after the other; `initial` comes before the first."""
        x = as_array(array)
        axes = reduced(axis, len(shape(x)))
        kind = _asked(ufunc.reduce, x, dtype, axis=axis, **({} if initial is None else {"initial": 1}))
        first = ufunc.identity if initial is None else initial
        others = [d for d in range(len(shape(x))) if d not in axes]
        rest, count = [shape(x)[d] for d in others], math.prod(shape(x)[d] for d in axes)
        rows = reshape(permute(as_type(x, type_of_dtype(kind)), [*axes, *others]), (count, *rest))
        if first is None:
            last, rows = rows[0], rows[1:]
        else:
            last = expand(as_type(as_array(first), rows.element), rest)
        return kept(_folded(function, last, rows)[0], x, axes, keepdims)

    return reduce


def _accumulate(ufunc: np.ufunc, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def accumulate(array: Any, axis: int = 0, dtype: Any = None) -> Tensor:
        """The function of all elements up to each one along an axis."""
        x = as_array(array)
        at = place(axis, len(shape(x)))
        x = as_type(x, type_of_dtype(_asked(ufunc.accumulate, x, dtype, axis=axis)))
        if ufunc.__name__ in _CUMULATIVE and x.element is not i1:
            return getattr(VERBS, _CUMULATIVE[ufunc.__name__])(x, axis=at)
        if shape(x)[at] < 2:
            return x
        rows = moveaxis(x, at, 0)
        return moveaxis(VERBS.concatenate([rows[:1], _folded(function, rows[0], rows[1:])[1]], axis=0), 0, at)

    return accumulate


def _asked(method: Callable[..., Any], x: Tensor, dtype: Any, **options: Any) -> np.dtype[Any]:
    """The type that NumPy computes in: it is asked with an array that has no more than one element along each axis."""
    if x.dtype.kind == "V" and dtype is None:  # NumPy's own functions know no bfloat16
        return x.dtype
    try:
        return np.asarray(
            method(np.ones([min(n, 1) for n in shape(x)], x.dtype), dtype=dtype, **options)
        ).dtype
    except (TypeError, ValueError) as error:
        fail(UserError, str(error))


def _folded(function: Callable[..., Tensor], first: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """`function` of `first` and each row, one after the other: the last result, and all."""
    if shape(rows)[0] == 0:
        return first, rows

    def step(before: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        after = as_type(function(before, row), before.element)
        return after, after

    return scan(step, first, rows, rows.axes[0])
