# SPDX-License-Identifier: Apache-2.0
"""What all executables do with the arguments of a call, on every device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from ..support.arrays import UNMASK, is_masked, misfit, misfit_hint, misfit_text
from ..support.artifact import Check
from ..support.diagnostics import UserError
from ..support.signature import Parameter
from .buffers import DTYPES
from .copies import copy_into

#: Converts the values of a call to arrays; arrays of the right kind may bypass it.
Prepare: TypeAlias = Callable[[Sequence[Any]], Sequence[Any]]


def check_count(name: str, parameters: Sequence[Parameter], values: Sequence[Any]) -> None:
    """UserError, with the names of the parameters, unless there are as many values as parameters."""
    if len(values) != len(parameters):
        names = ", ".join(parameter.name for parameter in parameters)
        plural = "" if len(parameters) == 1 else "s"
        raise UserError(
            f"{name} takes {len(parameters)} argument{plural} ({names}), but {len(values)} were given",
            hint="pass one array per argument, by position",
        )


def as_array(parameter: Parameter, value: Any, *, copy: bool = False) -> np.ndarray:
    """`value` as the C-contiguous, aligned array that the parameter asks for.

    Element types convert as in a NumPy assignment (`float64` to `float32` and so on), but values that an integer type
    cannot hold are rejected; shapes never convert. With `copy`, the array's memory is not shared.
    """
    dtype = DTYPES[parameter.dtype]
    _check_mask(parameter, value)
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise _refusal(parameter, f"this value is not an array: {error}") from error
    if array.shape != parameter.shape:
        raise _refusal(
            parameter,
            f"it has shape {array.shape}",
            hint="reshape it, or compile for this shape",
        )
    ready = array.dtype == dtype and array.flags.c_contiguous and array.flags.aligned
    if ready and not copy:
        return array
    if array.dtype.kind in "OSUMmc" or (array.dtype.kind == "V" and array.dtype not in DTYPES.values()):
        raise _refusal(parameter, f"its elements are {array.dtype}", hint=f"convert it to {dtype}")
    wrong = misfit(array, dtype)
    if wrong is not None:
        hint = misfit_hint(wrong[1], dtype, str(dtype))
        raise _refusal(parameter, f"it holds {misfit_text(*wrong)}", hint=hint)
    result = np.empty(parameter.shape, dtype)
    copy_into(result, array)
    return result


def in_place(parameter: Parameter, value: Any, *, writable: bool) -> np.ndarray:
    """Checks an array that a program is to use in place: nothing may be converted or copied."""
    _check_mask(parameter, value)
    if not isinstance(value, np.ndarray):
        raise _refusal(parameter, f"a {type(value).__name__} cannot be bound", hint="bind a NumPy array")
    array = cast(np.ndarray, value)  # isinstance leaves its shape and element type unknown
    dtype = DTYPES[parameter.dtype]
    if array.shape != parameter.shape or array.dtype != dtype:
        raise _refusal(parameter, f"it is {array.dtype} of shape {array.shape}")
    if not (array.flags.c_contiguous and array.flags.aligned):
        raise _refusal(parameter, "it is not contiguous in memory", hint="bind np.ascontiguousarray(...)")
    if writable and not array.flags.writeable:
        raise _refusal(parameter, "it is read-only, but the program changes it", hint="bind a writable array")
    return array


def raise_noted(checks: Sequence[Check], words: np.ndarray) -> None:
    """UserError with the failures that the checks of a program recorded in its last call, if any."""
    found = [
        check.diagnostic(int(word)) for check, word in zip(checks, words, strict=True) if word != Check.FINE
    ]
    if found:
        raise UserError(found)


def _check_mask(parameter: Parameter, value: Any) -> None:
    if is_masked(value):
        raise _refusal(parameter, "its mask would be lost", hint=UNMASK)


def _refusal(parameter: Parameter, problem: str, hint: str = "") -> UserError:
    wanted = f"{DTYPES[parameter.dtype]} of shape {parameter.shape}"
    message = f"argument '{parameter.name}' must be {wanted}, but {problem}"
    return UserError(message, parameter.location, hint=hint)
