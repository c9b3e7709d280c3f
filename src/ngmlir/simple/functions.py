# SPDX-License-Identifier: Apache-2.0
"""Functions of elements, reductions and products: those of `ng`, with features by position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from ..op_graph import functions as ng_functions
from ..op_graph.errors import AxisLengthError, IncompatibleAxesError, fail
from ..op_graph.functions import elementwise as ng_elementwise
from ..op_graph.functions.coerce import broadcast
from ..op_graph.simple_axes import canonical
from ..op_graph.tensor import Tensor
from .operands import Where, aligned, as_simple, chosen, is_number, named, renamed, shape, simple
from .operands import with_features as reshaped


def _of_elements(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @wraps(function)
    def made(*operands: Any, **options: Any) -> Tensor:
        return simple(function(*aligned(*operands), **options))

    return made


#: The names of functions of one element of each operand.
OF_ELEMENTS = [
    *ng_elementwise.__all__, "clip", "fma", "logical_and", "logical_not", "logical_or", "relu", "safelog", "sigmoid",
    "where", "invert", "bit_and", "bit_or", "bit_xor",
]  # fmt: skip
globals().update({name: _of_elements(getattr(ng_functions, name)) for name in OF_ELEMENTS})


def _reduction(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @wraps(function)
    def made(x: Any, axis: Where = None, keepdims: bool = False, dtype: Any = None) -> Tensor:
        x = as_simple(x)
        gone = chosen(x, axis)
        options = {} if dtype is None else {"dtype": dtype}
        result = simple(function(named(x), reduction_axes=gone, **options))
        if not keepdims:
            return result
        names = {a.name for a in gone}
        return reshaped(result, [1 if a.name in names else a.known_length for a in x.axes.features])  # type: ignore[attr-defined]

    return made


#: The names of functions that reduce features (all unless `axis` says which), samples ("N") or steps ("REC").
REDUCTIONS = ["all", "any", "argmax", "argmin", "max", "mean", "min", "prod", "sum", "variance"]
globals().update({name: _reduction(getattr(ng_functions, name)) for name in REDUCTIONS})


def matmul(x: Any, y: Any) -> Tensor:
    """The matrix product of the features, as NumPy has it: the last ones of x with the last but one (or only one) of y.

    Other features are matched from the last one; samples and steps that both have are matched, those of one side stay.
    """
    if is_number(x) or is_number(y):
        fail(
            IncompatibleAxesError,
            "a product of matrices has no single numbers as its sides",
            "multiply with *",
        )
    x, y = as_simple(x), as_simple(y)
    have, given = shape(x), shape(y)
    if not have or not given:
        lacking = y if have else x
        fail(
            IncompatibleAxesError,
            f"{lacking.called} has no features, so there is nothing to sum over",
            "multiply with *",
        )
    if have[-1] != given[-2:][0]:
        fail(
            AxisLengthError,
            f"features of shapes {have} and {given} have no matrix product: {have[-1]} elements on the left, "
            f"{given[-2:][0]} on the right",
        )
    try:
        outer = np.broadcast_shapes(have[:-2], given[:-2])
    except ValueError:
        fail(
            IncompatibleAxesError,
            f"features of shapes {have} and {given}: {have[:-2]} and {given[:-2]} cannot be matched",
        )
    row, column = ["_row"] * (len(have) > 1), ["_column"] * (len(given) > 1)
    left, right = _side(x, outer, [*row, "_summed"]), _side(y, outer, ["_summed", *column])
    batch = [a for a in left.axes if a in right.axes and a.name != "_summed"]
    made = ng_functions.dot(left, right, batch_axes=batch)
    names = [*(f"_outer{len(outer) - d}" for d in range(len(outer))), *row, *column]
    return simple(
        broadcast(made, [*(a for a in canonical(made.axes) if a.is_batch or a.is_recurrent), *names])
    )


def _side(x: Tensor, outer: Sequence[int], own: Sequence[str]) -> Tensor:
    """A side of a product under names: of its own last features, and of those before, from the last one on."""
    have = shape(x)
    before = have[: len(have) - len(own)]
    whole = outer[len(outer) - len(before) :]
    kept = [n for n, w in zip(before, whole, strict=True) if n == w]
    names = [f"_outer{len(before) - d}" for d, w in enumerate(whole) if before[d] == w]
    return renamed(reshaped(x, [*kept, *have[len(before) :]]), *names, *own)


__all__ = [*OF_ELEMENTS, *REDUCTIONS]  # pyright: ignore[reportUnsupportedDunderAll]
