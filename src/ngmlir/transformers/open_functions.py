# SPDX-License-Identifier: Apache-2.0
"""Functions in textual IR with open lengths (`tensor<?x4xf32>`), called with arrays of any length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.core import Module, module
from ..ir.types import TensorType
from ..passes.graph.inline import inlined
from ..passes.graph.sizing.known import open_lengths, sampled_lengths
from ..passes.graph.sizing.opened import Opened
from ..runtime.timing import Profile
from ..support.diagnostics import Diagnostic, UserError
from ..support.lengths import LEAST
from ..support.rows import Length
from ..support.spelling import counted
from .backends import backend_for
from .host_steps import Run
from .specialise import Key, Specialised

if TYPE_CHECKING:
    from ..runtime.open_cpu import OpenCpu

#: How many programs of one function are cached.
_KEPT = 16


class OpenFunction:
    """A function with open lengths; `ng.compile(function, target="cpu")` makes it a function of arrays."""

    def __init__(self, of: Module, symbol: str):
        self.opened = Opened(of, symbol)
        self.main = self.opened.main

    def compiled(
        self, target: str = "cpu", profile: Profile | None = None, threads: int | None = None
    ) -> CompiledFunction:
        """A function of arrays; its programs are compiled under `profile`, for `threads` threads."""
        return CompiledFunction(self.opened, target, profile, threads)


class CompiledFunction:
    """A function with open lengths, called with arrays in the order of its arguments; returns a tuple of arrays.

    On CPUs one program serves all lengths from two on, on GPUs if its rows are independent; otherwise one is made for
    each length and cached. Raises UserError for arrays that do not fit.
    """

    def __init__(
        self,
        of: Opened,
        target: str,
        profile: Profile | None = None,
        threads: int | None = None,
    ):
        self.of, self.target, self.profile = of, target, profile
        self._programs: Specialised[Run] = Specialised(target, _KEPT, profile, threads)
        self.threads = self._programs.threads
        #: Receives all calls: a builtin once there is code for all lengths.
        self._run: Run = self._run_slowly
        if len(of.names) == 1 and self._programs.device.has_memory:
            with self._programs.making():
                self._run = self._programs.for_rows(module([of.main])) or self._run

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        return tuple(self._run(*values))

    def _run_slowly(self, *values: Any) -> tuple[Any, ...]:
        arrays = [np.asarray(value) for value in values]
        known = self._known(arrays)
        run = self._programs.get(tuple(known.values()), lambda: self._made(known))
        return tuple(run(*arrays))

    def _made(self, known: Mapping[tuple[int, int], int]) -> Run:
        """The callable for these lengths."""
        key, symbol = tuple(known.values()), self.of.main.symbol
        names = {place: name for name, places in self.of.names.items() for place in places}

        def program(_: Key, lengths: Mapping[str, int], code: OpenCpu) -> Run:
            run = code.ready(lengths)
            self._run = code.quick(self._run_slowly)
            return run

        at = {i: names[place] for i, place in enumerate(known)}
        found = self._programs.for_lengths(key, at, [self.of.module], program, symbol, first=True)
        if found is not None:
            return found
        made = self.of.at(known)
        if self._programs.device.has_memory:
            rows = self._programs.for_rows(made, self.of.lengths)
            if rows is not None:
                counted = [each is not None and each.dimension for each in rows.how.arguments]
                places = [n for n, (i, d) in enumerate(known) if counted[i] is not False and counted[i] == d]
                if not self.of.sampled:
                    self._programs.add_open(key, places, rows, rows)
                return rows
        if min(key, default=LEAST) >= LEAST:
            called = ", ".join(length.name for length in self.of.lengths)
            self._programs.count(lambda made: f"@{symbol} was compiled for {made} lengths of {called}")
        return backend_for(self.target)(made)(symbol, {}, (), tuple)

    def _known(self, arrays: Sequence[np.ndarray[Any, Any]]) -> dict[tuple[int, int], int]:
        """The open lengths of the arrays, by argument and dimension."""
        main = self.of.main
        arguments = main.block.args
        if len(arrays) != len(arguments):
            raise UserError(
                f"@{main.symbol} takes {counted(len(arguments), 'argument')}, but {len(arrays)} were given"
            )
        known: dict[tuple[int, int], int] = {}
        for length in self.of.lengths:
            for i, d in length.places:
                type = arguments[i].type
                assert isinstance(type, TensorType)
                if arrays[i].ndim != len(type.shape):
                    message = f"argument '{arguments[i].name or i}' is {type}, not of shape {arrays[i].shape}"
                    raise UserError(Diagnostic(message, main.location))
                known[i, d] = arrays[i].shape[d]
            one = length in self.of.sampled or self._named(length)
            if len(said := {known[place] for place in length.places}) > 1 and one:
                message = f"the arrays have {sorted(said)} along {length.name}, which is one length"
                raise UserError(Diagnostic(message, main.location))
        return known

    def _named(self, length: Length) -> bool:
        """Whether the length is that of a named axis: in types without axis names, dimensions with the same length name
        may differ."""
        i, d = length.places[0]
        type = self.of.main.block.args[i].type
        return isinstance(type, TensorType) and type.axes is not None and type.axes[d] == length.name


def open_functions(of: Module) -> dict[str, OpenFunction]:
    """The functions of a module, by name, if any has an open length; else empty."""
    written = [op for op in of.ops if op.name == "func.func" and op.regions[0].blocks]
    if not any(open_lengths(op) or sampled_lengths(op) for op in written):
        return {}
    functions = [op for op in inlined(of).ops if op.name == "func.func" and op.regions[0].blocks]
    return {op.symbol: OpenFunction(of, op.symbol) for op in functions}
