# SPDX-License-Identifier: Apache-2.0
"""Whether arrays are of the variables that they are given to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.literals import dtype_of
from ..support.diagnostics import Diagnostic, UserError
from .descriptions import Variable

Array = np.ndarray[Any, Any]


def has_shape(variable: Variable, shape: Sequence[int]) -> bool:
    """Whether a variable can have this shape: its own lengths that are known are these."""
    wanted = variable.shape
    return len(wanted) == len(shape) and all(n in (-1, m) for n, m in zip(wanted, shape, strict=True))


def check_fed(variable: Variable, array: Array) -> None:
    """UserError where an array is not of the variable that it is fed to."""
    name, dtype = variable.name, dtype_of(variable.element)
    if array.dtype != dtype:
        message = f"'{name}' holds {dtype}, and is fed an array of {array.dtype}"
        raise UserError(Diagnostic(message, variable.location, hint=f"array.astype('{dtype}')"))
    if not has_shape(variable, array.shape):
        message = (
            f"'{name}' has the shape {list(variable.shape)}, and is fed an array of shape {list(array.shape)}"
        )
        raise UserError(Diagnostic(message, variable.location, hint="-1 stands for any length"))


def check_kept(variable: Variable, array: Array) -> None:
    """UserError where an array of a file is not of the variable that it is the value of."""
    name, dtype = variable.name, dtype_of(variable.element)
    if array.dtype != dtype or not has_shape(variable, array.shape):
        raise UserError(
            f"'{name}' is {dtype} of shape {list(variable.shape)}, and the file holds {array.dtype} of shape {list(array.shape)}",
            variable.location,
        )
