# SPDX-License-Identifier: Apache-2.0
"""Programs that were read from files: `ng.compile` makes them functions of arrays.

A program is compiled for the first lengths of its inputs, and when other lengths come, for all, exactly as an executor
of the front end compiles it: results have the same bits as those of an executor that ran the same batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..ir.literals import dtype_of, type_of_dtype
from ..ir.types import TensorType
from ..op_graph.answers import answered
from ..op_graph.values import converted, numbers
from ..programs.descriptions import Program, Variable
from ..programs.fitting import check_fed, has_shape
from ..programs.interface import random_state
from ..programs.models import StoredModel, read_model
from ..programs.names import RANDOM, offsets_names
from ..programs.ragged import check_offsets, cut
from ..runtime.targets import device_named
from ..runtime.threads import checked_threads
from ..runtime.timing import Profile
from ..support.diagnostics import UserError
from ..support.spelling import counted, did_you_mean
from .compiled_programs import Compiled, compiled
from .fed_programs import FedProgram, Shapes, places_of
from .host_steps import Run
from .outputs import Outputs

Array = np.ndarray[Any, Any]
#: How many programs of one model are cached.
_KEPT = 64


class ProgramModel:
    """A program and the values of its variables; `ng.compile(model, target="cpu")` makes it a function of arrays."""

    def __init__(self, stored: StoredModel):
        self.stored = stored
        self.inputs: Sequence[Variable] = stored.feeds
        self.outputs: Sequence[Variable] = stored.fetches

    @property
    def input_names(self) -> list[str]:
        return [variable.name for variable in self.inputs]

    @property
    def output_names(self) -> list[str]:
        return [variable.name for variable in self.outputs]

    def compiled(
        self, target: str = "cpu", profile: Profile | None = None, threads: int | None = None
    ) -> CompiledProgram:
        """A function of arrays; its programs are compiled under `profile`, for `threads` threads."""
        return CompiledProgram(self, target, profile, threads)

    def __repr__(self) -> str:
        return f"<program from {', '.join(self.input_names) or 'nothing'} to {', '.join(self.output_names)}>"


class _Ready(NamedTuple):
    """The callable of a program for some lengths, and whether it only computes lengths that the program needs."""

    run: Run
    measures: bool


class CompiledProgram:
    """A program as a function: called with arrays in the order of its inputs, or by their names. The offsets of ragged
    tensors are separate inputs and outputs, after the others: `x@LOD0` has those of the outermost level of x.

    It is compiled for the first lengths, and when other lengths come, for all. It has its own state, which it keeps
    between calls. Raises UserError for arrays that do not fit, and for offsets that are inconsistent with their rows.
    """

    def __init__(
        self, model: ProgramModel, target: str, profile: Profile | None = None, threads: int | None = None
    ):
        device_named(target)  # raises now if there is none
        self.model, self.target, self.profile = model, target, profile
        self.threads = None if threads is None else checked_threads(threads)
        names = model.input_names
        places = places_of(model.stored.program, {v.name: len(v.type.shape) for v in model.inputs})
        self._programs = FedProgram(
            self._shaped, self._alone, self._bound, places, target, _KEPT, profile=profile, threads=threads
        )
        self._state: dict[str, _Value] = {}
        self._outputs = Outputs.of(model.output_names)
        self._ragged = [(i, v, _levels(v, names)) for i, v in enumerate(model.inputs) if v.ragged]
        given = model.output_names
        self._cut = [(i, _levels(v, given)) for i, v in enumerate(model.outputs) if v.ragged]

    @answered
    def __call__(self, *values: Any, **named: Any) -> Outputs:
        """The outputs in order; `outputs["name"]` is the one of that name."""
        arrays = self._arrays(values, named)
        shapes = [array.shape for array in arrays]
        sizes: Sequence[int] = ()
        while True:
            found = self._programs.find(shapes, sizes)
            if found is None:
                found, sizes = self._programs.get(shapes, sizes)
            run, measures = found
            results = [np.asarray(result) for result in run(*arrays)]
            if not measures:
                break
            sizes = (*sizes, *results[0].tolist())
        for at, levels in self._cut:
            results[at], cuts = cut(results[at], [results[i] for i in levels])
            for i, offsets in zip(levels, cuts, strict=True):
                results[i] = offsets
        return self._outputs(results)

    def _arrays(self, values: Sequence[Any], named: Mapping[str, Any]) -> list[Array]:
        names = self.model.input_names
        if values and named:
            raise UserError("inputs are given by position and by name", hint="use one of them")
        if named:
            if lost := [name for name in named if name not in names]:
                hint = did_you_mean(lost[0], names, f"the inputs are {', '.join(names)}")
                raise UserError(f"there is no input '{lost[0]}'", hint=hint)
            values = [named[name] for name in names if name in named]
        if len(values) != len(names):
            raise UserError(
                f"the program takes {counted(len(names), 'input')}, but {len(values)} were given",
                hint=f"its inputs are {', '.join(names)}",
            )
        arrays = [_fitting(v, value) for v, value in zip(self.model.inputs, values, strict=True)]
        for at, variable, levels in self._ragged:
            check_offsets(variable, [arrays[i] for i in levels], arrays[at].shape[0])
        return arrays

    def _shaped(self, shapes: Shapes) -> Program:
        """The program for inputs of these shapes."""
        program = self.model.stored.program.copy()
        for variable, shape in zip(self.model.inputs, shapes, strict=True):
            program.top.visible(variable.name).type = TensorType(tuple(shape), variable.element)
        return program

    def _alone(self, program: Program, sizes: Sequence[int]) -> Compiled:
        return compiled(program, self.target, sizes)

    def _bound(self, made: Compiled) -> _Ready:
        interface, bind, measures = made
        first = len(interface.feeds)
        state = {first + i: self._value(each.name) for i, each in enumerate(interface.states)}
        run = bind("main", state, interface.tied, tuple)
        names = self.model.input_names
        order = [names.index(name) for name in interface.feeds]
        if order == [*range(len(names))]:
            return _Ready(run, measures)

        def ordered(*arrays: Any) -> Sequence[Any]:
            return run(*[arrays[i] for i in order])

        return _Ready(ordered, measures)

    def _value(self, name: str) -> _Value:
        """The state under a name, which all its programs share."""
        if name not in self._state:
            if name == RANDOM:
                array = random_state(self.model.stored.program.random_seed)
            else:
                array = self.model.stored.values[name].array.copy()
            self._state[name] = _Value(array)
        return self._state[name]


class _Value:
    """State that a program keeps between calls, on the host or on a GPU."""

    def __init__(self, array: Array):
        self.host = array
        self._device: Any = None

    def on(self, device: Any) -> Any:
        if self._device is None:
            from ..runtime.gpu_device import to_device
            from ..support.diagnostics import UNKNOWN

            element = type_of_dtype(self.host.dtype).text
            self._device = to_device(device, self.host, element, "tensor", UNKNOWN)
        return self._device

    def get(self) -> Array:
        return self.host.copy() if self._device is None else self._device.numpy()


def _levels(variable: Variable, names: Sequence[str]) -> list[int]:
    """The indices of a variable's offsets among the names."""
    return [names.index(name) for name in offsets_names(variable.name, variable.ragged)]


def _fitting(variable: Variable, value: Any) -> Array:
    """A value as the array of an input; numbers of other types are converted if that does not change their values."""
    what = f"the value for '{variable.name}'"
    array = numbers(value, what)
    if array.dtype != dtype_of(variable.element) and has_shape(variable, array.shape):
        array = converted(array, variable.element, what)
    check_fed(variable, array)
    return array


def read_program(path: Path) -> ProgramModel:
    """The program for inference in a folder or file. Raises what `read_model` raises."""
    return ProgramModel(read_model(path))
