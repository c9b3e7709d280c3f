# SPDX-License-Identifier: Apache-2.0
"""Functions in textual IR with open lengths (`tensor<?x4xf32>`, `tensor<[N]x4xf32>`), called with arrays of any length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.core import Module
from ..ir.types import TensorType
from ..ops.open_lengths import has_open_lengths
from ..passes.graph.inline import inlined
from ..passes.graph.known_lengths import Opened
from ..runtime.timing import Profile
from ..support.diagnostics import Diagnostic, UserError
from ..support.length_places import LengthPlace
from ..support.lengths import SEVERAL
from ..support.spelling import counted
from .backends import backend_for
from .host_steps import Run
from .specialise import Key, Make, Specialised

if TYPE_CHECKING:
    from ..runtime.open_cpu import OpenCpu

#: How many programs of one function are cached.
_KEPT = 16


class OpenFunction:
    """A function with open lengths; `ng.compile(function, target="cpu")` makes it a function of arrays."""

    def __init__(self, of: Module, symbol: str):
        self.opened = Opened(of, symbol)

    def compiled(
        self, target: str = "cpu", profile: Profile | None = None, threads: int | None = None
    ) -> CompiledFunction:
        """A function of arrays; its programs are compiled under `profile`, for `threads` threads."""
        return CompiledFunction(self.opened, target, profile, threads)


class CompiledFunction:
    """A function with open lengths, called with arrays in the order of its arguments; returns a tuple of arrays.

    On CPUs one program serves all lengths from two on, if there is one; otherwise, and on GPUs, one is made for each length
    and cached. Raises UserError for arrays that do not fit.
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

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        return tuple(self._run(*values))

    def _run_slowly(self, *values: Any) -> tuple[Any, ...]:
        arrays = [np.asarray(value) for value in values]
        known = self._known(arrays)
        run = self._programs.get(tuple(known.values()), lambda: self._made(known))
        return tuple(run(*arrays))

    def _made(self, known: Mapping[LengthPlace, int]) -> Run:
        """The callable for these lengths."""
        key, symbol = tuple(known.values()), self.of.main.symbol
        names = {place: length.name for length in self.of.lengths for place in length.places}

        def program(_: Key, lengths: Mapping[str, int], code: OpenCpu) -> Run:
            run = code.ready(lengths)
            self._run = code.quick(self._run_slowly)
            return run

        at = {i: names[place] for i, place in enumerate(known)}
        found = self._programs.for_lengths(key, at, [Make(self.of.module)], program, symbol, first=True)
        if found is not None:
            return found
        if min(key, default=SEVERAL) >= SEVERAL:
            called = ", ".join(length.name for length in self.of.lengths)
            self._programs.count(lambda made: f"@{symbol} was compiled for {made} lengths of {called}")
        return backend_for(self.target)(self.of.at(known))(symbol, {}, (), tuple)

    def _known(self, arrays: Sequence[np.ndarray[Any, Any]]) -> dict[LengthPlace, int]:
        """The open lengths of the arrays, by where they are read."""
        main = self.of.main
        arguments = main.block.args
        if len(arrays) != len(arguments):
            raise UserError(
                f"@{main.symbol} takes {counted(len(arguments), 'argument')}, but {len(arrays)} were given"
            )
        shapes = [array.shape for array in arrays]
        known: dict[LengthPlace, int] = {}
        for length in self.of.lengths:
            for place in length.places:
                value, shape = arguments[place.argument], shapes[place.argument]
                type = value.type
                assert isinstance(type, TensorType)
                known[place] = place.length(shapes) if len(shape) == len(type.shape) else -1
                if known[place] < 0:
                    message = f"argument '{value.name or place.argument}' is {type}, not of shape {shape}"
                    raise UserError(Diagnostic(message, main.location))
            if length.is_one and len(said := {known[place] for place in length.places}) > 1:
                message = f"the arrays have {sorted(said)} along {length.name}, which is one length"
                raise UserError(Diagnostic(message, main.location))
        return known


def open_functions(of: Module) -> dict[str, OpenFunction]:
    """The functions on tensors of a module, by name, if any has an open length; else empty."""
    written = [op for op in of.ops if op.name == "func.func" and op.regions[0].blocks]
    if not any(map(has_open_lengths, written)) or any("ng.arguments" in op.attributes for op in written):
        return {}
    functions = [op for op in inlined(of).ops if op.name == "func.func" and op.regions[0].blocks]
    return {op.symbol: OpenFunction(of, op.symbol) for op in functions}
