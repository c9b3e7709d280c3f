# SPDX-License-Identifier: Apache-2.0
"""Ops that a function of NumPy arrays computes, on the host, with derivatives that a user states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, cast

import numpy as np

from ..ir.types import Type
from ..ops.hosts import HostFunction
from .axes import Axes, make_axes
from .errors import UserError, fail
from .tensor import Tensor
from .user_ops import Call, OpaqueDefinition, OpaqueOp, op_class_name
from .values import as_op, element_of


class HostOp(OpaqueOp):
    """An op whose value a function of NumPy arrays computes."""

    definition: HostDefinition

    def __init__(
        self,
        call: Call,
        operands: Sequence[Tensor],
        axes: Axes,
        element: Type,
        function: HostFunction,
        index: int | None = None,
    ):
        super().__init__(call, operands, axes, element, index)
        self.function = function


class Together:
    """A function that gives several results: called once for all of them, where they are asked for with the same arrays."""

    def __init__(self, function: Callable[..., Any], name: str, count: int):
        self.function, self.name, self.count = function, name, count
        self._lock = Lock()
        self._given: list[np.ndarray[Any, Any]] = []
        self._made: dict[int, Any] = {}  # results that were not requested yet

    def part(self, index: int) -> Callable[..., Any]:
        """The function that gives one of the results."""

        def function(*arrays: Any) -> Any:
            with self._lock:
                if index not in self._made or not self._same(arrays):
                    self._call(arrays)
                made = self._made.pop(index)
                if not self._made:
                    self._given = []
                return made

        return function

    def _same(self, arrays: Sequence[Any]) -> bool:
        return all(a.tobytes() == b.tobytes() for a, b in zip(arrays, self._given, strict=True))

    def _call(self, arrays: Sequence[Any]) -> None:
        made = self.function(*arrays)
        if not isinstance(made, (tuple, list)) or len(cast("Sequence[Any]", made)) != self.count:
            fail(
                UserError,
                f"the host op {self.name} gave {type(cast('object', made)).__name__}, not {self.count} arrays",
                "results= is their number: return them as a tuple",
            )
        self._given = [np.array(a) for a in arrays]
        self._made = dict(enumerate(cast("Sequence[Any]", made)))


class HostDefinition(OpaqueDefinition):
    """What `ng.host_op` gives."""

    kind = "host op"

    def __init__(
        self, function: Callable[..., Any], axes: Any = None, dtype: Any = None, results: int | None = None
    ):
        super().__init__(function)
        self.axes, self.dtype, self.results = axes, dtype, results
        #: The class of its ops.
        self.op_class: type[HostOp] = type(
            op_class_name(self.name), (HostOp,), {"definition": self, "__doc__": function.__doc__}
        )
        self._plain: dict[int, HostFunction] = {}  # by the number of tensors, where nothing else is given

    def apply(self, *args: Any, **named: Any) -> HostOp | tuple[HostOp, ...]:
        """The op on these arguments: tensors and arrays are handed over as arrays, anything else as it is."""
        args = tuple(as_op(a) if isinstance(a, np.ndarray) else a for a in args)
        call = Call(args, named)
        if self.results is not None:
            return self.several(call, call.tensors)
        axes, dtype = self._said(self.axes, call), self._said(self.dtype, call)
        return self.op_class(
            call, call.tensors, self._axes(axes, call), self._element(dtype, call), self._function(call)
        )

    def several(self, call: Call, operands: Sequence[Tensor]) -> tuple[HostOp, ...]:
        """The ops of several results, on these operands."""
        assert self.results is not None
        count = self.results
        axes, dtype = self._said(self.axes, call), self._said(self.dtype, call)
        axes = [None] * count if axes is None else axes
        dtypes = cast("Sequence[Any]", dtype) if isinstance(dtype, (tuple, list)) else [dtype] * count
        for given, what in ((axes, "axes"), (dtypes, "dtype")):
            if not isinstance(given, (tuple, list)) or len(cast("Sequence[Any]", given)) != count:
                fail(UserError, f"{what} of {self.name} is not of {count} results", f"{what}=(..., ...)")
        together = Together(self._plainly(call), self.name, count)
        return tuple(
            [
                self.op_class(
                    call, operands, self._axes(a, call), self._element(d, call),
                    HostFunction(f"{self.name}_{i}", together.part(i), self.location), i,
                )
                for i, (a, d) in enumerate(zip(axes, dtypes, strict=True))
            ]
        )  # fmt: skip

    def _said(self, what: Any, call: Call) -> Any:
        """What is declared; a function of the op's arguments says it when it is called."""
        if not callable(what) or isinstance(what, type):
            return what
        args, named = call.filled(call.tensors)
        return what(*args, **named)

    def _axes(self, axes: Any, call: Call) -> Axes:
        if axes is not None:
            return make_axes(axes)
        if not call.tensors:
            fail(UserError, f"the axes of {self.name} are not known", "@ng.host_op(axes=[...])")
        return call.tensors[0].axes

    def _element(self, dtype: Any, call: Call) -> Type:
        if dtype is not None:
            return element_of(dtype)
        return call.tensors[0].element if call.tensors else element_of("f32")

    def _function(self, call: Call) -> HostFunction:
        count = len(call.tensors)
        if len(call.args) == count and not call.named and all(isinstance(a, Tensor) for a in call.args):
            found = self._plain.get(count)
            if found is None:
                found = self._plain[count] = HostFunction(self.name, self.function, self.location)
            return found

        return HostFunction(self.name, self._plainly(call), self.location)

    def _plainly(self, call: Call) -> Callable[..., Any]:
        """The function of the arrays alone."""

        def function(*arrays: Any) -> Any:
            args, named = call.filled(arrays)
            return self.function(*args, **named)

        return function


def host_op(
    function: Callable[..., Any] | None = None,
    *,
    axes: Any = None,
    dtype: Any = None,
    results: int | None = None,
) -> Any:
    """A decorator (`@ng.host_op`, `@ng.host_op(axes=..., dtype=...)`): an op that a function of NumPy arrays computes.

    Args:
        axes: the axes of the result, or a function of the op's arguments that gives them; those of the first tensor else.
        dtype: the elements of the result, or a function that gives them; those of the first tensor else.
        results: how many results it gives, as a tuple; `axes` and `dtype` are then those of each, and the function is called
            once for those that are asked for. Its gradient takes tuples: `gradient(deltas, results, *arguments)`.

    The function gets arrays that it cannot change, and gives one array of that shape and type (floats are rounded to it).
    It gives the same for the same, since it is called when its value is needed and not otherwise. It runs on the host on
    every transformer, between compiled parts of the program. `@f.gradient` states a derivative, in ops; without one,
    `ng.deriv` through it is NotDifferentiable. A second op of its name is a UserError that names the first place (docs/graph.md says
    what counts as the same definition).
    """
    if function is None:
        return lambda function: host_op(function, axes=axes, dtype=dtype, results=results)  # pyright: ignore
    if not callable(function):
        fail(UserError, f"{function!r} is not a function", "@ng.host_op(axes=...) decorates a function")
    if results is not None and (not isinstance(results, int) or results < 1):  # pyright: ignore[reportUnnecessaryIsInstance]
        fail(UserError, f"a host op cannot have {results!r} results", "results=2")
    made = HostDefinition(function, axes, dtype, results)
    made.registered()
    return made
