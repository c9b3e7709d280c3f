# SPDX-License-Identifier: Apache-2.0
"""Python functions that programs call: a declaration with the attribute `ng.host` names one; text does not contain it.

A kernel with the attribute `ng.op` names the user's op that it implements, which may have such a function too: its reference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary, ref

import numpy as np

from ..ir.core import Op
from ..ir.literals import dtype_of
from ..ir.types import Type, shape_of
from ..support.arrays import misfit, misfit_text
from ..support.diagnostics import Diagnostic, Location, UserError
from ..support.spelling import did_you_mean
from .fields import get_str

#: The attribute of a function without a body: the name of the Python function that it is.
HOST = "ng.host"
#: The attribute of a kernel: the name of the user's op that it implements.
OP = "ng.op"


class Refusal(Exception):
    """Raised by a host function whose arrays have no result: an error of class `kind` at the op that called it."""

    def __init__(self, kind: type[UserError], message: str, hint: str = ""):
        super().__init__(message)
        self.kind, self.message, self.hint = kind, message, hint


_known: WeakValueDictionary[str, HostFunction] = WeakValueDictionary()
_lock = Lock()


class HostFunction:
    """A function from arrays to arrays, registered in this process under a name that is unique while it lives.

    `what` is the kind of op in messages; `function` is None for a name that only refers to a `definition`.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any] | None,
        location: Location,
        *,
        what: str = "host op",
        definition: object = None,
    ):
        self.function = function
        self.called, self.location = f"{what} {name}", location
        self._definition = None if definition is None else ref(definition)
        with _lock:
            self.name, number = name, 1
            while self.name in _known:
                number += 1
                self.name = f"{name}_{number}"
            _known[self.name] = self

    @property
    def definition(self) -> Any:
        """The object that registered the function; None if it is not known."""
        return None if self._definition is None else self._definition()

    def __call__(
        self, arrays: Sequence[np.ndarray[Any, Any]], types: Sequence[Type], place: Location
    ) -> list[np.ndarray[Any, Any]]:
        """The results, as new arrays. The function gets read-only arrays.

        Raises UserError at `place` if the results do not match the declaration, or the function raises a Refusal; other exceptions
        are passed on.
        """
        seen = [array.view() for array in arrays]
        for array in seen:
            array.flags.writeable = False
        assert self.function is not None
        try:
            given = self.function(*seen)
        except Refusal as refusal:
            raise refusal.kind(Diagnostic(refusal.message, place, hint=refusal.hint)) from None
        except Exception as error:
            error.add_note(f"in the {self.called}, used at {place}")
            raise
        results = (given,) if len(types) == 1 else given
        if len(types) != 1 and (not isinstance(given, (tuple, list)) or len(given) != len(types)):
            raise self._wrong(f"gave {_described(given)}, not {len(types)} arrays", place)
        return [self._checked(value, type, place) for value, type in zip(results, types, strict=True)]

    def _checked(self, value: Any, type: Type, place: Location) -> np.ndarray[Any, Any]:
        dtype, shape = dtype_of(type), shape_of(type)
        wanted = f"{dtype} of shape {tuple(shape)}"
        try:
            array = np.asarray(value)
        except (TypeError, ValueError):
            raise self._wrong(f"gave {_described(value)}, not {wanted}", place) from None
        if array.dtype != dtype and _kind(array.dtype) != _kind(dtype):
            hint = f"end with .astype({str(dtype)!r}), or declare dtype={str(array.dtype)!r}"
            raise self._wrong(f"gave {_described(value)}, not {wanted}", place, hint)
        if array.shape != tuple(shape):
            hint = "the shape of a result follows from the declared axes (axes=)"
            raise self._wrong(f"gave {_described(value)}, not {wanted}", place, hint)
        if (wrong := misfit(array, dtype)) is not None:
            raise self._wrong(f"gave {misfit_text(*wrong)}, which {dtype} cannot hold", place)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.array(array, dtype, order="C")

    def _wrong(self, what: str, place: Location, hint: str = "") -> UserError:
        message = f"the {self.called} {what}"
        note = f"its function is at {self.location}"
        return UserError(Diagnostic(message, place, hint=f"{hint}; {note}" if hint else note))


def _kind(dtype: np.dtype[Any]) -> str:
    return {"V": "f", "u": "i"}.get(dtype.kind, dtype.kind)


def _described(value: Any) -> str:
    if isinstance(value, (np.ndarray, np.generic)):
        return f"{value.dtype} of shape {value.shape}"
    return "None" if value is None else f"a {type(value).__name__}"


def host_name(function: Op) -> str:
    """The name of the Python function that a declaration names; '' for any other function."""
    return get_str(function, HOST) if HOST in function.attributes else ""


def host_function(function: Op, place: Location) -> HostFunction:
    """The Python function that a declaration names; UserError if none of that name is registered in this process."""
    name = host_name(function)
    found = _known.get(name)
    if found is None or found.function is None:
        near = did_you_mean(name, [*_known], "")
        raise UserError(
            Diagnostic(
                f"@{function.symbol} is the Python function {name}, which text does not contain",
                place,
                hint=near or "run the program in a process that defines the function (ng.host_op)",
            )
        )
    return found


def op_of_kernel(kernel: Op) -> Any:
    """The object that registered the user's op that a kernel implements; None if there is none, or not in this process."""
    known = _known.get(get_str(kernel, OP)) if OP in kernel.attributes else None
    return None if known is None else known.definition
